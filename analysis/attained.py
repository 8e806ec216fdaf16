"""A lower bound of the learner's ε about one user, the target, on an overlay (the graph of who may ask whom).

The bound comes from one data set and one event. In the data set all users except the target hold label 0. Each label is
flipped with probability α; the result is a noisy bit. The m fetchers are the users who may fetch the target's noisy
bit. Let k be the number of ones that the fetchers submit. The event is {k >= s} or {k <= s} for some s. Let A be its
probability if the target's noisy bit is 0, and B if the bit is 1. The learner sees more than k; ignoring the rest is
post-processing. So

    δ(ε) >= keep · B - lose · A        or        δ(ε) >= keep · A - lose · B

with keep = 1-α-αe^ε and lose = e^ε(1-α)-α. W_ij is the probability that fetcher i fetches from user j and i's
submission arrives. For the target this probability is w_i. Let b be the noisy bits of all other users. Given b, the
submissions are independent. Fetcher i submits a one with probability p_i = Σ_j W_ij b_j. If the target's bit is 1, the
probability is p_i + w_i. So the event's probabilities A(b) and B(b), given b, are computed exactly. Only the means of
A(b) and B(b) over b are estimated.

*Reference.* Let F = keep·B(b) - lose·A(b) and y = Σ_j n_j b_j. Here n_j is Σ_i W_ij divided by a small unit h, and
rounded. Suppose that all fetchers submit a one with the same probability p(y). Then k is binomial, and F is a function
F0(y). The law of y is a convolution, so the mean E F0 is computed exactly. Only the mean of F - F0 is estimated.

*Sampling.* The odds of each bit b_j are multiplied by e^(τ n_j). Then a draw b has the weight g = exp(ψ - τ y). Here ψ
= Σ_j ln(1-α+αe^(τ n_j)). So V = g (F - F0) has the mean E F - E F0. Let V = V+ - V- be the split into positive and
negative part. There are N draws.
- A pilot sample determines a cut. Larger values of V+ are replaced by the cut; this only lowers V+. The empirical
  Bernstein bound of Maurer and Pontil (2009, Theorem 4) bounds the mean of V+ from below.
- V- lies between 0 and some M. Let u = E V-. Then E V-² <= M u. The inequality e^(-x) <= 1 - x + x²/2 for x >= 0 gives
  Pr[mean <= u - t] <= exp(-N t²/(2Mu)) for the mean of the draws.
- M bounds -V = g F0 - g F. From w_i >= 0 follows B(b) >= A(b), and so -F <= (lose - keep) A(b). Let p be the mean of
  the p_i; p <= hy/m because n_j is rounded up. Consider a sum of m independent bits with the mean mp, and some
  s >= mp + 1. The sum reaches s at most as often as Bin(m, p) does (Hoeffding 1956, Theorem 4). So g A(b) is at most
  the maximum over y of exp(ψ - τ y) Pr[Bin(m, hy/m) >= s]. For s < hy + 1, this probability is replaced by 1.
- For {k <= s} the m-k zeros are counted instead. A and B change places, and n_j is rounded down.
The seed is fixed. The event, the tilt τ and the cut are chosen before the sample is drawn. The error probability
`ERROR` is divided equally among the tried values of ε.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np
import scipy

from p2p_sim.privacy import Floats, cross, hockey_stick_coefficients, local_epsilon

ERROR = 1e-9
"""Largest probability that the lower bound of ε is too high."""
_TRIED = (1.1, 1.06, 1.03, 1.01, 1.0, 0.99, 0.98, 0.97, 0.96, 0.94, 0.92, 0.89, 0.85, 0.8, 0.7, 0.5)
"""The tried values of ε, as multiples of a guess. The guess is the largest ε that an event attains if all fetchers are
alike."""
_PLANNED, _FEW = (0.98, 1.03, 1.08), 128
"""The values of ε for which event and tilt are chosen, as multiples of the same guess. With more than `_FEW` fetchers
only the first value is used."""
_UNITS, _ROUNDING, _PILOT, _DRAWS, _WORK, _TOGETHER = 64, 1e-10, 1_000, (2**12, 2**16), 2.0e9, 2**12
"""`_UNITS`: number of units h in the largest Σ_i W_ij. `_ROUNDING`: relative allowance for rounding. `_PILOT`: number
of draws in the pilot sample. `_DRAWS`: smallest and largest number of draws in the sample. `_WORK`: approximate number
of additions allowed for the sample. `_TOGETHER`: number of draws in memory at a time."""


@dataclass(frozen=True, eq=False)
class Fetchers:
    """The m users who may fetch a target's label, with their fetch probabilities.

    Attributes:
        weights: W, (m, s), a row for each fetcher and a column for each of s other users. An entry is the probability
        that the fetcher fetches from this user, and that the fetcher's submission arrives. own: w, (m,), this
        probability for the target, above 0. flip_prob: α, above 0 and at most 1/2.
    """

    weights: Floats
    own: Floats
    flip_prob: float


def attained_epsilon(fetchers: Fetchers, delta: float) -> float:
    """A lower bound of ε at δ for one user, the target; 0 if none is certified. It exceeds the true ε with probability
    at most 1e-9. In the data set behind the bound, all other users hold label 0.

    Args:
        fetchers: the users who may fetch the target's label, their fetch probabilities, and α. delta: δ.
    """
    both = (_Events(fetchers, upper) for upper in (True, False))
    guess, best = max(((events.epsilon(delta), events) for events in both), key=itemgetter(0))
    shares = _PLANNED if len(fetchers.own) <= _FEW else _PLANNED[:1]
    plans = [guess * share for share in shares if 0.0 < guess * share < local_epsilon(fetchers.flip_prob)]
    samples = (_Sample(best, int(best.deltas(plan).argmax()), ERROR / len(plans)) for plan in plans)
    return max((sample.epsilon(guess, delta) for sample in samples), default=0.0)


class _Events:
    """The events "at least s ones", or "at least s zeros", among the fetchers' submissions if all fetchers are alike.

    Let y be the weighted sum of the other users' noisy bits. Every fetcher submits a one with probability p(y) if the
    target's noisy bit is 0. If this bit is 1, the mean of w_i is added. So the counts are binomial. w_i is fetcher i's
    probability of fetching from the target. upper: whether the events count ones, else zeros.
    """

    def __init__(self, fetchers: Fetchers, upper: bool) -> None:
        self.fetchers, self.upper, columns = fetchers, upper, np.ones(len(fetchers.own)) @ fetchers.weights
        self.unit = float(columns.max(initial=0.0)) / _UNITS or 1.0
        self.units = (np.ceil if upper else np.floor)(columns / self.unit).astype(np.int64)
        # the law of y is a convolution of binomial laws, one for each value of n_j
        self.law = np.ones(1)
        for size, count in zip(*np.unique(self.units[self.units > 0], return_counts=True), strict=True):
            steps = scipy.stats.binom.pmf(np.arange(count + 1), count, fetchers.flip_prob)
            law = np.zeros(len(self.law) + size * count)
            for ones in np.flatnonzero(steps > 1e-30).tolist():
                law[size * ones : size * ones + len(self.law)] += self.law * steps[ones]
            self.law = law[: int(np.flatnonzero(law > 1e-30)[-1]) + 1]
        # p(y) is scaled: the mean of p(y) over all b equals the mean of the fetchers' p_i
        self.y = np.arange(int(self.units.sum()) + 1)
        p = np.asarray(self.y * (float(columns.sum()) / max(len(self.y) - 1, 1) / len(fetchers.own)), dtype=np.float64)
        self.chances = self.sides(p, p + fetchers.own.mean())

    def sides(self, with_zero: Floats, with_one: Floats) -> Floats:
        """Probabilities (2, ...) that the event counts a submission. The first row is for the value of the target's
        noisy bit that makes the event likelier, the second row for the other value.

        with_zero, with_one: arrays of one shape, the probabilities of submitting a one if the target's noisy bit is 0,
        or 1.
        """
        chances = np.minimum([with_zero, with_one], 1.0)
        return chances[::-1] if self.upper else 1.0 - chances

    @cached_property
    def tails(self) -> list[Floats]:
        """The probabilities of the events "at least s submissions are counted", s = 0, ..., m, if all fetchers are
        alike. The first array (m+1,) is for the value of the target's noisy bit that makes the events likelier. The
        second array (m+1,) is for the other value.
        """
        users, likely = len(self.fetchers.own), np.flatnonzero(self.law > 1e-22)
        pmfs = [scipy.stats.binom.pmf(np.arange(users + 1), users, side[likely, None]) for side in self.chances]
        return [np.cumsum((self.law[likely] @ pmf)[::-1])[::-1] for pmf in pmfs]

    def coefficients(self, epsilon: float) -> tuple[float, float]:
        """The factors keep = 1-α-αe^ε and lose = e^ε(1-α)-α of an event's lower bound of δ(ε).

        The event has two probabilities, one for each value of the target's noisy bit. The bound is keep times the
        larger probability minus lose times the smaller. keep is rounded down and lose is rounded up, so rounding only
        lowers the bound.
        """
        keep, lose, relative_error = hockey_stick_coefficients(self.fetchers.flip_prob, epsilon)
        return keep * (1.0 - relative_error), lose * (1.0 + 2.0**-48)

    def deltas(self, epsilon: float) -> Floats:
        """The δ(ε) that each event "at least s submissions are counted" attains if all fetchers are alike. The result
        (m+1,) is for s = 0, ..., m. `coefficients` states the formula.
        """
        keep, lose = self.coefficients(epsilon)
        return keep * self.tails[0] - lose * self.tails[1]

    def epsilon(self, delta: float) -> float:
        """The largest ε, to a precision of 1e-5, at which some event attains more than δ if all fetchers are alike."""
        return cross(lambda epsilon: bool(self.deltas(epsilon).max() > delta), self.fetchers.flip_prob, precision=1e-5)[
            0
        ]


@dataclass(frozen=True, eq=False)
class _Sample:
    """Samples of the other users' noisy bits, from which a lower bound of one event's δ is certified.

    Attributes:
        events: the kind of event: it counts ones or zeros. event: the number s in "at least s". error: largest
        probability that a certified δ is too large.
    """

    events: _Events
    event: int
    error: float

    @cached_property
    def tilt(self) -> tuple[float, float, float]:
        """The tilt τ, the number ψ, and a bound.

        The tilt makes the rare event more frequent in the sample: the odds of user j's noisy bit b_j are multiplied by
        e^(τ n_j). n_j is the sum of the fetchers' probabilities of fetching from user j, as a rounded number of units.
        A unit is 1/64 of the largest such sum. A draw has the weight exp(ψ - τ y) with y = Σ n_j b_j. With this ψ,
        weighted means have the right expectation.

        The bound holds for all y. It bounds the weight times the event's probability, for the value of the target's
        noisy bit that makes the event rarer. τ minimises this bound.
        """
        events, fetchers, users = self.events, self.events.fetchers, len(self.events.fetchers.own)
        p = events.y * events.unit / users
        rare = events.sides(p * (1.0 + 1e-8), (p + fetchers.own.mean()) * (1.0 - 1e-8))[1]  # row of the rarer event
        tail = np.where(self.event >= users * rare + 1.0, scipy.stats.binom.sf(self.event - 1, users, rare), 1.0)
        log_tail = np.log(np.maximum(tail, 1e-300))

        def psi(tilt: float) -> float:
            return float(np.log1p(fetchers.flip_prob * np.expm1(tilt * events.units)).sum())

        def largest(tilt: float) -> float:  # a convex function
            return psi(tilt) + float((log_tail - tilt * events.y).max())

        ends = (0.0, 12.0 / _UNITS) if events.upper else (-12.0 / _UNITS, 0.0)
        tilt = float(scipy.optimize.minimize_scalar(largest, bounds=ends, options={"xatol": 1e-7}).x)
        return tilt, psi(tilt), math.exp(min(700.0, largest(tilt)))

    def draw(self, count: int, rng: np.random.Generator) -> list[Floats]:
        """Draws the noisy bits b_j of all users but the target, with the odds of b_j multiplied by e^(τ n_j). `tilt`
        explains τ and n_j. Returns three arrays (count,). The first is y = Σ n_j b_j. The second is the event's
        probability given the bits, for the value of the target's noisy bit that makes the event likelier. The third is
        this probability for the other value.

        Args:
            count: number of draws. rng: draws the bits.
        """
        events, fetchers, draws = self.events, self.events.fetchers, []
        odds = fetchers.flip_prob * np.exp(self.tilt[0] * events.units)
        for size in [_TOGETHER] * (count // _TOGETHER) + [count % _TOGETHER]:
            bits = rng.random((size, len(odds))) < odds / (1.0 - fetchers.flip_prob + odds)
            p = bits @ fetchers.weights.T
            tails = [at_least(side, self.event) for side in events.sides(p, p + fetchers.own)]
            draws.append([bits @ events.units, *tails])
        return [np.concatenate(parts) for parts in zip(*draws, strict=True)]

    def epsilon(self, guess: float, delta: float) -> float:
        """The largest tried ε at which the certified lower bound of δ(ε) is above δ; 0 if there is none.

        guess: the largest ε that an event attains if all fetchers are alike. The tried values are 1.1 to 0.5 times
        `guess`. delta: δ.
        """
        (users, others), rng = self.events.fetchers.weights.shape, np.random.default_rng(20)
        count = int(np.clip(_WORK / (users * (self.event + others / 8.0 + 8.0)), *_DRAWS))
        pilot, sample = self.draw(_PILOT, rng), self.draw(count, rng)
        return next((e for e in (guess * share for share in _TRIED) if self.delta(e, pilot, sample) > delta), 0.0)

    def delta(self, epsilon: float, pilot: list[Floats], sample: list[Floats]) -> float:
        """A lower bound of the δ(ε) that the event attains, from weighted means over sampled bits of the other users.
        With a small probability the bound is too large. Sampled values above a cut are replaced by the cut, because a
        confidence bound needs bounded values. This only lowers the result.

        Args:
            epsilon: ε. pilot: a small sample that determines the cut. sample: another sample, from which the mean is
            estimated. Each sample has the three arrays that `draw` returns.
        """
        events, (tilt, psi, most) = self.events, self.tilt
        keep, lose = events.coefficients(epsilon)
        if keep <= 0.0:
            return 0.0
        # E F0, rounded down, and F0, rounded up
        gain, loss = np.asarray(scipy.stats.binom.sf(self.event - 1, len(events.fetchers.own), events.chances))
        reference, doubt = keep * gain - lose * loss, _ROUNDING * (keep * gain + lose * loss)
        mean = float(events.law @ (reference - doubt)[: len(events.law)]) - 1e-20 * lose
        reference, weight = reference + doubt, np.exp(np.minimum(psi - tilt * events.y, 700.0))

        def values(y: Floats, gain: Floats, loss: Floats) -> Floats:
            value = keep * gain * (1.0 - _ROUNDING) - lose * loss * (1.0 + _ROUNDING)
            return np.asarray(weight[y] * (value - reference[y]))

        # M, an upper bound of -V, has two terms. `most` bounds g times the event's smaller probability; the first term
        # is (lose - keep) times `most`. The second term is the maximum of g F0.
        largest = (lose - keep + 1e-9 * (lose + keep)) * most + float((weight * np.maximum(reference, 0.0)).max())
        cut = max(1.5 * float(values(*pilot).max()), 1e-3 * largest)
        return mean + mean_at_least(values(*sample), cut, largest * (1.0 + 1e-9), self.error / len(_TRIED))


def mean_at_least(values: Floats, cut: float, most: float, error: float) -> float:
    """A lower bound of the mean of a distribution, from independent draws. The bound is wrong with probability at most
    `error`. The empirical Bernstein bound serves for the positive parts of the values. Another bound serves for the
    negative parts, which are at most `most`.

    Args:
        values: (N,), the draws. cut: above 0; larger values are replaced by the cut, which only lowers the result.
        most: no value is below -most. error: the allowed probability of error.
    """
    count, confidence = len(values), math.log(4.0 / error)
    above, below = np.clip(values, 0.0, cut), np.maximum(-values, 0.0)
    margin = math.sqrt(2.0 * above.var(ddof=1) * confidence / count) + 7.0 * confidence * cut / (3.0 * (count - 1))
    reach = math.sqrt(2.0 * most * confidence / count)
    missed = (reach + math.sqrt(reach * reach + 4.0 * float(below.mean()))) / 2.0
    return max(float(above.mean()) - margin, 0.0) - missed**2


def at_least(chances: Floats, successes: int) -> Floats:
    """The probability (N,) of at least `successes` successes among m independent trials.

    chances: (N, m), the success probabilities; each row has m trials.
    """
    law = np.zeros((successes + 1, len(chances)))
    law[successes] = 1.0
    for trial, chance in enumerate(chances.T):
        first, last = max(0, successes - trial - 1), min(successes, chances.shape[1] - trial)
        moved = law[first + 1 : last + 1] * chance
        law[first + 1 : last + 1] -= moved
        law[first:last] += moved
    return np.asarray(law[0])
