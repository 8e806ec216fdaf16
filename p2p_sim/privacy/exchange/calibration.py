"""The smallest flip probability that meets a privacy target."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

from p2p_sim.privacy.bound import check_delta, check_positive_epsilon, plain_arguments
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.privacy.randomized_response import Crossing, local_flip_prob


@plain_arguments
def calibrate_flip_prob(
    sizes: Iterable[int], num_classes: int, sampling_rate: float, epsilon: float, delta: float
) -> float:
    """The smallest flip probability α with three significant digits at which the learner's (ε, δ) is certified in every
    cluster.

    Bisection is correct: at fixed ε, the largest δ over data sets does not increase in α. A larger α amounts to further
    flips after the first ones. For the target's bit, further flips are post-processing. For the other users' bits, they
    mix over data sets. The δ of a mixture is at most the largest δ over data sets.

    Every distinct cluster size is evaluated. Besides 0, no α below approximately 1e-6 is tried. If no α that is tried
    is certified, the result is the α at which randomised response alone meets ε, unrounded and however small.

    Args:
        sizes: cluster sizes, each at least 2. num_classes: K. sampling_rate: θ in (0, 1]. epsilon, delta: the target, ε
        above 0 and δ in (0, 1).
    """
    check_delta(delta)
    check_positive_epsilon(epsilon)

    def certified(alpha: float, size: int) -> bool:
        if num_classes > 2:
            return KaryExchange(size, alpha, sampling_rate, num_classes).satisfies(epsilon, delta)
        return LabelExchange(size, alpha, sampling_rate).satisfies(epsilon, delta)

    return smallest_flip_prob(certified, sizes, num_classes, epsilon)


def smallest_flip_prob(
    certified: Callable[[float, int], bool], sizes: Iterable[int], num_classes: int, epsilon: float
) -> float:
    """The smallest α with three significant digits at which a privacy target is certified in every cluster.

    The result is 0 if noise is not needed. If no smaller α is certified, the result is the α at which randomised
    response alone meets ε, unrounded.

    Args:
        certified: whether the target is certified at (α, cluster size); must stay true as α grows. sizes: cluster
        sizes. num_classes: K. epsilon: ε of the target. Randomised response alone meets ε at α = (K-1)/(K-1+e^ε).
    """
    local, flip_prob, distinct = local_flip_prob(epsilon, num_classes), 0.0, sorted({int(size) for size in sizes})
    if not distinct:
        raise ValueError("sizes: at least one cluster size is needed")
    for size in distinct:
        if not certified(flip_prob, size):

            def suffices(alpha: float, n: int = size) -> bool:
                return certified(alpha, n)

            flip_prob = smallest_of_three_digits(suffices, flip_prob, local)
    return flip_prob


def largest_local_epsilon(certified: Callable[[float, int], bool], sizes: Iterable[int], epsilon: float) -> float:
    """The least noise that suffices: the largest ε₀ of the noisy labels at which a privacy target is certified in every
    cluster.

    The result is ε, or has three significant digits and is above ε. It is at most max(ε, 100). Cluster sizes are tried
    in ascending order. If the value found so far is not certified for a size, bisection lowers it. So the result is
    certified for the last size that lowered it. Suppose that certification at one ε₀ implies certification at every
    smaller ε₀. Then the result is certified for all sizes. The result is the largest certified ε₀ only if every larger
    ε₀ misses the target.

    Args:
        certified: whether the target is certified at (ε₀, cluster size); must be true at every ε₀ up to ε. sizes:
        cluster sizes. epsilon: ε of the target.
    """
    local = max(epsilon, 100.0)
    for size in sorted({int(size) for size in sizes}):
        if local > epsilon and not certified(local, size):

            def suffices(noise: float, n: int = size) -> bool:
                return certified(noise, n)

            local = _of_three_digits(suffices, epsilon, local).above
    return local


@plain_arguments
def calibrate_each(
    sizes: Iterable[int], num_classes: int, sampling_rate: float, epsilon: float, delta: float
) -> dict[int, float]:
    """For each distinct cluster size, the smallest certified α with three significant digits. Larger clusters usually
    need less noise.

    Args:
        sizes: cluster sizes, each at least 2. num_classes: K. sampling_rate: θ. epsilon, delta: the learner's target.
    """
    return {
        size: calibrate_flip_prob([size], num_classes, sampling_rate, epsilon, delta)
        for size in sorted({int(size) for size in sizes})
    }


@dataclass(frozen=True)
class Calibrated:
    """A sampling rate θ, the smallest α that meets a target (ε, δ) at this θ, and the utility bound at this θ and α."""

    sampling_rate: float
    flip_prob: float
    utility_bound: float


@plain_arguments
def best_sampling_rate(
    sizes: Iterable[int],
    epsilon: float,
    delta: float,
    utility_bound: Callable[[float, float], float],
    rates: Iterable[float] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0),
) -> Calibrated:
    """The best of the given sampling rates θ, for two classes: the θ at which a bound of the utility loss is smallest.

    The caller supplies this bound as a function. At each θ, α is the smallest flip probability certified for (ε, δ).
    The result has the best θ, its α and its bound.

    Args:
        sizes: cluster sizes, each at least 2. epsilon, delta: the target against the learner. utility_bound: a function
        of (θ, α), to be minimised. An example is the bound a/√(θn) + φ + α in Theorem 4 of the clustering paper
        (Esfandiari et al.). There n is the number of users, φ the heterogeneity of clusters, and a a constant. rates:
        sampling rates to try, each in (0, 1].
    """
    distinct, tried = sorted({int(size) for size in sizes}), []
    for rate in rates:
        alpha = calibrate_flip_prob(distinct, 2, rate, epsilon, delta)
        tried.append(Calibrated(rate, alpha, utility_bound(rate, alpha)))
    return min(tried, key=lambda point: point.utility_bound)


def smallest_of_three_digits(certified: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest certified value with three significant digits in (low, high]; `high` if no smaller value is
    certified. Bisection above max(low, 1e-6) finds the value. So `certified` must stay true as values grow.
    """
    return _of_three_digits(lambda value: not certified(value), max(low, 1e-6), high).below


def _of_three_digits(goes_up: Callable[[float], bool], low: float, high: float) -> Crossing:
    """Two neighbouring numbers with three significant digits, between which `goes_up` turns from true to false, by
    bisection.

    `above` is the smaller number, where `goes_up` is true, and `below` the larger, where it is false. Each may instead
    be an end, `low` or `high`, with more digits.

    Args:
        goes_up: whether the search goes on above a value; it must turn from true to false once. Without a call, it is
        taken as true at `low` and false at `high`. low, high: the ends, above 0.
    """
    round_up = Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float
    while True:
        # the middle on a logarithmic scale, rounded up to three digits; 1e-12 of it counts as rounding error
        middle = float(round_up(math.sqrt(low * high) * (1.0 - 1e-12)))
        if middle >= high:
            # a number of three digits may lie below the middle: take the first one above `low`
            middle = float(round_up(low * (1.0 + 1e-12)))
        if not low < middle < high:
            return Crossing(low, high)
        low, high = (middle, high) if goes_up(middle) else (low, middle)


def few_digits(flip_prob: float, num_classes: int) -> float:
    """The flip probability rounded up to four significant digits. More digits are kept if four digits would exceed
    (K-1)/K. K is the number of classes.
    """
    for digits in range(4, 18):
        rounded = float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(flip_prob))
        if rounded <= (num_classes - 1) / num_classes:
            return rounded
    return flip_prob
