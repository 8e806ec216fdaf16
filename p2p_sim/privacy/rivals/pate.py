"""PATE under label adjacency: noisy votes of teachers who share no label, with a threshold test before each answer.

Each user's label is in the shard of one teacher, so that another label changes at most one vote of each query.

- *Test.* The largest number of votes, plus N(0, σ₁²), is compared with a threshold. One changed vote moves the largest
  number by at most 1.
- *Answer.* Where the test is passed, N(0, σ₂²) is added to the number of votes of each class, and the class with the
  most is released. A changed vote leaves one class and joins another: the votes move by √2 in Euclidean norm.

There are at most Q tests and A answers; what is asked next may depend on all results so far.

**All together are μ-Gaussian private, μ² = Q/σ₁² + 2A/σ₂².** *Proof.* Draw Q numbers of variance 1 and A others, all
independent, in one world with mean 0, in the other with means 1/σ₁ and √2/σ₂. A test in which the number moves by t,
|t| ≤ 1, is made of the next number of the first kind: multiply it by tσ₁, add the number of the first world, and add
noise of variance σ₁²(1 - t²). An answer is made of the next number of the second kind in the same way, along the line
on which the votes move, with fresh noise across it. What is known of both worlds and of the results so far decides on t
and on the line, whatever is asked next; the drawn numbers are used up in order, and the rest are thrown away. So all
results are made of Q + A Gaussian numbers, whose two laws have distance μ. ∎

δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Dong, Roth and Su 2022, Corollary 2.13). Only the answers' classes are
released, so that this is an upper bound. It does not depend on the votes. An ε that does ("data-dependent") may be much
smaller, but is computed from labels: it is private itself, and is not stated here.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, check_delta, check_epsilon, check_positive_epsilon
from p2p_sim.privacy.conditions import REAL_NOISE, Condition
from p2p_sim.privacy.exchange.calibration import smallest_of_three_digits
from p2p_sim.privacy.rivals.dp_sgd import LABEL_FREE_CHOICES
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

PATE_CONDITIONS = (
    Condition("trusted-curator-votes", "a trusted curator holds the labels, trains the teachers and adds the noise"),
    Condition(
        "disjoint-shards", "every label is in the shard of one teacher; shards and queries do not depend on labels"
    ),
    LABEL_FREE_CHOICES,
    REAL_NOISE,
)
SMALLEST_NOISE, LARGEST_NOISE = 0.01, 1e9
"""Of an answer, in votes."""
MOST_QUERIES = 1_000_000
_ROUNDING = 1e-12
"""Relative error of each of the two terms of δ(ε), with room to spare."""


@dataclass(frozen=True)
class Pate(Accountant):
    """Answers to at most A of Q queries by noisy votes of teachers; the learner sees the results of all tests, too.

    Args:
        answer_noise: σ₂, 0.01 to 1e9: standard deviation of the noise on each class's votes, in votes.
        test_noise: σ₁, 0.01 to 1e12: standard deviation of the noise of a test, in votes.
        answers: A, 1 to Q.
        queries: Q, 1 to 1,000,000.

    >>> round(Pate(answer_noise=40.0, test_noise=80.0, answers=100, queries=200).epsilon(1e-5).epsilon_upper, 3)
    1.535
    """

    requires = ANYWHERE
    conditions = PATE_CONDITIONS
    basis = "Gaussian tests and answers, one vote changed, composed exactly: data-independent"

    answer_noise: float
    test_noise: float
    answers: int
    queries: int

    def __post_init__(self) -> None:
        for name, value, largest in (
            ("answer_noise", self.answer_noise, LARGEST_NOISE),
            ("test_noise", self.test_noise, 1e3 * LARGEST_NOISE),
        ):
            if not SMALLEST_NOISE <= value <= largest:
                raise ValueError(f"{name} = {value}: must lie in [{SMALLEST_NOISE}, {largest:g}]")
        check_numbers(self.answers, self.queries)

    @property
    def mu(self) -> float:
        """μ of Gaussian differential privacy of all results together."""
        return math.sqrt(self.queries / self.test_noise**2 + 2.0 * self.answers / self.answer_noise**2)

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) of all results together, for ε of at least 0: at most that of the Gaussian mechanism."""
        check_epsilon(epsilon)
        import scipy

        # the two terms by their logarithms, as e^ε alone may be no float; μ is rounded up
        log_ndtr, mu = scipy.special.log_ndtr, self.mu * (1.0 + 1e-14)
        first = math.exp(float(log_ndtr(mu / 2.0 - epsilon / mu)))
        second = math.exp(min(0.0, epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu))))
        return Bracket(0.0, min(1.0, max(0.0, first * (1.0 + _ROUNDING) - second * (1.0 - _ROUNDING))))


@lru_cache(maxsize=128)
def calibrate_votes(epsilon: float, delta: float, test_noise: float, answers: int, queries: int) -> float:
    """The smallest noise of an answer, of three digits and in votes, that is certified for (ε, δ).

    Args:
        epsilon: target ε, above 0. delta: target δ in (0, 1).
        test_noise: noise of a test, in units of that of an answer, above 0. answers, queries: as in `Pate`.

    Raises:
        ValueError: a value out of its range, or no noise up to 1e9 votes suffices.
    """
    check_delta(delta)
    check_positive_epsilon(epsilon)
    check_numbers(answers, queries)

    def certified(sigma: float) -> bool:
        return Pate(sigma, test_noise * sigma, answers, queries).epsilon(delta).epsilon_upper <= epsilon

    # upwards from the least noise that `Pate` takes, of an answer and of a test, to one that is enough
    low = max(SMALLEST_NOISE, SMALLEST_NOISE / test_noise)
    high = low
    while not certified(high):
        low, high = high, high * 4.0
        if high > LARGEST_NOISE:
            raise ValueError(f"epsilon = {epsilon}: needs noise of more than {LARGEST_NOISE:g} votes")
    return high if low == high else smallest_of_three_digits(certified, low, high)


def check_numbers(answers: int, queries: int) -> None:
    """Raise ValueError unless the numbers of answers A and of queries Q obey 1 <= A <= Q <= 1,000,000."""
    if not 1 <= queries <= MOST_QUERIES:
        raise ValueError(f"queries = {queries}: must lie in 1..{MOST_QUERIES:,}")
    if not 1 <= answers <= queries:
        raise ValueError(f"answers = {answers}: must lie in 1..{queries}, the number of queries")
