"""Public laws of the noise: with which probabilities labels and numbers are released, given the true ones."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError

Floats = NDArray[np.float64]
Source = Literal["user", "cluster"]
"""Whose label is released under a user's name: her own, or that of a random user of her cluster."""


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """Public probabilities of released hard labels given true labels, for users who follow the protocol.

    Lies and fallbacks on the network are not part of it.

    transition: (G, K, K); entry [g, y, z] is the probability that the true label y is released as z. Rows sum to 1.
    source: whose true label it is: the user's own, or that of a random user of her cluster.
    group: (m,) which of the G matrices each released label has; None: all have the first one.

    Raises:
        InputError: a row of a matrix is not a distribution.
    """

    transition: Floats
    source: Source = "user"
    group: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        t = self.transition
        if t.ndim != 3 or t.shape[1] != t.shape[2]:
            raise InputError(f"noise law: transition has shape {t.shape}, must be (G, K, K)")
        if not ((t >= 0).all() and np.allclose(t.sum(axis=2), 1.0, rtol=0, atol=1e-9)):
            raise InputError("noise law: transition[g, y] must be the distribution of the released label given y")

    @staticmethod
    def common(transition: Floats, source: Source = "user") -> "NoiseLaw":
        """The law of labels that all share one matrix (K, K)."""
        return NoiseLaw(transition[None, :, :], source)

    @property
    def num_classes(self) -> int:
        """Number of classes K."""
        return int(self.transition.shape[2])

    def groups(self, labels: int) -> NDArray[np.int64]:
        """Index (m,) of the matrix that applies to each of m released labels."""
        return np.zeros(labels, dtype=np.int64) if self.group is None else self.group

    def likelihoods(self, labels: NDArray[np.integer]) -> Floats:
        """(m, K): probability of each released label (m,) under each true label."""
        return np.asarray(self.transition[self.groups(len(labels)), :, labels])

    def weights(self, labels: NDArray[np.integer]) -> Floats:
        """Signed weights (m, K) of the released labels (m,); given the true label, their mean is its one-hot vector.

        A label z gets row z of the inverse matrix; the weights of a label sum to 1.

        Raises:
            InputError: a matrix that is used has no inverse, so that the noise cannot be undone on average.
        """
        group = self.groups(len(labels))
        used, index = np.unique(group, return_inverse=True)
        matrices = self.transition[used]
        if used.size and not (np.linalg.cond(matrices) < LARGEST_CONDITION).all():
            raise InputError(
                "learner: the noise on labels cannot be undone on average: two true labels are released alike; "
                "'forward_correction' learns nevertheless"
            )
        return np.asarray(np.linalg.inv(matrices)[index.ravel(), labels])


LARGEST_CONDITION = 1e12
"""A matrix of a larger condition number counts as one without an inverse."""


def to_simplex(points: Floats) -> Floats:
    """Projects each row of points (n, K) to the nearest probability distribution in Euclidean distance: (n, K).

    >>> to_simplex(np.array([[1.2, -0.2, 0.0]])).tolist()
    [[1.0, 0.0, 0.0]]
    """
    ordered = -np.sort(-points, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    positive = (ordered > excess).sum(axis=1)
    return np.asarray(np.maximum(points - excess[np.arange(len(points)), positive - 1][:, None], 0.0))


def cluster_shares(
    law: NoiseLaw, labels: NDArray[np.integer], cluster: NDArray[np.int64], num_clusters: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Estimated class shares (C, K) of the true labels in each cluster, and the number of released labels (C,).

    A share is the mean of the labels' unbiased weights, projected to the simplex. Clusters without labels get equal
    shares.

    Args:
        law: of the released labels (m,). cluster: (m,) of the users under whose names they are released.
    """
    sums = np.stack([np.bincount(cluster, w, num_clusters) for w in law.weights(labels).T], axis=1)
    count = np.bincount(cluster, minlength=num_clusters)
    even = np.full(sums.shape, 1.0 / law.num_classes)
    return to_simplex(np.divide(sums, count[:, None], out=even, where=count[:, None] > 0)), count


@dataclass(frozen=True, eq=False)
class ValueLaw:
    """Public probabilities of released numbers given true label values.

    values: (k,) the label values, increasing. numbers: (m,) the numbers that may be released. law: (k, m) probability
    of each number given each label value. prior: (k,) the public prior. source: whose label it is: the user's own, or
    that of a random user of her cluster.
    """

    values: Floats
    numbers: Floats
    law: Floats
    prior: Floats
    source: Source = "user"

    @property
    def span(self) -> float:
        """Width of the public range of label values."""
        return float(self.values[-1] - self.values[0])

    @property
    def means(self) -> Floats:
        """Mean (k,) of a released number given each label value."""
        return np.asarray(self.law @ self.numbers)

    @property
    def variance(self) -> float:
        """Variance of a released number given the label, averaged over labels by the prior."""
        return float(self.prior @ (self.law @ self.numbers**2 - self.means**2))

    def scores(self, payload: Floats, low: int, high: int) -> Floats:
        """Log-likelihood ratios (n,) of released numbers (n,), label value `high` against label value `low` (indices).

        Between two numbers of the law the ratio is interpolated.
        """
        order = np.argsort(self.numbers)
        with np.errstate(divide="ignore"):
            ratio = np.log(self.law[high, order]) - np.log(self.law[low, order])
        return np.asarray(np.interp(payload, self.numbers[order], np.nan_to_num(ratio, posinf=1e3, neginf=-1e3)))
