"""`p2p-sim new`: a first scenario, copied or written for a table; four commands lead from a table to a report."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.base.shipped_files import SCENARIOS
from p2p_sim.cli.new import copied, from_table, proposed
from p2p_sim.population.table_survey import look_at
from p2p_sim.replicate.run import run
from p2p_sim.scenario import load_scenario
from tests.commands import command
from tests.conftest import ROOT

ROWS = 240


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty directory, without a data directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("P2P_SIM_DATA", raising=False)
    return tmp_path


def patients(**columns):
    """A table as people have them: an identifier, names, texts, gaps, scales, three classes of text."""
    rng = np.random.default_rng(2)
    age, income = rng.integers(18, 90, ROWS), rng.normal(4e4, 1.5e4, ROWS).round()
    city = np.array(["Paris", "Rome", "Oslo"])[rng.integers(0, 3, ROWS)]
    score = (age - 54) / 20 + (income - 4e4) / 1.5e4 + rng.normal(0, 0.5, ROWS)
    table = pd.DataFrame({"patient_id": np.arange(ROWS) + 7000, "name": [f"n{i}" for i in range(ROWS)]})
    table = table.assign(age=age.astype(object), income=income, city=city.astype(object), unit="cm")
    table["risk"] = np.where(score < -0.6, "low", np.where(score < 0.6, "medium", "high"))
    table.loc[rng.choice(ROWS, 9, replace=False), "age"] = "?"
    table.loc[rng.choice(ROWS, 7, replace=False), "city"] = None
    table.loc[3, "risk"] = None
    return table.assign(**columns)


@pytest.mark.slow
def test_four_commands_lead_from_a_table_to_a_report():
    patients().to_csv("patients.csv", index=False, sep=";")
    status, out, err = command("new", "patients", "--data", "patients.csv", "--label", "risk")
    assert (status, err) == (0, "")
    for seen in (
        "cells are separated by ';'",
        '"?" is read as a missing value',
        "3 classes of 'risk', sorted: high, low, medium",
        "1 users without a label are left out",
        "column 'patient_id' is left out: every user has a number of her own there",
        "column 'name' is left out: a text with 240 different values",
        "column 'unit' is left out: it has the same value for all users",
        "missing values are filled in: 'age' (9), 'city' (7)",
        "columns of text become one-hot: 'city'",
        "columns of numbers are standardised",
        "clusters: 13, of about 14 users each, chosen from the number of users alone",
    ):
        assert seen in out
    assert Path("patients.toml").read_text("utf-8").count("#") >= 15
    status, found, err = command("validate", "patients.toml")
    assert (status, err) == (0, "")
    status, shown, err = command("run", "patients.toml", "--set", "replicates=2")
    assert (status, "varies" in err) == (0, False)
    [results] = [line.split()[-1] for line in out.splitlines() if line.startswith("then: p2p-sim report ")]
    assert results.endswith(found.split("ok, hash ")[1].split()[0])
    assert f"{results}/rows.jsonl" in shown
    status, page, _ = command("report", results)
    assert status == 0
    assert "accuracy, always the majority class" in Path(page.strip()).read_text("utf-8")


def small(users: int, seed: int = 0, shuffled: bool = False) -> None:
    """A table patients.csv of four numbers and a diagnosis that depends on three of them; shuffled: on none."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(users, 4)).round(3)
    ill = features @ [1.5, -1.0, 0.7, 0.0] + rng.normal(0, 0.5, users) > 0
    label = np.where(rng.permutation(ill) if shuffled else ill, "ill", "well")
    pd.DataFrame(features, columns=list("abcd")).assign(diagnosis=label).to_csv("patients.csv", index=False)


def test_the_guide_shows_what_is_written_for_160_users_and_labels_have_no_part_in_it():
    for shuffled in (False, True):
        small(160, shuffled=shuffled)
        assert command("new", "patients", "--data", "patients.csv", "--label", "diagnosis")[0] == 0
        text = Path("patients.toml").read_text("utf-8")
        assert f"```toml\n{text}```" in (ROOT / "docs" / "own-data.md").read_text("utf-8")
        Path("patients.toml").unlink()


@pytest.mark.parametrize("rows", [2, 3, 5, 100, 1000, 32_561])
def test_there_are_as_many_clusters_as_users_in_each_and_at_most_100(rows):
    count, users = proposed(rows)
    assert users == max(2, round(0.8 * rows))
    assert 1 <= count <= 100
    assert count == 100 or 0 <= users // count - count <= 2


def test_the_proposed_clusters_of_160_users_teach_more_than_two_large_ones():
    """Accuracy on 10 replicates each of three tables; two large clusters, the control, teach little."""
    accuracy: dict[str, list[float]] = {"proposed": [], "two": []}
    for seed in range(3):
        small(160, seed)
        made = from_table(f"s{seed}", Path("patients.csv"), "diagnosis")
        scenario = load_scenario(made.path).replace(engine="vectorised")
        two = scenario.replace(clusters={"kind": "kmeans", "count": 2, "min_size": 32})
        for name, one in (("proposed", scenario), ("two", two)):
            accuracy[name] += [1 - run(one, replicate=replicate).row["error_rate"] for replicate in range(10)]
    assert np.mean(accuracy["two"]) < 0.65
    assert np.mean(accuracy["proposed"]) > 0.75


def test_each_problem_of_the_same_table_is_named_in_one_line_with_a_way_out():
    """Without `new`: each refusal says which key to add, until the scenario runs."""
    patients().to_csv("patients.csv", index=False, sep=";")
    keys: dict[str, object] = {"kind": "table", "path": "patients.csv", "label": "risk"}
    steps = [
        ('population.separator = ";" would make 7 columns', {"separator": ";"}),
        ("column 'name', line 2: 'n0' is no number", {"features": ["age", "income", "city"]}),
        ("line 5: has no value; population.drop = true leaves such users out", {"drop": ["risk"]}),
        ("is no number (9 such cells); population.missing = [\"?\"]", {"missing": ["?"]}),
        ("has no value (9 such cells); population.impute = [\"age\"]", {"impute": ["age", "city"]}),
        ("population.one_hot = [\"city\"]", {"one_hot": ["city"]}),
    ]  # fmt: skip
    rest = '[clusters]\nkind = "kmeans"\ncount = 3\n[mechanism]\nflip_prob = 0.1\nsampling_rate = 0.5\n'
    left = dict(steps)
    for _ in range(len(steps) + 1):
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        Path("s.toml").write_text(f'name = "s"\n[population]\n{lines}{rest}', "utf-8")
        status, _, err = command("validate", "s.toml")
        if status == 0:
            break
        assert len(err.splitlines()) == 1
        [found] = [message for message in left if message in err]
        keys |= left.pop(found)
    assert (status, left) == (0, {})
    assert "population.standardise = true makes them alike" in err


def test_a_file_without_a_header_is_recognised():
    patients()[["age", "income", "risk"]].to_csv("bare.csv", index=False, header=False)
    status, out, _ = command("new", "bare", "--data", "bare.csv", "--label", "3")
    assert status == 0
    assert 'line 1 is data, not names: columns are called "1" to "3"' in out
    population = load_scenario("bare.toml").population
    assert (population.header, population.label, population.missing) == (False, "3", ("?",))


@pytest.mark.parametrize(
    ("values", "left_out"),
    [
        (np.arange(ROWS) * 10**6, True),
        (np.arange(ROWS)[::-1], True),
        (np.random.default_rng(0).permutation(ROWS), False),
        (np.arange(ROWS) + 0.5, False),
        (np.arange(ROWS) // 2, False),
    ],
)
def test_identifiers_are_left_out(values, left_out):
    patients(code=values).to_csv("t.csv", index=False)
    found = look_at(Path("t.csv"), "risk")
    assert ("code" not in found.keys["features"]) == left_out


def test_a_shipped_scenario_is_copied_with_its_comments_and_files():
    status, out, _ = command("new", "mine")
    assert (status, out.splitlines()[0]) == (0, "mine.toml")
    mine, theirs = (path.read_text("utf-8") for path in (Path("mine.toml"), SCENARIOS / "quickstart.toml"))
    assert mine == theirs.replace('name = "quickstart"', 'name = "mine"')
    made = copied("traced", "network/latency-trace")
    assert made.notes[1:] == ("with latency.csv",)
    assert Path("latency.csv").read_text("utf-8") == (SCENARIOS / "network/latency.csv").read_text("utf-8")
    again = copied("again", "mine.toml").path
    assert tomllib.loads(again.read_text("utf-8"))["name"] == "again"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine"], "mine.toml: exists already; choose another name"),
        (["a/b"], "NAME a/b: letters, digits"),
        (
            ["b", "--from", "quikstart"],
            "nothing of p2p-sim has this name; did you mean quickstart?",
        ),
        (["b", "--from", "sweeps/privacy-utility"], "is a sweep; give the scenario that it varies"),
        (["b", "--label", "y"], "--label y: names a column of a table; give the table with --data FILE"),
        (["b", "--data", "t.csv", "--from", "quickstart"], "does not go with --data t.csv; choose one"),
        (["b", "--data", "none.csv", "--label", "y"], "--data none.csv: no such file"),
        (["b", "--data", "t.csv"], "--label is missing; t.csv has 'patient_id', 'name', 'age'"),
        (["b", "--data", "t.csv", "--label", "y"], "--label y: no such column; t.csv has 'patient_id'"),
        (["b", "--data", "t.csv", "--label", "patient_id"], "divide its numbers into a few ranges first"),
        (["b", "--data", "t.csv", "--label", "unit"], "--label unit: 1 different values"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(here, arguments, message):
    (here / "mine.toml").write_text("precious")
    rows = pd.concat([patients(), patients(patient_id=np.arange(ROWS))])
    rows.to_csv("t.csv", index=False)
    before = sorted(here.iterdir())
    status, out, err = command("new", *arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    assert sorted(here.iterdir()) == before
    assert (here / "mine.toml").read_text() == "precious"


def test_files_of_one_s_own_are_not_overwritten(here):
    (here / "latency.csv").write_text("mine")
    with pytest.raises(InputError, match=r"latency.csv: exists already"):
        copied("traced", "network/latency-trace")
    assert [path.name for path in here.iterdir()] == ["latency.csv"]
