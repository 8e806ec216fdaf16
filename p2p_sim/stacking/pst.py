"""Private stacking and hypothesis transfer: private models of parts of rows or features, combined or passed on."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.rivals.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
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
COMBINERS = ("stacked", "majority", "weighted", "mean")


@dataclass(frozen=True)
class GroupModels:
    """The released models of feature groups: all that an organisation passes on, and all that prediction needs.

    groups: their features, importance and norm bounds.
    coefficients: (K,) weights (d_k,) for rows scaled to norm at most q_k.
    perturbation: noise and regularisation with which all K were learned from the same rows.
    """

    groups: FeatureGroups
    coefficients: tuple[Floats, ...]
    perturbation: ObjectivePerturbation

    @property
    def privacy(self) -> PrivacyBound:
        """ε bound of the rows from which the models were learned, against everybody who gets the models."""
        return self.perturbation.privacy()

    def margins(self, rows: Floats) -> Floats:
        """Scores (n, K) that the K models give the rows (n, d)."""
        parts = self.groups.scaled(rows)
        return np.stack([part @ w for part, w in zip(parts, self.coefficients, strict=True)], axis=1)


class RowsOfLevels(NamedTuple):
    """Indices of the rows that train the low-level models, and of those that train the high-level combiner."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]


@dataclass(eq=False, repr=False)
class _Stacking(PrivateBinaryClassifier):
    """Base of the stacking estimators: splits the rows, combines the low-level models, and predicts.

    It is a dataclass, as scikit-learn wants a constructor that keeps every parameter by name.
    """

    epsilon: float = 1.0
    _: KW_ONLY
    l2: float = 0.01
    combiner: Combiner = "stacked"
    low_share: float = 0.5
    tight: bool = False
    random_state: int | np.random.Generator | None = None

    def _check(self) -> None:
        """Raise ValueError for a parameter of this base class that is out of its range."""
        check_positive(epsilon=self.epsilon, l2=self.l2)
        if self.combiner not in COMBINERS:
            raise ValueError(f"combiner = {self.combiner!r}: must be one of {', '.join(COMBINERS)}")
        if not 0.0 < self.low_share <= 1.0 or (self.low_share == 1.0 and self.combiner == "stacked"):
            raise ValueError(
                f"low_share = {self.low_share}: must lie in (0, 1], below 1 where the combiner is 'stacked'"
            )

    def _split(self, num_rows: int, rng: np.random.Generator, parts: int = 1) -> RowsOfLevels:
        """Assigns the rows to the two levels at random; at least one row for each of the low level's parts."""
        low = num_rows if self.low_share == 1.0 else round(self.low_share * num_rows)
        if low < parts or (self.combiner == "stacked" and low == num_rows):
            raise ValueError(f"n_samples = {num_rows}: too few rows for {parts} low-level parts and a high level")
        order = rng.permutation(num_rows)
        return RowsOfLevels(order[:low], order[low:])

    def _combine(
        self, margins: Floats, signs: Floats, low: tuple[ObjectivePerturbation, ...], rng: np.random.Generator
    ) -> None:
        """Trains the high level on low-level scores (m, K) of its own rows, and states the privacy of both levels."""
        stages = [*low]
        self.high_coef_ = None
        if self.combiner == "stacked":
            high = calibrate_perturbation(self.epsilon, len(signs), [self.l2], tight=self.tight)
            meta = meta_features(margins)
            self.high_coef_ = train(meta, signs, high, rng=rng, prior=np.zeros(meta.shape[1]))
            stages.append(high)
        bounds = [stage.privacy() for stage in stages]
        # Disjoint rows, parted without looking at them: a neighbour differs in one part only.
        self.privacy_ = replace(bounds[0], epsilon_upper=max(bound.epsilon_upper for bound in bounds))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (n,) of the high level, or else the weighted mean of votes ±1 or of tanh(margin/2) = 2p - 1."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        margins = self._margins(read_rows(self, X))
        if self.high_coef_ is not None:
            return np.asarray(meta_features(margins) @ self.high_coef_)
        votes = np.tanh(0.5 * margins) if self.combiner == "mean" else np.sign(margins)
        shares = np.full(margins.shape[1], 1.0 / margins.shape[1]) if self.combiner == "majority" else self._shares()
        # sums of shares that tie differ in their last bits: rounded, they tie in the area under the ROC curve too
        return np.round(votes @ shares, 12)

    def _margins(self, rows: Floats) -> Floats:
        raise NotImplementedError

    def _shares(self) -> Floats:
        raise NotImplementedError


def meta_features(margins: Floats) -> Floats:
    """Inputs (n, K) of the high level, (2p - 1)/√K for low-level probabilities p, given low-level scores (n, K).

    They have norm at most 1 whatever the data, and are 0 where a model is undecided. The paper takes p itself, which
    needs an intercept and spends most of the norm on what all rows have in common.
    """
    return np.asarray(np.tanh(0.5 * margins) / np.sqrt(margins.shape[1]))


@dataclass(eq=False, repr=False)
class SampleStacking(_Stacking):
    """PST-S: low-level models of disjoint samples, combined by a private model of further rows (Algorithm 2).

    Every row is in one part, and the parts do not depend on the rows' contents, so ε is the largest ε of a part, not
    the sum (parallel composition).

    Args:
        epsilon: ε > 0; infinite: no noise.
        n_parts: K, number of low-level models, at least 1.
        l2: λ > 0 of every model, for rows of norm at most 1.
        norm_bound: public norm at which rows are clipped (and which they are divided by), above 0.
        combiner: "stacked": a high-level PLR; "majority" and "weighted" (here alike): votes; "mean": of probabilities.
        low_share: part of the rows for the low level, in (0, 1]; 1 only if nothing is stacked.
        tight: calibrate by the sharper proof. random_state: None, a seed or a NumPy Generator.

    Attributes:
        coef_: (K, d) low-level weights. high_coef_: (K,) or None. classes_: (2,).
        privacy_: the `PrivacyBound` of all that is fitted, adjacency "example".
    """

    n_parts: int = 5
    norm_bound: float = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "SampleStacking":
        """Learns from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter out of its range, NaN or infinite features, one class only, too few rows.
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

    def _shares(self) -> Floats:
        return np.full(len(self.coef_), 1.0 / len(self.coef_))


@dataclass(eq=False, repr=False)
class GroupStacking(_Stacking):
    """Base of estimators that stack models of feature groups, with or without a source's models to start from."""

    _: KW_ONLY
    importance: Sequence[float] | None = None
    importance_is_public: bool = False

    def _fit(self, rows: Floats, signs: Floats, groups: FeatureGroups, priors: tuple[Floats, ...]) -> Self:
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

    def _shares(self) -> Floats:
        return np.asarray(self.models_.groups.importance)


@dataclass(eq=False, repr=False)
class FeatureStacking(GroupStacking):
    """PST-F: low-level models of feature groups that share ε by importance, and a private combiner (Algorithm 3).

    The rows of group k are clipped at their norm bound and scaled to norm q_k, the noise is the same for all groups: so
    group k gets the part q_k ε' of the budget, and the low level costs their sum, ε (the theorem in
    `p2p_sim/privacy/rivals/objective_perturbation`). The high level uses other rows, so the total is ε. λ_k = λ q_k²,
    the same penalty for every group in units of its own rows.

    Importance and groups must not come from the data. No program can check this, so importance must be declared public.

    Args:
        epsilon: ε > 0; infinite: no noise.
        n_groups: K, where `groups` is None: consecutive features, no more groups than there are features.
        groups: (K,) disjoint sequences of feature indices; features in no group are not used.
        importance: (K,) q_k > 0, of sum 1; None: uniform, "PST-F(U)".
        importance_is_public: must be True where importance is given.
        l2: λ > 0 of every model, for rows of norm at most 1.
        norm_bound: public norm at which the rows of a group are clipped, above 0; one or (K,).
        combiner: "stacked": a high-level PLR; "majority", "weighted" (by importance): votes; "mean": of probabilities,
            by importance.
        low_share: part of the rows for the low level, in (0, 1]; 1 only if nothing is stacked.
        tight: calibrate by the sharper proof. random_state: None, a seed or a NumPy Generator.

    Attributes:
        models_: the released `GroupModels` of the low level. high_coef_: (K,) or None. classes_: (2,).
        perturbation_: noise and Δ_k of the low level. privacy_: the `PrivacyBound` of everything that is fitted.
    """

    n_groups: int = 5
    groups: Sequence[Sequence[int]] | None = None
    norm_bound: float | Sequence[float] = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike) -> "FeatureStacking":
        """Learns from rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: a parameter out of its range, groups that overlap, importance that does not sum to 1 or was not
                declared public, NaN or infinite features, one class only.
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
    """Trains the low level of Algorithm 3: a private model for each feature group, at ε for all of them together.

    Args:
        rows: (n, d), not clipped. signs: (n,) labels ±1. groups: with importance q_k.
        priors: (K,) u_k (d_k,), towards which weights are drawn, for rows scaled to norm at most q_k.
        l2: λ; group k has λ q_k².
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
    """PST-H: private feature stacking of a target; its models are drawn towards a source's (Algorithm 4, corrected).

    The source is `models_` of a `FeatureStacking` of the source's rows: trained on all groups at ε_src *together* and
    released once for all targets, which is post-processing. (Algorithm 4 as printed trains a PLR at ε_src for each
    group: K ε_src.) Group k has (λ_k/2)|w - u_k|², with u_k the source's weights times q_k(source)/q_k(target), because
    rows are scaled to norm q_k. The target's own rows cost ε; the source's bound is `source.privacy`.

    Args:
        epsilon: ε of the target > 0; infinite: no noise.
        source: released models; the target uses the same groups and norm bounds.
        importance: (K,) q_k of the target, of sum 1; None: the source's.
        importance_is_public: must be True where importance is given.
        l2: λ > 0: how strongly the target's models are drawn to the source's; also λ of the high level.
        combiner, low_share, tight, random_state: as in `FeatureStacking`.

    Attributes:
        as in `FeatureStacking`.
    """

    source: GroupModels | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> "TransferStacking":
        """Learns from the target's rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: as in `FeatureStacking`, or there is no source.
        """
        self._check()
        if not isinstance(self.source, GroupModels):
            kind = None if self.source is None else type(self.source).__name__
            raise ValueError(f"source = {kind}: must be the released models of a fitted FeatureStacking (its models_)")
        check_public(self.importance, self.importance_is_public)
        rows, signs = read_examples(self, X, y)
        theirs = self.source.groups
        shares = theirs.importance if self.importance is None else self.importance
        groups = FeatureGroups.of(rows.shape[1], 1, theirs.members, shares, theirs.norm_bounds)
        # u_k, in units of the target's scaled rows
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
