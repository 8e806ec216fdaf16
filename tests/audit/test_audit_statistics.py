"""The statistics of an audit: bounds of proportions, laws of views, events."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from p2p_sim.privacy.audit_statistics.power import ERROR, clopper_pearson, delta_lower, epsilon_lower, plan
from p2p_sim.privacy.audit_statistics.view_laws import CoalitionViews, CountViews, LearnerViews
from p2p_sim.privacy.exchange.label_exchange import LabelExchange


@pytest.mark.parametrize("error", [1e-9, 2.5e-10, 0.05])
@pytest.mark.parametrize(("hits", "trials"), [(1, 1), (3, 20), (9_000, 100_000), (999_990, 1_000_000)])
def test_clopper_pearson_inverts_the_binomial_tails(hits, trials, error):
    bounds = clopper_pearson(hits, trials, error)
    assert binom.sf(hits - 1, trials, bounds.lower) == pytest.approx(error, rel=1e-5)
    if hits < trials:
        assert binom.cdf(hits, trials, bounds.upper) == pytest.approx(error, rel=1e-5)
    else:
        assert bounds.upper == 1.0
    assert bounds.lower < hits / trials <= bounds.upper


def test_clopper_pearson_at_the_ends_and_beyond():
    assert clopper_pearson(0, 10, 1e-3).lower == 0.0
    assert clopper_pearson(0, 10, 1e-3).upper == pytest.approx(1 - 1e-3**0.1)
    for hits, trials, error in ((-1, 10, 0.1), (11, 10, 0.1), (0, 0, 0.1), (1, 2, 0.0), (1, 2, math.nan)):
        with pytest.raises(ValueError, match=r"hits|error"):
            clopper_pearson(hits, trials, error)


def test_lower_bounds_never_fall_below_zero():
    assert delta_lower(5, 900, 1000, 0.5, 1e-9) == 0.0
    assert epsilon_lower(5, 900, 1000, 1e-5, 1e-9) == 0.0
    assert epsilon_lower(0, 0, 1000, 1e-5, 1e-9) == 0.0


def test_each_proportion_is_charged_half_of_the_error():
    """By the binomial tails themselves: 40 hits and 9 misses of 100 at error 0.02."""
    own, other = epsilon_lower(40, 9, 100, 0.01, 0.02), delta_lower(40, 9, 100, 0.3, 0.02)
    hits = brentq(lambda p: binom.sf(39, 100, p) - 0.01, 0.0, 0.4)
    misses = brentq(lambda p: binom.cdf(9, 100, p) - 0.01, 0.09, 1.0)
    assert own == pytest.approx(math.log((hits - 0.01) / misses), rel=1e-9)
    assert other == pytest.approx(hits - math.exp(0.3) * misses, rel=1e-9)


def test_the_lower_bound_fails_as_seldom_as_it_says():
    """At error 0.05 the bound of δ may exceed the true difference in 5% of 4,000 repetitions (false alarm 1e-9: 300).

    The control takes the plain difference of the proportions for a bound, and fails in half of them.
    """
    rng, p, q, epsilon = np.random.default_rng(1), 0.3, 0.1, 0.5
    true = p - math.exp(epsilon) * q
    pairs = rng.binomial(500, [p, q], (4_000, 2))
    failures = sum(delta_lower(int(x), int(y), 500, epsilon, 0.05) > true for x, y in pairs)
    naive = int((pairs[:, 0] / 500 - math.exp(epsilon) * pairs[:, 1] / 500 > true).sum())
    assert failures <= binom.isf(1e-9, 4_000, 0.05) < naive


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize(("n", "alpha", "theta"), [(2, 0.3, 1.0), (9, 0.1, 0.4), (30, 0.05, 0.9), (7, 0.0, 0.5)])
def test_learner_views_have_the_accountant_s_delta(n, alpha, theta, rounds):
    """By the counts alone, and in one round with the target's submission apart, which tells no more."""
    kinds = [CountViews, LearnerViews] if rounds == 1 else [CountViews]
    for views in (kind(LabelExchange(n, alpha, theta, rounds)) for kind in kinds):
        check_deltas(views, n)


def check_deltas(views, n):
    assert (len(views.laws), views.cluster_size, views.members) == ((n - 1) // 2 + 1, n, 0)
    for law in views.laws:
        assert law.probabilities.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-12)
    for epsilon in (0.0, 0.3, 1.0):
        exact = views.delta(epsilon)
        table = max(law.deltas(epsilon).max() for law in views.laws)
        assert exact.lower * (1 - 1e-9) <= table <= exact.upper * (1 + 1e-9)


def test_the_event_attains_delta_and_no_shift_of_it_does():
    views = LearnerViews(LabelExchange(12, 0.1, 0.5))
    for law, epsilon, label in itertools.product(views.laws[::3], (0.0, 0.2, 0.8), (0, 1)):
        own, other = law.probabilities[label], law.probabilities[1 - label]
        event = law.event(epsilon, label)
        attained = own[event].sum() - math.exp(epsilon) * other[event].sum()
        assert attained == pytest.approx(law.deltas(epsilon)[label], abs=1e-14)
        shifted = np.roll(event, 1)
        assert own[shifted].sum() - math.exp(epsilon) * other[shifted].sum() < attained


def coalition_deltas(n: int, c: int, alpha: float, theta: float, epsilon: float) -> dict[int, float]:
    """δ by enumeration of every flip, choice and subsample, for each number of ones among the non-members.

    The target is user 0, members are 1 to c; of the two directions the larger.
    """
    members = range(1, c + 1)
    peers = [(p, n ** -float(n)) for p in itertools.product(range(n), repeat=n)]
    keeps = [(k, theta ** sum(k) * (1 - theta) ** (n - sum(k))) for k in itertools.product((0, 1), repeat=n)]
    given = []
    for noisy in itertools.product((0, 1), repeat=n):
        law: dict[tuple[object, ...], float] = defaultdict(float)
        for peer, chance in peers:
            own = tuple((noisy[i], peer[i], noisy[peer[i]]) for i in members)
            askers = tuple((i, peer[i]) for i in range(n) if peer[i] in members)
            for keep, weight in keeps:
                sent = tuple(noisy[p] if k else None for p, k in zip(peer, keep, strict=True))
                law[own, askers, sent] += chance * weight
        given.append((noisy, law))
    worst: dict[int, float] = defaultdict(float)
    for others in itertools.product((0, 1), repeat=n - 1 - c):
        views: dict[tuple[object, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for target in (0, 1):
            labels = (target, *(0 for _ in members), *others)
            for noisy, law in given:
                flips = sum(a != b for a, b in zip(labels, noisy, strict=True))
                for view, p in law.items():
                    views[view][target] += alpha**flips * (1 - alpha) ** (n - flips) * p
        for own in (0, 1):
            found = sum(max(0.0, pair[own] - math.exp(epsilon) * pair[1 - own]) for pair in views.values())
            worst[sum(others)] = max(worst[sum(others)], found)
    return worst


@pytest.mark.parametrize(("n", "c"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2)])
@pytest.mark.parametrize(("alpha", "theta", "epsilon"), [(0.15, 0.6, 0.4)])
def test_coalition_views_have_the_enumerated_delta(n, c, alpha, theta, epsilon):
    views = CoalitionViews(n, alpha, theta, c)
    exact, by_ones = views.delta(epsilon), coalition_deltas(n, c, alpha, theta, epsilon)
    enumerated = max(by_ones.values())
    assert len(views.laws) == (n - c - 1) // 2 + 1  # the others mirror these
    for ones, law in enumerate(views.laws):
        assert law.deltas(epsilon).max() == pytest.approx(by_ones[ones], abs=1e-13)
    assert exact.lower <= enumerated * (1 + 1e-12)
    assert enumerated <= exact.upper * (1 + 1e-12)
    assert exact.upper - exact.lower < 1e-9


@pytest.mark.parametrize("c", [1, 2, 5])
def test_coalition_laws_are_laws_and_members_help(c):
    views = CoalitionViews(12, 0.1, 0.5, c)
    for law in views.laws:
        assert law.probabilities.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-12)
    learner = LearnerViews(LabelExchange(12, 0.1, 0.5))
    assert views.delta(0.5).lower > learner.delta(0.5).upper
    epsilon = views.epsilon(0.05)
    assert views.delta(epsilon.upper).upper <= 0.05 <= views.delta(epsilon.lower).upper * (1 + 1e-5)


def test_a_plan_without_evidence_proves_nothing():
    """At α = 1/2 no view tells anything: exact δ = 0, and equal counts prove 0."""
    attack = plan(LearnerViews(LabelExchange(4, 0.5, 1.0)), 1e-5, 1_000)
    counts = np.round(attack.law.probabilities[0] * 1_000).astype(np.int64)
    counts[-1] += 1_000 - counts.sum()
    result = attack.judge(np.stack([counts, counts]))
    assert result.passed
    assert (result.delta_exact.upper, result.delta_lower_confidence) == (0.0, 0.0)
    with pytest.raises(ValueError, match="counts"):
        attack.judge(np.stack([counts, counts])[:, :-1])


def test_the_better_of_two_directions_counts():
    """Counts as the laws have them, with one world's events seldom: each test takes what proves more."""
    attack = plan(LearnerViews(LabelExchange(12, 0.05, 0.5)), 1e-3, 100_000)
    zero, one = (np.round(law * 100_000).astype(np.int64) for law in attack.law.probabilities)
    for counts in (zero, one):
        counts[np.argmax(counts)] += 100_000 - counts.sum()
    result = attack.judge(np.stack([zero, one]))
    found = []
    for label, (own, other) in enumerate(((zero, one), (one, zero))):
        event = attack.law.event(attack.epsilon_events[label], label)
        found.append(epsilon_lower(int(own[event].sum()), int(other[event].sum()), 100_000, 1e-3, ERROR / 2))
    assert result.epsilon_lower_confidence == max(found) > min(found)
    assert result.passed


@pytest.mark.parametrize("members", [0, 6, 4])
def test_coalitions_out_of_range_are_refused(members):
    with pytest.raises(ValueError, match="members"):
        CoalitionViews(4, 0.1, 0.5, members)
