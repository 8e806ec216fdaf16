"""Laws for which errors of classifiers (on the unit cube) and of density estimates (on the line) are computed exactly.

On the cube, x is uniform on [0, 1]^d, and p(1|x) = 1/2 + a Π_j g(x_j) with |g| <= 1 and 0 < a <= 1/2. The excess error
of a classifier is the integral of |2 p(1|x) - 1| over all x where the classifier differs from the Bayes rule. For a
classifier that is constant on boxes, two integrals over each box suffice. Their integrands are the positive and the
negative part of Π_j g(x_j). These integrals follow from integrals of the factors, because (gh)⁺ = g⁺h⁺ + g⁻h⁻ and
(gh)⁻ = g⁺h⁻ + g⁻h⁺ for a product gh. Here ⁺ denotes the positive part and ⁻ the negative part.

On the line, half the L1 distance is computed between the density of a law and a density that is constant on cells.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Factor(Protocol):
    """A function g from [0, 1] to [-1, 1], with integrals of its positive and of its negative part."""

    def value(self, x: Floats) -> Floats:
        """g at each of the numbers x in [0, 1]."""

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """The integrals from 0 to each x of max(g, 0) and of max(-g, 0): two arrays of the shape of x."""


@dataclass(frozen=True)
class Sine:
    """The function g(x) = sin(2π periods x).

    Args:
        periods: number of periods in [0, 1], above 0.
    """

    periods: float

    def value(self, x: Floats) -> Floats:
        return np.sin(2.0 * np.pi * self.periods * x)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Integrals from 0 to each x of the positive and of the negative part of g. Over a period, each is 1/(π
        periods).

        Args:
            x: numbers in [0, 1], in an array of any shape.
        """
        whole, rest = np.divmod(self.periods * x, 1.0)
        risen = 1.0 - np.cos(2.0 * np.pi * np.minimum(rest, 0.5))
        fallen = np.where(rest > 0.5, 1.0 + np.cos(2.0 * np.pi * rest), 0.0)
        unit = 1.0 / (2.0 * np.pi * self.periods)
        return (2.0 * whole + risen) * unit, (2.0 * whole + fallen) * unit


@dataclass(frozen=True)
class Harmonic:
    """The function g(x) = 1 where floor(1/x) is odd, and -1 where floor(1/x) is even. Its sign changes ever faster
    towards 0.
    """

    def value(self, x: Floats) -> Floats:
        """g at each of the numbers x in [0, 1]; it is 1 at x = 0."""
        inverse = np.floor(1.0 / np.maximum(x, 1e-300))
        return np.where((inverse % 2.0 == 1.0) | (x == 0.0), 1.0, -1.0)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Integrals from 0 to each x of the positive and of the negative part of g.

        For each whole number j >= 1, let I_j be the interval from 1/(j+1) to 1/j, of length 1/(j(j+1)). On I_j, g is 1
        if j is odd and -1 if j is even. So below 1/m, g has the same sign on I_m, I_(m+2), I_(m+4), ... The lengths of
        these intervals sum to (ψ((m+1)/2) - ψ(m/2))/2, where ψ is the digamma function.

        Args:
            x: numbers in [0, 1], in an array of any shape.
        """
        from scipy.special import digamma

        safe = np.maximum(x, 1e-15)
        step = np.floor(1.0 / safe)  # 1/(step+1) < x <= 1/step

        def below(first: Floats) -> Floats:
            return np.asarray(0.5 * (digamma(0.5 * (first + 1.0)) - digamma(0.5 * first)))

        own = below(step + 2.0) + safe - 1.0 / (step + 1.0)
        opposite = below(step + 1.0)
        odd = step % 2.0 == 1.0
        scale = x / safe
        return np.where(odd, own, opposite) * scale, np.where(odd, opposite, own) * scale


@dataclass(frozen=True)
class StepLaw:
    """The function g(x) = -1 below 1/2 and 1 from there on. Its Bayes rule is a threshold."""

    def value(self, x: Floats) -> Floats:
        return np.where(x >= 0.5, 1.0, -1.0)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Integrals from 0 to each x of the positive part of g (from 1/2 on) and of the negative part (below 1/2)."""
        return np.maximum(x - 0.5, 0.0), np.minimum(x, 0.5)


@dataclass(frozen=True)
class ProductLaw:
    """The law in which x is uniform on [0, 1]^d and p(1|x) = 1/2 + amplitude · Π_j g(x_j).

    Args:
        factor: g. dimension: d, at least 1. amplitude: in (0, 1/2].
    """

    factor: Factor
    dimension: int = 1
    amplitude: float = 0.4

    def positive(self, points: Floats) -> Floats:
        """The probability p(1|x) of label 1 at each of n points x: (n,).

        Args:
            points: (n, d) the points, in [0, 1]^d.
        """
        return np.asarray(0.5 + self.amplitude * np.prod(self.factor.value(points), axis=1))

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.uint8]]:
        """Draws `rows` independent examples of the law: points (rows, d) and labels (rows,), 0 or 1."""
        points = rng.random((rows, self.dimension))
        return points, (rng.random(rows) < self.positive(points)).astype(np.uint8)

    def excess_error(self, edges: Floats, predicted: NDArray[np.integer]) -> float:
        """The excess error of a classifier of labels 0 and 1, exact to rounding: how far its error rate is above the
        Bayes rule's. The cube is divided into k^d boxes, by k intervals along each of d axes. The prediction is
        constant on each box.

        Args:
            edges: (k+1,) ends of the intervals along every axis, ascending from 0 to 1. predicted: (k^d,) class of each
            box, 0 or 1; from box to box, the position along the last axis changes fastest.
        """
        above, below = (np.diff(part) for part in self.factor.parts(edges))
        positive, negative = np.ones(1), np.zeros(1)
        for _ in range(self.dimension):
            positive, negative = (
                (np.outer(positive, above) + np.outer(negative, below)).ravel(),
                (np.outer(positive, below) + np.outer(negative, above)).ravel(),
            )
        return 2.0 * self.amplitude * math.fsum(np.where(predicted == 1, negative, positive))


def box_centres(edges: Floats, dimension: int) -> Floats:
    """The midpoints (k^d, d) of the boxes that have the ends `edges` (k+1,) along every axis. From box to box, the
    position along the last axis changes fastest.
    """
    middle = 0.5 * (edges[1:] + edges[:-1])
    return np.stack(np.meshgrid(*[middle] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


class LineLaw(Protocol):
    """A law on the line with a known density, which is monotone between its turning points."""

    @property
    def turning(self) -> Floats:
        """Points, ascending, between which the density is monotone."""

    def cdf(self, x: Floats) -> Floats:
        """Distribution function: for each x, which may be infinite, the probability of values up to x."""

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """The point at which the density equals a given height, in each of m pieces of the line: (m,). The ends of a
        piece are neighbouring turning points or infinite. On a piece the density is monotone, so it crosses the height
        at one point at most. If it crosses the height nowhere in the piece, the result is arbitrary.

        Args:
            height: (m,) one height for each piece. middle: (m,) a point inside each piece, which identifies the piece.
        """

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        """Draws `rows` independent values (rows, 1) of the law from the generator `rng`."""


@dataclass(frozen=True)
class Normal:
    """The standard normal law N(0, 1) on the line."""

    turning = np.zeros(1)  # the mode

    def cdf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr(x))

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """The point with the sign of `middle` at which the density equals h: ±sqrt(-2 ln(h sqrt(2π))). If h is above
        the largest density, the result is 0.

        Args:
            height: (m,) heights h. middle: (m,) one number for each height; only its sign matters.
        """
        ratio = np.clip(height * math.sqrt(2.0 * math.pi), 1e-300, 1.0)
        return np.asarray(np.copysign(np.sqrt(-2.0 * np.log(ratio)), middle))

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((rows, 1))


@dataclass(frozen=True)
class Cauchy:
    """The standard Cauchy law, without a mean. Half of its mass lies outside [-1, 1]."""

    turning = np.zeros(1)  # the mode

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(0.5 + np.arctan(x) / math.pi)

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """The point with the sign of `middle` at which the density equals h: ±sqrt(1/(πh) - 1). If h is above the
        largest density, the result is 0.

        Args:
            height: (m,) heights h. middle: (m,) one number for each height; only its sign matters.
        """
        ratio = np.clip(height * math.pi, 1e-300, 1.0)
        return np.asarray(np.copysign(np.sqrt(1.0 / ratio - 1.0), middle))

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        return rng.standard_cauchy((rows, 1))


class Spikes:
    """A law with half of its mass uniform on [0, 1] and half on narrow spikes. Its density is piecewise constant.

    Args:
        count: number of spikes, at least 1; they are equally spaced. width: width of each spike, below 1/count.
    """

    def __init__(self, count: int = 10, width: float = 0.002) -> None:
        if not 0.0 < width < 1.0 / count:
            raise ValueError(f"width = {width}: must lie strictly between 0 and 1/count")
        starts = (np.arange(count) + 0.5) / count - 0.5 * width
        self.turning = np.unique(np.concatenate([[0.0, 1.0], starts, starts + width]))
        height = np.full(len(self.turning) - 1, 0.5)
        height[1::2] += 0.5 / (count * width)
        self._cumulative = np.concatenate([[0.0], np.cumsum(height * np.diff(self.turning))])
        self._starts, self._width = starts, width

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(np.interp(x, self.turning, self._cumulative))

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """Returns `middle`, because any result will do: the density is constant on each piece and crosses no height."""
        return middle

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        spiked = rng.choice(self._starts, rows) + self._width * rng.random(rows)
        return np.where(rng.random(rows) < 0.5, rng.random(rows), spiked)[:, None]


LINE_LAWS: dict[str, LineLaw] = {"normal": Normal(), "cauchy": Cauchy(), "spikes": Spikes()}
"""The laws on the line, by the names that scenarios use."""


def half_l1(law: LineLaw, cells: NDArray[np.int64], side: float, heights: Floats, origin: float = 0.0) -> float:
    """Half the L1 distance ½ ∫ |f - f̂| between a law's density f and a density f̂ that is constant on cells, exact to
    rounding. If f̂ integrates to 1, this is the total variation distance.

    The line is divided at the turning points of f and at the ends of cells. On each piece f is monotone and f̂ is
    constant, so f - f̂ changes its sign at one point at most. The integral of f - f̂ is taken on either side of this
    point.

    Args:
        law: has the density f. cells: (m,) indices j of the cells with f̂ > 0, ascending. side, origin: cell j is
        [origin + j·side, origin + (j+1)·side). heights: (m,) f̂ on these cells, at least 0.
    """
    starts, ends = origin + cells * side, origin + (cells + 1) * side
    edges = np.unique(np.concatenate([[-np.inf], starts, ends, law.turning, [np.inf]]))
    lower, upper = edges[:-1], edges[1:]
    height = np.zeros(len(lower))
    if len(cells):
        at = np.maximum(np.searchsorted(starts, lower, side="right") - 1, 0)
        inside = (lower >= starts[at]) & (upper <= ends[at])
        height[inside] = heights[at[inside]]
    middle = np.where(np.isinf(lower), upper - 1.0, np.where(np.isinf(upper), lower + 1.0, 0.5 * (lower + upper)))
    # ∫ |f - f̂| on each piece; f̂ is 0 on the pieces of infinite length
    crossing = np.clip(law.crossing(height, middle), lower, upper)
    distance = np.zeros(len(lower))
    for start, end in ((lower, crossing), (crossing, upper)):
        with np.errstate(invalid="ignore"):
            flat = np.where(height > 0.0, height * (end - start), 0.0)
        distance += np.abs(law.cdf(end) - law.cdf(start) - flat)
    return 0.5 * float(np.sum(distance))
