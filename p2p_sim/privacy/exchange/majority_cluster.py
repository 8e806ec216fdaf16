"""The learner's δ and ε in one cluster whose users submit majorities, bracketed over all data sets.

A data set is m, how many others hold label 1, up to half of them. Any of them attains the lower end. For the upper end
let the noisy bits of b others be revealed; by choosing whom, what remains is, for every data set from m' to m' + b, an
exchange in which m' of the other S - 1 - b hold label 1, with a kernel that one `dominating_kernel` dominates:

    max over m = m'..m'+b of  δ_{S,m}(ε)  <=  δ(ε) of S - 1 - b others, m' of them with label 1, and the kernel p̃.

In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, V = S (D(p) S/t + α(1-α)), D = g(1-g)/g'², at the share p of noisy
ones. The kernel p̃ is steeper than g by a share of about ζ = b/(4S) · g'/(g(1-g)), which divides D by (1+ζ)². So b is
chosen by how much larger V is than needed: a heuristic, on which nothing that is certified rests.
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
from p2p_sim.privacy.exchange.majority_kernel import (
    Kernel,
    SmoothKernel,
    dominating_kernel,
)
from p2p_sim.privacy.randomized_response import local_epsilon, outward

ROOM = 0.016
"""Share by which ε may be raised above that of the worst data set, so that fewer data sets need a look."""
EXHAUSTIVE = 256
"""Most sources of whom every data set is evaluated."""
_BATCH = 24
"""Most data sets that are evaluated together."""
_LOOKS = 9
"""Data sets among which the worst is looked for, in a large cluster."""
_WIDEST = 0.05
"""Largest share of others that are revealed."""
_SMALLEST = 2000
"""One over the share of others that are revealed at least, so that no more data sets than that are evaluated."""
_COARSE = 0.25
"""By what share δ may change within a block of submissions where an upper end has room."""


class BlockEvaluator(DeltaEvaluator):
    """Evaluates one data set at few ε, for which binomial tails at cut-offs are faster than tables of all views."""

    direct = False


@dataclass(frozen=True)
class DataSetBlock:
    """Data sets m = `first` to `last`, m the others with label 1, that are certified together.

    ones: the m that are evaluated: all of them, or the first alone if `revealed` bits are known. evaluator: evaluates δ
    of these. smallest: whether there is no smaller block to try.
    """

    first: int
    last: int
    ones: Sequence[int]
    evaluator: DeltaEvaluator
    revealed: int = 0
    smallest: bool = True

    @cached_property
    def views(self) -> Views:
        """The learner's views of the data sets that are evaluated."""
        return self.evaluator.views(self.ones)

    def delta(self, epsilon: float) -> float:
        """Upper bound of δ(ε) that holds for all data sets of the block."""
        [upper] = self.evaluator.bounds(self.views, epsilon, (True,))
        return float(upper.max())


@dataclass(frozen=True)
class MajoritySources(Sources):
    """A cluster whose users submit majorities: who can be asked, how a submission depends on the noisy labels, how many
    there are.

    Args:
        sources, flip_prob, trials, rate: as of `ClusterExchange`.
        kernel: the probability that a submission is a one, by the number of noisy ones.
        requests: the most peers whom each submitter asks, for the probability that somebody asks the target; None: any
            number.
    """

    kernel: Kernel
    requests: int | None

    def world(self, ones: int) -> OtherUsers:
        """What is unknown to the learner if `ones` of the other users hold label 1."""
        return OtherUsers(self.sources, self.sources - 1 - ones, ones, self.flip_prob, kernel=self.kernel)

    @property
    def exposed(self) -> Bracket:
        """Probability that somebody who submits asked the target; its upper end bounds δ."""
        asks = 1.0
        if self.sources > 1 and self.requests is not None:
            asks = some(1.0 / self.sources, self.requests)
        return outward(0.0, some(min(1.0, self.rate * asks), self.trials) * (1.0 + 2.0**-46))


@dataclass(frozen=True)
class MajorityCluster(MajoritySources):
    """Brackets δ and ε of an exchange of majorities over all data sets of a cluster.

    kernel: smooth, since its slope guides the search.
    """

    kernel: SmoothKernel

    def variances(self, ones: int) -> Variances:
        """How much a submission's peers, and the flips, hide if m = `ones` of the others hold label 1: D S/t and
        α(1-α).

        D = g(1-g)/g'² at the mean share of noisy ones.
        """
        p, load = self._share(ones), self.trials * self.rate / self.sources
        [share], [rest] = self.kernel.shares(np.array([p]), 1)
        drawn = max(float(share * rest) / max(self.kernel.slope(p) ** 2, 1e-290), 1e-300)
        return Variances(drawn / load, self.flip_prob * (1.0 - self.flip_prob))

    @disk_cached
    def epsilon(self, delta: float) -> Bracket:
        """ε(δ) over all data sets and both directions."""
        local, log_delta = local_epsilon(self.flip_prob), math.log(delta)
        if local == 0.0:
            return Bracket(0.0, 0.0)
        # ε of the worst data set that was looked at, raised where others shall need fewer looks
        exact = DeltaEvaluator(self, log_delta)
        worst = self._worst(exact, exact.cross([0], delta, 0.0, upper=False).above)
        lower = exact.cross([worst], delta, 0.0, upper=False).above
        if math.isinf(lower):
            return Bracket(local, local)
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
                largest = exact.worst(block.ones, upper)
                lower = max(lower, exact.cross([largest], delta, 0.0, upper=False).above)
            return block.smallest

        self._cover(log_delta, holds, 1.0 / (1.0 + ROOM) ** 2)
        return Bracket(min(lower, local), min(upper, local))

    def profile(self, epsilons: Sequence[float]) -> list[Bracket]:
        """δ at several ε, over all data sets and both directions."""
        local = local_epsilon(self.flip_prob)
        inside = [epsilon for epsilon in epsilons if epsilon < local]
        if not inside:
            return [Bracket(0.0, 0.0)] * len(epsilons)
        log_delta = self._log_delta(max(inside))
        exact = DeltaEvaluator(self, log_delta)
        views = exact.views([self._worst(exact, max(inside))])
        brackets = {epsilon: self.raised(exact.deltas(views, epsilon)) for epsilon in inside}

        def holds(block: DataSetBlock) -> bool:
            if not block.smallest:
                return all(block.delta(epsilon) <= bracket.upper for epsilon, bracket in brackets.items())
            # nothing smaller can be tried: δ is raised to that of the block
            for epsilon, bracket in brackets.items():
                own = block.evaluator.deltas(block.views, epsilon)
                lower = 0.0 if block.revealed else own.lower
                brackets[epsilon] = Bracket(max(bracket.lower, lower), max(bracket.upper, own.upper))
            return True

        self._cover(log_delta, holds, 1.0 / (1.0 + ROOM) ** 2)
        return [brackets.get(epsilon, Bracket(0.0, 0.0)) for epsilon in epsilons]

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified for all data sets."""
        if epsilon >= local_epsilon(self.flip_prob) or delta >= 1.0:
            return True
        log_delta = math.log(delta)
        exact = DeltaEvaluator(self, log_delta)
        largest = exact.at(self._worst(exact, epsilon), epsilon).upper
        if largest > delta:
            return False
        share = log_delta / min(log_delta, math.log(largest)) if largest > 0.0 else 0.0  # ln δ is about -ε² V/2
        return self._cover(log_delta, lambda block: block.delta(epsilon) <= delta, share)

    def raised(self, delta: Bracket) -> Bracket:
        """A bracket of δ whose upper end is raised, in large clusters, by about what raising ε by a share `ROOM` is
        worth.

        ln δ is about -ε² V/2. So fewer other data sets need a look.
        """
        if self.sources <= EXHAUSTIVE:
            return delta
        more = 1.0 + 2.0 * ROOM * max(1.0, -math.log(max(delta.upper, 1e-300)))
        return Bracket(delta.lower, min(1.0, delta.upper * more))

    @cached_property
    def _half(self) -> int:
        """The largest m, others with label 1, that needs a look: data sets above half mirror those below."""
        return (self.sources - 1) // 2

    def _share(self, ones: int) -> float:
        """The mean share of noisy ones if `ones` of the others hold label 1."""
        return self.flip_prob + (1.0 - 2.0 * self.flip_prob) * ones / self.sources

    def _worst(self, exact: DeltaEvaluator, epsilon: float) -> int:
        """Which of some data sets has the largest δ just below ε, as the number of others with label 1."""
        if exact.direct and self.sources <= EXHAUSTIVE:
            return exact.worst(range(self._half + 1), epsilon)
        looks = {round(self._half * part / (_LOOKS - 1)) for part in range(_LOOKS)}
        return max(looks, key=lambda ones: exact.at(ones, epsilon * (1.0 - 1e-6)).upper)

    def _cover(self, log_delta: float, holds: Callable[[DataSetBlock], bool], share: float) -> bool:
        """Certify all data sets up to half, block by block; False if a block that cannot be made smaller does not hold.

        Args:
            log_delta: logarithm of the δ of interest. holds: whether a block is certified; else a smaller one is tried.
            share: V that is needed, as a share of the smallest V of a data set.
        """
        # all data sets before `first` are certified; `trust` is the part of b that is tried
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
        """b: how many others' bits may be revealed, about, before V/S falls to what is needed at m = `ones`.

        D may be divided by (1+ζ)², with ζ = b/(4S) · g'/(g(1-g)).
        """
        p = self._share(ones)
        [share], [rest] = self.kernel.shares(np.array([p]), 1)
        drawn, flipped = self.variances(ones)
        stretch = math.sqrt(drawn / max(needed - flipped, 1e-9 * drawn)) - 1.0
        b = 4.0 * stretch * float(share * rest) / self.kernel.slope(p) * self.sources
        return min(max(b, 0.0), _WIDEST * self.sources)

    def _block(self, first: int, revealed: int, log_delta: float, smallest: bool) -> DataSetBlock | None:
        """The block of data sets `first` to `first` + `revealed`; None if too few bits are revealed or no kernel
        dominates.
        """
        if revealed < 2 or self.sources <= EXHAUSTIVE:
            return None
        revealed = min(revealed, self.sources - 1 - first)
        # X among those whose bits are not revealed, over whose window the kernel must dominate
        remaining, alpha = self.sources - revealed, self.flip_prob
        log_tail = DeltaEvaluator(replace(self, sources=remaining), log_delta, _COARSE).submissions.log_tail
        mean, variance = (
            first * (1.0 - alpha) + (remaining - 1 - first) * alpha,
            (remaining - 1) * alpha * (1.0 - alpha),
        )
        low, high = bernstein_window(mean, variance, remaining - 1, log_tail)
        kernel = dominating_kernel(self.kernel, self.sources, revealed=revealed, first=low, last=high + 1)
        if kernel is None:
            return None
        sources = MajoritySources(
            sources=remaining,
            flip_prob=alpha,
            trials=self.trials,
            rate=self.rate,
            kernel=kernel,
            requests=self.requests,
        )
        evaluator = BlockEvaluator(sources, log_delta, _COARSE)
        return DataSetBlock(
            first=first,
            last=first + revealed,
            ones=(first,),
            evaluator=evaluator,
            revealed=revealed,
            smallest=smallest,
        )

    def _log_delta(self, epsilon: float) -> float:
        """Logarithm of a rough δ(ε), by which it is chosen what is left out of sums."""

        def attained(guess: float) -> float:
            exact = DeltaEvaluator(self, guess)
            return exact.at(self._worst(exact, epsilon), epsilon).lower

        return rough_log_delta(attained)
