"""The learner's ε for any fetch distribution: overlays, random walks, peers that are offline.

User i fetches from j with probability W[i, j], known to the learner and independent of labels; choices are independent.
Reveal all noisy bits but the target v's. User i's released label is then 1 with probability p_i, or p_i + W[i, v] if
v's bit is one; users with W[i, v] = 0 say nothing more. With keep = 1-α-αe^ε and r = (e^ε(1-α)-α)/keep,

    δ(ε) <= keep · ( Σ_i rate_i W[i,v] Pr[p_i < τ or p_i + W[i,v] > 1-τ] + sup HS_r(⊗ A_i || ⊗ B_i) ),

the supremum over p_i in [τ, 1-τ-w]: those outside show whether they fetched v's bit, and, if so, the bit. Inside, the
pair (p, p+w) is a post-processing of the three-point pair (τ, 1-2τ-w, τ+w), (τ+w, 1-2τ-w, τ): answer 0 at the first
point, 1 at the last, and 1 with probability (p-τ)/(1-2τ-w) in the middle. So the product of the three-point pairs
bounds every product, mixed vertices included. `losses.Levels` combines several τ.

Two more bounds hold, and the least counts. Reveal who fetched from whom: δ(ε) <= Pr[somebody submits v's bit] · δ₀(ε),
where δ₀ = max(0, 1-α-αe^ε). And in a sparse overlay reveal only what others than v's fetchers use: `neighbourhood`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.networks.losses import LEAST_FLIP, Levels, LossLaw, amplified_delta
from p2p_sim.analysis.privacy.networks.neighbourhood import Neighbourhood
from p2p_sim.analysis.privacy.networks.three_point import fetch_levels, tail_bounds
from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.bound import Bracket, PrivacyBound
from p2p_sim.analysis.privacy.statement.checks import check_delta, check_epsilon, check_flip_prob
from p2p_sim.analysis.privacy.statement.conditions import FETCH_CONDITIONS, PASSIVE
from p2p_sim.analysis.privacy.statement.domain import REALISED
from p2p_sim.analysis.privacy.statement.inversion import cross
from p2p_sim.analysis.privacy.statement.local import local_delta, local_epsilon, outward
from p2p_sim.analysis.privacy.statement.windows import Floats

_NEARLY = 0.99
NEAR = 128
"""Most fetchers of a target for which her neighbourhood is looked at; with more, the others' bits average out."""


@dataclass(frozen=True, eq=False)
class FetchDistribution(Accountant):
    """An exchange in which user i fetches from j with probability weights[i, j].

    Args:
        weights: (n, n), dense or sparse, non-negative, rows that sum to 1 (to 1e-9); the row of a user whose rate is 0
            may also be all zero.
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1], or the probability for each user, (n,) in [0, 1], that her label arrives: 1 and 0
            for a realised network, in which it is known who submitted.
        known: (n,) bool, users whose noisy bit the learner knows (fixed answers, users who fell back to their own
            label). They hide nobody, and their own ε is the local one.
        members: (n,) bool, passive users pooled with the learner, who see all that they fetch, whatever their sampling
            rate. The bounds then hold against the coalition; members are never the target.
        draws: labels that each member may have got, at least 1, drawn independently by her row.
    """

    requires = REALISED
    kept = False  # tables are not compared
    basis = "any fetch distribution: three-point pairs, neighbourhoods, direct exposure"

    weights: "NDArray[np.float64] | scipy.sparse.sparray"
    flip_prob: float
    sampling_rate: float | Floats
    known: NDArray[np.bool_] | None = field(default=None, kw_only=True)
    members: NDArray[np.bool_] | None = field(default=None, kw_only=True)
    draws: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        w = self._rows
        if w.shape[0] != w.shape[1]:
            raise ValueError(f"weights of shape {w.shape}: must be square")
        if w.nnz and not (np.isfinite(w.data).all() and w.data.min() >= 0.0):
            raise ValueError("weights: must be finite and at least 0")
        check_flip_prob(self.flip_prob)
        rates = np.asarray(self.sampling_rate, dtype=np.float64)
        if rates.shape not in ((), w.shape[:1]):
            raise ValueError(f"sampling_rate of shape {rates.shape}: must be one number, or one for each user")
        if rates.ndim == 0 and not 0.0 < rates <= 1.0:
            raise ValueError(f"sampling_rate = {self.sampling_rate}: must lie in (0, 1]")
        if not np.all((rates >= 0.0) & (rates <= 1.0)):
            raise ValueError("sampling_rate: every user's must lie in [0, 1]")
        for key, flags in (("known", self.known), ("members", self.members)):
            if flags is not None and (np.shape(flags) != w.shape[:1] or np.asarray(flags).dtype != np.bool_):
                raise ValueError(f"{key}: must be one bool for each user")
        if self.draws < 1:
            raise ValueError(f"draws = {self.draws}: must be at least 1")
        sums = np.asarray(w.sum(axis=1)).ravel()
        if np.any((np.abs(sums - 1.0) > 1e-9) & ((self._rates > 0.0) | (sums != 0.0))):
            raise ValueError("weights: every row must sum to 1, or be all zero if the user's rate is 0")

    def delta(self, epsilon: float) -> Bracket:
        """Certified upper bound on δ(ε) for the worst-placed user; the lower value is 0."""
        check_epsilon(epsilon)
        return Bracket(0.0, max((self._user(user).delta(epsilon) for user in self._representatives), default=0.0))

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified upper bound on one user's δ(ε), which depends on her place in the overlay."""
        check_epsilon(epsilon)
        return self._user(user).delta(epsilon)

    def epsilon_among(self, delta: float, users: NDArray[np.bool_]) -> PrivacyBound:
        return self.epsilon(delta, users)

    def each_epsilon(self, delta: float, users: NDArray[np.bool_]) -> Floats:
        return self.user_epsilons(delta)

    def epsilon(self, delta: float, among: NDArray[np.bool_] | None = None) -> PrivacyBound:
        """Certified ε(δ) for the worst-placed user, at most ε₀; reported as ε₀ where it is within 1% of that.

        Args:
            delta: δ in (0, 1).
            among: (n,) bool, the users that the bound is about; None: all except the coalition's members.
        """
        check_delta(delta)
        worst, local = 0.0, local_epsilon(self.flip_prob)
        for user in self._representatives if among is None else np.unique(self._alike[among]).tolist():
            place = self._user(user)
            if not place.holds(worst, delta):
                worst = max(worst, place.epsilon(delta))
            if worst > _NEARLY * local:  # nobody can be worse off, and most overlays have such a user
                worst = local
                break
        observer = "coalition" if self._members.any() else "learner"
        return PrivacyBound(0.0, worst, delta, observer, "label", self.basis, self.conditions)

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*FETCH_CONDITIONS, PASSIVE) if self._members.any() else FETCH_CONDITIONS

    def user_epsilon(self, user: int, delta: float) -> float:
        """Certified ε(δ) of one user, at most ε₀."""
        check_delta(delta)
        return self._user(user).epsilon(delta)

    def user_epsilons(self, delta: float) -> Floats:
        """Certified ε(δ) of every user, (n,), for example for a heat map; NaN for members."""
        check_delta(delta)
        alike = self._alike
        found = {user: self._user(user).epsilon(delta) for user in np.unique(alike).tolist() if user >= 0}
        return np.array([found.get(user, math.nan) for user in alike.tolist()])

    @cached_property
    def _rates(self) -> Floats:
        return np.broadcast_to(np.asarray(self.sampling_rate, dtype=np.float64), self._rows.shape[:1])

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        return np.zeros(self._rows.shape[0], dtype=bool) if self.known is None else np.asarray(self.known)

    @cached_property
    def _members(self) -> NDArray[np.bool_]:
        return np.zeros(self._rows.shape[0], dtype=bool) if self.members is None else np.asarray(self.members)

    @cached_property
    def _revealed(self) -> NDArray[np.bool_]:
        return self._known | self._members

    @cached_property
    def _rows(self) -> "scipy.sparse.csr_array":
        rows: scipy.sparse.csr_array = scipy.sparse.csr_array(self.weights, copy=True)  # type: ignore[arg-type]
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return rows

    @cached_property
    def _columns(self) -> "scipy.sparse.csc_array":
        return scipy.sparse.csc_array(self._rows)

    @cached_property
    def _neighbourhood(self) -> Neighbourhood:
        known = (self._revealed, self._members, self.draws)
        return Neighbourhood(self._rows, self._columns, self.flip_prob, self._rates, *known)

    def _row(self, user: int) -> tuple[NDArray[np.int32], Floats]:
        part = slice(self._rows.indptr[user], self._rows.indptr[user + 1])
        return self._rows.indices[part], self._rows.data[part]

    def _column(self, target: int) -> tuple[NDArray[np.int32], Floats]:
        part = slice(self._columns.indptr[target], self._columns.indptr[target + 1])
        return self._columns.indices[part], self._columns.data[part]

    @cached_property
    def _shapes(self) -> tuple[Floats, Floats]:
        """Two numbers for each user: equal for users whose hiding entries are equal but for order, and for users with
        one and the same row and rate, members apart."""
        shapes: dict[bytes, int] = {}
        rows: dict[tuple[bytes, bytes, float, bool], int] = {}
        found = np.empty((2, self._rows.shape[0]))
        for user, rate in enumerate(self._rates.tolist()):
            indices, data = self._row(user)
            found[0, user] = shapes.setdefault(np.sort(data[~self._revealed[indices]]).tobytes(), len(shapes))
            row = (indices.tobytes(), data.tobytes(), rate, bool(self._members[user]))
            found[1, user] = rows.setdefault(row, len(rows))
        return found[0], found[1]

    @cached_property
    def _alike(self) -> NDArray[np.int64]:
        """For each user one with the same bound, -1 for members.

        Three-point pairs depend on the fetchers' rows and weights alone; so does a neighbourhood if all have one row.
        """
        shapes, same = self._shapes
        used = (self._rates > 0.0) | self._members
        rows = ((indices.tobytes(), data.tobytes()) for indices, data in map(self._row, np.flatnonzero(used).tolist()))
        first_row = next(rows, None)
        one_row = all(row == first_row for row in rows)
        found: dict[bytes, int] = {}
        alike = np.full(len(used), -1)
        for target in np.flatnonzero(~self._members).tolist():
            users, weights = self._column(target)
            near = self._sees_neighbourhood(users)
            if self._known[target] or (near and not one_row):
                key = b"known" if self._known[target] else target.to_bytes(8, "big")
            else:
                users, weights = users[used[users]], weights[used[users]]
                _, first, counts = np.unique(same[users], return_index=True, return_counts=True)  # one row, one weight
                kinds, one = users[first], weights[first]
                lines = np.stack([shapes[kinds], one, self._rates[kinds], self._members[kinds], counts], axis=1)
                key = np.sort(lines.view("f8,f8,f8,f8,f8"), axis=0).tobytes()
            alike[target] = found.setdefault(key, target)
        return alike

    @property
    def _representatives(self) -> list[int]:
        return [user for user in np.unique(self._alike).tolist() if user >= 0]

    def _sees_neighbourhood(self, fetchers: NDArray[np.int32]) -> bool:
        """Whether the neighbourhood is worth a look."""
        return int((self._rates[fetchers] > 0.0).sum()) <= NEAR

    @cached_property
    def _user(self) -> "Callable[[int], UserBound]":
        """The bounds of one user, built when asked for; the last few are kept."""
        return lru_cache(maxsize=8)(self._build)

    @cached_property
    def _tails(self) -> Callable[[Floats, float, Floats], Floats]:
        found: dict[bytes, Floats] = {}

        def tails(weights: Floats, flip_prob: float, levels: Floats) -> Floats:
            key = weights.tobytes()
            if key not in found:
                found[key] = tail_bounds(weights, flip_prob, levels)
            return found[key]

        return tails

    def _build(self, target: int) -> "UserBound":
        if self._members[target]:
            raise ValueError(f"user {target} is a member of the coalition: there is no bound for her own label")
        if self._known[target]:
            return UserBound(self.flip_prob, 1.0, ())
        users, weights = self._column(target)
        pooled = self._members[users]
        with np.errstate(divide="ignore"):
            unmet = self.draws * float(np.log1p(-np.minimum(weights[pooled], 1.0)).sum())
        met = min(1.0, -math.expm1(unmet) * (1.0 + 1e-12))
        others = (self._rates[users] > 0.0) & ~pooled
        users, weights = users[others], weights[others]
        ways: list[Callable[[], Levels | LossLaw]] = [lambda: self._levels(target, users, weights)]
        if self.flip_prob >= LEAST_FLIP and users.size and self._sees_neighbourhood(users):
            ways.insert(0, lambda: self._neighbourhood.law(target))
        return UserBound(self.flip_prob, met, tuple(ways))

    def _levels(self, target: int, users: NDArray[np.int32], weights: Floats) -> Levels:
        """Three-point pairs; what members fetched is revealed too, at worst the bits with the largest weights."""
        fetched = self.draws * int((np.diff(self._rows.indptr)[self._members] > 0).sum())
        _, first, counts = np.unique(self._shapes[1][users], return_index=True, return_counts=True)
        groups = []
        for user, weight, count in zip(users[first].tolist(), weights[first].tolist(), counts.tolist(), strict=True):
            indices, data = self._row(user)
            hiding = np.sort(data[(indices != target) & ~self._revealed[indices]])
            hiding = hiding[: max(0, hiding.size - fetched)]
            groups.append((hiding, weight, float(self._rates[user]), count))
        return fetch_levels(groups, self.flip_prob, self._tails)


@dataclass(frozen=True, eq=False)
class UserBound:
    """What bounds one user's δ(ε).

    With probability `met` a member fetched her bit, or everybody knows it: then only the local noise is left. Otherwise
    the least of the bounds counts that `ways` build, each when it is first needed.
    """

    flip_prob: float
    met: float
    ways: tuple[Callable[[], Levels | LossLaw], ...]
    _built: list[Levels | LossLaw] = field(default_factory=list, init=False, repr=False)

    def delta(self, epsilon: float) -> float:
        """Certified upper bound on δ(ε)."""
        return min(self._bounds(epsilon))

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified."""
        return any(bound <= delta for bound in self._bounds(epsilon))

    def epsilon(self, delta: float) -> float:
        """Certified ε(δ), at most ε₀."""
        return cross(lambda epsilon: not self.holds(epsilon, delta), self.flip_prob, precision=1e-6)[1]

    def _bounds(self, epsilon: float) -> Iterator[float]:
        direct = local_delta(self.flip_prob, epsilon).upper
        yield direct
        for place, way in enumerate(self.ways):
            if place == len(self._built):
                self._built.append(way())
            rest = amplified_delta(self._built[place], self.flip_prob, epsilon)
            seen = self.met > 0.0 or rest > 0.0
            yield outward(0.0, (self.met * direct + (1.0 - self.met) * rest) * (1.0 + 1e-12)).upper if seen else 0.0
