"""A learner that combines features and clusters: a global model whose predictions are moved to the class shares of each
cluster.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.learner import Floats, Learner, Received
from p2p_sim.learning.logistic_regression import SoftLogisticRegressionConfig
from p2p_sim.learning.noise_correction import ForwardCorrectionConfig, Observed
from p2p_sim.mechanisms import LabelRelease, NoiseLaw, Predictor, cluster_shares

PENALTIES = (1.0, 10.0, 100.0, 1000.0)
"""Penalties on the global model's coefficients among which the learner chooses."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, math.inf)
"""The numbers s among which the learner chooses. In a cluster's class shares the global model's mean prediction counts
like s labels.

If s is infinite, the labels of the cluster do not count."""


def ratios(predicted: Floats, offsets: NDArray[np.int64], shares: Floats) -> Floats:
    """Factors (C, K) that move predictions to given class shares of each cluster, found by up to 200 rounds of scaling.

    A user's prediction times her cluster's factors, divided by its sum, is her new distribution. The mean of these new
    distributions over a cluster's users equals the cluster's shares, to within 1e-7 if the rounds converge.

    Args:
        predicted: (n, K) positive distributions of the users, stored cluster by cluster; no cluster is empty. offsets:
        (C+1,) first user of each cluster, and n at the end. shares: (C, K) class shares of each cluster, which sum to
        1.
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
    """The distributions (n, K) that are proportional to predictions (n, K) times factors (n, K)."""
    product = np.maximum(predicted, 1e-12) * factors
    return np.asarray(product / product.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Released labels, all or some of them, with class shares estimated from them for each cluster.

    received: what the learner has. law: the public noise law of these labels. observed: the labels with their
    likelihoods. shares: (C, K) class shares, estimated from the labels and corrected for their noise. count: (C,)
    number of these labels in each cluster.
    """

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
        """The same for a part of the m released labels: these labels, their noise law, and the class shares estimated
        from them alone.

        Args:
            chosen: (m,) whether each label belongs to the part.
        """
        release, law = self.received.release, self.law
        fewer = LabelRelease(release.user[chosen], release.payload[chosen], release.kind)
        groups = None if law.group is None else law.group[chosen]
        return _Evidence.of(replace(self.received, release=fewer), replace(law, group=groups))

    @property
    def users(self) -> NDArray[np.intp]:
        """The numbers of the users whose labels may be among the released ones. If each released label is the user's
        own, these are the users under whose names labels arrived. If it is the label of a random user of her cluster,
        these are all users of every cluster from which a label arrived.
        """
        if self.law.source == "user":
            return self.received.release.user.astype(np.intp)
        return np.flatnonzero(np.repeat(self.count > 0, np.diff(self.received.cluster_offsets)))

    def factors(self, predicted: Floats, strength: float) -> Floats:
        """Factors (n, K) for the predictions of n users, the same for all users of a cluster. Predictions times
        factors, scaled to sum 1, have the mean (m q + s g)/(m + s) over the cluster, to within 1e-7 if the scaling
        converges. Here q are the class shares estimated from the cluster's m released labels, and g is the mean
        prediction over the cluster.

        Args:
            predicted: (n, K) class probabilities that the global model predicts for all users. strength: s, the number
            of labels as which g counts; if it is infinite, labels do not count and all factors are 1.
        """
        if math.isinf(strength):
            return np.ones(predicted.shape)
        offsets, count = self.received.cluster_offsets, self.count[:, None]
        means = np.add.reduceat(predicted, offsets[:-1]) / np.diff(offsets)[:, None]
        smoothed = (count * self.shares + strength * means) / (count + strength)
        return np.repeat(ratios(predicted, offsets, smoothed), np.diff(offsets), axis=0)


class ClusterAndFeaturesConfig(Learner):
    """A global model's p(y|x) times a factor for each cluster and class, which moves each cluster to its smoothed
    shares.

    The global model is `forward_correction`. A cluster's smoothed share of a class is (m q + s g) / (m + s). Here q is
    the share estimated from the cluster's m released labels and corrected for their noise, and g is the global model's
    mean prediction over the cluster's users. A new row belongs to the cluster of the nearest user. The penalty of the
    global model is chosen so that half of the clusters predict the released labels of the other half best. The number s
    is chosen likewise, with half of the labels. True labels are not looked at.
    """

    kind: Literal["cluster_and_features"] = "cluster_and_features"
    uses_noise_law: ClassVar[bool] = True
    max_iterations: int = Field(default=1000, ge=1)
    """Largest number of L-BFGS iterations of a global model, at least 1."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """A logistic regression without clusters, as a comparison without privacy.

        Args:
            features: (m, d) features of m labels. weights: (m, K) weights of the K classes in each label; a hard label
            has weight 1 for its class and 0 for the others.
        """
        return SoftLogisticRegressionConfig(max_iterations=self.max_iterations).fit(features, weights)

    def learn(self, received: Received) -> Predictor:
        """The predictor learned from released hard labels, as the class describes.

        Args:
            received: the hard labels that arrived, the public probabilities of each released label given the true one,
            the features of all users, and their clusters.

        Raises:
            InputError: these probabilities are not public.
        """
        whole = _Evidence.of(received, received.law(self.kind))
        penalty = self._penalty(whole)
        model = self._model(whole, penalty)
        factors = whole.factors(model.probabilities(received.features), self._strength(whole, penalty))
        return _Moved(model, received.features, factors)

    def _penalty(self, whole: _Evidence) -> float:
        """The L2 penalty on the global model's coefficients, 1, 10, 100 or 1000, that fits the released labels best in
        a cross-validation: a model learned from half of the clusters is judged by the likelihood of the released labels
        of the other half, and the reverse. If several are equally good, it is the largest of them. No true label is
        used.

        Args:
            whole: all released labels, with the law of their noise.
        """
        even = whole.received.cluster % 2 == 0
        halves = whole.part(even), whole.part(~even)

        def loss(penalty: float) -> float:
            return sum(
                held.observed.loss(self._model(learned, penalty).probabilities(held.observed.features))[0]
                for learned, held in (halves, halves[::-1])
            )

        return min(PENALTIES[::-1], key=loss)

    def _strength(self, whole: _Evidence, penalty: float) -> float:
        """The number s (1, 3, 10, 30, 100, 300, 1000 or infinity) of labels as which the global model's mean prediction
        counts beside a cluster's released labels. Model and cluster shares are learned from every second released
        label; s is chosen so that the other labels have the largest likelihood. If several s are equally good, it is
        the largest of them.

        Args:
            whole: all released labels, with the law of their noise. penalty: L2 penalty on the global model's
            coefficients.
        """
        first = np.arange(len(whole.received.release)) % 2 == 0
        learned, held = whole.part(first), whole.part(~first)
        predicted = self._model(learned, penalty).probabilities(whole.received.features)

        def loss(strength: float) -> float:
            return held.observed.loss(_scaled(predicted, learned.factors(predicted, strength))[held.users])[0]

        return min(STRENGTHS[::-1], key=loss)

    def _model(self, evidence: _Evidence, penalty: float) -> Predictor:
        """The global model, which uses features but no clusters (forward correction). It is the logistic regression
        with an L2 penalty whose predictions, passed through the public noise on labels, give the released labels the
        largest likelihood.

        Args:
            evidence: released labels with their likelihoods. penalty: weight of the L2 penalty on coefficients.
        """
        forward = ForwardCorrectionConfig(l2=penalty, max_iterations=self.max_iterations)
        return forward.fitted(evidence.observed, evidence.shares.shape[1])


@dataclass(frozen=True)
class _Moved:
    """A predictor: a model's probabilities times the class factors of the nearest user, scaled to sum 1.

    users: (n, d) features of all users. factors: (n, K), the same for all users of a cluster.
    """

    model: Predictor
    users: NDArray[np.floating]
    factors: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        from sklearn.metrics import pairwise_distances_argmin

        nearest = pairwise_distances_argmin(features, self.users)
        return _scaled(self.model.probabilities(features), self.factors[nearest])
