"""PLR: private logistic regression by objective perturbation, the building block of private stacking."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from p2p_sim.privacy.rivals.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.stacking.clipped_rows import check_positive, clip_rows, read_examples, read_rows
from p2p_sim.stacking.perturbed_objective import PerturbedObjective, draw_noise

Floats = NDArray[np.float64]


class PrivateBinaryClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the private estimators of two classes share: predictions from a decision function."""

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (n,); above 0 for the second class."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """The class (n,) of each row."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0.0).astype(int)])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities (n, 2) of the two classes, not calibrated: noise and clipping are in them."""
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
        """Learn from rows X (n, d) and labels y (n,) of two classes.

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
        self.coef_ = train(clipped, signs, perturbation, rng, prior)[None, :]
        self.perturbation_, self.privacy_ = perturbation, perturbation.privacy()
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """w·x (n,) of clipped rows."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return np.asarray(clip_rows(read_rows(self, X) / self.norm_bound) @ self.coef_[0])


def train(
    rows: Floats,
    signs: Floats,
    perturbation: ObjectivePerturbation,
    rng: np.random.Generator,
    prior: Floats,
    group: int = 0,
) -> Floats:
    """The private weights (d,) of one model.

    Args:
        rows: (n, d), of norm at most `perturbation.norms[group]`. signs: (n,) labels ±1.
        perturbation: noise and regularisation. rng: the noise's. prior: (d,) u. group: which of its models.
    """
    objective = PerturbedObjective(rows * signs[:, None], perturbation.l2[group], perturbation.extra_l2[group], prior)
    return objective.minimise(draw_noise(rows.shape[1], perturbation.noise_scale, rng)[0])
