"""Privacy of local randomizers, which add noise to one label. The module also searches for the ε at a given δ.

The results hold even for the smallest α. Above ε = 700, α e^ε is computed as (α e^(ε/2)) e^(ε/2). This product
overflows only where it exceeds 1.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import LEAST, SUBNORMAL, Floats
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, check_delta, check_range, plain_arguments

Curve = Callable[[float], Bracket]
OVERFLOW = 700.0
"""ε above which e^ε is not computed."""
_NOTHING = 1400.0
"""An ε above the ε₀ of every positive α; up to this ε, e^(ε/2) does not overflow."""


class Crossing(NamedTuple):
    """Two close arguments of a decreasing function, which exceeds a limit at `above` but not at `below`."""

    above: float
    below: float


class Coefficients(NamedTuple):
    """The factors in P - e^ε P' = keep · A - lose · B. They turn a divergence of A and B into δ(ε) of the label.

    P and P' are the laws of an observer's view for two true labels of the target. A and B are the laws of this view if
    the target's noisy label is the first or the second of these labels. For more than two classes P - e^ε P' has
    further terms, none above 0, for the other noisy labels. relative_error: bound of the relative error of keep.
    """

    keep: float
    lose: float
    relative_error: float


@plain_arguments
def local_epsilon(flip_prob: float, num_classes: int = 2) -> float:
    """ε₀ = ln((1-α)(K-1)/α), rounded up: pure label differential privacy of K-ary randomised response.

    Rounding: let u = 2^-53. The computed e^ε₀ - 1 = (1 - αK/(K-1))(K-1)/α has a relative error of 3u. Its log1p has an
    error of at most 5u. The result is raised by 8u.

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
    check_range("flip_prob", flip_prob, 0.0, (num_classes - 1) / num_classes)
    if flip_prob == 0.0:
        return math.inf
    # at ε = 0, `lose` is the g of `hockey_stick_coefficients`
    excess = hockey_stick_coefficients(flip_prob, 0.0, num_classes).lose * (num_classes - 1) / flip_prob
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
    alpha = max((num_classes - 1) / (num_classes - 1 + math.exp(min(epsilon, OVERFLOW))), LEAST)
    while local_epsilon(alpha, num_classes) > epsilon:
        alpha = min(alpha * (1.0 + 2.0**-50), (num_classes - 1) / num_classes)
    return alpha


def hockey_stick_coefficients(flip_prob: float, epsilon: float, num_classes: int = 2) -> Coefficients:
    """The factors in P - e^ε P' = keep · A - lose · B, explained in `Coefficients`, for K-ary randomised response.

    The noisy label is the true label with probability 1-α, and each other label with probability α' = α/(K-1). Let g =
    1-α-α'. Then keep = 1-α-e^ε α' = g - α'(e^ε-1) and lose = e^ε(1-α)-α' = g + (1-α)(e^ε-1). keep is 0 if it cannot be
    positive.

    Rounding: let u = 2^-53 be the rounding error of a double. As measured, expm1 and exp each have an error of at most
    one unit in the last place. Then the error of g is u g. The other term of keep has an error of at most 7u times this
    term. So keep lies in an interval. The middle of the interval is returned. `relative_error` bounds the relative
    distance of the interval's points from the middle. lose has a relative error of less than 8u. Above ε = 700, where
    e^ε is not computed, lose is too small. The result then serves upper bounds only.
    """
    if epsilon > _NOTHING and flip_prob > 0.0:
        return Coefficients(0.0, math.inf, 0.0)
    # g is rounded correctly. If K α is close to K-1, the double α may exceed (K-1)/K by rounding. Then the true label
    # is less likely than each other label by about u. Swap the roles of true and other label: with g < 0,
    # δ = max(0, |g| - (1-α)(e^ε-1)). Here 1-α is close to α/(K-1), so the formula with α/(K-1) serves both signs.
    if num_classes == 2:
        gap = abs(1.0 - 2.0 * flip_prob)
    else:
        gap = abs(float(1 - Fraction(flip_prob) * num_classes / (num_classes - 1)))
    growth = math.expm1(min(epsilon, OVERFLOW))
    lost = flip_prob / (num_classes - 1) * growth
    if epsilon > OVERFLOW:  # e^ε stands for e^ε-1: their difference is far below the rounding error
        half = math.exp(epsilon / 2.0) if flip_prob > 0.0 else 0.0
        lost = flip_prob * half / (num_classes - 1) * half
    # the interval in which keep lies: g - α'(e^ε-1), plus or minus 16u times each term
    error, lose = 2.0**-49 * (gap + lost), gap + (1.0 - flip_prob) * growth
    low, high = max(0.0, gap - lost - error), gap - lost + error
    if not high > 0.0 or gap == 0.0:  # `high` is NaN if α e^ε overflows, so that keep is negative
        return Coefficients(0.0, lose, 0.0)
    return Coefficients((low + high) / 2.0, lose, (high - low) / (high + low) * (1.0 + 2.0**-40))


def local_delta(flip_prob: float, epsilon: float, num_classes: int = 2) -> Bracket:
    """Bounds, equal up to rounding, of δ(ε) = max(0, 1-α-e^ε α/(K-1)) of one noisy label whose owner is known.

    Args:
        flip_prob: α in [0, (K-1)/K]; epsilon: ε, at least 0; num_classes: K, at least 2.
    """
    keep, _, relative_error = hockey_stick_coefficients(flip_prob, epsilon, num_classes)
    if keep == 0.0:
        return Bracket(0.0, 0.0)
    if flip_prob == 0.0:
        return Bracket(1.0, 1.0)
    return outward(keep * (1.0 - relative_error), keep * (1.0 + relative_error))


def pure_delta(pure: float, epsilon: float) -> float:
    """The largest δ(ε) of a mechanism that is ε₀-private with δ = 0: (e^ε₀ - e^ε)/(1 + e^ε₀), rounded up; at least 0.

    pure: ε₀, perhaps infinite.

    >>> round(pure_delta(math.log(9.0), 0.0), 12)
    0.8
    """
    if epsilon >= pure:
        return 0.0
    if math.isinf(pure):
        return 1.0
    return min(1.0, -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure)) * (1.0 + 1e-14))


def outward(lower: float, upper: float) -> Bracket:
    """Two bounds as a bracket in [0, 1], each moved outwards by one rounding error and the smallest positive number."""
    down, up = lower * (1.0 - 2.0**-52) - SUBNORMAL, upper * (1.0 + 2.0**-52) + SUBNORMAL
    return Bracket(max(0.0, down), min(1.0, up))


def law_epsilon(law: Floats) -> float:
    """The pure label ε of a local randomizer: the largest log-ratio of an output's probabilities under two inputs.

    The result is infinite if some inputs allow an output and others do not. It is exact up to the rounding of the
    entries of `law`.

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
    """δ(ε) of a local randomizer: the largest hockey-stick divergence between two inputs' output laws.

    Args:
        law: (inputs, outputs) probabilities, rows that sum to one.
        epsilon: ε, at least 0 and at most 709, so that e^ε does not overflow.
    """
    _check_law(law)
    grown = math.exp(epsilon) * law
    return max(float(np.maximum(row - grown, 0.0).sum(axis=1).max()) for row in law)


def attained_epsilon(law: Floats, delta: float, top: float) -> float:
    """A lower bound of a local randomizer's ε at δ, by bisection on [0, top]: 0, or an ε at which δ does not hold.

    law: (inputs, outputs) probabilities, rows that sum to one. top: the largest ε that may be returned.
    """
    low, high = 0.0, top
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if law_delta(law, middle) > delta * (1.0 + 1e-9) + 1e-13 else (low, middle)
    return low * (1.0 - 1e-12)


def drawn_from_rows(law: Floats, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """The outputs (n,) of a local randomizer for labels (n,), each drawn from the row of its label in the law.

    law: (labels, outputs) probabilities, rows that sum to one. rng: gives one uniform number for each label.
    """
    ends = np.cumsum(law, axis=1)
    ends[:, -1] = 1.0
    drawn, outputs = rng.random(labels.size), np.zeros(labels.size, dtype=np.uint8)
    for label in range(len(law)):
        chosen = np.flatnonzero(labels == label)
        outputs[chosen] = np.searchsorted(ends[label], drawn[chosen], side="right")
    return outputs


def _check_law(law: Floats) -> None:
    """Raise a ValueError unless the law is a table of probabilities whose rows sum to one."""
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
    """The statement of ε at δ, by bisection of a curve δ(ε).

    The curve decreases. It is 0 from ε₀ on. ε₀ is the ε of the noise on a label alone.

    Args:
        curve: the function from ε to bounds of δ. delta: δ in (0, 1). flip_prob, num_classes: α and K; they give ε₀.
        observer: who sees what the bound is about, such as "learner". basis: how the curve is computed, in words.
        conditions: the conditions under which the bound holds. The statement stores the observer, the basis and the
            conditions.
    """
    check_delta(delta)
    cached = lru_cache(maxsize=256)(curve)
    lower, _ = cross(lambda epsilon: cached(epsilon).lower > delta, flip_prob, num_classes=num_classes)
    _, upper = cross(lambda epsilon: cached(epsilon).upper > delta, flip_prob, num_classes=num_classes)
    return PrivacyBound(lower, upper, delta, observer=observer, adjacency="label", basis=basis, conditions=conditions)


def cross(above: Callable[[float], bool], flip_prob: float, precision: float = 1e-7, num_classes: int = 2) -> Crossing:
    """Two close ε in [0, ε₀] by bisection: the test `above` is true at the smaller ε and false at the larger one.

    Both are 0 if `above` is false at 0. If ε₀ is infinite and `above` is true at 700, both are infinite.

    Args:
        above: false at ε₀. flip_prob, num_classes: α and K, for ε₀ of the noisy label.
        precision: largest difference of the two ε, relative to the larger one.
    """
    low, high = crossing(above, local_epsilon(flip_prob, num_classes), precision)
    return Crossing(high if math.isinf(high) else low, high)


def crossing(above: Callable[[float], bool], pure: float, precision: float) -> Crossing:
    """Two close ε by bisection: `above` is true at the smaller ε and false at the larger one. Both are 0 if `above` is
    false at 0.

    Args:
        pure: an ε at which `above` is false, or infinity if no such ε is known. With infinity, the result is 700 and
            infinity if `above` is true at 700.
        precision: largest difference of the two ε, relative to the larger one.
    """
    if not above(0.0):
        return Crossing(0.0, 0.0)
    if math.isinf(pure) and above(LARGEST_EPSILON):
        return Crossing(LARGEST_EPSILON, math.inf)
    return bisect(above, 0.0, LARGEST_EPSILON if math.isinf(pure) else pure, precision)


def bisect(above: Callable[[float], bool], low: float, high: float, precision: float) -> Crossing:
    """Two close values in [low, high] by bisection: `above` is true at the smaller value and false at the larger one.

    `above` is not called at the ends: it counts as true at `low`, and as false at `high`.

    precision: largest difference of the two values, relative to the larger one.
    """
    while high - low > max(precision * high, SUBNORMAL):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if above(middle) else (low, middle)
    return Crossing(low, high)


def root(
    curve: Callable[[float], float],
    limit: float,
    low: float,
    high: float,
    *,
    first: tuple[float, float],
    slope: float,
    precision: float,
) -> Crossing:
    """Two close arguments between which a decreasing function passes a limit, by secants of ln(curve/limit).

    Where a secant does not help, a step bisects. Rounding may make the function increase somewhere. It may then pass
    the limit at several places; the result encloses one of these.

    Args:
        curve: the function, with values of at least 0, which may be infinite. limit: above 0.
        low, high: arguments at which the function counts as above and as not above the limit.
        first: an argument in [low, high], and the function's value there.
        slope: a guess of the derivative of ln(curve), negative.
        precision: largest difference of the two arguments, relative to the larger one.
    """
    point, value = first
    previous, previous_excess, looks = math.nan, math.nan, 0
    while True:
        low, high = (max(low, point), high) if value > limit else (low, min(high, point))
        if high - low <= precision * high:
            return Crossing(low, high)
        looks += 1
        # The secant goes through the last two points. Every fifth step bisects, so that both ends move.
        excess = math.log(value / limit) if value > 0.0 else -math.inf
        if previous_excess != excess and math.isfinite(previous_excess):
            slope = (excess - previous_excess) / (point - previous)
        previous, previous_excess = point, excess
        guess = point - excess / slope if looks % 5 and -math.inf < slope < 0.0 else math.nan
        # Keep a distance from `low` and `high`, so that the interval shrinks even if the secant hits an end.
        margin = min(0.4 * precision * high, 0.25 * (high - low))
        point = min(max(guess, low + margin), high - margin) if math.isfinite(guess) else 0.5 * (low + high)
        value = curve(point)


def bisect_twice(
    rough: Callable[[float], bool], curve: Callable[[float], float], limit: float, high: float, precision: float
) -> Crossing:
    """Two close values in [0, high] by bisection, with few calls of an expensive, decreasing function `curve`.

    The function is above the limit at the smaller value, and not above the limit at the larger one.

    Args:
        rough: a quick test; it is true wherever curve(x) > limit, and may be true elsewhere.
        curve, limit: the function, with values of at least 0, and a limit above 0.
        high: counts as not above the limit. precision: largest difference of the values, relative to the larger one.
    """
    # Start where the rough test becomes false. Go down to an argument above the limit.
    guess = bisect(rough, 0.0, high, 1e-3).below
    low, value = 0.9 * guess, 0.0
    while low > 0.0 and (value := curve(low)) <= limit:
        low, guess = (0.75 * low if low > 1e-9 * high else 0.0), low
    if low == 0.0:
        return bisect(lambda point: curve(point) > limit, low, guess, precision)
    slope = -math.log(value / limit) / (0.5 * (guess - low))
    ends = root(curve, limit, low, guess, first=(low, value), slope=slope, precision=precision)
    # This bisection calls the function only between the two arguments of `ends`.
    return bisect(
        lambda point: point <= ends.above or (point < ends.below and curve(point) > limit), low, guess, precision
    )
