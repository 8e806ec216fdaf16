"""The learner's δ and ε in one cluster, bracketed over all data sets.

A data set is m, how many others hold label 1; swapping the labels mirrors m above half. m = 0 is evaluated first, and
is nearly always the worst. The others are held against it. Let b others' noisy bits be revealed, and which submissions
were fetched from them. What remains is an exchange among S - b sources, of which m' of the other S - 1 - b hold label
1; by choosing whom to reveal, one m' serves every m from m' to m' + b. So δ of m' at S - b sources, if it is not above
the target, certifies b + 1 data sets. How large b may be is estimated and tried; where revealing tells too much, m
itself is evaluated, and ε is raised where it must be.

Above `EXHAUSTIVE` users this may take too many evaluations. Then b is at least `revealed` everywhere, at m = 0 too,
which costs a factor of about 1 + b/(2S) in ε.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from p2p_sim.privacy.binomial_windows import share_of
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.exchange.delta_evaluator import TABULATED, DeltaEvaluator, Sources
from p2p_sim.privacy.exchange.reveal_estimate import RevealEstimate
from p2p_sim.privacy.exchange.submission_counts import NARROW
from p2p_sim.privacy.randomized_response import local_epsilon, outward

EXHAUSTIVE = 2048
"""Most sources for which ε is that of the worst data set, whatever that takes."""
_EXPECTED = TABULATED
"""Most expected submissions for which that is so."""
_LOOKS = 24
"""Most evaluations, where ε may be larger, before b is; as many again may fail."""
_ROOM = (0.004, 0.001, 0.0003)
"""Shares by which ε of all zeros may be raised above `EXHAUSTIVE` users, so that the other data sets are below it."""
_BATCH = 24
"""Most data sets that are evaluated together."""
_WORTH = 12
"""To reveal more bits than this, or than 3% of them, is faster than to evaluate as many data sets together."""
Held = Callable[[DeltaEvaluator, Sequence[int]], bool]


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

        def include(scan: DeltaEvaluator, ones: Sequence[int]) -> bool:
            views, own = scan.views(ones), scan.setting.sources == self.sources
            for index, epsilon in enumerate(inside):
                found = scan.deltas(views, epsilon)
                lower[index] = max(lower[index], found.lower) if own else lower[index]
                upper[index] = max(upper[index], found.upper)
            return True

        def fits(scan: DeltaEvaluator, ones: Sequence[int]) -> bool:
            views = scan.views(ones)
            return all(scan.one(views, e, True) <= most for e, most in zip(inside, upper, strict=True))

        include(DeltaEvaluator(self, log_delta), [0])
        if not self._cover(log_delta, fits, include):
            upper[:] = 0.0
            include(DeltaEvaluator(self.reduced(self.revealed), log_delta), [0])
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
        scan = DeltaEvaluator(self, log_delta)
        lower = scan.attained(0, delta)
        if math.isinf(lower):
            return Bracket(local, local)
        upper = scan.raised([0], delta, lower)

        def fits(scan: DeltaEvaluator, ones: Sequence[int]) -> bool:
            return scan.one(scan.views(ones), upper, True) <= delta

        def include(scan: DeltaEvaluator, ones: Sequence[int]) -> bool:
            nonlocal lower, upper
            raised = scan.raised(ones, delta, upper)
            if scan.setting.sources == self.sources and upper < raised < math.inf:
                lower = max(lower, scan.attained(scan.worst(ones, raised), delta))
            upper = raised
            return True

        b, share = self.revealed, 1.0
        if not self.tabulated:
            room = self._room(upper, delta)
            upper, share = min(upper * (1.0 + room), local), 1.0 / (1.0 + room) ** 2
        if not self._cover(log_delta, fits, include, share=share):
            upper = lower
            include(DeltaEvaluator(self.reduced(b), log_delta), [0])
            self._cover(log_delta, fits, include, b)
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
        log_delta, b = math.log(delta) if log_tail_of is None else log_tail_of, self.revealed

        def fits(scan: DeltaEvaluator, ones: Sequence[int]) -> bool:
            return scan.one(scan.views(ones), epsilon, True) <= delta

        largest = DeltaEvaluator(self, log_delta, 0.5).at(0, epsilon).upper
        if largest > delta and not fits(DeltaEvaluator(self, log_delta), [0]):
            return False
        share = log_delta / min(log_delta, math.log(largest)) if largest > 0.0 else 0.0
        certified = self._cover(log_delta, fits, fits, share=share)
        if certified or self.tabulated:
            return certified
        return fits(DeltaEvaluator(self.reduced(b), log_delta), [0]) and self._cover(log_delta, fits, fits, b)

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

    def _cover(self, log_delta: float, fits: Held, include: Held, least: int | None = None, share: float = 1.0) -> bool:
        """Certify all data sets but m = 0 (m <= `least`, if given); False if `include` refuses one, or takes too long.

        Every m from 1 + `least` to half is in one of the parts that are certified: from m to m + b at a time.

        Args:
            fits: whether data sets at S - b sources are certified.
            include: the same at S - `least`; it may move the target.
            least: smallest b; if it is given, there is no limit on evaluations above `EXHAUSTIVE` users either.
            share: V, as in `RevealEstimate`, that is needed, beside that of all zeros.
        """
        limited, least, half = least is None and not self.tabulated, least or 0, (self.sources - 1) // 2
        reach = RevealEstimate(self.sources, self.flip_prob, self.load, self.rate == 1.0)
        needed = reach.variance(0) * share
        if limited and reach.looks(half, needed, _LOOKS) >= _LOOKS:
            return False
        exact, batch = (
            DeltaEvaluator(self.reduced(least) if least else self, log_delta),
            reach.together(least + 1, _BATCH),
        )
        worth = max(least, 2, 0 if self.rate == 1.0 else min(_WORTH, int(0.03 * self.sources)))
        m, trust, looks = 1 + least, 0.6, 0
        while m <= half:
            if limited and looks >= 2 * _LOOKS:
                return False
            looks += 1
            b = int(trust * reach.revealed(m, needed))
            if b > worth:
                b = min(b, half - m)
                room = min(max(1.2 * NARROW, -0.4 * log_delta * b / self.sources), 1.0)
                fitted = fits(DeltaEvaluator(self.reduced(b, certain=True), log_delta, room), [m])
                m, trust = (m + b + 1, min(1.3 * trust, 1.0)) if fitted else (m, trust / 2.0)
                continue
            count = next((c for c in range(4, batch, 4) if trust * reach.revealed(m + c, needed) > worth), batch)
            ones = exact.together(range(m, half + 1, least + 1)[:count])
            room = min(-0.4 * log_delta * (1.0 - needed / reach.variance(m)), 1.0)
            easy = room > 2.0 * NARROW and not least and fits(DeltaEvaluator(self, log_delta, room), ones)
            if not easy and not include(exact, ones):
                return False
            m, trust = ones[-1] + least + 1, min(1.3 * trust, 1.0)
        return True

    def _log_delta(self, epsilon: float) -> float:
        """Logarithm of a rough δ(ε), a multiple of 8, for choosing truncations."""
        guess = -36.0
        for _ in range(6):
            value = DeltaEvaluator(self, guess).at(0, epsilon).lower
            if value > math.exp(guess - 4.0) or guess < -600.0:
                return max(8.0 * math.floor(math.log(value) / 8.0), -690.0) if value > 0 else guess
            guess = 2.0 * guess
        return guess
