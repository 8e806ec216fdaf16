"""Classes of finite VC dimension, each cut down to a finite net by points that are not private."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError

Floats = NDArray[np.float64]


class Net(Protocol):
    """Finitely many classifiers."""

    def errors(self, points: Floats, labels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """How many of the examples (n, d), (n,) each classifier gets wrong, as a vector."""
        ...

    def predict(self, chosen: int, points: Floats) -> NDArray[np.bool_]:
        """What one of them says of the points (n, d)."""
        ...


class Concepts(Protocol):
    """A class of classifiers."""

    def net(self, points: Floats) -> Net:
        """Classifiers that tell the points (m, d) apart in as many ways as the class does."""
        ...


@dataclass(frozen=True)
class HalfSpaces:
    """{x: u·x >= t}: for d = 1 the thresholds {x >= t}, for d = 2 half-planes of equally spaced directions u.

    Args:
        directions: how many, at least 1, the first along the first axis; 1 for d = 1.
    """

    directions: int = 1

    def net(self, points: Floats) -> "HalfSpaceNet":
        """For each direction a cut between any two neighbours, and one on either side of all.

        Raises:
            InputError: d is above 2, or not what the number of directions is for.
        """
        if points.shape[1] > 2 or (points.shape[1] == 1) != (self.directions == 1):
            raise InputError(
                f"directions = {self.directions} with d = {points.shape[1]}: must be 1 if d = 1, more if d = 2"
            )
        angle = 2.0 * math.pi * np.arange(self.directions) / self.directions
        normals = np.stack([np.cos(angle), np.sin(angle)])[: points.shape[1]]
        return HalfSpaceNet(normals, _cuts(points @ normals))


@dataclass(frozen=True)
class HalfSpaceNet:
    """Classifier i has cut i // D and direction i % D. normals: (d, D) unit vectors; cuts: (C, D) ascending in each."""

    normals: Floats
    cuts: Floats

    def errors(self, points: Floats, labels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Errors of every classifier, (C·D,)."""
        at, signed = points @ self.normals, 1 - 2 * labels.astype(np.int64)
        columns = [_wrong_from(at[:, j], signed, self.cuts[:, j]) for j in range(at.shape[1])]
        return np.stack(columns, axis=1).ravel() + int(labels.sum())

    def predict(self, chosen: int, points: Floats) -> NDArray[np.bool_]:
        """Whether the points (n, d) lie beyond the cut."""
        cut, direction = divmod(chosen, self.normals.shape[1])
        return np.asarray(points @ self.normals[:, direction] >= self.cuts[cut, direction])


@dataclass(frozen=True)
class Intervals:
    """{x: a <= x < b} on a line."""

    def net(self, points: Floats) -> "IntervalNet":
        """An interval between any two cuts: about m²/2 for m points, those that hold none of them among these.

        Raises:
            InputError: d is not 1.
        """
        if points.shape[1] != 1:
            raise InputError(f"intervals need points on a line, not in d = {points.shape[1]} dimensions")
        cuts = _cuts(points)[:, 0]
        return IntervalNet(cuts, *np.triu_indices(len(cuts), 1))


@dataclass(frozen=True)
class IntervalNet:
    """cuts: (C,) ascending. low, high: the two cuts of each classifier, (C(C-1)/2,)."""

    cuts: Floats
    low: NDArray[np.intp]
    high: NDArray[np.intp]

    def errors(self, points: Floats, labels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Errors of every classifier."""
        signed = 1 - 2 * labels.astype(np.int64)
        beyond = _wrong_from(points[:, 0], signed, self.cuts)
        return np.asarray(beyond[self.low] - beyond[self.high] + int(labels.sum()))

    def predict(self, chosen: int, points: Floats) -> NDArray[np.bool_]:
        """Whether the points (n, 1) lie in the interval."""
        low, high = self.cuts[self.low[chosen]], self.cuts[self.high[chosen]]
        return np.asarray((points[:, 0] >= low) & (points[:, 0] < high))


def _cuts(at: Floats) -> Floats:
    """Midpoints between neighbours in each column (m, D), with -inf and inf at the ends: (m + 1, D)."""
    ordered = np.sort(at, axis=0)
    ends = np.full((1, at.shape[1]), np.inf)
    return np.concatenate([-ends, 0.5 * (ordered[1:] + ordered[:-1]), ends])


def _wrong_from(at: Floats, signed: NDArray[np.int64], cuts: Floats) -> NDArray[np.int64]:
    """Sum of `signed` (n,) over values `at` (n,) of at least each cut (C,)."""
    order = np.argsort(at, kind="stable")
    running = np.concatenate([[0], np.cumsum(signed[order])])
    return np.asarray(running[-1] - running[np.searchsorted(at[order], cuts, side="left")])
