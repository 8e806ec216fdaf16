"""The learner's δ and ε in one cluster whose users submit majorities, bracketed over all data sets.

Let S be the number of users. A data set is given by a number m: how many of the S - 1 users besides the target hold
label 1. As the labels may be swapped, m up to half suffices. The δ of any m is a lower bound of the largest δ. For the
upper bound *reveal* the noisy bits of b others to the learner. For each m from m' to m'+b, let these b others be m - m'
users with label 1 and b - (m - m') users with label 0. Then an exchange remains in which m' of the other S - 1 - b
users hold label 1. A *kernel* gives the probability that a submission is a 1. One `dominating_kernel`, p̃, dominates
the kernels of all these exchanges:

    max over m = m'..m'+b of  δ_{S,m}(ε)  <=  δ(ε) of S - 1 - b others, m' of them with label 1, and the kernel p̃.

Let g(p) be the kernel at the share p of noisy ones, t the number of submissions and α the flip probability. In the
Gaussian limit ε is approximately √(2 ln(1/δ)) / √V with V = S (D(p) S/t + α(1-α)) and D = g(1-g)/g'². The kernel p̃ is
steeper than g by a share of approximately ζ = b/(4S) · g'/(g(1-g)). This divides D by (1+ζ)². So b is chosen according
to how much larger V is than needed. This is a heuristic; no certified bound depends on it.
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
"""In large clusters ε is raised by this share above the ε of the worst data set found, so that fewer data sets need an
evaluation."""
EXHAUSTIVE = 256
"""Largest number of sources (users whose noisy bits may be submitted) for which every data set is evaluated."""
_BATCH = 24
"""Largest number of data sets that are evaluated together."""
_LOOKS = 9
"""How many evenly spaced data sets are searched for the worst one in a large cluster."""
_WIDEST = 0.05
"""Largest result of `MajorityCluster.revealable`, as a share of the sources; `_cover` reveals at most twice as many
bits."""
_SMALLEST = 2000
"""With at least twice this number of sources, at least one in this many has its bit revealed, unless no dominating
kernel is found. So at most approximately this many data sets are evaluated."""
_COARSE = 0.25
"""The argument `change` of `DeltaEvaluator` for blocks with revealed bits, whose upper bound of δ need not be sharp."""


class BlockEvaluator(DeltaEvaluator):
    """An evaluator of δ that always uses tail probabilities, which are faster than tables if δ is computed for one data
    set at few ε.
    """

    direct = False


@dataclass(frozen=True)
class DataSetBlock:
    """The data sets in which m = `first` to `last` users besides the target hold label 1; they are certified together.

    ones: the m at which δ is evaluated: `first` to `last`, or `first` alone if bits are revealed.
    evaluator: computes δ at these m. revealed: b, how many other users' noisy bits are revealed to the learner.
    smallest: whether no smaller block is tried if δ of this block is too large.
    """

    first: int
    last: int
    ones: Sequence[int]
    evaluator: DeltaEvaluator
    revealed: int = 0
    smallest: bool = True

    @cached_property
    def views(self) -> Views:
        """The laws of what the learner may see, from which δ at any ε is computed: one for each m in `ones`, for the
        data set in which m users besides the target hold label 1. They are computed at the first use.
        """
        return self.evaluator.views(self.ones)

    def delta(self, epsilon: float) -> float:
        """An upper bound of δ(ε) for every data set of the block."""
        [upper] = self.evaluator.bounds(self.views, epsilon, (True,))
        return float(upper.max())


@dataclass(frozen=True)
class MajoritySources(Sources):
    """An exchange in which a `kernel` gives the probability that a submission is a 1 as a function of the number of
    noisy ones.

    Args:
        sources, flip_prob, trials, rate: as in `ClusterExchange`.
        kernel: the function that gives the probability that a submission is a 1.
        requests: largest number of peers that a submitter asks, which bounds the probability that somebody asks the
            target; None: no limit is known.
    """

    kernel: Kernel
    requests: int | None

    def world(self, ones: int) -> OtherUsers:
        """The users besides the target in the data set in which `ones` of them hold label 1 and the rest label 0, with
        the law by which submissions depend on their noisy labels.
        """
        return OtherUsers(self.sources, self.sources - 1 - ones, ones, self.flip_prob, kernel=self.kernel)

    @property
    def exposed(self) -> Bracket:
        """Bounds of the probability that at least one submission depends on the target's noisy label. A submission can
        depend on this label only if the user who submits asked the target. This gives the upper bound; the lower bound
        is 0.
        """
        asks = 1.0 if self.requests is None else some(1.0 / self.sources, self.requests)
        return outward(0.0, some(min(1.0, self.rate * asks), self.trials) * (1.0 + 2.0**-46))


@dataclass(frozen=True)
class MajorityCluster(MajoritySources):
    """The learner's δ and ε in one cluster whose users submit majorities, over all data sets."""

    kernel: SmoothKernel

    def variances(self, ones: int) -> Variances:
        """An estimate, in two parts, of the variance that hides the target's label if m = `ones` other users hold label
        1; it only guides searches for ε and data sets.

        One part, D S/t, comes from the random choice of peers, and the other, α(1-α), from the flips; both are for one
        of S users. S is the number of users whose noisy labels can be submitted, t the expected number of submissions,
        and D = g(1-g)/g'². g is the probability that a submission is a 1, as a function of the share of noisy labels
        that are 1; it is taken at the mean share. Dividing by g'² turns the variance of a submission into that of an
        estimate of the share. In the Gaussian limit ε is approximately √(2 ln(1/δ)) / √V, where V is S times the sum of
        the two values.
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
        # ε of the worst data set that was looked at; in large clusters it is raised, so that the other data sets need
        # fewer evaluations
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
        """Whether (ε, δ) is certified for all data sets; False may mean that it holds but could not be certified."""
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
        """Bounds of δ(ε) for the worst data set found, as given, but with a larger upper bound in clusters of more than
        256 users.

        All other data sets must then be certified to have at most this δ(ε). The larger this upper bound is, the more
        data sets one evaluation can certify together, so that fewer evaluations are needed. The upper bound is raised
        by approximately as much as δ falls if ε grows by 1.6%. As ln δ is approximately -ε² V/2 with a variance V, this
        is a factor of 1 + 0.032 ln(1/δ), or 1.032 if that is larger.
        """
        if self.sources <= EXHAUSTIVE:
            return delta
        more = 1.0 + 2.0 * ROOM * max(1.0, -math.log(max(delta.upper, 1e-300)))
        return Bracket(delta.lower, min(1.0, delta.upper * more))

    @cached_property
    def _half(self) -> int:
        """The largest number m of others with label 1 that is evaluated; if the labels are swapped, a larger m becomes
        a smaller one.
        """
        return (self.sources - 1) // 2

    def _share(self, ones: int) -> float:
        """The mean share of ones among the noisy labels of the S users whose labels can be submitted, if `ones` of them
        hold label 1 and the rest label 0. It only guides searches for ε and data sets.
        """
        return self.flip_prob + (1.0 - 2.0 * self.flip_prob) * ones / self.sources

    def _worst(self, exact: DeltaEvaluator, epsilon: float) -> int:
        """The number m of others with label 1 for which δ(ε) is largest, of those m that are looked at. δ is compared
        at a value that is smaller than ε by a millionth of ε, since at ε itself δ may be 0 for every m.

        In clusters of up to 256 users, with δ summed from tables, all m are compared. In others nine evenly spaced m
        are compared, so that the true worst m may be missed.

        Args:
            exact: the object that computes δ of a data set.
        """
        if exact.direct and self.sources <= EXHAUSTIVE:
            return exact.worst(range(self._half + 1), epsilon)
        looks = {round(self._half * part / (_LOOKS - 1)) for part in range(_LOOKS)}
        return max(looks, key=lambda ones: exact.at(ones, epsilon * (1.0 - 1e-6)).upper)

    def _cover(self, log_delta: float, holds: Callable[[DataSetBlock], bool], share: float) -> bool:
        """Whether all data sets are certified, block by block; False if a block that cannot be made smaller is not
        certified.

        A data set is given by a number m: how many others hold label 1. A block is a range of successive m that one
        evaluation of δ certifies. This is possible because the learner is told the noisy labels of some users. The more
        labels are told, the longer the range, and the larger δ.

        Args:
            log_delta: ln of the δ of interest. holds: whether a block is certified; if not, a smaller one is tried.
            share: guides the size of the blocks and affects speed only. In the Gaussian limit ln δ is approximately
            -ε² V/2, where V is the variance of what the learner sees, and telling labels lowers V. `share` times the
            smallest V of all data sets is taken as the V down to which labels may be told.
        """
        # all data sets before `first` are certified; `trust` times the number of `revealable` bits is tried as b
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
        """An estimate of how many of the S users' noisy labels may be told to the learner before δ is too large, if
        `ones` others hold label 1; at most 5% of S.

        The variance that hides the target is S times the sum of two parts: v from the choice of peers, and α(1-α) from
        the flips. If the learner is told b labels, the kernel g, by which submissions depend on noisy labels, is
        replaced by a steeper one. This divides v by approximately (1+ζ)², with ζ = b/(4S) · g'/(g(1-g)). g(p) is the
        probability that a submission is a 1 if a share p of the noisy labels is 1, taken at the mean share.

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
        """A range of data sets that one evaluation of δ certifies: those in which m = `first` to `first` + b others
        hold label 1. To this end, the noisy labels of b = `revealed` users are told to the learner.

        b is reduced if there are fewer users. The rule by which submissions depend on noisy labels is replaced by one
        with which δ(ε) is at least as large, whatever the b labels are. None if no such rule is found, if `revealed` is
        below 2, or if the cluster has at most 256 users.

        Args:
            log_delta: ln of the δ of interest. smallest: whether no smaller range is to be tried if this one is not
            certified; the result has a field of this name with this value.
        """
        if revealed < 2 or self.sources <= EXHAUSTIVE:
            return None
        revealed = min(revealed, self.sources - 1 - first)
        # X counts users whose bits are not revealed; the kernel must dominate over the window of X
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
        """The logarithm of a rough δ(ε) of the worst data set found. It is used to decide which probabilities are so
        small beside δ(ε) that sums may leave them out, which the bounds then allow for.
        """

        def attained(guess: float) -> float:
            exact = DeltaEvaluator(self, guess)
            return exact.at(self._worst(exact, epsilon), epsilon).lower

        return rough_log_delta(attained)
