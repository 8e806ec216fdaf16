"""Private logistic regression (PLR) by objective perturbation: the noise, the exact minimiser, the estimator."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from p2p_sim.privacy.rivals import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.stacking.clipped_rows import Floats, check_positive, clip_rows, read_examples, read_rows

GRADIENT = 1e-10
"""Largest norm of a gradient that counts as 0. For large weights, rounding errors allow a larger norm."""
_ROUNDING = 1e-14
"""Rounding error of a gradient, as a share of the size of its terms."""
_MOST_STEPS = 200
"""Largest number of Newton steps."""


def draw_noise(dimension: int, scale: float, rng: np.random.Generator, count: int = 1) -> Floats:
    """Draw `count` noise vectors b, (count, dimension), from `rng`. Their density is ∝ e^(-|b|/scale).

    The norm has the law Gamma(dimension, scale), and the direction is uniform.
    """
    direction = rng.standard_normal((count, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(rng.gamma(dimension, scale, size=(count, 1)) * direction)


@dataclass(frozen=True)
class PerturbedObjective:
    """The objective (1/n) Σᵢ ln(1 + e^(-w·zᵢ)) + b·w/n + (Δ/2)|w|² + (λ/2)|w - u|² of the weights w.

    signed_rows: (n, d) zᵢ = yᵢ xᵢ, for n rows xᵢ with labels yᵢ = ±1. l2: λ > 0. extra_l2: Δ ≥ 0. prior: (d,) u. The
    methods take the noise b (d,) as an argument.
    """

    signed_rows: Floats
    l2: float
    extra_l2: float
    prior: Floats

    def gradient(self, weights: Floats, noise: Floats) -> Floats:
        """The gradient of the objective at the weights w (d,). The result has the shape of the noise b: (d,), or (m, d)
        for m noise vectors.
        """
        rows = self.signed_rows
        pull = _sigmoid(-(rows @ weights)) @ rows
        fixed = self.extra_l2 * weights + self.l2 * (weights - self.prior) - pull / len(rows)
        return np.asarray(fixed + noise / len(rows))

    def minimise(self, noise: Floats) -> Floats:
        """The minimiser (d,) for one noise vector b (d,), found by damped Newton steps.

        Raises:
            ArithmeticError: no convergence. The objective is strongly convex, so only too large numbers cause this.
        """
        # begin at the minimiser of the objective without the rows
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
            # a short step, `length` times the Newton step, shortens the gradient by about the share `length`
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
        """The Newton step (d,) at the weights w: -H⁻¹ times the gradient. The Hessian is
        H = Zᵀ diag(p(1-p)) Z/n + (λ+Δ)I. Z (n, d) has the rows zᵢ = yᵢ xᵢ. p (n,) has the model's probabilities
        1/(1 + e^(-w·zᵢ)) of the labels.
        """
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
    """Base of the private classifiers of two classes. The sign of `decision_function` gives the class."""

    def decision_function(self, X: ArrayLike) -> Floats:
        """The scores (n,) of the rows X (n, d). A score above 0 means the second of `classes_`."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """The predicted class (n,) of each of the rows X (n, d)."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0.0).astype(int)])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The probabilities (n, 2) of both classes for the rows X (n, d). Noise makes these probabilities inexact."""
        scores = self.decision_function(X)
        return np.stack([_sigmoid(-scores), _sigmoid(scores)], axis=1)

    def __sklearn_tags__(self) -> object:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # scikit-learn's checks have few rows; there the noise at ε = 1 hides most of what can be learned
        tags.classifier_tags.poor_score = True
        return tags


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(PrivateBinaryClassifier):
    """Logistic regression with ε-differentially private weights (PLR; Yao et al. 2019, Algorithm 1).

    ε protects labels and features. The n rows xᵢ have d features and labels yᵢ = ±1. The weights w minimise
    (1/n) Σᵢ ln(1 + e^(-yᵢ w·xᵢ)) + b·w/n + (Δ/2)|w|² + (λ/2)|w - u|². The noise b, the value of Δ and the proof are in
    `p2p_sim/privacy/rivals/objective_perturbation`. No scale depends on the data. The proof needs a penalty on every
    weight, so there is no intercept: add a constant column instead. The number n and the two classes are public.

    Args:
        epsilon: ε > 0; infinite: no noise.
        l2: λ > 0, the weight of the penalty.
        norm_bound: public norm, above 0. Rows are clipped to this norm, then divided by this number.
        prior: (d,) u, towards which the weights are pulled; None: 0. An example is `coef_` of another owner's released
            model with the same norm_bound.
        tight: True: a sharper proof allows less noise or a smaller Δ. False: noise and Δ of Yao et al. 2019.
        random_state: None, a seed or a NumPy Generator.

    Attributes:
        coef_: (1, d) weights for clipped rows divided by norm_bound. classes_: (2,).
        perturbation_: noise and Δ. privacy_: the `PrivacyBound`; neighbouring data sets differ in one row.
    """

    epsilon: float = 1.0
    l2: float = 0.01
    norm_bound: float = 1.0
    prior: ArrayLike | None = None
    _: KW_ONLY
    tight: bool = False
    random_state: int | np.random.Generator | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> "PrivateLogisticRegression":
        """Learn from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter is out of its range, a feature is NaN or infinite, or there are not two classes.
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
        """The scores w·x (n,) of the clipped rows X (n, d). A score above 0 means the second of `classes_`."""
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
    """Train one model by objective perturbation, and return the private weights (d,).

    Args:
        rows: (n, d), of norm at most `perturbation.norms[group]`. signs: (n,) labels ±1.
        perturbation: noise and regularisation. rng: draws the noise. prior: (d,) u; the weights are pulled towards u.
        group: index of the model in `perturbation`.
    """
    objective = PerturbedObjective(rows * signs[:, None], perturbation.l2[group], perturbation.extra_l2[group], prior)
    return objective.minimise(draw_noise(rows.shape[1], perturbation.noise_scale, rng)[0])
