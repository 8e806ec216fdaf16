"""Logistic regression on labels whose noise was undone on average: backward correction."""

from typing import ClassVar, Literal

from p2p_sim.learning.knows_noise import UNBIASED, NoiseAwareLogisticConfig, unbiased_weights
from p2p_sim.learning.learner import Received
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind


class BackwardCorrectionConfig(NoiseAwareLogisticConfig):
    """Logistic regression with the loss T⁻¹ℓ, whose mean over the noise is the loss of the true labels.

    This is the backward correction of Patrini et al. (CVPR 2017). A label's weights are a row of T⁻¹ and sum to one, so
    that the loss is convex. Labels of a cluster, as in the exchange, count for the user under whose name they are
    released: this undoes the flips, not the mixing. A noise law without an inverse is refused.
    """

    kind: Literal["backward_correction"] = "backward_correction"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = UNBIASED

    def learned(self, received: Received) -> Predictor:
        """Learn from a release of hard labels whose noise law is public, or of signed ones."""
        return self.soft.fit_weights(received.rows, unbiased_weights(received, self.kind))
