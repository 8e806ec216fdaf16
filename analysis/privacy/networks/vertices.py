"""Equal pairs (Bernoulli(p_i), Bernoulli(p_i + c)) of m users, each with her own p_i in a band: the worst of all.

Both laws of the product are linear in each p_i, so that a divergence is convex in it, and largest where every p_i is at
an end of its band. Users are alike: all that matters is how many of them, K, are at the lower end. For K from k to k'
let k users be at the lower end, m - k' at the upper one, and the others have the three points that bound both. This
says less than three points for all users, which show at the same time that p_i is small and that it is large.

Most rows. The rows may all be low together, or one of them at a time. Let τ_0 be a level at which hardly anybody is
stray: these show all that they may. At a higher level τ let up to M users be outside of the band: they have three
points at τ_0. More than M are outside with a probability of at most the expected number over M + 1 (Markov). Then a
band of a lower level counts, and in the end that of τ_0.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from p2p_sim.analysis.privacy.networks.losses import Levels
from p2p_sim.analysis.privacy.networks.shift_law import Shift, ShiftLaw, product

_BLOCKS = 16
"""Ranges of K."""
_APART = 3
"""Of so many levels one is looked at."""
_OUTSIDE = 32
"""One in so many users may be outside of her band."""
_BASES = 4
"""Of so many levels one may be τ_0, so that few laws are needed."""
_SPARE = 0.1
"""Share of a bound that those who are stray at τ_0 may cost."""


@dataclass(frozen=True, eq=False)
class Vertices:
    """Bound of the divergences of users whose p_i are moved by `cap`.

    `count` have p_i in [level, 1 - level - cap], and `outside` more in [least, 1 - least - cap].
    """

    level: float
    cap: float
    count: int
    least: float
    outside: int

    @cached_property
    def laws(self) -> list[ShiftLaw]:
        """For each range of K."""
        ends = np.unique(np.linspace(0, self.count, _BLOCKS + 1).round().astype(int)).tolist()
        return [self._law(first, last) for first, last in pairwise(ends)]

    def _law(self, first: int, last: int) -> ShiftLaw:
        low, high = self.level, 1.0 - self.level - self.cap
        bands = ((low, low, first), (high, high, self.count - last), (low, high, last - first))
        shifts = [Shift(1.0, least, most, self.cap, many) for least, most, many in bands]
        return product([*shifts, Shift(1.0, self.least, 1.0 - self.least - self.cap, self.cap, self.outside)])

    def divergence(self, ratio: float) -> float:
        """Of either direction: to swap the labels swaps both the ends of the band and the directions."""
        return max(float(law.above(np.array([ratio]))[0]) for law in self.laws)


@dataclass(frozen=True, eq=False)
class VertexLevels:
    """The bound of `Levels` for users with one pair, or that of most rows' `Vertices` if it is smaller.

    Args:
        levels: with one law for each of `at`, by three points. at: the levels τ, ascending. cap, count: c and m.
    """

    levels: Levels
    at: tuple[float, ...]
    cap: float
    count: int
    _vertices: dict[tuple[int, int], Vertices] = field(default_factory=dict, init=False)

    def divergence(self, ratio: float, limit: float | None = None) -> float:
        """Upper bound of HS_ratio, averaged over the revealed bits; with a limit, one on the same side of it."""
        best, before = self.levels.divergence(ratio), 2.0
        while best < 0.98 * before and (limit is None or best > limit):
            before = best
            rare = [k for k, leak in enumerate(self.levels.leaks) if leak <= _SPARE * best]
            if rare:
                best = min(best, self._layered(ratio, rare[-1] - rare[-1] % _BASES))
        return best

    def _layered(self, ratio: float, base: int) -> float:
        """The bound with τ_0 the level with the number `base`."""
        outside = self.count // _OUTSIDE
        tried = range(base + _APART, len(self.at), _APART)
        values = np.array(
            [self._worst(base, base).divergence(ratio), *(self._worst(k, base).divergence(ratio) for k in tried)]
        )
        chances = [1.0, *(min(1.0, self.levels.strays[k] / (outside + 1)) for k in tried)]
        order = np.argsort(-values)
        order = order[int(np.flatnonzero(order == 0)[0]) :]  # what is above the band of τ_0 is of no use
        steps = -np.diff(values[order])
        unlikely = np.minimum.accumulate(np.array(chances)[order][::-1])[::-1][1:]
        return float(self.levels.leaks[base] + values[order[-1]] + steps @ unlikely) * (1.0 + 1e-12)

    def _worst(self, level: int, base: int) -> Vertices:
        if (level, base) not in self._vertices:
            outside = self.count // _OUTSIDE if level > base else 0
            shape = (self.at[level], self.cap, self.count - outside, self.at[base], outside)
            self._vertices[level, base] = Vertices(*shape)
        return self._vertices[level, base]
