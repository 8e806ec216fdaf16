"""Labels that are numbers: a public grid of values, and the place of a number in it."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

GRID = 17
"""Values of a grid if nothing is said."""
GridSize = Annotated[int, Field(ge=2, le=64)]
"""k: number of values of a grid, 2 to 64; the linear programme of unbiased values takes no more."""


def even_grid(low: float, high: float, count: int, key: str = "high") -> tuple[float, ...]:
    """`count` values evenly spaced from `low` to `high`.

    >>> even_grid(0.0, 2.0, 5)
    (0.0, 0.5, 1.0, 1.5, 2.0)

    Raises:
        ValueError: they do not increase; `key` is named.
    """
    values = np.linspace(low, high, count)
    if not low < high or not np.isfinite(values).all() or not np.all(np.diff(values) > 0):
        raise ValueError(f"{key}: the high end, {high:g}, must be above the low one, {low:g}, so that values increase")
    return tuple(values.tolist())


def rounded(target: NDArray[np.float64], values: tuple[float, ...]) -> NDArray[np.uint8]:
    """Place (n,) in the grid (k,) of the value that is nearest to each number (n,), of two the smaller one.

    Numbers outside the grid are clipped to its ends.

    >>> rounded(np.array([-7.0, 0.5, 1.6, 9.0]), (0.0, 1.0, 2.0)).tolist()
    [0, 0, 2, 2]
    """
    grid = np.array(values)
    place = np.clip(np.searchsorted(grid, target), 1, len(grid) - 1)
    lower = np.asarray(target - grid[place - 1] <= grid[place] - target)
    return np.asarray(place - lower, dtype=np.uint8)
