"""The public law of released numbers: what a randomizer of label values makes of each of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.mechanisms.noise_law import Source

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ValueLaw:
    """What is published about released numbers.

    values: (k,) the label values, increasing. numbers: (m,) the numbers that may be released.
    law: (k, m) probability of each number given each label value. prior: (k,) the public prior.
    source: whose label it is: the user's own, or that of a random user of her cluster.
    """

    values: Floats
    numbers: Floats
    law: Floats
    prior: Floats
    source: Source = "user"

    @property
    def span(self) -> float:
        """Width of the public range."""
        return float(self.values[-1] - self.values[0])

    @property
    def means(self) -> Floats:
        """(k,) mean of a number given the label."""
        return np.asarray(self.law @ self.numbers)

    @property
    def variance(self) -> float:
        """Variance of a number given the label, its mean under the prior."""
        return float(self.prior @ (self.law @ self.numbers**2 - self.means**2))

    def scores(self, payload: Floats, low: int, high: int) -> Floats:
        """(n,) how much each number speaks for the label at place `high` against that at place `low`.

        It is the logarithm of the ratio of both probabilities, in between if the number is not one of `numbers`.
        """
        order = np.argsort(self.numbers)
        with np.errstate(divide="ignore"):
            ratio = np.log(self.law[high, order]) - np.log(self.law[low, order])
        return np.asarray(np.interp(payload, self.numbers[order], np.nan_to_num(ratio, posinf=1e3, neginf=-1e3)))
