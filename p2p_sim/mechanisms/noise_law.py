"""Public laws of the noise on released labels, and class scores of released labels.

A law gives the probability of each released label or number given the true label. Class scores follow from a law. With
scores, accuracy and class shares can be estimated without any true label.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError
from p2p_sim.exchange import Message
from p2p_sim.mechanisms.outcome import Floats, LabelRelease

Source = Literal["user", "cluster"]
"""Whose label is released under a user's name: her own label, or the label of a random user of her cluster."""


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """Public probabilities of released hard labels (classes) given true labels.

    The law ignores users who lie, and users who submit their own label after a failed request.

    transition: (G, K, K) matrices; entry [g, y, z] is the probability that the true label y is released as z.
    source: "user": y is the user's own label; "cluster": y is the label of a random user of her cluster.
    group: (m,) index of the matrix that applies to each released label; None: matrix 0 applies to all.

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
        """The law of released labels that all have the same noise matrix.

        Args:
            transition: (K, K); entry [y, z] is the probability that the true label y is released as z. source: "user":
            each user releases her own label y. "cluster": y is the label of a random user of her cluster.
        """
        return NoiseLaw(transition[None, :, :], source)

    @property
    def num_classes(self) -> int:
        """Number of classes K."""
        return int(self.transition.shape[2])

    def groups(self, labels: int) -> NDArray[np.int64]:
        """The index (m,) of each released label's matrix in `transition`; all 0 if the labels share one matrix.

        Args:
            labels: m, the number of released labels.
        """
        return np.zeros(labels, dtype=np.int64) if self.group is None else self.group

    def likelihoods(self, labels: NDArray[np.integer]) -> Floats:
        """The probability (m, K) of each of m released labels, given each of K possible true labels."""
        return np.asarray(self.transition[self.groups(len(labels)), :, labels])

    def weights(self, labels: NDArray[np.integer]) -> Floats:
        """Signed weights (m, K) of m released labels. Given the true label, the expected weights are that label's
        one-hot vector.

        A label z gets row z of the inverse matrix. The weights of a label sum to 1.

        Raises:
            InputError: a matrix in use has no inverse. The noise then cannot be undone on average.
        """
        used, index = np.unique(self.groups(len(labels)), return_inverse=True)
        matrices = self.transition[used]
        if used.size and not (np.linalg.cond(matrices) < LARGEST_CONDITION).all():
            raise InputError(
                "learner: the noise on labels cannot be undone on average: two true labels are released alike; "
                "'forward_correction' learns nevertheless"
            )
        return np.asarray(np.linalg.inv(matrices)[index.ravel(), labels])


LARGEST_CONDITION = 1e12
"""A noise matrix with a condition number of at least this value is treated as singular."""


def to_simplex(points: Floats) -> Floats:
    """The probability distributions (n, K) that are nearest to the rows of points (n, K), in Euclidean distance.

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
    """Estimated class shares (C, K) of the true labels in each cluster, and numbers of released labels (C,).

    The unbiased weights of a cluster's labels are averaged. The average is projected to the simplex. A cluster without
    labels gets equal shares.

    Args:
        law: law of the noise. labels: (m,) released labels. cluster: (m,) cluster of each label's user. num_clusters:
        number C of clusters.
    """
    sums = np.stack([np.bincount(cluster, w, num_clusters) for w in law.weights(labels).T], axis=1)
    count = np.bincount(cluster, minlength=num_clusters)
    shares = np.full(sums.shape, 1.0 / law.num_classes)
    return to_simplex(np.divide(sums, count[:, None], out=shares, where=count[:, None] > 0)), count


@dataclass(frozen=True, eq=False)
class ValueLaw:
    """Public probabilities of released numbers given true label values.

    values: (k,) the label values, increasing. numbers: (m,) the numbers that may be released. law: (k, m) probability
    of each number given each label value. prior: (k,) public prior over the label values. source: "user": each user
    releases her own label; "cluster": the label of a random user of her cluster is released under her name.
    """

    values: Floats
    numbers: Floats
    law: Floats
    prior: Floats
    source: Source = "user"

    @property
    def span(self) -> float:
        """Difference between the largest and the smallest label value."""
        return float(self.values[-1] - self.values[0])

    @property
    def means(self) -> Floats:
        """Expected value (k,) of a released number, given each label value."""
        return np.asarray(self.law @ self.numbers)

    @property
    def variance(self) -> float:
        """Variance of a released number given the label, averaged over label values with their prior probabilities."""
        return float(self.prior @ (self.law @ self.numbers**2 - self.means**2))

    def scores(self, payload: Floats, low: int, high: int) -> Floats:
        """Log-likelihood ratios (n,) of n released numbers: ln(P/Q). P is the probability of a number under label value
        `high`, and Q under `low`. Between neighbouring possible numbers the ratio is interpolated linearly. Infinite
        ratios are replaced by ±1000.

        Args:
            payload: (n,) the released numbers. low, high: indices of two label values.
        """
        order = np.argsort(self.numbers)
        with np.errstate(divide="ignore"):
            ratio = np.log(self.law[high, order]) - np.log(self.law[low, order])
        return np.asarray(np.interp(payload, self.numbers[order], np.nan_to_num(ratio, posinf=1e3, neginf=-1e3)))


@dataclass(frozen=True, eq=False)
class Drift:
    """For each cluster, an upper bound of the size of an error that all its released labels share.

    The error is in the cluster's estimated accuracy, or in an estimated class share. Noise that is drawn once for the
    whole cluster may cause such an error. So the bound is a random number, of which only mean and variance are known.

    mean, variance: (C,) mean and variance of the bound.
    """

    mean: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Evidence:
    """Class scores of released labels. Given the true label, the expected scores are that label's one-hot vector.

    user: (m,) the user under whose name each label was released.
    weights: (m, K) the scores; each row sums to 1 unless `upper` is given.
    source: "user": a user's own label is scored; "cluster": the label of a random user of her cluster.
    repeated: whether one noisy label may be released under several users' names; used only if `source` is "cluster".
    upper: (m, K) or None. If given, the one-hot vector is at least the expected `weights`. It is at most the expected
        `upper`.
    drift: a bound on an error that the expected scores of a cluster share; None: there is no such error.
    """

    user: NDArray[np.integer]
    weights: Floats
    source: Source = "user"
    repeated: bool = True
    upper: Floats | None = None
    drift: Drift | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes K."""
        return int(self.weights.shape[1])

    def within(self, clusters: NDArray[np.int64], cluster_offsets: NDArray[np.int64]) -> "Evidence":
        """The scores of labels that are released in the given clusters. Users of these clusters are renumbered from 0.

        Args:
            clusters: (c,) indices of these clusters, ascending. cluster_offsets: (C+1,); cluster k holds users
            cluster_offsets[k]..cluster_offsets[k+1]-1.
        """
        sizes = np.diff(cluster_offsets)
        chosen = np.zeros(len(sizes), dtype=np.bool_)
        chosen[clusters] = True
        home = np.searchsorted(cluster_offsets, self.user, side="right") - 1
        before = np.cumsum(np.where(chosen, 0, sizes))  # users in omitted clusters, up to and including each cluster
        mine = chosen[home]
        drift = self.drift and Drift(self.drift.mean[clusters], self.drift.variance[clusters])
        upper = None if self.upper is None else self.upper[mine]
        return replace(
            self, user=self.user[mine] - before[home[mine]], weights=self.weights[mine], upper=upper, drift=drift
        )


def of_hard(release: LabelRelease, law: NoiseLaw) -> Evidence | None:
    """Class scores of released hard labels, computed from their public noise matrices.

    If every used matrix has an inverse, the expected scores are the true label's one-hot vector. Otherwise there are
    two cases. If each user releases her own label, there are lower and upper scores. The one-hot vector lies between
    the expected lower and upper scores. If the label of a random user is released, the result is None.

    Args:
        release: the released labels and their users. law: the noise matrices of the labels.
    """
    labels = release.payload.astype(np.int64)
    used, index = np.unique(law.groups(len(labels)), return_inverse=True)
    matrices = law.transition[used]
    if (np.linalg.cond(matrices) < LARGEST_CONDITION).all():
        return Evidence(release.user, law.weights(labels), law.source)
    if law.source == "cluster":
        return None
    lower, upper = np.stack([bounding_scores(matrix) for matrix in matrices], axis=1)
    return Evidence(release.user, lower[index.ravel(), labels], upper=upper[index.ravel(), labels])


def bounding_scores(transition: Floats) -> tuple[Floats, Floats]:
    """Lower and upper class scores: two matrices (K, K) with a row for each released label.

    Given the true label, its one-hot vector lies between the expected lower and upper scores. The noise matrix need not
    have an inverse.

    Let S be the set of labels that can be released. Consider a class of S, and let the noise matrix on S have an
    inverse. The inverse gives a score g. Given a true label in S, the expectation of g is 1 for the class itself, and 0
    for other labels. Given a true label y outside S, the expectation is a number c_y. Let M = max(0, max c_y) and
    m = min(0, min c_y) over all y outside S. Then g - m is an upper score. If M < 1, (g - M)/(1 - M) is a lower score.
    Where no score is given here, the lower score is 0 and the upper score is 1.

    Args:
        transition: (K, K) noise matrix; entry [y, z] is the probability that the label y is released as z.
    """
    k = len(transition)
    lower, upper = np.zeros((k, k)), np.ones((k, k))
    sent = np.flatnonzero(transition.any(axis=0))
    inside = transition[np.ix_(sent, sent)]
    if np.linalg.cond(inside) >= LARGEST_CONDITION:
        return lower, upper
    scores = np.linalg.inv(inside)
    means = transition[np.ix_(np.setdiff1d(np.arange(k), sent), sent)] @ scores
    most = np.maximum(means.max(axis=0, initial=0.0), 0.0)
    upper[np.ix_(sent, sent)] = scores - np.minimum(means.min(axis=0, initial=0.0), 0.0)
    bounded = most < 1.0 - 1e-9
    lower[np.ix_(sent, sent[bounded])] = ((scores - most) / np.where(bounded, 1.0 - most, 1.0))[:, bounded]
    return lower, upper


def of_messages(release: LabelRelease, randomizer: Message, source: Source) -> Evidence | None:
    """Class scores of released payloads, such as bits or class probabilities. Given the true label, the expected scores
    are that label's one-hot vector. The result is None if the randomizer offers no such scores.

    Args:
        release: the released payloads and their users. randomizer: the object that made the payloads. source: "user":
        a user's own label is released; "cluster": the label of a random user of her cluster.
    """
    if release.kind == "signed":
        return Evidence(release.user, release.payload.astype(np.float64), source)
    weights = getattr(randomizer, "unbiased", lambda payload: None)(release.payload)  # a plug-in may have none
    if weights is None:
        return None
    centred = weights + (1.0 - weights.sum(axis=1, keepdims=True)) / weights.shape[1]
    return Evidence(release.user, centred, source)
