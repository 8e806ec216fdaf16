"""Realised networks: bounds against enumeration, and against the exact figures before anything was realised."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from p2p_sim.privacy import CappedFetch, Coalition, LabelExchange, UniformSources, local_epsilon
from p2p_sim.privacy.randomized_response import local_delta
from tests.reference import direct_sum
from tests.reference import fetch as reference

EPSILONS = (0.0, 0.2, 0.5, 1.0)


def uniform(n: int) -> np.ndarray:
    return np.full((n, n), 1 / n)


def arrived(n: int, submissions: int) -> np.ndarray:
    return (np.arange(n) < submissions).astype(float)


@pytest.mark.parametrize("submissions", [0, 1, 2, 5])
def test_the_figure_given_the_submissions_equals_enumeration(submissions):
    found = UniformSources(5, 0, submissions, 0.2)
    for epsilon in EPSILONS:
        truth = reference.delta(uniform(5), 0.2, arrived(5, submissions), epsilon)
        bracket = found.delta(epsilon)
        assert bracket.lower <= truth + 1e-13
        assert bracket.upper == pytest.approx(truth, abs=1e-13)


@pytest.mark.parametrize(("sources", "submissions"), [(9, 11), (24, 10), (31, 14), (32, 36), (34, 34)])
def test_without_noise_the_chance_of_being_seen_is_not_rounded_down(sources, submissions):
    """1 - (1 - 1/n)^m in whole numbers; floats alone fall below it here."""
    exact = 1 - (1 - Fraction(1, sources)) ** submissions
    upper = Fraction(UniformSources(sources, 1, submissions, 0.0).delta(0.5).upper)
    assert exact <= upper <= exact * (1 + Fraction(1, 2**40))


@pytest.mark.parametrize(("known", "submissions"), [(1, 1), (1, 5), (2, 3), (3, 5), (4, 4)])
def test_known_sources_are_accounted_for(known, submissions):
    """Control: forgetting that they are known falls below the truth somewhere."""
    gaps = []
    for epsilon in EPSILONS:
        truth = reference.delta(uniform(5), 0.2, arrived(5, submissions), epsilon, known=tuple(range(1, known + 1)))
        assert UniformSources(5, known, submissions, 0.2).delta(epsilon).upper >= truth - 1e-13
        gaps.append(truth - UniformSources(5, 0, submissions, 0.2).delta(epsilon).upper)
    assert submissions == 1 or max(gaps) > 1e-3


@pytest.mark.parametrize(
    ("n", "members", "submissions", "known"), [(4, 1, 4, 0), (4, 2, 3, 0), (4, 1, 2, 1), (3, 1, 3, 0)]
)
def test_members_are_accounted_for(n, members, submissions, known):
    """The members are the last users; control: forgetting them falls below the truth somewhere."""
    pooled, plain = tuple(range(n - members, n)), tuple(range(1, 1 + known))
    truths = [reference.member_delta(uniform(n), 0.2, arrived(n, submissions), pooled, e, plain) for e in EPSILONS]
    found = [UniformSources(n, known, submissions, 0.2, members).delta(e).upper for e in EPSILONS]
    forgotten = [UniformSources(n, known, submissions, 0.2).delta(e).upper for e in EPSILONS]
    assert all(b >= truth - 1e-13 for b, truth in zip(found, truths, strict=True))
    assert max(truth - b for b, truth in zip(forgotten, truths, strict=True)) > 1e-3


@pytest.mark.parametrize(("n", "submissions"), [(4, 2), pytest.param(4, 4, marks=pytest.mark.slow)])
def test_members_who_ask_again_are_accounted_for(n, submissions):
    """They see every label they got, not only the one they pass on; control: one label a member is too few."""
    truths = [reference.member_delta(uniform(n), 0.2, arrived(n, submissions), (n - 1,), e, draws=2) for e in EPSILONS]
    found, once = (
        [UniformSources(n, 0, submissions, 0.2, 1, draws).delta(e).upper for e in EPSILONS] for draws in (2, 1)
    )
    assert all(b >= truth - 1e-13 for b, truth in zip(found, truths, strict=True))
    assert max(truth - b for b, truth in zip(once, truths, strict=True)) > 1e-3


def test_averaged_over_the_submissions_it_lies_little_above_the_figure_of_the_whole_exchange():
    """Above, since the worst data set and direction are those of each count; with members, revealing costs more."""
    n, alpha, theta = 30, 0.1, 0.4
    weights = binom.pmf(np.arange(n + 1), n, theta)
    for epsilon in (0.3, 0.8):
        average = sum(w * UniformSources(n, 0, t, alpha).delta(epsilon).upper for t, w in enumerate(weights))
        assert 1.0 <= average / direct_sum.delta(n, alpha, theta, epsilon) <= 1.5
        for members in (1, 3):
            parts = [UniformSources(n, 0, t, alpha, members).delta(epsilon).upper for t in range(n + 1)]
            exact = Coalition(LabelExchange(n, alpha, theta), members).delta(epsilon)
            assert exact.lower <= weights @ parts <= 1.2 * exact.upper


def test_one_unknown_source_has_the_local_figure_only():
    for epsilon in EPSILONS:
        alone = UniformSources(1, 0, 3, 0.2).delta(epsilon)
        assert alone.lower <= local_delta(0.2, epsilon).upper
        assert alone.upper == pytest.approx(local_delta(0.2, epsilon).upper)
    assert UniformSources(1, 0, 1, 0.2).epsilon(1e-9).epsilon_upper <= local_epsilon(0.2)
    assert UniformSources(50, 3, 0, 0.2).epsilon(1e-9).epsilon_upper == 0.0


@pytest.mark.parametrize("exchange", [UniformSources(60, 5, 40, 0.2), UniformSources(60, 0, 40, 0.2, 2)])
def test_epsilon_is_where_delta_crosses(exchange):
    bound = exchange.epsilon(1e-2 if exchange.members == 0 else 0.05)
    assert exchange.delta(bound.epsilon_upper * (1 + 1e-6)).upper <= bound.delta
    assert exchange.delta(bound.epsilon_upper * (1 - 1e-4)).upper > bound.delta
    assert bound.observer == ("coalition" if exchange.members else "learner")
    assert any("realised" in condition for condition in bound.conditions)


@pytest.mark.slow
def test_large_networks_are_quick_and_near_the_exact_figure():
    n = 10**6
    exact = UniformSources(n, 0, n, 0.1).epsilon(1e-9)
    known = UniformSources(n, n // 10, n, 0.1).epsilon(1e-9)
    capped = CappedFetch(np.full(n, 1 / n), 0.1).epsilon(1e-9)
    assert exact.epsilon_lower < known.epsilon_upper < 1.1 * exact.epsilon_upper
    assert exact.epsilon_lower < capped.epsilon_upper < 2.1 * exact.epsilon_upper


@pytest.mark.parametrize("known", [(), (4,)])
@pytest.mark.parametrize("alpha", [0.2, 0.35])
def test_capped_fetches_lie_above_enumeration(known, alpha):
    rng = np.random.default_rng(5)
    for _ in range(4):
        weights = rng.dirichlet(np.full(5, 3.0), size=5)
        bound = CappedFetch(weights[:4].max(axis=1), alpha, weights[:4][:, list(known)].sum(axis=1))
        for epsilon in EPSILONS:
            truth = reference.delta(weights, alpha, arrived(5, 4), epsilon, known)
            assert bound.delta(epsilon).upper >= truth - 1e-13


def test_who_strays_is_charged_for_rows_of_equal_entries(monkeypatch):
    """Of 30 equal entries one is the target's; a stray one has few ones among the other 29, or few zeros."""
    monkeypatch.setattr("p2p_sim.privacy.overlays.realised_network.SHARES", (0.3,))
    alpha, cap = 0.4, 1.0 / 30.0
    [bound] = CappedFetch(np.full(7, cap), alpha)._levels.bounds
    ones = np.arange(30)
    outside = (ones * cap < 0.3 * alpha) | ((ones + 1) * cap > 1.0 - 0.3 * alpha)
    for others in (0, 29):  # labels of 1
        law = np.convolve(binom.pmf(ones, others, 1.0 - alpha), binom.pmf(ones, 29 - others, alpha))[:30]
        assert 7.0 * law[outside].sum() <= bound.stray < 7.0


def test_capped_fetches_of_large_networks_cost_at_most_twice_the_exact_figure():
    n = 1000
    caps = np.full(100, 1 / n)
    exact = UniformSources(n, 0, 100, 0.1).epsilon(1e-6)
    bound = CappedFetch(caps, 0.1).epsilon(1e-6).epsilon_upper
    assert exact.epsilon_lower < bound < 2.0 * exact.epsilon_upper
    rng = np.random.default_rng(3)
    uneven = CappedFetch(caps * rng.uniform(0.8, 1.25, 100), 0.1).epsilon(1e-6).epsilon_upper
    assert 0.8 * bound < uneven < 1.5 * bound
    assert bound < CappedFetch(caps, 0.1, known_mass=0.5).epsilon(1e-6).epsilon_upper <= local_epsilon(0.1)


def test_a_larger_cap_never_helps():
    one, two = CappedFetch(np.full(200, 0.004), 0.1), CappedFetch(np.full(200, 0.005), 0.1)
    for epsilon in (0.0, 0.3, 0.8):
        assert one.delta(epsilon).upper <= two.delta(epsilon).upper


def test_nobody_submits_nothing_leaks():
    nothing = UniformSources(5, 0, 0, 0.1)
    assert (nothing.epsilon(1e-9).epsilon_lower, nothing.epsilon(1e-9).epsilon_upper) == (0.0, 0.0)
    assert (nothing.delta(0.5).lower, nothing.delta(0.5).upper) == (0.0, 0.0)
    assert CappedFetch(np.zeros(0), 0.1).epsilon(1e-9).epsilon_upper == 0.0
    assert CappedFetch(np.ones(1), 0.1).delta(0.5).upper == pytest.approx(local_delta(0.1, 0.5).upper)
    assert CappedFetch(np.full(9, 0.1), 0.0).epsilon(1e-3).epsilon_upper == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 1, 0.1), "sources = 0: must be a whole number from 1"),
        ((5, 5, 1, 0.1), "known = 5: must be a whole number from 0 to 4"),
        ((5, 1, -1, 0.1), "submissions = -1"),
        ((5, 1, 2, 0.7), "flip_prob = 0.7"),
        ((5, 1, 2, 0.1, 1.5), "members = 1.5"),
    ],
)
def test_bad_values_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        UniformSources(*arguments)


@pytest.mark.parametrize(("caps", "mass"), [([0.0, 0.1], 0.0), ([1.1], 0.0), ([0.1], 1.5), ([0.1], [0.1, 0.2])])
def test_bad_caps_are_named(caps, mass):
    with pytest.raises(ValueError, match="must be"):
        CappedFetch(np.array(caps), 0.1, np.array(mass))
