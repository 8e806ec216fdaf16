"""Predictions for numbers of users that were not measured, from fitted laws and distributions of arrival times."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from p2p_sim.measures.intervals import Estimate, Floats


def predict(
    design: ArrayLike,
    values: ArrayLike,
    at: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    weight: float = 1.0,
) -> Estimate:
    """Predicts one further measurement by weighted least squares, with a 95% prediction interval from Student's t. The
    interval is right if measurement i is design[i] · b plus an independent normal error of variance s²/weights[i]. Both
    b and s are unknown. No measurement can verify that this law still holds at `at`.

    Args:
        design: (m, p) the p terms of the law at each of m measurements; the rank is p, and p < m. values: (m,) the
        measurements. at: (p,) the terms of the further measurement. weights: (m,) relative precisions, above 0; None:
        all 1. weight: precision of the further measurement, on the same scale; infinity: the interval is for the law's
        value, without a measurement error.

    Raises:
        ValueError: the law and the size of the errors are not determined, or an argument is not allowed.

    >>> found = predict([[1, 1], [1, 2], [1, 3], [1, 4]], [1.1, 1.9, 3.1, 3.9], [1, 10])
    >>> print(f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]")
    9.70 [7.78, 11.62]
    """
    from scipy.special import stdtrit

    X, y, x = (np.asarray(a, dtype=np.float64) for a in (design, values, at))
    w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    if X.ndim != 2 or X.shape != (len(y), len(x)) or w.shape != y.shape:
        raise ValueError(f"design {X.shape}, values {y.shape}, at {x.shape}, weights {w.shape}: shapes do not fit")
    if not (w > 0).all() or not weight > 0:
        raise ValueError("weights must be above 0")
    # b follows from the QR factorisation of √w X with columns scaled to 1; the variance of x·b is s² |R⁻ᵀ x|²
    scale = np.abs(X).max(axis=0)
    root = np.sqrt(w)
    Q, R = np.linalg.qr(X / scale * root[:, None])
    free = len(y) - len(x)
    if free < 1 or np.abs(np.diag(R)).min() < 1e-9 * np.abs(np.diag(R)).max():
        raise ValueError(f"{len(y)} measurements do not determine {len(x)} constants and the size of the errors")
    fitted = Q.T @ (y * root)
    leverage = np.linalg.solve(R.T, x / scale)
    value = float(leverage @ fitted)
    spread = float(np.sum((y * root - Q @ fitted) ** 2)) / free
    half = float(stdtrit(free, 0.975)) * math.sqrt(spread * (1.0 / weight + float(leverage @ leverage)))
    return Estimate(value, value - half, value + half)


def tail_of_largest(count: float, level: float = 0.5) -> float:
    """The probability p that one draw exceeds q, the `level`-quantile of the largest of n independent draws. This p
    solves (1-p)^n = level; it is computed without cancellation.

    Args:
        count: n, at least 1. level: in (0, 1).
    """
    if not count >= 1 or not 0.0 < level < 1.0:
        raise ValueError(f"count = {count}, level = {level}: at least 1, and in (0, 1), are needed")
    return -math.expm1(math.log(level) / count)


def normal_score(count: float) -> float:
    """The median of the largest of n = `count` independent standard normal numbers.

    >>> round(normal_score(1e9), 3)
    6.057
    """
    from scipy.special import ndtri

    return -float(ndtri(tail_of_largest(count)))


def most_of(count: float, trials: int, probability: float, level: float) -> int:
    """The smallest k such that, with probability at least `level`, none of n independent Bin(trials, p) numbers is
    above k.

    Args:
        count: n, at least 1. trials: number of trials of each binomial number. probability: p. level: in (0, 1).
    """
    return _most(tail_of_largest(count, level), trials, probability)


def most_of_any(count: float, trials: int, probability: float, chance: float) -> int:
    """A number k that the largest of n Bin(trials, p) numbers exceeds with probability at most `chance`. The n numbers
    may depend on each other (union bound): k is the smallest number that a single one of them exceeds with probability
    at most chance/n.

    Args:
        count: n, at least 1. trials: number of trials of each binomial number. probability: p. chance: in (0, 1); it
        may be far below 1e-16.
    """
    if not count >= 1 or not 0.0 < chance < 1.0:
        raise ValueError(f"count = {count}, chance = {chance}: at least 1, and in (0, 1), are needed")
    return _most(chance / count, trials, probability)


def fewest_of_any(count: float, trials: int, probability: float, chance: float) -> int:
    """A number k such that the smallest of n Bin(trials, p) numbers is below k with probability at most `chance`. The n
    numbers may depend on each other. The largest k is taken such that a single number is below k with probability at
    most chance/n.

    Args:
        count: n, at least 1. trials: number of trials of each binomial number. probability: p. chance: in (0, 1).
    """
    return trials - most_of_any(count, trials, 1.0 - probability, chance)


def _most(tail: float, trials: int, probability: float) -> int:
    """The smallest number that a single Bin(trials, p) number exceeds with probability at most `tail`.

    Args:
        tail: a probability above 0. trials: number of trials. probability: p, of a success in each trial.
    """
    from scipy.stats import binom

    low, high = -1, trials
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if binom.sf(middle, trials, probability) <= tail else (middle, high)
    return high


@dataclass(frozen=True)
class GridLaw:
    """The distribution, on a grid of times, of the arrival time of an event that may never happen.

    step_s: seconds between two times of the grid, which starts at 0. mass: (cells,) probability of each time. The last
    entry includes all later times. With the remaining probability, 1 minus the sum of `mass`, the event never happens.
    """

    step_s: float
    mass: Floats

    @staticmethod
    def of(distribution: Callable[[Floats], Floats], step_s: float, cells: int, up: bool) -> "GridLaw":
        """A continuous distribution of arrival times, put on a grid of times. Each time is rounded up or down to the
        grid; the two roundings enclose the distribution. The grid starts at 0, and its last time includes all later
        times.

        Args:
            distribution: the distribution function, which takes times (m,) in seconds and is 0 at time 0. step_s:
            seconds between two times of the grid. cells: number of times in the grid. up: whether times are rounded up.
        """
        grid = np.arange(cells, dtype=np.float64)
        rounded_down = GridLaw(step_s, np.diff(distribution(grid * step_s), append=1.0))
        return rounded_down.later(step_s) if up else rounded_down

    @property
    def total(self) -> float:
        """Probability that the event ever happens."""
        return float(self.mass.sum())

    def after(self, earlier: "GridLaw") -> "GridLaw":
        """The distribution of the sum of this time and an independent earlier time. Example: one message follows
        another. A sum beyond the grid counts at the last time of the grid.

        Args:
            earlier: the distribution of the earlier time, on the same grid.
        """
        whole, cells = np.convolve(self.mass, earlier.mass), len(self.mass)
        whole[cells - 1] = whole[cells - 1 :].sum()
        return GridLaw(self.step_s, whole[:cells])

    def until(self, limit_s: float) -> "GridLaw":
        """The distribution with a deadline of `limit_s` seconds, rounded to the grid: a later event never happens."""
        mass = self.mass.copy()
        mass[round(limit_s / self.step_s) + 1 :] = 0.0
        return GridLaw(self.step_s, mass)

    def later(self, delay_s: float) -> "GridLaw":
        """The distribution of the time plus a constant delay `delay_s` in seconds, rounded to the nearest step. A sum
        beyond the grid counts at the last time of the grid.
        """
        moved = min(round(delay_s / self.step_s), len(self.mass))
        remaining = len(self.mass) - moved
        mass = np.concatenate([np.zeros(moved), self.mass[:remaining]])
        mass[-1] += self.mass[remaining:].sum()
        return GridLaw(self.step_s, mass)

    def weighted(self, probability: float) -> "GridLaw":
        """The distribution if the event needs a further condition, such as that a message is not lost.

        Args:
            probability: probability of the condition, which does not depend on the time.
        """
        return GridLaw(self.step_s, self.mass * probability)

    def joined(self, alternative: "GridLaw") -> "GridLaw":
        """The distribution if the event happens in one of two ways that exclude each other. Example: a reply to a first
        or to a second request. The sum of all probabilities of both ways must be at most 1.

        Args:
            alternative: the distribution for the other way, on the same grid.
        """
        return GridLaw(self.step_s, self.mass + alternative.mass)

    def upper_points(self, tails: Floats) -> Floats:
        """The times, (m,) in seconds, after which the event happens with at most the given probabilities. Each is the
        first such time of the grid.

        Args:
            tails: (m,) the probabilities.
        """
        after = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)[1:]
        return np.asarray(np.searchsorted(-after, -tails) * self.step_s)

    def quantile(self, share: float) -> float:
        """The time in seconds by which the given share, in (0, 1), of all events that ever happen have happened."""
        return float(self.upper_points(np.array([self.total * (1.0 - share)]))[0])

    def last(self, count: float, level: float = 0.5) -> float:
        """The `level`-quantile, in seconds, of the last arrival among n independent users. Users who never arrive do
        not count; if nobody arrives, the time is 0.

        Args:
            count: n, at least 1, including users who never arrive. level: in (0, 1); 1/2 gives the median.
        """
        return float(self.upper_points(np.array([tail_of_largest(count, level)]))[0])

    def draw_last(self, count: float, size: int, rng: np.random.Generator) -> Floats:
        """Draws `size` times of the last arrival among n independent users: (size,) in seconds. Users who never arrive
        do not count; if nobody arrives, the time is 0.

        Args:
            count: n, including users who never arrive. size: number of times to draw. rng: random numbers.
        """
        return self.upper_points(-np.expm1(np.log1p(-rng.random(size)) / count))

    def last_level(self, count: float, time_s: float) -> float:
        """Probability that none of n independent users arrives after `time_s` seconds.

        Args:
            count: n, including users who never arrive. time_s: seconds.
        """
        beyond = float(self.mass[int(np.floor(time_s / self.step_s + 1e-9)) + 1 :].sum())
        return float(np.exp(count * np.log1p(-beyond)))

    def served(self, count: float, load_s: float, level: float = 0.5) -> float:
        """An estimate of the `level`-quantile of the time, in seconds, until a queue has served one message of each of
        n users. The arrival times are independent and have this distribution. Users who never arrive need no service.

        The load is the time that the queue needs for n messages. Let T be the `level`-quantile of the last arrival. The
        estimate is max over times t <= T of t + load · Pr[a message arrives at t or later], but at least T + load/n.
        Lindley's recursion for n users with these arrivals agrees to within load/√n.

        Args:
            count: n, at least 1. load_s: the load, in seconds. level: in (0, 1); 1/2 gives the median.
        """
        survival = np.cumsum(self.mass[::-1])[::-1]
        times = np.arange(len(survival)) * self.step_s
        last = self.last(count, level)
        return max(last + load_s / count, float((times + load_s * survival)[times <= last].max()))
