"""Private stacking and hypothesis transfer: private models of parts of the data are combined or passed on.

Low-level models are trained on parts of the rows or features. The high-level model combines the scores of the low
level. PLR is the private logistic regression of `plr.py`. Algorithm and equation numbers refer to the stacking paper,
Yao et al. 2019.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from p2p_sim.privacy import PrivacyBound
from p2p_sim.privacy.rivals import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.stacking.clipped_rows import (
    FeatureGroups,
    Floats,
    check_positive,
    check_public,
    clip_rows,
    read_examples,
    read_rows,
)
from p2p_sim.stacking.plr import PrivateBinaryClassifier, PrivateLogisticRegression, train

Combiner = Literal["stacked", "majority", "weighted", "mean"]


@dataclass(frozen=True)
class GroupModels:
    """The released models of K feature groups. An organisation passes on nothing else.

    coefficients: (K,) vectors. Vector k (d_k,) has the weights of the d_k features in group k. The rows of the group
    are scaled to norm at most q_k, the group's importance.
    perturbation: noise and regularisation of all K models, which were learned from the same rows.
    """

    groups: FeatureGroups
    coefficients: tuple[Floats, ...]
    perturbation: ObjectivePerturbation

    @property
    def privacy(self) -> PrivacyBound:
        """The privacy bound for a row from which the models were learned, against an observer of all models."""
        return self.perturbation.privacy()

    def margins(self, rows: Floats) -> Floats:
        """The scores (n, K) of the K models for rows (n, d)."""
        parts = zip(self.groups.scaled(rows), self.coefficients, strict=True)
        return np.stack([part @ w for part, w in parts], axis=1)


@dataclass(eq=False, repr=False)
class _Stacking(PrivateBinaryClassifier):
    """Base of the stacking estimators. This class splits rows, combines low-level models and predicts."""

    epsilon: float = 1.0
    _: KW_ONLY
    l2: float = 0.01
    combiner: Combiner = "stacked"
    low_share: float = 0.5
    tight: bool = False
    random_state: int | np.random.Generator | None = None

    def _check(self) -> None:
        """Raise ValueError if ε, λ (`l2`), `combiner` or `low_share` is out of its range."""
        check_positive(epsilon=self.epsilon, l2=self.l2)
        if self.combiner not in get_args(Combiner):
            raise ValueError(f"combiner = {self.combiner!r}: must be one of {', '.join(get_args(Combiner))}")
        if not 0.0 < self.low_share <= 1.0 or (self.low_share == 1.0 and self.combiner == "stacked"):
            raise ValueError(
                f"low_share = {self.low_share}: must lie in (0, 1], below 1 where the combiner is 'stacked'"
            )

    def _split(self, num_rows: int, rng: np.random.Generator, parts: int = 1) -> list[NDArray[np.intp]]:
        """A random split of the row numbers 0..num_rows-1 into two arrays. The first array has the share `low_share` of
        the rows, for low-level models. The second array has the other rows, for the high-level model. ValueError is
        raised if the first array has fewer than `parts` rows, or if a high-level model gets no rows.

        Args:
            num_rows: number of rows. rng: draws the split. parts: the least number of low-level rows.
        """
        low = num_rows if self.low_share == 1.0 else round(self.low_share * num_rows)
        if low < parts or (self.combiner == "stacked" and low == num_rows):
            raise ValueError(f"n_samples = {num_rows}: too few rows for {parts} low-level parts and a high level")
        return np.split(rng.permutation(num_rows), [low])

    def _combine(
        self, margins: Floats, signs: Floats, low: tuple[ObjectivePerturbation, ...], rng: np.random.Generator
    ) -> None:
        """Train the high-level model, if any. This model predicts labels from the scores of low-level models. Set
        `high_coef_` to the weights (None without a model). Every row is used in at most one training, so the total ε
        is the largest ε of a training. Set `privacy_` to the bound with this ε.

        Args:
            margins: (m, K) scores of m rows, which were not used to train the K low-level models. signs: (m,) the rows'
            labels ±1. low: noise and regularisation of each low-level training. rng: draws the high level's noise.
        """
        bounds, self.high_coef_ = [perturbation.privacy() for perturbation in low], None
        if self.combiner == "stacked":
            high = calibrate_perturbation(self.epsilon, len(signs), [self.l2], tight=self.tight)
            meta = meta_features(margins)
            self.high_coef_ = train(meta, signs, high, rng=rng, prior=np.zeros(meta.shape[1]))
            bounds.append(high.privacy())
        # the parts are disjoint, and their choice ignores the data: a neighbouring data set differs in one part only
        self.privacy_ = replace(bounds[0], epsilon_upper=max(bound.epsilon_upper for bound in bounds))

    def decision_function(self, X: ArrayLike) -> Floats:
        """The scores (n,) of the rows X (n, d). A score above 0 means the second of `classes_`.

        The high-level model gives the scores. Without this model, a score is the weighted mean of the low-level votes
        ±1. For the combiner "mean", each vote is 2p - 1, with the low-level probability p.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        margins = self._margins(read_rows(self, X))
        if self.high_coef_ is not None:
            return np.asarray(meta_features(margins) @ self.high_coef_)
        votes = np.tanh(0.5 * margins) if self.combiner == "mean" else np.sign(margins)
        # scores that differ only in the last bits become equal; such scores tie in a ROC curve too
        return np.round(votes @ self._shares(margins.shape[1]), 12)

    def _margins(self, rows: Floats) -> Floats:
        """The low-level scores (n, K) of the rows (n, d)."""
        raise NotImplementedError

    def _shares(self, count: int) -> Floats:
        """Weights (K,), with sum 1, of the votes of K = `count` low-level models. Here all weights are equal; a
        subclass may use importance.
        """
        return np.full(count, 1.0 / count)


def meta_features(margins: Floats) -> Floats:
    """The inputs (n, K) of the high-level model, from low-level scores (n, K).

    The inputs are (2p - 1)/√K for low-level probabilities p. Every row has norm at most 1. The stacking paper uses p
    itself. Such inputs need an intercept, and most of their norm is common to all rows.
    """
    return np.asarray(np.tanh(0.5 * margins) / np.sqrt(margins.shape[1]))


@dataclass(eq=False, repr=False)
class SampleStacking(_Stacking):
    """PST-S (Algorithm 2): low-level models of disjoint samples, combined by a private model of other rows.

    Every row is in at most one part, and the choice of parts ignores the data. So the total ε is the largest ε of a
    part (parallel composition).

    Args:
        epsilon: ε > 0; infinite: no noise.
        n_parts: K, number of low-level models, at least 1.
        l2: λ > 0 of every model.
        norm_bound: public norm, above 0. Rows are clipped to this norm, then divided by this number.
        combiner: "stacked": a high-level PLR. "majority" and "weighted": mean vote. "mean": mean probability.
        low_share: share of the rows for the low level, in (0, 1]; below 1 for the combiner "stacked".
        tight: whether a sharper proof sets the noise. random_state: None, a seed or a NumPy Generator.

    Attributes:
        coef_: (K, d) low-level weights. high_coef_: (K,) high-level weights, or None. classes_: (2,).
        privacy_: the `PrivacyBound` of all fitted models; neighbouring data sets differ in one row.
    """

    n_parts: int = 5
    norm_bound: float = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "SampleStacking":
        """Learn from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter is out of its range, a feature is not finite, the number of classes is not 2, or
            the rows are too few.
        """
        self._check()
        check_positive(norm_bound=self.norm_bound, n_parts=self.n_parts)
        rows, signs = read_examples(self, X, y)
        rng = np.random.default_rng(self.random_state)
        low, high = self._split(len(rows), rng, self.n_parts)
        # first a low-level model of each part; then the high-level model, from their scores of other rows
        clipped, no_prior = clip_rows(rows / self.norm_bound), np.zeros(rows.shape[1])
        models, perturbations = [], []
        for part in np.array_split(low, self.n_parts):
            perturbations.append(calibrate_perturbation(self.epsilon, len(part), [self.l2], tight=self.tight))
            models.append(train(clipped[part], signs[part], perturbations[-1], rng=rng, prior=no_prior))
        self.coef_ = np.stack(models)
        self._combine(self._margins(rows[high]), signs[high], tuple(perturbations), rng)
        return self

    def _margins(self, rows: Floats) -> Floats:
        return np.asarray(clip_rows(rows / self.norm_bound) @ self.coef_.T)


@dataclass(eq=False, repr=False)
class GroupStacking(_Stacking):
    """Base of estimators that stack models of feature groups. Another owner's models may serve as priors."""

    _: KW_ONLY
    importance: Sequence[float] | None = None
    importance_is_public: bool = False

    def _fit(self, rows: Floats, signs: Floats, groups: FeatureGroups, priors: tuple[Floats, ...]) -> Self:
        """Train the low-level models on some rows, and the high-level model, if any, on the other rows.

        Set `models_`, `perturbation_`, `high_coef_` and `privacy_`. Return the estimator itself.

        Args:
            rows: (n, d) features. signs: (n,) labels ±1. groups: the K groups of features. priors: K vectors (d_k,),
            where group k has d_k features. The weights of group k are pulled towards vector k.
        """
        rng = np.random.default_rng(self.random_state)
        low, high = self._split(len(rows), rng)
        self.models_ = train_groups(
            rows[low], signs[low], groups, priors=priors, epsilon=self.epsilon, l2=self.l2, tight=self.tight, rng=rng
        )
        self.perturbation_ = self.models_.perturbation
        self._combine(self.models_.margins(rows[high]), signs[high], (self.perturbation_,), rng)
        return self

    def _margins(self, rows: Floats) -> Floats:
        return self.models_.margins(rows)

    def _shares(self, count: int) -> Floats:
        return super()._shares(count) if self.combiner == "majority" else np.asarray(self.models_.groups.importance)


@dataclass(eq=False, repr=False)
class FeatureStacking(GroupStacking):
    """PST-F (Algorithm 3): low-level models of feature groups, which share ε by importance, and a private combiner.

    A row's features in group k are clipped, then scaled to norm at most q_k. The noise has the scale 2/ε' in all
    groups, so the noise of group k costs ε' q_k. All groups together cost at most ε, by the theorem of
    `p2p_sim/privacy/rivals/objective_perturbation`, which also gives ε'. The high level uses other rows, so the
    total is ε. Group k has the penalty λ_k = λ q_k². This is a penalty λ on weights for rows of norm 1 instead of q_k.

    Importance and groups must not come from the data. No program can check this, so the caller must declare importance
    public.

    Args:
        epsilon: ε > 0; infinite: no noise.
        n_groups: K, the number of consecutive groups if `groups` is None; at most the number of features.
        groups: (K,) disjoint sequences of feature indices. Features without a group are not used.
        importance: (K,) q_k > 0, with sum 1; None: uniform, "PST-F(U)".
        importance_is_public: must be True if importance is given.
        l2: λ > 0.
        norm_bound: public norms, above 0, at which features are clipped: one number for all groups, or (K,).
        combiner: "stacked": a high-level PLR. "majority": mean vote. "weighted": mean vote weighted by importance.
            "mean": mean probability weighted by importance.
        low_share: share of the rows for the low level, in (0, 1]; below 1 for the combiner "stacked".
        tight: whether a sharper proof sets the noise. random_state: None, a seed or a NumPy Generator.

    Attributes:
        models_: the released `GroupModels` of the low level. high_coef_: (K,) or None. classes_: (2,).
        perturbation_: noise and Δ_k of the low level. privacy_: the `PrivacyBound` of all fitted models.
    """

    n_groups: int = 5
    groups: Sequence[Sequence[int]] | None = None
    norm_bound: float | Sequence[float] = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "FeatureStacking":
        """Learn from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter is out of its range, groups overlap, or importance is not declared public; a feature
                is not finite, the number of classes is not 2, or the rows are too few.
        """
        self._check()
        check_public(self.importance, self.importance_is_public)
        rows, signs = read_examples(self, X, y)
        groups = FeatureGroups.of(rows.shape[1], self.n_groups, self.groups, self.importance, self.norm_bound)
        return self._fit(rows, signs, groups, tuple(np.zeros(len(group)) for group in groups.members))


def train_groups(
    rows: Floats,
    signs: Floats,
    groups: FeatureGroups,
    *,
    priors: tuple[Floats, ...],
    epsilon: float,
    l2: float,
    tight: bool,
    rng: np.random.Generator,
) -> GroupModels:
    """Train the low level of Algorithm 3: a private model for each of K feature groups. All K models together have ε.
    A row's features in group k are clipped, then scaled to norm at most q_k, the group's importance.

    Args:
        rows: (n, d), not clipped. signs: (n,) labels ±1. groups: the groups with norm bounds and q_k. priors: K
        vectors u_k (d_k,), towards which the weights are pulled. epsilon: ε. l2: λ; the penalty of group k has the
        weight λ q_k². tight: whether a sharper proof than the stacking paper's sets the noise. rng: draws the noise.
    """
    shares = groups.importance
    perturbation = calibrate_perturbation(epsilon, len(rows), [l2 * q * q for q in shares], shares, tight)
    coefficients = tuple(
        train(part, signs, perturbation, rng=rng, prior=prior, group=k)
        for k, (part, prior) in enumerate(zip(groups.scaled(rows), priors, strict=True))
    )
    return GroupModels(groups, coefficients, perturbation)


@dataclass(eq=False, repr=False)
class TransferStacking(GroupStacking):
    """PST-H (Algorithm 4, corrected): a target stacks models of feature groups, with the models of a source as priors.

    The source is another owner. Its models are `models_` of a `FeatureStacking`. All K models together cost at most
    ε_src, the ε of the source. Any number of targets may use these models at no further cost, by post-processing. The
    printed Algorithm 4 trains a PLR at ε_src for each group, which costs K ε_src. Here group k has the penalty
    (λ_k/2)|w - u_k|². The vector u_k has the source's weights times q_k(source)/q_k(target), because rows are scaled
    to the importance q_k. The target's rows cost ε. The source's bound is `source.privacy`.

    Args:
        epsilon: ε of the target > 0; infinite: no noise.
        source: the released models of the source. The target uses the same groups and norm bounds.
        importance: (K,) q_k of the target, with sum 1; None: the importance of the source.
        importance_is_public: must be True if importance is given.
        l2: λ > 0, for the pull of the priors and for the high level.
        combiner: "stacked": a high-level PLR. "majority": mean vote. "weighted": mean vote weighted by importance.
            "mean": mean probability weighted by importance.
        low_share: share of the rows for the low level, in (0, 1]; below 1 for the combiner "stacked".
        tight: whether a sharper proof sets the noise. random_state: None, a seed or a NumPy Generator.

    Attributes:
        models_: the released `GroupModels` of the low level. high_coef_: (K,) or None. classes_: (2,).
        perturbation_: noise and Δ_k of the low level. privacy_: the `PrivacyBound` of all fitted models.
    """

    source: GroupModels | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> "TransferStacking":
        """Learn from the target's rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter is out of its range, there is no source, or importance is not declared public; a
                feature is not finite, the number of classes is not 2, or the rows are too few.
        """
        self._check()
        if not isinstance(self.source, GroupModels):
            kind = None if self.source is None else type(self.source).__name__
            raise ValueError(f"source = {kind}: must be the released models of a fitted FeatureStacking (its models_)")
        check_public(self.importance, self.importance_is_public)
        rows, signs = read_examples(self, X, y)
        # the source's groups and norm bounds, with the target's importance
        theirs = self.source.groups
        shares = theirs.importance if self.importance is None else self.importance
        groups = FeatureGroups.of(rows.shape[1], 1, theirs.members, shares, theirs.norm_bounds)
        # the priors u_k, for rows scaled by the target's importance
        ratios = np.asarray(theirs.importance) / np.asarray(groups.importance)
        priors = tuple(ratio * w for ratio, w in zip(ratios, self.source.coefficients, strict=True))
        return self._fit(rows, signs, groups, priors)


def pphtl(
    source: ArrayLike, epsilon: float, *, l2: float, pull: float, norm_bound: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> PrivateLogisticRegression:  # fmt: skip
    """PPHTL, as in equation 5 of the stacking paper: PLR with a second penalty (η/2)|w - w_src|².

    Up to a constant, (λ/2)|w|² + (η/2)|w - w_src|² equals ((λ+η)/2)|w - u|² with u = w_src η/(λ+η). So the proof of PLR
    applies. The original by Wang et al. (2018) weights several sources by public data. This function has one source.

    Args:
        source: (1, d) or (d,) weights w_src of a released PLR with the same norm_bound.
        epsilon: ε of the target. l2: λ > 0. pull: η > 0. norm_bound, random_state: as in `PrivateLogisticRegression`.
    """
    if not (l2 > 0.0 and pull > 0.0):
        raise ValueError(f"l2 = {l2}, pull = {pull}: both must be above 0")
    towards = np.ravel(np.asarray(source, dtype=np.float64)) * (pull / (l2 + pull))
    return PrivateLogisticRegression(epsilon, l2 + pull, norm_bound, towards, random_state=random_state)
