"""ε(δ) of a curve δ(ε), by bisection."""

import math
from collections.abc import Callable
from functools import lru_cache

from p2p_sim.privacy.binomial_windows import SUBNORMAL
from p2p_sim.privacy.bound import Bracket, PrivacyBound
from p2p_sim.privacy.randomized_response import local_epsilon
from p2p_sim.privacy.ranges import LARGEST_EPSILON, check_delta

Curve = Callable[[float], Bracket]


def invert(
    curve: Curve,
    delta: float,
    flip_prob: float,
    observer: str,
    basis: str,
    conditions: tuple[str, ...],
    num_classes: int = 2,
) -> PrivacyBound:
    """The privacy bound at δ of a curve of brackets that falls with ε and is 0 at ε₀.

    Args:
        curve: δ(ε). delta: δ in (0, 1). flip_prob, num_classes: α and K, for ε₀.
        observer, basis, conditions: as in `PrivacyBound`.
    """
    check_delta(delta)
    cached = lru_cache(maxsize=256)(curve)
    lower, _ = cross(lambda epsilon: cached(epsilon).lower > delta, flip_prob, num_classes=num_classes)
    _, upper = cross(lambda epsilon: cached(epsilon).upper > delta, flip_prob, num_classes=num_classes)
    return PrivacyBound(lower, upper, delta, observer, "label", basis, conditions)


def cross(
    above: Callable[[float], bool], flip_prob: float, precision: float = 1e-7, num_classes: int = 2
) -> tuple[float, float]:
    """The last ε seen above and the first not above; 0 and 0 if none is above, ∞ and ∞ if every ε is."""
    low, high = crossing(above, local_epsilon(flip_prob, num_classes), precision)
    return (high if math.isinf(high) else low), high


def crossing(above: Callable[[float], bool], pure: float, precision: float) -> tuple[float, float]:
    """The last ε seen above and the first not above; 0 and 0 if none is above.

    Args:
        pure: an ε that is not above; infinite if none is known: then 700 and ∞ are returned if 700 is above.
    """
    if not above(0.0):
        return 0.0, 0.0
    if math.isinf(pure) and above(LARGEST_EPSILON):
        return LARGEST_EPSILON, math.inf
    return bisect(above, 0.0, LARGEST_EPSILON if math.isinf(pure) else pure, precision)


def bisect(above: Callable[[float], bool], low: float, high: float, precision: float) -> tuple[float, float]:
    """The last value seen above and the first not above; `low` counts as above, `high` as not."""
    while high - low > max(precision * high, SUBNORMAL):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high


def root(
    log_value: Callable[[float], float],
    low: float,
    high: float,
    first: tuple[float, float],
    slope: float,
    precision: float,
) -> tuple[float, float]:
    """The last argument seen at which a decreasing function is above 0, and the first at which it is not.

    Secants narrow the bracket, and bisection where they do not. Of a function that is decreasing up to rounding only,
    the ends are what is said, but another pair may lie between them.

    Args:
        log_value: the function; its values may be infinite. low: counts as above 0. high: counts as not above.
        first: an argument from `low` to `high` and the value there. slope: a guess of the derivative, negative.
        precision: of the bracket, relative to its upper end.
    """
    (point, value), before, looks = first, (math.nan, math.nan), 0
    while True:
        low, high = (max(low, point), high) if value > 0.0 else (low, min(high, point))
        if high - low <= precision * high:
            return low, high
        looks += 1
        if before[1] != value and math.isfinite(before[1]):
            slope = (value - before[1]) / (point - before[0])
        before = point, value
        steep = looks % 5 and -math.inf < slope < 0.0 and math.isfinite(value)
        guess = point - value / slope if steep else 0.5 * (low + high)
        margin = min(0.4 * precision * high, 0.25 * (high - low))
        point = min(max(guess, low + margin), high - margin) if math.isfinite(guess) else 0.5 * (low + high)
        value = log_value(point)


def log_ratio(value: float, limit: float) -> float:
    """The logarithm of value/limit, above 0 if and only if the value is above the limit; both at least 0, limit > 0."""
    if value <= 0.0:
        return -math.inf
    found = math.log(value / limit)
    return max(found, SUBNORMAL) if value > limit else min(found, 0.0)


def bisect_twice(
    rough: Callable[[float], bool], log_excess: Callable[[float], float], high: float, precision: float
) -> tuple[float, float]:
    """The ends that `bisect` finds from 0, with fewer looks at a decreasing function.

    Args:
        rough: a quick question whether the function is above 0; it says yes more often. log_excess: the function.
        high: counts as not above. precision: as in `bisect`.
    """
    _, guess = bisect(rough, 0.0, high, 1e-3)
    low, value = 0.9 * guess, 0.0
    while low > 0.0 and (value := log_excess(low)) <= 0.0:
        low, guess = (0.75 * low if low > 1e-9 * high else 0.0), low
    if low == 0.0:
        return bisect(lambda point: log_excess(point) > 0.0, low, guess, precision)
    above, below = root(log_excess, low, guess, (low, value), -value / (0.5 * (guess - low)), precision)
    return bisect(lambda point: point <= above or (point < below and log_excess(point) > 0.0), low, guess, precision)
