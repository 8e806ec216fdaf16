"""What is certified of clusters with one target in each, by an accountant of a cluster."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import TYPE_ONE, Account
from p2p_sim.privacy import Accountant, tradeoff

Floats = NDArray[np.float64]
LARGEST_RISEN = 100.0
"""Largest ε with less noise whose noise is looked for."""
HALVINGS = 14
"""Steps of the bisection for that noise."""


@dataclass(frozen=True)
class ClusterAccount(Account):
    """What an accountant certifies of clusters of these sizes (C,) with one target in each. delta: δ of the
    scenario.
    """

    delta: float

    shares = (0.0, 0.1, 0.2, 0.4, 0.7, 0.9)

    @property
    @abstractmethod
    def noise(self) -> float:
        """The amount of noise that is claimed, such as α."""

    @abstractmethod
    def weaker(self, size: int, noise: float) -> Accountant:
        """The accountant of a cluster of some size, with that much noise."""

    def accountant(self, size: int) -> Accountant:
        """The accountant of a cluster of some size, with the mechanism's noise."""
        return self.weaker(size, self.noise)

    @cached_property
    def middle(self) -> int:
        """The median of the clusters' sizes."""
        return int(np.sort(self.sizes)[len(self.sizes) // 2])

    @property
    def largest(self) -> float:
        """The ε of which parts are tested: ε(δ = 1e-5) in a cluster of median size."""
        return self.accountant(self.middle).epsilon(1e-5).epsilon_upper

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """The mean over the clusters of the certified δ at each ε."""
        sizes, weights = np.unique(self.sizes, return_counts=True)
        table = [[bracket.upper for bracket in self.accountant(int(n)).profile(epsilons)] for n in sizes]
        return np.asarray(np.array(table).T @ weights / weights.sum())

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each ε if there is so much less noise that ε(δ) is `rise` times as large, in a cluster of median
        size.
        """
        low, high = 0.0, self.noise
        target = rise * self.weaker(self.middle, high).epsilon(self.delta).epsilon_upper
        if rise > 1.0 and 0.0 < target <= LARGEST_RISEN:
            for _ in range(HALVINGS):
                middle = 0.5 * (low + high)
                met = self.weaker(self.middle, middle).satisfies(target, self.delta)
                low, high = (low, middle) if met else (middle, high)
        return self.of_median(epsilons, high)

    def of_median(self, epsilons: Sequence[float], noise: float) -> Floats:
        """δ at each ε in a cluster of median size with that much noise."""
        return np.array([bracket.upper for bracket in self.weaker(self.middle, noise).profile(epsilons)])

    def curves(self) -> dict[str, Floats]:
        """The certified trade-off curve of a cluster of median size, by its name in the figure."""
        return {"certified, of the median cluster": tradeoff(self.accountant(self.middle), TYPE_ONE)}
