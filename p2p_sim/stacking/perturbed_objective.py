"""The perturbed objective of one logistic regression: its noise, its gradient and its exact minimiser."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GRADIENT = 1e-10
"""To which norm the gradient is brought, or to rounding where the weights are so large that this is more."""
_ROUNDING = 1e-14
_MOST_STEPS = 200


def draw_noise(dimension: int, scale: float, rng: np.random.Generator, count: int = 1) -> Floats:
    """Noise vectors (count, dimension) of density ∝ e^(-|b|/scale): norm Gamma(d, scale), uniform direction."""
    direction = rng.standard_normal((count, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(rng.gamma(dimension, scale, size=(count, 1)) * direction)


@dataclass(frozen=True)
class PerturbedObjective:
    """(1/n) Σᵢ ln(1 + e^(-w·zᵢ)) + b·w/n + (Δ/2)|w|² + (λ/2)|w - u|², strongly convex in w.

    signed_rows: (n, d) zᵢ = yᵢ xᵢ with labels ±1; l2: λ > 0; extra_l2: Δ ≥ 0; prior: (d,) u.
    """

    signed_rows: Floats
    l2: float
    extra_l2: float
    prior: Floats

    def gradient(self, weights: Floats, noise: Floats) -> Floats:
        """At weights (d,), for a noise vector (d,) or for many (m, d), of that shape."""
        rows = self.signed_rows
        pull = _sigmoid(-(rows @ weights)) @ rows
        fixed = self.extra_l2 * weights + self.l2 * (weights - self.prior) - pull / len(rows)
        return np.asarray(fixed + noise / len(rows))

    def minimise(self, noise: Floats) -> Floats:
        """The minimiser (d,) for one noise vector (d,), by Newton steps that shorten the gradient.

        Raises:
            ArithmeticError: no convergence, which strong convexity excludes but for numbers too large to compute with.
        """
        n, curvature = len(self.signed_rows), self.l2 + self.extra_l2
        weights = np.asarray((self.l2 * self.prior - noise / n) / curvature)
        gradient = self.gradient(weights, noise)
        size = float(np.linalg.norm(gradient))
        for _ in range(_MOST_STEPS):
            if size <= max(GRADIENT, _ROUNDING * self._magnitude(weights, noise)):
                return weights
            step = self._newton_step(weights, gradient)
            length = 1.0
            # A Newton direction shortens the gradient, at a rate of its own length, whatever the function's values.
            while length > 1e-12:
                new = weights + length * step
                gradient = self.gradient(new, noise)
                new_size = float(np.linalg.norm(gradient))
                if new_size <= (1.0 - 1e-4 * length) * size:
                    break
                length /= 2.0
            else:
                break
            weights, size = new, new_size
        raise ArithmeticError(
            f"logistic regression: gradient {size:g} after Newton's steps; are the numbers too large?"
        )

    def _newton_step(self, weights: Floats, gradient: Floats) -> Floats:
        from scipy.linalg import cho_factor, cho_solve

        rows = self.signed_rows
        p = _sigmoid(rows @ weights)
        weighted = rows * np.sqrt(p * (1.0 - p) / len(rows))[:, None]
        hessian = weighted.T @ weighted
        hessian[np.diag_indices_from(hessian)] += self.l2 + self.extra_l2
        return -np.asarray(cho_solve(cho_factor(hessian), gradient))

    def _magnitude(self, weights: Floats, noise: Floats) -> float:
        """Of the terms that cancel in the gradient."""
        norm = np.linalg.norm
        penalties = (self.l2 + self.extra_l2) * norm(weights) + self.l2 * norm(self.prior)
        return float(penalties + norm(noise) / len(self.signed_rows))


def _sigmoid(scores: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * scores)))
