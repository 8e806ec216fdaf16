"""Prediction intervals, extremes of n draws, and laws of arrival times, against simulation and exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from p2p_sim.measures.extrapolation import (
    GridLaw,
    fewest_of_any,
    most_of,
    most_of_any,
    normal_score,
    predict,
    tail_of_largest,
)
from p2p_sim.network.latency import departures

FALSE_ALARM = 1e-9


def covered(weight: float, trials: int = 2000) -> int:
    """How often the interval of a line through eight points holds a ninth, all with errors of known relative size."""
    rng = np.random.default_rng(7)
    x, weights = np.arange(8.0), np.array([1.0, 1, 4, 4, 9, 9, 16, 16])
    design = np.stack([np.ones(8), x], axis=1)
    hits = 0
    for _ in range(trials):
        values = 3.0 - 2.0 * x + rng.normal(size=8) * 0.3 / np.sqrt(weights)
        truth = 3.0 - 2.0 * 8.0 + rng.normal() * 0.3
        hits += truth in predict(design, values, [1.0, 8.0], weights=weights, weight=weight)
    return hits


def plausible(hits: int, trials: int = 2000) -> bool:
    """Whether 95% is a possible coverage, at a false-alarm rate of 1e-9; 91% and 98% are recognised."""
    low, high = binom.isf([1 - FALSE_ALARM / 2, FALSE_ALARM / 2], trials, 0.95)
    return low <= hits <= high


def test_a_prediction_interval_has_its_coverage():
    assert plausible(covered(1.0))


@pytest.mark.parametrize("weight", [0.25, math.inf])
def test_a_wrong_scatter_of_the_new_measurement_is_noticed(weight):
    assert not plausible(covered(weight))


def test_the_interval_of_a_mean_is_students():
    found = predict(np.ones((4, 1)), [1.0, 2.0, 3.0, 6.0], [1.0], weight=math.inf)
    half = 3.182446 * np.std([1, 2, 3, 6], ddof=1) / 2
    assert (found.value, found.low) == pytest.approx((3.0, 3.0 - half), rel=1e-6)


@pytest.mark.parametrize(
    ("design", "values", "weights"),
    [([[1.0, 2.0]], [1.0], None), ([[1, 1], [2, 2], [3, 3]], [1, 2, 3], None), ([[1], [1]], [1, 2], [1, 0]),
     ([[1], [1]], [1, 2, 3], None)],
)  # fmt: skip
def test_what_cannot_be_fitted_is_refused(design, values, weights):
    with pytest.raises(ValueError, match=r"measurements|weights|shapes"):
        predict(design, values, [1.0] * len(design[0]), weights=weights)


def test_the_extremes_of_a_few_draws_by_exact_arithmetic():
    p, trials, count = Fraction(3, 10), 6, 5
    mass = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    below = [sum(mass[: k + 1]) for k in range(trials + 1)]
    for level in (0.05, 0.5, 0.95):
        assert most_of(count, trials, 0.3, level) == next(k for k in range(7) if below[k] ** count >= level)
    for chance in (0.001, 0.2):
        assert most_of_any(count, trials, 0.3, chance) == next(k for k in range(7) if count * (1 - below[k]) <= chance)
        least = fewest_of_any(count, trials, 0.3, chance)
        assert count * sum(mass[:least]) <= chance < count * sum(mass[: least + 1])


def test_far_tails_are_exact():
    assert tail_of_largest(1e9) == pytest.approx(math.log(2) * 1e-9, rel=1e-8)
    assert ndtr(normal_score(50)) ** 50 == pytest.approx(0.5, rel=1e-12)
    most = most_of_any(1e6, 1000, 0.01, 1e-12)
    tail = [
        sum(Fraction(math.comb(1000, k)) * 99 ** (1000 - k) for k in range(m, 1001)) / 100**1000
        for m in (most, most + 1)
    ]
    assert tail[1] <= 1e-18 < tail[0]


def exponential(times):
    return -np.expm1(-times)


def test_sums_of_times_enclose_the_gamma_law():
    laws = [GridLaw.of(exponential, 0.01, 3000, up) for up in (False, True)]
    early, late = (one.after(one).after(one) for one in laws)
    for share in (0.1, 0.5, 0.999):
        t = early.quantile(share), late.quantile(share)
        truth = [1 - math.exp(-x) * (1 + x + x * x / 2) for x in t]
        assert truth[0] <= share + 1e-9
        assert truth[1] >= share - 1e-9
        assert t[1] - t[0] == pytest.approx(0.03, abs=0.011)
    assert early.total == pytest.approx(1.0, abs=1e-12)


def test_waiting_and_losing():
    one = GridLaw(1.0, np.array([0.5, 0.25, 0.25, 0.0]))
    assert one.later(7.0).mass.tolist() == [0.0, 0.0, 0.0, 1.0]
    again = one.until(1.0).joined(one.until(1.0).weighted(0.25).later(1.0))
    assert again.mass.tolist() == [0.5, 0.375, 0.0625, 0.0]
    assert again.later(3.0).mass.tolist() == [0.0, 0.0, 0.0, 0.9375]


def last_ranks(law: GridLaw, users: int, draws: int) -> np.ndarray:
    """Where the last of n simulated arrivals lies in a law, in [0, 1]; half of the users never arrive."""
    rng = np.random.default_rng(3)
    times = rng.exponential(size=(draws, users)) * (rng.random((draws, users)) < 0.5)
    return np.array([law.last_level(users, t) for t in times.max(axis=1)])


def far_from_uniform(ranks: np.ndarray) -> bool:
    """By the Dvoretzky-Kiefer-Wolfowitz inequality at a false-alarm rate of 1e-9, with 0.001 for the grid."""
    ordered = np.sort(ranks)
    gap = np.abs(ordered - (np.arange(len(ordered)) + 0.5) / len(ordered)).max()
    return bool(gap > math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(ordered))) + 0.5 / len(ordered) + 0.001)


def test_the_last_of_n_arrivals_follows_its_law():
    law = GridLaw.of(exponential, 0.001, 30_000, True).weighted(0.5)
    assert not far_from_uniform(last_ranks(law, 200, 5000))
    certain = GridLaw.of(exponential, 0.001, 30_000, True)
    assert far_from_uniform(last_ranks(certain, 200, 5000))
    drawn = law.draw_last(200, 5000, np.random.default_rng(5))
    assert not far_from_uniform(np.array([law.last_level(200, t) for t in drawn]))
    assert law.last_level(200, law.last(200, 0.9)) == pytest.approx(0.9, abs=0.001)


def test_a_queue_is_empty_when_its_law_says():
    law, users = GridLaw.of(exponential, 0.001, 30_000, True), 100_000
    arrivals = np.random.default_rng(9).exponential(size=users)
    for load in (0.1, 3.0, 50.0):
        low, high = (law.served(users, load, level) for level in (FALSE_ALARM / 2, 1 - FALSE_ALARM / 2))
        # the share that has arrived is off by at most 0.0105 but for 1e-9 (Dvoretzky, Kiefer, Wolfowitz)
        assert low - 0.0105 * load <= departures(arrivals, load / users).max() <= high + 0.0105 * load + 0.001
