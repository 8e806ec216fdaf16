"""What bounds one user's δ(ε): several bounds, each worked out when it is first needed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from p2p_sim.privacy.binomial_windows import SUBNORMAL
from p2p_sim.privacy.inversion import cross
from p2p_sim.privacy.overlays.symmetric_pairs import Divergence, amplified, amplified_delta
from p2p_sim.privacy.overlays.three_point_pairs import TargetLevels
from p2p_sim.privacy.randomized_response import local_delta, outward


@dataclass(frozen=True, eq=False)
class UserBound:
    """What bounds one user's δ(ε).

    With probability `met` a member fetched her bit, or everybody knows it: then only the local noise is left. Otherwise
    the least of the bounds counts that `ways` build, each when it is first needed. levels: those of the last way, and
    of the first, which holds a few of them. precision: relative, of ε, from above.
    """

    flip_prob: float
    met: float
    ways: tuple[Callable[[], Divergence], ...]
    levels: TargetLevels | None = None
    precision: float = 1e-6
    _built: list[Divergence] = field(default_factory=list, init=False, repr=False)

    def delta(self, epsilon: float) -> float:
        """Certified upper bound on δ(ε)."""
        return min(self._bounds(epsilon))

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified."""
        return any(bound <= delta for bound in self._bounds(epsilon, delta))

    def epsilon(self, delta: float) -> float:
        """Certified ε(δ), at most ε₀."""
        return cross(lambda epsilon: not self.holds(epsilon, delta), self.flip_prob, precision=self.precision)[1]

    def best_levels(self, epsilon: float) -> tuple[int, ...]:
        """The places of a few levels τ that together nearly give the least δ(ε); none where another way gives less."""
        if self.levels is None:
            return ()
        last = amplified_delta(self._built[-1], self.flip_prob, epsilon)
        others = [amplified_delta(its, self.flip_prob, epsilon, last) for its in self._built[1:-1]]
        if min(others, default=last if len(self._built) > 1 else 0.0) < last:
            return ()
        return self.levels.best(amplified(self.flip_prob, epsilon)[1])

    def _bounds(self, epsilon: float, delta: float | None = None) -> Iterator[float]:
        """Bounds of δ(ε); given δ, larger ones on the same side of it."""
        direct = local_delta(self.flip_prob, epsilon).upper
        yield direct
        limit = None if delta is None else (delta - self.met * direct) / max(1.0 - self.met, SUBNORMAL)
        for place, way in enumerate(self.ways):
            if place == len(self._built):
                self._built.append(way())
            rest = amplified_delta(self._built[place], self.flip_prob, epsilon, limit)
            seen = self.met > 0.0 or rest > 0.0
            yield outward(0.0, (self.met * direct + (1.0 - self.met) * rest) * (1.0 + 1e-12)).upper if seen else 0.0
