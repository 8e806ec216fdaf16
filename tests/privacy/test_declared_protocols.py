"""What a protocol declares against enumeration of its views, and against the exchanges whose law it may declare."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from p2p_sim.mechanisms.pushed_labels import walk_distances
from p2p_sim.network.overlay import Overlay
from p2p_sim.privacy import LabelExchange, MajorityExchange, local_epsilon
from p2p_sim.privacy.rivals.declared_protocols import LARGEST_CLUSTER, DeclaredProtocol, ShuffledByWalks, SubmissionLaw


def identity(share):
    return share


def of_three(share):
    return 3 * share**2 - 2 * share**3


def arcsine(share):
    return math.sin(math.pi * share / 2) ** 2


@pytest.mark.parametrize(("n", "alpha", "theta"), [(3, 0.2, 1.0), (20, 0.1, 0.4), (60, 0.05, 1.0), (300, 0.1, 0.5)])
def test_the_law_of_an_exchange_gives_its_epsilon(n, alpha, theta):
    for law, exchange in (
        (identity, LabelExchange(n, alpha, theta)),
        (of_three, MajorityExchange(n, alpha, theta, 3)),
    ):
        declared = DeclaredProtocol(n, alpha, 2, SubmissionLaw(law, theta)).epsilon(1e-5)
        bound = exchange.epsilon(1e-5)
        assert declared.epsilon_lower == pytest.approx(bound.epsilon_lower, rel=1e-6)
        assert bound.epsilon_lower * (1 - 1e-9) <= declared.epsilon_upper <= 1.02 * bound.epsilon_upper


@pytest.mark.parametrize("law", [arcsine, lambda p: 0.5, lambda p: float(p > 0.5) if p != 0.5 else 0.5])
@pytest.mark.parametrize("theta", [0.3, 1.0])
def test_any_law_against_a_sum_over_all_noise(law, theta):
    """δ is the largest over data sets and directions of a sum over t, the ones among t, and the noisy ones."""
    for n, alpha in ((3, 0.2), (6, 0.05)):
        model = DeclaredProtocol(n, alpha, 2, SubmissionLaw(law, theta))
        for epsilon in (0.0, 0.2, 1.0):
            worst = 0.0
            for ones in range(n):
                views = [views_of([1] * ones + [0] * (n - 1 - ones) + [target], alpha, law, theta) for target in (0, 1)]
                worst = max(worst, divergence(*views, epsilon), divergence(*reversed(views), epsilon))
            assert model.delta(epsilon).lower <= worst * (1 + 1e-12) + 1e-15
            assert worst <= model.delta(epsilon).upper <= worst * (1 + 1e-6) + 1e-12


def views_of(labels, alpha, law, theta):
    n, views = len(labels), Counter()
    for noisy in itertools.product((0, 1), repeat=n):
        chance = math.prod(alpha if bit != label else 1 - alpha for bit, label in zip(noisy, labels, strict=True))
        share = law(sum(noisy) / n)
        for t in range(n + 1):
            for k in range(t + 1):
                came = math.comb(n, t) * theta**t * (1 - theta) ** (n - t)
                views[t, k] += chance * came * math.comb(t, k) * share**k * (1 - share) ** (t - k)
    return views


def divergence(p, q, epsilon):
    return sum(max(0.0, p[view] - math.exp(epsilon) * q[view]) for view in p)


def pushed(labels, alpha, step, own=0.0):
    """The law of all that the learner sees: who submits which labels. own: probability of submitting one's own."""
    n, views = len(labels), Counter()
    ends = [[(1 - own) * chance + own * (user == end) for end, chance in enumerate(step[user])] for user in range(n)]
    for noisy in itertools.product((0, 1), repeat=n):
        chance = math.prod(alpha if bit != label else 1 - alpha for bit, label in zip(noisy, labels, strict=True))
        for holders in itertools.product(range(n), repeat=n):
            walked = math.prod(ends[user][end] for user, end in enumerate(holders))
            if walked:
                views[tuple(sorted(zip(holders, noisy, strict=True)))] += chance * walked
    return views


def worst_pushed(n, alpha, step, epsilon, own=0.0):
    """δ over all data sets and users."""
    worst = 0.0
    for labels in itertools.product((0, 1), repeat=n):
        for user in range(n):
            other = [*labels[:user], 1 - labels[user], *labels[user + 1 :]]
            both = [pushed(list(each), alpha, step, own) for each in (labels, other)]
            worst = max(worst, divergence(*both, epsilon))
    return worst


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.8])
def test_pushed_labels_stay_below_the_bound_for_symmetric_protocols(epsilon):
    """The control submits its own label half of the time, and is above the bound."""
    n, alpha = 3, 0.2
    uniform = np.full((n, n), 1 / n)
    bound = DeclaredProtocol(n, alpha).delta(epsilon).upper
    assert worst_pushed(n, alpha, uniform, epsilon) <= bound * (1 + 1e-12)
    if epsilon:
        assert worst_pushed(n, alpha, uniform, epsilon, own=0.5) > bound


@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_walks_on_an_overlay_stay_below_their_bound(steps):
    """A path of three users, whose walks from the middle never end where they would if they mixed."""
    overlay = Overlay(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], dtype=np.int32))
    step = np.linalg.matrix_power(np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]), steps)
    [distance] = walk_distances(overlay, np.array([3]), steps)
    assert distance == pytest.approx(0.5 * np.abs(step - 1 / 3).sum(), abs=1e-12)
    model = ShuffledByWalks(3, 0.2, 2, distance)
    for epsilon in (0.0, 0.5, 1.0):
        assert worst_pushed(3, 0.2, step, epsilon) <= model.delta(epsilon).upper * (1 + 1e-12)


def test_on_a_complete_graph_one_step_is_uniform():
    n = 5
    overlay = Overlay(np.arange(0, n * n + 1, n), np.tile(np.arange(n, dtype=np.int32), n))
    assert walk_distances(overlay, np.array([n]), 1)[0] < 1e-12
    assert walk_distances(None, np.array([n, 7]), 3) == [0.0, 0.0]


@pytest.mark.parametrize("steps", [2, 27, 28, 55, 64])
def test_the_bound_of_walks_charges_the_rounding_of_all_products(steps):
    """Each of the steps - 1 products may add n 2^-53 to a row's error; D has half of the n rows' errors."""
    n = 50
    overlay = Overlay(np.arange(0, n * n + 1, n), np.tile(np.arange(n, dtype=np.int32), n))
    assert walk_distances(overlay, np.array([n]), steps)[0] >= 0.5 * n * (steps - 1) * n * 2.0**-53


def test_without_a_law_or_in_large_clusters_the_shuffled_bound_holds():
    assert DeclaredProtocol(100, 0.1).epsilon(1e-5).epsilon_upper < local_epsilon(0.1)
    big = DeclaredProtocol(2 * LARGEST_CLUSTER, 0.1, 2, SubmissionLaw(identity))
    assert big.delta(0.1).lower == 0.0
    assert "shuffled" in big.basis
    assert DeclaredProtocol(50, 0.3, 5, SubmissionLaw(identity)).epsilon(1e-5).epsilon_upper <= local_epsilon(0.3, 5)


@pytest.mark.parametrize(
    ("law", "fault"),
    [
        (SubmissionLaw(lambda p: p * p), "1 - ones"),
        (SubmissionLaw(lambda p: 1 - p), "must not decrease"),
        (SubmissionLaw(lambda p: 2 * p), "probability"),
        (SubmissionLaw(lambda p: math.nan), "probability"),
        (SubmissionLaw(identity, 0.0), "sampling_rate"),
        (SubmissionLaw(arcsine, 0.5), None),
    ],
)
def test_a_law_that_is_none_is_refused(law, fault):
    assert law.fault() is None if fault is None else fault in law.fault()
