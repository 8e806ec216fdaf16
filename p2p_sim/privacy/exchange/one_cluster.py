"""The learner's δ and ε in one cluster, bracketed over all data sets.

A data set is m, how many others hold label 1; swapping the labels mirrors m above half. m = 0 is evaluated first, and
is nearly always the worst. The others are held against it.

**The covering argument.** Let b others' noisy bits be revealed, and which submissions were fetched from them: δ does
not fall. What remains is an exchange among S - b sources with t ~ Bin(trials, rate (S-b)/S), of which m' of the other
S - 1 - b hold label 1; by choosing whom to reveal, one m' serves every m from m' to m' + b:

    max over m = m'..m'+b of δ_{S,m}(ε)  <=  δ_{S-b,m'}(ε).

So (ε, δ) is certified for a `CoverBlock` of b + 1 data sets by one evaluation at m' (`check`), and for all if blocks
reach from 1 to half. Which to try is a heuristic (`plan_cover`); where revealing tells too much, b is 0, and ε is
raised where it must be.

Above `EXHAUSTIVE` users this may take too many evaluations. Then b is at least `revealed` everywhere, at m = 0 too,
which costs a factor of about 1 + b/(2S) in ε.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from p2p_sim.privacy.binomial_windows import share_of
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.exchange.cover_plan import CoverBlock, plan_cover
from p2p_sim.privacy.exchange.delta_evaluator import TABULATED, DeltaEvaluator, Sources
from p2p_sim.privacy.randomized_response import local_epsilon, outward

EXHAUSTIVE = 2048
"""Most sources for which ε is that of the worst data set, whatever that takes."""
_EXPECTED = TABULATED
"""Most expected submissions for which that is so."""
_ROOM = (0.004, 0.001, 0.0003)
"""Shares by which ε of all zeros may be raised above `EXHAUSTIVE` users, so that the other data sets are below it."""
ZEROS = CoverBlock(0, 0, 0)
"""The data set in which all others hold label 0."""
Held = Callable[[CoverBlock], bool]


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
        lower, upper = np.zeros(len(inside)), np.zeros(len(inside))

        def include(block: CoverBlock) -> bool:
            evaluator = self._evaluator(block, log_delta)
            views = evaluator.views(block.ones)
            for index, epsilon in enumerate(inside):
                delta = evaluator.deltas(views, epsilon)
                lower[index] = lower[index] if block.revealed else max(lower[index], delta.lower)
                upper[index] = max(upper[index], delta.upper)
            return True

        def fits(block: CoverBlock) -> bool:
            return self.check(block, log_delta, zip(inside, upper, strict=True))

        # δ of m = 0, raised where another data set is above it
        include(ZEROS)
        if not self._cover(log_delta, fits, include):
            upper[:] = 0.0
            include(self._zeros_revealed)
            self._cover(log_delta, fits, include, self.revealed)
        found = iter(outward(float(a), float(b)) for a, b in zip(lower, upper, strict=True))
        return [next(found) if e < local else Bracket(0.0, 0.0) for e in epsilons]

    def attained_delta(self, epsilon: float) -> float:
        """δ(ε) of the data set in which all others hold label 0: a lower bound over all data sets."""
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or math.isinf(local):
            return 0.0 if epsilon >= local else self.exposed.lower
        return outward(DeltaEvaluator(self, self._log_delta(epsilon)).at(0, epsilon).lower, 1.0).lower

    def epsilon(self, delta: float) -> Bracket:
        """ε(δ) over all data sets and both directions."""
        local = local_epsilon(self.flip_prob)
        if local == 0.0:
            return Bracket(0.0, 0.0)
        if math.isinf(local):
            exposed = self.exposed
            return Bracket(*(local if end > delta else 0.0 for end in (exposed.lower, exposed.upper)))
        log_delta = math.log(delta)
        # ε of m = 0: attained from below, certified from above
        evaluator = self._evaluator(ZEROS, log_delta)
        lower = evaluator.attained(0, delta)
        if math.isinf(lower):
            return Bracket(local, local)
        upper = evaluator.raised(ZEROS.ones, delta, lower)

        def fits(block: CoverBlock) -> bool:
            return self.check(block, log_delta, [(upper, delta)])

        def include(block: CoverBlock) -> bool:
            nonlocal lower, upper
            evaluator = self._evaluator(block, log_delta)
            raised = evaluator.raised(block.ones, delta, upper)
            if not block.revealed and upper < raised < math.inf:
                lower = max(lower, evaluator.attained(evaluator.worst(block.ones, raised), delta))
            upper = raised
            return True

        # in large clusters ε is raised by a share first, so that V of the other data sets may be so much smaller
        share = 1.0
        if not self.tabulated:
            room = self._room(upper, delta)
            upper, share = min(upper * (1.0 + room), local), 1.0 / (1.0 + room) ** 2
        # ε is raised where another data set's is above it
        if not self._cover(log_delta, fits, include, share=share):
            upper = lower
            include(self._zeros_revealed)
            self._cover(log_delta, fits, include, self.revealed)
        return Bracket(min(lower, local), min(upper, local))

    def satisfies(self, epsilon: float, delta: float, log_tail_of: float | None = None) -> bool:
        """Whether (ε, δ) is certified; False may mean that (ε, δ) holds but could not be certified.

        log_tail_of: logarithm of the δ for which truncations are chosen, if not of this one.
        """
        local = local_epsilon(self.flip_prob)
        if epsilon >= local or math.isinf(local):
            return epsilon >= local or self.exposed.upper <= delta
        if delta >= 1.0:
            return True
        log_delta = math.log(delta) if log_tail_of is None else log_tail_of

        def fits(block: CoverBlock) -> bool:
            return self.check(block, log_delta, [(epsilon, delta)])

        # a rough δ of m = 0 tells how much smaller V of the other data sets may be: ln δ is about -ε² V/2
        largest = DeltaEvaluator(self, log_delta, 0.5).at(0, epsilon).upper
        if largest > delta and not fits(ZEROS):
            return False
        share = log_delta / min(log_delta, math.log(largest)) if largest > 0.0 else 0.0
        certified = self._cover(log_delta, fits, fits, share=share)
        if certified or self.tabulated:
            return certified
        return fits(self._zeros_revealed) and self._cover(log_delta, fits, fits, self.revealed)

    def check(self, block: CoverBlock, log_delta: float, targets: Iterable[tuple[float, float]]) -> bool:
        """Whether every (ε, δ) of `targets` is certified for the data sets of a block."""
        evaluator = self._evaluator(block, log_delta)
        views = evaluator.views(block.ones)
        return all(evaluator.one(views, epsilon, True) <= delta for epsilon, delta in targets)

    @property
    def tabulated(self) -> bool:
        """Whether ε is that of the worst data set."""
        return self.sources <= EXHAUSTIVE and self.trials * self.rate <= _EXPECTED

    @property
    def revealed(self) -> int:
        """b: others whose noisy bits are revealed everywhere, so that fewer data sets need a look."""
        return self.sources // (100 if self.sources <= 20_000 else 50)

    def reduced(self, revealed: int, certain: bool = False) -> "ClusterExchange":
        """The exchange that is left when so many others are revealed; its rate is rounded up, for upper bounds.

        certain: where all submissions are informative, they stay so, which tells no less and leaves one value of t.
        """
        left = self.sources - revealed
        if certain and self.rate == 1.0:
            return replace(self, sources=left)
        return replace(self, sources=left, rate=share_of(self.rate, left, self.sources, up=True))

    def _room(self, epsilon: float, delta: float) -> float:
        """A share by which ε may be raised and is still below that of all zeros when `revealed` bits are."""
        reduced = DeltaEvaluator(self.reduced(self.revealed), math.log(delta))
        views = reduced.views([0])
        return next((room for room in _ROOM if reduced.one(views, epsilon * (1.0 + room), False) > delta), 0.0)

    @property
    def _zeros_revealed(self) -> CoverBlock:
        """All zeros, where `revealed` bits are; it serves as many data sets with a one, too."""
        return CoverBlock(0, self.revealed, self.revealed)

    def _evaluator(self, block: CoverBlock, log_delta: float) -> DeltaEvaluator:
        """Evaluates δ among the sources that are left in a block."""
        return DeltaEvaluator(self.reduced(block.revealed, certain=block.quick), log_delta, block.change)

    def _cover(self, log_delta: float, fits: Held, include: Held, least: int | None = None, share: float = 1.0) -> bool:
        """Certify all data sets but m = 0 (m <= `least`, if given); False if `include` refuses one, or takes too long.

        Args:
            fits: whether the data sets of a quick block are certified.
            include: the same of other blocks; it may move the target.
            least: smallest b; if it is given, there is no limit on evaluations above `EXHAUSTIVE` users either.
            share: V that is needed, beside that of all zeros.
        """
        limited, certified, held = least is None and not self.tabulated, least or 0, None
        plan = plan_cover(self, DeltaEvaluator(self.reduced(certified), log_delta), limited=limited, share=share)
        with contextlib.suppress(StopIteration):
            while True:
                block = plan.send(held)
                held = fits(block) if block.quick else include(block)
                # m up to `certified` are; a block that starts right after them moves it to its own last
                if held and block.first <= certified + 1:
                    certified = block.last
                elif not block.quick:
                    return False
        return certified >= (self.sources - 1) // 2

    def _log_delta(self, epsilon: float) -> float:
        """Logarithm of a rough δ(ε), a multiple of 8, for choosing truncations."""
        guess = -36.0
        for _ in range(6):
            value = DeltaEvaluator(self, guess).at(0, epsilon).lower
            if value > math.exp(guess - 4.0) or guess < -600.0:
                return max(8.0 * math.floor(math.log(value) / 8.0), -690.0) if value > 0 else guess
            guess = 2.0 * guess
        return guess
