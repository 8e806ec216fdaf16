"""Local randomizers: what protects a label from an observer who gets no amplification; and ε(δ) up to their ε₀.

The smallest numbers are no exception: α e^ε is (α e^(ε/2)) e^(ε/2), which does not overflow before α e^ε exceeds one.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import LEAST, SUBNORMAL, Floats
from p2p_sim.privacy.bound import (
    LARGEST_EPSILON,
    Bracket,
    PrivacyBound,
    check_delta,
    check_flip_prob,
    plain_arguments,
)

Curve = Callable[[float], Bracket]
OVERFLOW = 700.0
"""ε from which on e^ε is not formed."""
_NOTHING = 1450.0
"""ε above ε₀ of every positive α, the smallest included."""


@plain_arguments
def local_epsilon(flip_prob: float, num_classes: int = 2) -> float:
    """ε₀ = ln((1-α)(K-1)/α), rounded up: pure label differential privacy of K-ary randomised response.

    e^ε₀ - 1 = (1 - αK/(K-1))(K-1)/α is off by 3u, its log1p therefore by 5u at most, and 8u are added.

    Args:
        flip_prob: α in [0, (K-1)/K], the probability that the noisy label differs from the true one.
        num_classes: K, at least 2.

    >>> round(local_epsilon(0.1), 4)
    2.1972
    >>> local_epsilon(0.5)
    0.0
    """
    if num_classes < 2:
        raise ValueError(f"num_classes = {num_classes}: must be at least 2")
    check_flip_prob(flip_prob, num_classes)
    if flip_prob == 0.0:
        return math.inf
    _, gap, _ = hockey_stick_coefficients(flip_prob, 0.0, num_classes)  # lose is g at ε = 0
    excess = gap * (num_classes - 1) / flip_prob
    if math.isinf(excess):
        return (math.log(num_classes - 1) - math.log(flip_prob)) * (1.0 + 2.0**-50)
    return math.log1p(excess) * (1.0 + 2.0**-50)


def local_flip_prob(epsilon: float, num_classes: int = 2) -> float:
    """The smallest α at which K-ary randomised response is ε-private: (K-1)/(K-1+e^ε), rounded up; at least 1e-300.

    Args:
        epsilon: ε, above 0; num_classes: K, at least 2.

    >>> round(local_flip_prob(math.log(9.0)), 12)
    0.1
    """
    largest = (num_classes - 1) / num_classes
    alpha = max((num_classes - 1) / (num_classes - 1 + math.exp(min(epsilon, OVERFLOW))), LEAST)
    while local_epsilon(alpha, num_classes) > epsilon:
        alpha = min(alpha * (1.0 + 2.0**-50), largest)
    return alpha


def hockey_stick_coefficients(flip_prob: float, epsilon: float, num_classes: int = 2) -> tuple[float, float, float]:
    """(keep, lose, relative_error): P - e^ε P' = keep · A - lose · B, with A and B the laws given the noisy label.

    keep = 1-α-e^ε α' = g - α'(e^ε-1) and lose = e^ε(1-α)-α' = g + (1-α)(e^ε-1), where α' = α/(K-1) and g = 1-α-α'. With
    expm1 and exp off by an ulp each (measured), g is off by u g and the other term of keep by at most 7u of itself;
    keep is the middle of what is possible and off by at most `relative_error`, lose by less than 8u. keep is 0 where
    nothing else is possible. Above ε = 700, where e^ε is not formed, lose is too small: for upper bounds only.
    """
    if epsilon > _NOTHING and flip_prob > 0.0:
        return 0.0, math.inf, 0.0
    # g is rounded correctly: K times α may be all but K-1, and a float of (K-1)/K may lie above it; there the true
    # label is the less likely by u, and δ = max(0, |g| - (1-α)(e^ε-1)), where 1-α is α/(K-1) but for that
    if num_classes == 2:
        gap = abs(1.0 - 2.0 * flip_prob)
    else:
        gap = abs(float(1 - Fraction(flip_prob) * num_classes / (num_classes - 1)))
    other = flip_prob / (num_classes - 1)
    growth = math.expm1(min(epsilon, OVERFLOW))
    lost = other * growth
    if epsilon > OVERFLOW:  # α itself is far below u α e^ε
        half = math.exp(epsilon / 2.0) if flip_prob > 0.0 else 0.0
        lost = flip_prob * half / (num_classes - 1) * half
    error = 2.0**-49 * (gap + lost)
    low, high = max(0.0, gap - lost - error), gap - lost + error
    if high <= 0.0 or gap == 0.0:
        return 0.0, gap + (1.0 - flip_prob) * growth, 0.0
    return (low + high) / 2.0, gap + (1.0 - flip_prob) * growth, (high - low) / (high + low) * (1.0 + 2.0**-40)


def local_delta(flip_prob: float, epsilon: float, num_classes: int = 2) -> Bracket:
    """δ(ε) of one noisy label seen with its owner: max(0, 1-α-e^ε α/(K-1)), exact to rounding, whatever α and ε.

    Args:
        flip_prob: α in [0, (K-1)/K]; epsilon: ε, at least 0; num_classes: K, at least 2.
    """
    keep, _, relative_error = hockey_stick_coefficients(flip_prob, epsilon, num_classes)
    if keep == 0.0:
        return Bracket(0.0, 0.0)
    if flip_prob == 0.0:
        return Bracket(1.0, 1.0)
    return outward(keep * (1.0 - relative_error), keep * (1.0 + relative_error))


def outward(lower: float, upper: float) -> Bracket:
    """The bracket, further apart by a rounding of each end and by the smallest positive number, within [0, 1]."""
    down = max(0.0, lower * (1.0 - 2.0**-52) - SUBNORMAL)
    return Bracket(down, min(1.0, upper * (1.0 + 2.0**-52) + SUBNORMAL))


def law_epsilon(law: Floats) -> float:
    """Pure label ε: the largest log-ratio of two inputs' probabilities of an output; infinite if only one can give it.

    Exact up to the rounding of the table's entries.

    >>> round(law_epsilon(np.array([[0.9, 0.1], [0.1, 0.9]])), 12) == round(math.log(9.0), 12)
    True

    Args:
        law: (inputs, outputs) probabilities, rows that sum to one.
    """
    _check_law(law)
    highest, lowest = law.max(axis=0), law.min(axis=0)
    possible = highest > 0
    if np.any(lowest[possible] == 0):
        return math.inf
    return max(0.0, float(np.log(highest[possible] / lowest[possible]).max()))


def law_delta(law: Floats, epsilon: float) -> float:
    """δ(ε): the largest hockey-stick divergence between two inputs' output laws.

    Args:
        law: (inputs, outputs) probabilities, rows that sum to one; epsilon: ε, at least 0.
    """
    _check_law(law)
    grown = math.exp(epsilon) * law
    return max(float(np.maximum(row - grown, 0.0).sum(axis=1).max()) for row in law)


def attained_epsilon(law: Floats, delta: float, top: float) -> float:
    """Where δ(ε) is still above δ, between 0 and `top`; found by bisection, and 0 where it never is."""
    low, high = 0.0, top
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if law_delta(law, middle) > delta * (1.0 + 1e-9) + 1e-13 else (low, middle)
    return low * (1.0 - 1e-12)


def drawn_from_rows(law: Floats, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Outputs (n,) of the labels (n,), each drawn from its label's row: one uniform number each, looked up."""
    ends = np.cumsum(law, axis=1)
    ends[:, -1] = 1.0
    drawn, outputs = rng.random(labels.size), np.zeros(labels.size, dtype=np.uint8)
    for label in range(len(law)):
        chosen = np.flatnonzero(labels == label)
        outputs[chosen] = np.searchsorted(ends[label], drawn[chosen], side="right")
    return outputs


def _check_law(law: Floats) -> None:
    if law.ndim != 2 or np.any(law < 0) or not np.allclose(law.sum(axis=1), 1.0, rtol=0, atol=1e-9):
        raise ValueError("law: must be a table of probabilities whose rows sum to one")


def invert(
    curve: Curve,
    delta: float,
    flip_prob: float,
    *,
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
    return PrivacyBound(lower, upper, delta, observer=observer, adjacency="label", basis=basis, conditions=conditions)


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
    *,
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
    above, below = root(
        log_excess, low, guess, first=(low, value), slope=-value / (0.5 * (guess - low)), precision=precision
    )
    return bisect(lambda point: point <= above or (point < below and log_excess(point) > 0.0), low, guess, precision)
