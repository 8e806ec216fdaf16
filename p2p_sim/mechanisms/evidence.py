"""What released labels say of true ones on average: scores that need no true label."""

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
    """A bound of an error that all released labels of a cluster have in common, by a mechanism's public law.

    mean, variance: (C,) of a random number that is at least the error of the cluster's accuracy or of a share of its
    labels, either way.
    """

    mean: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Evidence:
    """For each released label scores of the classes, which on average say what the true label is.

    user: (m,) with whose name each label was released. weights: (m, K); their mean, given the true label, is the
    label's indicator. Each row sums to 1. source: whose label it is: the user's own, or that of a random user of her
    cluster. repeated: of cluster labels, whether peers are drawn with replacement, so that one noisy label may be
    released several times; else each is released at most once. upper: (m, K) if `weights` have a mean of at most the
    indicator; these have one of at least the indicator. drift: None if the mean is as said; else this error is added to
    it.
    """

    user: NDArray[np.integer]
    weights: Floats
    source: Source = "user"
    repeated: bool = True
    upper: Floats | None = None
    drift: Drift | None = None

    @property
    def num_classes(self) -> int:
        """K, the number of classes."""
        return int(self.weights.shape[1])

    def within(self, clusters: NDArray[np.int64], cluster_offsets: NDArray[np.int64]) -> "Evidence":
        """The evidence of some clusters' labels alone; clusters (c,) ascend, and their users are numbered anew."""
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
    """The evidence that hard labels with a public law give; None if the law says nothing of a cluster's shares.

    A matrix that has no inverse gives scores for a lower and an upper bound, where labels are those of their users.
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
    """Scores (K, K) of released labels (rows) for each class: lower ones, whose means are at most its indicator, and
    upper ones.
    """

    lower: Floats
    upper: Floats


def bounding_scores(transition: Floats) -> BoundingScores:
    """The scores of released labels under a matrix that need not have an inverse.

    S are the labels that are ever released. The inverse on S gives a score g whose mean is the indicator of a class of
    S if the true label is in S, and some number c else. Then g + max(0, -c) is an upper score, and (g - c')/(1 - c'),
    c' = max(0, c), is a lower one. Of a class outside S nothing is known: 0 and 1.

    Args:
        transition: (K, K), rows sum to 1.
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
    """The evidence of payloads that a randomizer made of true labels; None if it knows no unbiased scores."""
    if release.kind == "signed":
        return Evidence(release.user, release.payload.astype(np.float64), source)
    weights = getattr(randomizer, "unbiased", lambda payload: None)(release.payload)  # a plug-in may have none
    if weights is None:
        return None
    centred = weights + (1.0 - weights.sum(axis=1, keepdims=True)) / weights.shape[1]
    return Evidence(release.user, centred, source)
