"""Accountant of PATE under label adjacency: noisy votes of teachers on disjoint data, with a test before each answer.

A teacher is a model; in each query, every teacher votes for a class. Each user's label is in the data of only one
teacher. So a changed label changes at most one vote in each query.

- *Test.* The largest number of votes, plus noise N(0, σ₁²), is compared with a threshold. One changed vote moves the
  largest number by at most 1.
- *Answer.* If the test is passed, noise N(0, σ₂²) is added to the number of votes of each class. The class with the
  largest noisy number is released. A changed vote moves the numbers of votes by √2 in Euclidean norm.

There are at most Q tests and A answers. Each query may depend on all results so far.

**All results together are μ-Gaussian private, μ² = Q/σ₁² + 2A/σ₂².**

*Proof.* Draw Q numbers of a first kind and A of a second kind, all independent and of variance 1. In one world their
mean is 0. In the other world the mean is 1/σ₁ for the first kind and √2/σ₂ for the second kind. All results can be made
from these numbers, used in order:

- A test uses the next number of the first kind. From the first world to the second, the largest number of votes moves
  by t, |t| ≤ 1. Multiply the drawn number by tσ₁. Add the largest number of votes in the first world, and noise of
  variance σ₁²(1 - t²).
- An answer uses the next number of the second kind in the same way, along the line on which the votes move. Fresh noise
  is added across the line.

The two worlds and the results so far determine t and the line. So all results are a post-processing of Q + A Gaussian
numbers. The distance between the vectors of their means in the two worlds is μ. ∎

For these Gaussian numbers δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Dong, Roth and Su 2022, Corollary 2.13). PATE
releases only the classes of the answers, so this δ(ε) is an upper bound. It does not depend on the votes. An ε that
depends on the votes ("data-dependent") may be much smaller. But it is computed from labels, and must not be published
itself. None is stated here.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, check_delta, check_epsilon, check_positive_epsilon, check_range
from p2p_sim.privacy.conditions import REAL_NOISE, Condition
from p2p_sim.privacy.exchange import smallest_of_three_digits
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
"""Range of the noise of an answer, in votes."""
MOST_QUERIES = 1_000_000
_ROUNDING = 1e-12
"""Upper bound of the relative error of each of the two terms of δ(ε)."""


@dataclass(frozen=True)
class Pate(Accountant):
    """Accountant of answers to at most A of Q queries by noisy votes of teachers; the learner also sees all tests.

    Args:
        answer_noise: σ₂, 0.01 to 1e9, the standard deviation of the noise on each class's votes, in votes.
        test_noise: σ₁, 0.01 to 1e12, the standard deviation of the noise of a test, in votes.
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
        check_range("answer_noise", self.answer_noise, SMALLEST_NOISE, LARGEST_NOISE)
        check_range("test_noise", self.test_noise, SMALLEST_NOISE, 1e3 * LARGEST_NOISE)
        check_numbers(self.answers, self.queries)

    @property
    def mu(self) -> float:
        """μ = sqrt(Q/σ₁² + 2A/σ₂²), for Q queries with one noisy test each (σ₁) and A answers by noisy votes (σ₂).

        All results together are as private as one Gaussian number of variance 1 with a mean that moves by μ if a label
        changes.
        """
        return math.sqrt(self.queries / self.test_noise**2 + 2.0 * self.answers / self.answer_noise**2)

    def delta(self, epsilon: float) -> Bracket:
        """Upper bound of δ(ε) of all results together, ε at least 0. The lower bound is 0."""
        check_epsilon(epsilon)
        import scipy

        # the two terms are computed from their logarithms, because e^ε may overflow; μ is rounded up
        log_ndtr, mu = scipy.special.log_ndtr, self.mu * (1.0 + 1e-14)
        first = math.exp(float(log_ndtr(mu / 2.0 - epsilon / mu)))
        second = math.exp(min(0.0, epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu))))
        return Bracket(0.0, min(1.0, max(0.0, first * (1.0 + _ROUNDING) - second * (1.0 - _ROUNDING))))


@lru_cache(maxsize=128)
def calibrate_votes(epsilon: float, delta: float, test_noise: float, answers: int, queries: int) -> float:
    """The smallest standard deviation of an answer's noise with which the answers of `Pate` are certified for (ε, δ),
    in votes and with three significant digits. The search multiplies the least noise that `Pate` allows by 4 until the
    noise suffices. The result may also be the noise reached then.

    Args:
        epsilon: the target ε, above 0. delta: the target δ in (0, 1). test_noise: the standard deviation of a test's
        noise, above 0, as a multiple of the answer's. answers: A, how many queries are answered at most. queries: Q,
        how many queries are tested, 1 to 1,000,000 and at least A.

    Raises:
        ValueError: a value is out of its range, or 1e9 votes do not suffice.
    """
    check_delta(delta)
    check_positive_epsilon(epsilon)
    check_numbers(answers, queries)

    def certified(sigma: float) -> bool:
        return Pate(sigma, test_noise * sigma, answers, queries).epsilon(delta).epsilon_upper <= epsilon

    # upwards from the least noise that `Pate` allows for an answer and for a test, to one that is enough
    low = max(SMALLEST_NOISE, SMALLEST_NOISE / test_noise)
    high = low
    while not certified(high):
        if high >= LARGEST_NOISE:
            raise ValueError(f"epsilon = {epsilon}: needs noise of more than {LARGEST_NOISE:g} votes")
        low, high = high, min(4.0 * high, LARGEST_NOISE)
    return high if low == high else smallest_of_three_digits(certified, low, high)


def check_numbers(answers: int, queries: int) -> None:
    """Raise ValueError unless the numbers of answers A and of queries Q obey 1 <= A <= Q <= 1,000,000."""
    if not 1 <= queries <= MOST_QUERIES:
        raise ValueError(f"queries = {queries}: must lie in 1..{MOST_QUERIES:,}")
    if not 1 <= answers <= queries:
        raise ValueError(f"answers = {answers}: must lie in 1..{queries}, the number of queries")
