"""The privacy that a cluster's accountant certifies for clusters with one target in each."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.audit.one_run import TYPE_ONE, Account, Floats
from p2p_sim.privacy import Accountant, tradeoff

LARGEST_RISEN = 100.0
"""Largest ε of a leak for which `ClusterAccount.reached` computes the amount of noise."""
HALVINGS = 14
"""Steps of the bisection that computes this noise."""


@dataclass(frozen=True)
class ClusterAccount(Account):
    """The privacy that a cluster's accountant certifies for C clusters with one target in each.

    delta: δ of the scenario.
    """

    delta: float

    shares = (0.0, 0.1, 0.2, 0.4, 0.7, 0.9)

    @property
    def noise(self) -> float:
        """The claimed amount of noise. For a label exchange the amount is the flip probability α. For other mechanisms
        it is 1, because an amount of noise is a share of the claimed noise.
        """
        return 1.0

    @abstractmethod
    def weaker(self, size: int, noise: float) -> Accountant:
        """The accountant of a cluster with this amount of noise; an amount below the claimed one describes a leak.

        Args:
            size: number of users of the cluster. noise: the flip probability α for a label exchange; for other
            mechanisms the share of the claimed noise that is left.
        """

    def accountant(self, size: int) -> Accountant:
        """The object that bounds ε and δ in a cluster of this size with the claimed noise."""
        return self.weaker(size, self.noise)

    @cached_property
    def middle(self) -> int:
        """The median of the clusters' sizes; of two middle sizes, the larger one."""
        return int(np.sort(self.sizes)[len(self.sizes) // 2])

    @property
    def largest(self) -> float:
        """The certified ε at δ = 1e-5 in a cluster of median size. The audit takes the smaller of this ε and a fixed
        limit, and tests δ at shares (at most 1) of this number.
        """
        return self.accountant(self.middle).epsilon(1e-5).epsilon_upper

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """The certified δ at each ε, as a mean over the clusters."""
        sizes, weights = np.unique(self.sizes, return_counts=True)
        table = [[bracket.upper for bracket in self.accountant(int(n)).profile(epsilons)] for n in sizes]
        return np.asarray(np.array(table).T @ weights / weights.sum())

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each of J values of ε, (J,), in a cluster of median size under a leak. The leak is too little noise: ε
        at the scenario's δ is approximately `rise` times the certified ε. From this δ the audit computes how likely it
        would detect the leak.

        Bisection finds the noise. If `rise` is at most 1, or the raised ε is 0 or above 100, the claimed noise is kept.
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
        """δ at each of J values of ε, (J,), in a cluster of median size with this amount of noise.

        noise: the flip probability α for a label exchange; for other mechanisms the share of the claimed noise.
        """
        return np.array([bracket.upper for bracket in self.weaker(self.middle, noise).profile(epsilons)])

    def curves(self) -> dict[str, Floats]:
        """The certified trade-off curve of a cluster of median size, with its name in the figure as the key. The value
        is an array of type II errors at type I errors from 0 to 1 in steps of 0.005.
        """
        return {"certified, of the median cluster": tradeoff(self.accountant(self.middle), TYPE_ONE)}
