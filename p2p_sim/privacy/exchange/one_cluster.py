"""The learner's δ and ε in one cluster, bracketed over all data sets.

The S sources are the users whose noisy bits (labels after the flip) may be submitted. The target is the source whose
label is protected. A data set is given by m (`ones` in the code): how many of the other S - 1 users hold label 1. δ is
the larger δ of two directions, label 0 against 1 and 1 against 0. Swapping the labels maps m to S - 1 - m and swaps the
directions. So only m up to half of S - 1 matters. The data set m = 0 is evaluated first. This data set usually has the
largest δ, but not always.

**The covering argument.** Let δ_{S,m} be the δ of S sources at m, with t ~ Bin(trials, rate) submissions. *Reveal* to
the learner the noisy bits of b other users, and which submissions carry these bits. δ does not fall, since the learner
may ignore what is revealed. What remains is an exchange among S - b sources with t ~ Bin(trials, rate (S-b)/S). The δ
of this exchange at m' is δ_{S-b,m'}. For m = m'..m'+b, reveal m - m' users with label 1 and b - (m - m') users with
label 0. Then m' others with label 1 remain. So

    max over m = m'..m'+b of δ_{S,m}(ε)  <=  δ_{S-b,m'}(ε).

One evaluation at m' certifies (ε, δ) for b + 1 data sets. A `CoverBlock` has one or more such m', at most 1 + b apart.
All data sets are certified if m = 0 is certified, and if blocks reach from m = 1 to half without a gap (`_cover`). If ε
is raised on the way, earlier blocks remain certified, since δ(ε) falls. `CoverPlan` proposes blocks by a heuristic.
`_evaluator` refuses a block that the argument does not cover. `_cover` refuses a block that leaves a gap before it. So
the plan affects only the speed of the search and the width of the bracket.

**The plan.** In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, where V is S times the sum of `Sources.variances`. So
ln δ is about -ε² V/2. V grows with m up to half of S - 1. So at larger m, more bits may be revealed before V falls to
its value at m = 0. Revealing b bits multiplies V by about 1 - b/S, and so ε by about 1 + b/(2S).

With more than `EXHAUSTIVE` sources or `_EXPECTED` expected submissions the number of evaluations is limited. Then
the method `epsilon` may first raise the ε of m = 0 by one of the shares `_ROOM`, so that more bits may be revealed. If
the limit is reached, at least `least_revealed` bits are revealed for every data set, also for m = 0.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from p2p_sim.privacy.binomial_windows import NARROW, share_of
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator, Sources, rough_log_delta
from p2p_sim.privacy.randomized_response import local_epsilon, outward

EXHAUSTIVE = 2048
"""With more sources than this, the number of evaluations is limited."""
_EXPECTED = 4096
"""With more expected submissions than this, the number of evaluations is limited as well."""
_ROOM = (0.004, 0.001, 0.0003)
"""Where evaluations are limited, the ε of m = 0 is raised by one of these shares, so that fewer evaluations are needed.
The largest share that costs less than revealing `least_revealed` bits is taken. If each costs more, ε is not raised."""
_LOOKS = 24
"""A step tries one or two blocks. A first attempt is made only if fewer steps than this are expected. The attempt ends
after twice this number of steps."""
_BATCH = 24
"""Speed only: largest number of data sets that are evaluated together."""
_WORTH = 12
"""Speed only, where the number of submissions is random: more than the required bits are revealed only if their
number exceeds the smaller of this number and 3% of the sources."""


@dataclass(frozen=True)
class CoverBlock:
    """Data sets that are certified together: m to m + `revealed` for each m in `ones`.

    ones: ascending numbers m of others with label 1 at which δ is evaluated, at most 1 + `revealed` apart.
    revealed: b, how many other users' noisy bits are revealed to the learner.
    change: as in `DeltaEvaluator`. The value `NARROW` gives the bounds that are reported. A larger value makes a *quick
        look*: the upper bound is coarser, but still valid.
    """

    ones: range
    revealed: int
    change: float = NARROW


ZEROS = CoverBlock(range(1), 0)
"""The data set in which all others hold label 0."""


@dataclass(frozen=True)
class CoverPlan:
    """Proposes blocks to certify, by a heuristic. The blocks decide how many evaluations are needed, and how tight the
    result is.

    exchange: the exchange whose data sets are certified. exact: the evaluator for blocks with b = `least`, other than
    quick looks. least: smallest b, except in a last block that ends at half. needed: the variance V at which δ is
    approximately the target δ.
    """

    exchange: Sources
    exact: DeltaEvaluator
    least: int
    needed: float

    def blocks(self, first: int, trust: float) -> list[CoverBlock]:
        """One or two proposals of which data sets to certify next, the quicker first. Both are for the same data sets.

        If few noisy labels may be told to the learner, several m are evaluated together. A quick proposal has a coarser
        upper bound of δ. So it may fail where the other proposal succeeds.

        Args:
            first: smallest m that is not certified yet; m others hold label 1. trust: in (0, 1], a factor of the
            estimate `revealable`. With a smaller factor fewer labels are told.
        """
        exchange, least, half = self.exchange, self.least, (self.exchange.sources - 1) // 2
        # reveal b bits: if the estimate is right, the δ of m at S - b sources is below the target. If t has a single
        # value, a quick look is fast, and worth it from b = 3 on
        few = max(least, 2, 0 if exchange.rate == 1.0 else min(_WORTH, int(0.03 * exchange.sources)))
        revealed = int(trust * self.revealable(first))
        if revealed > few:
            revealed = min(revealed, half - first)
            # revealing b bits changes ln δ by about ln δ · b/S; grouping neighbouring t may change ln δ by 0.4 of this
            change = min(max(1.2 * NARROW, -0.4 * self.exact.log_delta * revealed / exchange.sources), 1.0)
            return [CoverBlock(range(first, first + 1), revealed, change)]
        # otherwise evaluate data sets together; their mean numbers of noisy ones lie within 6 standard deviations
        apart = (1.0 - 2.0 * exchange.flip_prob) * (least + 1)
        flipped = exchange.flip_prob * (1.0 - exchange.flip_prob)
        overlap = 6.0 * math.sqrt(exchange.sources * flipped) / apart if apart else math.inf
        batch = max(1, int(min(_BATCH, overlap)))
        # stop near the m from which revealing is faster; every 4th m is looked at, as if the m were 1 apart
        # (`least` = 0). Without tables, take a single m
        count = next((c for c in range(4, batch, 4) if trust * self.revealable(first + c) > few), batch)
        block = CoverBlock(range(first, half + 1, least + 1)[: count if self.exact.direct else 1], least)
        # where V is larger than needed, try a quick look first. ln δ may grow by a share of 1 - needed/V, and 40% of
        # this are used
        larger = exchange.sources * sum(exchange.variances(first))
        change = min(-0.4 * self.exact.log_delta * (1.0 - self.needed / larger), 1.0)
        return [replace(block, change=change), block] if change > 2.0 * NARROW and not least else [block]

    def most_looks(self, half: int) -> int:
        """Largest number of steps to certify the data sets m = 1 to `half`: 48, or 0 if 24 or more steps are expected.

        A step tries one or two blocks.
        """
        ones, expected = 1, 0
        while ones <= half and expected < _LOOKS:
            ones += 1 + max(0, int(0.7 * self.revealable(ones)))
            expected += 1
        return 2 * _LOOKS if expected < _LOOKS else 0

    def revealable(self, ones: int) -> float:
        """An estimate of how many other users' noisy labels may be told to the learner at m = `ones`, before δ is too
        large.

        The variance V of what the learner sees falls with each label that is told. The result is the number of labels
        at which V falls to `needed`.
        """
        exchange = self.exchange
        if not 0.0 < self.needed < 1e150:
            return 0.0
        drawn, flipped = exchange.variances(ones)
        if exchange.rate < 1.0:
            return exchange.sources - self.needed / (drawn + flipped)
        # t is fixed, also when bits are revealed: with s sources left, V = s (drawn s/S + flipped)
        drawn /= exchange.sources
        sources = (math.sqrt(flipped**2 + 4.0 * drawn * self.needed) - flipped) / (2.0 * drawn)
        return exchange.sources - sources


class PrivacyTarget(NamedTuple):
    """A pair (ε, δ) that is to be certified for every data set."""

    epsilon: float
    delta: float


Include = Callable[[CoverBlock], bool]
"""A function that says whether a block other than a quick look is certified. Some such functions raise ε or δ of the
targets until the block is certified, and return True."""


@dataclass(frozen=True)
class ClusterExchange(Sources):
    """One exchange among users of a cluster, as the learner sees it.

    Args:
        sources: S, users whose noisy bits can be submitted, including the target; at least 1.
        flip_prob: α, 0 or in [1e-300, 1/2].
        trials, rate: the number t of submissions that carry a source's noisy bit is Bin(trials, rate).

    With α = 0, δ(ε) is for every ε the probability that somebody submits the target's label. No data set has a larger
    δ, even if the learner knows whose label each submission carries. The data set m = 0 attains this value: all others
    hold label 0, so a submitted 1 is the target's label.
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
            """Raises the upper bound of δ at each ε until it holds in the block's data sets; returns True.

            If the block reveals no label, the lower bounds of δ are raised as well.
            """
            evaluator = self._evaluator(block, log_delta)
            views = evaluator.views(block.ones)
            for index, (epsilon, upper) in enumerate(targets):
                delta = evaluator.deltas(views, epsilon)
                # δ with revealed bits may exceed the true δ, so the block's lower bound does not count
                lower[index] = lower[index] if block.revealed else max(lower[index], delta.lower)
                targets[index] = PrivacyTarget(epsilon, max(upper, delta.upper))
            return True

        # δ of m = 0, raised where another data set has a larger δ
        include(ZEROS)
        if not self._cover(targets, log_delta, include):
            # the limit was reached: start anew, with `least_revealed` bits revealed everywhere
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
        # where evaluations are limited, raise ε by a share `room`; at other m, V may then fall by the factor (1+room)²
        variance_share = 1.0
        if not self.searched_in_full:
            # the largest room that costs less than revealing `least_revealed` bits; 0 if each room costs more
            reduced = self._evaluator(self._zeros_revealed, log_delta)
            views = reduced.views(ZEROS.ones)
            affordable = (
                room for room in _ROOM if reduced.bounds(views, upper * (1.0 + room), (False,))[0].max() > delta
            )
            room = next(affordable, 0.0)
            upper, variance_share = min(upper * (1.0 + room), local), 1.0 / (1.0 + room) ** 2
        targets = [PrivacyTarget(upper, delta)]

        def include(block: CoverBlock) -> bool:
            """Raises the upper bound of ε until (ε, δ) holds in the block's data sets; returns True.

            If ε is raised and the block reveals no label, the lower bound of ε may be raised as well.
            """
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
            # the limit was reached: start anew, with `least_revealed` bits revealed everywhere
            targets[0] = PrivacyTarget(lower, delta)
            include(self._zeros_revealed)
            self._cover(targets, log_delta, include, least=self.least_revealed, limited=False)
        return Bracket(min(lower, local), min(targets[0].epsilon, local))

    def satisfies(self, epsilon: float, delta: float, cut_for: float | None = None) -> bool:
        """Whether (ε, δ) is certified. False may mean that (ε, δ) holds but could not be certified.

        Args:
            cut_for: ln of a δ; None: ln `delta`. Sums leave out probabilities far below this δ, and the upper bound of
                δ(ε) allows for this. Tables of a data set are cached for each `cut_for`. So calls with several close δ
                are faster if all pass the same `cut_for`.
        """
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or delta >= 1.0:
            return True
        if math.isinf(local):
            return self.exposed.upper <= delta
        log_delta, targets = math.log(delta) if cut_for is None else cut_for, [PrivacyTarget(epsilon, delta)]

        def include(block: CoverBlock) -> bool:
            return self.check(block, log_delta, targets)

        # if a rough δ of m = 0 is small, it certifies m = 0; it also shows which V is needed, as ln δ is about -ε² V/2
        rough = DeltaEvaluator(self, log_delta, 0.5).at(0, epsilon).upper
        if rough > delta and not include(ZEROS):
            return False
        variance_share = log_delta / min(log_delta, math.log(rough)) if rough > 0.0 else 0.0
        if self._cover(targets, log_delta, include, variance_share=variance_share):
            return True
        # where evaluations are limited, try once more and reveal so many bits that few evaluations are needed
        return (
            not self.searched_in_full
            and include(self._zeros_revealed)
            and self._cover(targets, log_delta, include, least=self.least_revealed, limited=False)
        )

    def check(self, block: CoverBlock, log_delta: float, targets: Sequence[PrivacyTarget]) -> bool:
        """Whether every pair (ε, δ) in `targets` is shown to hold in all data sets of a block; no pair is changed.

        False may mean that a pair holds but could not be certified.

        Args:
            block: data sets that are certified together. log_delta: ln of the δ of interest; sums leave out
            probabilities far below this δ.
        """
        evaluator = self._evaluator(block, log_delta)
        if len(block.ones) > 1 and not evaluator.direct:
            return False  # the result would be for the first data set alone
        views = evaluator.views(block.ones)
        return all(evaluator.bounds(views, target.epsilon, (True,))[0].max() <= target.delta for target in targets)

    @property
    def searched_in_full(self) -> bool:
        """Whether the search for the data set with the largest δ may take any number of evaluations.

        This needs at most 2,048 sources and at most 4,096 expected submissions.
        """
        return self.sources <= EXHAUSTIVE and self.trials * self.rate <= _EXPECTED

    @property
    def least_revealed(self) -> int:
        """The smallest number b of noisy labels that are revealed to the learner in the last attempt to bound δ.

        One evaluation then bounds δ in b + 1 data sets at once. b is 1% of the S sources, or 2% for S above 20,000. For
        S < 100, b is 0, as there are few data sets. The last attempt has no limit of evaluations.
        """
        return self.sources // (100 if self.sources <= 20_000 else 50)

    @property
    def _zeros_revealed(self) -> CoverBlock:
        """The data sets m = 0 to b, with b = `least_revealed`. An evaluation at m = 0 with b noisy labels revealed
        bounds δ in all.
        """
        return CoverBlock(ZEROS.ones, self.least_revealed)

    def _evaluator(self, block: CoverBlock, log_delta: float) -> DeltaEvaluator:
        """The object that computes δ for a block of data sets.

        The block reveals b noisy labels, so S - b sources remain. A submission counts only if it carries the label of
        one of these sources. So the rate is multiplied by (S-b)/S, rounded up. A quick look does not reduce a rate of
        1: then the number of submissions keeps a single value, which is faster. δ is at least as large as with the
        reduced rate, as dropping submissions is post-processing.

        Args:
            log_delta: ln of the δ of interest; sums leave out probabilities far below this δ.

        Raises:
            ValueError: the block does not bound δ at all m from the first of `ones` to the last plus b.
        """
        ones, revealed, rate = block.ones, block.revealed, self.rate
        remaining = self.sources - revealed
        if rate < 1.0 or block.change == NARROW:
            rate = share_of(rate, remaining, self.sources, up=True)
        evaluator = DeltaEvaluator(replace(self, sources=remaining, rate=rate), log_delta, block.change)
        # the m are at most 1 + b apart, and the last plus b is at most S - 1. Several m need tables; without
        # tables, the result is for the first m alone (`check` refuses such a quick look)
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
        """Certifies the data sets from m = 1 + `least` to half of S - 1, block by block; returns whether this
        succeeded.

        The data sets m = 0 to `least` must be certified before. A heuristic proposes the blocks. Some are quick looks.
        If a quick look fails, an exact evaluation follows, or fewer labels are revealed.

        Args:
            targets: pairs (ε, δ) for the quick looks. `include` may replace a pair by a pair with a larger ε or δ.
            log_delta: ln of the δ of interest; sums leave out probabilities far below this δ.
            include: certifies a block other than a quick look, and returns whether this succeeded.
            least: smallest b of a block; a last block that ends at half may have a smaller b.
            variance_share: guides the sizes of the blocks, not the result. Blocks are so large that the variance V of
                what the learner sees stays about this share of V at m = 0.
            limited: whether to give up after 48 steps (a step tries one or two blocks), or at once if 24 or more steps
                are expected. A cluster that is `searched_in_full` has no limit. Without a limit the result is True
                whenever `include` certifies every block.
        """
        half, needed = (self.sources - 1) // 2, self.sources * sum(self.variances(0)) * variance_share
        plan = CoverPlan(self, self._evaluator(CoverBlock(ZEROS.ones, least), log_delta), least, needed)
        most = plan.most_looks(half) if limited and not self.searched_in_full else math.inf
        # all data sets before `first` are certified; the numbers 0.6, 1.3 and 2 below affect speed only
        first, trust, looks = 1 + least, 0.6, 0
        while first <= half and looks < most:
            looks += 1
            blocks = plan.blocks(first, trust)
            certified = next(
                (b for b in blocks if (self.check(b, log_delta, targets) if b.change > NARROW else include(b))), None
            )
            if certified is not None:
                if certified.ones[0] > first:
                    raise ValueError(f"{certified}: does not certify every data set from m = {first} on")
                first, trust = certified.ones[-1] + certified.revealed + 1, min(1.3 * trust, 1.0)
            # a quick look that fails is tried again with fewer bits revealed
            elif blocks[-1].change > NARROW:
                trust /= 2.0
            else:
                return False
        return first > half

    def _log_delta(self, epsilon: float) -> float:
        """ln of a rough δ(ε) if all others hold label 0; sums may leave out probabilities far below this δ."""
        return rough_log_delta(lambda guess: DeltaEvaluator(self, guess).at(0, epsilon).lower)
