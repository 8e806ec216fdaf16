"""Logistic regression whose mean prediction over a bag of users fits the class shares of the bag."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.class_weights import check_accepts
from p2p_sim.learning.forward_correction import ForwardCorrectionConfig, Observed
from p2p_sim.learning.learner import OwnLearner, Received
from p2p_sim.learning.soft_logistic_regression import SoftLogisticRegressionConfig
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind


class LabelProportionsConfig(OwnLearner):
    """Logistic regression from the class shares of bags: the mean prediction over a bag's users fits its shares.

    It maximises Σ_bags n_b Σ_y s_by log(mean of p(y|x) over the bag's n_b users) with an L2 penalty (Ardehaly and
    Culotta, ICDM workshops 2017), where s_b are the noisy shares that the mechanism released. Users of a cluster with
    the same soft label are taken for a bag: bags of one cluster with equal shares may be put together. The objective is
    not convex; all coefficients start at 0.
    """

    kind: Literal["label_proportions"] = "label_proportions"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("soft",)
    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |W|²/2 against the sum of the losses, intercepts left out; above 0."""
    max_iterations: int = Field(default=1000, ge=1)
    """Most L-BFGS iterations, at least 1."""

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy: plain logistic regression."""
        plain = SoftLogisticRegressionConfig(l2=self.l2, max_iterations=self.max_iterations)
        return plain.fit(features, labels, num_classes)

    def learned(self, received: Received) -> Predictor:
        """Learn from a release of soft labels that the users of a bag share."""
        check_accepts(received.release, self.kind, self.accepts)
        fitting = ForwardCorrectionConfig(l2=self.l2, max_iterations=self.max_iterations)
        return fitting.fitted(bags_of(received), received.num_classes)


def bags_of(received: Received) -> Observed:
    """The users whose soft labels arrived, bag by bag, and each bag's shares as so many labels as it has users."""
    known = np.column_stack([received.cluster, received.release.payload.astype(np.float64)])
    shares, bag, users = np.unique(known, axis=0, return_inverse=True, return_counts=True)
    classes = received.num_classes
    order = np.argsort(bag.ravel(), kind="stable")
    starts = (np.cumsum(users) - users).astype(np.int64)
    counts = (shares[:, 1:] * users[:, None]).ravel()
    every = np.repeat(np.arange(len(users)), classes)
    pure = np.tile(np.eye(classes), (len(users), 1))
    return Observed(received.rows[order], starts, every.astype(np.int64), pure, counts.astype(np.float64))
