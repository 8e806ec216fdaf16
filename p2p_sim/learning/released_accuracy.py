"""The accuracy of a given predictor, estimated from released labels alone.

The users and their true labels are fixed. The noise and the choice of released labels are random. The predictor must
not have been learned from the labels that judge it. A released label gives a score to each class. Let s be the score of
the class that is predicted for the user. The mean of s over the noise is 1 if the prediction is right, else 0.

*Labels of the users themselves.* The mean score of m released labels estimates the accuracy without bias. Since E s is
1 or 0, E(s² - s) = E s² - (E s)² = Var(s). So Σ(s² - s)/m² estimates the variance of the mean score without bias.

*Labels of clusters.* In a cluster, p_y is the share of users with true class y, and q_y the share with predicted class
y. Then the accuracy in the cluster lies between max(0, max_y(p_y + q_y - 1)) and Σ_y min(p_y, q_y) (Fréchet). Every
value between the two is possible. The shares p_y are only estimated, with standard errors σ_y. This makes the lower
bound too high on average, and the upper bound too low, by at most Σ_y σ_y/2. So three bounds are computed on each side.
Each may fail with a third of the error probability of its side, and the tightest counts:
- p_y ± (1 - q_y) for the majority prediction y of the cluster; both are linear in p, so they have no bias;
- the Fréchet bounds, moved outwards by their largest bias;
- the moved Fréchet bounds after clusters with the same majority prediction are merged; larger clusters have smaller
errors of shares.

*Peers drawn with replacement.* Several of the m released labels may belong to the same one of the n users. Let v be the
mean over users of Var(score | true label). Then the mean of m scores has the variance Var(score)/m + (1 - 1/m) v/n. The
sample variance S² has the mean Var(score) - v/n, and score² - score has the mean v. So S²/m is too small by v/n on
average, and S²/m + v/n has no bias.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError
from p2p_sim.mechanisms import Evidence

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AccuracyEstimate:
    """An estimate of a predictor's accuracy among users, from their released labels alone.

    lower, upper: ends of the confidence interval, in [0, 1]. value: unbiased estimate, which may lie outside [0, 1];
    None: the labels determine only a range. identified: whether the interval would shrink to a point with more users
    and labels of the same law. labels: number of released labels. confidence: level of the interval, such as 0.95.
    basis: the method, in words.
    """

    lower: float
    upper: float
    value: float | None
    identified: bool
    labels: int
    confidence: float
    basis: str

    def __str__(self) -> str:
        value = "not identified" if self.value is None else f"{self.value:.4f}"
        return f"{value} [{self.lower:.4f}, {self.upper:.4f}]"


@dataclass(frozen=True)
class _Bound:
    """An estimated lower or upper bound on the accuracy, moved outwards by its largest bias; or a bound on an error.

    value: the bound. variance: its variance.
    """

    value: float
    variance: float

    def moved(self, quantile: float) -> float:
        """The value plus `quantile` standard deviations: an end of a normal confidence interval."""
        return self.value + quantile * float(np.sqrt(max(self.variance, 0.0)))


def validated(
    predictions: NDArray[np.integer],
    evidence: Evidence,
    cluster_offsets: NDArray[np.int64],
    confidence: float = 0.95,
) -> AccuracyEstimate:
    """The accuracy of predictions among the users, estimated from released labels alone, with a normal confidence
    interval. If the released labels are the users' own, only users whose labels were released count. If each is the
    label of a random user of a cluster, all users count.

    Args:
        predictions: (n,) predicted class of each user, in 0..K-1. evidence: for each released label, the user under
        whose name it came, and a score for each class. The mean of a score over the noise is 1 for the owner's true
        class and 0 for the others (exceptions: `Evidence`). cluster_offsets: (C+1,); cluster c holds users offsets[c]..
        offsets[c+1]-1. confidence: level of the interval, in (0, 1). The interval was tested with some hundred labels.

    Raises:
        InputError: no label was released, or an argument is out of its range.
    """
    k = evidence.num_classes
    if not len(evidence.user):
        raise InputError("validation: no label was released; at least one is needed")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence = {confidence:g}: must be above 0 and below 1")
    if predictions.shape != (int(cluster_offsets[-1]),):
        raise InputError(f"predictions: have shape {predictions.shape}, must be ({cluster_offsets[-1]},), one per user")
    if not 0 <= int(predictions.min()) <= int(predictions.max()) < k:
        raise InputError(f"predictions: must lie in 0..{k - 1}, found {predictions.min()} to {predictions.max()}")
    estimate = _of_clusters if evidence.source == "cluster" else _of_users
    return estimate(predictions, evidence, cluster_offsets, confidence)


def _quantile(error: float) -> float:
    """The number that a standard normal variable exceeds with probability `error`."""
    from scipy.special import ndtri

    return float(ndtri(1.0 - error))


def _estimate(
    low: float, high: float, *, value: float | None, labels: int, confidence: float, basis: str
) -> AccuracyEstimate:
    """The estimate with the interval from `low` to `high`, cut to [0, 1].

    Args:
        low, high: ends of the interval. value: unbiased estimate; None: only a range is known. labels: number of
        released labels. confidence: level of the interval. basis: method, in words.
    """
    lower, upper = np.clip([low, high], 0.0, 1.0).tolist()
    return AccuracyEstimate(
        lower, upper, value, identified=value is not None, labels=labels, confidence=confidence, basis=basis
    )


def _of_users(
    predictions: NDArray[np.integer], evidence: Evidence, cluster_offsets: NDArray[np.int64], confidence: float
) -> AccuracyEstimate:
    """The accuracy of predictions among the users whose own labels were released, with a confidence interval. Two kinds
    of evidence give only a range. The first kind has a lower and an upper score for each class; the means of the two
    enclose 1 (true class) or 0. The second kind has a bound on an error that all labels of a cluster share.

    Args:
        predictions: (n,) predicted class of each user. evidence: m released labels, with users and scores as in
        `validated`. cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1. confidence: level of the
        interval, in (0, 1).
    """
    m, quantile = len(evidence.user), _quantile((1.0 - confidence) / 2.0)
    predicted, every = predictions[evidence.user], np.arange(m)
    low = evidence.weights[every, predicted]
    if evidence.upper is None and evidence.drift is None:
        bound = _Bound(float(low.mean()), float((low**2 - low).sum()) / m**2)
        return _estimate(
            bound.moved(-quantile), bound.moved(quantile), value=bound.value, labels=m, confidence=confidence,
            basis="own labels: unbiased, normal interval",
        )  # fmt: skip
    # the means of the two scores enclose 1 (right prediction) or 0 (wrong), up to an error that labels share
    high = low if evidence.upper is None else evidence.upper[every, predicted]
    drift = _drift(evidence, np.bincount(_cluster(evidence, cluster_offsets), minlength=len(cluster_offsets) - 1))
    lower, upper = (
        _Bound(float(w.mean()) + side * drift.value, w.var() / max(m - 1, 1) + drift.variance).moved(side * quantile)
        for w, side in ((low, -1.0), (high, 1.0))
    )
    return _estimate(
        lower, upper, value=None, labels=m, confidence=confidence, basis="own labels: bounds, normal intervals"
    )


def _cluster(evidence: Evidence, cluster_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cluster (m,), numbered from 0, of the user under whose name each of m labels was released.

    Args:
        evidence: the released labels. cluster_offsets: (C+1,) first user of each cluster, and n at the end.
    """
    return np.searchsorted(cluster_offsets, evidence.user, side="right") - 1


def _drift(evidence: Evidence, users: NDArray[np.integer]) -> _Bound:
    """A bound on an error of the estimated accuracy that all labels of a cluster share; 0 if there is no such error.
    The error does not average out. An example: all labels of a cluster were drawn from one noisy class distribution.
    The result is the mean of the clusters' bounds, weighted by their numbers of users.

    Args:
        evidence: the released labels. The field drift has the mean and the variance of each cluster's bound; None:
        there is no such error. users: (C,) number of users who count in each of C clusters.
    """
    if evidence.drift is None:
        return _Bound(0.0, 0.0)
    share, used = users / users.sum(), users > 0
    mean, variance = evidence.drift.mean[used], evidence.drift.variance[used]
    return _Bound(float(share[used] @ mean), float(share[used] ** 2 @ variance))


@dataclass(frozen=True, eq=False)
class _Shares:
    """Class shares in each cluster.

    weight: (C,) share of all users who are in the cluster. true: (C, K) estimated shares of true classes. variance: (C,
    K) variances of these estimates. predicted: (C, K) shares of predicted classes. released: (C,) whether a label of
    the cluster was released.
    """

    weight: Floats
    true: Floats
    variance: Floats
    predicted: Floats
    released: NDArray[np.bool_]

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Whether all users of a cluster have the same predicted class, (C,)."""
        return np.asarray(self.predicted.max(axis=1) > 1.0 - 1e-12)

    def linear(self, side: float) -> _Bound:
        """A bound on the accuracy that uses one class of each cluster. Let q > 1/2 be the share of users with the
        predicted class y. Let p be the estimated share of users with the true class y. Then the accuracy in the cluster
        lies between p - (1 - q) and p + (1 - q). Both ends are linear in p, so they have no bias. A cluster without
        such a class, or without released labels, counts as 0 in the lower bound and as 1 in the upper bound.

        Args:
            side: -1 for the lower bound, 1 for the upper bound.
        """
        most, each = self.predicted.argmax(axis=1), np.arange(len(self.weight))
        share = self.predicted[each, most]
        used = self.released & (share > 0.5)
        value = np.where(used, self.true[each, most] + side * (1.0 - share), 0.5 + 0.5 * side)
        return _Bound(float(self.weight @ value), float((self.weight**2 * self.variance[each, most])[used].sum()))

    def frechet(self, side: float) -> _Bound:
        """A bound on the accuracy from the shares p of true classes and q of predicted classes in each cluster. The
        accuracy lies between max(0, max_y(p_y + q_y - 1)) and Σ_y min(p_y, q_y) (Fréchet). If p is only estimated, both
        ends are biased inwards, so they are moved outwards by the largest bias. A cluster with only one predicted class
        adds no bias. A cluster without released labels counts as 0 in the lower bound and as 1 in the upper bound.

        Args:
            side: -1 for the lower bound, 1 for the upper bound.
        """
        p, q, w = self.true, self.predicted, self.weight
        bound = 1.0 - 0.5 * np.abs(p - q).sum(axis=1) if side > 0 else np.maximum((p + q - 1.0).max(axis=1), 0.0)
        cases = [~self.released, self.constant]
        value = np.select(cases, [0.5 + 0.5 * side, (p * q).sum(axis=1)], bound)
        spread = np.select(cases, [0.0, (self.variance * q).sum(axis=1)], p.shape[1] / 4.0 * self.variance.sum(axis=1))
        mixed = self.released & ~self.constant
        bias = float(np.sqrt(w[mixed].sum() * max(float(w[mixed] @ spread[mixed]), 0.0)))
        return _Bound(float(w @ value) + side * bias, float(w**2 @ spread))

    def pooled(self) -> "_Shares":
        """The class shares after clusters are merged into larger ones, where estimated shares have smaller errors. All
        clusters with the same majority prediction become one. Clusters with only one predicted class stay apart from
        the others, and so do clusters without released labels. No released label's value matters here, so the choice of
        clusters adds no bias.
        """
        k = self.predicted.shape[1]
        kind = (self.predicted.argmax(axis=1) * 2 + self.constant) * 2 + self.released
        weight = np.bincount(kind, self.weight, 4 * k).astype(np.float64)
        used = weight > 0

        def mean(values: Floats, power: int) -> Floats:
            scaled = self.weight[:, None] ** power * values
            total = np.stack([np.bincount(kind, column, 4 * k) for column in scaled.T], axis=1)
            return np.asarray(total[used] / weight[used, None] ** power)

        released = (np.arange(4 * k) % 2 == 1)[used]
        return _Shares(weight[used], mean(self.true, 1), mean(self.variance, 2), mean(self.predicted, 1), released)


def _shares(predictions: NDArray[np.integer], evidence: Evidence, cluster_offsets: NDArray[np.int64]) -> _Shares:
    """The class shares of predictions and of true labels in each cluster; true labels are estimated from released
    labels.

    Args:
        predictions: (n,) predicted class of each user. evidence: m released labels, with users and scores as in
        `validated`. cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
    """
    k, count = evidence.num_classes, len(cluster_offsets) - 1
    sizes, cluster = np.diff(cluster_offsets), _cluster(evidence, cluster_offsets)
    m = np.bincount(cluster, minlength=count)[:, None].astype(np.float64)
    total = np.stack([np.bincount(cluster, w, count) for w in evidence.weights.T], axis=1)
    squares = np.stack([np.bincount(cluster, w**2, count) for w in evidence.weights.T], axis=1)
    # variance of a cluster's mean score: from the noise on each label, and from the choice of released labels
    n, some = sizes[:, None], np.maximum(m, 1.0)
    own = (squares - total) / some
    several = (squares - np.where(m > 1, total**2 / some, 0.0)) / np.maximum(m - 1, 1.0) / some
    variance = several
    if evidence.drift is None:
        variance = several + own / n if evidence.repeated else np.where(m == n, own / some, several)
    home = np.repeat(np.arange(count), sizes)
    predicted = np.bincount(home * k + predictions, minlength=count * k).reshape(count, k) / n
    return _Shares(np.asarray(sizes / sizes.sum()), total / some, variance, predicted, m[:, 0] > 0)


def _of_clusters(
    predictions: NDArray[np.integer], evidence: Evidence, cluster_offsets: NDArray[np.int64], confidence: float
) -> AccuracyEstimate:
    """The accuracy of predictions among all users, with a confidence interval, from labels of random users of clusters.
    The estimate is a single value under three conditions. All users of a cluster have the same predicted class. Each
    cluster has a released label. No error is shared by all labels of a cluster. Otherwise the estimate is only a range.

    Args:
        predictions: (n,) predicted class of each user. evidence: m released labels, with users and scores as in
        `validated`. The labels of a cluster may share an error; then there is a bound on it. cluster_offsets: (C+1,);
        cluster c holds users offsets[c]..offsets[c+1]-1. confidence: level of the interval, in (0, 1).
    """
    shares, m = _shares(predictions, evidence, cluster_offsets), len(evidence.user)
    drift = _drift(evidence, np.diff(cluster_offsets))
    if shares.released.all() and shares.constant.all() and evidence.drift is None:
        bound, quantile = shares.linear(1.0), _quantile((1.0 - confidence) / 2.0)
        return _estimate(
            bound.moved(-quantile), bound.moved(quantile), value=bound.value, labels=m, confidence=confidence,
            basis="cluster labels: one prediction in each cluster, unbiased, normal interval",
        )  # fmt: skip
    # three bounds on each side, each with a third of the error probability: the tightest one counts
    quantile, pooled = _quantile((1.0 - confidence) / 6.0), shares.pooled()
    low, high = (
        [
            _Bound(bound.value + side * drift.value, bound.variance + drift.variance).moved(side * quantile)
            for bound in (shares.linear(side), shares.frechet(side), pooled.frechet(side))
        ]
        for side in (-1.0, 1.0)
    )
    return _estimate(
        max(low), min(high), value=None, labels=m, confidence=confidence,
        basis="cluster labels: Fréchet bounds, normal intervals",
    )  # fmt: skip
