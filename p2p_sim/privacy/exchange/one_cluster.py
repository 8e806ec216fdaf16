"""The learner's δ and ε in one cluster, bracketed over all data sets.

The S sources are the users whose noisy bits submissions carry, the target among them. A data set is given by m (`ones`
in the code): how many of the other S - 1 hold label 1. δ is the larger one of both directions, label 0 against 1 and
1 against 0. Swapping the labels maps m to S - 1 - m and swaps the directions. So only m up to half of S - 1 matters.
m = 0 is evaluated first, and nearly always has the largest δ.

**The covering argument.** Let δ_{S,m} be the δ of S sources at m, with t ~ Bin(trials, rate) submissions. *Reveal* the
noisy bits of b other users to the learner, and which submissions carry these bits. δ does not fall, since she may
ignore this. What remains is an exchange among S - b sources with t ~ Bin(trials, rate (S-b)/S), whose δ at m' is
δ_{S-b,m'}. For m = m'..m'+b, reveal m - m' users with label 1 and b - (m - m') with label 0: m' others with label 1
remain. So

    max over m = m'..m'+b of δ_{S,m}(ε)  <=  δ_{S-b,m'}(ε).

One evaluation at m' certifies (ε, δ) for b + 1 data sets. A `CoverBlock` has one or more such m', at most 1 + b apart.
All data sets are certified if m = 0 is, and if blocks reach from m = 1 to half without a gap (`_cover`). If ε is raised
on the way, earlier blocks remain certified, since δ(ε) falls. `CoverPlan` proposes blocks by a heuristic. `_evaluator`
refuses a block that the argument does not cover, so that the plan decides only how long this takes and how tight it is.
The heuristic compares data sets by their V: ln δ is about -ε² V/2 (see `cover_plan`).

With more than `EXHAUSTIVE` sources or `_EXPECTED` expected submissions the number of evaluations is limited. `epsilon`
first raises ε by one of `_ROOM`, so that more bits may be revealed. If the limit is reached, at least
b = `least_revealed` bits are revealed for every data set, m = 0 included.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from p2p_sim.privacy.binomial_windows import NARROW, share_of
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange.cover_plan import ZEROS, CoverBlock, CoverPlan
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator, Sources, rough_log_delta
from p2p_sim.privacy.randomized_response import local_epsilon, outward

EXHAUSTIVE = 2048
"""Largest number of sources for which all data sets are searched for the worst, however many evaluations this takes."""
_EXPECTED = 4096
"""Largest number of expected submissions for which all data sets are searched, however many evaluations this takes."""
_ROOM = (0.004, 0.001, 0.0003)
"""Relative increases of the ε of m = 0 that are tried where evaluations are limited, so that fewer are needed."""


class PrivacyTarget(NamedTuple):
    """A pair (ε, δ) that is to be certified for every data set."""

    epsilon: float
    delta: float


Include = Callable[[CoverBlock], bool]
"""Whether a block that is no quick look is certified. Some raise ε or δ of the targets until it is, and return True."""


@dataclass(frozen=True)
class ClusterExchange(Sources):
    """One exchange among users of a cluster, as the learner sees it.

    Args:
        sources: S, users whose noisy bits can be submitted, the target among them; at least 1.
        flip_prob: α, 0 or in [1e-300, 1/2].
        trials, rate: the number t of submissions that carry a source's noisy bit is Bin(trials, rate).

    With α = 0, δ(ε) is for every ε the probability that somebody submits the target's label. No data set exceeds it,
    even if the learner knows whose label each submission carries. m = 0 attains it: a submitted 1 is the target's.
    """

    def delta(self, epsilon: float) -> Bracket:
        """Lower and upper bound of the learner's δ(ε), the largest over all data sets and both directions."""
        return self.profile([epsilon])[0]

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """For each ε, bounds of the largest δ(ε) over all data sets and both directions, from shared tables."""
        local = local_epsilon(self.flip_prob)
        if math.isinf(local):
            return [self.exposed] * len(epsilons)
        inside = [e for e in epsilons if e < local]
        if not inside:
            return [Bracket(0.0, 0.0)] * len(epsilons)
        log_delta = self._log_delta(max(inside))
        zero = [PrivacyTarget(e, 0.0) for e in inside]
        lower, targets = [0.0] * len(inside), zero.copy()

        def include(block: CoverBlock) -> bool:
            """Raise δ of each target to the block's, which certifies the block."""
            evaluator = self._evaluator(block, log_delta)
            views = evaluator.views(block.ones)
            for index, (epsilon, upper) in enumerate(targets):
                delta = evaluator.deltas(views, epsilon)
                # δ with revealed bits may exceed the true δ, so that its lower bound does not count
                lower[index] = lower[index] if block.revealed else max(lower[index], delta.lower)
                targets[index] = PrivacyTarget(epsilon, max(upper, delta.upper))
            return True

        # δ of m = 0, raised where another data set has a larger δ
        include(ZEROS)
        if not self._cover(targets, log_delta, include):
            # the limit was reached: anew, with `least_revealed` bits revealed everywhere
            targets[:] = zero
            include(self._zeros_revealed)
            self._cover(targets, log_delta, include, least=self.least_revealed, limited=False)
        brackets = {e: outward(attained, upper) for attained, (e, upper) in zip(lower, targets, strict=True)}
        return [brackets.get(e, Bracket(0.0, 0.0)) for e in epsilons]

    def attained_delta(self, epsilon: float) -> float:
        """A lower bound of the largest δ(ε) over data sets: the δ(ε) of m = 0, where all others hold label 0."""
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or math.isinf(local):
            return 0.0 if epsilon >= local else self.exposed.lower
        return outward(DeltaEvaluator(self, self._log_delta(epsilon)).at(0, epsilon).lower, 1.0).lower

    @disk_cached
    def epsilon(self, delta: float) -> Bracket:
        """Lower and upper bound of the smallest ε at which the learner's (ε, δ) holds for all data sets."""
        local = local_epsilon(self.flip_prob)
        if local == 0.0:
            return Bracket(0.0, 0.0)
        if math.isinf(local):
            return Bracket(*(local if end > delta else 0.0 for end in (self.exposed.lower, self.exposed.upper)))
        # ε of m = 0: attained from below, certified from above
        log_delta = math.log(delta)
        evaluator = DeltaEvaluator(self, log_delta)
        lower = evaluator.cross(ZEROS.ones, delta, 0.0, upper=False).above
        upper = evaluator.cross(ZEROS.ones, delta, lower, upper=True).below
        # where evaluations are limited raise ε by `room`: then V of the other data sets may be smaller by (1 + room)²
        variance_share = 1.0
        if not self.searched_in_full:
            # the largest room that costs less than revealing `least_revealed` bits; 0 if none does
            reduced = self._evaluator(self._zeros_revealed, log_delta)
            views = reduced.views(ZEROS.ones)
            dear = (room for room in _ROOM if reduced.bounds(views, upper * (1.0 + room), (False,))[0].max() > delta)
            room = next(dear, 0.0)
            upper, variance_share = min(upper * (1.0 + room), local), 1.0 / (1.0 + room) ** 2
        targets = [PrivacyTarget(upper, delta)]

        def include(block: CoverBlock) -> bool:
            """Raise ε of the target to the block's, which certifies the block."""
            nonlocal lower
            evaluator, upper = self._evaluator(block, log_delta), targets[0].epsilon
            raised = evaluator.cross(block.ones, delta, upper, upper=True).below
            if not block.revealed and upper < raised < math.inf:
                lower = max(
                    lower, evaluator.cross([evaluator.worst(block.ones, raised)], delta, 0.0, upper=False).above
                )
            targets[0] = PrivacyTarget(raised, delta)
            return True

        # ε is raised where another data set has a larger ε
        if not self._cover(targets, log_delta, include, variance_share=variance_share):
            # the limit was reached: anew, with `least_revealed` bits revealed everywhere
            targets[0] = PrivacyTarget(lower, delta)
            include(self._zeros_revealed)
            self._cover(targets, log_delta, include, least=self.least_revealed, limited=False)
        return Bracket(min(lower, local), min(targets[0].epsilon, local))

    def satisfies(self, epsilon: float, delta: float, cut_for: float | None = None) -> bool:
        """Whether (ε, δ) is certified; False may mean that (ε, δ) holds but could not be certified.

        cut_for: ln of the δ for which sums are truncated; None: ln `delta`. Calls with equal `cut_for` share tables.
        """
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or delta >= 1.0:
            return True
        if math.isinf(local):
            return self.exposed.upper <= delta
        log_delta, targets = math.log(delta) if cut_for is None else cut_for, [PrivacyTarget(epsilon, delta)]

        def include(block: CoverBlock) -> bool:
            return self.check(block, log_delta, targets)

        # a rough δ of m = 0 certifies m = 0 if it is small, and shows the V needed, as ln δ is about -ε² V/2
        rough = DeltaEvaluator(self, log_delta, 0.5).at(0, epsilon).upper
        if rough > delta and not include(ZEROS):
            return False
        variance_share = log_delta / min(log_delta, math.log(rough)) if rough > 0.0 else 0.0
        if self._cover(targets, log_delta, include, variance_share=variance_share):
            return True
        # where evaluations are limited try once more, with enough bits revealed that few evaluations are needed
        return (
            not self.searched_in_full
            and include(self._zeros_revealed)
            and self._cover(targets, log_delta, include, least=self.least_revealed, limited=False)
        )

    def check(self, block: CoverBlock, log_delta: float, targets: Sequence[PrivacyTarget]) -> bool:
        """Whether the block's data sets satisfy (ε, δ) for every target as it is; no target is raised."""
        evaluator = self._evaluator(block, log_delta)
        if len(block.ones) > 1 and not evaluator.direct:
            return False  # the views would be those of the first data set alone
        views = evaluator.views(block.ones)
        return all(evaluator.bounds(views, target.epsilon, (True,))[0].max() <= target.delta for target in targets)

    @property
    def searched_in_full(self) -> bool:
        """Whether the cluster is so small that all data sets are searched, however many evaluations this takes."""
        return self.sources <= EXHAUSTIVE and self.trials * self.rate <= _EXPECTED

    @property
    def least_revealed(self) -> int:
        """How many noisy bits are revealed at least, in the last attempt where the number of evaluations is limited.

        It is 1% of the S sources, 2% for S above 20,000, and 0 for S < 100: with so few data sets, the last attempt is
        the first one without its limit.
        """
        return self.sources // (100 if self.sources <= 20_000 else 50)

    @property
    def _zeros_revealed(self) -> CoverBlock:
        """The data sets in which 0 to `least_revealed` others hold label 1, certified with so many bits revealed."""
        return CoverBlock(ZEROS.ones, self.least_revealed)

    def _evaluator(self, block: CoverBlock, log_delta: float) -> DeltaEvaluator:
        """The evaluator of δ in the exchange that remains if a block's bits are revealed; its rate is rounded up.

        A quick look keeps a rate of 1. Then t has a single value, and δ is no lower, as dropping submissions is
        post-processing.

        Raises:
            ValueError: δ at the m of the block does not bound δ of all m from the first of them to the last plus b.
        """
        ones, revealed, rate = block.ones, block.revealed, self.rate
        remaining = self.sources - revealed
        if rate < 1.0 or block.change == NARROW:
            rate = share_of(rate, remaining, self.sources, up=True)
        evaluator = DeltaEvaluator(replace(self, sources=remaining, rate=rate), log_delta, block.change)
        # m are at most 1 + b apart, the last plus b at most S - 1; several m need tables, since tails are those of the
        # first m alone (of a quick look, `check` sees to this)
        fits = ones[0] >= 0 and 1 <= ones.step <= 1 + revealed and ones[-1] + revealed < self.sources
        if not fits or (len(ones) > 1 and block.change <= NARROW and not evaluator.direct):
            raise ValueError(f"{block}: does not certify every data set from the first to the last")
        return evaluator

    def _cover(
        self,
        targets: Sequence[PrivacyTarget],
        log_delta: float,
        include: Include,
        *,
        least: int = 0,
        variance_share: float = 1.0,
        limited: bool = True,
    ) -> bool:
        """Certify all data sets from m = 1 + `least` to half, block by block; return whether it succeeded.

        Args:
            targets: what quick looks are checked against; `include` may raise them.
            log_delta: ln of the δ for which sums may be truncated. include: certifies a block that is no quick look.
            least: smallest b of a block. variance_share: the V that blocks need, as a share of that of m = 0.
            limited: whether to give up after `CoverPlan.most_looks` evaluations, unless `searched_in_full`. If False,
                the result for `epsilon` and `profile` is True, since their `include` certifies every block.
        """
        half, needed = (self.sources - 1) // 2, self.sources * sum(self.variances(0)) * variance_share
        plan = CoverPlan(self, self._evaluator(CoverBlock(ZEROS.ones, least), log_delta), least, needed)
        most = plan.most_looks(half) if limited and not self.searched_in_full else math.inf
        # all data sets before `first` are certified; 0.6, 1.3 and 2 below affect speed only
        first, trust, looks = 1 + least, 0.6, 0
        while first <= half and looks < most:
            looks += 1
            blocks = plan.blocks(first, trust)
            certified = next(
                (b for b in blocks if (self.check(b, log_delta, targets) if b.change > NARROW else include(b))), None
            )
            if certified is not None and certified.ones[0] <= first:
                first, trust = certified.ones[-1] + certified.revealed + 1, min(1.3 * trust, 1.0)
            # a quick look that fails is tried again with fewer bits revealed
            elif blocks[-1].change > NARROW:
                trust /= 2.0
            else:
                return False
        return first > half

    def _log_delta(self, epsilon: float) -> float:
        """ln of a rough δ(ε) of m = 0; terms far below it may be left out of sums."""
        return rough_log_delta(lambda guess: DeltaEvaluator(self, guess).at(0, epsilon).lower)
