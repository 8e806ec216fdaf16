"""The accuracy of a given predictor, estimated from released labels alone.

The users and their true labels are fixed; the noise and the choice of released labels are random. The predictor must
not have been learned from the labels that judge it. A released label gives a score to each class; s is the score of the
class that is predicted for the user. It is unbiased: its expectation over the noise is 1 if the prediction is right,
else 0.

*Labels of the users themselves.* The mean of the scores of m released labels is an unbiased estimate of the accuracy.
Let 1{right} be 1 if the prediction is right, else 0. Since E s = 1{right} and 1{right}² = 1{right}, the expectation of
s² - s is Var(s). So Σ(s² - s)/m² estimates the variance of the estimate without bias.

*Labels of clusters.* Let p_y be the share of class y among a cluster's true labels, and q_y its share among the
predicted labels. Then the accuracy in the cluster lies between max(0, max_y(p_y + q_y - 1)) and Σ_y min(p_y, q_y)
(Fréchet), and any value between is possible. With estimated shares the lower end would be too high and the upper end
too low on average, by at most half of Σ_y σ_y, where σ_y is the standard error of the estimated p_y. Hence three lower
and three upper bounds are computed, each with a third of the error probability of its end of the interval, and the
tightest counts:
- the share p_y of the cluster's majority prediction y, minus or plus 1 - q_y, which is linear in p and so has no bias;
- the Fréchet bound, minus or plus its largest bias;
- the Fréchet bound after clusters with the same majority prediction are merged, which makes the errors of shares
smaller.

*Peers drawn with replacement.* Among m released labels of n users, some can be of the same user. Let v = E Var(score |
true label). Then the mean of m scores has the variance Var(score)/m + (1 - 1/m) v/n. The sample variance S² has the
expectation Var(score) - v/n, and score² - score has the expectation v. So S²/m + v/n is an unbiased estimate of the
mean's variance, while S²/m is too small by v/n.
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
    None if the labels only determine a range of accuracies. identified: whether more labels of the same law would
    narrow the interval to a point. labels: number of released labels used. confidence: the interval's level, such as
    0.95. basis: the method, in words.
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
    """An estimate of a lower bound on the accuracy, less its largest bias, or of an upper bound, plus its largest bias;
    and the variance of this estimate.
    """

    value: float
    variance: float

    def moved(self, quantile: float) -> float:
        """The value plus `quantile` standard deviations, which is an end of a normal confidence interval."""
        return self.value + quantile * float(np.sqrt(max(self.variance, 0.0)))


def validated(
    predictions: NDArray[np.integer],
    evidence: Evidence,
    cluster_offsets: NDArray[np.int64],
    confidence: float = 0.95,
) -> AccuracyEstimate:
    """The accuracy of predictions among the users, estimated from released labels alone: an unbiased value (None if the
    labels only determine a range) and the two ends of a normal confidence interval.

    If released labels are the users' own, the accuracy is that among the users whose labels were released. If the
    labels are those of random users of a cluster, it is the accuracy among all users.

    Args:
        predictions: (n,) predicted classes of all users, in 0..K-1. evidence: for each released label, the user under
        whose name it came, and a score for each class; averaged over the noise, the score is 1 for the true class and 0
        for the others. cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1. confidence: level of
        the interval, between 0 and 1; the normal approximation was tested with some hundred labels.

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
    """The estimate whose interval has the ends `low` and `high`, moved into [0, 1].

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
    """The accuracy of predictions among the users whose own labels were released, with a confidence interval.

    Args:
        predictions: (n,) predicted class of each user. evidence: for each of m released labels, the user under whose
        name it came, and a score for each class; averaged over the noise, the score is 1 for the true class and 0 for
        the others. Some evidence has two scores in place of one: the mean of the first is at most this 1 or 0, and the
        mean of the second is at least this 1 or 0. Some evidence has a bound on an error that all labels of a cluster
        share. In both cases only a range is estimated. cluster_offsets: (C+1,); cluster c holds users
        offsets[c]..offsets[c+1]-1. confidence: level of the interval, in (0, 1).
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
    # the means of the two scores enclose 1 (right prediction) or 0 (wrong), up to an error that labels share (drift)
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
        evidence: the released labels, with these users. cluster_offsets: (C+1,) first user of each cluster, and n at
        the end.
    """
    return np.searchsorted(cluster_offsets, evidence.user, side="right") - 1


def _drift(evidence: Evidence, users: NDArray[np.integer]) -> _Bound:
    """A bound on an error of the estimated accuracy that does not average out over a cluster's labels, because all of
    them share it. An example is the random error of a noisy class distribution from which all labels of the cluster
    were drawn. The result is the mean of the clusters' bounds, weighted by their numbers of users, with its variance;
    it is 0 if there is no such error.

    Args:
        evidence: the released labels; its field drift has the mean and the variance of each cluster's bound, or is None
        if there is no such error. users: (C,) number of users that count in each of C clusters.
    """
    if evidence.drift is None:
        return _Bound(0.0, 0.0)
    share, used = users / users.sum(), users > 0
    mean, variance = evidence.drift.mean[used], evidence.drift.variance[used]
    return _Bound(float(share[used] @ mean), float(share[used] ** 2 @ variance))


@dataclass(frozen=True, eq=False)
class _Shares:
    """Class shares in each cluster.

    weight: (C,) share of the users who are in the cluster. true: (C, K) estimated shares of the true labels. variance:
    (C, K) variances of these estimates. predicted: (C, K) shares of the predicted labels. released: (C,) whether a
    label of the cluster was released.
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
        """A bound on the accuracy that uses one class of each cluster. Let q > 1/2 be the share of a cluster's users
        with the predicted class y, and p the estimated share with the true class y. Then the accuracy in the cluster
        lies between p - (1 - q) and p + (1 - q). A cluster without such a majority or without released labels counts as
        0 in the lower bound and as 1 in the upper bound. The bound is linear in p, so that it has no bias.

        Args:
            side: -1 for the lower bound, 1 for the upper bound.
        """
        most, each = self.predicted.argmax(axis=1), np.arange(len(self.weight))
        share = self.predicted[each, most]
        used = self.released & (share > 0.5)
        value = np.where(used, self.true[each, most] + side * (1.0 - share), 0.5 + 0.5 * side)
        return _Bound(float(self.weight @ value), float((self.weight**2 * self.variance[each, most])[used].sum()))

    def frechet(self, side: float) -> _Bound:
        """A bound on the accuracy from the shares p of true and q of predicted classes in each cluster (Fréchet's
        inequalities): the accuracy lies between max(0, max_y(p_y + q_y - 1)) and Σ_y min(p_y, q_y). Because p is only
        estimated, these ends are too close to each other on average; the largest such bias is subtracted from the lower
        bound, or added to the upper one.

        A cluster in which all predictions are the same adds no bias. A cluster without released labels counts as 0 in
        the lower bound and as 1 in the upper bound.

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
        """The class shares after some clusters are merged into larger ones, in which the estimated shares have smaller
        errors. Clusters are merged if they agree in three points: the class that is predicted most often, whether it is
        the only predicted class, and whether a label was released. These points depend on the predictions and on who
        submitted a label, but not on the values of the labels. So the choice of the merged clusters adds no bias.
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
    """For each cluster: its share of the users, the class shares of the predictions, the class shares of the true
    labels as estimated from released labels, the variances of these estimates, and whether any label was released.

    Args:
        predictions: (n,) predicted class of each user. evidence: for each of m released labels, the user under whose
        name it came, and a score for each class; averaged over the noise, the score is 1 for the true class and 0 for
        the others. cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
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
    """The accuracy of predictions among all users, with a confidence interval. It is estimated from released labels,
    each of them the label of a random user of a cluster. The estimate is a single value if all users of each cluster
    have the same predicted class, each cluster has a released label, and no error is shared by all labels of a cluster.
    Otherwise the estimate is only a range.

    Args:
        predictions: (n,) predicted class of each user. evidence: for each of m released labels, the user under whose
        name it came, and a score for each class; averaged over the noise, the score is 1 for the true class and 0 for
        the others. It may also have a bound on an error that all labels of a cluster share. cluster_offsets: (C+1,);
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
    # three bounds on each side, each with a third of the error probability; all hold together, so the tightest counts
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
