"""Searching settings: what is chosen, what is kept, what a choice may look at."""

import csv
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.cli.printing.numbers import print_output
from p2p_sim.cli.printing.tuning_trials import tuned_output
from p2p_sim.results.rows import read_manifest
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.tuning.goal import Goal, Measured
from p2p_sim.tuning.optuna_study import JOURNAL, Trials
from p2p_sim.tuning.run_search import make_tuning, tune
from p2p_sim.tuning.search import Search, best
from p2p_sim.tuning.search_space import Dimension, Settings, Space, read_search
from tests.commands import command
from tests.conftest import ROOT
from tests.written_sweeps import base

pytest.importorskip("optuna")
GOAL = Goal("accuracy", epsilon=0.5)
SEARCH = "[range]\nmechanism.sampling_rate = [0.2, 1.0]\n[log]\nlearner.l2 = [1e-2, 100.0]\n"
STEPS = ("mechanism.sampling_rate", "clusters.count", "clusters.min_size", "learner.l2")


def small(**changes) -> p2p_sim.Scenario:
    return base("small").replace(**changes)


def written(folder: Path, text: str = SEARCH) -> Path:
    path = folder / "search.toml"
    path.write_text(text)
    return path


def rows_of(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "rows.jsonl").read_text().splitlines()]


def four_hundred() -> tuple[Space, dict[str, float]]:
    """Settings of a known law, each with its exact excess risk, from tests/data/four_hundred_settings.csv."""
    with (ROOT / "tests" / "data" / "four_hundred_settings.csv").open() as file:
        lines = list(csv.DictReader(file))
    risks = {json.dumps([float(line[key]) for key in STEPS]): float(line["excess_risk"]) for line in lines}
    dimensions = [Dimension(key, values=tuple(sorted({float(line[key]) for line in lines}))) for key in STEPS]
    return Space(tuple(dimensions)), risks


def first_hits(seeds: range) -> tuple[list[int], list[int]]:
    """The trial that first lies within 1% of the best, of 60, by the search and at random; 60 where none does."""
    space, risks = four_hundred()
    good = {key for key, risk in risks.items() if risk <= 1.01 * min(risks.values())}
    assert len(risks) == 400
    assert 1 <= len(good) <= 4

    def key(settings: Settings) -> str:
        return json.dumps([settings[name] for name in STEPS])

    def measure(trials, rung):
        return {one.number: {0: Measured(risks[key(one.settings)], 0.5)} for one in trials}

    searched, drawn = [], []
    for seed in seeds:
        trials = Search(space, Goal("excess_risk", 1.0), 1, Trials(space, seed), measure).run(60)
        searched.append(next((one.number for one in trials if key(one.settings) in good), 60))
        order = random.Random(seed).sample(list(risks), 60)
        drawn.append(next((number for number, one in enumerate(order) if one in good), 60))
    return searched, drawn


@pytest.mark.slow
def test_a_search_finds_one_of_the_best_of_400_settings_in_90_of_100_seeds_sooner_than_chance():
    searched, drawn = first_hits(range(100))
    assert sum(hit < 60 for hit in searched) >= 90
    differences = [b - a for a, b in zip(searched, drawn, strict=True)]
    mean = sum(differences) / 100
    error = (sum((one - mean) ** 2 for one in differences) / 99 / 100) ** 0.5
    assert mean > 3 * error


@pytest.mark.slow
def test_workers_and_more_trials_change_nothing(tmp_path):
    tuning = make_tuning(small(), GOAL, read_search(written(tmp_path)))
    whole = tune(tuning, 7, tmp_path / "whole")
    tune(tuning, 5, tmp_path / "parts")
    again = tune(tuning, 7, tmp_path / "parts", LocalProcesses(2))
    assert whole.trials == again.trials
    assert (whole.best.trial, whole.best.epsilon) == (again.best.trial, again.best.epsilon)
    for name in ("rows.jsonl", "trials.csv", "found.toml"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


@pytest.mark.slow
def test_the_found_scenario_runs_and_meets_the_goal(tmp_path, capsys):
    tuning = make_tuning(small(), GOAL, read_search(written(tmp_path)))
    tuned = tune(tuning, 5, tmp_path / "out")
    found = p2p_sim.load_scenario(tmp_path / "out" / "found.toml")
    row = p2p_sim.run(found).row
    assert found.mechanism.target_epsilon == 0.5
    assert row["epsilon_upper"] <= tuned.best.epsilon <= 0.5
    assert {one["replicate"] for one in tuned.best.fresh} == {2, 3}
    assert tuned.best.trial == best(tuned.trials)[0]
    print_output(tuned_output(tuning, tuned, quiet=False), False)
    assert capsys.readouterr().out.startswith(f"small: 5 trials, best: trial {tuned.best.trial.number}\n")
    assert {row["look"] for row in rows_of(tuned.directory)} == {"public"}
    manifest = read_manifest(tuned.directory)
    assert (manifest["look"], manifest["goal"]["epsilon"]) == ("public", 0.5)
    assert {"key": "mechanism.sampling_rate", "low": 0.2, "high": 1.0, "log": False} in manifest["space"]


def test_numbers_of_peers_are_searched_each_with_the_noise_that_it_needs(tmp_path):
    """k is public: it changes no label that a choice may not look at, and target ε holds for each."""
    space = read_search(written(tmp_path, "[values]\nmechanism.peers = [1, 3, 5]\n"))
    tuned = tune(make_tuning(small(), GOAL, space), 3, tmp_path / "out")
    rows = {row["trial"]: row for row in rows_of(tuned.directory)}
    assert {trial.settings["mechanism.peers"] for trial in tuned.trials} == {1, 3, 5}
    assert len({row["flip_prob"] for row in rows.values()}) == 3
    assert all(0.4 < row["epsilon_upper"] <= 0.5 for row in rows.values())
    with pytest.raises(InputError, match=r"mechanism\.peers"):
        make_tuning(small(), GOAL, read_search(written(tmp_path, "[values]\nmechanism.peers = [1, 4]\n")))


def test_epsilon_of_a_setting_above_the_goal_is_refused(tmp_path):
    space = Space((Dimension("mechanism.flip_prob", 0.01, 0.45),))
    tuned = tune(make_tuning(small(), Goal("accuracy", 0.3), space), 5, tmp_path / "out")
    assert tuned.best.epsilon <= 0.3
    largest = {row["trial"]: row["epsilon_upper"] for row in rows_of(tuned.directory)}
    assert max(largest.values()) > 0.3
    assert all(largest[one.number] <= 0.3 for one in best(tuned.trials))


def test_a_goal_that_cannot_be_met_says_how_near_one_comes(tmp_path):
    path = tmp_path / "out"
    options = ("--accuracy", "1.0", "--trials", "3", "--workers", "1", "--out", path, "--set", "replicates=1")
    status, _, said = command("tune", written_scenario(tmp_path), *options)
    assert status == 2
    assert "--accuracy 1: none of 3 trials meets it; the nearest is 0." in said
    assert "by mechanism.target_epsilon = " in said
    assert len((path / "trials.csv").read_text().splitlines()) == 4
    assert not (path / "found.toml").exists()


def test_the_command_prints_the_noise_that_it_found(tmp_path):
    """α is calibrated for the target in each replicate, and no key of the search."""
    path = tmp_path / "out"
    options = ("--epsilon", "0.5", "--trials", "2", "--workers", "1", "--out", path)
    status, out, said = command("tune", written_scenario(tmp_path), *options)
    assert status == 0, said
    fresh = p2p_sim.load_scenario(path / "found.toml")
    alpha = re.search(r"flip probability α +([0-9.]+)(?: to ([0-9.]+), by the clusters of each replicate)?$", out, re.M)
    theta = re.search(r"sampling rate θ +([0-9.]+)$", out, re.M)
    assert float(theta[1]) == pytest.approx(fresh.mechanism.sampling_rate, rel=1e-3)
    built = [p2p_sim.run(fresh, replicate).row["flip_prob"] for replicate in range(fresh.replicates)]
    low, high = float(alpha[1]), float(alpha[2] or alpha[1])
    assert low * 0.9 <= min(built)
    assert max(built) <= high * 1.1


@pytest.mark.parametrize(
    ("flip_prob", "protected"), [(0.1, "one user's label"), (0.0, "nothing: no finite ε is known")]
)
def test_the_command_tells_the_coalitions_figure_beside_the_learners(tmp_path, flip_prob, protected):
    coalition = ("--set", "adversaries.coalition.share=0.1", "--set", 'engine="events"')
    noise = (
        "--set",
        f"mechanism.flip_prob={flip_prob}",
        "--search",
        written(tmp_path, "[values]\nlearner.l2 = [1.0, 2.0]\n"),
        "--look",
        "public",
    )
    options = ("--accuracy", "0.3", "--trials", "1", "--workers", "1", "--out", tmp_path / "out")
    status, out, said = command("tune", written_scenario(tmp_path), *coalition, *noise, *options)
    assert status == 0, said
    worst = max(float(row["epsilon_coalition_upper"]) for row in rows_of(tmp_path / "out") if row["replicate"] >= 2)
    printed = re.search(r"with the coalition +(\S+) in fresh replicates", out)[1]
    assert (math.inf if printed == "∞" else float(printed)) >= worst
    assert re.search(rf"ε protects +{protected}", out)
    assert "not about the learner together with the coalition" in (tmp_path / "out" / "found.toml").read_text("utf-8")


def written_scenario(folder: Path) -> Path:
    path = folder / "small.toml"
    path.write_text(
        'name = "small"\nreplicates = 2\nengine = "vectorised"\n[population]\nkind = "synthetic"\nusers = 400\n'
        "num_clusters = 5\n[mechanism]\nflip_prob = 0.1\nsampling_rate = 0.5\n"
    )
    return path


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ((), "--epsilon, --accuracy: give one of them"),
        (("--epsilon", "0"), "--epsilon 0: must be above 0"),
        (("--epsilon", "1", "--trials", "0"), "--trials 0: must lie in 1..100000"),
        (("--epsilon", "1", "--goal", "speed"), "--goal speed: must be one of accuracy, error_rate, excess_risk"),
        (("--epsilon", "1", "--dask", "x", "--workers", "2"), "--workers 2: does not go with --dask"),
        (("--epsilon", "1", "--dask", "nowhere"), "dask nowhere: must be tcp://HOST:PORT"),
        (("--epsilon", "1", "--look", "all"), "--look all: must be one of public, released, curator, oracle"),
        (("--epsilon", "1", "--look", "curator"), "mechanism.sampling_rate: must be a list of values"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, options, line):
    status, out, said = command("tune", written_scenario(tmp_path), "--out", tmp_path / "out", *options)
    assert (status, out) == (2, "")
    assert line in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "names no key"),
        ("[range]\nlearner.l2 = [2, 1]", "range.learner.l2 = [2, 1]: low must be below high"),
        ("[log]\nlearner.l2 = [0, 1]", "low must be below high, and above 0"),
        ("[values]\nlearner.l2 = [1]", "at least two different"),
        ("[ranges]\nlearner.l2 = [0, 1]", "ranges: unknown key"),
        ("[range]\nseed = [1, 9]", "range.seed: is no setting that can be chosen"),
        ("[log]\nlearner.l2 = [1, 2]\n[range]\nlearner.l2 = [1, 2]", "is searched twice"),
    ],
)
def test_a_search_file_with_a_fault_is_refused_in_one_line(tmp_path, text, line):
    with pytest.raises(InputError) as error:
        read_search(written(tmp_path, text))
    assert line in str(error.value)


def test_an_unpaid_search_is_marked_wherever_it_shows(tmp_path):
    tuned = tune(make_tuning(small(), GOAL, read_search(written(tmp_path)), "oracle"), 3, tmp_path / "out")
    assert {row["look"] for row in rows_of(tuned.directory)} == {"oracle"}
    assert "no ε counts the search itself" in (tuned.directory / "found.toml").read_text()
    assert json.loads((tuned.directory / "manifest.json").read_text())["look"] == "oracle"


def test_the_users_own_data_is_no_public_data(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(50)))
    own = small(**{"population": {"kind": "table", "path": str(path), "label": "y"}, "clusters": {"kind": "kmeans"}})
    with pytest.raises(InputError, match="is your own data"):
        make_tuning(own, GOAL, None)


def test_a_trial_in_flight_keeps_its_number_and_a_half_written_line_is_cut(tmp_path):
    space, path = Space((Dimension("learner.l2", 0.1, 10.0),)), tmp_path / JOURNAL
    chosen = Trials(space, 1, path).begin(0)
    with path.open("a") as file:
        file.write('{"op_code": 4, "wor')
    again = Trials(space, 1, path)
    assert again.all == [chosen]
    assert again.begin(0) == chosen
    assert again.begin(1).settings != chosen.settings


def test_without_optuna_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    options = ("--epsilon", "1", "--workers", "1", "--out", tmp_path / "out", "--quiet")
    status, _, said = command("tune", written_scenario(tmp_path), *options)
    assert (status, said) == (2, "p2p-sim: tune: needs Optuna: pip install -e '.[tune]' in the project's directory\n")
    assert not (tmp_path / "out").exists()


SCRIPT = """
import sys
from pathlib import Path
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.tuning.run_search import make_tuning, tune
from p2p_sim.tuning.goal import Goal
from p2p_sim.tuning.search_space import read_search
from tests.written_sweeps import base
folder, trials, replicates = Path(sys.argv[1]), *map(int, sys.argv[2:])
scenario, search = base("small").replace(replicates=replicates), read_search(folder / "search.toml")
tuning = make_tuning(scenario, Goal("accuracy", 0.5), search)
tune(tuning, trials, folder / "killed", LocalProcesses(2))
"""


def killed(folder: Path, kills: int, trials: int, replicates: int) -> None:
    """A search whose process is killed so many times, each time after other replicates, and then left to end."""
    rows, rng = folder / "killed" / "rows.jsonl", random.Random(1)
    command = [sys.executable, "-c", SCRIPT, str(folder), str(trials), str(replicates)]
    for _ in range(kills):
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        had, deadline = rows.read_bytes().count(b"\n") if rows.exists() else 0, time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if rows.exists() and rows.read_bytes().count(b"\n") > had:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        if process.poll() is None:
            if rng.random() < 0.5:
                os.killpg(process.pid, signal.SIGKILL)  # the driver and its workers
            else:
                process.kill()  # workers end by themselves
        process.wait()
        time.sleep(0.2)
    subprocess.run(command, cwd=ROOT, check=True)


def check_kills(folder: Path, kills: int, trials: int, replicates: int) -> None:
    tuning = make_tuning(small(replicates=replicates), GOAL, read_search(written(folder)))
    whole = tune(tuning, trials, folder / "whole")
    killed(folder, kills, trials, replicates)
    for name in ("rows.jsonl", "trials.csv", "found.toml"):
        assert (folder / "whole" / name).read_bytes() == (folder / "killed" / name).read_bytes()
    rows = [(row["scenario"], row["replicate"]) for row in rows_of(folder / "killed")]
    assert len(rows) == len(set(rows))
    assert tuple(Trials(tuning.space, 1, folder / "killed" / JOURNAL).all) == whole.trials


@pytest.mark.slow
def test_twenty_kills_lose_and_repeat_no_trial(tmp_path):
    check_kills(tmp_path, 20, 16, 4)
