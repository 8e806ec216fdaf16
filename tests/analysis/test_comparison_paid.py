"""The comparison with every choice paid for: who chooses by what, and that the price of a choice is in ε."""

import numpy as np
import pandas as pd
import pytest

from analysis import comparison_paid as study
from analysis.comparison_paid import CURATED, REHEARSED, RELEASED, options, way
from analysis.comparison_second import MECHANISMS, PLAIN, REDUCED
from analysis.study import ROOT
from p2p_sim import load_scenario
from p2p_sim.privacy import NoisyScore, Selection
from p2p_sim.privacy.composition import Composition
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

EPSILON = study.EPSILON
BASE = load_scenario(ROOT / "scenarios" / "comparison.toml").replace(**REDUCED["synthetic"])


@pytest.mark.figures
@pytest.mark.slow
def test_every_mechanism_with_its_choices_paid_for(frame):
    table, prices, *figures = study.main(frame)
    assert set(pd.read_csv(prices)["mechanism"]) == set(MECHANISMS)
    assert all(figure.stat().st_size > 20_000 for figure in figures)
    points = pd.read_csv(table)
    assert set(points["mechanism"]) == set(MECHANISMS)
    assert (points["epsilon_upper"] <= points[EPSILON] * (1 + 1e-9)).all()
    assert (points["replicates"] == 2).all()
    assert (points[points["choice"] == study.FREE]["price"] == 0.0).all()
    wide = points.pivot(index=["panel", "mechanism"], columns="choice", values="place")
    assert (wide.min() == 1).all()


def total(plan, scenarios) -> float:
    """ε of a selection whose runs have the noise of these scenarios."""
    mechanism = prepare(Replicate(scenarios[0])).mechanism
    run = mechanism.accountant(mechanism.setup, 1)
    one = Composition((run, NoisyScore(plan.score_scale)), (1, 1))
    return Selection(one, plan.law).epsilon(BASE.privacy.delta).epsilon_upper


@pytest.mark.slow
def test_the_price_of_a_curators_choice_is_in_epsilon_and_a_study_that_forgets_it_is_caught():
    found = tuple(options(BASE, "DP-SGD", 1.0).values())
    plan = study.planned(found, 1.0, study.MEAN_RUNS)
    assert 0.95 < total(plan, plan.calibrated) <= 1.0
    assert total(plan, plan.calibrated) == plan.bound.epsilon_upper
    assert total(plan, plan.candidates) > 1.3  # planted: each run has the noise of the whole ε


def tried(shown: float = 0.0) -> pd.DataFrame:
    """Rows of two mechanisms; `PLAIN` is best on true labels, "trees" by what released labels show."""
    lines = [
        {"mechanism": name, EPSILON: 1.0, "replicate": replicate, "option": option, "epsilon_upper": 1.0,
         "accuracy": 0.7 + 0.1 * (option == PLAIN), "shown": 0.5 + shown * (option == "trees")}
        for name in ("randomised response", "noise shares") for replicate in range(study.CHOOSING + 3)
        for option in (PLAIN, "trees")
    ]  # fmt: skip
    return pd.DataFrame(lines)


def test_released_labels_choose_by_what_they_show_and_others_by_the_rehearsal(frame):
    rehearsal = {("noise shares", 1.0): "trees"}
    rows = study.chosen_rows(BASE, tried(0.1), rehearsal, frame, study.CHOOSING + 3)
    assert rows["replicate"].min() == study.CHOOSING
    taken = rows.drop_duplicates(["mechanism", "choice"]).set_index(["mechanism", "choice"])["option"]
    for name in ("randomised response", "noise shares"):
        assert taken[name, study.PAID] == "trees"
        assert taken[name, study.FREE] == taken[name, study.DEFAULT] == PLAIN
    honest = study.chosen_rows(BASE, tried(-0.1), {}, frame, study.CHOOSING + 3)
    assert set(honest["option"]) == {PLAIN}


def test_a_free_choice_looks_at_replicates_that_are_not_reported():
    rows = tried()
    rows.loc[(rows["replicate"] >= study.CHOOSING) & (rows["option"] == "trees"), "accuracy"] = 1.0
    assert set(study.freely(rows).values()) == {PLAIN}


def test_a_price_is_the_paired_difference_to_the_free_choice(frame):
    rows = study.chosen_rows(BASE, tried(0.1), {("noise shares", 1.0): "trees"}, frame, study.CHOOSING + 3)
    rows["accuracy"] += np.tile([0.0, 0.01, 0.02], len(rows) // 3)
    table = study.points(rows.assign(panel="synthetic"))
    price = table.set_index(["mechanism", "choice"])["price"]
    assert price["noise shares", study.PAID] == pytest.approx(0.1)
    assert price["noise shares", study.DEFAULT] == pytest.approx(0.0)
    assert set(table["comparisons"]) == {4}


def test_everybody_chooses_by_something():
    assert {way(name) for name in MECHANISMS} == {RELEASED, REHEARSED, CURATED}
    assert {name for name in MECHANISMS if way(name) == CURATED} == {
        "DP-SGD",
        "LabelDP-Pro",
        "PATE",
        "noisy aggregates",
    }
    assert len(options(BASE, "PATE", 1.0)) == 4
    assert next(iter(options(BASE, "label exchange", 1.0))) == PLAIN
