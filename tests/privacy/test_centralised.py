"""A curator who resamples: the pure ε and the events that attain it, and the certified (ε, δ) of the labels alone.

The reference enumerates the noisy labels of tiny clusters over equally likely noise vectors (`claims.algorithm1`); its
error, which falls with the square of their number, is below 1e-3 of δ here and allowed for.
"""

import math
import time
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom, laplace

from p2p_sim.privacy.claims.algorithm1_laws import laplace_nodes, noisy_label_law, released_distribution
from p2p_sim.privacy.rivals import noisy_share, resampled_counts
from p2p_sim.privacy.rivals.centralised import COUNTED, ClusterResampling, laplace_tail
from p2p_sim.privacy.rivals.noisy_share import share_cdf
from p2p_sim.privacy.rivals.resampled_counts import (
    _chord_error,
    _divergences,
    _Weights,
    _zeros_alone,
    affordable,
    counts_delta,
    draw_law,
)

INF = math.inf


def test_hardly_any_noise_on_the_shares_has_a_bound():
    bound = ClusterResampling(100, 2, 0.5, 0.002, 0.1, released=True).epsilon(1e-6)
    assert 0.0 <= bound.epsilon_lower <= bound.epsilon_upper < 1100.0


@pytest.mark.parametrize(
    ("lam", "sigma", "tau", "pure", "printed"),
    [
        (0.5, 2.0, 0.1, 1.0 + math.log(11.0), 0.5 + math.log(11.0)),
        (1.0, 1.0, 0.0, 2.0, 1.0),
        (0.5, INF, 0.1, math.log(11.0), math.log(11.0)),
        (0.5, 1.0, 0.0, INF, INF),
        (0.0, 1.0, 0.1, INF, INF),
        (0.5, 0.0, 0.1, INF, INF),
        (0.5, 1.0, 1.0 / 3.0, math.log(4.0), 1.0 + math.log(4.0)),  # q̃ is uniform: the noise is not spent
    ],
)
def test_the_pure_epsilon_and_the_printed_one(lam, sigma, tau, pure, printed):
    found = ClusterResampling(30, 3, lam, sigma, tau, released=True)
    assert found.pure_epsilon == pytest.approx(pure, rel=1e-14)
    assert found.pure_epsilon >= pure
    assert found.epsilon_paper == pytest.approx(printed, rel=1e-14)
    beyond = found.delta(pure * 1.0001 if pure < INF else 800.0).upper
    seen = 1.0 - lam if sigma > 0.0 else 1.0  # of her label for certain, where no ε holds without a δ
    assert beyond == (0.0 if pure < INF else pytest.approx(seen, rel=1e-11))


@pytest.mark.parametrize(("size", "classes", "tau"), [(6, 3, 0.2), (9, 3, 0.15), (20, 4, 0.05), (8, 2, 0.25)])
def test_events_have_at_least_their_stated_divergence(size, classes, tau):
    """δ of the released (q̃, the target's noisy label) in simulated noise, against that of the explicit event.

    The estimate of the divergence over cells of q̃ has a standard error below 2e-3 (200,000 draws a world); at ten of
    these the false-alarm rate is below 1e-9. At the printed ε there must still be a divergence, where K > 2.
    """
    lam, sigma, draws = 0.9, 1.0, 200_000
    privacy = ClusterResampling(size, classes, lam, sigma, tau, released=True)
    rng = np.random.default_rng(4)
    noise = sigma / size * rng.laplace(size=(draws, classes))
    many, few = math.ceil(size * tau), math.floor(size * tau)
    sets = [(size - (classes - 1) * many, *[many] * (classes - 1))]
    if classes > 2 and few:
        sets.append((few, many, size - few - many, *[0] * (classes - 3)))
    for epsilon in (0.2, 1.0, privacy.epsilon_paper):
        best = 0.0
        for counts in sets:
            shares = np.array(counts) / size
            other = shares + np.array([-1.0, 1.0, *[0.0] * (classes - 2)]) / size
            best = max(best, divergence(shares, other, noise, tau, lam, epsilon))
        claimed = privacy.delta(epsilon)
        assert 0.0 < claimed.lower <= best + 0.02
        assert best <= claimed.upper + 0.02
    assert privacy.epsilon(1e-9).epsilon_lower > privacy.epsilon_paper or classes == 2


def test_a_released_share_of_two_classes_tells_more_than_the_corner_event():
    """Bins of the share, whose probabilities are those of simulated noise."""
    privacy = ClusterResampling(1000, 2, 0.7, 2.0, 0.2, released=True)
    assert privacy.epsilon(1e-6).epsilon_lower > 1.1 * privacy._explicit_epsilon(1e-6)
    rng = np.random.default_rng(5)
    noise = rng.laplace(scale=4.0 / 30, size=(400_000, 2))
    for ones in (0, 3, 8, 15):
        bins = noisy_share._bins(30, ones, 4.0, 0.1)
        for place, share in enumerate((ones / 30, (ones + 1) / 30)):
            q = released_distribution(np.array([1.0 - share, share]), noise, 0.1)[:, 1]
            seen = np.histogram(q, bins=bins.ends)[0] / len(q)
            assert abs(np.cumsum(seen) - np.cumsum(bins.low[place])).max() < 5e-3  # six standard errors


def divergence(shares, other, noise, tau: float, lam: float, epsilon: float) -> float:
    """Hockey-stick divergence over cells: which entries of q̃ are τ, q̃(a) in 40 steps, whether the noisy label is a."""
    tables = []
    for world, own in ((shares, 1.0), (other, 0.0)):
        q = released_distribution(world, noise, tau)
        cell = ((q <= tau + 1e-12) * 2 ** np.arange(q.shape[1])).sum(axis=1) * 40
        cell += np.minimum((q[:, 0] - tau) * 40 / (1.0 - tau), 39).astype(int)
        chance = lam * q[:, 0] + (1.0 - lam) * own
        size = 40 * 2 ** q.shape[1]
        tables.append([np.bincount(cell, weights=w, minlength=size) / len(q) for w in (chance, 1.0 - chance)])
    return float(np.maximum(np.array(tables[0]) - math.exp(epsilon) * np.array(tables[1]), 0.0).sum())


def test_released_distributions_of_three_classes_are_pinned():
    """In large clusters the explicit events come within 2% of the pure ε."""
    privacy = ClusterResampling(1000, 10, 0.9, 2.0, 0.01, released=True)
    bound = privacy.epsilon(1e-5)
    assert 0.98 * privacy.pure_epsilon < bound.epsilon_lower < bound.epsilon_upper == privacy.pure_epsilon
    assert ("a trusted curator holds all labels" in bound.conditions, bound.observer) == (True, "learner")


@lru_cache(maxsize=64)
def laws(n: int, lam: float, sigma: float, tau: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each m, the laws of the noisy labels with the target's label 0 and 1, by enumeration."""
    noise, found = laplace_nodes(2, sigma / n, 300), []
    for m in range(n):
        rest = (1,) * m + (0,) * (n - 1 - m)
        zero, one = (noisy_label_law((label, *rest), 2, tau, noise, lam) for label in (0, 1))
        found.append((zero, one))
    return found


def enumerated(n: int, lam: float, sigma: float, tau: float, epsilon: float) -> float:
    pairs = [pair for zero, one in laws(n, lam, sigma, tau) for pair in ((zero, one), (one, zero))]
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in pairs)


TINY = [(2, 1.0, 0.1), (3, 1.0, 0.1), (4, 0.5, 0.05), (5, 2.0, 0.0), (5, 2.0, 0.3), (4, 6.0, 0.2)]


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("n", "sigma", "tau"), TINY)
@pytest.mark.slow_where(lambda n, tau: n == 5 and tau > 0.0)
def test_all_labels_resampled_equals_enumeration(n, sigma, tau, epsilon):
    found, truth = counts_delta(n, 1.0, sigma, tau, epsilon), enumerated(n, 1.0, sigma, tau, epsilon)
    error = 2e-4 + 1e-3 * truth
    assert found.lower - error <= truth <= found.upper + error
    assert found.upper - found.lower < 0.002 + 0.03 * truth


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("lam", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("n", "sigma", "tau"), TINY[1:4])
@pytest.mark.slow_where(lambda n: n == 5)
def test_some_labels_kept_are_bracketed(n, sigma, tau, lam, epsilon):
    found, truth = counts_delta(n, lam, sigma, tau, epsilon), enumerated(n, lam, sigma, tau, epsilon)
    error = 2e-4 + 1e-3 * truth
    assert found.lower - error <= truth <= found.upper + error
    assert found.upper < 1.4 * truth + 0.03


def test_a_control_is_caught():
    """Noise of one share's sensitivity: σ twice too large falls below the enumerated δ."""
    assert counts_delta(4, 1.0, 1.0, 0.05, 0.5).upper < 0.8 * enumerated(4, 1.0, 0.5, 0.05, 0.5)


@pytest.mark.parametrize(("n", "ones", "sigma", "tau"), [(3, 1, 1.0, 0.1), (40, 2, 2.0, 0.1), (40, 20, 3.0, 0.4)])
def test_the_law_of_the_noisy_share(n, ones, sigma, tau):
    """Against a million draws; by the inequality of Dvoretzky, Kiefer and Wolfowitz 3.3e-3 is exceeded at 1e-9.

    The control has the neighbour's share.
    """
    rng = np.random.default_rng(8)
    noise = sigma / n * rng.laplace(size=(1_000_000, 2))
    q = np.sort(released_distribution(np.array([1.0 - ones / n, ones / n]), noise, tau)[:, 1])
    at = np.linspace(tau, 1.0 - tau, 41)[:-1]
    at = at[np.abs(at - 0.5) > 1e-9]  # there is an atom at 1/2
    seen = np.searchsorted(q, at + 1e-12) / q.size
    assert np.abs(share_cdf(np.array([ones / n]), at, sigma / n, tau)[0] - seen).max() < 3.3e-3
    assert np.abs(share_cdf(np.array([(ones + 1) / n]), at, sigma / n, tau)[0] - seen).max() > 0.01


@pytest.mark.parametrize("at", [0.5003, 0.4996, 0.62])
@pytest.mark.parametrize("a", [0.3, 0.55])
def test_the_law_of_the_noisy_share_to_the_last_digits(at, a):
    """Against 30-digit quadrature of its definition; near s = 1/2 the line's slope is 1, where exponents cancel."""
    b, tau = mp.mpf("0.3"), mp.mpf("0.1")

    def cdf(z):
        return mp.exp(z / b) / 2 if z < 0 else 1 - mp.exp(-z / b) / 2

    def below(q0):
        s = mp.mpf(at)
        limit = s + ((s - tau) / (1 - tau - s) if q0 >= 1 - s else (1 - s) / s) * (q0 - (1 - s))
        return mp.mpf(1) if limit >= 1 else cdf(limit - a) if limit >= tau else mp.mpf(0)

    def density(q0):
        return mp.exp(-abs(q0 - (1 - mp.mpf(a))) / b) / (2 * b)

    with mp.workdps(30):
        s = mp.mpf(at)
        up, down = (s - tau) / (1 - tau - s), (1 - s) / s
        bends = {1 - s, 1 - mp.mpf(a), 1 - s + (1 - s) / up, 1 - s - (s - tau) / down, 1 - s + (a - s) / up,
                 1 - s + (a - s) / down}  # fmt: skip
        ends = [tau, *sorted(bend for bend in bends if tau < bend < 1), mp.mpf(1)]
        truth = cdf(tau - 1 + a) * below(tau) + cdf(-mp.mpf(a)) * below(mp.mpf(1))
        truth += mp.quad(lambda q0: density(q0) * below(q0), ends)
        found = share_cdf(np.array([a]), np.array([at]), float(b), float(tau))[0, 0]
        assert abs(found / truth - 1) < 2e-13


def test_mass_that_the_noise_hardly_reaches_is_charged(monkeypatch):
    """With a reach of two scales of the noise some mass lies beyond: the bracket widens and still holds."""
    args = (40, 1.0, 1.5, 0.05, 0.5)
    exact, law = counts_delta(*args), draw_law(40, 8, 12, scale=1.5, threshold=0.05, density=64)
    monkeypatch.setattr("p2p_sim.privacy.rivals.resampled_counts._REACH", 2.0)
    resampled_counts._blocks.cache_clear()
    narrow, short = counts_delta(*args), draw_law(40, 8, 12, scale=1.5, threshold=0.05, density=64)
    resampled_counts._blocks.cache_clear()
    assert narrow.lower < exact.lower <= exact.upper < narrow.upper
    assert np.all(law.missing < 1e-9)
    start, end = share_cdf(np.arange(8, 13) / 40, np.array([5 / 40, 15 / 40]), 1.5 / 40, 0.05).T
    assert short.missing == pytest.approx(start + 1.0 - end, rel=1e-6)
    assert np.all(short.upper.sum(axis=1) + short.missing >= 1.0)
    assert np.all(short.lower.sum(axis=1) + short.missing <= 1.0 + 1e-9)


@pytest.mark.parametrize(("distance", "scale"), [(0.3, 0.5), (2.0, 3.0), (-0.7, 0.5), (0.0, 2.0)])
def test_tails_of_the_noise(distance, scale):
    assert laplace_tail(distance, scale) == pytest.approx(laplace.sf(distance, scale=scale), rel=1e-14)


def test_where_the_share_is_known_epsilon_is_bracketed_to_the_last_digits():
    """At τ = 1/K the largest ratio is 1 + (1-λ-δ)/(λτ), whatever the noise."""
    for lam, delta in ((0.9, 1e-3), (0.5, 0.1)):
        bound = ClusterResampling(30, 3, lam, 1.0, 1.0 / 3.0, released=True).epsilon(delta)
        with mp.workdps(30):
            truth = mp.log(1 + (1 - mp.mpf(lam) - mp.mpf(delta)) / (mp.mpf(lam) / 3))
            assert bound.epsilon_lower <= truth <= bound.epsilon_upper
            assert bound.epsilon_lower > truth * (1 - mp.mpf(1e-11))


@pytest.mark.parametrize(("n", "ends"), [(40, (0.0, 0.3)), (40, (0.45, 0.55)), (7, (0.6, 1.0))])
def test_chords_are_no_farther_than_said(n, ends):
    """Of Bin(k; n, p) as a function of p, on a grid a hundred times as fine as the nodes."""
    nodes, k = np.linspace(*ends, 13), np.arange(n + 1.0)
    kernel = binom.pmf(k, n, nodes[:, None])
    said = _chord_error(n, k, nodes, kernel)
    for share in np.linspace(0.0, 1.0, 101):
        inside = nodes[:-1] + share * np.diff(nodes)
        distance = np.abs(binom.pmf(k, n, inside[:, None]) - (1.0 - share) * kernel[:-1] - share * kernel[1:])
        assert np.all(distance <= said * (1.0 + 1e-9) + 1e-15)
    assert said.max() < 0.5 * kernel.max()  # and it says something


def test_what_is_not_worth_computing():
    assert affordable(60, 1.0, 0.1)
    for n, sigma, tau in ((1, 1.0, 0.1), (2049, 1.0, 0.1), (60, 0.0, 0.1), (60, INF, 0.1), (60, 1.0, 0.5)):
        assert not affordable(n, sigma, tau)


@pytest.mark.parametrize(("n", "sigma", "tau"), [(60, 1.0, 0.1), (600, 2.0, 0.02)])
def test_bounds_of_the_draws_hold_their_mass(n, sigma, tau):
    law = draw_law(n, 3, 9, scale=sigma, threshold=tau, density=64)
    assert np.all((law.lower >= 0.0) & (law.lower <= law.upper))
    assert np.all(law.lower.sum(axis=1) <= 1.0)
    assert np.all(law.upper.sum(axis=1) + law.missing >= 1.0)
    assert np.all((law.upper - law.lower).sum(axis=1) < 0.02)


@pytest.mark.parametrize(
    ("n", "lam", "sigma", "tau"),
    [(40, 1.0, 1.0, 0.1), (300, 1.0, 2.0, 0.05), (300, 0.95, 1.0, 0.1), (100, 0.5, 3.0, 0.0)],
)
def test_epsilon_is_bracketed_far_below_the_pure_one(n, lam, sigma, tau):
    privacy = ClusterResampling(n, 2, lam, sigma, tau, released=False)
    bound = privacy.epsilon(1e-5)
    assert bound.basis == COUNTED
    assert bound.epsilon_lower <= bound.epsilon_upper <= min(1.15 * bound.epsilon_lower, 0.95 * privacy.pure_epsilon)
    assert privacy.delta(bound.epsilon_upper).upper <= 1e-5 < privacy.delta(bound.epsilon_lower).upper


@pytest.mark.parametrize("sigma", [1e-4, 1e-3, 1e9])
def test_extreme_noise(sigma):
    """Hardly any noise leaves the draws' own; a lot is bounded by the pure ε."""
    bound = ClusterResampling(40, 2, 1.0, sigma, 0.2, released=False).epsilon(1e-4)
    assert 0.0 <= bound.epsilon_lower <= bound.epsilon_upper <= min(2.1 / sigma, 1.5)


def test_two_thousand_users_are_affordable():
    started = time.process_time()
    bound = ClusterResampling(2000, 2, 1.0, 1.0, 0.1, released=False).epsilon(1e-6)
    assert time.process_time() - started < 5.0
    assert 0.25 < bound.epsilon_lower < bound.epsilon_upper < 1.03 * bound.epsilon_lower


@pytest.mark.parametrize(
    ("arguments", "basis"),
    [((200_000, 2, 0.9, 1.0, 0.1, False), "not computed"), ((100, 3, 0.9, 1.0, 0.0, False), "not computed"),
     ((100, 3, 0.9, 1.0, 1.0 / 3.0, False), "pure"), ((100, 2, 0.9, INF, 0.1, False), "pure"),
     ((100, 2, 0.9, 1.0, 0.5, False), "pure"),
     ((100, 2, 0.9, 0.0, 0.1, True), "pure")],
)  # fmt: skip
def test_elsewhere_the_pure_epsilon_stands(arguments, basis):
    privacy = ClusterResampling(*arguments)
    bound = privacy.epsilon(1e-6)
    assert bound.epsilon_upper == privacy.pure_epsilon
    assert basis in bound.basis
    assert ("not computed" in bound.basis) == (basis == "not computed")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [((0, 2, 0.5, 1.0, 0.1), "cluster_size"), ((9, 1, 0.5, 1.0, 0.1), "num_classes"), ((9, 2, 1.5, 1.0, 0.1), "resamp"),
     ((9, 2, 0.5, -1.0, 0.1), "noise_scale"), ((9, 3, 0.5, 1.0, 0.4), "threshold")],
)  # fmt: skip
def test_bad_arguments_are_refused(arguments, key):
    with pytest.raises(ValueError, match=key):
        ClusterResampling(*arguments, released=True)


@pytest.mark.parametrize(("classes", "lam"), [(2, 0.9), (3, 0.5), (7, 0.99)])
def test_a_uniform_share_has_a_known_epsilon_which_is_bracketed_to_the_last_digits(classes, lam):
    """At τ = 1/K a label is kept or drawn uniformly: δ(ε) = 1 - λ - (e^ε - 1)λ/K, inverted in 40 digits."""
    for delta in (1e-9, 1e-4, 0.003):
        found = ClusterResampling(50, classes, lam, 1.0, 1.0 / classes, released=True).epsilon(delta)
        with mp.workdps(40):
            kept = 1 - mp.mpf(lam)
            truth = mp.log(1 + (kept - mp.mpf(delta)) / (mp.mpf(lam) * mp.mpf(1.0 / classes)))
        assert (1.0 - 1e-11) * truth <= found.epsilon_lower <= truth <= found.epsilon_upper


def test_what_lies_beyond_the_nodes_is_charged():
    """Nodes that hold the middle of Q's law only; control: nodes from τ to 1-τ miss nothing."""
    n, tau, sigma, ones = 20, 0.1, 2.0, np.array([6, 10, 14])
    share, ends = ones / n, np.array([0.3, 0.65])
    found = _Weights.of(n, ones, np.linspace(*ends, 65), scale=sigma, threshold=tau, points=8)
    cdf = share_cdf(share, ends, sigma / n, tau)
    outside = cdf[:, 0] + 1.0 - cdf[:, 1]
    assert np.all(found.missing >= outside * (1.0 - 1e-12))
    assert found.missing == pytest.approx(outside, rel=1e-6)
    whole = _Weights.of(n, ones, np.linspace(tau, 1.0 - tau, 65), scale=sigma, threshold=tau, points=8)
    assert np.all(whole.missing == 0.0)


@pytest.mark.parametrize(("lam", "sigma", "tau"), [(0.9, 1.0, 0.1), (0.99, 3.0, 0.1), (0.6, 1.0, 0.1)])
def test_the_lower_bound_of_a_small_cluster_is_the_best_of_all_data_sets(lam, sigma, tau):
    each = [_divergences(_zeros_alone(6, lam, sigma, tau, m), 0.3).lower for m in range(3)]
    assert counts_delta(6, lam, sigma, tau, 0.3).lower == max(each)


def test_no_noisy_share_is_left_to_count_at_the_largest_threshold():
    assert affordable(100, 1.0, 0.49)
    assert not affordable(100, 1.0, 0.5)


@pytest.mark.parametrize(("a", "s", "b"), [(0.3, 0.5004, 0.05), (0.4, 0.5006, 0.2), (0.45, 0.4995, 0.1)])
def test_the_law_of_the_noisy_share_has_its_stated_digits(a, s, b):
    """Against quadrature in 30 digits, where the bent line nearly keeps the joint density constant."""
    tau = 0.05
    found = float(share_cdf(np.array([a]), np.array([s]), b, tau)[0, 0])
    with mp.workdps(30):
        assert abs(found / noisy_share_cdf(*map(mp.mpf, (a, s, b, tau))) - 1) < 1e-13 + 1e-15 / b


def noisy_share_cdf(a, s, b, tau):
    """Pr[q1 <= line(q0)], q0 clipped to [τ, 1], from its definition."""

    def laplace(x):
        return mp.exp(x / b) / 2 if x < 0 else 1 - mp.exp(-x / b) / 2

    def below(q0):
        rise = (s - tau) / (1 - tau - s) if q0 >= 1 - s else (1 - s) / s
        line = s + rise * (q0 - (1 - s))
        return mp.mpf(1) if line >= 1 else laplace(line - a) if line >= tau else mp.mpf(0)

    up, down = (s - tau) / (1 - tau - s), (1 - s) / s
    turns = {1 - a, 1 - s, 1 - s - (s - tau) / down, 1 - s + (1 - s) / up, 1 - s + (a - s) / down, 1 - s + (a - s) / up}
    cuts = [tau, *sorted(x for x in turns if tau < x < 1), mp.mpf(1)]
    inner = mp.quad(lambda q0: mp.exp(-abs(q0 - (1 - a)) / b) / (2 * b) * below(q0), cuts)
    return laplace(tau - (1 - a)) * below(tau) + (1 - laplace(a)) * below(mp.mpf(1)) + inner
