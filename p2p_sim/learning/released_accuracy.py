"""The accuracy of a given predictor, estimated from released labels alone.

The users and their true labels are fixed; chance is in the noise, and in who is asked. The predictor must not have
been learned from the labels that judge it.

*Labels of their users.* The mean of the scores s of the predicted classes is unbiased. Since E s = 1{right} and
1{right}² = 1{right}, s² - s has the mean Var(s): Σ(s² - s)/m² estimates the variance without bias.

*Labels of clusters.* A cluster with shares p of true labels and shares q of predicted ones has an accuracy between
max(0, max_y(p_y + q_y - 1)) and Σ_y min(p_y, q_y) (Fréchet), and any value between is possible. Estimated shares would
make the lower end too high and the upper end too low on average, by at most half of Σ_y σ_y. Hence there are three
bounds on each side, and the best one counts, each with a third of the error probability:
- the share of the cluster's majority prediction y, less or plus 1 - q_y: linear in p, so without bias;
- the Fréchet bound, less or plus that largest bias;
- the same when all clusters with one majority prediction are taken for one cluster, which has smaller errors.

*Peers drawn with replacement.* Of n users with noisy labels, m releases repeat some. With v = E Var(score | label),
the mean of m scores has the variance Var(score)/m + (1 - 1/m) v/n. The sample variance s² has the mean
Var(score) - v/n, and score² - score has the mean v. So s²/m + v/n is unbiased, where s²/m alone is too small by v/n.
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

    lower, upper: ends of the confidence interval, in [0, 1].
    value: unbiased estimate, which may lie outside [0, 1]; None if the labels leave a range of accuracies.
    identified: whether more labels of the same law would narrow the interval to a point.
    labels: how many released labels it rests on. confidence: of the interval. basis: how it was found.
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
    """An estimate of a bound on the accuracy, less (or plus) its largest bias, and its variance."""

    value: float
    variance: float

    def moved(self, quantile: float) -> float:
        """The end of a normal interval: so many standard deviations above, or below if negative."""
        return self.value + quantile * float(np.sqrt(max(self.variance, 0.0)))

    def unbiased_estimate(self, quantile: float, labels: int, confidence: float, basis: str) -> AccuracyEstimate:
        """The estimate whose value has no bias, and whose interval therefore reaches equally far to both sides."""
        low, high = _within_0_and_1(self.moved(-quantile)), _within_0_and_1(self.moved(quantile))
        return AccuracyEstimate(
            low, high, self.value, identified=True, labels=labels, confidence=confidence, basis=basis
        )


def validated(
    predictions: NDArray[np.integer],
    evidence: Evidence,
    cluster_offsets: NDArray[np.int64],
    confidence: float = 0.95,
) -> AccuracyEstimate:
    """The accuracy of predictions among the users, with a normal confidence interval.

    Of labels of their users it is the accuracy among users whose labels were released; of labels of clusters, that
    among all users of the clusters.

    Args:
        predictions: (n,) predicted classes of all users, in 0..K-1. evidence: of the released labels.
        cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1. Only cluster labels need it.
        confidence: of the interval, between 0 and 1; a normal approximation, tried with some hundred labels.

    Raises:
        InputError: no label was released, or an argument is out of its range.
    """
    _check(predictions, evidence, cluster_offsets, confidence)
    if evidence.source == "cluster":
        return _of_clusters(predictions, evidence, cluster_offsets, confidence)
    return _of_users(predictions, evidence, cluster_offsets, confidence)


def _check(
    predictions: NDArray[np.integer], evidence: Evidence, cluster_offsets: NDArray[np.int64], confidence: float
) -> None:
    k = evidence.num_classes
    if not len(evidence.user):
        raise InputError("validation: no label was released; at least one is needed")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence = {confidence:g}: must be above 0 and below 1")
    if predictions.shape != (int(cluster_offsets[-1]),):
        raise InputError(f"predictions: have shape {predictions.shape}, must be ({cluster_offsets[-1]},), one per user")
    if not 0 <= int(predictions.min()) <= int(predictions.max()) < k:
        raise InputError(f"predictions: must lie in 0..{k - 1}, found {predictions.min()} to {predictions.max()}")


def _quantile(error: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(1.0 - error))


def _within_0_and_1(end: float) -> float:
    return float(np.clip(end, 0.0, 1.0))


def _of_users(
    predictions: NDArray[np.integer], evidence: Evidence, cluster_offsets: NDArray[np.int64], confidence: float
) -> AccuracyEstimate:
    m, quantile = len(evidence.user), _quantile((1.0 - confidence) / 2.0)
    predicted, every = predictions[evidence.user], np.arange(m)
    low = evidence.weights[every, predicted]
    if evidence.upper is None and evidence.drift is None:
        bound = _Bound(float(low.mean()), float((low**2 - low).sum()) / m**2)
        return bound.unbiased_estimate(quantile, m, confidence, "own labels: unbiased, normal interval")
    # w bounds the indicator of a right prediction from below and above, up to the clusters' common errors
    high = low if evidence.upper is None else evidence.upper[every, predicted]
    drift = _drift(evidence, np.bincount(_cluster(evidence, cluster_offsets), minlength=_count(cluster_offsets)))
    lower = _Bound(float(low.mean()) - drift.value, low.var() / max(m - 1, 1) + drift.variance)
    upper = _Bound(float(high.mean()) + drift.value, high.var() / max(m - 1, 1) + drift.variance)
    return AccuracyEstimate(
        _within_0_and_1(lower.moved(-quantile)), _within_0_and_1(upper.moved(quantile)), value=None, identified=False,
        labels=m, confidence=confidence, basis="own labels: bounds, normal intervals",
    )  # fmt: skip


def _cluster(evidence: Evidence, cluster_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.searchsorted(cluster_offsets, evidence.user, side="right") - 1


def _count(cluster_offsets: NDArray[np.int64]) -> int:
    return len(cluster_offsets) - 1


def _drift(evidence: Evidence, users: NDArray[np.integer]) -> _Bound:
    """A bound on what the clusters' common errors add to the accuracy, with its variance; `users`: (C,) of each
    cluster.
    """
    if evidence.drift is None:
        return _Bound(0.0, 0.0)
    share, used = users / users.sum(), users > 0
    mean, variance = evidence.drift.mean[used], evidence.drift.variance[used]
    return _Bound(float(share[used] @ mean), float(share[used] ** 2 @ variance))


@dataclass(frozen=True, eq=False)
class _Shares:
    """What is known of clusters: estimated shares of true labels, their variances, and shares of predicted ones.

    weight: (C,) share of the users. true, variance, predicted: (C, K). released: (C,) whether any of its labels was.
    """

    weight: Floats
    true: Floats
    variance: Floats
    predicted: Floats
    released: NDArray[np.bool_]

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Whether the predictor gives all users of a cluster the same class, (C,)."""
        return np.asarray(self.predicted.max(axis=1) > 1.0 - 1e-12)

    def linear(self, side: float) -> _Bound:
        """The bound from each cluster's majority prediction; side: -1 for the lower one, 1 for the upper one."""
        most, each = self.predicted.argmax(axis=1), np.arange(len(self.weight))
        share = self.predicted[each, most]
        used = self.released & (share > 0.5)
        value = np.where(used, self.true[each, most] + side * (1.0 - share), 0.5 + 0.5 * side)
        return _Bound(float(self.weight @ value), float((self.weight**2 * self.variance[each, most])[used].sum()))

    def frechet(self, side: float) -> _Bound:
        """The Fréchet bound with its largest bias; in clusters with one prediction it has none."""
        p, q, w = self.true, self.predicted, self.weight
        value = 1.0 - 0.5 * np.abs(p - q).sum(axis=1) if side > 0 else np.maximum((p + q - 1.0).max(axis=1), 0.0)
        spread = p.shape[1] / 4.0 * self.variance.sum(axis=1)
        constant = self.constant
        value = np.where(constant, (p * q).sum(axis=1), value)
        spread = np.where(constant, (self.variance * q).sum(axis=1), spread)
        value = np.where(self.released, value, 0.5 + 0.5 * side)
        spread = np.where(self.released, spread, 0.0)
        mixed = self.released & ~constant
        bias = float(np.sqrt(w[mixed].sum() * max(float(w[mixed] @ spread[mixed]), 0.0)))
        return _Bound(float(w @ value) + side * bias, float(w**2 @ spread))

    def pooled(self) -> "_Shares":
        """Clusters with the same majority prediction as one: which these are depends on predictions alone."""
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
    k, count = evidence.num_classes, _count(cluster_offsets)
    sizes, cluster = np.diff(cluster_offsets), _cluster(evidence, cluster_offsets)
    m = np.bincount(cluster, minlength=count)[:, None].astype(np.float64)
    total = np.stack([np.bincount(cluster, w, count) for w in evidence.weights.T], axis=1)
    squares = np.stack([np.bincount(cluster, w**2, count) for w in evidence.weights.T], axis=1)
    # variance of a cluster's mean weight: of the noise on each label, and of which users' labels were released
    n, some = sizes[:, None], np.maximum(m, 1.0)
    own = (squares - total) / some
    several = (squares - np.where(m > 1, total**2 / some, 0.0)) / np.maximum(m - 1, 1.0) / some
    if evidence.drift is not None:
        variance = several
    elif evidence.repeated:
        variance = several + own / n
    else:
        variance = np.where(m == n, own / some, several)
    home = np.repeat(np.arange(count), sizes)
    predicted = np.bincount(home * k + predictions, minlength=count * k).reshape(count, k) / n
    return _Shares(np.asarray(sizes / sizes.sum()), total / some, variance, predicted, m[:, 0] > 0)


def _of_clusters(
    predictions: NDArray[np.integer], evidence: Evidence, cluster_offsets: NDArray[np.int64], confidence: float
) -> AccuracyEstimate:
    shares, m = _shares(predictions, evidence, cluster_offsets), len(evidence.user)
    drift = _drift(evidence, np.diff(cluster_offsets))
    if shares.released.all() and shares.constant.all() and evidence.drift is None:
        basis = "cluster labels: one prediction in each cluster, unbiased, normal interval"
        return shares.linear(1.0).unbiased_estimate(_quantile((1.0 - confidence) / 2.0), m, confidence, basis)
    # three bounds to each side, each at a third of the error: the tightest holds together with the others
    quantile, pooled = _quantile((1.0 - confidence) / 6.0), shares.pooled()
    low, high = (
        [
            _Bound(bound.value + side * drift.value, bound.variance + drift.variance).moved(side * quantile)
            for bound in (shares.linear(side), shares.frechet(side), pooled.frechet(side))
        ]
        for side in (-1.0, 1.0)
    )
    return AccuracyEstimate(
        _within_0_and_1(max(low)), _within_0_and_1(min(high)), value=None, identified=False, labels=m,
        confidence=confidence, basis="cluster labels: Fréchet bounds, normal intervals",
    )  # fmt: skip
