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

from p2p_sim.privacy.claims.algorithm1_laws import laplace_nodes, noisy_label_law, released_distribution
from p2p_sim.privacy.rivals.centralised import COUNTED, ClusterResampling
from p2p_sim.privacy.rivals.resampled_classes import _SLACK, LARGEST_CLUSTER, Losses, _laplace, classes_delta

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


def test_a_change_of_half_the_size_falls_below_the_truth():
    case = (4, 1.0, 0.05, 0.25)  # hardly any noise: draws alone
    truth = enumerated(0.3, *case)
    assert classes_delta(4, 1.0, 0.05, 0.25, epsilon=0.3, classes=3) >= truth
    assert (
        classes_delta(8, 1.0, 0.05, 0.25, epsilon=0.3, classes=3) < truth
    )  # 1/8 for 1/4, though it counts eight draws


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


def test_rounding_of_the_largest_cluster_is_far_below_the_slack(monkeypatch):
    """Against exact integers; a convolution that is off by 1e-12 is off by more than the slack after all draws."""
    n = LARGEST_CLUSTER
    ones = range(3 * n // 8 - 1200, 3 * n // 8 + 1201, 600)
    exact = np.array([math.comb(n, k) * 3**k * 5 ** (n - k) / 8**n for k in ones])

    def error() -> float:
        law = Losses(np.array([0.625, 0.0, 0.375]), -1, 1e-5, 0.0).repeated(n)
        found = law.law[[2 * k - n - law.first for k in ones]]
        return float(np.abs(found / exact - 1.0).max())

    assert error() < 1e-9 < 0.02 * _SLACK
    convolve = np.convolve
    monkeypatch.setattr(np, "convolve", lambda *laws: convolve(*laws) * (1.0 - 1e-12))
    assert error() > _SLACK


@pytest.mark.parametrize(("n", "least"), [(1, 0.99), (10, 0.63), (1000, 0.61)])
@pytest.mark.parametrize("lam", [1.0, 0.5])
@pytest.mark.parametrize("scale", [1e-4, 5e-4, 0.0017, 0.0023, 0.01])
def test_with_hardly_any_noise_a_label_that_only_the_target_holds_is_seen(n, least, lam, scale):
    """Among all n draws her label turns up with probability 1 - (1 - λ/n)^n or more, and without her hardly ever.

    The probabilities of Laplace noise that moves by more than 700 of its scale underflow.
    """
    privacy = ClusterResampling(n, 3, lam, scale, 1e-9, released=False)
    assert privacy.delta(0.1).upper >= least


@pytest.mark.parametrize(
    "arguments",
    [(1000, 3, 1.0, 2.0, 0.1),
     pytest.param((1000, 3, 1.0, 1.0, 0.1), marks=pytest.mark.slow),
     pytest.param((10_000, 3, 0.9, 2.0, 0.1), marks=pytest.mark.slow),
     pytest.param((100_000, 3, 1.0, 2.0, 0.3), marks=pytest.mark.slow),
     pytest.param((1000, 10, 0.9, 2.0, 0.05), marks=pytest.mark.slow)],
)  # fmt: skip
def test_the_bound_is_below_the_pure_epsilon(arguments):
    started = time.process_time()
    privacy = ClusterResampling(*arguments, released=False)
    bound = privacy.epsilon(1e-6)
    assert bound.basis == COUNTED
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
