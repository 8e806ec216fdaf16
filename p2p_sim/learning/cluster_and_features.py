"""A learner that uses features and clusters. First it learns one global model from the features. Then it changes the
predictions, so that the mean over each cluster becomes the cluster's smoothed class shares.
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
"""The learner chooses the L2 penalty on the global model's coefficients from these values."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, math.inf)
"""The learner chooses the number s from these values. In a cluster's class shares, the global model's mean prediction
over the cluster counts as much as s labels. If s is infinite, the labels of the cluster do not count."""


def ratios(predicted: Floats, offsets: NDArray[np.int64], shares: Floats) -> Floats:
    """Factors (C, K), one for each cluster and class, that move each cluster's predictions to given class shares. The
    factors are found by up to 200 rounds of scaling.

    A user's K predicted probabilities are multiplied by the factors of her cluster and divided by their sum. The mean
    of the results over a cluster equals the cluster's shares, to within 1e-7 if the rounds converge.

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
    """The distributions (n, K) proportional to predictions times factors, both (n, K). Predictions below 1e-12 count as
    1e-12.
    """
    product = np.maximum(predicted, 1e-12) * factors
    return np.asarray(product / product.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Some or all of the released labels, with the class shares of each cluster that are estimated from these labels
    alone.

    received: what the learner has, with these labels only. law: the public probabilities of these labels given the true
    labels. observed: the labels with their likelihoods. shares: (C, K) estimated class shares, corrected for the
    labels' noise. count: (C,) number of these labels in each cluster.
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
        """The labels chosen by a mask (m,), with the class shares of each cluster that are estimated from these labels
        alone.
        """
        release, law = self.received.release, self.law
        fewer = LabelRelease(release.user[chosen], release.payload[chosen], release.kind)
        groups = None if law.group is None else law.group[chosen]
        return _Evidence.of(replace(self.received, release=fewer), replace(law, group=groups))

    @property
    def users(self) -> NDArray[np.intp]:
        """The indices of the users who may be the owners of released labels. If users release their own labels, these
        are the users under whose names labels arrived. Otherwise a released label belongs to a random user of the
        cluster. Then these are all users of every cluster from which a label arrived.
        """
        if self.law.source == "user":
            return self.received.release.user.astype(np.intp)
        return np.flatnonzero(np.repeat(self.count > 0, np.diff(self.received.cluster_offsets)))

    def factors(self, predicted: Floats, strength: float) -> Floats:
        """Factors (n, K) for the predictions of n users. All users of a cluster have the same K factors. The scaled
        predictions have the mean (m q + s g)/(m + s) over a cluster, to within 1e-7 if the scaling converges. Here m is
        the number of labels from the cluster. q are the class shares estimated from these labels. g is the mean
        prediction over the cluster.

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

    The global model is `forward_correction`. A cluster's smoothed share of a class is (m q + s g) / (m + s). Here m
    labels are released from the cluster, and q is their share of the class, corrected for noise. g is the global
    model's mean prediction over the cluster's users. A new row belongs to the cluster of the nearest user. The global
    model's penalty is chosen by cross-validation on released labels, between two halves of the clusters. The number s
    is chosen by how well half of the released labels predict the other half. True labels are not looked at.
    """

    kind: Literal["cluster_and_features"] = "cluster_and_features"
    uses_noise_law: ClassVar[bool] = True
    max_iterations: int = Field(default=1000, ge=1)
    """Largest number of L-BFGS iterations of a global model, at least 1."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """A logistic regression without clusters, as a comparison without privacy.

        Args:
            features: (m, d) features of m labels. weights: (m, K) weights of the K classes in each label; a hard label
            (a class) has weight 1 for its class and 0 for the others.
        """
        return SoftLogisticRegressionConfig(max_iterations=self.max_iterations).fit(features, weights)

    def learn(self, received: Received) -> Predictor:
        """The predictor that is learned from released hard labels: a global model on the features, times a factor for
        each cluster and class.

        Args:
            received: hard labels that arrived, and the public probabilities of each released label given the true
            label. It also has the features and clusters of all users.

        Raises:
            InputError: these probabilities are not public.
        """
        whole = _Evidence.of(received, received.law(self.kind))
        penalty = self._penalty(whole)
        model = self._model(whole, penalty)
        factors = whole.factors(model.probabilities(received.features), self._strength(whole, penalty))
        return _Moved(model, received.features, factors)

    def _penalty(self, whole: _Evidence) -> float:
        """The best L2 penalty on the global model's coefficients: 1, 10, 100 or 1000. A model learned from half of the
        clusters is judged by the likelihood of the released labels in the other half. Then the halves change their
        roles. If several penalties are equally good, the largest is chosen. No true label is used.
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
        """The best number s: 1, 3, 10, 30, 100, 300, 1000 or infinity. The global model's mean prediction over a
        cluster counts as much as s labels of the cluster. Model and cluster shares are learned from every second
        released label. They are judged by the likelihood of the other labels. If several s are equally good, the
        largest is chosen.
        """
        first = np.arange(len(whole.received.release)) % 2 == 0
        learned, held = whole.part(first), whole.part(~first)
        predicted = self._model(learned, penalty).probabilities(whole.received.features)

        def loss(strength: float) -> float:
            return held.observed.loss(_scaled(predicted, learned.factors(predicted, strength))[held.users])[0]

        return min(STRENGTHS[::-1], key=loss)

    def _model(self, evidence: _Evidence, penalty: float) -> Predictor:
        """The global model, a logistic regression on the features with an L2 penalty (forward correction). Given the
        public noise, its coefficients give the released labels the largest penalised likelihood.
        """
        forward = ForwardCorrectionConfig(l2=penalty, max_iterations=self.max_iterations)
        return forward.fitted(evidence.observed, evidence.shares.shape[1])


@dataclass(frozen=True)
class _Moved:
    """A predictor: a model's probabilities times the class factors of the nearest user, scaled to sum 1.

    users: (n, d) features of all users. factors: (n, K) factor of each user and class; users of a cluster have equal
    factors.
    """

    model: Predictor
    users: NDArray[np.floating]
    factors: Floats

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        from sklearn.metrics import pairwise_distances_argmin

        nearest = pairwise_distances_argmin(features, self.users)
        return _scaled(self.model.probabilities(features), self.factors[nearest])
