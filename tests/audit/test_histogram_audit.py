"""Audits of votes, counts and choices in cells: sound releases pass, and what is planted into the mechanism is caught.

Each audit fails a sound release with probability at most 1e-9; seeds are fixed.
"""

import math

import numpy as np
import pytest

import p2p_sim.histograms.classifiers as counts
import p2p_sim.histograms.semi_supervised as semi_supervised
from p2p_sim import Scenario, run
from p2p_sim.audit.cells_attack import audit_cells
from p2p_sim.base.errors import InputError
from p2p_sim.cli.printing.numbers import print_output
from p2p_sim.cli.printing.one_run_audits import one_run_output
from p2p_sim.histograms.classifiers import LabelPrivateHistogram
from p2p_sim.mechanisms.private_histogram import PrivateDensityConfig, PrivateHistogramConfig
from p2p_sim.privacy.rivals.histograms import choice_delta, laplace_delta
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from tests.commands import command

RULES = {"pcl": 8_000, "pcl2": 8_000, "pcl2b": 4_000, "semi_supervised": 2_000}
"""Targets that suffice."""
METHODS = {"histogram": 4_000, "pcde": 4_000}


def case_of(kind: str, dimensions: int = 1, epsilon: float = 1.0) -> Replicate:
    """A small scenario of a rule or of a method."""
    mechanism = (
        {"kind": "private_histogram", "rule": kind} if kind in RULES else {"kind": "private_density", "method": kind}
    )
    tree = {
        "name": "cells",
        "population": {"kind": "unit_cube", "users": 2_000, "dimensions": dimensions},
        "mechanism": {**mechanism, "target_epsilon": epsilon},
    }
    if kind in RULES:
        tree["learner"] = {"kind": "histogram"}
    return Replicate(Scenario.from_tree(tree))


@pytest.mark.parametrize(
    ("kind", "trials", "dimensions"),
    [*((kind, trials, 1) for kind, trials in (RULES | METHODS).items()), ("pcl", 8_000, 2), ("pcl2b", 4_000, 2),
     ("pcde", 4_000, 2)],
)  # fmt: skip
def test_a_sound_release_passes_and_a_third_of_the_noise_is_caught(kind, trials, dimensions):
    case = case_of(kind, dimensions)
    done = audit_cells(case, trials)
    assert done.passed
    assert done.attacked[0] > 0.0
    weak = mechanism_of(case_of(kind, dimensions, epsilon=3.0))
    assert not audit_cells(case, trials, mechanism=weak).passed


def mechanism_of(case: Replicate) -> PrivateHistogramConfig | PrivateDensityConfig:
    return prepare(case).mechanism


def test_what_is_printed_is_the_statement_of_the_run(capsys):
    case = case_of("semi_supervised")
    done = audit_cells(case, 1_000)
    row = run(case.scenario).row
    assert done.bound.epsilon_upper == row["epsilon_upper"]
    assert "disjoint-samples" in done.bound.condition_ids
    assert (done.scenario, done.mechanism, done.plan.delta) == ("cells", "private_histogram", row["delta"])
    print_output(one_run_output(done), False)
    said = " ".join(capsys.readouterr().out.split())
    assert f"{done.targets:,d} of {done.users:,d} users, each whole row one of two by a fair coin" in said
    assert "passed: the attack stays within what is certified" in said


def released_at_a_hundred(monkeypatch):
    sound = PrivateHistogramConfig.release

    def release(self, *users):
        return sound(self.model_copy(update={"target_epsilon": 100.0}), *users)

    monkeypatch.setattr(PrivateHistogramConfig, "release", release)


def histograms_of_twenty_times_their_part(monkeypatch):
    sound = PrivateHistogramConfig.cells

    def cells(self, seed):
        made = sound(self, seed)
        made.epsilon *= 20
        return made

    monkeypatch.setattr(PrivateHistogramConfig, "cells", cells)


def counts_of_lone_rows(monkeypatch):
    monkeypatch.setattr(counts, "stability_threshold", lambda epsilon, delta: 1.0)


def a_choice_without_noise(monkeypatch):
    monkeypatch.setattr(semi_supervised, "choice_law", lambda errors, epsilon: np.eye(len(errors))[np.argmin(errors)])


def empty_cells_without_noise(monkeypatch):
    """Label privacy alone: features are public there, and rows say who is where."""
    monkeypatch.setattr(
        PrivateHistogramConfig,
        "cells",
        lambda self, seed: LabelPrivateHistogram(self.target_epsilon, self.side, seed),
    )


PLANTED = [
    ("consistency/pcl", released_at_a_hundred),
    ("consistency/pcl", empty_cells_without_noise),
    ("consistency/pcl2b", histograms_of_twenty_times_their_part),
    ("consistency/pcl2b", counts_of_lone_rows),
    ("consistency/pcde", counts_of_lone_rows),
    ("consistency/histogram", counts_of_lone_rows),
    ("consistency/semi-supervised", counts_of_lone_rows),
    ("consistency/semi-supervised", a_choice_without_noise),
]


@pytest.mark.parametrize(("name", "planted"), PLANTED)
def test_what_is_planted_into_the_mechanism_of_a_scenario_is_caught(name, planted, monkeypatch):
    planted(monkeypatch)
    status, out, err = command("audit", name, "--trials", "1000", "--set", "replicates=1")
    assert (status, "passed" in out) == (1, False)
    assert "audit failed: the learner's attack proves" in err


def test_noise_that_is_a_fifth_too_small_is_caught_by_many_targets():
    case = case_of("pcl")
    done = audit_cells(case, 60_000)
    assert done.passed
    assert done.attacked[0] > 0.85 * done.certified[0]
    weak = audit_cells(case, 60_000, mechanism=mechanism_of(case_of("pcl", epsilon=1.25)))
    assert not weak.passed
    assert "the learner's attack proves" in one_run_output(weak).failure


@pytest.mark.parametrize(("side", "users"), [(1.0, 50), (0.6, 3), (0.001, 40)])
def test_few_cells_or_few_rows_are_attacked_too(side, users):
    changes = {"mechanism.side": side, "population.users": users}
    assert audit_cells(Replicate(case_of("pcl").scenario.replace(**changes)), 1_000).passed


def test_another_mechanism_counts_nothing_in_cells():
    other = Replicate(case_of("pcl").scenario.replace(mechanism={"kind": "randomized_response", "target_epsilon": 1.0}))
    with pytest.raises(InputError, match="counts nothing in cells"):
        audit_cells(other, 1_000)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.9, 1.2])
@pytest.mark.parametrize("share", [0.5, 0.4])
def test_a_choice_between_two_sides_stays_within_its_law(at, share):
    """A side of errors + 1 against one of errors - 1, by label; the worst share of a side attains it."""
    low, high = (np.array([share, 1.0 - share]) * np.exp([-0.25 * sign, 0.25 * sign]) for sign in (1.0, -1.0))
    low, high = low / low.sum(), high / high.sum()
    reached = max(
        float(np.maximum(low - math.exp(at) * high, 0.0).sum()), float(np.maximum(high - math.exp(at) * low, 0.0).sum())
    )
    assert reached <= choice_delta(1.0, at)
    if (at, share) == (0.0, 0.5):
        assert reached == pytest.approx(choice_delta(1.0, at))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("moved", [1.0, 3.0])
def test_the_law_of_one_cell_is_that_of_laplace_noise(moved, epsilon):
    """By summing the densities of the noisy vote at both labels."""
    v = np.linspace(-40.0, 40.0, 800_001)
    one, zero = (0.5 * np.exp(-np.abs(v - at)) for at in (0.5 * moved, -0.5 * moved))
    summed = float(np.maximum(one - np.exp(epsilon) * zero, 0.0).sum()) * (v[1] - v[0])
    assert laplace_delta(moved, epsilon) == pytest.approx(summed, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("moved", [1.0, 3.0])
def test_the_law_of_two_cells_is_that_of_two_laplace_variables(moved, epsilon):
    """The product of their laws, by summing."""
    v = np.arange(-1600, 1600) * 0.015625 + 0.0078125
    one, zero = (0.5 * np.exp(-np.abs(v - at)) for at in (0.25 * moved, -0.25 * moved))
    first, second = np.outer(one, zero), np.outer(zero, one)
    summed = float(np.maximum(first - np.exp(epsilon) * second, 0.0).sum()) * 0.015625**2
    assert laplace_delta(moved, epsilon, cells=2) == pytest.approx(summed, rel=2e-3)
    assert laplace_delta(moved, epsilon, cells=2) < laplace_delta(moved, epsilon)


@pytest.mark.parametrize("arguments", [(1.0, 0.0, 3), (0.0, 0.0, 1), (1.0, -0.1, 1)])
def test_the_law_of_cells_refuses_what_is_out_of_range(arguments):
    with pytest.raises(ValueError, match="out of range"):
        laplace_delta(*arguments)
