"""Lower ends for any fetch distribution: what the view of the target with the most exposed label attains.

Users whose bits are known count as known zeros: the figure is about the worst labels and the worst known bits. If
members pooled with the learner fetched the target's bit, which they see, the local noise is left; else what the others
submit is as without members, and what members know is forgotten. So

    δ(ε) >= met · δ₀(ε) + (1 - met) · (δ of what the others submit).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.networks.attained import attained_epsilon
from p2p_sim.analysis.privacy.networks.similar_world import Needed, Submitters
from p2p_sim.analysis.privacy.statement.inversion import cross
from p2p_sim.analysis.privacy.statement.local import local_delta, worth
from p2p_sim.analysis.privacy.statement.windows import Floats

FEW = 7
"""Most others with unknown bits, and most submitters, for which all labels, bits and views are enumerated."""
_CELLS = 2**22
"""Most entries of a table of submitters and sources; submitters with small weights are left out."""


@dataclass(frozen=True, eq=False)
class LowerEnd:
    """Lower ends of an exchange in which user i fetches from j with probability rows[i, j].

    Args:
        rows, columns: (n, n), the table twice. flip_prob: α in [0, 1/2]. rates: (n,), probabilities that labels arrive.
        known: (n,) bool, whose bits the learner knows; they are no targets. members: (n,) bool, pooled with the
            learner. draws: labels that each member got.
    """

    rows: "scipy.sparse.csr_array"
    columns: "scipy.sparse.csc_array"
    flip_prob: float
    rates: Floats
    known: NDArray[np.bool_]
    members: NDArray[np.bool_]
    draws: int

    def worst(self, delta: float, among: NDArray[np.bool_] | None) -> float:
        """The largest for some users; None: all."""
        asked = np.ones(len(self.rates), dtype=np.bool_) if among is None else among
        return max((self.epsilon(target, delta) for target in self.targets(asked)), default=0.0)

    def targets(self, among: NDArray[np.bool_]) -> list[int]:
        """Users who seem the worst placed: whom few fetch often, and whom members fetch most."""
        possible = among & ~self.known & ~self.members
        if not possible.any():
            return []
        counted = np.where(self.members, 0.0, self.rates)
        shown = [counted @ self.rows.power(2)]
        if self.members.any():
            shown.append(self.members.astype(np.float64) @ self.rows)
        return list(dict.fromkeys(int(np.argmax(np.where(possible, exposed, -1.0))) for exposed in shown))

    def epsilon(self, target: int, delta: float) -> float:
        """A lower end of ε(δ) of one user."""
        users, weights = self._column(target)
        pooled, counts = self.members[users], (self.rates[users] > 0.0) & ~self.members[users]
        met = _any(weights[pooled]) if self.draws == 1 else _any(np.repeat(weights[pooled], self.draws))
        users, weights = users[counts], weights[counts]
        if self.flip_prob == 0.0:  # a one is hers
            return math.inf if met + (1.0 - met) * _any(self.rates[users] * weights) > delta * (1.0 + 1e-9) else 0.0
        if met >= 1.0:
            return cross(lambda epsilon: local_delta(self.flip_prob, epsilon).lower > delta, self.flip_prob)[0]

        def needed(epsilon: float) -> float:
            direct = met * local_delta(self.flip_prob, epsilon).lower
            return (delta - direct) * (1.0 + math.copysign(1e-12, delta - direct)) / (1.0 - met)

        alone = cross(lambda epsilon: needed(epsilon) < 0.0, self.flip_prob)[0]
        if not users.size or self.flip_prob == 0.5:
            return alone
        seen = np.flatnonzero((self.rates > 0.0) & ~self.members)
        if seen.size <= FEW and self._hiding(seen, target).size <= FEW:
            return max(alone, enumerated_epsilon(self.view(seen, target), needed))
        return max(alone, attained_epsilon(self.fetchers(target), needed))

    def fetchers(self, target: int) -> Submitters:
        """Those who may fetch from the target; of very many, those with the largest weights."""
        users, weights = self._column(target)
        counts = (self.rates[users] > 0.0) & ~self.members[users]
        order = users[counts][np.argsort(-weights[counts], kind="stable")]
        while order.size > 1 and order.size * self._hiding(order, target).size > _CELLS:
            order = order[: order.size // 2]
        return self.view(order, target)

    def view(self, users: NDArray[np.integer], target: int) -> Submitters:
        """What some users submit: their weights on the others with unknown bits, and on the target."""
        rows = self.rows[users]
        own = np.asarray(rows[:, [target]].toarray()).ravel()
        hiding = self._hiding(users, target)
        alpha = self.flip_prob
        return Submitters(rows[:, hiding].toarray(), own, self.rates[users], alpha, 1.0 - alpha)

    def _hiding(self, users: NDArray[np.integer], target: int) -> NDArray[np.integer]:
        """The others with unknown bits whom some users may fetch from."""
        sources = np.unique(self.rows[users].indices)
        return np.asarray(sources[~self.known[sources] & (sources != target)])

    def _column(self, target: int) -> tuple[NDArray[np.int32], Floats]:
        part = slice(self.columns.indptr[target], self.columns.indptr[target + 1])
        return self.columns.indices[part], self.columns.data[part]


def enumerated_epsilon(view: Submitters, needed: Needed) -> float:
    """The ε up to which δ(ε) is above what is needed, over all labels of the others; exact for few users.

    Args:
        view: up to `FEW` submitters, whether they may fetch from the target or not, and up to `FEW` others.
        needed: δ that must be exceeded, by ε.
    """
    others, alpha = view.weights.shape[1], view.flip_prob
    bits = (np.arange(2**others)[:, None] >> np.arange(others)) & 1
    flips = (bits[:, None, :] != bits[None, :, :]).sum(axis=2)
    chance = alpha**flips * (1.0 - alpha) ** (others - flips)
    laws = []
    for own in (0.0 * view.own, view.own):
        table = np.ones((2**others, 1))
        for rate, p in zip(view.rates, np.minimum(bits @ view.weights.T + own, 1.0).T, strict=True):
            seen = np.stack([rate * (1.0 - p), rate * p, np.full(len(p), 1.0 - rate)], axis=1)
            table = (table[:, :, None] * seen[:, None, :]).reshape(2**others, -1)
        laws.append(chance @ table)

    def above(epsilon: float) -> bool:
        keep, lose, doubt = worth(alpha, epsilon)
        gained = keep * (1.0 - doubt - 1e-12)
        least = [np.maximum(gained * p - lose * (1.0 + 1e-12) * q, 0.0) for p, q in (laws, laws[::-1])]
        return max(float(worths.sum(axis=1).max()) for worths in least) * (1.0 - 1e-12) > needed(epsilon)

    return cross(above, alpha)[0]


def _any(chances: Floats) -> float:
    """Probability that one of several independent events happens, rounded down."""
    with np.errstate(divide="ignore"):
        return max(0.0, -math.expm1(float(np.log1p(-np.minimum(chances, 1.0)).sum())) * (1.0 - 1e-12))
