"""The commands as a user types them, rightly and wrongly."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from p2p_sim.cli.main import main
from p2p_sim.scenario import Scenario

TEXT = """
name = "small"
replicates = 2
[population]
kind = "synthetic"
users = 400
num_clusters = 5
[mechanism]
flip_prob = 0.1
sampling_rate = 0.5
"""


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Runs the command line in an empty directory: returns (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("P2P_SIM_DATA", raising=False)
    (tmp_path / "small.toml").write_text(TEXT)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["p2p-sim", *arguments])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        out = capsys.readouterr()
        return status, out.out, out.err

    return run


def test_run_prints_a_summary_and_paths(call, tmp_path):
    status, out, _ = call("run", "small.toml")
    assert status == 0
    assert re.search(r"ε, learner: sees all submissions +[0-9.]+ at δ = 1e-05", out)
    assert "2 replicates" in out
    paths = [line for line in out.splitlines() if line.startswith("results/small-")]
    assert [path.rsplit("/")[-1] for path in paths] == [
        "rows.jsonl",
        "rows.parquet",
        "manifest.json",
        "privacy-utility.png",
    ]
    assert all((tmp_path / path).is_file() for path in paths)


def test_json_is_one_object_with_the_bounds(call):
    status, out, err = call("run", "small.toml", "--json", "--engine", "vectorised", "--out", "there")
    assert (status, err) == (0, "")
    record = json.loads(out)
    assert {"epsilon_lower", "epsilon_upper", "delta", "observer", "basis"} <= set(record)
    assert record["epsilon_lower"] <= record["epsilon_upper"] < record["epsilon_local"]
    assert record["engine"] == "vectorised"
    assert record["directory"] == "there"


def test_infinite_epsilon_is_said_in_words_that_json_has(call):
    status, out, _ = call("run", "small.toml", "--json", "--set", "mechanism.flip_prob=0.0")
    assert status == 0
    assert json.loads(out)["epsilon_upper"] == "inf"
    status, out, _ = call("run", "small.toml", "--set", "mechanism.flip_prob=0.0")
    assert "∞" in out


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_exports(call, tmp_path, suffix):
    status, out, _ = call("run", "small.toml", "--export", f"r{suffix}", "--transcript", f"t{suffix}")
    assert status == 0
    assert f"t{suffix} (" in out
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".npz": lambda p: pd.DataFrame(dict(np.load(p)))}[suffix]
    release, messages = read(tmp_path / f"r{suffix}"), read(tmp_path / f"t{suffix}")
    assert list(release) == ["replicate", "user", "cluster", "label", "x0", "x1", "x2"]
    assert set(release.replicate) == {0, 1}
    assert set(messages.kind) == {"request", "reply", "submission"}
    assert np.count_nonzero(messages.kind == "submission") == len(release)


def test_exports_overwrite_nothing(call, tmp_path):
    (tmp_path / "mine.csv").write_text("precious")
    for option in ("--export", "--transcript"):
        status, _, err = call("run", "small.toml", option, "mine.csv")
        assert status == 2
        assert "exists already" in err
    assert (tmp_path / "mine.csv").read_text() == "precious"


def test_validate_and_schema(call, tmp_path):
    status, out, _ = call("validate", "small.toml")
    assert (status, out.startswith("small.toml: ok, hash ")) == (0, True)
    (tmp_path / "bad.toml").write_text(TEXT.replace("flip_prob", "flip_prop"))
    status, out, err = call("validate", "bad.toml", "small.toml")
    assert status == 2
    assert "did you mean mechanism.flip_prob" in err
    assert "small.toml: ok" in out
    status, out, _ = call("schema")
    assert json.loads(out) == Scenario.model_json_schema()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rum"], "No such command 'rum'. Did you mean 'run'?"),
        (["run"], "Missing argument 'SCENARIO'"),
        (["run", "small.toml", "--sett", "seed=1"], "No such option: --sett"),
        (["run", "none.toml"], "none.toml: cannot be read (No such file or directory)"),
        (
            ["run", "small.toml", "--set", "mechanism.flip_prob=0.7"],
            "mechanism.flip_prob = 0.7: must be at most 0.5",
        ),
        (
            ["run", "small.toml", "--set", "mechanism.flip_prob=0.3", "--set", "mechanism.target_epsilon=1.0"],
            "--set mechanism.target_epsilon: does not go with --set mechanism.flip_prob; a scenario has one of the two",
        ),
        (
            ["run", "small.toml", "--set", "mechanism={target_epsilon=1.0}", "--set", "mechanism.flip_prob=0.3"],
            "--set mechanism.target_epsilon: does not go with --set mechanism.flip_prob; a scenario has one of the two",
        ),
        (["run", "small.toml", "--set", "mechanism.flip=0.7"], "mechanism.flip: unknown key; did you mean"),
        (
            ["run", "small.toml", "--engine", "warp"],
            "engine = \"warp\": should be 'events', 'processes' or 'vectorised'",
        ),
        (["run", "small.toml", "--data-dir", "nowhere"], "--data-dir nowhere: there is no such directory"),
        (["run", "small.toml", "--set", 'population.kind="adult"'], "name the directory with --data-dir"),
        (
            ["run", "small.toml", "--set", 'clusters={kind="given", min_size=300}'],
            "clusters.min_size = 300: the population has a",
        ),
        (["run", "small.toml", "--export", "r.xls"], "--export r.xls: must end in .csv, .parquet, .npz"),
        (["run", "small.toml", "--export", "no/r.csv"], "there is no directory no"),
        (["run", "small.toml", "--transcript", "t.csv", "--engine", "vectorised"], "needs engine = 'events'"),
        (["run", "small.toml", "--export", "x.csv", "--transcript", "x.csv"], "is the file of --export too"),
        (["run", "small.toml", "--set", "mechanism={target_epsilon=710}"], "mechanism.target_epsilon = 710: should be"),
        (["run", "small.toml", "--set", "seed=" + "9" * 5000], "is not a TOML value"),
        (["run", "small.toml", "--set", "name=1979-05-27"], 'name = ["1979-05-27"]: should be a valid string'),
        (["run", "small.toml", "--set", "population.num_clusters=1000000000000"], "num_clusters = 1000000000000"),
        (["run", "small.toml", "--out", "small.toml"], "--out small.toml: exists and holds no results"),
    ],
)
def test_mistakes_get_one_line_and_status_2(call, tmp_path, arguments, message):
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert {p.name for p in tmp_path.iterdir()} <= {"small.toml", "results"}


def test_a_directory_with_other_results_is_refused(call):
    assert call("run", "small.toml", "--out", "there")[0] == 0
    status, _, err = call("run", "small.toml", "--out", "there", "--set", "seed=5")
    assert status == 2
    assert "already holds another scenario's results" in err


def test_help_loads_nothing_heavy():
    heavy = ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "pydantic")
    code = (
        "import sys; sys.argv = ['p2p-sim', '--help']\nfrom p2p_sim.cli.main import main\n"
        f"try: main()\nexcept SystemExit: pass\nprint([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "validate" in done.stdout


@pytest.mark.parametrize("name", ["adult", pytest.param("mnist", marks=pytest.mark.slow)])
def test_real_data_runs_from_the_data_directory(data_dir, call, scenarios, name):
    settings = ["--set", "replicates=1", "--set", "population.users=4000", "--set", "clusters.count=20"]
    command = ["run", str(scenarios / f"{name}.toml"), "--data-dir", str(data_dir.resolve()), "--json", *settings]
    status, out, _ = call(*command)
    assert status == 0
    record = json.loads(out)
    assert record["error_rate"]["mean"] < 0.25
    assert record["epsilon_upper"] < 0.6


def test_quickstart_shows_what_the_readme_says(call, scenarios):
    status, out, _ = call("run", str(scenarios / "quickstart.toml"), "--json")
    assert status == 0
    record = json.loads(out)
    assert record["replicates"] == 20
    assert record["epsilon_upper"] <= 0.75
    assert record["epsilon_local"] == pytest.approx(2.197, abs=1e-3)
    assert 1 - record["error_rate"]["mean"] == pytest.approx(0.887, abs=0.01)
    assert 1 - record["nonprivate_error_rate"]["mean"] == pytest.approx(0.920, abs=0.01)


PRIVACY = ["privacy", "--cluster-size", "50", "--flip-prob", "0.1", "--sampling-rate", "0.5"]


@pytest.mark.parametrize("observer", ["learner", "learner-times", "peer", "coalition", "eavesdropper"])
def test_privacy_of_every_observer(call, observer):
    who = ["--observer", observer, *(["--members", "1"] if observer == "coalition" else ())]
    status, out, err = call(*PRIVACY, "--delta", "1e-5", *who, "--json")
    assert (status, err) == (0, "")
    record = json.loads(out)
    assert record["observer"] == observer
    assert (
        0 < record["epsilon_lower"] <= record["epsilon_upper"] <= record["epsilon_local"] or observer == "learner-times"
    )
    assert record["conditions"]
    status, out, _ = call(*PRIVACY, "--epsilon", "0.5", *who, "--json")
    record = json.loads(out)
    assert record["delta_lower"] <= record["delta_upper"] == record["delta"]
    status, out, _ = call(*PRIVACY, "--delta", "1e-5", *who)
    assert "It protects one user's label" in out


@pytest.mark.parametrize(
    ("who", "chance"),
    [(["--observer", "peer"], 1 / 50), (["--observer", "coalition", "--members", "2"], 1 - (1 - 1 / 50) ** 2)],
)
def test_a_large_delta_is_warned_of_where_somebody_may_get_the_label_itself(call, who, chance):
    """At α = 0 and such a δ a peer's ε is 0, although the peer sees the true label of whomever it asked."""
    said = f"with probability {chance:.2g} the {who[1]} receives a user's noisy label"
    for delta, warned in ((chance * 1.01, True), (chance / 9.9, True), (chance / 10.1, False)):
        _, _, err = call(*PRIVACY, "--delta", str(delta), *who)
        assert (said in err) == warned
        _, _, err = call("calibrate", "--cluster-size", "50", "--epsilon", "0.5", "--delta", str(delta),
                         "--sampling-rate", "0.5", *who)  # fmt: skip
        assert (said in err) == warned
    assert call(*PRIVACY, "--delta", "0.5")[2] == ""


@pytest.mark.parametrize("more", [("--observer", "eavesdropper"), ("--sampling-rate", "1"), ("--num-classes", "3")])
def test_without_noise_nothing_is_said_to_protect_at_any_epsilon(call, more):
    asked = ("privacy", "--cluster-size", "40", "--epsilon", "1", *more)
    protects = [
        call(*asked, "--flip-prob", alpha)[1].partition("labels are equally likely).")[2] for alpha in ("0", "0.3")
    ]
    assert protects[0].strip().startswith("Nothing here protects one user's label")
    assert "\n- " not in protects[0]
    assert protects[1].strip().startswith("It protects one user's label")


def test_rounds_memoised_and_fresh_and_many_classes(call):
    figures = []
    for more in ([], ["--rounds", "3"], ["--rounds", "3", "--fresh"], ["--num-classes", "4"]):
        status, out, _ = call(*PRIVACY, "--delta", "1e-5", "--json", *more)
        assert status == 0
        figures.append(json.loads(out)["epsilon_upper"])
    assert figures[0] < figures[1] < figures[2]


def test_epsilon_beyond_the_largest_exponent(call):
    status, out, _ = call("privacy", "--cluster-size", "100", "--flip-prob", "0", "--num-classes", "3",
                          "--epsilon", "800", "--json")  # fmt: skip
    assert status == 0
    assert json.loads(out)["delta_upper"] == pytest.approx(1 - 0.99**100)  # somebody submits the label of the target
    status, out, _ = call("calibrate", "--cluster-size", "100", "--epsilon", "1000", "--delta", "1e-6",
                          "--sampling-rate", "1", "--num-classes", "3", "--json")  # fmt: skip
    assert status == 0


def test_calibrate(call):
    status, out, _ = call("calibrate", "--cluster-size", "50", "--cluster-size", "200", "--epsilon", "0.5",
                          "--delta", "1e-5", "--sampling-rate", "0.5", "--json")  # fmt: skip
    assert status == 0
    record = json.loads(out)
    assert record["epsilon_upper"] <= 0.5
    assert record["flip_prob"] == record["flip_prob_by_size"]["50"] > record["flip_prob_by_size"]["200"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--flip-prob", "0.6"], "--flip-prob 0.6: must lie in [0, 0.5]"),
        (["--flip-prob", "nan"], "--flip-prob nan: must lie in [0, 0.5]"),
        (["--cluster-size", "1"], "--cluster-size 1: must be a whole number from 2 to 10,000,000"),
        (["--cluster-size", "1000000000"], "--cluster-size 1000000000: must be a whole number from 2 to"),
        (["--members", "3"], "--members 3: goes with --observer coalition"),
        (["--delta", "1"], "--delta 1.0: must lie in (0, 1)"),
        (["--delta", "nan"], "--delta nan: must lie in (0, 1)"),
        (["--sampling-rate", "0"], "--sampling-rate 0.0: must lie in [1e-300, 1]"),
        (["--observer", "coalition", "--members", "50"], "--members 50: must lie in 1..49"),
        (["--observer", "colition"], "--observer colition: must be one of learner, learner-times, peer"),
        (["--epsilon", "1"], "give either --delta or --epsilon"),
        (["--rounds", "2", "--fresh", "--delta", "1e-20"], "--delta 1e-20: must be at least 1e-14"),
        (["--rounds", "0"], "--rounds 0: must be a whole number from 1 to 1,000"),
    ],
)
def test_impossible_questions_get_one_line(call, change, message):
    status, out, err = call(*PRIVACY, "--delta", "1e-5", *change)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
