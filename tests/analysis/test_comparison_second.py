"""The second comparison at reduced size: learners are chosen on other replicates than those that are reported."""

import numpy as np
import pandas as pd
import pytest

from analysis import comparison_second as study
from analysis.comparison_second import MECHANISMS, PLAIN, candidates

EPSILON = study.EPSILON


@pytest.mark.slow
def test_every_mechanism_with_the_best_of_its_learners(frame):
    figure, table, leaders = study.main(frame)
    assert figure.stat().st_size > 20_000
    points, rows = pd.read_csv(table), pd.read_parquet(frame.out / "rows.parquet")
    assert set(points["mechanism"]) == {name for names in study.TRUST.values() for name in names}
    assert (points["epsilon_upper"] <= points[EPSILON] * (1 + 1e-9)).all()
    assert (points["replicates"] == 2).all()
    for heading, names in study.TRUST.items():
        assert all(trust in heading for trust in points[points["mechanism"].isin(names)]["trust"].unique())
    assert not rows[rows["reported"]]["replicate"].isin(range(study.CHOOSING)).any()
    first = rows[~rows["reported"] & rows["mechanism"].eq("label exchange") & rows["panel"].eq("digits")]
    best = first.groupby("learner")["accuracy"].mean().idxmax()
    later = rows[rows["reported"] & rows["mechanism"].eq("label exchange") & rows["panel"].eq("digits")]
    assert set(later["learner"]) == {best, PLAIN}
    shown = points.set_index(["panel", "mechanism"]).loc[("digits", "label exchange")]
    assert shown["learner"] == best
    assert shown["accuracy"] == pytest.approx(later[later["chosen"]]["accuracy"].mean(), abs=1e-5)
    assert pd.read_csv(leaders)["comparisons"].nunique() == 1


def test_learners_are_those_that_take_the_release():
    assert candidates("label exchange", 2)[-1] == "boosted trees"
    assert "boosted trees" not in candidates("label exchange", 10)
    assert candidates("PATE", 2) == (PLAIN,)
    assert {name for names in study.TRUST.values() for name in names} >= set(MECHANISMS)


def invented(lead: float, rng: np.random.Generator, luck: float = 0.0) -> pd.DataFrame:
    """Rows of two mechanisms; the first is so much better, and by `luck` more in the replicates that choose."""
    lines = [
        {"mechanism": name, EPSILON: 1.0, "learner": PLAIN, "replicate": at, "chosen": True,
         "reported": at >= study.CHOOSING,
         "accuracy": 0.8 + (name == "ALIBI") * (lead + luck * (at < study.CHOOSING)) + rng.normal(0.0, 0.001)}
        for at in range(study.CHOOSING + 8) for name in ("ALIBI", "label exchange")
    ]  # fmt: skip
    return pd.DataFrame(lines)


@pytest.mark.parametrize(
    ("lead", "luck", "verdict"), [(0.05, 0.0, study.LEADS), (0.0, 0.05, study.OPEN), (-0.05, 0.1, study.BEHIND)]
)
def test_a_lead_is_one_on_other_replicates_than_those_that_name_the_leader(lead, luck, verdict):
    """Luck in the replicates that choose names a leader, and does not make it lead."""
    found = study.judged({"digits": invented(lead, np.random.default_rng(1), luck)})
    assert set(found["leader"]) == {"ALIBI"}
    assert set(found["verdict"]) == {verdict}
    assert set(found["group"]) == {"trust nobody", study.ALL}
    assert found["comparisons"].unique().tolist() == [1]


def test_more_comparisons_have_wider_intervals():
    rows = invented(0.05, np.random.default_rng(2))
    one = study.judged({"digits": rows})
    two = study.judged({"digits": rows, "mnist": rows})
    assert two["comparisons"].unique().tolist() == [2]
    assert (two["low"] < one["low"].max()).all()


def test_the_chosen_learner_is_the_best_on_average():
    rows = pd.DataFrame(
        [
            {"mechanism": "ALIBI", EPSILON: 1.0, "learner": name, "accuracy": value}
            for name, values in (("a", (0.5, 0.9)), ("b", (0.8, 0.8))) for value in values
        ]
    )  # fmt: skip
    assert study.chosen(rows) == {("ALIBI", 1.0): "b"}
