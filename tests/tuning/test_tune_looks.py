"""Searches that look at released labels, or at true ones through a private score: what they see, and what they cost."""

import functools
import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.privacy import NoisyScore, Selection
from p2p_sim.privacy.composition import Composition
from p2p_sim.replicate import selection_scores
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.replicate.selection_scores import two_sided_geometric
from p2p_sim.results.rows import read_manifest
from p2p_sim.tuning import private_search
from p2p_sim.tuning.goal import Goal
from p2p_sim.tuning.private_search import FIRST_RUN, planned, tune_privately
from p2p_sim.tuning.run_search import make_tuning, perform_judged, tune
from p2p_sim.tuning.search_space import Dimension, Space
from tests.commands import command
from tests.written_sweeps import base

pytest.importorskip("optuna")
GOAL = Goal("accuracy", epsilon=1.0)
PENALTY = Space((Dimension("learner.l2", 0.01, 1000.0, log=True),), 2)
NAMES = Space((Dimension("mechanism.clip", values=(0.5, 1.0)), Dimension("mechanism.l2", values=(0.0, 0.01))))
CURATOR = {"kind": "dp_sgd", "target_epsilon": 1.0, "sampling_rate": 1.0, "epochs": 1.0}


@pytest.fixture(autouse=True)
def planned_once(monkeypatch):
    """The noise of equal candidates is calibrated once for all tests."""
    monkeypatch.setattr(private_search, "planned", kept_plan)


@functools.cache
def kept(candidates: tuple[str, ...], epsilon: float, mean_runs: float) -> private_search.PrivateSearchPlan:
    return planned([p2p_sim.Scenario.model_validate_json(one) for one in candidates], epsilon, mean_runs)


def kept_plan(candidates, epsilon, mean_runs, data_dir=None) -> private_search.PrivateSearchPlan:
    assert data_dir is None
    return kept(tuple(one.model_dump_json() for one in candidates), epsilon, mean_runs)


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "timings.jsonl"}


def rows_of(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "rows.jsonl").read_text().splitlines()]


# -- released labels -------------------------------------------------------------------------------------------------


def test_all_trials_see_one_release_and_its_epsilon_is_that_of_one(tmp_path):
    scenario = base().replace(mechanism={"kind": "randomized_response", "flip_prob": 0.2})
    tuned = tune(make_tuning(scenario, GOAL, PENALTY, "released"), 4, tmp_path / "out")
    rows = [row for row in rows_of(tmp_path / "out") if row["replicate"] == 0]
    assert len(rows) == 4
    assert len({row["epsilon_upper"] for row in rows}) == 1
    assert tuned.best.epsilon == rows[0]["epsilon_upper"] <= 1.0
    assert tuned.best.score == max(row["validated"] for row in rows)
    assert {row["look"] for row in rows} == {"released"}
    assert {row["replicate"] for row in tuned.best.fresh} == {1, 2}


def test_the_search_does_not_look_at_true_labels(tmp_path):
    """What rows measure on true labels is changed: the same trials, and the same choice."""
    scenario = base().replace(mechanism={"kind": "randomized_response", "flip_prob": 0.2})
    tuning = make_tuning(scenario, GOAL, PENALTY, "released")

    def misled(batch):
        rng = np.random.default_rng(len(batch))
        return [replace(one, row={**one.row, "error_rate": float(rng.random())}) for one in perform_judged(batch)]

    seen, blind = tune(tuning, 4, tmp_path / "seen"), tune(tuning, 4, tmp_path / "blind", work=misled)
    assert seen.trials == blind.trials
    assert seen.best.trial == blind.best.trial
    oracle = replace(tuning, goal=tuning.truth)  # control: a search that cheats is led astray
    one, other = tune(oracle, 4, tmp_path / "a"), tune(oracle, 4, tmp_path / "b", work=misled)
    assert one.trials != other.trials


def test_labels_of_clusters_are_judged_by_what_is_certain(tmp_path):
    tuned = tune(make_tuning(base(), GOAL, PENALTY, "released"), 2, tmp_path / "out")
    rows = [row for row in rows_of(tmp_path / "out") if row["replicate"] == 0]
    assert {row["validated"] for row in rows} == {None}
    assert tuned.best.score == max(row["validated_lower"] for row in rows)


def test_labels_that_judge_do_not_teach():
    case = Replicate(base().replace(mechanism={"kind": "randomized_response", "flip_prob": 0.2}))
    from p2p_sim.replicate.run import exchange

    outcome = exchange(case).outcome
    parts = selection_scores.split(case, outcome)
    taught = set(parts.teaching.labels.user.tolist())
    assert 0.2 < parts.judging.mean() < 0.45
    assert taught.isdisjoint(outcome.labels.user[parts.judging].tolist())
    assert len(taught) + parts.judging.sum() == len(outcome.labels)


# -- a curator -------------------------------------------------------------------------------------------------------


def curated(**changes) -> p2p_sim.Scenario:
    return base().replace(mechanism={**CURATOR, **changes})


@functools.cache
def plan_of_two() -> private_search.PrivateSearchPlan:
    """Two candidates that differ in a key that costs nothing."""
    return planned([curated(), curated(clip=0.5)], 1.0, 4.0)


def test_the_whole_selection_is_paid_for_and_a_run_alone_costs_less():
    scenario, plan = curated(), plan_of_two()
    mechanism = prepare(Replicate(plan.calibrated[0])).mechanism
    run = mechanism.accountant(mechanism.setup, 1)
    one = Composition((run, NoisyScore(plan.score_scale)), (1, 1))
    delta = scenario.privacy.delta
    assert Selection(one, plan.law).epsilon(delta).epsilon_upper == plan.bound.epsilon_upper
    assert 0.97 <= plan.bound.epsilon_upper <= 1.0
    assert run.epsilon(delta).epsilon_upper < one.epsilon(delta).epsilon_upper < 0.9
    assert "winner-alone" in {condition.identifier for condition in plan.bound.conditions}


def test_a_worse_candidate_is_what_a_run_is_accounted_for():
    dear = planned([curated(), curated(epochs=2.0)], 1.0, 4.0)
    assert dear.bound.epsilon_upper <= 1.0
    assert dear.run_epsilon <= plan_of_two().run_epsilon


def test_runs_are_independent_and_the_best_private_score_wins(tmp_path):
    tuning = make_tuning(curated(), GOAL, NAMES, "curator")
    tuned = tune_privately(tuning, 6, tmp_path / "out")
    rows = {row["trial"]: row for row in rows_of(tmp_path / "out") if row["replicate"] >= FIRST_RUN}
    assert tuned.best.score == max(row["private_score"] for row in rows.values())
    assert len({row["private_score"] for row in rows.values()}) == len(rows)
    assert 0.9 < tuned.best.epsilon <= 1.0
    assert max(row["epsilon_upper"] for row in rows.values()) < 0.9
    text = (tmp_path / "out" / "found.toml").read_text()
    assert f"score and choice included: {tuned.best.epsilon:.6g}" in text
    manifest = read_manifest(tmp_path / "out")
    assert (manifest["look"], manifest["runs"]) == ("curator", len(rows))
    before = files_of(tmp_path / "out")
    tune_privately(tuning, 6, tmp_path / "out")
    assert files_of(tmp_path / "out") == before  # no run is drawn a second time


def test_a_stopped_selection_goes_on_with_the_runs_that_it_drew(tmp_path, monkeypatch):
    tuning = make_tuning(curated(), GOAL, NAMES, "curator")
    tune_privately(tuning, 6, tmp_path / "whole")
    honest, calls = private_search.row_scored, []

    def stops(case, scale):
        calls.append(case.replicate)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return honest(case, scale)

    monkeypatch.setattr(private_search, "row_scored", stops)
    monkeypatch.setattr(private_search.PrivateSearchPlan, "runs", lambda self, seed, replicate=0: [0, 1, 0])
    with pytest.raises(KeyboardInterrupt):
        tune_privately(tuning, 6, tmp_path / "cut")
    tune_privately(tuning, 6, tmp_path / "cut")
    assert calls == [FIRST_RUN, FIRST_RUN + 1, FIRST_RUN + 1, FIRST_RUN + 2]


def winners(plan, rights: tuple[int, int], score, trials: int) -> float:
    """How often the second of two candidates wins, whose models cost nothing and are right about so many users."""
    rng, won = np.random.default_rng(5), 0
    for seed in range(trials):
        runs = plan.runs(seed)
        scores = [score(rights[place], rng) for place in runs]
        won += runs[int(np.argmax(scores))] == 1
    return won / trials


def test_the_winner_tells_no_more_than_is_paid_and_a_score_without_noise_is_caught():
    """Two fixed models, one label: the models' right answers are (3, 2) or (2, 3). 6,000 selections in each world."""
    plan = replace(plan_of_two(), score_scale=20.0)
    law = Selection(NoisyScore(20.0), plan.law)
    noisy = partial(_noisy, scale=20.0)
    for score, sound in ((noisy, True), (lambda right, rng: right, False)):
        one, other = (winners(plan, rights, score, 6_000) for rights in ((3, 2), (2, 3)))
        error = 6.0 * math.sqrt(2.0 / 6_000)
        advantage = other - one
        assert (advantage - error <= law.delta(0.0).upper) is sound


def _noisy(right: int, rng: np.random.Generator, scale: float) -> float:
    return right + two_sided_geometric(scale, rng)


def test_the_noise_of_a_score_has_its_law():
    rng = np.random.default_rng(3)
    drawn = np.array([two_sided_geometric(2.0, rng) for _ in range(20_000)])
    t = math.exp(-0.5)
    for z in (-2, 0, 1):
        expected = (1 - t) / (1 + t) * t ** abs(z)
        assert abs(np.mean(drawn == z) - expected) < 6 * math.sqrt(expected / 20_000)


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "goal", "space", "look", "line"),
    [
        ({}, GOAL, Space((Dimension("mechanism.sampling_rate", 0.2, 1.0),)), "released", "changes the release"),
        ({}, Goal("excess_risk", 1.0), PENALTY, "released", "nobody can judge it with --look released"),
        ({"mechanism": CURATOR}, Goal(accuracy=0.9), NAMES, "curator", "does not go with --look curator"),
    ],
)
def test_what_a_look_cannot_judge_is_refused_in_one_line(changes, goal, space, look, line):
    with pytest.raises(InputError, match=line):
        make_tuning(base().replace(**changes), goal, space, look)


@pytest.mark.parametrize(
    ("mechanism", "space", "line"),
    [
        ({"kind": "randomized_response", "target_epsilon": 1.0}, PENALTY, "must be a list of values"),
        (
            {"kind": "randomized_response", "target_epsilon": 1.0},
            Space((Dimension("learner.l2", values=(1.0, 2.0)),)),
            "has no curator who holds true labels",
        ),
        (CURATOR, Space((Dimension("mechanism.noise_multiplier", values=(1.0, 2.0)),)), "cannot be chosen"),
    ],
)
def test_what_is_no_private_selection_is_refused_in_one_line(tmp_path, mechanism, space, line):
    tuning = replace(
        make_tuning(base(), GOAL, PENALTY, "oracle"), base=base().replace(mechanism=mechanism), space=space
    )
    with pytest.raises(InputError, match=line):
        tune_privately(tuning, 4, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_prints_what_all_of_it_costs(tmp_path, capsys, monkeypatch):
    search = tmp_path / "search.toml"
    search.write_text("[values]\nmechanism.clip = [0.5, 1.0]\n")
    (tmp_path / "curated.toml").write_text(
        'name = "curated"\nreplicates = 1\n[population]\nkind = "synthetic"\nusers = 300\nnum_clusters = 3\n'
        '[mechanism]\nkind = "dp_sgd"\ntarget_epsilon = 1.0\nepochs = 1.0\n'
    )
    options = ("--look", "curator", "--epsilon", "1", "--search", search, "--trials", "3", "--workers", "1", "--json")
    status, out, said = command("tune", tmp_path / "curated.toml", *options, "--out", tmp_path / "out")
    assert status == 0
    assert re.sub(r"curated: \d+ of 3 trials\n", "", said) == ""  # a slow machine shows progress
    told = json.loads(out)
    assert told["look"] == "curator"
    assert told["choice_counted"]
    assert 0.9 < told["epsilon_upper"] <= 1.0
    assert private_search.TRIAL in rows_of(tmp_path / "out")[0]
