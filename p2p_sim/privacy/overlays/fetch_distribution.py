"""The learner's ε for any fetch distribution, such as that of an overlay, of random walks, or of offline peers.

User i fetches from user j with probability W[i, j]. The learner knows W, which does not depend on labels. Users choose
independently. To bound what the learner sees of the *target* v, reveal to her all noisy bits (noisy labels) except v's.
A submission of user i is then 1 with a probability p_i, which follows from the revealed bits, if v's bit is 0 (the law
B_i). It is 1 with probability p_i + W[i, v] if v's bit is 1 (the law A_i). Users with W[i, v] = 0 show nothing. Let α
be the flip probability, and rate_i the probability that user i's submission arrives. Let keep = 1-α-αe^ε and
r = (e^ε(1-α)-α)/keep. Then, for any τ,

    δ(ε) <= keep · ( Σ_i rate_i W[i,v] Pr[p_i < τ or p_i + W[i,v] > 1-τ] + sup HS_r(⊗ A_i || ⊗ B_i) ),

where HS_r is the hockey-stick divergence at the ratio r. Let w = W[i, v]. The sum charges the users whose p_i lies
outside [τ, 1-τ-w]: they show whether they fetched v's bit, and, if so, the bit. The supremum is over all p_i in
[τ, 1-τ-w]. There the pair (Bernoulli(p+w), Bernoulli(p)) is a post-processing of the *three-point pair*, two laws on
three outcomes with probabilities (τ, 1-2τ-w, τ+w) and (τ+w, 1-2τ-w, τ): show 0 at the first outcome, 1 at the last
outcome, and 1 with probability (p-τ)/(1-2τ-w) at the middle outcome. So the product of the three-point pairs bounds
every product of pairs, also if some users' p_i lie at one end of the interval and other users' p_i at the other end.
`symmetric_pairs.Levels` combines several τ.

Three more bounds hold, and the least of all bounds counts:
- Reveal who fetched from whom: δ(ε) <= Pr[somebody submits v's bit] · δ₀(ε), where δ₀ = max(0, 1-α-αe^ε).
- In a sparse overlay, `sparse_neighbourhood` assigns each bit to one fetcher, and reveals bits that others may use.
- In a dense table, the others' bits and the choices of peers hide v's bit together; `moved_bit` computes this bound.
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
"""Largest number of a target's fetchers for which `sparse_neighbourhood` is used; among more fetchers, other bits
average out."""
CLOSELY = 32_768
"""Largest number of users who are each bounded alone."""
SAMPLED = 1_000
"""Number of users who are each bounded alone if there are more than `CLOSELY`."""
MOST_FAR = 64
"""Largest number of users with more fetchers than `NEAR` who are bounded one by one; more are bounded together."""
MOST_KINDS = 500
"""Largest number of groups of `OverlayTable.kinds` that are bounded. If there are more, only the noise on each label
counts."""
SAMPLE_ALONE = "sample-of-users"
"""Identifier of the condition of a bound that covers only a sample of the users."""


class BoundAndSample(NamedTuple):
    """The bound for all users, and the largest bound of a sample of them.

    sample: None if each user was bounded alone, or if already the largest bound of the sample is ε₀.
    """

    bound: PrivacyBound
    sample: PrivacyBound | None


class UserPlaces(NamedTuple):
    """Users of a fetch distribution, bounded one by one or together; users with equal bounds form a class.

    users: one user of each class that is bounded on its own, ascending. far: bounds that hold for all other classes.
    """

    users: Ints
    far: list[UserBound]


@dataclass(frozen=True, eq=False)
class FetchDistribution(FlippedLabels):
    """An exchange in which user i fetches from j with probability weights[i, j].

    Args:
        weights: (n, n), dense or sparse, non-negative; each row sums to 1, and a row whose sum is off by at most 1e-9
        is divided by it. The row of a user whose rate is 0 may also be all zero.
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1], or the probability for each user, (n,) in [0, 1], that her label arrives: 1 and 0
            for a realised network, in which it is known who submitted.
        known: (n,) bool, users whose noisy bit the learner knows (fixed answers, users who fell back to their own
            label). They hide nobody, and their own ε is ε₀, that of the noise on a label alone.
        members: (n,) bool, passive users who pool what they see with the learner. They see all that they fetch,
            whatever their sampling rate. The bounds then hold against this coalition; members are never the target.
        draws: how many labels each member may have got, at least 1, each drawn independently from her row of the table.
        realised: whether the table describes a network as it turned out, which is then a condition of the bounds.
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
    # indices of the levels τ that gave the best bound for the last worst user; the next user tries them first
    _hint: list[int] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_range("flip_prob", self.flip_prob, 0.0, 0.5)
        check_table(self._rows, self.sampling_rate, {"known": self.known, "members": self.members}, self.draws)

    def delta(self, epsilon: float) -> Bracket:
        """A certified bracket of δ(ε) that holds for every user, against the learner and the members pooled with her;
        its lower value is 0, and its upper value is the largest of the users' bounds.
        """
        check_epsilon(epsilon)
        users, far = self._split(None)
        each = map(partial(_bounds_of, self), users.tolist()) if users.size <= CLOSELY else self._bounds_by_kind(users)
        return Bracket(0.0, max((bounds.delta(epsilon) for bounds in chain(far, each)), default=0.0))

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified upper bound on the δ(ε) of one user. The bound depends on who may fetch from her. user: her row in
        the table.
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
        """The bound of ε at δ that holds for all users. If there are more than `CLOSELY` (32,768) users, the result
        also has the largest bound of a sample of them.

        Up to `CLOSELY` users, each is bounded alone. If there are more, `SAMPLED` (1,000) evenly spaced users are
        bounded alone, and the bound for all users combines only two bounds that are equal for many users. The first
        reveals who fetched from whom. It is the probability that anybody submits the target's noisy label, times the
        δ(ε) of the noise on a label. The second replaces each fetcher's submission by two laws on three outcomes, one
        for each value of the target's noisy label, that show no less. Users of a dense table who are bounded together
        from the start keep that bound, which may come from a moved bit (`moved_bit`).

        Args:
            delta: δ in (0, 1). users: (n,) bool, the users that both bounds are about; None: all except the coalition's
            members.

        Returns:
            `bound` is the bound for all users. `sample` is the largest bound of the sampled users, or None if each user
            was bounded alone, or if already this largest bound is ε₀, the ε of the noise on a label alone.
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
        """The largest ε(δ) among the given users' bounds; ε₀ if it is within 1% of ε₀, and 0 if no bounds are given."""
        worst, local = 0.0, self.pure_epsilon
        for bounds in each:
            if not bounds.holds(worst, delta):
                worst = max(worst, bounds.epsilon(delta))
                self._hint[:] = bounds.best_levels(worst)
            if worst > _NEARLY * local:  # the largest ε can be hardly larger, and most overlays have such a user
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
        """For each user, the number of one representative user (perhaps herself) whose privacy bound is the same, (n,);
        -1 for members of the coalition.
        """
        return self._table.alike(NEAR)

    def _split(self, among: Bools | None) -> UserPlaces:
        """Splits the users `among`, (n,) bool (None: all), into `users` who are bounded one by one, and `far`, which is
        empty or has one bound that holds for all others.

        `users` has one user of each class of users with equal bounds. A user's fetchers are the users who may fetch her
        label. Users with more than `NEAR` (128) fetchers, whose noisy label the learner does not know, are bounded
        together if there are more than `MOST_FAR` (64) of them, if no user is a member of a coalition, and if α is at
        least `LEAST_FLIP` (1e-100). This is quicker, and such users differ little, as after long random walks. The
        common bound is that of a target whose fetchers have, for each k, the largest k-th largest fetch probability of
        any of these users. Each fetcher has the largest rate (probability that a label arrives) of all users. She is
        also the most likely of all to be stray: to submit a 1 with a probability outside the interval for which the
        bound is proved. A larger fetch probability or rate only enlarges the divergence.
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
        """Bounds on Pr[p_i < τ] for each user i, computed when asked for, at each threshold τ of `SHARES` · α: 0.05 α
        to 0.95 α in steps of 0.025 α.

        p_i is the probability that i's submission is 1 if the target's noisy label is 0, given all other noisy labels:
        the sum of i's fetch probabilities for the users whose noisy label is 1. Labels that coalition members fetched
        are taken as known to the learner. It is unknown which labels these are. So the labels with the largest of i's
        fetch probabilities are left out of p_i.
        """
        table = self._table
        return Tails(
            table.hidden_weights, self.flip_prob, np.array(SHARES) * self.flip_prob, without=table.members_labels
        )

    @cached_property
    def _moving(self) -> MovingTargets:
        return MovingTargets(self._table, self._alike)

    def _build(self, target: int) -> UserBound:
        """The bounds of one user's δ(ε); raises a ValueError if she is a member of the coalition."""
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
        """Bounds of what the submissions of a target's fetchers together show of the target's noisy label. A fetcher is
        a user who may fetch this label.

        Each submission is bounded by a three-point pair: two laws on three outcomes, one for each value of the target's
        noisy label. The pair depends on a threshold τ, called a level. It bounds a submission that, given the other
        noisy labels, is a 1 with a probability from τ to 1-τ for both values of the target's noisy label. Other
        submissions count as showing that label if their sender fetched it. The result combines the bounds of several
        levels. Fetchers come in groups. The users of a group have identical rows of fetch probabilities, so that given
        the other noisy labels all of them submit a 1 with the same probability.

        Args:
            users: (G,), one user of each group. weights: (G,), the probability with which a user of the group fetches
            from the target. counts: (G,), how many users the group has. copies: (G,), how many groups of this kind
            there are: their rows differ, but have the same bounds.
        """
        tails = self._tails.lacking(users, weights) if self.flip_prob >= LEAST_FLIP else None
        return TargetLevels(
            weights, self._table.rates[users], counts, flip_prob=self.flip_prob, tails=tails, copies=copies
        )

    def _bounds_by_kind(self, users: Ints) -> Iterator[UserBound]:
        """Bounds of δ(ε), the largest of which holds for each of the given users, (u,).

        The fetchers of a label are the users who may fetch it. Fetchers are of one kind if they have the same fetch
        probability for all their peers, equally many peers with hidden labels, and the same rate and membership of the
        coalition. The given users are grouped by how many fetchers of each kind they have, and each group has one
        bound. Instead there is only the bound of the noise on a label alone if the learner knows the noisy label of any
        given user, if some user's positive fetch probabilities differ from each other, or if there are more than
        `MOST_FETCHERS` (64) kinds or `MOST_KINDS` (500) groups.
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
    """The bounds of one user's δ(ε); the user is given by her row in the table. The bounds are built when first needed;
    those of the last 32 users are cached.

    The table does not store them: they refer to the table, and such a cycle would delay the freeing of many tables.
    """
    return table._build(user)
