"""δ as a difference of two tail probabilities at one cut-off, for large clusters, one data set at a time.

The target is the user whose label is protected. Among t submissions, k carry a 1. A(k) is the probability of k if the
target's noisy bit (her label after the flip) is 0, and B(k) if this bit is 1. Let X be the number of other users' noisy
bits that are 1, and f the law of X. Let S be the number of users whose noisy bits may be submitted. Then A(k) = Σ_x
f(x) Bin(k; t, x/S), where Bin(k; t, p) is the probability of k ones among t draws, each 1 with probability p. B(k) has
f(x-1) in place of f(x).

So B(k)/A(k) is the expectation of f(x-1)/f(x) given k under A. As f is log-concave, f(x-1)/f(x) increases in x. As the
binomial kernel is totally positive of order 2, x given k increases stochastically in k. Hence B(k)/A(k) increases in k.
Therefore the event that gives δ is "at most k* ones" (evidence of label 0) or "at least k* ones" (evidence of label 1).
Bisection finds the cut-off k*. The tails are sums over X of incomplete beta functions I.

Errors. Three bounds of rounding errors are proved: of the law of X (`NoisyOnes.error`), of the sums, and of the
argument of I. For the third bound, let z be the smaller of p and 1-p. A tail of Bin(t, p) is computed from z. The
relative error of z is at most u = 2^-53. Let e^-s be the probability of the tail, and E the expectation of Bin(t, z)
given the tail. Then d ln(e^-s)/d ln z = (E - t z)/(1-z), and t KL(E/t || z) <= s. So by Pinsker's inequality |E - t
z| <= sqrt(s t/2). Hence the derivative is at most sqrt(2 s t) <= 40 sqrt(t) for s <= 800. Two errors are measured:
SciPy's error of I at given arguments, and the effect of errors of ln B(k)/A(k) (`MISPLACED`). The quadrature that finds
the cut-off is checked at each cut-off of a reported bound (`_AGREED`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from p2p_sim.privacy.binomial_windows import SUBNORMAL, UNIT, Floats, SubmissionCounts, tail_mass
from p2p_sim.privacy.exchange.direct_sum import OtherUsers
from p2p_sim.privacy.exchange.tail_quadrature import TailPair, TailQuadrature
from p2p_sim.privacy.randomized_response import Coefficients

NODES = 6
"""Number of nodes of the quadrature in one standard deviation of X given (t, k). For a Gaussian X the relative error is
e^-700."""
BETAINC_ERROR = 3e-12
"""Relative error that is allowed for in the incomplete beta function (largest seen: 5e-13)."""
MISPLACED = 1e-12
"""Relative error of δ's two terms that is allowed for because an error of ln B(k)/A(k) may misplace the cut-off k*.

A term k between the misplaced and the right cut-off changes δ by less than the error of the logarithm times the term's
probability. The error of the logarithm grows with t (largest seen: 4e-11, at t up to 1e7). But each term's share of the
tail falls. At 23,093 random cut-offs with t up to 1e7, the product of error and probability was at most 2.9e-13 of the
tail."""
_SMALLEST = 2.0**-1022
"""Absolute error that is allowed for where an incomplete beta function underflows. SciPy may then return 0."""
_AGREED = 1e-12
"""If two quadratures differ by at most this in ln B(k)/A(k), the cut-off is accepted.

The nodes of one quadrature lie between the nodes of the other. So their leading errors mostly have opposite signs.
Measured, not proved: at 18,839 random cut-offs where the two agreed, the full sum differed by at most 1.1e-12."""
_NEVER = -1e30
"""Stands for the logarithm of 0."""


@dataclass(frozen=True)
class CutOffViews:
    """What the learner may see in one data set, as sums over W values of X. The sums give the tails of A and B at any
    cut-off.

    weights: (W,) Pr[X].
    share: the probability that a submission is 1, at X and at X + 1: X/S and (X + 1)/S, or a kernel's values. Shape
        (W + 1,) if the values of X are consecutive, otherwise (2W,).
    rest: 1 - share. nodes: the quadrature that finds a cut-off. check: a second quadrature, which confirms the cut-off;
        None: not needed. full: the sum over every X, for the case that the two disagree; None: not needed.
    submissions: the numbers t, with their weights. few: points at which tails are summed; None: at the W values of X.
    slack: relative error of a tail. tiny: absolute error of a tail by underflow.
    missed: bound of the probability that the truncated law of X leaves out; both bounds of δ allow for this.
    """

    weights: Floats
    share: Floats
    rest: Floats
    nodes: "_Nodes"
    check: "_Nodes | None"
    full: "_Nodes | None"
    submissions: SubmissionCounts
    slack: float
    missed: float
    tiny: float
    few: TailQuadrature | None = None

    @staticmethod
    def of(world: OtherUsers, submissions: SubmissionCounts, quadrature: bool = False) -> "CutOffViews":
        """What the learner may see in one data set, stored such that δ at any ε is a difference of two tail
        probabilities.

        A quadrature finds the cut-off k*; it sums over every h-th X only (trapezoid rule). For reported bounds, a
        second quadrature checks the cut-off. If the two disagree, the sum over every X decides.

        Args:
            world: the users besides the target: how many hold label 0 and label 1, and α. submissions: the numbers t of
            submissions at which δ is evaluated, with their weights. quadrature: whether tails are summed over every
            h-th X, too, and cut-offs are not checked. This is faster; it is for searches, not for reported bounds.
        """
        # all values of X, and the relative error of a sum over them
        law = world.noisy_ones(submissions.log_tail)
        weights = law.probabilities
        noisy = law.first + np.arange(len(weights) + 1, dtype=np.float64)
        share, rest = world.shares(noisy)
        most = max(submissions.counts)
        slack = BETAINC_ERROR + MISPLACED + law.error + (len(weights) + 6 + 40.0 * math.sqrt(most)) * UNIT
        if world.kernel is not None:  # the arguments of I, and ln B(k)/A(k), are off by more than u
            slack += (40.0 * math.sqrt(most) + 4.0 * most) * world.kernel.error
        # every h-th X: the standard deviation of X given (t, k) falls with t/S, the submissions per source
        others, load = world.zeros + world.ones, most / world.sources
        width = math.sqrt(others * world.flip_prob * (1.0 - world.flip_prob) / (1.0 + load))
        step = max(1, int(width / NODES))
        chosen = slice(step // 2, len(weights), step)
        nodes = _Nodes.of(step * weights[chosen], noisy[:-1][chosen], world)
        # tails are summed at few points, at every h-th X, or at every X; two quadratures must agree on the cut-offs
        missed, tiny = 6.0 * tail_mass(submissions.log_tail), law.tiny * SUBNORMAL * len(weights) + _SMALLEST
        check, full, few = None, None, None
        if quadrature:
            weights = step * weights[chosen]
            share, rest = (np.append(p[:-1][chosen], p[1:][chosen]) for p in (share, rest))
        else:
            if world.kernel is not None:
                few = TailQuadrature.of(weights, share, most, submissions.log_tail - 6.0)
            if step > 1:
                check = _Nodes.of(step * weights[::step], noisy[:-1:step], world)
                full = _Nodes.of(weights, noisy[:-1], world)
        return CutOffViews(
            weights,
            share,
            rest,
            nodes=nodes,
            check=check,
            full=full,
            submissions=submissions,
            slack=slack,
            missed=missed,
            tiny=tiny,
            few=few,
        )

    def deltas(self, coefficients: Coefficients, ends: Sequence[bool] = (False, True)) -> list[Floats]:
        """Bounds of δ(ε), the sum over views of max(0, keep·p - lose·q), for (p, q) = (A, B) and (B, A).

        A view is what the learner sees: the number t of submissions, and how many are 1. A and B are the probabilities
        of a view if the target's noisy label is 0, and if it is 1.

        Args:
            coefficients: keep = 1-α-αe^ε and lose = e^ε(1-α)-α, both positive, from `hockey_stick_coefficients`. ends:
            which bounds, in order: False is the lower, True the upper.

        Returns:
            One array (1, 2) for each entry of `ends`: one data set, and the two directions (A, B) and (B, A).
        """
        keep, lose, relative_error = coefficients
        # a term of δ is positive for k with B(k)/A(k) > lose/keep (direction 1), or with B(k)/A(k) < keep/lose
        # (direction 0)
        threshold = math.log1p((lose - keep) / keep)
        # added once for all t: the exact probabilities of all t sum to 1
        missed = (keep + lose) * self.missed
        lower, upper = np.full((1, 2), -missed), np.full((1, 2), self.submissions.lost + missed)
        guesses: list[int | None] = [None, None]
        for t, low, high in zip(self.submissions.counts, self.submissions.lower, self.submissions.upper, strict=True):
            if t == 0:
                continue  # without submissions, the learner sees nothing
            for direction in (0, 1):
                cut = self._cut(t, threshold if direction else -threshold, guesses[direction])
                guesses[direction] = cut
                a, b, off = self._tails(t, cut, True) if direction else self._tails(t, t - cut + 1, False)
                gain, loss = (keep * b, lose * a) if direction else (keep * a, lose * b)
                error = (self.slack + relative_error) * (gain + loss) + (keep + lose) * (self.tiny + off)
                lower[0, direction] += low * max(gain - loss - error, 0.0)
                upper[0, direction] += high * (max(gain - loss, 0.0) + error)
        sums = (len(self.submissions.counts) + 4) * UNIT
        bounds = lower - sums * np.abs(lower) - SUBNORMAL, upper * (1.0 + sums) + SUBNORMAL
        return [bounds[end] for end in ends]

    def _cut(self, t: int, threshold: float, guess: int | None) -> int:
        """The cut-off: the smallest number k of ones among t submissions with ln B(k)/A(k) > threshold; t + 1 if there
        is none.

        B(k)/A(k) increases in k. So the threshold, which depends on ε, separates the k that count in δ(ε) from the
        others.

        Args:
            t: number of submissions. threshold: ln(lose/keep) if label 1 is the evidence, and -ln(lose/keep) for the
            other direction. guess: the cut-off for a neighbouring t, from which the search starts; None: unknown.
        """
        cut = self.nodes.first_above(t, threshold, guess)
        at = min(cut, t)
        if self.check is None or self.full is None or abs(self.nodes.ratio(t, at) - self.check.ratio(t, at)) <= _AGREED:
            return cut
        return self.full.first_above(t, threshold, cut)

    def _tails(self, t: int, least: int, upper: bool) -> TailPair:
        """Probabilities of at least `least` ones (if `upper`) or zeros (if not) among t submissions.

        Field a is the probability if the target's noisy label is 0, and b if it is 1. Both are averages over X, the
        number of other users with the noisy label 1. Field off bounds the absolute error by interpolation.
        """
        if not 0 < least <= t:
            certain = float(least <= 0)
            return TailPair(certain, certain, 0.0)
        if self.few is not None:
            share, rest = self.few.points, 1.0 - self.few.points
            return self.few.sums(upper_tail(t, least, share, rest) if upper else upper_tail(t, least, rest, share))
        chance, rest = (self.share, self.rest) if upper else (self.rest, self.share)
        values = upper_tail(t, least, chance, rest)
        at, above = values[: len(self.weights)], values[-len(self.weights) :]
        return TailPair(float(self.weights @ at), float(self.weights @ above), 0.0)


def upper_tail(t: int, least: int, chance: Floats, rest: Floats) -> Floats:
    """Pr[Bin(t, p) >= least] for each p in `chance`, computed from the smaller of p and 1-p. `rest` is 1-p."""
    tail, small = np.empty_like(chance), chance <= 0.5
    # the tail is I_p(least, t - least + 1) = 1 - I_(1-p)(t - least + 1, least)
    tail[small] = scipy.special.betainc(float(least), t - least + 1.0, chance[small])
    tail[~small] = scipy.special.betaincc(t - least + 1.0, float(least), rest[~small])
    return tail


def _log(p: Floats, q: Floats) -> Floats:
    """ln p, elementwise, to nearly full relative accuracy, where q is 1-p. For p >= q it is computed from q."""
    with np.errstate(divide="ignore"):
        return np.where(p < q, np.log(p), np.log1p(-q))


@dataclass(frozen=True)
class _Nodes:
    """A quadrature over X in logarithms, from which ln B(k)/A(k) is computed with little rounding.

    weights: ln of (Pr[X] times the step). share, rest: ln of (X + 1/2)/S and ln of 1 - (X + 1/2)/S, common to A and B.
    down: what is added to share and to rest for A, which has X/S. up: what is added for B, which has (X + 1)/S. With a
    kernel the common parts are different, see `of_kernel`.
    """

    weights: Floats
    share: Floats
    rest: Floats
    down: tuple[Floats, Floats]
    up: tuple[Floats, Floats]

    @staticmethod
    def of(weights: Floats, noisy: Floats, world: OtherUsers) -> "_Nodes":
        """The sum over X that gives ln B(k)/A(k), with logarithms of its terms.

        Args:
            weights: (W,) Pr[X] at each value, times the step between values. noisy: (W,) the values of X. world: the
            users besides the target, and how a submission depends on X.
        """
        sources = world.sources
        if world.kernel is not None:
            return _Nodes.of_kernel(weights, *world.shares(noisy), *world.shares(noisy + 1.0))
        middle, rest = noisy + 0.5, sources - noisy - 0.5
        with np.errstate(divide="ignore"):
            logs = [np.log(weights), np.log1p(-0.5 / middle), np.log1p(-0.5 / rest)]
        weights, less, fewer = (np.maximum(log, _NEVER) for log in logs)
        more = np.log1p(0.5 / middle), np.log1p(0.5 / rest)
        p, q = middle / sources, rest / sources
        return _Nodes(weights, _log(p, q), _log(q, p), (less, more[1]), (more[0], fewer))

    @staticmethod
    def of_kernel(weights: Floats, share: Floats, rest: Floats, more: Floats, less: Floats) -> "_Nodes":
        """The sum over X that gives ln B(k)/A(k), if a submission is 1 with the kernel's value in place of X/S.

        A has the value at X (`share`), and B the value at X + 1 (`more`). A and B are nearly equal. To avoid
        rounding, their terms are stored as a common part and a small difference. The common part of the logarithm is ln
        `more` for each one and ln `rest` for each zero. A adds ln(share/more) for each one. B adds ln(less/rest) for
        each zero.

        Args:
            weights: (W,) Pr[X] times the step between values. share, more: (W,) the kernel at X and at X + 1. rest,
            less: 1 - `share` and 1 - `more`.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(weights), np.log1p((share - more) / more), np.log1p((share - more) / rest)
        none = np.zeros_like(share)
        weights, down, fewer = (np.maximum(log, _NEVER) for log in logs)
        return _Nodes(weights, _log(more, less), _log(rest, share), (down, none), (none, fewer))

    def ratio(self, t: int, k: int) -> float:
        """The log-likelihood ratio ln B(k)/A(k) of k ones among t submissions: the target's noisy bit 1 against 0."""
        # the terms that A and B have in common, then the logarithms of the sums A and B
        both = self.weights + k * self.share + (t - k) * self.rest
        both -= both.max()
        a, b = (both + (k * by_ones + (t - k) * by_zeros) for by_ones, by_zeros in (self.down, self.up))
        top_a, top_b = float(a.max()), float(b.max())
        return top_b - top_a + math.log(float(np.exp(b - top_b).sum()) / float(np.exp(a - top_a).sum()))

    def first_above(self, t: int, threshold: float, guess: int | None) -> int:
        """The smallest k in 0..t whose `ratio` is above the threshold; t + 1 if there is none. The search starts at
        `guess`.
        """
        low, high = -1, t + 1  # ratio(low) <= threshold < ratio(high), by convention at the ends
        if guess is not None:
            # go away from the guess in doubling steps, until the ratio is on the other side of the threshold
            reach, centre = 1, min(max(guess, 0), t)
            up = self.ratio(t, centre) <= threshold
            low, high = (centre, high) if up else (low, centre)
            while low < (probe := centre + reach if up else centre - reach) < high:
                below = self.ratio(t, probe) <= threshold
                low, high = (probe, high) if below else (low, probe)
                if below != up:
                    break
                reach *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.ratio(t, middle) <= threshold else (low, middle)
        return high
