"""PST-H: hypotheses that one organisation releases once, and others start from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from p2p_sim.stacking.clipped_rows import FeatureGroups, check_public, read_examples
from p2p_sim.stacking.plr import PrivateLogisticRegression
from p2p_sim.stacking.pst import GroupModels, GroupStacking


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
        """Learn from the target's rows X (n, d) and labels y (n,) of two classes.

        Raises:
            ValueError: as in `FeatureStacking`, or there is no source.
        """
        self._check()
        if not isinstance(self.source, GroupModels):
            given = None if self.source is None else type(self.source).__name__
            raise ValueError(f"source = {given}: must be the released models of a fitted FeatureStacking (its models_)")
        check_public(self.importance, self.importance_is_public)
        rows, signs = read_examples(self, X, y)
        theirs = self.source.groups
        shares = theirs.importance if self.importance is None else self.importance
        groups = FeatureGroups.of(rows.shape[1], 1, theirs.members, shares, theirs.norm_bounds)
        ratios = np.asarray(theirs.importance) / np.asarray(groups.importance)
        self._fit(
            rows, signs, groups, tuple(ratio * w for ratio, w in zip(ratios, self.source.coefficients, strict=True))
        )
        return self


def pphtl(
    source: ArrayLike, epsilon: float, l2: float, pull: float, norm_bound: float = 1.0,
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
