"""A learner that uses features and clusters. It learns one global model from the features, and then changes the model's
predictions so that their mean over each cluster equals smoothed class shares of the cluster.
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
"""L2 penalties among which the learner chooses that of the global model's coefficients."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, math.inf)
"""The values of s among which the learner chooses. When a cluster's class shares are computed, the global model's mean
prediction over the cluster counts as much as s labels of the cluster. If s is infinite, the labels of the cluster do
not count."""


def ratios(predicted: Floats, offsets: NDArray[np.int64], shares: Floats) -> Floats:
    """Factors (C, K), one for each cluster and class, which move the predictions of each cluster to given class shares.
    They are found by up to 200 rounds of scaling.

    A user's K predicted probabilities, times the factors of her cluster and divided by their sum, are her new
    distribution. The mean of these new distributions over a cluster's users equals the cluster's shares, to within 1e-7
    if the rounds converge.

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
    """The distributions (n, K) that are proportional to predictions (n, K) times factors (n, K). Predictions below
    1e-12 count as 1e-12.
    """
    product = np.maximum(predicted, 1e-12) * factors
    return np.asarray(product / product.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Some or all of the released labels, with each cluster's class shares as estimated from these labels alone.

    received: what the learner has, with these labels only. law: the public probabilities of these labels given the true
    ones. observed: the labels with their likelihoods. shares: (C, K) class shares, estimated from the labels and
    corrected for their noise. count: (C,) number of these labels in each cluster.
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
        """A part of the m released labels of this object, as an object of the same kind: the chosen labels, the law of
        their noise, and the class shares of each cluster, estimated from these labels alone.

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
        own, these are the users under whose names labels arrived. If each is the label of a random user of the cluster,
        these are all users of every cluster from which a label arrived.
        """
        if self.law.source == "user":
            return self.received.release.user.astype(np.intp)
        return np.flatnonzero(np.repeat(self.count > 0, np.diff(self.received.cluster_offsets)))

    def factors(self, predicted: Floats, strength: float) -> Floats:
        """Factors (n, K) for the predictions of n users; all users of a cluster have the same K factors. Predictions
        times factors, scaled to sum 1, have the mean (m q + s g)/(m + s) over the cluster, to within 1e-7 if the
        scaling converges. Here m is the number of the cluster's released labels, q are the class shares estimated from
        them, and g is the mean prediction over the cluster.

        Args:
            predicted: (n, K) class probabilities that the global model predicts for all users. strength: s; g counts as
            much as s labels. If s is infinite, labels do not count and all factors are 1.
        """
        if math.isinf(strength):
            return np.ones(predicted.shape)
        offsets, count = self.received.cluster_offsets, self.count[:, None]
        means = np.add.reduceat(predicted, offsets[:-1]) / np.diff(offsets)[:, None]
        smoothed = (count * self.shares + strength * means) / (count + strength)
        return np.repeat(ratios(predicted, offsets, smoothed), np.diff(offsets), axis=0)


class ClusterAndFeaturesConfig(Learner):
    """A global model's p(y|x) times a factor for each cluster and class. The factors move each cluster's mean
    prediction to its smoothed class shares.

    The global model is `forward_correction`. A cluster's smoothed share of a class is (m q + s g) / (m + s). Here q is
    the share estimated from the cluster's m released labels and corrected for their noise, and g is the global model's
    mean prediction over the cluster's users. A new row belongs to the cluster of the nearest user. The penalty of the
    global model is chosen so that models learned from half of the clusters predict the released labels of the other
    half best. The number s is chosen so that half of the released labels predict the other half best. True labels are
    not looked at.
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
        """The predictor that is learned from released hard labels. First a global logistic regression on the features
        is learned. Then its predictions are multiplied by a factor for each cluster and class, so that their mean over
        a cluster's users becomes a weighted mean of two distributions: the class shares estimated from the cluster's
        labels, and the mean prediction of the global model.

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
        a cross-validation. A model learned from half of the clusters is judged by the likelihood of the released labels
        of the other half; then the halves change their roles. If several penalties are equally good, the largest is
        chosen. No true label is used.

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
        """The number s, which is 1, 3, 10, 30, 100, 300, 1000 or infinity. When the global model's mean prediction over
        a cluster is averaged with the cluster's released labels, this prediction counts as much as s labels. The model
        and the cluster shares are learned from every second released label, and s is chosen so that the other labels
        have the largest likelihood. If several s are equally good, the largest is chosen.

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
        """The global model, which predicts from features without clusters (forward correction). It is a logistic
        regression with an L2 penalty. Its predictions, passed through the public noise on labels, give the released
        labels the largest penalised likelihood.

        Args:
            evidence: released labels with their likelihoods. penalty: weight of the L2 penalty on coefficients.
        """
        forward = ForwardCorrectionConfig(l2=penalty, max_iterations=self.max_iterations)
        return forward.fitted(evidence.observed, evidence.shares.shape[1])


@dataclass(frozen=True)
class _Moved:
    """A predictor: a model's probabilities times the class factors of the nearest user, scaled to sum 1.

    users: (n, d) features of all users. factors: (n, K) factor of each user and class, the same for all users of a
    cluster.
    """

    model: Predictor
    users: NDArray[np.floating]
    factors: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        from sklearn.metrics import pairwise_distances_argmin

        nearest = pairwise_distances_argmin(features, self.users)
        return _scaled(self.model.probabilities(features), self.factors[nearest])
