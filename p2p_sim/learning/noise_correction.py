"""Learners that know the public law of the labels' noise: backward and forward correction, label proportions."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.learner import Learner, Received
from p2p_sim.learning.logistic_regression import LinearSoftmax, SoftLogisticRegressionConfig
from p2p_sim.mechanisms import NoiseLaw, Predictor, ReleaseKind

UNBIASED: tuple[ReleaseKind, ...] = ("hard", "signed")
"""Kinds of labels that can be weights whose mean is the true label's indicator."""


class UnbiasedLearner(Learner):
    """The base of learners that use weights whose mean, under each true label, is that label's indicator."""

    uses_noise_law: ClassVar[bool] = True
    accepts: ClassVar[tuple[ReleaseKind, ...]] = UNBIASED

    def learn(self, received: Received) -> Predictor:
        """Hard labels get rows of the inverse of their noise law; the mechanism has already done this for signed ones.

        Raises:
            InputError: the labels are of another kind, their law is not public, or has no inverse.
        """
        if received.release.kind == "signed":
            return self.fit(received.rows, received.weights)
        labels = received.release.payload.astype(np.int64)
        return self.fit(received.rows, received.law(self.kind).weights(labels))


class FittedToLabels(Learner):
    """The base of logistic regressions that know the noise; on true labels they are plain logistic regression."""

    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |W|²/2 against the sum of the losses, intercepts left out where they can be; above 0."""
    max_iterations: int = Field(default=1000, ge=1)
    """Most L-BFGS iterations, at least 1."""

    def fit(self, features: NDArray[np.floating], weights: NDArray[np.float64]) -> Predictor:
        """Logistic regression on weights (m, K) with the same penalty."""
        return SoftLogisticRegressionConfig(l2=self.l2, max_iterations=self.max_iterations).fit(features, weights)


class BackwardCorrectionConfig(UnbiasedLearner, FittedToLabels):
    """Logistic regression with the loss T⁻¹ℓ, whose mean over the noise is the loss of the true labels.

    This is the backward correction of Patrini et al. (CVPR 2017). A label's weights are a row of T⁻¹ and sum to one, so
    that the loss is convex. Labels of a cluster, as in the exchange, count for the user under whose name they are
    released: this undoes the flips, not the mixing. A noise law without an inverse is refused.
    """

    kind: Literal["backward_correction"] = "backward_correction"


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Observed:
    """Released labels, by the bag of users of whom one had the true label.

    A bag is a user, or a cluster; its true label has the mean of its users' predicted distributions.

    features: (n, d) of the users of all bags, bag by bag. starts: (B,) where each bag begins; none is empty.
    bag: (m,) the bag of each observation. likelihood: (m, K) of what was released, under each true label.
    count: (m,) how often it was released.
    """

    features: NDArray[np.floating]
    starts: NDArray[np.int64]
    bag: NDArray[np.int64]
    likelihood: Floats
    count: Floats

    @staticmethod
    def of(received: Received, law: NoiseLaw) -> "Observed":
        """The bags of a release of hard labels whose law is known."""
        labels = received.release.payload.astype(np.int64)
        rows = np.arange(len(labels))
        if law.source == "user":
            return Observed(received.rows, rows, rows, law.likelihoods(labels), np.ones(len(labels)))
        group, kinds = law.groups(len(labels)), len(law.transition)
        cells = (received.cluster * kinds + group) * law.num_classes + labels
        cell, count = np.unique(cells, return_counts=True)
        clusters, bag = np.unique(cell // (kinds * law.num_classes), return_inverse=True)
        offsets = received.cluster_offsets
        members = [np.arange(offsets[c], offsets[c + 1]) for c in clusters]
        sizes = [len(users_of_bag) for users_of_bag in members]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.zeros(0, np.int64)
        likelihood = law.transition[cell // law.num_classes % kinds, :, cell % law.num_classes]
        users = np.concatenate([np.zeros(0, np.int64), *members])
        return Observed(received.features[users], starts, bag.ravel(), likelihood, count.astype(np.float64))

    def loss(self, distribution: Floats) -> tuple[float, Floats]:
        """-log likelihood, and its derivative (n, K), at the users' predicted distributions (n, K)."""
        sizes = np.diff(np.append(self.starts, len(distribution)))
        single = len(self.starts) == len(distribution)
        mean = distribution if single else np.add.reduceat(distribution, self.starts, axis=0) / sizes[:, None]
        probability = np.maximum((mean[self.bag] * self.likelihood).sum(axis=1), 1e-300)
        value = -float(self.count @ np.log(probability))
        each = -(self.count / probability)[:, None] * self.likelihood
        slope: Floats = np.stack([np.bincount(self.bag, column, len(self.starts)) for column in each.T], axis=1)
        if not single:
            slope = np.asarray(np.repeat(slope / sizes[:, None], sizes, axis=0), dtype=np.float64)
        return value, slope


@dataclass(frozen=True, eq=False)
class Objective:
    """-log likelihood of what was observed + l2 |W|²/2, intercepts left out, as a function of flat coefficients.

    Scores are linear in the features; for two classes the score of the first class is 0.
    """

    observed: Observed
    num_classes: int
    l2: float

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the coefficients: (d + 1, K), the last row intercepts; (d + 1, 1) for two classes."""
        return self.observed.features.shape[1] + 1, self.num_classes if self.num_classes > 2 else 1

    def __call__(self, flat: Floats) -> tuple[float, Floats]:
        """The objective and its gradient at flat coefficients, as SciPy's minimiser takes them."""
        w, x = flat.reshape(self.shape), self.observed.features
        p = LinearSoftmax(w).probabilities(x)
        value, slope = self.observed.loss(p)
        back = p * (slope - (p * slope).sum(axis=1, keepdims=True))
        back = back if self.num_classes > 2 else back[:, 1:]
        pulled = self.l2 * w
        pulled[-1] = 0.0
        return value + 0.5 * float(np.vdot(pulled, w)), np.ravel(np.vstack([x.T @ back, back.sum(axis=0)]) + pulled)


class ForwardCorrectionConfig(FittedToLabels):
    """Logistic regression whose predictions, passed through the public noise, fit the released labels best.

    It maximises Σ log Σ_y p(y|x) T[y, ỹ] over released labels ỹ with an L2 penalty (Patrini et al., CVPR 2017, forward
    correction); T is the exact noise law of the mechanism. Where a released label is that of a random user of the
    cluster, as in the exchange, p(y|x) is the mean over the cluster's users: it then learns from label proportions.
    The objective is not convex; all coefficients start at 0.
    """

    kind: Literal["forward_correction"] = "forward_correction"
    uses_noise_law: ClassVar[bool] = True

    def learn(self, received: Received) -> Predictor:
        """Learn from a release of hard labels whose noise law is public."""
        return self.fitted(Observed.of(received, received.law(self.kind)), received.num_classes)

    def fitted(self, observed: Observed, num_classes: int) -> LinearSoftmax:
        """The linear model that maximises the penalised likelihood of the observed labels, by L-BFGS from 0."""
        from scipy.optimize import minimize

        objective = Objective(observed, num_classes, self.l2)
        optimum = minimize(
            objective, np.zeros(np.prod(objective.shape)), jac=True, method="L-BFGS-B",
            options={
                "maxiter": self.max_iterations, "maxfun": 10 * self.max_iterations,
                "gtol": 1e-6 * max(1.0, float(observed.count.sum())) ** 0.5,
            },
        )  # fmt: skip
        return LinearSoftmax(optimum.x.reshape(objective.shape))


class LabelProportionsConfig(FittedToLabels):
    """Logistic regression from the class shares of bags: the mean prediction over a bag's users fits its shares.

    It maximises Σ_bags n_b Σ_y s_by log(mean of p(y|x) over the bag's n_b users) with an L2 penalty (Ardehaly and
    Culotta, ICDM workshops 2017), where s_b are the noisy shares that the mechanism released. Users of a cluster with
    the same soft label are taken for a bag: bags of one cluster with equal shares may be put together. The objective is
    not convex; all coefficients start at 0.
    """

    kind: Literal["label_proportions"] = "label_proportions"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("soft",)

    def learn(self, received: Received) -> Predictor:
        """Learn from a release of soft labels that the users of a bag share."""
        fitting = ForwardCorrectionConfig(l2=self.l2, max_iterations=self.max_iterations)
        return fitting.fitted(bags_of(received), received.num_classes)


def bags_of(received: Received) -> Observed:
    """The users whose soft labels arrived, bag by bag, and each bag's shares as so many labels as it has users."""
    labelled = np.column_stack([received.cluster, received.release.payload.astype(np.float64)])
    shares, bag, users = np.unique(labelled, axis=0, return_inverse=True, return_counts=True)
    classes = received.num_classes
    order = np.argsort(bag.ravel(), kind="stable")
    starts = (np.cumsum(users) - users).astype(np.int64)
    counts = (shares[:, 1:] * users[:, None]).ravel()
    every = np.repeat(np.arange(len(users)), classes)
    pure = np.tile(np.eye(classes), (len(users), 1))
    return Observed(received.rows[order], starts, every.astype(np.int64), pure, counts.astype(np.float64))
