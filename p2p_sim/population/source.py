"""Where rows come from, what every source says, and the public grid of labels that are numbers."""

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.population.measured_groups import Grouping
from p2p_sim.population.population import Sample

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


class Source(Config):
    """The base of all configurations of a population."""

    kind: str
    own: ClassVar[bool] = False
    """Whether its files are the user's own, which no scenario can do without."""
    row_by_row: ClassVar[frozenset[str]] = frozenset()
    """Keys under whose every value a user's features, label and cluster follow from her own row and public constants
    alone. A key that is not listed may look at all rows; without a key listed, so may the kind."""

    @property
    def known_classes(self) -> int | None:
        """K, if it is known before the data is read."""
        return None

    @property
    def known_values(self) -> tuple[float, ...] | None:
        """(K,) the public grid of numbers of which labels are places, increasing; None if labels are classes."""
        return None

    @property
    def group_columns(self) -> tuple[str, ...] | None:
        """Columns by whose values held-out rows can be grouped; None: not known before the data is read."""
        return ()

    @property
    def clustered(self) -> bool:
        """Whether users come with clusters; a scenario without a clustering of its own then uses these."""
        return False

    @property
    def looks_at_all_rows(self) -> str | None:
        """What may make a user's features or label depend on the rows of others; None if nothing does.

        Where a whole row is private, such a dependence is part of what is released, and no ε accounts for it.
        """
        if not self.row_by_row:
            return f"population.kind = {self.kind!r}"
        for key, field in type(self).model_fields.items():
            if key != "kind" and key not in self.row_by_row and getattr(self, key) != field.default:
                return f"population.{key}"
        return None

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Files that are read; their checksums are part of the scenario's identity. By default none.

        Args:
            places: directories in which they are looked for, first match wins.

        Raises:
            InputError: one is missing.
        """
        return []

    def remarks(self, places: tuple[Path, ...]) -> list[str]:
        """What `p2p-sim validate` says about the data, a line each; by default nothing.

        Raises:
            InputError: as `sample`.
        """
        return []

    def spreads(self, places: tuple[Path, ...]) -> dict[str, float]:
        """Standard deviation of each feature by its name, where these may differ in scale; by default none.

        Raises:
            InputError: as `sample`.
        """
        return {}

    def doubts(self, places: tuple[Path, ...]) -> list[str]:
        """What in the data is likely not meant, a line each with a way out; by default nothing.

        Raises:
            InputError: as `sample`.
        """
        return []

    def grouping(self, column: str, places: tuple[Path, ...], streams: Streams) -> Grouping:
        """Groups of the rows that `sample` holds out, in their order, by a column of `group_columns`.

        Args:
            column: its name. places: directories in which files are looked for. streams: the replicate's.

        Raises:
            InputError: there is no such column, or it has too many values.
        """
        raise InputError(f"groups = {column!r}: population.kind = {self.kind!r} has no column of that name")

    @abstractmethod
    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draw the users of one replicate, and a holdout or the law.

        Args:
            places: directories in which files are looked for. streams: the replicate's random streams.

        Raises:
            InputError: a file is missing or damaged.
        """
