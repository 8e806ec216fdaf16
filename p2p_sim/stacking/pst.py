"""Private stacking and hypothesis transfer: private models of parts of the rows or features, combined or passed on.

Low-level models are trained on parts of the data; the high level combines their scores. PLR is the private logistic
regression of `plr.py`. Numbers of algorithms and equations are those of the stacking paper (Yao et al. 2019).
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
    """The released models of K feature groups: all that an organisation passes on, and all that prediction needs.

    coefficients: (K,) for each group k the weights (d_k,) of its d_k features. They belong to rows that are scaled to
    norm at most the group's importance q_k.
    perturbation: noise and regularisation with which all K models were learned from the same rows.
    """

    groups: FeatureGroups
    coefficients: tuple[Floats, ...]
    perturbation: ObjectivePerturbation

    @property
    def privacy(self) -> PrivacyBound:
        """The privacy bound for each row from which the models were learned, against all who get the models."""
        return self.perturbation.privacy()

    def margins(self, rows: Floats) -> Floats:
        """The scores (n, K) that the K models give the rows (n, d)."""
        parts = zip(self.groups.scaled(rows), self.coefficients, strict=True)
        return np.stack([part @ w for part, w in parts], axis=1)


@dataclass(eq=False, repr=False)
class _Stacking(PrivateBinaryClassifier):
    """Base of the stacking estimators: splits the rows, combines the low-level models, and predicts."""

    epsilon: float = 1.0
    _: KW_ONLY
    l2: float = 0.01
    combiner: Combiner = "stacked"
    low_share: float = 0.5
    tight: bool = False
    random_state: int | np.random.Generator | None = None

    def _check(self) -> None:
        """Raise ValueError if a parameter that all stacking estimators have is out of its range: ε and λ (`l2`) must be
        above 0, `combiner` must be a known name, and `low_share` must lie in (0, 1], below 1 if a high-level model is
        trained.
        """
        check_positive(epsilon=self.epsilon, l2=self.l2)
        if self.combiner not in get_args(Combiner):
            raise ValueError(f"combiner = {self.combiner!r}: must be one of {', '.join(get_args(Combiner))}")
        if not 0.0 < self.low_share <= 1.0 or (self.low_share == 1.0 and self.combiner == "stacked"):
            raise ValueError(
                f"low_share = {self.low_share}: must lie in (0, 1], below 1 where the combiner is 'stacked'"
            )

    def _split(self, num_rows: int, rng: np.random.Generator, parts: int = 1) -> list[NDArray[np.intp]]:
        """A random split of the row numbers 0..num_rows-1 into two arrays. The first has the share `low_share` of the
        rows, for low-level models; the second has the others, for the high-level model that combines them. Raises
        ValueError if there are too few rows.

        Args:
            num_rows: how many rows there are. rng: draws the split. parts: into how many disjoint samples the low-level
            rows will be cut; at least as many rows are needed.
        """
        low = num_rows if self.low_share == 1.0 else round(self.low_share * num_rows)
        if low < parts or (self.combiner == "stacked" and low == num_rows):
            raise ValueError(f"n_samples = {num_rows}: too few rows for {parts} low-level parts and a high level")
        return np.split(rng.permutation(num_rows), [low])

    def _combine(
        self, margins: Floats, signs: Floats, low: tuple[ObjectivePerturbation, ...], rng: np.random.Generator
    ) -> None:
        """Trains the high-level model if there is one, and states the privacy of all that is fitted. The high-level
        model predicts the label from the scores that the low-level models give to rows on which they were not trained;
        its weights become `high_coef_` (None without such a model). Each row is used in one training only, so the total
        ε is the largest ε of a training. The bound with this ε becomes `privacy_`.

        Args:
            margins: (m, K) scores of m rows by K low-level models. signs: (m,) their labels ±1. low: the noise and
            regularisation of each separate training of low-level models, from which its ε follows. rng: draws the high
            level's noise.
        """
        bounds, self.high_coef_ = [perturbation.privacy() for perturbation in low], None
        if self.combiner == "stacked":
            high = calibrate_perturbation(self.epsilon, len(signs), [self.l2], tight=self.tight)
            meta = meta_features(margins)
            self.high_coef_ = train(meta, signs, high, rng=rng, prior=np.zeros(meta.shape[1]))
            bounds.append(high.privacy())
        # parts are disjoint and chosen without looking at the rows: a neighbouring data set differs in one part only
        self.privacy_ = replace(bounds[0], epsilon_upper=max(bound.epsilon_upper for bound in bounds))

    def decision_function(self, X: ArrayLike) -> Floats:
        """The scores (n,) of the rows X (n, d): above 0 for the second of `classes_`.

        They come from the high-level model. Without one, they are the weighted mean of the low level's votes ±1, or of
        tanh(score/2) = 2p - 1, where p is the low-level probability.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        margins = self._margins(read_rows(self, X))
        if self.high_coef_ is not None:
            return np.asarray(meta_features(margins) @ self.high_coef_)
        votes = np.tanh(0.5 * margins) if self.combiner == "mean" else np.sign(margins)
        # sums of equal shares may differ in their last bits; rounded, they tie, also in the area under the ROC curve
        return np.round(votes @ self._shares(margins.shape[1]), 12)

    def _margins(self, rows: Floats) -> Floats:
        """The low-level scores (n, K) of the rows (n, d)."""
        raise NotImplementedError

    def _shares(self, count: int) -> Floats:
        """Weights (K,), with sum 1, of the votes of K low-level models where no high-level model is trained. Here all
        are equal; a subclass may use the public importance of each model's features.

        Args:
            count: K.
        """
        return np.full(count, 1.0 / count)


def meta_features(margins: Floats) -> Floats:
    """The inputs (n, K) of the high level, (2p - 1)/√K for low-level probabilities p, from low-level scores (n, K).

    Each row has norm at most 1 whatever the data; an entry is 0 where a model is undecided. The stacking paper takes p
    itself, which needs an intercept, and spends most of the norm on what all rows have in common.
    """
    return np.asarray(np.tanh(0.5 * margins) / np.sqrt(margins.shape[1]))


@dataclass(eq=False, repr=False)
class SampleStacking(_Stacking):
    """PST-S: low-level models of disjoint samples, combined by a private model of further rows (Algorithm 2).

    Every row is in one part, and the parts do not depend on what the rows hold. So the total ε is the largest ε of a
    part, not the sum (parallel composition).

    Args:
        epsilon: ε > 0; infinite: no noise.
        n_parts: K, number of low-level models, at least 1.
        l2: λ > 0 of every model.
        norm_bound: public norm, above 0: rows are clipped to it, then divided by it.
        combiner: "stacked": a high-level PLR; "majority", "weighted" (here alike): mean vote; "mean": mean probability.
        low_share: share of the rows for the low level, in (0, 1]; below 1 for the combiner "stacked".
        tight: whether to calibrate by the sharper proof. random_state: None, a seed or a NumPy Generator.

    Attributes:
        coef_: (K, d) low-level weights. high_coef_: (K,) high-level weights, or None. classes_: (2,).
        privacy_: the `PrivacyBound` of all that is fitted, adjacency "example".
    """

    n_parts: int = 5
    norm_bound: float = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "SampleStacking":
        """Learn from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter is out of its range, a feature is NaN or infinite, there are not two classes, or
            there are too few rows.
        """
        self._check()
        check_positive(norm_bound=self.norm_bound, n_parts=self.n_parts)
        rows, signs = read_examples(self, X, y)
        rng = np.random.default_rng(self.random_state)
        low, high = self._split(len(rows), rng, self.n_parts)
        # a model of each part, then the high-level model, trained on their scores of its own rows
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
    """Base of estimators that stack models of feature groups, with or without another owner's models as priors."""

    _: KW_ONLY
    importance: Sequence[float] | None = None
    importance_is_public: bool = False

    def _fit(self, rows: Floats, signs: Floats, groups: FeatureGroups, priors: tuple[Floats, ...]) -> Self:
        """Trains the low-level models of all feature groups on some of the rows. Then trains the high-level model, if
        there is one, on the other rows. Returns the estimator itself.

        Args:
            rows: (n, d) features. signs: (n,) labels ±1. groups: the K groups of features with importance q_k and
            norm bounds. priors: K vectors (d_k,), one for each group of d_k features, towards which the group's weights
            are pulled.
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
    """PST-F: low-level models of feature groups that share ε by importance, and a private combiner (Algorithm 3).

    A row's features in group k are clipped, then scaled to norm q_k; the noise has the same scale, 2/ε', for all
    groups, where ε' is the part of ε that the noise of all groups costs. So the noise of group k costs ε' q_k. All
    groups together cost at most ε. This total includes the determinants in the theorem of
    `p2p_sim/privacy/rivals/objective_perturbation`. The high level uses other rows, so the total is ε. The penalty
    λ_k = λ q_k² of group k amounts to λ for every group, if its weights are restated for rows scaled to norm 1 rather
    than q_k.

    Importance and groups must not come from the data. No program can check this: importance must be declared public.

    Args:
        epsilon: ε > 0; infinite: no noise.
        n_groups: K, at most the number of features. If `groups` is None, features are cut into K consecutive groups.
        groups: (K,) disjoint sequences of feature indices; a feature that is in no group is not used.
        importance: (K,) q_k > 0, of sum 1; None: uniform, "PST-F(U)".
        importance_is_public: must be True where importance is given.
        l2: λ > 0.
        norm_bound: public norms, above 0, at which a row's features in each group are clipped; one for all, or (K,).
        combiner: "stacked": a high-level PLR; "majority": the mean vote; "weighted" and "mean": the mean vote and the
            mean probability, weighted by importance.
        low_share: share of the rows for the low level, in (0, 1]; below 1 for the combiner "stacked".
        tight: whether to calibrate by the sharper proof. random_state: None, a seed or a NumPy Generator.

    Attributes:
        models_: the released `GroupModels` of the low level. high_coef_: (K,) or None. classes_: (2,).
        perturbation_: noise and Δ_k of the low level. privacy_: the `PrivacyBound` of everything that is fitted.
    """

    n_groups: int = 5
    groups: Sequence[Sequence[int]] | None = None
    norm_bound: float | Sequence[float] = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "FeatureStacking":
        """Learn from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter is out of its range, groups overlap, importance does not sum to 1 or was not
                declared public, a feature is NaN or infinite, there are not two classes, or there are too few rows.
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
    """Trains the low level of Algorithm 3: a private model for each of K feature groups, at ε for all of them together.
    A row's features in group k are clipped at the group's public norm bound, then scaled to norm at most q_k, the
    group's importance (all q_k sum to 1).

    Args:
        rows: (n, d), not clipped. signs: (n,) labels ±1. groups: the groups with norm bounds and q_k. priors: K
        vectors u_k (d_k,) towards which the weights are pulled; the weights belong to rows that are scaled as said.
        epsilon: ε. l2: λ; the penalty of group k has the weight λ q_k². tight: whether the noise is calibrated by a
        sharper proof than the stacking paper's; this proof needs less noise. rng: draws the noise.
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
    """PST-H: private feature stacking by one owner, the target, with another owner's models, the source's, as priors.

    This is Algorithm 4, corrected. The source's models are `models_` of a `FeatureStacking` of the source's rows: all K
    groups *together* cost the source's ε, called ε_src. Using the models for any number of targets is post-processing.
    (Algorithm 4 as printed trains a PLR at ε_src for each group, which costs K ε_src.) Group k has the penalty
    (λ_k/2)|w - u_k|². Here u_k is the vector of the source's weights times q_k(source)/q_k(target), because rows are
    scaled to norm q_k, the group's importance. The target's own rows cost ε; the source's bound is `source.privacy`.

    Args:
        epsilon: ε of the target > 0; infinite: no noise.
        source: the source's released models; the target uses the same groups and norm bounds.
        importance: (K,) q_k of the target, of sum 1; None: the source's.
        importance_is_public: must be True where importance is given.
        l2: λ > 0: how strongly the target's models are pulled to the source's; also λ of the high level.
        combiner: "stacked": a high-level PLR; "majority": the mean vote; "weighted" and "mean": the mean vote and the
            mean probability, weighted by importance.
        low_share: share of the rows for the low level, in (0, 1]; below 1 for the combiner "stacked".
        tight: whether to calibrate by the sharper proof. random_state: None, a seed or a NumPy Generator.

    Attributes:
        models_: the released `GroupModels` of the low level. high_coef_: (K,) or None. classes_: (2,).
        perturbation_: noise and Δ_k of the low level. privacy_: the `PrivacyBound` of everything that is fitted.
    """

    source: GroupModels | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> "TransferStacking":
        """Learn from the target's rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter is out of its range, importance does not sum to 1 or was not declared public, a
                feature is NaN or infinite, there are not two classes, there are too few rows, or there is no source.
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
        # u_k, for the target's scaled rows
        ratios = np.asarray(theirs.importance) / np.asarray(groups.importance)
        priors = tuple(ratio * w for ratio, w in zip(ratios, self.source.coefficients, strict=True))
        return self._fit(rows, signs, groups, priors)


def pphtl(
    source: ArrayLike, epsilon: float, *, l2: float, pull: float, norm_bound: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> PrivateLogisticRegression:  # fmt: skip
    """PPHTL as the stacking paper describes it: PLR with a second penalty (η/2)|w - w_src|² (its equation 5).

    (λ/2)|w|² + (η/2)|w - w_src|² is ((λ+η)/2)|w - u|² with u = w_src η/(λ+η), up to a constant: one strongly convex
    penalty, to which the proof applies. With λ = 0 it would be plain PLR with transfer, `prior=w_src`. The original of
    Wang et al. (2018) weights several sources by a public auxiliary data set, which is not reproduced here.

    Args:
        source: (1, d) or (d,) weights w_src of a released PLR with the same norm_bound.
        epsilon: ε of the target. l2: λ > 0. pull: η > 0. norm_bound, random_state: as in `PrivateLogisticRegression`.
    """
    if not (l2 > 0.0 and pull > 0.0):
        raise ValueError(f"l2 = {l2}, pull = {pull}: both must be above 0")
    towards = np.ravel(np.asarray(source, dtype=np.float64)) * (pull / (l2 + pull))
    return PrivateLogisticRegression(epsilon, l2 + pull, norm_bound, towards, random_state=random_state)
