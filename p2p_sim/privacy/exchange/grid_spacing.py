"""How far apart the values of X may be at which a sum over X is evaluated, and what that misses.

Let X be the noisy ones among N others and E an event of the learner's view given t submissions, so that its probability
is Σ_x f(x), f(x) = Pr[X = x and E]. Summing h f(x) over multiples x of h only is off by Σ φ(2πj/h), j = 1..h-1, where
φ(w) = E[e^(iwX); E]: the sum over j = 0..h-1 of e^(2πijx/h) is h at the multiples of h and 0 elsewhere.

Given who was fetched, E depends on the noisy bits of those users alone. Each of the others is not fetched with
probability q = (1-1/S)^t, and a user who is not fetched multiplies φ by 1-α + αe^(iw) or α + (1-α)e^(iw), of modulus
r = √(1 - 4α(1-α) sin²(w/2)). Hence |φ| <= E[r^U], U being how many are not fetched. r^U is the probability that all
members of a random set, which holds each user with probability 1-r, are fetched. A set of j users is fetched with
probability at most (1-q)^j: if a further user is not fetched, each submission falls on the set with the larger
probability j/(S-1), so the set is fetched no less often; therefore it is fetched no more often together with her than
independently of her. So E[r^U] <= (1 - (1-r)q)^N <= exp(-N q (1-r)), and 1-r >= 2α(1-α) sin²(w/2). The largest of the
h-1 terms has w = 2π/h.
"""

import math

from p2p_sim.privacy.exchange.other_users import OtherUsers

_BELOW = 16.0
"""By so much the logarithm of what is skipped lies below that of a truncation."""


def spacing(world: OtherUsers, submissions: int, log_tail: float) -> int:
    """The largest h, at least 1, up to rounding, at which exp(log_tail - 16) at most is skipped.

    Args:
        world: who is unknown. submissions: the largest t. log_tail: logarithm of a truncation; -inf gives 1.
    """
    scale = _scale(world, submissions)
    step = 1
    if math.isinf(log_tail) or scale <= 0.0:
        return step
    larger = math.pi * math.sqrt(scale / (_BELOW - log_tail))
    for _ in range(3):  # larger steps need more
        budget = _BELOW - log_tail + math.log(max(larger, 1.0))
        larger = math.pi / math.asin(math.sqrt(budget / scale)) if budget < scale else 1.0
    step = max(1, int(larger))
    while step > 1 and skipped(world, submissions, step) > math.exp(log_tail - _BELOW):
        step -= 1
    return step


def skipped(world: OtherUsers, submissions: int, step: int) -> float:
    """By how much, at most, the probability of any event of t <= `submissions` labels is off at this step."""
    if step == 1:
        return 0.0
    exponent = _scale(world, submissions) * math.sin(math.pi / step) ** 2
    return math.exp(math.log(step - 1.0) - exponent * (1.0 - 1e-9)) * (1.0 + 1e-9)


def _scale(world: OtherUsers, submissions: int) -> float:
    """2 N q α (1-α)."""
    if world.sources == 1:
        return 0.0
    fetched_not = math.exp(submissions * math.log1p(-1.0 / world.sources))
    return 2.0 * (world.zeros + world.ones) * fetched_not * world.flip_prob * (1.0 - world.flip_prob)
