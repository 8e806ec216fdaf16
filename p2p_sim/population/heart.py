"""UCI Heart Disease: four hospitals, each an organisation with its own patients."""

from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.base.streams import Streams
from p2p_sim.population.data_files import State, find_file, read_bytes, state
from p2p_sim.population.digits_and_adult import RandomSplit, split
from p2p_sim.population.population import Examples, Sample

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
CENTRE = (54, 0.7, 3, 132, 240, 0.15, 0.6, 145, 0.4, 1, 1.7, 0.7, 4.7)
SPREAD = (9, 0.5, 1, 18, 55, 0.36, 0.8, 25, 0.5, 1.2, 0.6, 1, 1.9)
"""Public constants, about the mean and standard deviation of each feature."""
MOST = 1e6


class HeartConfig(RandomSplit):
    """UCI Heart Disease: 13 features scaled by public constants, label 1 for a diseased heart; each cluster a hospital.

    The clusters are Cleveland (0), Hungary (1), Switzerland (2) and VA Long Beach (3). A missing value becomes the
    centre of its scale.
    """

    kind: Literal["uci-heart"] = "uci-heart"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(("users", "test_fraction"))
    test_fraction: float = Field(default=0.3, gt=0, lt=1)
    """Share of the rows held out to measure error, between 0 and 1; drawn anew in every replicate."""

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """The four hospitals' processed files."""
        return [find_file("uci-heart", places, "uci-heart", (f"processed.{name}.data",)) for name in HOSPITALS]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Split the rows of all hospitals into patients and holdout."""
        hospitals = [read_hospital(path, state(path)) for path in self.files(places)]
        cluster = np.repeat(np.arange(len(hospitals)), [len(labels) for _, labels in hospitals])
        features, labels = (np.concatenate(parts) for parts in zip(*hospitals, strict=True))
        return split(Examples(features, labels, cluster), 2, self.test_fraction, streams, self.users)


@lru_cache(maxsize=8)
def read_hospital(path: Path, state: State) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Scaled features (n, 13) and labels (n,) of one file; `state`: of the file, so that a changed one is read again.

    Raises:
        InputError: it has not 14 columns of numbers, the last one a diagnosis of 0 to 4.
    """
    lines = read_bytes(path).decode("utf-8", errors="replace").split()
    try:
        table = np.array([[np.nan if cell == "?" else float(cell) for cell in line.split(",")] for line in lines])
    except ValueError as error:
        raise InputError(f"{path}: not the UCI Heart format ({shortened(str(error))})") from None
    if table.ndim != 2 or table.shape[1] != 14 or not np.isin(table[:, 13], range(5)).all():
        raise InputError(f"{path}: not the UCI Heart format (14 columns, the last one 0 to 4)")
    rows = table[:, :13]
    if not (np.isnan(rows) | (np.abs(rows) <= MOST)).all():
        raise InputError(f"{path}: a number is larger than {MOST:g}")
    rows[:, [3, 4]] = np.where(rows[:, [3, 4]] == 0.0, np.nan, rows[:, [3, 4]])  # no pressure or cholesterol is 0
    return np.nan_to_num((rows - np.array(CENTRE)) / np.array(SPREAD)), (table[:, 13] > 0).astype(np.uint8)
