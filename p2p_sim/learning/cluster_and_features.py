"""What clusters say combined with what features say: a global model, moved to each cluster's smoothed shares."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.learner import Learner, Received
from p2p_sim.learning.logistic_regression import SoftLogisticRegressionConfig
from p2p_sim.learning.noise_correction import ForwardCorrectionConfig, Observed
from p2p_sim.mechanisms import LabelRelease, NoiseLaw, Predictor, cluster_shares

Floats = NDArray[np.float64]
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
"""Penalties of the global model to choose from."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, math.inf)
"""Numbers of labels to choose from that the global model's mean prediction counts as; infinite: it alone counts."""


def ratios(predicted: Floats, offsets: NDArray[np.int64], shares: Floats) -> Floats:
    """(C, K) factors of the classes with which the mean prediction over each cluster's users becomes its shares.

    Args:
        predicted: (n, K) positive distributions of the users, cluster by cluster; no cluster is empty.
        offsets: (C+1,). shares: (C, K) distributions.
    """
    sizes = np.diff(offsets)
    factors = np.ones(shares.shape)
    for _ in range(200):
        means = np.add.reduceat(_scaled(predicted, np.repeat(factors, sizes, axis=0)), offsets[:-1]) / sizes[:, None]
        if np.abs(means - shares).max() < 1e-7:
            break
        factors *= shares / np.maximum(means, 1e-300)
        factors /= factors.max(axis=1, keepdims=True)
    return factors


def _scaled(predicted: Floats, factors: Floats) -> Floats:
    product = np.maximum(predicted, 1e-12) * factors
    return np.asarray(product / product.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Evidence:
    """A release, or a part of it, and what it says of the clusters: shares (C, K) from count (C,) labels."""

    received: Received
    law: NoiseLaw
    observed: Observed
    shares: Floats
    count: NDArray[np.int64]

    @classmethod
    def of(cls, received: Received, law: NoiseLaw) -> Self:
        labels, clusters = received.release.payload.astype(np.int64), len(received.cluster_offsets) - 1
        return cls(received, law, Observed.of(received, law), *cluster_shares(law, labels, received.cluster, clusters))

    def part(self, chosen: NDArray[np.bool_]) -> "_Evidence":
        """The evidence of a part of the released labels: those (m,) that are chosen."""
        release, law = self.received.release, self.law
        law = replace(law, group=None if law.group is None else law.group[chosen])
        fewer = LabelRelease(release.user[chosen], release.payload[chosen], release.kind)
        return _Evidence.of(replace(self.received, release=fewer), law)

    @property
    def users(self) -> NDArray[np.intp]:
        """The users of all bags: those under whose names labels were released, or all of their clusters."""
        if self.law.source == "user":
            return self.received.release.user.astype(np.intp)
        return np.flatnonzero(np.repeat(self.count > 0, np.diff(self.received.cluster_offsets)))

    def factors(self, predicted: Floats, strength: float) -> Floats:
        """(C, K) factors that move predictions (n, K) of all users to each cluster's smoothed shares."""
        offsets, count = self.received.cluster_offsets, self.count[:, None]
        means = np.add.reduceat(predicted, offsets[:-1]) / np.diff(offsets)[:, None]
        if math.isinf(strength):
            return np.ones(means.shape)
        return ratios(predicted, offsets, (count * self.shares + strength * means) / (count + strength))


class _Regularisation(NamedTuple):
    """The global model's penalty on coefficients, and the number of labels its mean prediction counts as."""

    penalty: float
    strength: float


class ClusterAndFeaturesConfig(Learner):
    """p(y|x) of a global model times a factor of cluster and class, with which clusters have their smoothed shares.

    The global model is `forward_correction`. A cluster's share of a class is (m q + s g) / (m + s): q is estimated from
    its m released labels without their noise, g is the global model's mean over its users. A new row belongs to the
    nearest user's cluster. The global model's penalty is the one with which half of the clusters predict the released
    labels of the other half best; s likewise with half of the labels. True labels are not looked at.
    """

    kind: Literal["cluster_and_features"] = "cluster_and_features"
    uses_noise_law: ClassVar[bool] = True
    max_iterations: int = Field(default=1000, ge=1)
    """Most L-BFGS iterations of a global model, at least 1."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """Logistic regression on weights (m, K), without clusters."""
        return SoftLogisticRegressionConfig(max_iterations=self.max_iterations).fit(features, weights)

    def learn(self, received: Received) -> Predictor:
        """Learn from a release of hard labels whose noise law is public."""
        whole = _Evidence.of(received, received.law(self.kind))
        penalty, strength = self._chosen(whole)
        model = self._model(whole, penalty)
        factors = whole.factors(model.probabilities(received.features), strength)
        return _Moved(model, received.features, np.repeat(factors, np.diff(received.cluster_offsets), axis=0))

    def _chosen(self, whole: _Evidence) -> _Regularisation:
        """Penalty and strength with which a part of the released labels predicts the rest best; of ties the largest."""
        release, features = whole.received.release, whole.received.features
        # penalty: models of the even clusters' labels make the odd clusters' labels likely, and the reverse
        even = whole.received.cluster % 2 == 0
        halves = whole.part(even), whole.part(~even)
        losses = [
            sum(
                held.observed.loss(self._model(learned, penalty).probabilities(held.observed.features))[0]
                for learned, held in (halves, halves[::-1])
            )
            for penalty in PENALTIES
        ]
        penalty = min(zip(losses, (-penalty for penalty in PENALTIES), strict=True))[1] * -1.0
        # strength: shares smoothed by it, of every second label, make the other labels likely
        first = np.arange(len(release)) % 2 == 0
        learned, held = whole.part(first), whole.part(~first)
        predicted = self._model(learned, penalty).probabilities(features)
        sizes = np.diff(whole.received.cluster_offsets)
        moved = (np.repeat(learned.factors(predicted, s), sizes, axis=0) for s in STRENGTHS)
        losses = [held.observed.loss(_scaled(predicted, factors)[held.users])[0] for factors in moved]
        strength = min(zip(losses, (-strength for strength in STRENGTHS), strict=True))[1] * -1.0
        return _Regularisation(penalty, strength)

    def _model(self, evidence: _Evidence, penalty: float) -> Predictor:
        forward = ForwardCorrectionConfig(l2=penalty, max_iterations=self.max_iterations)
        return forward.fitted(evidence.observed, evidence.shares.shape[1])


@dataclass(frozen=True)
class _Moved:
    """A predictor: a model's probabilities times the class factors (n, K) of the nearest user's cluster.

    features: (n, d) of all users, among whom the nearest is looked for.
    """

    model: Predictor
    users: NDArray[np.floating]
    factors: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        from sklearn.metrics import pairwise_distances_argmin

        nearest = pairwise_distances_argmin(features, self.users)
        return _scaled(self.model.probabilities(features), self.factors[nearest])
