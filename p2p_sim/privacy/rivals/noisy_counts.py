"""Accountant of the class counts of a bag (group) of users, with geometric noise by a curator or by all users.

*The release.* Users are put into bags that depend on no label. Each of a bag's counts gets its own noise Z of scale σ.
Let t = e^(-1/σ); then Pr[Z = z] = (1-t)/(1+t) t^|z|. For two classes one count is released, and a changed label moves
this count by one. For K >= 3 classes all K counts are released. A changed label then lowers one count by one and raises
another by one. L is the number of moved counts, 1 or 2.

*Exact δ(ε).* Take one moved count. The likelihood ratio is e^(1/σ) on one side, which has total probability 1/(1+t). On
the other side the ratio is e^(-1/σ). So the privacy loss is L/σ, -L/σ or, for L = 2, also 0, whatever the counts are.
For ε >= 0

    δ(ε) = max(0, 1 - t^L e^ε) / (1+t)^L,    ε(δ) = L/σ + ln(1 - δ (1+t)^L).

*Noise shares* (infinite divisibility). For a whole number h, a share is the difference of two independent negative
binomial variables with parameter 1/h and success probability 1-t. Z is the difference of two geometric variables. The
h-th power of a share's generating function is the generating function of Z. So the sum of h shares has exactly the law
of Z. The sum of n >= h shares has the law of Z plus independent noise. Let c of n users reveal their shares, and let d
users send nothing. Then at least h = n-c-d shares still hide the target's label. So the exact δ(ε) is an upper bound,
since further noise is a post-processing. *Helpers*, users of the bag, add up what the users send, modulo 2^64. This is
a post-processing, too.

*A lower bound of δ(ε).* Let m shares be added, r = m/h times as many as needed. Their sum is symmetric. Let p be the
probability that this sum is 0. The target has one label in the first world, and another label in the second world. So
each moved count has a true value in each world, x and x'. Consider the event that every noisy moved count is x, or lies
beyond x as seen from x'. Let a = (1+p)/2 and b = (1-p)/2. The event has probability a^L in the first world and b^L in
the second world. Let q be the probability that a bag is released. Then δ(ε) >= q (a^L - e^ε b^L). For r = 1 and q = 1
this is the exact δ(ε), if positive.

*One user's messages*, read together, show what she adds to each released count: 0 or 1, plus one share of noise. A
share is the difference of two independent variables. The probabilities f of one such variable have f(k+1)/f(k) = t
(1/h+k)/(k+1) >= t/h. So neighbouring values of a share have a probability ratio within e^(±(1/σ + ln h)). The pure ε of
the messages is L (1/σ + ln h).
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon, check_positive_epsilon, check_range
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.randomized_response import outward
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

Holder = Literal["curator", "shares"]
"""Who adds the noise: a curator who holds all labels, or the users, each of whom adds a share of the noise."""
LEAST_SCALE, LARGEST_SCALE = 1e-3, 1e6
PUBLIC_BAGS = Condition("public-bags", "bags depend on no label, and each bag's counts are released once")
EXACT_NOISE = Condition(
    "exact-geometric",
    "the two-sided geometric noise, or each share of it, is drawn exactly: what a random generator gives away is not "
    "counted",
)
CURATED = (Condition("trusted-curator", "a trusted curator holds all labels"), PUBLIC_BAGS, EXACT_NOISE)
FEW_COLLUDERS = Condition(
    "few-colluders",
    "at most `colluders` users of a bag pool what they see with the learner; helpers, who add up shares, count too",
)
ONE_LIST = Condition(
    "one-list-of-senders",
    "all follow the protocol: the helpers of a bag agree on one list of at least n - `leavers` senders, add up the "
    "shares of exactly these, and send one sum each",
)
SECRET_CHANNELS = Condition("secret-channels", "only the helper of a share can read the share on its way")
LABEL_FREE_LEAVING = Condition("leaving-independent-of-labels", "who leaves depends on no label")
SHARED = (FEW_COLLUDERS, ONE_LIST, SECRET_CHANNELS, LABEL_FREE_LEAVING, PUBLIC_BAGS, EXACT_NOISE)
_TERMS = 100_000
"""Largest number of terms of the sum in `zero_probability`."""
_MARGIN = 1e-12
"""Relative margin for rounding."""


class MovedCountTails(NamedTuple):
    """Probabilities that a noisy count is at least the larger of the two values that the true count can have.

    own: a, the probability if the true count is the larger value. opposite: b, the probability if it is the smaller
    value.
    """

    own: float
    opposite: float


def moved_counts(num_classes: int) -> int:
    """L, the number of released counts that a changed label moves by one: 1 for two classes, else 2."""
    if num_classes < 2:
        raise ValueError(f"num_classes = {num_classes}: must be at least 2")
    return 1 if num_classes == 2 else 2


def counts_epsilon(noise_scale: float, num_classes: int) -> float:
    """The pure ε = L/σ, rounded up, of a bag's class counts with two-sided geometric noise of scale σ on each count.

    L is the number of counts that a changed label moves by one: 1 for two classes, else 2.

    >>> round(counts_epsilon(4.0, 10), 12)
    0.5

    Args:
        noise_scale: σ, above 0. num_classes: K, at least 2.
    """
    return math.nextafter(moved_counts(num_classes) / noise_scale, math.inf)


def counts_scale(epsilon: float, num_classes: int) -> float:
    """The smallest scale σ of two-sided geometric noise with which a bag's class counts are ε-private: L/ε, rounded up.

    L is the number of counts that a changed label moves by one: 1 for two classes, else 2.

    Args:
        epsilon: ε, above 0 and finite. num_classes: K, at least 2.
    """
    check_positive_epsilon(epsilon)
    scale = moved_counts(num_classes) / epsilon
    while counts_epsilon(scale, num_classes) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def messages_epsilon(noise_scale: float, num_classes: int, honest: int) -> float:
    """The pure ε of all messages of one user: L (1/σ + ln h), rounded up. Every user adds noise shares to her counts.

    L is the number of counts that a changed label moves: 1 for two classes, else 2.

    Args:
        noise_scale: σ, the scale of the noise of a sum. num_classes: K. honest: h, at least 1, the number of users'
        shares that together make up noise of scale σ.
    """
    return moved_counts(num_classes) * (1.0 / noise_scale + math.log(honest)) * (1.0 + _MARGIN)


@dataclass(frozen=True)
class NoisyCounts(Accountant):
    """Privacy of one user's label against whoever sees her bag's noisy counts.

    Args:
        num_classes: K, at least 2.
        noise_scale: σ, 0.001 to 1,000,000, the scale of the two-sided geometric noise that is added in any case.
        holder: who adds the noise, a "curator" or the users by "shares". The conditions of the bounds depend on it.
        surplus: r >= 1. The number of noise shares is at most r times the number that is added in any case.
        released: q in [0, 1], the probability that the target is counted and the bag's counts are released.
    """

    requires = ANYWHERE

    num_classes: int
    noise_scale: float
    holder: Holder = "curator"
    surplus: float = 1.0
    released: float = 1.0

    def __post_init__(self) -> None:
        moved_counts(self.num_classes)
        check_range("noise_scale", self.noise_scale, LEAST_SCALE, LARGEST_SCALE)
        if not 1.0 <= self.surplus < math.inf:
            raise ValueError(f"surplus = {self.surplus}: must be at least 1 and finite")
        check_range("released", self.released, 0.0, 1.0)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the bounds, for a curator's noise or for the users' shares of noise."""
        return CURATED if self.holder == "curator" else SHARED

    @property
    def pure_epsilon(self) -> float:
        """The pure ε of the noisy counts: L/σ, rounded up, for noise of scale σ on each count.

        L is the number of counts that a changed label moves by one: 1 for two classes, else 2.
        """
        return counts_epsilon(self.noise_scale, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), ε at least 0. If `surplus` and `released` are 1, the bounds differ by rounding alone.

        The upper bound is for the noise that is added in any case. The lower bound is for `surplus` times as many
        shares of noise and a release with probability `released`.
        """
        check_epsilon(epsilon)
        pure = self.pure_epsilon
        if epsilon >= pure:
            return Bracket(0.0, 0.0)
        upper = -math.expm1(epsilon - pure) * self._most
        # a^L - e^ε b^L, or 0 if this is negative; the form a^L (1 - e^(ε + L ln(b/a))) loses no digits
        moved, tails = moved_counts(self.num_classes), self._tails
        loss = epsilon + moved * math.log(tails.opposite / tails.own) if tails.opposite > 0.0 else -math.inf
        lower = tails.own**moved * -math.expm1(min(loss, 0.0))
        return outward(min(self.released * lower * (1.0 - _MARGIN), upper), upper * (1.0 + _MARGIN))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ in (0, 1)."""
        check_delta(delta)
        # ε(δ) = L/σ + ln(1 - δ (1+t)^L), rounded up, for the noise that is added in any case
        rest = 1.0 - delta / self._most * (1.0 - _MARGIN)
        exact = (self.pure_epsilon + math.log(rest)) * (1.0 + _MARGIN) + 1e-15 if rest > 0.0 else 0.0
        upper = min(max(0.0, exact), self.pure_epsilon)
        exact_noise = self.surplus == 1.0 and self.released == 1.0
        return PrivacyBound(
            min(self._lower(delta), upper),
            upper,
            delta,
            observer="learner",
            adjacency="label",
            basis="exact: two-sided geometric noise" if exact_noise else "two-sided geometric noise, or more of it",
            conditions=self.conditions,
        )

    @property
    def _most(self) -> float:
        """The probability (1+t)^-L of the largest privacy loss, rounded up; t = e^(-1/σ) for noise of scale σ.

        L is the number of counts that a changed label moves: 1 for two classes, else 2.
        """
        t = math.exp(-1.0 / self.noise_scale)
        return float((1.0 + t) ** -moved_counts(self.num_classes)) * (1.0 + _MARGIN)

    @property
    def _tails(self) -> MovedCountTails:
        """The probability a that the noise on one count is at least 0, and the probability b that it is above 0.

        The noise has `surplus` times the shares that are added in any case. If `surplus` is above 1, a is rounded down
        and b up.
        """
        if self.surplus == 1.0:
            t = math.exp(-1.0 / self.noise_scale)
            return MovedCountTails(1.0 / (1.0 + t), t / (1.0 + t))
        zero = zero_probability(self.noise_scale, self.surplus)
        return MovedCountTails((1.0 + zero) / 2.0, (1.0 - zero) / 2.0)

    def _lower(self, delta: float) -> float:
        """A lower bound of ε at δ: the ε at which q (a^L - e^ε b^L) falls to δ, or 0 if there is no such ε.

        The bag is released with probability q = `released`. A changed label moves L counts. `_tails` gives a and b.
        """
        moved, tails = moved_counts(self.num_classes), self._tails
        if self.released == 0.0 or tails.opposite == 0.0:
            return 0.0
        rest = tails.own**moved - delta / self.released
        attained = math.log(rest) - moved * math.log(tails.opposite) if rest > 0.0 else 0.0
        return max(0.0, attained - _MARGIN * (1.0 + abs(attained)))


def zero_probability(noise_scale: float, surplus: float = 1.0) -> float:
    """A lower bound of Pr[Z = 0], where Z is the noise on a count.

    With `surplus` 1, Z is two-sided geometric noise of this scale, and the probability is (1-t)/(1+t) with
    t = e^(-1/scale). A larger `surplus` multiplies the number of noise shares. In general Z is the difference of two
    independent negative binomial variables with equal laws. So Pr[Z = 0] is the sum of their squared probabilities. The
    first terms of this sum are a lower bound.

    >>> round(zero_probability(1.0), 6) == round(zero_probability(1.0, 1.0 + 1e-12), 6)
    True
    """
    success = -math.expm1(-1.0 / noise_scale)  # 1 - t
    if surplus == 1.0:
        return success / (2.0 - success) * (1.0 - _MARGIN)
    # logarithms of the negative binomial probabilities p(k), from the ratio p(k+1)/p(k) = t (r+k)/(k+1)
    k = np.arange(min(_TERMS, int(50.0 * surplus * noise_scale) + 100))
    steps = np.log((surplus + k) / (k + 1.0)) - 1.0 / noise_scale
    logs = surplus * math.log(success) + np.concatenate([[0.0], np.cumsum(steps)])
    return float(np.exp(2.0 * logs).sum()) * (1.0 - 1e-9)
