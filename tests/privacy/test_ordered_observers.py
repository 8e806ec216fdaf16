"""No figure of a row is below another one whose observer sees less of the same users."""

from collections.abc import Mapping
from typing import Any

import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from tests.random_scenarios import random_scenarios, uneven

SEES_LESS = (
    ("epsilon_upper", "epsilon_times_upper"),
    ("epsilon_upper", "epsilon_coalition_upper"),
    ("epsilon_upper", "epsilon_unmet_upper"),
    ("epsilon_upper", "epsilon_local"),
    ("epsilon_times_upper", "epsilon_local"),
    ("epsilon_coalition_upper", "epsilon_local"),
    ("epsilon_unmet_upper", "epsilon_local"),
    ("epsilon_others_upper", "epsilon_upper"),
    ("epsilon_sample_upper", "epsilon_others_upper"),
    ("epsilon_best_cluster", "epsilon_upper"),
    ("epsilon_lower", "epsilon_upper"),
    ("advantage_uniform", "advantage_times"),
    ("advantage_uniform", "advantage_coalition"),
    ("advantage_uniform", "advantage_local"),
    ("advantage_times", "advantage_local"),
    ("advantage_coalition", "advantage_local"),
    ("advantage_cluster", "advantage_cluster_worst"),
    ("advantage_model", "advantage_model_worst"),
)
"""Pairs of columns: what the first one's observer sees, the second one's sees too; or both have one observer, and the
first is about fewer users. An eavesdropper, whose column is `epsilon_local`, sees everything."""


def violations(row: Mapping[str, Any]) -> list[str]:
    """Pairs of columns in the wrong order; rounding of 1e-9 is allowed."""
    pairs = [(less, more) for less, more in SEES_LESS if row.get(less) is not None and row.get(more) is not None]
    return [
        f"{less} = {row[less]} > {more} = {row[more]}"
        for less, more in pairs
        if row[less] > row[more] * (1 + 1e-9) + 1e-12
    ]


@pytest.mark.parametrize(("count", "seed"), [(30, 1), pytest.param(500, 2, marks=pytest.mark.slow)])
def test_whoever_sees_more_has_no_smaller_figure(count, seed):
    watched = 0
    for scenario in random_scenarios(count, seed):
        try:
            row = p2p_sim.run(scenario).row
        except InputError:  # nothing arrived
            continue
        assert violations(row) == [], scenario.model_dump_json()
        watched += row.get("epsilon_unmet_upper") is not None
    assert watched > count / 10


def test_a_violation_is_seen():
    assert violations({"epsilon_upper": 1.1, "epsilon_coalition_upper": 1.0}) != []
    assert violations({"epsilon_upper": 1.0, "epsilon_coalition_upper": 1.0}) == []


def test_clusters_without_a_member_count_with_the_learner():
    """300 users in some 30 uneven clusters at δ = .1, of which the smallest has no member.

    The coalition was said to learn less than the learner, who is one of it.
    """
    row = p2p_sim.run(uneven()).row
    assert row["epsilon_upper"] > 0.5
    assert row["epsilon_unmet_upper"] >= row["epsilon_upper"]
    assert row["epsilon_coalition_upper"] >= row["epsilon_upper"]
    assert row["advantage_coalition"] >= row["advantage_uniform"]
