"""What learners share that know the public law of the labels' noise."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.learning.class_weights import check_accepts
from p2p_sim.learning.learner import OwnLearner, Received
from p2p_sim.learning.soft_logistic_regression import SoftLogisticRegressionConfig
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind

UNBIASED: tuple[ReleaseKind, ...] = ("hard", "signed")
"""Kinds of labels that can be weights whose mean is the true label's indicator."""


def unbiased_weights(received: Received, learner: str) -> NDArray[np.float64]:
    """(m, K): signed weights of the released labels; their mean under each true label is its indicator.

    Hard labels get rows of the inverse of their noise law; the mechanism has already done this for signed ones.

    Raises:
        InputError: the labels are of another kind, their law is not public, or has no inverse.
    """
    check_accepts(received.release, learner, UNBIASED)
    if received.release.kind == "signed":
        return received.release.payload.astype(np.float64)
    return received.law(learner).weights(received.release.payload.astype(np.int64))


class NoiseAwareLogisticConfig(OwnLearner):
    """What logistic regressions share that know the noise; without privacy they are plain logistic regression."""

    uses_noise_law: ClassVar[bool] = True
    l2: float = Field(default=1.0, gt=0)
    """Weight of the penalty |W|²/2 against the sum of the losses, intercepts left out where they can be; above 0."""
    max_iterations: int = Field(default=1000, ge=1)
    """Most L-BFGS iterations, at least 1."""

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return self.soft.fit(features, labels, num_classes)

    @property
    def soft(self) -> SoftLogisticRegressionConfig:
        """The logistic regression on weights with the same penalty."""
        return SoftLogisticRegressionConfig(l2=self.l2, max_iterations=self.max_iterations)
