"""Laws of times on a grid: sums of independent times, and the last of n that arrive."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.measures.extrapolation import tail_of_largest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GridLaw:
    """A time that is a multiple of a step, or never comes.

    step_s: seconds. mass: (cells,) probability of each multiple, from 0; the last cell also holds whatever comes later,
    and what is missing from 1 never comes.
    """

    step_s: float
    mass: Floats

    @staticmethod
    def of(distribution: Callable[[Floats], Floats], step_s: float, cells: int, up: bool) -> "GridLaw":
        """A continuous law, each time rounded up or down to the grid, so that the two laws enclose it.

        Args:
            distribution: its distribution function at times (m,), seconds, 0 at 0.
        """
        grid = np.arange(cells, dtype=np.float64)
        steps = np.diff(distribution(grid * step_s), append=1.0)
        if not up:
            return GridLaw(step_s, steps)
        later = np.concatenate([[0.0], steps[:-1]])
        later[-1] += steps[-1]
        return GridLaw(step_s, later)

    @property
    def total(self) -> float:
        """The probability that it comes at all."""
        return float(self.mass.sum())

    def after(self, other: "GridLaw") -> "GridLaw":
        """The sum of two independent times."""
        whole = np.convolve(self.mass, other.mass)
        cells = len(self.mass)
        whole[cells - 1] = whole[cells - 1 :].sum()
        return GridLaw(self.step_s, whole[:cells])

    def until(self, limit_s: float) -> "GridLaw":
        """What comes by a time, the limit included; the rest never does."""
        mass = self.mass.copy()
        mass[round(limit_s / self.step_s) + 1 :] = 0.0
        return GridLaw(self.step_s, mass)

    def later(self, delay_s: float) -> "GridLaw":
        """Everything by so much later."""
        moved = round(delay_s / self.step_s)
        kept = len(self.mass) - moved
        mass = np.concatenate([np.zeros(moved), self.mass[:kept]])
        mass[-1] += self.mass[kept:].sum()
        return GridLaw(self.step_s, mass)

    def weighted(self, probability: float) -> "GridLaw":
        """It comes with this probability, independently of when."""
        return GridLaw(self.step_s, self.mass * probability)

    def joined(self, other: "GridLaw") -> "GridLaw":
        """Either of two exclusive ways to come."""
        return GridLaw(self.step_s, self.mass + other.mass)

    def upper_points(self, tails: Floats) -> Floats:
        """The earliest grid times after which it comes with at most these probabilities (m,), seconds."""
        after = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)[1:]
        return np.asarray(np.searchsorted(-after, -tails) * self.step_s)

    def quantile(self, share: float) -> float:
        """When this share, in (0, 1), of all that comes has come, seconds."""
        return float(self.upper_points(np.array([self.total * (1.0 - share)]))[0])

    def last(self, count: float, level: float = 0.5) -> float:
        """The quantile of the last arrival among n independent users, seconds: exact extreme-value law.

        Args:
            count: n, at least 1, those included who never arrive. level: in (0, 1); 1/2 gives the median.
        """
        return float(self.upper_points(np.array([tail_of_largest(count, level)]))[0])

    def draw_last(self, count: float, size: int, rng: np.random.Generator) -> Floats:
        """Last arrivals among n independent users, (size,) independent draws, seconds."""
        return self.upper_points(-np.expm1(np.log1p(-rng.random(size)) / count))

    def last_level(self, count: float, time_s: float) -> float:
        """The probability that the last arrival among n independent users is not after this time."""
        left = float(self.mass[int(np.floor(time_s / self.step_s + 1e-9)) + 1 :].sum())
        return float(np.exp(count * np.log1p(-left)))

    def served(self, count: float, load_s: float, level: float = 0.5) -> float:
        """The quantile of when a queue is empty that serves n users' small messages one at a time, seconds.

        It is the largest t + load · Pr[arrives at t or later] up to the last arrival: Lindley's recursion for n users,
        whose arrivals follow the law to within load/√n, with the last one's chance of being late.

        Args:
            count: n, at least 1. load_s: the time to serve a message of every user, seconds. level: in (0, 1).
        """
        left = np.cumsum(self.mass[::-1])[::-1]
        times = np.arange(len(left)) * self.step_s
        last = self.last(count, level)
        return max(last + load_s / count, float((times + load_s * left)[times <= last].max()))
