"""The learner's δ and ε in one cluster whose users submit majorities, bracketed over all data sets.

Let S be the number of sources: users whose noisy bits (labels after the flip) may be submitted. The target is the user
whose label is protected. A data set is given by a number m: how many of the other S - 1 users hold label 1. Labels may
be swapped, so m up to half of S - 1 suffices. The δ of any m is a lower bound of the largest δ.

For the upper bound, *reveal* the noisy bits of b others to the learner. Let m lie in m'..m'+b. The b others are m - m'
users with label 1 and b - (m - m') users with label 0. An exchange remains in which m' of the other S - 1 - b users
hold label 1. A *kernel* gives the probability that a submission is a 1, given the noisy bits. One kernel p̃
(`dominating_kernel`) dominates the kernels of all these exchanges. So

    max over m = m'..m'+b of  δ_{S,m}(ε)  <=  δ(ε) of S - 1 - b others, m' of them with label 1, and the kernel p̃.

The choice of b is a heuristic; no certified bound depends on b. Let g(p) be the kernel at a share p of noisy ones
(noisy bits that are 1). Let t be the number of submissions and α the flip probability. In the Gaussian limit ε is
approximately √(2 ln(1/δ)) / √V with V = S (D(p) S/t + α(1-α)) and D = g(1-g)/g'². The kernel p̃ is steeper than g by a
share of approximately ζ = b/(4S) · g'/(g(1-g)). This divides D by (1+ζ)². The larger V is than needed, the larger b may
be.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from p2p_sim.privacy.binomial_windows import bernstein_window, some
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator, Sources, Variances, Views, rough_log_delta
from p2p_sim.privacy.exchange.direct_sum import OtherUsers
from p2p_sim.privacy.exchange.majority_kernel import Kernel, SmoothKernel, dominating_kernel
from p2p_sim.privacy.randomized_response import local_epsilon, outward

ROOM = 0.016
"""In large clusters ε is raised by this share above the ε of the worst data set found. Then fewer data sets need an
evaluation."""
EXHAUSTIVE = 256
"""Largest number of sources for which every data set is evaluated."""
_BATCH = 24
"""Largest number of data sets that are evaluated together."""
_LOOKS = 9
"""How many evenly spaced data sets are searched for the worst one in a large cluster."""
_WIDEST = 0.05
"""Largest result of `MajorityCluster.revealable`, as a share of the sources. `_cover` reveals at most twice as many
bits."""
_SMALLEST = 2000
"""A block reveals at least S divided by this number bits, rounded down, of S sources. This limits the number of
evaluations. A block reveals nothing if fewer than 2 bits would be revealed, or if no dominating kernel is found."""
_COARSE = 0.25
"""The argument `change` of `DeltaEvaluator` for blocks with revealed bits. The upper bound of δ need not be sharp
there."""


class BlockEvaluator(DeltaEvaluator):
    """An evaluator of δ that always uses tail probabilities. At one data set and few ε they are faster than tables."""

    direct = False


@dataclass(frozen=True)
class DataSetBlock:
    """Data sets that are certified together: m = `first` to `last` users besides the target hold label 1.

    ones: the m at which δ is evaluated: `first` to `last`, or `first` alone if bits are revealed.
    evaluator: computes δ at these m. revealed: b, how many other users' noisy bits are revealed to the learner.
    smallest: whether this block is the smallest to be tried.
    """

    first: int
    last: int
    ones: Sequence[int]
    evaluator: DeltaEvaluator
    revealed: int = 0
    smallest: bool = True

    @cached_property
    def views(self) -> Views:
        """The laws of what the learner may see, one for each m in `ones`. The laws give δ at any ε."""
        return self.evaluator.views(self.ones)

    def delta(self, epsilon: float) -> float:
        """An upper bound of δ(ε) for every data set of the block."""
        [upper] = self.evaluator.bounds(self.views, epsilon, (True,))
        return float(upper.max())


@dataclass(frozen=True)
class MajoritySources(Sources):
    """An exchange with a `kernel`: the probability that a submission is a 1, as a function of the number of noisy ones.

    Args:
        sources, flip_prob, trials, rate: as in `ClusterExchange`.
        kernel: this function.
        requests: largest number of peers that a submitter asks; None: no limit is known. This number bounds the
            probability that somebody asks the target.
    """

    kernel: Kernel
    requests: int | None

    def world(self, ones: int) -> OtherUsers:
        """The users besides the target: `ones` users with label 1, and the rest with label 0. The kernel says how
        submissions depend on their noisy labels.
        """
        return OtherUsers(self.sources, self.sources - 1 - ones, ones, self.flip_prob, kernel=self.kernel)

    @property
    def exposed(self) -> Bracket:
        """Bounds of the probability that at least one submission depends on the target's noisy label.

        Such a submission needs a submitter who asked the target, which gives the upper bound. The lower bound is 0.
        """
        asks = 1.0 if self.requests is None else some(1.0 / self.sources, self.requests)
        return outward(0.0, some(min(1.0, self.rate * asks), self.trials) * (1.0 + 2.0**-46))


@dataclass(frozen=True)
class MajorityCluster(MajoritySources):
    """The learner's δ and ε in one cluster whose users submit majorities, over all data sets."""

    kernel: SmoothKernel

    def variances(self, ones: int) -> Variances:
        """An estimate, in two parts, of the variance that hides the target's label if m = `ones` others hold label 1.
        The estimate only guides searches.

        The first part, D S/t, comes from the random choice of peers. The second part, α(1-α), comes from the flips. S
        is the number of sources, and t the expected number of submissions. D = g(1-g)/g'² at the mean share of noisy
        ones. So D is the variance of an estimate of this share from one submission. V is S times the sum of the two
        parts. In the Gaussian limit ε is approximately √(2 ln(1/δ)) / √V.
        """
        p, load = self._share(ones), self.trials * self.rate / self.sources
        [share], [rest] = self.kernel.shares(np.array([p]), 1)
        drawn = max(float(share * rest) / max(self.kernel.slope(p) ** 2, 1e-290), 1e-300)
        return Variances(drawn / load, self.flip_prob * (1.0 - self.flip_prob))

    @disk_cached
    def epsilon(self, delta: float) -> Bracket:
        """Lower and upper bound of the smallest ε at which the learner's (ε, δ) holds for all data sets."""
        local, log_delta = local_epsilon(self.flip_prob), math.log(delta)
        if local == 0.0:
            return Bracket(0.0, 0.0)
        # ε of the worst data set found; in large clusters it is raised, which saves evaluations
        exact = DeltaEvaluator(self, log_delta)
        worst = self._worst(exact, exact.cross([0], delta, 0.0, upper=False).above)
        lower = exact.cross([worst], delta, 0.0, upper=False).above
        upper = exact.cross([worst], delta, lower, upper=True).below
        if self.sources > EXHAUSTIVE:
            upper = min(local, upper * (1.0 + ROOM))

        def holds(block: DataSetBlock) -> bool:
            nonlocal lower, upper
            if block.delta(upper) <= delta:
                return True
            if block.smallest:
                upper = min(local, block.evaluator.cross(block.ones, delta, upper, upper=True).below)
            if not block.revealed:
                lower = max(lower, exact.cross([exact.worst(block.ones, upper)], delta, 0.0, upper=False).above)
            return block.smallest

        self._cover(log_delta, holds, 1.0 / (1.0 + ROOM) ** 2)
        return Bracket(min(lower, local), min(upper, local))

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """For each ε, bounds of the learner's largest δ(ε) over all data sets and both directions."""
        inside = [epsilon for epsilon in epsilons if epsilon < local_epsilon(self.flip_prob)]
        if not inside:
            return [Bracket(0.0, 0.0)] * len(epsilons)
        log_delta = self._log_delta(max(inside))
        exact = DeltaEvaluator(self, log_delta)
        views = exact.views([self._worst(exact, max(inside))])
        brackets = {epsilon: self.raised(exact.deltas(views, epsilon)) for epsilon in inside}

        def holds(block: DataSetBlock) -> bool:
            if not block.smallest:
                return all(block.delta(epsilon) <= bracket.upper for epsilon, bracket in brackets.items())
            # no smaller block can be tried: δ is raised to the δ of this block
            for epsilon, bracket in brackets.items():
                own = block.evaluator.deltas(block.views, epsilon)
                lower = bracket.lower if block.revealed else max(bracket.lower, own.lower)
                brackets[epsilon] = Bracket(lower, max(bracket.upper, own.upper))
            return True

        self._cover(log_delta, holds, 1.0 / (1.0 + ROOM) ** 2)
        return [brackets.get(epsilon, Bracket(0.0, 0.0)) for epsilon in epsilons]

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified for all data sets. False may mean that (ε, δ) holds but cannot be certified."""
        if epsilon >= local_epsilon(self.flip_prob) or delta >= 1.0:
            return True
        log_delta = math.log(delta)
        exact = DeltaEvaluator(self, log_delta)
        largest = exact.at(self._worst(exact, epsilon), epsilon).upper
        if largest > delta:
            return False
        share = log_delta / min(log_delta, math.log(largest)) if largest > 0.0 else 0.0  # ln δ ≈ -ε² V/2
        return self._cover(log_delta, lambda block: block.delta(epsilon) <= delta, share)

    def raised(self, delta: Bracket) -> Bracket:
        """The given bounds of δ(ε) of the worst data set found; with more than 256 sources, the upper bound is raised.

        All other data sets must then be certified to have at most this δ(ε). A larger δ(ε) saves evaluations: one
        evaluation can certify more data sets. The factor is 1 + 0.032 ln(1/δ), at least 1.032. δ grows by approximately
        this factor if ε falls by 1.6%, as ln δ is approximately -ε² V/2 with a variance V.
        """
        if self.sources <= EXHAUSTIVE:
            return delta
        more = 1.0 + 2.0 * ROOM * max(1.0, -math.log(max(delta.upper, 1e-300)))
        return Bracket(delta.lower, min(1.0, delta.upper * more))

    @cached_property
    def _half(self) -> int:
        """The largest number m of others with label 1 that is evaluated. Swapping the labels turns a larger m into a
        smaller m.
        """
        return (self.sources - 1) // 2

    def _share(self, ones: int) -> float:
        """The mean share of noisy ones if `ones` of the S sources hold label 1. This mean only guides searches."""
        return self.flip_prob + (1.0 - 2.0 * self.flip_prob) * ones / self.sources

    def _worst(self, exact: DeltaEvaluator, epsilon: float) -> int:
        """The number m of others with label 1 for which δ(ε) is largest, among the m that are looked at.

        With up to 256 sources and δ from tables, all m are looked at. Otherwise nine evenly spaced m are looked at, and
        the true worst m may be missed. δ is compared slightly below ε, since at ε itself every δ may be 0.

        Args:
            exact: the object that computes δ of a data set.
        """
        if exact.direct and self.sources <= EXHAUSTIVE:
            return exact.worst(range(self._half + 1), epsilon)
        looks = {round(self._half * part / (_LOOKS - 1)) for part in range(_LOOKS)}
        return max(looks, key=lambda ones: exact.at(ones, epsilon * (1.0 - 1e-6)).upper)

    def _cover(self, log_delta: float, holds: Callable[[DataSetBlock], bool], share: float) -> bool:
        """Whether `holds` certifies all data sets, m = 0 to `_half`, block by block. False: a block fails, and no
        smaller block is to be tried.

        A block is a range of m that one evaluation of δ certifies, as the learner is told some noisy labels. If more
        labels are told, the range is longer and δ is larger.

        Args:
            log_delta: ln of the δ of interest. holds: whether a block is certified; if not, a smaller block is tried.
            share: guides the size of the blocks and affects speed only. Labels are told until the variance V falls to
            approximately `share` times the smallest V of all data sets. In the Gaussian limit ln δ is approximately -ε²
            V/2.
        """
        # all data sets before `first` are certified; b is `trust` times the number of `revealable` bits, but at
        # least `least`
        exact, first, trust, least = DeltaEvaluator(self, log_delta), 0, 1.0, self.sources // _SMALLEST
        needed = share * min(sum(self.variances(m)) for m in {0, *np.linspace(0, self._half, 64).astype(int).tolist()})
        while first <= self._half:
            revealed = max(int(trust * self.revealable(first, needed)), least)
            block = self._block(first, revealed, log_delta, smallest=revealed == least)
            if block is None:
                last = min(first + _BATCH - 1, self._half) if exact.direct else first
                block = DataSetBlock(first, last, range(first, last + 1), exact)
            if holds(block):
                first, trust = block.last + 1, min(1.1 * trust, 2.0)
            elif block.smallest:
                return False
            else:
                trust *= 0.6
        return True

    def revealable(self, ones: int, needed: float) -> float:
        """An estimate of how many noisy labels may be told to the learner before δ is too large; at most 5% of the S
        sources.

        Here m = `ones` others hold label 1. The variance that hides the target is S times the sum of v, from the choice
        of peers, and α(1-α), from the flips. Telling b labels makes the kernel g steeper. This divides v by
        approximately (1+ζ)², with ζ = b/(4S) · g'/(g(1-g)) at the mean share of noisy ones.

        Args:
            needed: the sum of the two parts at which δ is as large as allowed.
        """
        p = self._share(ones)
        [share], [rest] = self.kernel.shares(np.array([p]), 1)
        drawn, flipped = self.variances(ones)
        stretch = math.sqrt(drawn / max(needed - flipped, 1e-9 * drawn)) - 1.0
        b = 4.0 * stretch * float(share * rest) / self.kernel.slope(p) * self.sources
        return min(max(b, 0.0), _WIDEST * self.sources)

    def _block(self, first: int, revealed: int, log_delta: float, smallest: bool) -> DataSetBlock | None:
        """The block of data sets m = `first` to `first` + b. To certify it at once, b = `revealed` noisy labels are
        told to the learner.

        A dominating kernel replaces the kernel: then δ(ε) is at least as large, whatever the b labels are. b is reduced
        if there are fewer users. None: no such kernel is found, b is below 2, or there are at most 256 sources.

        Args:
            log_delta: ln of the δ of interest. smallest: whether this block is the smallest to be tried.
        """
        if revealed < 2 or self.sources <= EXHAUSTIVE:
            return None
        revealed = min(revealed, self.sources - 1 - first)
        # X is the number of ones among the bits that are not revealed; the kernel must dominate over the window of X
        remaining, alpha = self.sources - revealed, self.flip_prob
        log_tail = DeltaEvaluator(replace(self, sources=remaining), log_delta, _COARSE).submissions.log_tail
        mean = first * (1.0 - alpha) + (remaining - 1 - first) * alpha
        low, high = bernstein_window(mean, (remaining - 1) * alpha * (1.0 - alpha), remaining - 1, log_tail)
        kernel = dominating_kernel(self.kernel, self.sources, revealed=revealed, first=low, last=high + 1)
        if kernel is None:
            return None
        sources = MajoritySources(remaining, alpha, self.trials, self.rate, kernel=kernel, requests=self.requests)
        return DataSetBlock(
            first,
            first + revealed,
            ones=(first,),
            evaluator=BlockEvaluator(sources, log_delta, _COARSE),
            revealed=revealed,
            smallest=smallest,
        )

    def _log_delta(self, epsilon: float) -> float:
        """ln of a rough δ(ε) of the worst data set found. Sums leave out probabilities far below this δ; the bounds
        allow for this.
        """

        def attained(guess: float) -> float:
            exact = DeltaEvaluator(self, guess)
            return exact.at(self._worst(exact, epsilon), epsilon).lower

        return rough_log_delta(attained)
