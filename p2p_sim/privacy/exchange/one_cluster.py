"""The learner's δ and ε in one cluster, bracketed over all data sets.

The S sources are the users whose noisy bits submissions carry, the target among them. A data set is given by m (`ones`
in the code): how many of the other S - 1 hold label 1. Only m up to half of S - 1 matters: swapping the two labels maps
larger m onto smaller m. m = 0 is evaluated first, and nearly always has the largest δ.

**The covering argument.** Tell the learner the noisy bits of b other users, and which submissions carry these bits: we
*reveal* b bits. Her δ does not fall, as she knows more. What remains is an exchange among S - b sources in which m' of
the other S - 1 - b users hold label 1, with t ~ Bin(trials, rate (S-b)/S) submissions. We choose whose bits are
revealed. So one m' serves every data set from m' to m' + b:

    max over m = m'..m'+b of δ_{S,m}(ε)  <=  δ_{S-b,m'}(ε).

So one evaluation at m' certifies (ε, δ) for a `CoverBlock` of b + 1 data sets (`check`). All data sets are certified
if blocks reach from m = 1 to half (`_cover`). `CoverPlan` proposes b by a heuristic; what is certified does not depend
on it. In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, where V is S times the sum of `Sources.variances`. V grows
with m up to half: the larger m, the more bits may be revealed before V falls to that of m = 0.

Above `EXHAUSTIVE` sources this may take too many evaluations. Then at least b = `ClusterExchange.revealed` bits are
revealed for every data set, m = 0 included. Revealing b bits raises ε by a factor of about 1 + b/(2S).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from p2p_sim.privacy.binomial_windows import NARROW, share_of
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange.delta_evaluator import TABULATED, DeltaEvaluator, Sources, rough_log_delta
from p2p_sim.privacy.randomized_response import local_epsilon, outward

EXHAUSTIVE = 2048
"""Largest number of sources for which all data sets are searched for the worst, however many evaluations this takes."""
_EXPECTED = TABULATED
"""Largest number of expected submissions for which the bounds of ε are those of the worst data set."""
_ROOM = (0.004, 0.001, 0.0003)
"""Relative increases of the ε of m = 0 that are tried in larger clusters, so that fewer data sets need evaluation."""
_LOOKS = 24
"""In larger clusters blocks with b from 0 up are tried if fewer evaluations are expected; twice as many are allowed."""
_BATCH = 24
"""Largest number of data sets that are evaluated together."""
_WORTH = 12
"""Bits are revealed only if b exceeds this or 3% of the sources; else data sets are evaluated together."""


@dataclass(frozen=True)
class CoverBlock:
    """Data sets that are certified together: m to m + `revealed` for each m in `ones`.

    ones: numbers m of others with label 1 at which δ is evaluated; they are 1 + `revealed` apart.
    revealed: b, how many other users' noisy bits the learner is told.
    change: as in `DeltaEvaluator`: `NARROW` for reported figures; larger for a *quick look*, a coarser upper bound.
    """

    ones: range
    revealed: int
    change: float = NARROW


ZEROS = CoverBlock(range(1), 0)
"""The data set in which all others hold label 0."""


class PrivacyTarget(NamedTuple):
    """A pair (ε, δ) that is to be certified for every data set."""

    epsilon: float
    delta: float


Include = Callable[[CoverBlock], bool]
"""Whether a block whose `change` is `NARROW` is certified; may raise ε or δ of the targets until they hold."""


@dataclass(frozen=True)
class ClusterExchange(Sources):
    """One exchange among users of a cluster, as the learner sees it.

    Args:
        sources: S, users whose noisy bits can be submitted, the target among them; at least 1.
        flip_prob: α, 0 or in [1e-300, 1/2].
        trials, rate: the number t of submissions that carry a source's noisy bit is Bin(trials, rate).

    With α = 0, δ(ε) is for every ε the probability that somebody submits the target's label. No data set exceeds it,
    even if the learner is told whose label each submission carries. m = 0 attains it: a submitted 1 is the target's.
    """

    def delta(self, epsilon: float) -> Bracket:
        """Lower and upper bound of the learner's δ(ε), the largest over all data sets and both directions."""
        return self.profile([epsilon])[0]

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """For each ε, bounds of δ(ε) over all data sets and both directions; sums are truncated for the largest ε."""
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
            """Raise δ of each target to the block's; never refuses."""
            evaluator = self._evaluator(block, log_delta)
            views = evaluator.views(block.ones)
            for index, (epsilon, upper) in enumerate(targets):
                delta = evaluator.deltas(views, epsilon)
                # a lower bound counts only if no bits are revealed
                lower[index] = lower[index] if block.revealed else max(lower[index], delta.lower)
                targets[index] = PrivacyTarget(epsilon, max(upper, delta.upper))
            return True

        # δ of m = 0, raised where another data set has a larger δ
        include(ZEROS)
        if not self._cover(targets, log_delta, include):
            targets[:] = zero
            include(self._zeros_revealed)
            self._cover(targets, log_delta, include, least=self.revealed, limited=False)
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
            exposed = self.exposed
            return Bracket(*(local if end > delta else 0.0 for end in (exposed.lower, exposed.upper)))
        # ε of m = 0: attained from below, certified from above
        log_delta = math.log(delta)
        evaluator = DeltaEvaluator(self, log_delta)
        lower = evaluator.cross(ZEROS.ones, delta, 0.0, upper=False).above
        if math.isinf(lower):
            return Bracket(local, local)
        upper = evaluator.cross(ZEROS.ones, delta, lower, upper=True).below
        # in large clusters raise ε by `room`, so that the other data sets may have a V smaller by (1 + room)²
        share = 1.0
        if not self.tabulated:
            room = self._room(upper, delta)
            upper, share = min(upper * (1.0 + room), local), 1.0 / (1.0 + room) ** 2
        targets = [PrivacyTarget(upper, delta)]

        def include(block: CoverBlock) -> bool:
            """Raise ε of the target to the block's; never refuses."""
            nonlocal lower
            evaluator, upper = self._evaluator(block, log_delta), targets[0].epsilon
            raised = evaluator.cross(block.ones, delta, upper, upper=True).below
            if not block.revealed and upper < raised < math.inf:
                worst = evaluator.worst(block.ones, raised)
                lower = max(lower, evaluator.cross([worst], delta, 0.0, upper=False).above)
            targets[0] = PrivacyTarget(raised, delta)
            return True

        # ε is raised where another data set has a larger ε
        if not self._cover(targets, log_delta, include, share=share):
            targets[0] = PrivacyTarget(lower, delta)
            include(self._zeros_revealed)
            self._cover(targets, log_delta, include, least=self.revealed, limited=False)
        return Bracket(min(lower, local), min(targets[0].epsilon, local))

    def satisfies(self, epsilon: float, delta: float, cut_for: float | None = None) -> bool:
        """Whether (ε, δ) is certified; False may mean that (ε, δ) holds but could not be certified.

        cut_for: ln of the δ for which sums are truncated; None: ln `delta`. One value for many calls reuses tables.
        """
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or delta >= 1.0:
            return True
        if math.isinf(local):
            return self.exposed.upper <= delta
        log_delta, targets = math.log(delta) if cut_for is None else cut_for, [PrivacyTarget(epsilon, delta)]

        def include(block: CoverBlock) -> bool:
            return self.check(block, log_delta, targets)

        # a rough δ of m = 0 shows how much smaller V of the other data sets may be: ln δ is about -ε² V/2
        largest = DeltaEvaluator(self, log_delta, 0.5).at(0, epsilon).upper
        if largest > delta and not include(ZEROS):
            return False
        share = log_delta / min(log_delta, math.log(largest)) if largest > 0.0 else 0.0
        if self._cover(targets, log_delta, include, share=share):
            return True
        # in larger clusters try once more, with enough bits revealed that few evaluations are needed
        fewer = not self.tabulated and include(self._zeros_revealed)
        return fewer and self._cover(targets, log_delta, include, least=self.revealed, limited=False)

    def check(self, block: CoverBlock, log_delta: float, targets: Sequence[PrivacyTarget]) -> bool:
        """Whether δ is certified at the ε of every target, for all data sets of a block; changes nothing."""
        evaluator = self._evaluator(block, log_delta)
        if len(block.ones) > 1 and not evaluator.direct:
            return False  # the views would be those of the first data set alone
        views = evaluator.views(block.ones)
        return all(evaluator.bounds(views, target.epsilon, (True,))[0].max() <= target.delta for target in targets)

    @property
    def tabulated(self) -> bool:
        """Whether the bounds of ε are those of the worst data set, at any cost of time, since the cluster is small."""
        return self.sources <= EXHAUSTIVE and self.trials * self.rate <= _EXPECTED

    @property
    def revealed(self) -> int:
        """The smallest b of a block in the last attempt at a large cluster: 1% of the sources, 2% above 20,000."""
        return self.sources // (100 if self.sources <= 20_000 else 50)

    def _room(self, epsilon: float, delta: float) -> float:
        """The relative increase of ε, from `_ROOM` or 0, that is smaller than revealing `revealed` bits would cause."""
        reduced = self._evaluator(self._zeros_revealed, math.log(delta))
        views = reduced.views(ZEROS.ones)
        for room in _ROOM:
            [lower] = reduced.bounds(views, epsilon * (1.0 + room), (False,))
            if lower.max() > delta:
                return room
        return 0.0

    @property
    def _zeros_revealed(self) -> CoverBlock:
        """The block that is evaluated at m = 0 with b = `revealed` and so certifies m = 0 to b."""
        return CoverBlock(ZEROS.ones, self.revealed)

    def _evaluator(self, block: CoverBlock, log_delta: float) -> DeltaEvaluator:
        """The evaluator of δ in the exchange that remains when a block's b bits are revealed; the rate is rounded up.

        A quick look keeps a rate of 1: this does not lower δ, and t has a single value.
        """
        remaining, rate = self.sources - block.revealed, self.rate
        if rate < 1.0 or block.change == NARROW:
            rate = share_of(rate, remaining, self.sources, up=True)
        return DeltaEvaluator(replace(self, sources=remaining, rate=rate), log_delta, block.change)

    def _cover(
        self,
        targets: Sequence[PrivacyTarget],
        log_delta: float,
        include: Include,
        *,
        least: int = 0,
        share: float = 1.0,
        limited: bool = True,
    ) -> bool:
        """Whether all data sets from m = 1 + `least` to half are certified, block by block; False also if it gives up.

        Args:
            targets: what quick looks are checked against; `include` may raise them.
            least: smallest b of a block. share: the V that blocks need, as a share of that of m = 0.
            limited: whether to give up after `CoverPlan.most_looks` evaluations in a large cluster. False in the last
                attempt: `epsilon` and `profile` then report their figure whatever the result.
        """
        half, needed = (self.sources - 1) // 2, self.sources * sum(self.variances(0)) * share
        plan = CoverPlan(self, self._evaluator(CoverBlock(ZEROS.ones, least), log_delta), least, needed)
        most = plan.most_looks(half) if limited and not self.tabulated else math.inf
        # all data sets before `first` are certified
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
        """ln of a rough δ(ε) of m = 0, for which sums may be truncated."""
        return rough_log_delta(lambda guess: DeltaEvaluator(self, guess).at(0, epsilon).lower)


@dataclass(frozen=True)
class CoverPlan:
    """Proposes blocks to certify: a heuristic that decides how many evaluations are needed and nothing else.

    exchange: the exchange whose data sets are certified. exact: the evaluator of blocks with b = `least` that are no
    quick look. least: smallest b. needed: the V at which δ is about the target δ.
    """

    exchange: Sources
    exact: DeltaEvaluator
    least: int
    needed: float

    def blocks(self, first: int, trust: float) -> list[CoverBlock]:
        """One or two blocks that cover the same data sets, the quicker first; the caller tries them in this order.

        Args:
            first: smallest m that is not certified yet. trust: share of the `revealable` bits that is revealed.
        """
        exchange, least, half = self.exchange, self.least, (self.exchange.sources - 1) // 2
        # reveal b bits: if the estimate is right, δ of m at S - b sources is still below the target
        few = max(least, 2, 0 if exchange.rate == 1.0 else min(_WORTH, int(0.03 * exchange.sources)))
        revealed = int(trust * self.revealable(first))
        if revealed > few:
            revealed = min(revealed, half - first)
            # revealing changes ln δ by a share of about b/S; let blocks of submissions change it about as much
            change = min(max(1.2 * NARROW, -0.4 * self.exact.log_delta * revealed / exchange.sources), 1.0)
            return [CoverBlock(range(first, first + 1), revealed, change)]
        # else evaluate data sets together whose laws of X overlap: within 6 standard deviations of the flips
        apart = (1.0 - 2.0 * exchange.flip_prob) * (least + 1)
        flipped = exchange.flip_prob * (1.0 - exchange.flip_prob)
        overlap = 6.0 * math.sqrt(exchange.sources * flipped) / apart if apart else math.inf
        batch = max(1, int(min(_BATCH, overlap)))
        # as far as the m from which revealing is faster; a single m where δ is not computed from tables
        count = next((c for c in range(4, batch, 4) if trust * self.revealable(first + c) > few), batch)
        block = CoverBlock(range(first, half + 1, least + 1)[: count if self.exact.direct else 1], least)
        # where V is larger than needed, try a quick look first: ln δ has room for a share of 1 - needed/V
        larger = exchange.sources * sum(exchange.variances(first))
        change = min(-0.4 * self.exact.log_delta * (1.0 - self.needed / larger), 1.0)
        return [replace(block, change=change), block] if change > 2.0 * NARROW and not least else [block]

    def most_looks(self, half: int) -> int:
        """Limit of evaluations for all m up to `half`: twice `_LOOKS`, or 0 if at least `_LOOKS` are expected."""
        ones, expected = 1, 0
        while ones <= half and expected < _LOOKS:
            ones += 1 + max(0, int(0.7 * self.revealable(ones)))
            expected += 1
        return 2 * _LOOKS if expected < _LOOKS else 0

    def revealable(self, ones: int) -> float:
        """Estimate of how many noisy bits may be revealed before V (see the module) of m = `ones` is `needed`."""
        exchange = self.exchange
        if not 0.0 < self.needed < 1e150:
            return 0.0
        drawn, flipped = exchange.variances(ones)
        if exchange.rate < 1.0:
            return exchange.sources - self.needed / (drawn + flipped)
        # t is fixed and does not change when bits are revealed: with s sources left, V = s (drawn s/S + flipped)
        drawn /= exchange.sources
        sources = (math.sqrt(flipped**2 + 4.0 * drawn * self.needed) - flipped) / (2.0 * drawn)
        return exchange.sources - sources
