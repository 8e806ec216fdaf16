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
    """The smallest flip probability α of three digits at which the learner's (ε, δ) is certified in every cluster.

    Bisection is correct, since the largest δ over data sets at fixed ε does not increase in α: more flips are a
    post-processing of the target's bit and a mixture over the others' labels. Every distinct cluster size is evaluated.
    α is 0 or at least about 1e-6.

    Args:
        sizes: cluster sizes, each at least 2. num_classes: K. sampling_rate: θ in (0, 1].
        epsilon, delta: the target, ε above 0 and δ in (0, 1).
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
    """The smallest α of three digits at which a privacy target is certified in every cluster; 0 if noise is not needed.

    Args:
        certified: whether the target is certified at (α, cluster size); must stay true as α grows.
        sizes: cluster sizes. num_classes: K.
        epsilon: ε of the target, which randomised response alone meets at α = (K-1)/(K-1+e^ε).
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
    """The largest ε₀ of the noisy labels, to three digits, at which a privacy target is certified in every cluster.

    The result is at least ε and at most max(ε, 100). It is certified in the cluster that decided it, and in all others
    if a target that is certified at one ε₀ is so at every smaller one. It is the largest such ε₀ only if every larger
    ε₀ misses the target.

    Args:
        certified: whether the target is certified at (ε₀, cluster size); must be true at every ε₀ up to ε.
        sizes: cluster sizes. epsilon: ε of the target.
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
    """By distinct cluster size, the smallest certified α of three digits: larger clusters need less noise.

    Args:
        sizes: cluster sizes, each at least 2. num_classes: K. sampling_rate: θ. epsilon, delta: the learner's target.
    """
    return {
        size: calibrate_flip_prob([size], num_classes, sampling_rate, epsilon, delta)
        for size in sorted({int(size) for size in sizes})
    }


@dataclass(frozen=True)
class Calibrated:
    """A sampling rate θ, the smallest α that meets a target (ε, δ) there, and the utility bound at this θ and α."""

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
    """For two classes, the θ among `rates` with the smallest utility bound, at the smallest α certified for (ε, δ).

    Args:
        sizes: cluster sizes, each at least 2.
        epsilon, delta: the target.
        utility_bound: a function of (θ, α), to be minimised; Theorem 4 has the form a/√(θn) + φ + α.
        rates: sampling rates to try, each in (0, 1].
    """
    distinct, tried = sorted({int(size) for size in sizes}), []
    for rate in rates:
        alpha = calibrate_flip_prob(distinct, 2, rate, epsilon, delta)
        tried.append(Calibrated(rate, alpha, utility_bound(rate, alpha)))
    return min(tried, key=lambda point: point.utility_bound)


def smallest_of_three_digits(certified: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest value of three digits in (low, high] that is certified; `high` itself if no smaller one is.

    It is found by bisection above max(low, 1e-6), so that `certified` must stay true as values grow.
    """
    return _of_three_digits(lambda value: not certified(value), max(low, 1e-6), high).below


def _of_three_digits(goes_up: Callable[[float], bool], low: float, high: float) -> Crossing:
    """Two neighbouring values of three significant digits between which a search by bisection ends, or `low` or `high`
    themselves.

    The search goes up from the first, `above`, which is the smaller value, and not from the second, `below`: `goes_up`
    is true at `above` and false at `below`.

    Args:
        goes_up: whether the search goes on above a value; it must turn from true to false once. It is taken to be
        true at `low` and false at `high` without a call. low, high: the ends, above 0.
    """
    while True:
        # the middle on a logarithmic scale, rounded up to three digits; 1e-9 of the last digit counts as rounding error
        middle = math.sqrt(low * high)
        unit = 10.0 ** (math.floor(math.log10(middle)) - 2)
        middle = float(f"{math.ceil(middle / unit - 1e-9) * unit:.3g}")
        if not low < middle < high:
            return Crossing(low, high)
        low, high = (middle, high) if goes_up(middle) else (low, middle)


def few_digits(flip_prob: float, num_classes: int) -> float:
    """The flip probability rounded up to four digits, or to as many more as keep it at most (K-1)/K."""
    for digits in range(4, 18):
        rounded = float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(flip_prob))
        if rounded <= (num_classes - 1) / num_classes:
            return rounded
    return flip_prob
