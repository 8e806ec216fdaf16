"""The learner's ε for any fetch distribution: for overlays, random walks or offline peers.

User i fetches from user j with probability W[i, j]. The learner knows W, which does not depend on labels. Users choose
independently. The *target* v is the user whose label is protected. To bound what the learner sees of v, reveal to the
learner all noisy bits (labels after the flip) except v's bit. The revealed bits give a probability p_i. If v's bit is
0, a submission of user i is 1 with probability p_i (the law B_i). If v's bit is 1, this probability is p_i + W[i, v]
(the law A_i). Users with W[i, v] = 0 show nothing. Let α be the flip probability, and rate_i the probability that user
i's submission arrives. Let keep = 1-α-αe^ε and r = (e^ε(1-α)-α)/keep. Let HS_r be the hockey-stick divergence at the
ratio r. Then, for any τ,

    δ(ε) <= keep · ( Σ_i rate_i W[i,v] Pr[p_i < τ or p_i + W[i,v] > 1-τ] + sup HS_r(⊗ A_i || ⊗ B_i) ).

The supremum is over all p_i in [τ, 1-τ-w], where w = W[i, v]. The sum charges the users whose p_i lies outside this
interval. Such a user shows whether she fetched v's bit, and, if so, the bit.

In the interval the pair (Bernoulli(p+w), Bernoulli(p)) is a post-processing of the *three-point pair*. These are two
laws on three outcomes, with probabilities (τ, 1-2τ-w, τ+w) and (τ+w, 1-2τ-w, τ). Show 0 at the first outcome, 1 at the
last outcome, and 1 with probability (p-τ)/(1-2τ-w) at the middle outcome. So the product of the three-point pairs
bounds every product of pairs, wherever in the interval the p_i lie. `symmetric_pairs.Levels` combines several τ.

Three more bounds hold, and the least of all bounds counts:
- Reveal who fetched from whom: δ(ε) <= Pr[somebody submits v's bit] · δ₀(ε), where δ₀ = max(0, 1-α-αe^ε).
- In a sparse overlay, `sparse_neighbourhood` assigns other users' bits to the *fetchers* of v (users i with
  W[i, v] > 0), each bit to one fetcher. A bit that anybody else submits is revealed. The rest hide v's bit.
- In a dense table, other users' bits and the choices of peers hide v's bit together; `moved_bit` computes this bound.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy

from p2p_sim.privacy.accountant import FlippedLabels
from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import REALISED, Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.conditions import FETCH_CONDITIONS, PASSIVE, REALISED_NETWORK, Condition
from p2p_sim.privacy.overlays.moved_bit_targets import MovingTargets
from p2p_sim.privacy.overlays.overlay_table import Bools, Ints, OverlayTable, canonical_rows, check_table
from p2p_sim.privacy.overlays.sparse_neighbourhood import neighbourhood_law
from p2p_sim.privacy.overlays.symmetric_pairs import LEAST_FLIP, SHARES, Divergence
from p2p_sim.privacy.overlays.user_bound import Tails, TargetLevels, UserBound, any_of
from p2p_sim.privacy.where_bounds_hold import REALISED as REALISED_REQUIRED

ANY_FETCHES = "any fetch distribution"
"""First words of the `basis` of every bound of this module."""
_NEARLY = 0.99
"""If ε is above this share of ε₀ (the ε of the noise on a label alone), ε₀ itself is stated."""
_PRECISE, _SOON = 1e-6, 1e-4
"""Relative precision of ε: the usual one, and the one for bounds whose δ takes long to compute."""
NEAR = 128
"""Largest number of a target's fetchers for which `sparse_neighbourhood` is used. With more fetchers, its bound
gains little: fetchers then usually have many peers too, and p_i is rarely outside [τ, 1-τ-w]."""
CLOSELY = 32_768
"""Largest number of users who are each bounded alone."""
SAMPLED = 1_000
"""Number of users who are each bounded alone if there are more than `CLOSELY`."""
MOST_FAR = 64
"""Largest number of users with more fetchers than `NEAR` who are bounded one by one; more are bounded together."""
MOST_KINDS = 500
"""Largest number of groups of `OverlayTable.kinds` that are bounded. If there are more, only the noise on a label
counts."""
SAMPLE_ALONE = "sample-of-users"
"""Identifier of the condition of a bound that covers only a sample of the users."""


class BoundAndSample(NamedTuple):
    """The bound for all users, and the largest bound of a sample of the users.

    sample: None if each user was bounded alone, or if the largest bound of the sample is already ε₀.
    """

    bound: PrivacyBound
    sample: PrivacyBound | None


class UserPlaces(NamedTuple):
    """Users of a fetch distribution, bounded one by one or together. Users with equal bounds form a class.

    users: one user of each class that is bounded on its own, ascending. far: bounds that hold for all other classes.
    """

    users: Ints
    far: list[UserBound]


@dataclass(frozen=True, eq=False)
class FetchDistribution(FlippedLabels):
    """An exchange in which user i fetches from j with probability weights[i, j].

    Args:
        weights: (n, n), dense or sparse, non-negative. Each row sums to 1; a row whose sum is off by at most 1e-9 is
            divided by its sum. The row of a user with rate 0 may also be all zero.
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1], or the probability for each user, (n,) in [0, 1], that her label arrives. In a
            realised network (one run, as it turned out) the probability is 1 or 0, by who submitted.
        known: (n,) bool, users whose noisy bit the learner knows. Such a user answers with a constant, or submitted
            her own label for want of a peer. She hides nobody. Her bound is ε₀, the ε of the noise on a label alone.
        members: (n,) bool, passive users who pool what they see with the learner. Members see all that they fetch,
            whatever their sampling rate. The bounds then hold against this coalition. Members are never the target.
        draws: how many labels each member may have got, at least 1, each drawn independently from her row of the table.
        realised: whether the table describes a realised network, which is then a condition of the bounds.
    """

    requires = REALISED_REQUIRED
    basis = f"{ANY_FETCHES}: three-point pairs, neighbourhoods, direct exposure"

    weights: "Floats | scipy.sparse.sparray"
    flip_prob: float
    sampling_rate: float | Floats
    known: Bools | None = field(default=None, kw_only=True)
    members: Bools | None = field(default=None, kw_only=True)
    draws: int = field(default=1, kw_only=True)
    realised: bool = field(default=False, kw_only=True)
    # indices of the levels τ that gave the best bound for the last worst user; the next user tries these levels first
    _hint: list[int] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_range("flip_prob", self.flip_prob, 0.0, 0.5)
        check_table(self._rows, self.sampling_rate, {"known": self.known, "members": self.members}, self.draws)

    def delta(self, epsilon: float) -> Bracket:
        """A certified bracket of δ(ε) that holds for every user, against the learner and the members together.

        The lower value is 0. The upper value is the largest of the users' bounds.
        """
        check_epsilon(epsilon)
        users, far = self._split(None)
        each = map(partial(_bounds_of, self), users.tolist()) if users.size <= CLOSELY else self._bounds_by_kind(users)
        return Bracket(0.0, max((bounds.delta(epsilon) for bounds in chain(far, each)), default=0.0))

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified upper bound of the δ(ε) of one user. The bound depends on who may fetch from her.

        user: the number of her row in the table.
        """
        check_epsilon(epsilon)
        return _bounds_of(self, user).delta(epsilon)

    def epsilon(self, delta: float, among: Bools | None = None) -> PrivacyBound:
        """Certified ε(δ) that holds for every user, at most ε₀ = ln((1-α)/α). An ε within 1% of ε₀ is stated as ε₀.

        Args:
            delta: δ in (0, 1).
            among: (n,) bool, the users that the bound is about; None: all except the coalition's members.
        """
        return self.epsilon_and_sample(delta, among).bound

    def epsilon_and_sample(self, delta: float, users: Bools | None) -> BoundAndSample:
        """The bound of ε at δ for all users. With more than 32,768 users, the result also has the largest bound of a
        sample. Of users with equal bounds only one counts.

        Up to 32,768 users (`CLOSELY`), each is bounded alone. If there are more, 1,000 evenly spaced users (`SAMPLED`)
        are bounded alone. The bound for all users then uses only two kinds of bound, each for many users at once:
        - Who fetched from whom is revealed. This bound is the probability that anybody submits the target's noisy
          label, times the δ(ε) of the noise on a label.
        - Two laws on three outcomes, a three-point pair, replace each fetcher's submission and show no less.

        Users whom `_split` bounds together enter both results with their common bound.

        Args:
            delta: δ in (0, 1). users: (n,) bool, the users that both bounds are about; None: all except the coalition's
            members.

        Returns:
            `bound` is the bound for all users. `sample` is the largest bound of the sampled users. None: each user was
                bounded alone, or this largest bound is already ε₀.
        """
        check_delta(delta)
        targets, far = self._split(users)
        few = targets.size <= CLOSELY
        sampled = targets if few else targets[np.arange(SAMPLED) * targets.size // SAMPLED]
        worst = self._worst(chain(far, map(partial(_bounds_of, self), sampled.tolist())), delta)
        if few or worst == self.pure_epsilon:
            return BoundAndSample(self._stated(worst, delta, self.basis, self.conditions), None)
        most = self._worst(chain(self._bounds_by_kind(targets), far), delta)
        condition = Condition(
            SAMPLE_ALONE, f"of {SAMPLED:,} users, evenly spaced among {targets.size:,}; no bound for others"
        )
        sample = self._stated(worst, delta, self.basis, (*self.conditions, condition))
        basis = f"{ANY_FETCHES}: three-point pairs, direct exposure"
        return BoundAndSample(self._stated(most, delta, basis, self.conditions), sample)

    def _stated(self, epsilon: float, delta: float, basis: str, conditions: tuple[str, ...]) -> PrivacyBound:
        return PrivacyBound(
            0.0,
            epsilon,
            delta,
            observer="coalition" if self._table.members.any() else "learner",
            adjacency="label",
            basis=basis,
            conditions=conditions,
            conditional_on=REALISED if self.realised else "",
        )

    def _worst(self, each: Iterable[UserBound], delta: float) -> float:
        """The largest ε(δ) among the given users' bounds: ε₀ if it is within 1% of ε₀, and 0 if there are no bounds."""
        worst, local = 0.0, self.pure_epsilon
        for bounds in each:
            if not bounds.holds(worst, delta):
                worst = max(worst, bounds.epsilon(delta))
                self._hint[:] = bounds.best_levels(worst)
            if worst > _NEARLY * local:  # the largest ε can hardly be larger; most overlays have such a user
                return local
        return worst

    @property
    def conditions(self) -> tuple[str, ...]:
        network = (REALISED_NETWORK,) if self.realised else ()
        return (*network, *FETCH_CONDITIONS, *((PASSIVE,) if self._table.members.any() else ()))

    def user_epsilon(self, user: int, delta: float) -> float:
        """Certified ε(δ) of one user, given by her row in the table; at most ε₀."""
        check_delta(delta)
        return _bounds_of(self, user).epsilon(delta)

    def user_epsilons(self, delta: float) -> Floats:
        """Certified ε(δ) of every user, (n,); NaN for members."""
        check_delta(delta)
        (users, far), alike = self._split(None), self._alike
        epsilons = np.full(len(alike), self._worst(far, delta))
        epsilons[users] = [_bounds_of(self, user).epsilon(delta) for user in users.tolist()]
        return np.where(alike >= 0, epsilons[alike], math.nan)

    @cached_property
    def _rows(self) -> "scipy.sparse.csr_array":
        return canonical_rows(self.weights)

    @cached_property
    def _table(self) -> OverlayTable:
        users = self._rows.shape[:1]
        rates = np.broadcast_to(np.asarray(self.sampling_rate, dtype=np.float64), users)
        public, members = (
            np.zeros(users, dtype=bool) if flag is None else np.asarray(flag) for flag in (self.known, self.members)
        )
        return OverlayTable(self._rows, self.flip_prob, rates, public=public, members=members, draws=self.draws)

    @cached_property
    def _alike(self) -> Ints:
        """For each user, the number of a representative user (perhaps herself) with the same privacy bound, (n,); -1
        for members.
        """
        return self._table.alike(NEAR)

    def _split(self, among: Bools | None) -> UserPlaces:
        """Splits the users `among`, (n,) bool, into users who are bounded one by one, and users who are bounded
        together.

        `among` = None means all users. The field `users` has one user of each class with equal bounds. The field `far`
        is empty or has one bound for all others. Users with more than 128 fetchers (`NEAR`) and hidden noisy labels are
        bounded together. This needs more than 64 such users (`MOST_FAR`), no coalition, and α of at least `LEAST_FLIP`.

        The common bound is for an imagined target. For each of these users, sort the probabilities of fetching her
        label, the largest first. At each position, the imagined target has the largest of these users' values. Each of
        her fetchers has the largest rate (probability that a label arrives), and the largest probability to leave the
        interval [τ, 1-τ-w]. All this only enlarges the bound.
        """
        table, users = self._table, np.unique(self._alike if among is None else self._alike[among])
        users = users[users >= 0]
        far = (table.num_fetchers[users] > NEAR) & ~table.public[users]
        if np.count_nonzero(far) <= MOST_FAR or table.members.any() or self.flip_prob < LEAST_FLIP:
            return UserPlaces(users, [])
        weights, fetchers = table.envelope(users[far]), np.flatnonzero(table.rates > 0.0)
        ones, rates = np.ones(weights.size), np.full(weights.size, table.rates.max())
        levels = TargetLevels(
            weights, rates, ones, flip_prob=self.flip_prob, tails=self._tails.worst(fetchers, weights.size), copies=ones
        )
        moved = self._moving.bounded(weights, rates, users[far])
        ways = (levels.all,) if moved is None else (lambda: moved, levels.all)
        return UserPlaces(users[~far], [UserBound(self.flip_prob, 0.0, ways, levels, _SOON if moved else _PRECISE)])

    @cached_property
    def _tails(self) -> Tails:
        """This table's upper bounds of the probability that p_i lies below a threshold τ, for any user i.

        p_i is the probability that i's submission is 1 if the target's noisy label is 0, given all other noisy labels.
        It is random, because these labels are random to the learner. The thresholds τ are 0.05 α to 0.95 α in steps of
        0.025 α. Coalition members may have fetched up to `members_labels` labels, but it is unknown whose. So this many
        labels are left out of p_i: those with the largest of i's fetch probabilities.
        """
        table = self._table
        return Tails(
            table.hidden_weights, self.flip_prob, np.array(SHARES) * self.flip_prob, without=table.members_labels
        )

    @cached_property
    def _moving(self) -> MovingTargets:
        return MovingTargets(self._table, self._alike)

    def _build(self, target: int) -> UserBound:
        """The bounds of one user's δ(ε). Raises a ValueError if she is a member of the coalition."""
        table = self._table
        if table.members[target]:
            raise ValueError(f"user {target} is a member of the coalition: there is no bound for her own label")
        if table.public[target]:
            return UserBound(self.flip_prob, 1.0, ())
        # Either a member fetched the target's bit, or only what the others submit is evidence.
        users, weights = table.fetchers(target)
        pooled = table.members[users]
        met = any_of(weights[pooled], np.ones(int(pooled.sum())), table.draws)
        others = (table.rates[users] > 0.0) & ~pooled
        users, weights = users[others], weights[others]
        # Bounds of what the submissions show: a few levels of three-point pairs first, all levels last.
        _, first, counts = np.unique(table.same[users], return_index=True, return_counts=True)
        levels = self._levels(users[first], weights[first], counts.astype(np.float64), np.ones(len(first)))
        ways: list[Callable[[], Divergence]] = [lambda: levels.some(self._hint)]
        if moved := self._moving.of(target):
            ways.append(lambda: moved)
        if self.flip_prob >= LEAST_FLIP and 0 < users.size <= NEAR:
            ways.append(lambda: neighbourhood_law(table, target))
        ways.append(levels.all)
        return UserBound(self.flip_prob, met, tuple(ways), levels, _SOON if moved else _PRECISE)

    def _levels(self, users: Ints, weights: Floats, counts: Floats, copies: Floats) -> TargetLevels:
        """Bounds of what the submissions of a target's fetchers together show of her noisy label, from three-point
        pairs.

        Several thresholds τ (levels) are combined. Fetchers come in groups. The users of a group have identical rows of
        fetch probabilities. So, given the other noisy labels, they all submit a 1 with the same probability.

        Args:
            users: (G,), one user of each group. weights: (G,), the probability with which a user of the group fetches
            from the target. counts: (G,), how many users the group has. copies: (G,), how many groups of this kind
            there are. Such groups have different rows, but the same bounds.
        """
        tails = self._tails.lacking(users, weights) if self.flip_prob >= LEAST_FLIP else None
        return TargetLevels(
            weights, self._table.rates[users], counts, flip_prob=self.flip_prob, tails=tails, copies=copies
        )

    def _bounds_by_kind(self, users: Ints) -> Iterator[UserBound]:
        """Bounds of δ(ε) for the given users, (u,). The largest of these bounds holds for each user.

        Fetchers of one kind have the same fetch probability for all their peers, equally many peers with hidden labels,
        and the same rate. All are in the coalition, or none is. The given users are grouped by how many fetchers of
        each kind they have. Each group has one bound.

        Only the bound of the noise on a label is left in three cases. The learner knows the noisy label of a given
        user. Or a user's positive fetch probabilities differ. Or there are too many kinds (`MOST_FETCHERS`) or groups
        (`MOST_KINDS`).
        """
        kinds = self._table.kinds(users) if not self._table.public[users].any() else None
        if kinds is None or len(kinds.counts) > MOST_KINDS:
            yield UserBound(self.flip_prob, 1.0, ())
            return
        for counts in kinds.counts:
            used = np.flatnonzero(counts)
            fetchers, weights, copies = kinds.fetcher[used], kinds.weight[used], counts[used].astype(np.float64)
            pooled = self._table.members[fetchers]
            met, others = any_of(weights[pooled], copies[pooled], self._table.draws), ~pooled
            fetchers, weights, copies = fetchers[others], weights[others], copies[others]
            levels = self._levels(fetchers, weights, np.ones(len(fetchers)), copies)
            yield UserBound(self.flip_prob, met, (levels.all,), levels)


@lru_cache(maxsize=32)
def _bounds_of(table: FetchDistribution, user: int) -> UserBound:
    """The bounds of one user's δ(ε), built when first needed. They are cached for the last 32 users. user: her row.

    The table does not store the bounds: they refer to the table, and such a cycle would delay the freeing of many
    tables.
    """
    return table._build(user)
