"""A curator who resamples labels of three classes or more, whose noisy distributions are not released.

The reference enumerates the noisy labels of tiny clusters over equally likely noise vectors; with 36 values a class its
error is below 2e-3 of δ (`test_the_reference_is_near_enough`).
"""

import itertools
import math
import time
from functools import lru_cache

import numpy as np
import pytest

from p2p_sim.analysis.privacy.claims.algorithm1 import laplace_nodes, noisy_label_law, released_distribution
from p2p_sim.analysis.privacy.others import attained_classes as attained
from p2p_sim.analysis.privacy.others.centralised import COUNTED, ClusterResampling
from p2p_sim.analysis.privacy.others.resampled_classes import Losses, _laplace, classes_delta

CASES = [(3, 1.0, 1.0, 0.1), (3, 0.8, 1.5, 0.2), (4, 1.0, 3.0, 0.05), (4, 0.9, 2.0, 0.25), (3, 0.5, 0.5, 0.15)]


@lru_cache(maxsize=32)
def laws(n: int, lam: float, sigma: float, tau: float, count: int = 36):
    """Pairs of laws of the noisy labels, over all data sets up to symmetry; the target holds 0 or 1."""
    noise = laplace_nodes(3, sigma / n, count)
    pairs = []
    for rest in itertools.combinations_with_replacement(range(3), n - 1):
        pairs.append([noisy_label_law((own, *rest), 3, tau, noise, lam) for own in (0, 1)])
    return pairs


def enumerated(epsilon: float, *case) -> float:
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in laws(*case))


@pytest.mark.slow
def test_the_reference_is_near_enough():
    case = (3, 0.8, 1.5, 0.2)
    coarse, fine = enumerated(0.3, *case), enumerated(0.3, *case, 60)
    assert coarse == pytest.approx(fine, rel=2e-3)


@pytest.mark.parametrize(
    "case", [*CASES[1:3], *(pytest.param(one, marks=pytest.mark.slow) for one in (CASES[0], *CASES[3:]))]
)
def test_the_bounds_hold_the_enumerated_truth(case):
    n, lam, sigma, tau = case
    privacy = ClusterResampling(n, 3, lam, sigma, tau, released=False)
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        truth = enumerated(epsilon, *case)
        assert truth <= privacy.delta(epsilon).upper + 3e-3 * truth
    for delta in (0.01, 0.1):
        lower, upper = privacy.lower_epsilon(delta), privacy.epsilon(delta).epsilon_upper
        assert lower <= upper
        if lower > 0.0:
            assert enumerated(lower, *case) >= delta * (1.0 - 3e-3)


def test_a_smaller_cluster_has_a_lower_end_at_all():
    assert ClusterResampling(4, 3, 0.9, 2.0, 0.25, released=False).lower_epsilon(0.01) > 0.2


def test_controls_are_caught():
    """A change of half the size falls below the truth; of a curator who resamples less the lower end is above."""
    case = (4, 1.0, 0.05, 0.25)  # hardly any noise: draws alone
    truth = enumerated(0.3, *case)
    assert classes_delta(4, 1.0, 0.05, 0.25, 0.3, 3) >= truth
    assert classes_delta(8, 1.0, 0.05, 0.25, 0.3, 3) < truth  # 1/8 for 1/4, though it counts eight draws
    claimed = ClusterResampling(10_000, 3, 0.9, 2.0, 0.1, released=False).epsilon(1e-6).epsilon_upper
    assert attained.attained_classes(10_000, 3, 0.85, 2.0, 0.1, 1e-6) > claimed


@pytest.mark.parametrize("classes", [3, 5])
def test_a_changed_label_moves_the_distribution_by_at_most_one_nth(classes):
    """In total variation, for fixed noise; the control is the noisy shares before they are renormalised."""
    rng, n, tau = np.random.default_rng(3), 8, 0.8 / classes
    noise = rng.laplace(scale=0.15, size=(200_000, classes))
    counts = rng.multinomial(n - 1, np.ones(classes) / classes, size=len(noise))
    ones = np.eye(classes)
    first, second = (released_distribution((counts + ones[own]) / n, noise, tau) for own in (0, 1))
    moved = 0.5 * np.abs(first - second).sum(axis=1)
    assert moved.max() <= (1.0 + 1e-9) / n
    assert moved.max() > 0.9 / n
    assert min(first.min(), second.min()) >= tau * (1.0 - 1e-12)


@pytest.mark.parametrize(("shift", "grid"), [(0.3, 0.01), (1.7, 0.013)])
def test_laplace_noise_on_the_grid_has_its_curve(shift, grid):
    law = _laplace(shift, grid)
    for epsilon in (0.0, 0.3 * shift, 0.9 * shift):
        truth = -math.expm1((epsilon - shift) / 2.0)
        assert truth <= law.divergence(epsilon) <= truth * (1.0 + 1e-5) + 0.02 * grid


def test_repeated_draws_have_their_curve():
    """Three points, six draws, by enumeration."""
    low, moved = 0.2, 0.1
    step = math.log1p(moved / low)
    law = Losses(np.array([low + moved, 1.0 - 2.0 * low - moved, low]), -1, step, 0.0).repeated(6)
    first, second = np.ones(1), np.ones(1)
    for _ in range(6):
        first = np.outer(first, [low + moved, 0.5, low]).ravel()
        second = np.outer(second, [low, 0.5, low + moved]).ravel()
    for epsilon in (0.0, 0.4, 1.1):
        truth = np.maximum(second - math.exp(epsilon) * first, 0.0).sum()
        assert truth <= law.divergence(epsilon) <= truth * (1.0 + 1e-5) + 1e-6


def test_the_weight_of_the_lower_end_is_bounded_as_said():
    """No sampled weight in the second world exceeds the bound that the confidence bound rests on."""
    for counts, lam, own in (((104, 104, 791), 1.0, False), ((54, 54, 691, 200), 0.9, True)):
        event = attained._Event.of(counts, lam, 2.0, 0.05, 1e-4, own, 3.3)
        assert event is not None
        second = event._sample(2**17, np.random.default_rng(1))[1]
        assert 0.0 < second.max() <= event._most
        control = attained._Event.of(counts, lam, 2.0, 0.05, 1e-4, own, 6.6)
        assert second.max() > control._most  # of a rarer event


def test_the_sample_agrees_with_simulation():
    """Of an event that is not rare: counted in the mechanism itself, five standard errors."""
    counts, lam, sigma, tau = (12, 12, 35), 0.9, 2.0, 0.15
    event = attained._Event.of(counts, lam, sigma, tau, 1e-3, True, 1.8)
    assert event is not None
    sampled = [its.mean() for its in event._sampled(np.random.default_rng(2))]
    rng, trials = np.random.default_rng(7), 200_000
    noise = sigma / 60 * rng.laplace(size=(trials, 3))
    for place, found in enumerate(sampled):
        q = released_distribution((np.array(counts) + np.eye(3)[place]) / 60, noise, tau)
        many = rng.binomial(35, lam * q[:, 0])
        few = rng.binomial(35 - many, lam * q[:, 1] / (1.0 - lam * q[:, 0]))
        own = rng.random(trials) < lam * q[:, 0] + (1.0 - lam) * (place == 0)
        seen = float(((many - few >= event.least) & own).mean())
        assert abs(seen - found) < 6.0 * math.sqrt(seen / trials) + 1e-3 * seen


@pytest.mark.parametrize(
    ("arguments", "ratio"),
    [((1000, 3, 1.0, 2.0, 0.1), 1.25),
     pytest.param((1000, 3, 1.0, 1.0, 0.1), 1.15, marks=pytest.mark.slow),
     pytest.param((10_000, 3, 0.9, 2.0, 0.1), 1.1, marks=pytest.mark.slow),
     pytest.param((100_000, 3, 1.0, 2.0, 0.3), 1.1, marks=pytest.mark.slow),
     pytest.param((1000, 10, 0.9, 2.0, 0.05), 1.25, marks=pytest.mark.slow)],
)  # fmt: skip
def test_both_ends_are_near_each_other_and_below_the_pure_epsilon(arguments, ratio):
    started = time.process_time()
    privacy = ClusterResampling(*arguments, released=False)
    bound, lower = privacy.epsilon(1e-6), privacy.lower_epsilon(1e-6)
    assert bound.basis == COUNTED
    assert lower <= bound.epsilon_upper <= ratio * lower
    assert bound.epsilon_upper < 0.9 * privacy.pure_epsilon
    assert privacy.delta(bound.epsilon_upper).upper <= 1e-6 < privacy.delta(0.99 * bound.epsilon_upper).upper
    assert time.process_time() - started < 15.0


def test_without_noise_the_draws_alone_hide_the_label():
    bound = ClusterResampling(1000, 3, 1.0, 0.0, 0.1, released=False).epsilon(1e-5)
    assert 0.4 < bound.epsilon_upper < 0.6


def test_two_classes_have_it_where_counting_takes_too_long():
    small = ClusterResampling(2000, 2, 1.0, 1.0, 0.1, released=False).epsilon(1e-6).epsilon_upper
    large = ClusterResampling(4000, 2, 1.0, 1.0, 0.1, released=False).epsilon(1e-6).epsilon_upper
    assert 0.5 * small < large < small


@pytest.mark.parametrize(
    ("n", "lam", "scale", "threshold"),
    [(100, 0.9, 2.0, 0.3333333333), (1000, 1e-9, 2.0, 0.1), (1000, 0.5, 1e300, 0.1), (1000, 0.5, math.inf, 1e-9)],
)
def test_extreme_values_need_no_vast_grid(n, lam, scale, threshold):
    """A threshold just below 1/K, or a rare draw, made grids of more points than memory holds."""
    model = ClusterResampling(n, 3, lam, scale, threshold, released=False)
    started = time.process_time()
    found = model.epsilon(1e-5).epsilon_upper
    assert time.process_time() - started < 10.0
    label = math.log1p((1.0 - lam - 1e-5) / (lam * (threshold if threshold > 0.33 else 1.0)))
    assert label < found <= model.pure_epsilon
