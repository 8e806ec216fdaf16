"""Half the L1 distance, exact, between a known law on the line and a density that is constant on cells."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class LineLaw(Protocol):
    """A law on the line whose density is monotone between its turning points."""

    @property
    def turning(self) -> Floats:
        """Ascending points between which the density is monotone, or constant."""

    def cdf(self, x: Floats) -> Floats:
        """Probability of values up to x; infinite x allowed."""

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """Where the density passes `height` on the monotone piece that holds `middle`; any number if it does not."""

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        """Values (n, 1)."""


@dataclass(frozen=True)
class Normal:
    """N(0, 1)."""

    turning = np.zeros(1)  # the mode

    def cdf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr(x))

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """±sqrt(-2 ln(h sqrt(2π)))."""
        ratio = np.clip(height * math.sqrt(2.0 * math.pi), 1e-300, 1.0)
        return np.asarray(np.copysign(np.sqrt(-2.0 * np.log(ratio)), middle))

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((rows, 1))


@dataclass(frozen=True)
class Cauchy:
    """The standard Cauchy law: half of its mass beyond 1, no mean."""

    turning = np.zeros(1)  # the mode

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(0.5 + np.arctan(x) / math.pi)

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """±sqrt(1/(πh) - 1)."""
        ratio = np.clip(height * math.pi, 1e-300, 1.0)
        return np.asarray(np.copysign(np.sqrt(1.0 / ratio - 1.0), middle))

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        return rng.standard_cauchy((rows, 1))


class Spikes:
    """Half uniform on [0, 1], half on equally spaced spikes of equal weight: constant pieces.

    Args:
        count: of spikes, at least 1. width: of each, below 1/count.
    """

    def __init__(self, count: int = 10, width: float = 0.002) -> None:
        if not 0.0 < width < 1.0 / count:
            raise ValueError(f"width = {width}: must lie strictly between 0 and 1/count")
        left = (np.arange(count) + 0.5) / count - 0.5 * width
        self._ends = np.unique(np.concatenate([[0.0, 1.0], left, left + width]))
        height = np.full(len(self._ends) - 1, 0.5)
        height[1::2] += 0.5 / (count * width)
        self._cumulative = np.concatenate([[0.0], np.cumsum(height * np.diff(self._ends))])
        self._left, self._width = left, width

    @property
    def turning(self) -> Floats:
        """Where the pieces end."""
        return self._ends

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(np.interp(x, self._ends, self._cumulative))

    def crossing(self, height: Floats, middle: Floats) -> Floats:
        """None: the pieces are constant."""
        return middle

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        spiked = rng.choice(self._left, rows) + self._width * rng.random(rows)
        return np.where(rng.random(rows) < 0.5, rng.random(rows), spiked)[:, None]


LINE_LAWS: dict[str, LineLaw] = {"normal": Normal(), "cauchy": Cauchy(), "spikes": Spikes()}
"""The laws of the consistency study."""


def half_l1(law: LineLaw, cells: NDArray[np.int64], side: float, heights: Floats, origin: float = 0.0) -> float:
    """½ ∫ |f - f̂|, exact to rounding; the total variation distance where f̂ integrates to 1.

    Args:
        law: f. cells: (m,) ascending; f̂ is `heights` (m,), at least 0, on [o + j·side, o + (j+1)·side) for j in cells
            and o = `origin`, else 0.
    """
    starts, ends = origin + cells * side, origin + (cells + 1) * side
    edges = np.unique(np.concatenate([starts, ends, law.turning]))
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    left, right = edges[:-1], edges[1:]
    height = np.zeros(len(left))
    if len(cells):
        at = np.maximum(np.searchsorted(starts, left, side="right") - 1, 0)
        inside = (left >= starts[at]) & (right <= ends[at])
        height[inside] = heights[at[inside]]
    middle = np.where(np.isinf(left), right - 1.0, np.where(np.isinf(right), left + 1.0, 0.5 * (left + right)))
    return 0.5 * float(np.sum(_distance(law, left, right, height, middle)))


def _distance(law: LineLaw, left: Floats, right: Floats, height: Floats, middle: Floats) -> Floats:
    """∫ |f - height| of each piece, on which f is monotone; pieces of infinite length have height 0."""
    crossing = np.clip(law.crossing(height, middle), left, right)
    total = np.zeros(len(left))
    for start, end in ((left, crossing), (crossing, right)):
        with np.errstate(invalid="ignore"):
            flat = np.where(height > 0.0, height * (end - start), 0.0)
        total += np.abs(law.cdf(end) - law.cdf(start) - flat)
    return total
