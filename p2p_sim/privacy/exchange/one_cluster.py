"""The learner's δ and ε in one cluster, bracketed over all data sets.

A data set is m, how many others hold label 1; swapping the labels mirrors m above half. m = 0 is evaluated first, and
is nearly always the worst. The others are held against it.

**The covering argument.** Let b others' noisy bits be revealed, and which submissions were fetched from them: δ does
not fall. What remains is an exchange among S - b sources with t ~ Bin(trials, rate (S-b)/S), of which m' of the other
S - 1 - b hold label 1; by choosing whom to reveal, one m' serves every m from m' to m' + b:

    max over m = m'..m'+b of δ_{S,m}(ε)  <=  δ_{S-b,m'}(ε).

So (ε, δ) is certified for a `CoverBlock` of b + 1 data sets by one evaluation at m' (`check`), and for all if blocks
reach from 1 to half. Which to try is a heuristic (`plan_cover`), on which nothing that is certified rests; where
revealing tells too much, b is 0, and ε is raised where it must be. In the Gaussian limit ε is about √(2 ln(1/δ)) / √V,
with V = S times `Sources.variances`: what the choice of peers and their flips hide together. V grows with m up to half,
so that b bits may be revealed before it falls to that of all zeros.

Above `EXHAUSTIVE` users this may take too many evaluations. Then b is at least `revealed` everywhere, at m = 0 too,
which costs a factor of about 1 + b/(2S) in ε.
"""

import contextlib
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from p2p_sim.privacy.binomial_windows import NARROW, share_of
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange.delta_evaluator import TABULATED, DeltaEvaluator, Sources
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
    """Data sets m that are evaluated; each certifies m to m + `revealed` if so many others' noisy bits are known.

    change: as in `DeltaEvaluator`. `NARROW` is for figures; more is for a quick look, which may fail.
    """

    ones: range
    revealed: int
    change: float = NARROW


ZEROS = CoverBlock(range(1), 0)
"""The data set in which all others hold label 0."""
Targets = Sequence[tuple[float, float]]
"""Pairs (ε, δ) that are to be certified."""
Include = Callable[[CoverBlock], Targets | None]
"""Certifies a block by moving the targets, and returns these; None where it refuses."""


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

        def include(block: CoverBlock) -> Targets:
            evaluator = self._evaluator(block, log_delta)
            views = evaluator.views(block.ones)
            for index, epsilon in enumerate(inside):
                delta = evaluator.deltas(views, epsilon)
                lower[index] = lower[index] if block.revealed else max(lower[index], delta.lower)
                upper[index] = max(upper[index], delta.upper)
            return list(zip(inside, upper.tolist(), strict=True))

        # δ of m = 0, raised where another data set is above it
        if not self._cover(include(ZEROS), log_delta, include):
            upper[:] = 0.0
            self._cover(include(self._zeros_revealed), log_delta, include, least=self.revealed)
        found = iter(outward(float(a), float(b)) for a, b in zip(lower, upper, strict=True))
        return [next(found) if e < local else Bracket(0.0, 0.0) for e in epsilons]

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
        log_delta = math.log(delta)
        # ε of m = 0: attained from below, certified from above
        evaluator = self._evaluator(ZEROS, log_delta)
        lower, _ = evaluator.cross(ZEROS.ones, delta, 0.0, upper=False)
        if math.isinf(lower):
            return Bracket(local, local)
        _, upper = evaluator.cross(ZEROS.ones, delta, lower, upper=True)

        def include(block: CoverBlock) -> Targets:
            nonlocal lower, upper
            evaluator = self._evaluator(block, log_delta)
            _, raised = evaluator.cross(block.ones, delta, upper, upper=True)
            if not block.revealed and upper < raised < math.inf:
                worst = evaluator.worst(block.ones, raised)
                lower = max(lower, evaluator.cross([worst], delta, 0.0, upper=False)[0])
            upper = raised
            return [(upper, delta)]

        # in large clusters ε is raised by a share first, so that V of the other data sets may be so much smaller
        share = 1.0
        if not self.tabulated:
            room = self._room(upper, delta)
            upper, share = min(upper * (1.0 + room), local), 1.0 / (1.0 + room) ** 2
        # ε is raised where another data set's is above it
        if not self._cover([(upper, delta)], log_delta, include, share=share):
            upper = lower
            self._cover(include(self._zeros_revealed), log_delta, include, least=self.revealed)
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
        log_delta, targets = math.log(delta) if log_tail_of is None else log_tail_of, [(epsilon, delta)]

        def include(block: CoverBlock) -> Targets | None:
            return targets if self.check(block, log_delta, targets) else None

        # a rough δ of m = 0 tells how much smaller V of the other data sets may be: ln δ is about -ε² V/2
        largest = DeltaEvaluator(self, log_delta, 0.5).at(0, epsilon).upper
        if largest > delta and not include(ZEROS):
            return False
        share = log_delta / min(log_delta, math.log(largest)) if largest > 0.0 else 0.0
        certified = self._cover(targets, log_delta, include, share=share)
        if certified or self.tabulated:
            return certified
        return bool(include(self._zeros_revealed)) and self._cover(targets, log_delta, include, least=self.revealed)

    def check(self, block: CoverBlock, log_delta: float, targets: Targets) -> bool:
        """Whether every (ε, δ) of `targets` is certified for the data sets of a block."""
        evaluator = self._evaluator(block, log_delta)
        views = evaluator.views(block.ones)
        return all(evaluator.bounds(views, epsilon, (True,))[0].max() <= delta for epsilon, delta in targets)

    @property
    def tabulated(self) -> bool:
        """Whether ε is that of the worst data set."""
        return self.sources <= EXHAUSTIVE and self.trials * self.rate <= _EXPECTED

    @property
    def revealed(self) -> int:
        """b: others whose noisy bits are revealed everywhere, so that fewer data sets need a look."""
        return self.sources // (100 if self.sources <= 20_000 else 50)

    def _room(self, epsilon: float, delta: float) -> float:
        """A share by which ε may be raised and is still below that of all zeros when `revealed` bits are."""
        reduced = self._evaluator(self._zeros_revealed, math.log(delta))
        views = reduced.views(ZEROS.ones)
        for room in _ROOM:
            [lower] = reduced.bounds(views, epsilon * (1.0 + room), (False,))
            if lower.max() > delta:
                return room
        return 0.0

    @property
    def _zeros_revealed(self) -> CoverBlock:
        """All zeros, where `revealed` bits are; it serves as many data sets with a one, too."""
        return CoverBlock(ZEROS.ones, self.revealed)

    def _evaluator(self, block: CoverBlock, log_delta: float) -> DeltaEvaluator:
        """Evaluates δ in the exchange that is left when a block's bits are revealed; its rate is rounded up.

        In a quick look at an exchange where all submissions are informative they stay so, which tells no less and
        leaves one value of t.
        """
        left, rate = self.sources - block.revealed, self.rate
        if rate < 1.0 or block.change == NARROW:
            rate = share_of(rate, left, self.sources, up=True)
        return DeltaEvaluator(replace(self, sources=left, rate=rate), log_delta, block.change)

    def _cover(
        self, targets: Targets, log_delta: float, include: Include, *, least: int | None = None, share: float = 1.0
    ) -> bool:
        """Certify all data sets but m = 0 (m <= `least`, if given); False if `include` refuses one, or takes too long.

        Args:
            targets: what quick blocks are checked against; afterwards what `include` returns for any other one.
            least: smallest b; if it is given, there is no limit on evaluations above `EXHAUSTIVE` users either.
            share: V that is needed, beside that of all zeros.
        """
        limited, certified, held = least is None and not self.tabulated, least or 0, None
        exact = self._evaluator(CoverBlock(ZEROS.ones, certified), log_delta)
        plan = plan_cover(self, exact, limited=limited, share=share)
        with contextlib.suppress(StopIteration):
            while True:
                block = plan.send(held)
                if block.change > NARROW:
                    held = self.check(block, log_delta, targets)
                elif moved := include(block):
                    targets, held = moved, True
                else:
                    return False
                # m up to `certified` are; a block that starts right after them moves it to its own last
                if held and block.ones[0] <= certified + 1:
                    certified = block.ones[-1] + block.revealed
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


def plan_cover(
    exchange: Sources, exact: DeltaEvaluator, *, limited: bool, share: float
) -> Generator[CoverBlock, bool | None, None]:
    """Propose blocks that cover m up to half, by a heuristic that may give up; each is sent whether it is certified.

    The first one starts at 1 + `least`, where `least` others are revealed in `exact`.

    Args:
        exact: evaluates blocks that are not quick. limited: whether to give up rather than take many evaluations.
        share: V that is needed, beside that of all zeros.
    """
    least, half = exchange.sources - exact.setting.sources, (exchange.sources - 1) // 2
    needed = exchange.sources * sum(exchange.variances(0)) * share
    if limited and _expected_looks(exchange, half, needed) >= _LOOKS:
        return
    # data sets are evaluated together whose laws of X overlap: as many as are within 6 standard deviations of the flips
    apart = (1.0 - 2.0 * exchange.flip_prob) * (least + 1)
    flipped = exchange.flip_prob * (1.0 - exchange.flip_prob)
    overlap = 6.0 * math.sqrt(exchange.sources * flipped) / apart if apart else math.inf
    batch = max(1, int(min(_BATCH, overlap)))
    worth = max(least, 2, 0 if exchange.rate == 1.0 else min(_WORTH, int(0.03 * exchange.sources)))
    m, trust, looks = 1 + least, 0.6, 0
    while m <= half and not (limited and looks >= 2 * _LOOKS):
        looks += 1
        # if the estimate of b is trusted, δ of m at S - b sources is below the target, and certifies m to m + b
        b = int(trust * _revealed(exchange, m, needed))
        if b > worth:
            b = min(b, half - m)
            change = min(max(1.2 * NARROW, -0.4 * exact.log_delta * b / exchange.sources), 1.0)
            held = yield CoverBlock(range(m, m + 1), b, change)
            m, trust = (m + b + 1, min(1.3 * trust, 1.0)) if held else (m, trust / 2.0)
            continue
        # else the data sets up to where b is large enough are evaluated together, 1 + `least` apart
        count = next((c for c in range(4, batch, 4) if trust * _revealed(exchange, m + c, needed) > worth), batch)
        ones = range(m, half + 1, least + 1)[: count if exact.direct else 1]
        # where V is larger than needed a quick look may be enough
        larger = exchange.sources * sum(exchange.variances(m))
        change = min(-0.4 * exact.log_delta * (1.0 - needed / larger), 1.0)
        held = change > 2.0 * NARROW and not least and (yield CoverBlock(ones, least, change))
        if not held:
            yield CoverBlock(ones, least)
        m, trust = ones[-1] + least + 1, min(1.3 * trust, 1.0)


def _expected_looks(exchange: Sources, half: int, needed: float) -> int:
    """How many data sets up to `half` ones are evaluated if about so many bits are revealed; at most `_LOOKS`."""
    ones, looks = 1, 0
    while ones <= half and looks < _LOOKS:
        ones += 1 + max(0, int(0.7 * _revealed(exchange, ones, needed)))
        looks += 1
    return looks


def _revealed(exchange: Sources, ones: int, needed: float) -> float:
    """How many bits may be revealed before V falls to `needed`."""
    if not 0.0 < needed < 1e150:
        return 0.0
    drawn, flipped = exchange.variances(ones)
    if exchange.rate < 1.0:
        return exchange.sources - needed / (drawn + flipped)
    drawn /= exchange.sources  # t is fixed and stays when bits are revealed: V is quadratic in S
    left = (math.sqrt(flipped**2 + 4.0 * drawn * needed) - flipped) / (2.0 * drawn)
    return exchange.sources - left
