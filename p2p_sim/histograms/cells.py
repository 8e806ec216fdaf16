"""Sorted tables of the non-empty cells, and noise that belongs to a cell.

A cell is a row of integer coordinates: of a cube in a grid, or the number of a Voronoi cell.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams, Uniforms, splitmix64

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CellTable:
    """The distinct cells of a sample, in lexicographic order.

    coordinates: (m, k) int64. levels: per coordinate its distinct values, and the distinct codes "place of the
    coordinates so far, then of this value" (m', ) whose order is that of the prefixes; exact in any dimension.
    """

    coordinates: Ints
    levels: tuple[tuple[Ints, Ints], ...]

    @classmethod
    def of(cls, cells: Ints) -> tuple["CellTable", Ints]:
        """The table of cells (n, k), and the place of each row in it (n,)."""
        place, levels = np.zeros(len(cells), dtype=np.int64), []
        for column in cells.T:
            values, at = np.unique(column, return_inverse=True)
            codes, place = np.unique(place * len(values) + at, return_inverse=True)
            levels.append((values, codes))
        coordinates = np.empty((len(levels[-1][1]), cells.shape[1]), dtype=np.int64)
        coordinates[place] = cells
        return cls(coordinates, tuple(levels)), place

    def find(self, cells: Ints) -> Ints:
        """Place in the table of each of the cells (n, k), or -1."""
        place = np.zeros(len(cells), dtype=np.int64)
        known = np.ones(len(cells), dtype=np.bool_)
        for (values, codes), column in zip(self.levels, cells.T, strict=True):
            at, there = _position(values, column)
            known &= there
            place, there = _position(codes, place * len(values) + at)
            known &= there
        return np.where(known, place, -1)

    def look_up(self, values: Floats, cells: Ints) -> Floats:
        """`values` (m,) of the table's cells, at each of the cells (n, k); 0 where the table has none."""
        place = self.find(cells)
        return np.where(place >= 0, values[place], 0.0)


def _position(ordered: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Where each wanted number stands in an ascending vector, and whether it is there at all."""
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return at, ordered[at] == wanted


@dataclass(frozen=True)
class CellNoise:
    """Laplace noise of every possible cell: a function of seed and cell, so it is drawn once and never stored.

    For simulation, not to protect anyone: the generator is not cryptographic and the noise has 53 bits. Two cells of
    different prefixes (all coordinates but the last) share their noise with probability about 2**-64.

    Args:
        numbers: the stream that is looked up. scale: of the Laplace law, above 0.
    """

    numbers: Uniforms
    scale: float

    @classmethod
    def drawn(cls, seed: int, purpose: str, scale: float) -> "CellNoise":
        """The noise of this seed, independent for each purpose."""
        return cls(Streams(seed, 0).uniforms(f"histogram {purpose}"), scale)

    def at(self, cells: Ints) -> Floats:
        """The noise of each of the cells (n, k)."""
        centred = self.numbers.at(_address(cells)) - (0.5 - 2.0**-54)  # never 1/2 from 0, where the noise is infinite
        return np.asarray(-self.scale * np.sign(centred) * np.log1p(-2.0 * np.abs(centred)))


def _address(cells: Ints) -> NDArray[np.uint64]:
    """One 64-bit number a cell: one to one in the last coordinate, the others scrambled into it."""
    address = cells[:, 0].astype(np.uint64)
    for column in cells.T[1:]:
        address = splitmix64(0, address) + column.astype(np.uint64)
    return address
