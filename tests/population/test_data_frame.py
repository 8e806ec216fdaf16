"""A data frame as the population of a scenario."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.population.data_files import find_named
from p2p_sim.replicate.replicate import Replicate


def people(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n), "score": rng.normal(size=n).round(3)})
    frame["city"] = np.array(["Oslo", "Rome", "Malmö"])[rng.integers(0, 3, n)]
    return frame.assign(ill=np.where(frame["score"] + rng.normal(size=n) > 0, "yes", "no"))


def scenario(population, **keys):
    parts = {"clusters": {"kind": "kmeans", "count": 5}, "mechanism": {"kind": "label_exchange", "flip_prob": 0.1}}
    return p2p_sim.Scenario(name="frame", engine="vectorised", replicates=2, population=population, **parts, **keys)


def test_it_is_the_same_table_as_in_a_file(tmp_path):
    frame = people()
    found = p2p_sim.table(frame, label="ill")
    frame.to_csv(tmp_path / "t.csv", index=False)
    tree = found.model_dump(mode="json") | {"path": str(tmp_path / "t.csv")}
    file = type(found).model_validate_json(json.dumps(tree))
    rows = [p2p_sim.run(scenario(one), replicate=1).row for one in (found, file)]
    assert rows[0]["error_rate"] == rows[1]["error_rate"]
    assert rows[0]["epsilon_upper"] == rows[1]["epsilon_upper"]


def test_a_table_goes_wherever_a_population_does():
    population, noise = p2p_sim.table(people(), label="ill"), {"flip_prob": 0.1}
    replaced = p2p_sim.load_scenario("quickstart").replace(population=population)
    read = p2p_sim.Scenario.from_tree({"population": population, "mechanism": noise})
    made = p2p_sim.Scenario(population=population, mechanism=noise)
    assert replaced.population == read.population == made.population == population
    assert (read, made.mechanism.kind) == (made, "label_exchange")
    assert replaced.replace(**{"population.test_fraction": 0.5}).population.test_fraction == 0.5
    assert p2p_sim.run(made.replace(engine="vectorised")).accuracy > 0.5


def test_its_identity_is_its_content():
    frames = people(), people(), people(299)
    first, same, other = (Replicate(scenario(p2p_sim.table(frame, label="ill"))).identity for frame in frames)
    assert first == same
    assert first != other


def test_a_frame_of_another_library_is_taken():
    assert p2p_sim.table(pa.Table.from_pandas(people()), label="ill").classes == ("no", "yes")


def test_sweeps_and_their_workers_take_it(tmp_path):
    base = scenario(p2p_sim.table(people(), label="ill"))
    rows = p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1, 0.3]}, out=tmp_path / "s", workers=2)
    assert len(rows) == 4
    assert rows["error_rate"].notna().all()


def test_keys_replace_what_is_proposed():
    assert p2p_sim.table(people(), label="ill", features=["age"], one_hot=False).features == ("age",)


def test_columns_that_are_left_out_are_warned_of_in_one_line():
    frame = people().assign(note=[f"text {k}" for k in range(300)], number=np.arange(300))
    with pytest.warns(UserWarning, match="1 of 4 columns besides 'ill' are left out .'note': a text with 300") as lines:
        p2p_sim.table(frame, label="ill")
    assert [("\n" in str(line.message), line.filename == __file__) for line in lines] == [(False, True)]


@pytest.mark.filterwarnings("error")
def test_identifiers_and_what_is_left_out_as_asked_need_no_warning():
    p2p_sim.table(people().assign(number=np.arange(300)), label="ill")
    p2p_sim.table(people().assign(note=[f"text {k}" for k in range(300)]), label="ill", features=["age"])


def test_numbers_as_texts_are_numbers_with_either_decimal_sign():
    frame, rows = people(), []
    for sign in ("", ".", ","):
        if sign:
            frame["score"] = [str(value).replace(".", sign) for value in people()["score"]]
        population = p2p_sim.table(frame, label="ill", **({"decimal": ","} if sign == "," else {}))
        assert population.decimal == (sign if sign == "," else ".")
        assert p2p_sim.table(frame, label="ill") == population
        rows.append(p2p_sim.run(scenario(population)).row["error_rate"])
    assert rows[0] == rows[1] == rows[2]


ENDS = """
import os, sys, pandas as pd, p2p_sim
from p2p_sim.population.data_files import find_named
population = p2p_sim.table(pd.DataFrame({"a": range(60), "b": [1, 2, 4] * 20, "y": ["u", "v"] * 30}), label="y")
if os.fork() == 0:
    sys.exit()  # runs what was registered for the end
os.wait()
print(population.path, find_named(population.path, (), "path"), flush=True)
input()
"""


def test_the_file_of_a_frame_is_there_while_its_process_lives():
    called = [sys.executable, "-c", ENDS]
    with subprocess.Popen(called, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        name, path = process.stdout.readline().split()
        assert str(find_named(name, (), "population.path")) == path
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
        process.communicate("\n")
    assert process.returncode == 0
    assert not Path(path).parent.exists()
    with pytest.raises(InputError, match=r"until the process that called p2p_sim\.table ends: call table again"):
        find_named(name, (), "population.path")


PEAK = """
import resource, sys
import pandas as pd
import p2p_sim
from p2p_sim.cli.new import from_table
from pathlib import Path
if sys.argv[1] == "frame":
    population = p2p_sim.table(pd.read_feather("wide.feather"), label="y")
else:
    population = p2p_sim.load_scenario(from_table("csv", Path("wide.csv"), "y").path).population
parts = {"clusters": {"kind": "balanced", "count": 100}, "mechanism": {"flip_prob": 0.1}}
p2p_sim.run(p2p_sim.Scenario(engine="vectorised", population=population, **parts))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_frame_needs_no_more_memory_than_its_file(tmp_path):
    """A frame of 10^5 rows by 20, in a process of its own."""
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(100_000, 20)).round(3), columns=[f"x{k}" for k in range(20)])
    wide["y"] = np.where(wide["x0"] > 0, "yes", "no")
    wide.to_csv(tmp_path / "wide.csv", index=False)
    wide.to_feather(tmp_path / "wide.feather")
    peaks = {}
    for source in ("frame", "csv"):
        called = [sys.executable, "-c", PEAK, source]
        peaks[source] = int(subprocess.run(called, cwd=tmp_path, check=True, capture_output=True).stdout)
    assert peaks["frame"] <= 1.5 * peaks["csv"]


@pytest.mark.parametrize(
    ("frame", "label", "keys", "line"),
    [
        (people(), "sick", {}, "no such column"),
        ([1, 2], "ill", {}, "must be a data frame, such as one of pandas, not list"),
        (people().set_axis(["a", "a", "b", "ill"], axis="columns"), "ill", {}, "two columns are called 'a'"),
        (people(), "ill", {"test_fraction": 2.0}, "test_fraction"),
        (people(), "ill", {"colour": 1}, "colour"),
        (people().assign(odd=[1, "a"] * 150), "ill", {}, "^frame: .*onver.* column odd with type object$"),
    ],
)
def test_what_is_no_population_is_one_line(frame, label, keys, line):
    with pytest.raises(InputError, match=line) as refused:
        p2p_sim.table(frame, label, **keys)
    assert "\n" not in str(refused.value)
