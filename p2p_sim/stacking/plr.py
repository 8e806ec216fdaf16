"""Private logistic regression (PLR) by objective perturbation: the noise, the exact minimiser, the estimator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from p2p_sim.privacy.rivals.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.stacking.clipped_rows import Floats, check_positive, clip_rows, read_examples, read_rows

GRADIENT = 1e-10
"""Largest norm of the gradient at the minimiser, unless rounding alone exceeds it for large weights."""
_ROUNDING = 1e-14
"""Rounding of a gradient, relative to the terms that cancel in it."""
_MOST_STEPS = 200
"""Newton steps after which the numbers are too large to compute with."""


def draw_noise(dimension: int, scale: float, rng: np.random.Generator, count: int = 1) -> Floats:
    """Draws noise vectors (count, dimension) of density ∝ e^(-|b|/scale): norm Gamma(d, scale), uniform direction."""
    direction = rng.standard_normal((count, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(rng.gamma(dimension, scale, size=(count, 1)) * direction)


@dataclass(frozen=True)
class PerturbedObjective:
    """The objective (1/n) Σᵢ ln(1 + e^(-w·zᵢ)) + b·w/n + (Δ/2)|w|² + (λ/2)|w - u|², strongly convex in the weights w.

    signed_rows: (n, d) zᵢ = yᵢ xᵢ with labels ±1; l2: λ > 0; extra_l2: Δ ≥ 0; prior: (d,) u.
    """

    signed_rows: Floats
    l2: float
    extra_l2: float
    prior: Floats

    def gradient(self, weights: Floats, noise: Floats) -> Floats:
        """Gradient at the weights (d,), for one noise vector b (d,) or for many (m, d); it has the noise's shape."""
        rows = self.signed_rows
        pull = _sigmoid(-(rows @ weights)) @ rows
        fixed = self.extra_l2 * weights + self.l2 * (weights - self.prior) - pull / len(rows)
        return np.asarray(fixed + noise / len(rows))

    def minimise(self, noise: Floats) -> Floats:
        """The minimiser (d,) for one noise vector b (d,), found by damped Newton steps.

        Raises:
            ArithmeticError: no convergence, which strong convexity excludes except for overly large numbers.
        """
        # the minimiser without the rows
        n, curvature, norm = len(self.signed_rows), self.l2 + self.extra_l2, np.linalg.norm
        weights = np.asarray((self.l2 * self.prior - noise / n) / curvature)
        gradient = self.gradient(weights, noise)
        size = float(norm(gradient))
        for _ in range(_MOST_STEPS):
            terms = float(curvature * norm(weights) + self.l2 * norm(self.prior) + norm(noise) / n)
            if size <= max(GRADIENT, _ROUNDING * terms):
                return weights
            step = self._newton_step(weights, gradient)
            length = 1.0
            # A Newton direction shortens the gradient, at a rate of its own length, whatever the function's values.
            while length > 1e-12:
                new = weights + length * step
                gradient = self.gradient(new, noise)
                new_size = float(norm(gradient))
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
        """The Newton step (d,): -H⁻¹ times the gradient, with the Hessian H = Zᵀ diag(p(1-p)) Z/n + (λ+Δ)I."""
        from scipy.linalg import cho_factor, cho_solve

        rows = self.signed_rows
        p = _sigmoid(rows @ weights)
        weighted = rows * np.sqrt(p * (1.0 - p) / len(rows))[:, None]
        hessian = weighted.T @ weighted
        hessian[np.diag_indices_from(hessian)] += self.l2 + self.extra_l2
        return -np.asarray(cho_solve(cho_factor(hessian), gradient))


def _sigmoid(scores: Floats) -> Floats:
    """1/(1 + e^-score) of each score, without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * scores)))


class PrivateBinaryClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the private estimators of two classes, which predict by a decision function."""

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (n,) of the rows X (n, d); above 0 for the second class."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Predicted class (n,) of each of the rows X (n, d)."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0.0).astype(int)])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities (n, 2) of the two classes, which noise and clipping leave uncalibrated."""
        scores = self.decision_function(X)
        return np.stack([0.5 * (1.0 - np.tanh(0.5 * scores)), 0.5 * (1.0 + np.tanh(0.5 * scores))], axis=1)

    def __sklearn_tags__(self) -> object:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Noise of a few dozen rows at ε = 1 leaves little to score.
        tags.classifier_tags.poor_score = True
        return tags


class PrivateLogisticRegression(PrivateBinaryClassifier):
    """Logistic regression whose weights are ε-differentially private, features included (Algorithm 1, PLR).

    The weights minimise (1/n) Σᵢ ln(1 + e^(-yᵢ w·xᵢ)) + b·w/n + (Δ/2)|w|² + (λ/2)|w - u|² with labels ±1 inside, noise
    b and Δ from `p2p_sim/privacy/rivals/objective_perturbation`, which has the proof of privacy. Each row is clipped
    to norm 1 separately; no scale depends on the data. There is no intercept (without a penalty there is no proof for
    it): add a constant column if you need one. n and the two classes are treated as public.

    Args:
        epsilon: ε > 0; infinite: no noise.
        l2: λ > 0, weight of the penalty against the mean loss, for rows of norm at most 1.
        norm_bound: public norm at which rows are clipped (and which they are divided by), above 0.
        prior: (d,) u towards which the weights are drawn: `coef_` of another owner's released model, with the same
            norm_bound. None: 0.
        tight: calibrate by the sharper proof, with less noise; False: as in the paper.
        random_state: None, a seed or a NumPy Generator.

    Attributes:
        coef_: (1, d) weights for clipped rows divided by norm_bound. classes_: (2,).
        perturbation_: noise and Δ. privacy_: the `PrivacyBound`, adjacency "example".
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        l2: float = 0.01,
        norm_bound: float = 1.0,
        prior: ArrayLike | None = None,
        *,
        tight: bool = False,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.l2 = l2
        self.norm_bound = norm_bound
        self.prior = prior
        self.tight = tight
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> "PrivateLogisticRegression":
        """Learns from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter out of its range, NaN or infinite features, one class only.
        """
        check_positive(epsilon=self.epsilon, l2=self.l2, norm_bound=self.norm_bound)
        rows, signs = read_examples(self, X, y)
        prior = np.zeros(rows.shape[1]) if self.prior is None else np.ravel(np.asarray(self.prior, dtype=np.float64))
        if prior.shape != (rows.shape[1],) or not np.isfinite(prior).all():
            raise ValueError(
                f"prior of shape {prior.shape}: must hold a finite weight for each of {rows.shape[1]} features"
            )
        perturbation = calibrate_perturbation(self.epsilon, len(rows), [self.l2], tight=self.tight)
        rng = np.random.default_rng(self.random_state)
        clipped = clip_rows(rows / self.norm_bound)
        self.coef_ = train(clipped, signs, perturbation, rng=rng, prior=prior)[None, :]
        self.perturbation_, self.privacy_ = perturbation, perturbation.privacy()
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores w·x (n,) of the rows X (n, d), which are clipped first; above 0 for the second class."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return np.asarray(clip_rows(read_rows(self, X) / self.norm_bound) @ self.coef_[0])


def train(
    rows: Floats,
    signs: Floats,
    perturbation: ObjectivePerturbation,
    *,
    rng: np.random.Generator,
    prior: Floats,
    group: int = 0,
) -> Floats:
    """Trains one model by objective perturbation, and returns its private weights (d,).

    Args:
        rows: (n, d), of norm at most `perturbation.norms[group]`. signs: (n,) labels ±1.
        perturbation: noise and regularisation. rng: draws the noise. prior: (d,) u, towards which the weights are
            drawn.
        group: index of the model in `perturbation`.
    """
    objective = PerturbedObjective(rows * signs[:, None], perturbation.l2[group], perturbation.extra_l2[group], prior)
    return objective.minimise(draw_noise(rows.shape[1], perturbation.noise_scale, rng)[0])
