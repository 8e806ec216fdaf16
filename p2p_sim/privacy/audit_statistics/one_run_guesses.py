"""Lower bounds of ε and δ that guesses in one run prove. Each target's label must be a fair coin.

A *target* is a user whose label an attacker guesses. A *view* is all that the attacker sees of a cluster. A *stake* is
the weight λ of a guess in a test. The stake is fixed beforehand.

**One target per cluster.** Let a target's label be private with δ(ε). Let the guess depend on the label only through
the view of the target's cluster. For b = 0 and b = 1, let G_b be the event that b is guessed, and P_b the law of the
view if the label is b. Then

    Pr[right] - e^ε Pr[wrong] = (P_0(G_0) - e^ε P_1(G_0))/2 + (P_1(G_1) - e^ε P_0(G_1))/2 <= δ(ε).

If ε = 0 and every target is guessed, this says Pr[right] <= (1 + δ(0))/2. So the number of right guesses is tested as a
binomial variable.

For ε > 0, write δ for δ(ε). Let s = 1 for a right guess, s = -e^ε for a wrong guess, and s = 0 without a guess. Fix a
stake λ in (0, 1/(e^ε + δ)) beforehand. Let E be the product of 1 + λ(s - δ) over the targets. Its factors are positive
and have expectation <= 1. So E has expectation <= 1, and Pr[E >= 1/error] <= error (Markov).

**Targets may differ.** If target i has δᵢ(ε), both tests hold for the average δ of all δᵢ. The expectation of E is at
most Π(1 + λ(δᵢ - δ)). The factors of this product are not negative, and their average is 1. So the product is at most 1
(a geometric mean is at most the arithmetic mean). For the binomial test see Hoeffding 1956, Theorem 5. Both tests prove
a lower bound of the average of δᵢ(ε).

**Several targets in one view.** The guesses prove something about the whole trade-off curve of a single label.

The labels of m targets are independent fair coins that the attacker does not know. She guesses c' of these labels. The
number c' is fixed beforehand. She may choose which labels to guess after she has seen the view (Mahloujifar, Melis and
Chaudhuri 2025; the proof below is our own).

**The claim.** Let each label be private with a symmetric trade-off curve f. This means the following. Fix all other
users' labels, and take a test of label 0 against label 1. Let y be the probability that the test is right about one of
the two labels. Then the test is wrong about the other label with probability at least g(y) = f(1-y).

Let W be the number of right guesses, and q_i = Pr[W >= i]. Write E[X; A] for the expectation of X times the indicator
of A (here E is not the product above). The claim is:

    r_i = E[W; W >= i]/m,   h_i = E[c' - W; W >= i]/m.   Then h_(i-1) >= g(r_i).

*Proof.* Draw a target j, uniform among the m, and fix the others' labels. Let b be 0 or 1. Let A_b be the event that j
is guessed as b and at least i-1 of the others are guessed right. Let P_b be the law if j's label is b. Take the test of
j's label that says b if A_b occurs. The test is right about b with probability P_b(A_b). It is wrong about 1-b with
probability P_(1-b)(A_b). So P_(1-b)(A_b) >= g(P_b(A_b)).

Average both sides over b, j and the others' labels. Since g is convex, the average of P_(1-b)(A_b) is at least g of the
average of P_b(A_b). The average of P_b(A_b) is the probability that j is guessed right and W >= i. This is r_i. The
average of P_(1-b)(A_b) is the probability that j is guessed wrong and W >= i-1. This is h_(i-1). ∎

**The test.** Summation by parts gives m r_i = i q_i + Σ_(l>i) q_l and m h_i = (c'-i) q_i - Σ_(l>i) q_l. So

    q_(i-1) >= (m g(r_i) + Σ_(l>=i) q_l)/(c' - i + 1)   and   q_(i-1) >= q_i.

Let c be the observed number of right guesses. Start from q_c = error, and q_l = 0 for all l > c. Compute q_(c-1) to q_0
by this recursion, with the larger right-hand side as q_(i-1). Suppose that the label is private with the curve f, and
that Pr[W >= c] is at least the error. Then Pr[W >= i] is at least the computed q_i for all i < c. This follows by
induction, since r_i and the right-hand sides grow with every q.

No probability exceeds 1. So if a computed q_i exceeds 1, Pr[W >= c] is below the error, or the label is not private
with f. The test then refuses the curve. If it refuses at some c, it also refuses at every larger c. Let c* be the least
c at which it refuses. If the label is private with f, the test refuses f with probability Pr[W >= c*], which is below
the error.

A curve may be given by pairs (ε, δ). Then g(y) is the largest of 0, e^-ε (y - δ) and 1 - δ - e^ε (1 - y) over all
pairs.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.audit_statistics.power import clopper_pearson

_ALMOST = 1.0 - 1e-9
"""Largest stake, as a share of 1/(e^ε + δ). Every stake must lie below 1/(e^ε + δ)."""


@dataclass(frozen=True)
class Guesses:
    """How many of `trials` targets an attacker guessed right and wrong. She abstained from the other targets."""

    right: int
    wrong: int
    trials: int

    def __post_init__(self) -> None:
        if min(self.right, self.wrong) < 0 or not 0 < self.trials >= self.right + self.wrong:
            raise ValueError(f"{self.right} right and {self.wrong} wrong guesses of {self.trials} targets: impossible")

    def log_e(self, epsilon: float, delta: float, stake: float) -> float:
        """ln E, the log evidence of these guesses against the claim that each target's label is (ε, δ)-private.

        If the claim is true, E has expectation at most 1. So E >= 1/p has probability at most p, and refutes the claim
        at level p. E is the product of 1 + λ(s - δ) over the targets. s is 1 for a right guess, -e^ε for a wrong guess,
        and 0 without a guess.

        Args:
            epsilon, delta: the claim. stake: λ > 0, the weight of one target, fixed before the guesses. A larger stake
            gains more by a right guess and loses more by a wrong guess. If λ is at least 1/(e^ε + δ), the result is
            minus infinity.
        """
        if stake * (math.exp(epsilon) + delta) >= 1.0:
            return -math.inf
        counts = np.array([self.right, self.wrong, self.trials - self.right - self.wrong])
        return float(counts @ log_factors(epsilon, delta, stake))


def log_factors(epsilon: float, delta: float, stake: float) -> NDArray[np.float64]:
    """The numbers ln(1 + λ(s - δ)) for s = 1, -e^ε and 0, (3,).

    One target adds one of these numbers to ln E (see `Guesses.log_e`): for a right guess, for a wrong guess, or without
    a guess. stake: λ in (0, 1/(e^ε + δ)), the weight of one target in the test.
    """
    return np.log1p(stake * (np.array([1.0, -math.exp(epsilon), 0.0]) - delta))


def delta_lower(guesses: Guesses, epsilon: float, stake: float | None, error: float) -> float:
    """Lower bound of the mechanism's δ(ε) that guesses prove; the bound is too high with probability at most `error`.
    The bound is 0 if the guesses prove nothing.

    Args:
        guesses: how many were right and wrong, by a guessing rule that was fixed beforehand. epsilon: ε, at least 0.
        stake: λ of `Guesses.log_e`, fixed beforehand, in (0, 1/(e^ε + 1)). None: a binomial test of the number of right
        guesses, for ε = 0 and a guess of every target.

    >>> round(delta_lower(Guesses(6_000, 4_000, 10_000), 0.0, None, 1e-9), 3)  # Pr[right] - Pr[wrong] is 0.2
    0.141
    """
    if stake is None:
        if epsilon != 0.0 or guesses.right + guesses.wrong != guesses.trials:
            raise ValueError("without a stake, ε must be 0 and every target must be guessed")
        return max(0.0, 2.0 * clopper_pearson(guesses.right, guesses.trials, error).lower - 1.0)
    return _largest(lambda delta: guesses.log_e(epsilon, delta, stake) >= -math.log(error), 1.0)


def epsilon_lower(guesses: Guesses, delta: float, stake: float, error: float) -> float:
    """Lower bound of the mechanism's ε at δ that guesses prove; the bound is too high with probability at most `error`.
    Every smaller ε is refuted. The bound is 0 if the guesses prove nothing.

    Args:
        guesses: how many were right and wrong, by a rule that was fixed before the run. delta: δ in [0, 1). stake: λ in
        (0, 1/2), the weight of one target. It is also fixed before the run: choosing it after the guesses would void
        the error probability. Claims with e^ε + δ >= 1/λ cannot be refuted.
    """
    most = math.log(max(1.0, 1.0 / stake - delta))
    return _largest(lambda epsilon: guesses.log_e(epsilon, delta, stake) >= -math.log(error), most)


def best_stake(right: float, wrong: float, trials: int, error: float, epsilon: float) -> float:
    """The stake λ for `delta_lower` that should prove the largest lower bound of δ(ε).

    The stake maximises the expectation of `Guesses.log_e` at the largest δ that should be refused (Kelly's stake). The
    result is positive even if no bound above 0 can be expected.

    Args:
        right, wrong: expected probabilities of a right and of a wrong guess. trials: number of targets. error:
        probability that the test refuses a true claim. epsilon: ε at which δ is tested.
    """
    needed = -math.log(error) / trials
    claim = _largest(lambda delta: _growth(right, wrong, epsilon, delta).rate >= needed, 1.0)
    return min(_growth(right, wrong, epsilon, claim).stake, _ALMOST / (math.exp(epsilon) + 1.0))


class EpsilonStake(NamedTuple):
    """The best stake of a test of ε at a δ. epsilon: the lower bound of ε that should be proved. stake: λ."""

    epsilon: float
    stake: float


def best_epsilon_stake(right: float, wrong: float, trials: int, error: float, delta: float) -> EpsilonStake:
    """The stake λ > 0 that should prove the largest lower bound of ε at `delta`, with this bound, from 0 to 50.

    Args:
        right, wrong: expected probabilities of a right and of a wrong guess. trials: number of targets. error:
        probability that the test refuses a true claim.
    """
    needed = -math.log(error) / trials
    epsilon = _largest(lambda claim: _growth(right, wrong, claim, delta).rate >= needed, 50.0)
    return EpsilonStake(epsilon, max(min(_growth(right, wrong, epsilon, delta).stake, 0.5 * _ALMOST), 1e-12))


class Growth(NamedTuple):
    """The best stake against a claim, and how fast the evidence E then grows.

    stake: the λ at which one target adds the largest expected amount to ln E. rate: this amount.
    """

    stake: float
    rate: float


def _growth(right: float, wrong: float, epsilon: float, delta: float) -> Growth:
    """The best stake λ against the claim (ε, δ), and the expected growth of ln E for one target (see `Guesses.log_e`).

    If no stake gains, the stake is 1e-12.

    Args:
        right, wrong: probabilities of a right and of a wrong guess; otherwise there is no guess. epsilon, delta: the
        claim.
    """
    loss, silent = math.exp(epsilon) + delta, max(0.0, 1.0 - right - wrong)

    # The derivative of the expected growth with respect to the stake. The derivative falls, and is 0 at the best stake.
    def slope(stake: float) -> float:
        gained = right * (1.0 - delta) / (1.0 + stake * (1.0 - delta))
        return gained - silent * delta / (1.0 - stake * delta) - wrong * loss / (1.0 - stake * loss)

    stake = _largest(lambda stake: slope(stake) > 0.0, _ALMOST / loss)
    parts = (right * math.log1p(stake * (1.0 - delta)), silent * math.log1p(-stake * delta))
    return Growth(max(stake, 1e-12), sum(parts) + wrong * math.log1p(-stake * loss))


def binomial_power(claimed: float, true: float, trials: int, error: float) -> float:
    """The probability that a binomial test refuses a claimed δ(0), if the attacker guesses every target's label.

    Under the claim, a guess is right with probability at most (1 + δ(0))/2. Too many right guesses refute the claim.

    Args:
        claimed: the claimed δ(0). true: Pr[right] - Pr[wrong] of the attack. trials: number of targets. error: largest
        probability that the test refuses a true claim.
    """
    from scipy.special import bdtrc

    p = 0.5 * (1.0 + claimed)
    # The smallest number of right guesses that refuses the claim: its binomial tail is at most the error.
    fewest = 1 + bisect_left(range(1, trials + 1), True, key=lambda right: bool(bdtrc(right - 1, trials, p) <= error))
    return 0.0 if fewest > trials else float(bdtrc(fewest - 1, trials, 0.5 * (1.0 + true)))


def smallest_refused(refused: Callable[[float], bool], low: float, high: float) -> float | None:
    """The smallest x in [low, high] from which on `refused` is true, to a millionth of the range. None: `refused` is
    false at `high`.

    `refused` must not become false again as x grows.
    """
    if not refused(high):
        return None
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if refused(middle) else (middle, high)
    return high


def right_and_wrong(
    guessed_one: NDArray[np.bool_], guessed_zero: NDArray[np.bool_], labels: NDArray[np.bool_]
) -> Guesses:
    """How many of n labels were guessed right and wrong.

    guessed_one, guessed_zero: (n,) whether 1, or 0, was guessed; both are false if no label was guessed.
    labels: (n,) whether the label is 1.
    """
    right = np.count_nonzero(guessed_one & labels) + np.count_nonzero(guessed_zero & ~labels)
    wrong = np.count_nonzero(guessed_one & ~labels) + np.count_nonzero(guessed_zero & labels)
    return Guesses(int(right), int(wrong), labels.size)


def _largest(true: Callable[[float], bool], most: float, halvings: int = 60) -> float:
    """The largest x in [0, most] up to which `true` holds, found by bisection; 0 if `true` does not hold at 0.

    The result is never too large. It is too small by at most `most` · 2^-halvings.
    """
    if not true(0.0):
        return 0.0
    if true(most):
        return most
    low, high = 0.0, most
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if true(middle) else (low, middle)
    return low


Curve = Callable[[float], float]
"""Trade-off curve g(y). A test that is right about one label with probability y is wrong about the other label with
probability at least g(y)."""
LARGEST_MU, LARGEST_EPSILON = 50.0, 50.0
"""Largest μ and ε that are searched."""
_HALVINGS = 26
"""Number of halvings of [0, 50] after which the interval is shorter than 1e-6. A proved μ or ε is rounded down to a
multiple of 1e-6."""
_ROUNDING = 1e-15
"""Amount by which 1 - δ is lowered to allow for its rounding."""


def curve_of(epsilons: Sequence[float], deltas: Sequence[float]) -> Curve:
    """The trade-off curve g(y) that a mechanism guarantees if it is (ε, δ)-private at each of the given pairs.

    The type `Curve` explains g.
    """
    spent = np.asarray(deltas, dtype=np.float64)
    powers, rest = np.exp(np.asarray(epsilons)), 1.0 - spent - _ROUNDING

    def wrong(right: float) -> float:
        return max(0.0, float(((right - spent) / powers).max()), float((rest - powers * (1.0 - right)).max()))

    return wrong


def gaussian_curve(mu: float) -> Curve:
    """The trade-off curve g(y) = Φ(Φ⁻¹(y) - μ) of a Gaussian mechanism. The mean outputs for the two labels lie μ
    standard deviations apart. `Curve` says what g means.
    """
    from scipy.special import ndtr, ndtri

    def wrong(right: float) -> float:
        return float(ndtr(ndtri(right) - mu)) if 0.0 < right < 1.0 else max(0.0, min(1.0, right))

    return wrong


def refuses(targets: int, guesses: Guesses, curve: Curve, error: float) -> bool:
    """Whether guesses refute the claim that each label is private with this trade-off curve.

    All targets' labels are guessed from one output of the mechanism. A true claim is refuted with probability below
    `error`.

    Args:
        targets: m, the number of labels: independent fair coins that the attacker does not know. guesses: how many of
        the m were guessed right and wrong. The attacker may choose which labels to guess, but the number of guesses was
        fixed before the run. curve: the claimed trade-off curve g(y), see `Curve`. error: in (0, 1).

    >>> refuses(1000, Guesses(75, 25, 1000), curve_of([0.68], [1e-4]), 0.05)
    True
    >>> refuses(1000, Guesses(75, 25, 1000), curve_of([0.69], [1e-4]), 0.05)
    False
    """
    guessed = guesses.right + guesses.wrong
    # From q_c = error down to q_0: `at_least` is q_i, `above` is Σ_(l>i) q_l, and `right` is r_i.
    at_least, above = error, 0.0
    for i in range(guesses.right, 0, -1):
        right = (i * at_least + above) / targets
        above += at_least
        at_least = max(at_least, (targets * curve(right) + above) / (guessed - i + 1))
        if at_least > 1.0 + 1e-9:
            return True
    return False


def proved_epsilon(targets: int, guesses: Guesses, delta: float, error: float) -> float:
    """Lower bound of ε at `delta` that guesses prove, rounded down to a millionth; 0 if they prove nothing.

    All targets' labels are guessed from one output of the mechanism. Every claim (ε, δ) with a smaller ε is refuted.

    Args:
        targets: number of labels. guesses: how many of the labels were guessed right and wrong; the number of guesses
        was fixed before the run. error: largest probability that a true claim is refuted.
    """
    most = _largest(lambda e: refuses(targets, guesses, curve_of([e], [delta]), error), LARGEST_EPSILON, _HALVINGS)
    return math.floor(most * 1e6) / 1e6


def proved_mu(targets: int, guesses: Guesses, error: float) -> float:
    """Lower bound of the μ of Gaussian differential privacy that guesses prove, rounded down to a millionth; 0 if they
    prove nothing.

    All targets' labels are guessed from one output of the mechanism. Every claim with a smaller μ is refuted.

    Args:
        targets: number of labels. guesses: how many of the labels were guessed right and wrong; the number of guesses
        was fixed before the run. error: largest probability that a true claim is refuted.
    """
    most = _largest(lambda mu: refuses(targets, guesses, gaussian_curve(mu), error), LARGEST_MU, _HALVINGS)
    return math.floor(most * 1e6) / 1e6
