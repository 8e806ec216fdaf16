"""The learner's δ and ε in one cluster, bracketed over all data sets.

A data set is m, how many others hold label 1; swapping the labels mirrors m above half. m = 0 is evaluated first, and
is nearly always the worst. The others are held against it.

**The covering argument.** Let b others' noisy bits be revealed, and which submissions were fetched from them: δ does
not fall. What remains is an exchange among S - b sources with t ~ Bin(trials, rate (S-b)/S), of which m' of the other
S - 1 - b hold label 1; by choosing whom to reveal, one m' serves every m from m' to m' + b:

    max over m = m'..m'+b of δ_{S,m}(ε)  <=  δ_{S-b,m'}(ε).

So (ε, δ) is certified for a `CoverBlock` of b + 1 data sets by one evaluation at m' (`check`), and for all if blocks
reach from 1 to half (`_cover`): each starts at the first data set that is not certified yet. Which to try is a
heuristic (`CoverPlan`), on which nothing that is certified rests; where revealing tells too much, b is 0, and ε is
raised where it must be. In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, with V = S times `Sources.variances`: what
the choice of peers and their flips hide together. V grows with m up to half, so that b bits may be revealed before it
falls to that of all zeros.

Above `EXHAUSTIVE` users this may take too many evaluations. Then b is at least `revealed` everywhere, at m = 0 too,
which costs a factor of about 1 + b/(2S) in ε.
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
"""Most sources for which ε is that of the worst data set, whatever that takes."""
_EXPECTED = TABULATED
"""Most expected submissions for which that is so."""
_ROOM = (0.004, 0.001, 0.0003)
"""Shares by which ε of all zeros may be raised above `EXHAUSTIVE` users, so that the other data sets are below it."""
_LOOKS = 24
"""Most evaluations, where ε may be larger, before b is; as many again may fail."""
_BATCH = 24
"""Most data sets that are evaluated together."""
_WORTH = 12
"""To reveal more bits than this, or than 3% of them, is faster than to evaluate as many data sets together."""


@dataclass(frozen=True)
class CoverBlock:
    """Data sets m to m + `revealed`, for each m that is evaluated, which are certified together.

    ones: the m that are evaluated, 1 + `revealed` apart, so that their data sets follow one another without a gap.
    revealed: b, others whose noisy bits are known. change: as in `DeltaEvaluator`. `NARROW` is for figures that are
    stated; more is faster, and may fail where the target holds.
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
"""Certifies a block that is no quick look, if it must by moving the targets; False where it refuses."""


@dataclass(frozen=True)
class ClusterExchange(Sources):
    """One exchange among users of a cluster, as the learner sees it.

    Args:
        sources: S, users who can be fetched, the target among them; at least 1.
        flip_prob: α, 0 or in [1e-300, 1/2].
        trials, rate: the number of informative submissions is Bin(trials, rate).

    With α = 0, δ is for every ε the probability that somebody submits the target's label: it is nowhere larger if one
    is told who fetched from whom, and if all others hold label 0, a submitted 1 is hers.
    """

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) over all data sets and both directions."""
        return self.profile([epsilon])[0]

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """δ at several ε, over all data sets and both directions; truncations are chosen for the largest ε."""
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
            """Raise δ to that of the block."""
            evaluator = self._evaluator(block, log_delta)
            views = evaluator.views(block.ones)
            for index, (epsilon, upper) in enumerate(targets):
                delta = evaluator.deltas(views, epsilon)
                # what is attained with bits revealed is not attained without
                lower[index] = lower[index] if block.revealed else max(lower[index], delta.lower)
                targets[index] = PrivacyTarget(epsilon, max(upper, delta.upper))
            return True

        # δ of m = 0, raised where another data set is above it
        include(ZEROS)
        if not self._cover(targets, log_delta, include):
            targets[:] = zero
            include(self._zeros_revealed)
            self._cover(targets, log_delta, include, least=self.revealed, limited=False)
        brackets = {e: outward(attained, upper) for attained, (e, upper) in zip(lower, targets, strict=True)}
        return [brackets.get(e, Bracket(0.0, 0.0)) for e in epsilons]

    def attained_delta(self, epsilon: float) -> float:
        """δ(ε) of the data set in which all others hold label 0: a lower bound over all data sets."""
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or math.isinf(local):
            return 0.0 if epsilon >= local else self.exposed.lower
        return outward(DeltaEvaluator(self, self._log_delta(epsilon)).at(0, epsilon).lower, 1.0).lower

    @disk_cached
    def epsilon(self, delta: float) -> Bracket:
        """ε(δ) over all data sets and both directions."""
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
        # in large clusters ε is raised by a share first, so that V of the other data sets may be so much smaller
        share = 1.0
        if not self.tabulated:
            room = self._room(upper, delta)
            upper, share = min(upper * (1.0 + room), local), 1.0 / (1.0 + room) ** 2
        targets = [PrivacyTarget(upper, delta)]

        def include(block: CoverBlock) -> bool:
            """Raise ε to that of the block."""
            nonlocal lower
            evaluator, upper = self._evaluator(block, log_delta), targets[0].epsilon
            raised = evaluator.cross(block.ones, delta, upper, upper=True).below
            if not block.revealed and upper < raised < math.inf:
                worst = evaluator.worst(block.ones, raised)
                lower = max(lower, evaluator.cross([worst], delta, 0.0, upper=False).above)
            targets[0] = PrivacyTarget(raised, delta)
            return True

        # ε is raised where another data set's is above it
        if not self._cover(targets, log_delta, include, share=share):
            targets[0] = PrivacyTarget(lower, delta)
            include(self._zeros_revealed)
            self._cover(targets, log_delta, include, least=self.revealed, limited=False)
        return Bracket(min(lower, local), min(targets[0].epsilon, local))

    def satisfies(self, epsilon: float, delta: float, log_tail_of: float | None = None) -> bool:
        """Whether (ε, δ) is certified for all data sets; False may mean that it holds but could not be certified.

        log_tail_of: logarithm of the δ by which it is chosen what is left out of sums; that of `delta` unless given.
        """
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or delta >= 1.0:
            return True
        if math.isinf(local):
            return self.exposed.upper <= delta
        log_delta, targets = math.log(delta) if log_tail_of is None else log_tail_of, [PrivacyTarget(epsilon, delta)]

        def include(block: CoverBlock) -> bool:
            return self.check(block, log_delta, targets)

        # a rough δ of m = 0 shows how much smaller V of the other data sets may be: ln δ is about -ε² V/2
        largest = DeltaEvaluator(self, log_delta, 0.5).at(0, epsilon).upper
        if largest > delta and not include(ZEROS):
            return False
        share = log_delta / min(log_delta, math.log(largest)) if largest > 0.0 else 0.0
        if self._cover(targets, log_delta, include, share=share):
            return True
        # above `EXHAUSTIVE` users once more, with so many bits revealed everywhere that few data sets need a look
        fewer = not self.tabulated and include(self._zeros_revealed)
        return fewer and self._cover(targets, log_delta, include, least=self.revealed, limited=False)

    def check(self, block: CoverBlock, log_delta: float, targets: Sequence[PrivacyTarget]) -> bool:
        """Whether every target (ε, δ) is certified for all data sets of a block."""
        evaluator = self._evaluator(block, log_delta)
        if len(block.ones) > 1 and not evaluator.direct:
            return False  # the views would be those of the first data set alone
        views = evaluator.views(block.ones)
        return all(evaluator.bounds(views, target.epsilon, (True,))[0].max() <= target.delta for target in targets)

    @property
    def tabulated(self) -> bool:
        """Whether the exchange is so small that ε is that of the worst data set, and is not raised."""
        return self.sources <= EXHAUSTIVE and self.trials * self.rate <= _EXPECTED

    @property
    def revealed(self) -> int:
        """b: how many others' noisy bits are revealed for every data set, where fewer would take too long."""
        return self.sources // (100 if self.sources <= 20_000 else 50)

    def _room(self, epsilon: float, delta: float) -> float:
        """A share by which ε may be raised and stays below ε of all zeros with `revealed` known bits."""
        reduced = self._evaluator(self._zeros_revealed, math.log(delta))
        views = reduced.views(ZEROS.ones)
        for room in _ROOM:
            [lower] = reduced.bounds(views, epsilon * (1.0 + room), (False,))
            if lower.max() > delta:
                return room
        return 0.0

    @property
    def _zeros_revealed(self) -> CoverBlock:
        """The block that starts at the data set of all zeros, with `revealed` bits known."""
        return CoverBlock(ZEROS.ones, self.revealed)

    def _evaluator(self, block: CoverBlock, log_delta: float) -> DeltaEvaluator:
        """What evaluates δ in the exchange that remains when a block's bits are revealed, its rate rounded up.

        In a quick look at an exchange in which everybody submits the rate stays 1: δ is no smaller, and there is one
        number of submissions alone.
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
        """Certify all data sets from m = 1 + `least` on, block by block; False if one fails, or if it takes too long.

        Args:
            targets: what quick looks are checked against; `include` may move them.
            include: certifies a block for a stated figure, if need be by moving the targets; False where it refuses.
            least: smallest b. share: V that is needed, as a share of that of all zeros.
            limited: whether to give up above `EXHAUSTIVE` users or expected submissions. A last attempt must not be,
                even where `least` is 0, in clusters of fewer than 100 users: what it returns is then stated.
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
        """Logarithm of a rough δ(ε), by which it is chosen what is left out of sums."""
        return rough_log_delta(lambda guess: DeltaEvaluator(self, guess).at(0, epsilon).lower)


@dataclass(frozen=True)
class CoverPlan:
    """Proposes blocks of data sets to certify. It decides how many evaluations are needed; no certificate rests on it.

    exchange: whose data sets are certified. exact: evaluates blocks for stated figures, with `least` bits revealed.
    least: smallest b. needed: V at which δ is about the target's.
    """

    exchange: Sources
    exact: DeltaEvaluator
    least: int
    needed: float

    def blocks(self, first: int, trust: float) -> list[CoverBlock]:
        """Blocks that start at m = `first`, to try one after another until one is certified; the quickest comes first.

        Args:
            first: from 1 to half. trust: the part of `revealable` that is revealed.
        """
        exchange, least, half = self.exchange, self.least, (self.exchange.sources - 1) // 2
        # by b revealed bits: if the estimate is right, δ of m at S - b sources is below the target
        few = max(least, 2, 0 if exchange.rate == 1.0 else min(_WORTH, int(0.03 * exchange.sources)))
        revealed = int(trust * self.revealable(first))
        if revealed > few:
            revealed = min(revealed, half - first)
            # δ may change as much within a block of submissions as revealing changes it: ln δ by a share of b/S
            change = min(max(1.2 * NARROW, -0.4 * self.exact.log_delta * revealed / exchange.sources), 1.0)
            return [CoverBlock(range(first, first + 1), revealed, change)]
        # else data sets are evaluated together whose laws of X overlap: within 6 standard deviations of the flips
        apart = (1.0 - 2.0 * exchange.flip_prob) * (least + 1)
        flipped = exchange.flip_prob * (1.0 - exchange.flip_prob)
        overlap = 6.0 * math.sqrt(exchange.sources * flipped) / apart if apart else math.inf
        batch = max(1, int(min(_BATCH, overlap)))
        # up to where b is large enough, 1 + `least` apart; where tails are computed one by one
        count = next((c for c in range(4, batch, 4) if trust * self.revealable(first + c) > few), batch)
        block = CoverBlock(range(first, half + 1, least + 1)[: count if self.exact.direct else 1], least)
        # where V is larger than needed a quick look may be enough: ln δ differs by a share of 1 - needed/V
        larger = exchange.sources * sum(exchange.variances(first))
        change = min(-0.4 * self.exact.log_delta * (1.0 - self.needed / larger), 1.0)
        return [replace(block, change=change), block] if change > 2.0 * NARROW and not least else [block]

    def most_looks(self, half: int) -> int:
        """How many evaluations may be spent up to m = half; 0 where more than `_LOOKS` are expected."""
        ones, expected = 1, 0
        while ones <= half and expected < _LOOKS:
            ones += 1 + max(0, int(0.7 * self.revealable(ones)))
            expected += 1
        return 2 * _LOOKS if expected < _LOOKS else 0

    def revealable(self, ones: int) -> float:
        """How many others' bits may be revealed, about, before V of m = `ones` falls to what is needed."""
        exchange = self.exchange
        if not 0.0 < self.needed < 1e150:
            return 0.0
        drawn, flipped = exchange.variances(ones)
        if exchange.rate < 1.0:
            return exchange.sources - self.needed / (drawn + flipped)
        # t is fixed and stays when bits are revealed: with s sources left V = s (drawn s/S + flipped) is quadratic
        drawn /= exchange.sources
        sources = (math.sqrt(flipped**2 + 4.0 * drawn * self.needed) - flipped) / (2.0 * drawn)
        return exchange.sources - sources
