"""Laws on the unit cube whose Bayes rule and excess error over cubes are known exactly.

x is uniform on [0, 1]^d and p(1|x) = 1/2 + a Π_j g(x_j) with |g| <= 1. The excess error of a classifier h is E |2
p(1|x) - 1| over the x where h is not the Bayes rule; for h constant on boxes that needs the integrals of the positive
and of the negative part of the product, which follow from those of g: (g h)⁺ = g⁺h⁺ + g⁻h⁻.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Factor(Protocol):
    """A function g from [0, 1] to [-1, 1], with the integrals of its parts."""

    def value(self, x: Floats) -> Floats:
        """g(x)."""

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Integrals of the positive and of the negative part (both at least 0) from 0 to x."""


@dataclass(frozen=True)
class Sine:
    """g(x) = sin(2π periods x).

    Args:
        periods: in [0, 1], above 0.
    """

    periods: float

    def value(self, x: Floats) -> Floats:
        return np.sin(2.0 * np.pi * self.periods * x)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Integrals from 0 to x: each period contributes 1/(π periods) to either part."""
        whole, rest = np.divmod(self.periods * x, 1.0)
        risen = 1.0 - np.cos(2.0 * np.pi * np.minimum(rest, 0.5))
        fallen = np.where(rest > 0.5, 1.0 + np.cos(2.0 * np.pi * rest), 0.0)
        unit = 1.0 / (2.0 * np.pi * self.periods)
        return (2.0 * whole + risen) * unit, (2.0 * whole + fallen) * unit


@dataclass(frozen=True)
class Harmonic:
    """g(x) = 1 where floor(1/x) is odd and -1 where it is even: it alternates faster and faster towards 0."""

    def value(self, x: Floats) -> Floats:
        """g(x); 1 at 0."""
        inverse = np.floor(1.0 / np.maximum(x, 1e-300))
        return np.where((inverse % 2.0 == 1.0) | (x == 0.0), 1.0, -1.0)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Integrals from 0 to x: Σ 1/(j(j+1)) over every second j >= m is (ψ((m+1)/2) - ψ(m/2))/2."""
        from scipy.special import digamma

        safe = np.maximum(x, 1e-15)
        step = np.floor(1.0 / safe)  # 1/(step+1) < x <= 1/step

        def below(first: Floats) -> Floats:
            return np.asarray(0.5 * (digamma(0.5 * (first + 1.0)) - digamma(0.5 * first)))

        own = below(step + 2.0) + safe - 1.0 / (step + 1.0)
        other = below(step + 1.0)
        odd = step % 2.0 == 1.0
        scale = x / safe
        return np.where(odd, own, other) * scale, np.where(odd, other, own) * scale


@dataclass(frozen=True)
class StepLaw:
    """g(x) = -1 below 1/2 and 1 from there on: Bayes' rule is a threshold."""

    def value(self, x: Floats) -> Floats:
        return np.where(x >= 0.5, 1.0, -1.0)

    def parts(self, x: Floats) -> tuple[Floats, Floats]:
        """Integrals from 0 to x."""
        return np.maximum(x - 0.5, 0.0), np.minimum(x, 0.5)


@dataclass(frozen=True)
class ProductLaw:
    """x uniform on [0, 1]^d, p(1|x) = 1/2 + amplitude · Π_j g(x_j).

    Args:
        factor: g. dimension: d, at least 1. amplitude: in (0, 1/2].
    """

    factor: Factor
    dimension: int = 1
    amplitude: float = 0.4

    def positive(self, points: Floats) -> Floats:
        """p(1|x) at the points (n, d)."""
        return np.asarray(0.5 + self.amplitude * np.prod(self.factor.value(points), axis=1))

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.uint8]]:
        """Examples: points (n, d) and labels (n,)."""
        points = rng.random((rows, self.dimension))
        return points, (rng.random(rows) < self.positive(points)).astype(np.uint8)

    def excess_error(self, edges: Floats, predicted: NDArray[np.integer]) -> float:
        """Error beyond Bayes of a classifier that is constant on boxes, exact to rounding.

        Args:
            edges: (k+1,) boundaries along every axis, ascending from 0 to 1. predicted: (k^d,) class of each box, the
                last axis fastest.
        """
        above, below = (np.diff(part) for part in self.factor.parts(edges))
        positive, negative = np.ones(1), np.zeros(1)
        for _ in range(self.dimension):
            positive, negative = (
                (np.outer(positive, above) + np.outer(negative, below)).ravel(),
                (np.outer(positive, below) + np.outer(negative, above)).ravel(),
            )
        wrong = np.where(predicted == 1, negative, positive)
        return 2.0 * self.amplitude * math.fsum(wrong)


def box_centres(edges: Floats, dimension: int) -> Floats:
    """The midpoints (k^d, d) of the boxes that `edges` (k+1,) makes along every axis, the last axis fastest."""
    middle = 0.5 * (edges[1:] + edges[:-1])
    return np.stack(np.meshgrid(*[middle] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
