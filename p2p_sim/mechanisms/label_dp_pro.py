"""LabelDP-Pro: DP-SGD whose noisy gradients are projected on what the public features allow (Ghazi et al. 2024).

Without noise the mean gradient is about a mixture of the gradients that public rows would have under each class: all of
these together are known without a label. The noisy gradient is replaced by the nearest such mixture. This is the
variant ALTCONV: the public rows of a step are drawn independently of its batch. The variants that take the rows of the
batch itself are not offered: they would tell who is in the batch, and the subsampling would hide nobody any more.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.mechanisms.dp_sgd import DpSgdMechanism, NoisySteps, Singles, softmax
from p2p_sim.mechanisms.mechanism import Setup
from p2p_sim.mechanisms.noise_law import to_simplex
from p2p_sim.privacy.rivals.dp_sgd import PROJECTED_CONDITIONS, DpSgd, ProjectedSteps


class LabelDpProConfig(NoisySteps):
    """A curator who holds all labels takes gradient steps whose noise is reduced by public features (LabelDP-Pro).

    The model, and the defaults of the keys that DP-SGD has too, are those of `dp_sgd`.
    """

    kind: Literal["label_dp_pro"] = "label_dp_pro"
    described: ClassVar[str] = "a trusted curator who learns by LabelDP-Pro"
    conditions: ClassVar[tuple[str, ...]] = PROJECTED_CONDITIONS
    accountant: ClassVar[type[DpSgd]] = ProjectedSteps
    public_batch: int = Field(default=128, ge=1, le=10_000)
    """m: number of users, drawn in each step independently of its batch, whose features are used; 1 to 10,000."""
    iterations: int = Field(default=50, ge=1, le=10_000)
    """Iterations of each projection, 1 to 10,000."""
    smoothing: float = Field(default=0.75, gt=0, le=1)
    """λ: weight of the projection against the mean over all public rows and classes, above 0 and at most 1."""

    def built(self, setup: Setup) -> "LabelDpPro":
        """The mechanism; sizes and classes do not matter."""
        return LabelDpPro(self.accounted(setup.delta), self)


@dataclass(frozen=True)
class LabelDpPro(DpSgdMechanism):
    """Noisy gradient steps, each projected on the convex hull of the class gradients of public rows."""

    config: LabelDpProConfig

    def denoised(
        self, gradient: Singles, weights: Singles, inputs: Singles, norms: Singles, rng: np.random.Generator
    ) -> Singles:
        """A mixture of clipped class gradients of public rows, near the noisy gradient (K, d+1)."""
        p = self.config
        rows = rng.integers(0, len(inputs), p.public_batch)
        inputs = inputs[rows]
        residuals = class_residuals(weights, inputs, norms[rows], p.clip)
        mixture = nearest_mixture(gradient, residuals, inputs, p.iterations)
        even = np.full(mixture.shape, 1.0 / mixture.size)
        return mixed(p.smoothing * mixture + (1.0 - p.smoothing) * even, residuals, inputs)


def class_residuals(weights: Singles, inputs: Singles, norms: Singles, clip: float) -> Singles:
    """(m, K, K): entry [i, y] times the input x_i is the clipped gradient of row i under class y.

    Args:
        weights: (K, d+1). inputs: (m, d+1) rows. norms: (m,) theirs. clip: largest norm of a gradient.
    """
    residuals = softmax(inputs @ weights.T)[:, None, :] - np.eye(len(weights), dtype=np.float32)
    lengths = norms[:, None] * np.sqrt(np.einsum("iyk,iyk->iy", residuals, residuals))
    residuals *= np.minimum(1.0, clip / np.maximum(lengths, 1e-30))[:, :, None].astype(np.float32)
    return residuals


def mixed(mixture: NDArray[np.floating], residuals: Singles, inputs: Singles) -> Singles:
    """The mixture (m, K) of the class gradients: (K, d+1). residuals: (m, K, K). inputs: (m, d+1)."""
    return np.asarray(np.einsum("iy,iyk->ki", mixture.astype(np.float32), residuals) @ inputs)


def nearest_mixture(target: Singles, residuals: Singles, inputs: Singles, iterations: int) -> NDArray[np.float64]:
    """Weights (m, K) of the mixture of class gradients that is about nearest to a target, by accelerated descent.

    Every iterate is a distribution over rows and classes, so that inaccuracy costs utility and no privacy.

    Args:
        target: (K, d+1). residuals: (m, K, K), inputs: (m, d+1), as in `mixed`. iterations: number of steps.
    """

    def pulled(gap: Singles) -> NDArray[np.float64]:
        """Scalar products of all class gradients with a gap (K, d+1): (m, K)."""
        return np.asarray(np.einsum("iyk,ik->iy", residuals, inputs @ gap.T), dtype=np.float64)

    shape = residuals.shape[:2]
    mixture = np.full(shape, 1.0 / (shape[0] * shape[1]))
    curvature, direction = 0.0, pulled(target)
    for _ in range(12):  # the largest curvature, by power iteration
        direction /= max(float(np.linalg.norm(direction)), 1e-30)
        direction = pulled(mixed(direction, residuals, inputs))
        curvature = max(curvature, float(np.linalg.norm(direction)))
    if curvature < 1e-20:
        return mixture
    ahead, speed = mixture, 1.0
    for _ in range(iterations):
        slope = pulled(mixed(ahead, residuals, inputs) - target)
        moved = to_simplex((ahead - slope / (1.05 * curvature)).reshape(1, -1)).reshape(shape)
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        ahead = moved + (speed - 1.0) / faster * (moved - mixture)
        mixture, speed = moved, faster
    return mixture
