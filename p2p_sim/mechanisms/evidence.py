"""Class scores of released labels, from which accuracy and class shares are estimated without any true label."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.randomizer import Message
from p2p_sim.mechanisms.noise_law import LARGEST_CONDITION, NoiseLaw, Source
from p2p_sim.mechanisms.outcome import LabelRelease

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Drift:
    """A random bound, cluster by cluster, on an error that all released labels of a cluster share.

    mean, variance: (C,) of a random number that is at least the absolute error of the cluster's estimated accuracy, or
    of an estimated class share.
    """

    mean: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Evidence:
    """Class scores of each released label whose mean, given the true label, is that label's one-hot vector.

    user: (m,) the user under whose name each label was released.
    weights: (m, K) the scores; each row sums to 1.
    source: whose label it is: the user's own, or that of a random user of her cluster.
    repeated: only for cluster labels: whether peers are drawn with replacement, so that one noisy label may be released
        several times; else each is released at most once.
    upper: (m, K) or None. If present, the mean of `weights` is at most the one-hot vector, and that of `upper` at
    least.
    drift: a bound on a common error that is added to the means; None: there is none.
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
        """The scores of the labels released in some clusters only; used to estimate on a subset of clusters.

        Users are numbered anew from 0, cluster by cluster.

        Args:
            clusters: (c,) cluster numbers, ascending.
            cluster_offsets: (C+1,); cluster k holds users offsets[k]..offsets[k+1]-1.
        """
        sizes = np.diff(cluster_offsets)
        chosen = np.zeros(len(sizes), dtype=np.bool_)
        chosen[clusters] = True
        home = np.searchsorted(cluster_offsets, self.user, side="right") - 1
        before = np.cumsum(np.where(chosen, 0, sizes))  # users left out of clusters up to each one
        mine = chosen[home]
        drift = self.drift and Drift(self.drift.mean[clusters], self.drift.variance[clusters])
        upper = None if self.upper is None else self.upper[mine]
        user = self.user[mine] - before[home[mine]]
        return replace(self, user=user, weights=self.weights[mine], upper=upper, drift=drift)


def of_hard(release: LabelRelease, law: NoiseLaw) -> Evidence | None:
    """Class scores of hard labels whose noise has a public matrix; None if that matrix gives no scores.

    With an invertible matrix the scores are unbiased. Else they are lower and upper scores, which are known only where
    each label comes from the user who is named (not from a random user of her cluster).
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


class BoundingScores(NamedTuple):
    """Two matrices (K, K) of scores of a released label (row) for each class (column).

    Given the true label, the mean of `lower` is at most its one-hot vector, and the mean of `upper` at least.
    """

    lower: Floats
    upper: Floats


def bounding_scores(transition: Floats) -> BoundingScores:
    """Lower and upper class scores of a released label, for a noise matrix that may have no inverse.

    Let S be the labels that are released with probability above 0. For a class of S, the inverse on S gives a score g.
    Given a true label in S, the mean of g is the indicator of the class; given another label y it is a number c_y.
    With M = max(0, max c_y) and m = min(0, min c_y), g - m is an upper score and (g - M)/(1 - M) a lower one.
    For a class outside S the scores are the trivial 0 and 1.

    Args:
        transition: (K, K) noise matrix; entry [y, z] is the probability that y is released as z.
    """
    k = len(transition)
    lower, upper = np.zeros((k, k)), np.ones((k, k))
    sent = np.flatnonzero(transition.any(axis=0))
    inside = transition[np.ix_(sent, sent)]
    if np.linalg.cond(inside) >= LARGEST_CONDITION:
        return BoundingScores(lower, upper)
    scores = np.linalg.inv(inside)
    others = np.setdiff1d(np.arange(k), sent)
    means = transition[np.ix_(others, sent)] @ scores
    most = np.maximum(means.max(axis=0, initial=0.0), 0.0)
    least = np.minimum(means.min(axis=0, initial=0.0), 0.0)
    upper[np.ix_(sent, sent)] = scores - least
    bounded = most < 1.0 - 1e-9
    lower[np.ix_(sent, sent[bounded])] = ((scores - most) / np.where(bounded, 1.0 - most, 1.0))[:, bounded]
    return BoundingScores(lower, upper)


def of_messages(release: LabelRelease, randomizer: Message, source: Source) -> Evidence | None:
    """Unbiased class scores of the payloads that users' randomizers made; None if the randomizer offers none.

    Args:
        release: the payloads. randomizer: made them. source: whose label is released under a user's name.
    """
    if release.kind == "signed":
        return Evidence(release.user, release.payload.astype(np.float64), source)
    weights = getattr(randomizer, "unbiased", lambda payload: None)(release.payload)  # a plug-in may have none
    if weights is None:
        return None
    centred = weights + (1.0 - weights.sum(axis=1, keepdims=True)) / weights.shape[1]
    return Evidence(release.user, centred, source)
