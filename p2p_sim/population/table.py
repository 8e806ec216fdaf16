"""One's own data: a CSV, Parquet or NPZ file."""

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.population.datasets import split
from p2p_sim.population.files import find_named
from p2p_sim.population.population import Examples, Sample
from p2p_sim.population.source import Source


class TableConfig(Source):
    """A file with one row a user; every replicate draws a fresh holdout."""

    kind: Literal["table"] = "table"
    path: str = Field(min_length=1)
    """A .csv, .parquet or .npz file; looked for beside the scenario file, in the data directory, then here."""
    label: str = Field(min_length=1)
    """Column (or NPZ array) of the labels: 2 to 256 distinct values, numbered in their sorted order."""
    cluster: str | None = None
    """Column (or NPZ array) that names each user's cluster, for clusters.kind = "given"."""
    features: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Numeric columns (or NPZ arrays) to learn from, at least one, the label not among them; absent: all others."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Share of the rows held out to measure error, between 0 and 1."""

    @model_validator(mode="after")
    def _label_is_private(self) -> "TableConfig":
        if self.label == self.cluster or self.label in (self.features or ()):
            raise ValueError(
                f"label = {self.label!r} is what is to be protected: it cannot be a feature or the cluster"
            )
        return self

    @property
    def clustered(self) -> bool:
        return self.cluster is not None

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """The file."""
        return [find_named(self.path, places, "population.path")]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Split the file's rows into users and holdout."""
        [path] = self.files(places)
        columns = _read_columns(path)
        labels, num_classes = self._labels(columns, path)
        cluster = None
        if self.cluster is not None:
            named = self._vector(columns, self.cluster, "cluster", path)
            if len(named) != len(labels):
                raise InputError(f"population.cluster = {self.cluster!r}: {len(named)} rows for {len(labels)} labels")
            cluster = np.unique(named.astype(str), return_inverse=True)[1].astype(np.int64)
        rows = Examples(self._features(columns, path), labels, cluster)
        return split(rows, num_classes, self.test_fraction, streams)

    def _labels(self, columns: "Columns", path: Path) -> tuple[NDArray[np.uint8], int]:
        values = self._vector(columns, self.label, "label", path)
        classes, labels = np.unique(values, return_inverse=True)
        if not 2 <= len(classes) <= 256:
            raise InputError(
                f"population.label = {self.label!r}: {len(classes)} distinct values in {path}; 2 to 256 are allowed"
            )
        return labels.astype(np.uint8), len(classes)

    def _features(self, columns: "Columns", path: Path) -> NDArray[np.float64]:
        names = self.features or [name for name in columns if name not in (self.label, self.cluster)]
        parts = []
        for name in names:
            values = self._column(columns, name, "features", path)
            if values.dtype.kind not in "biuf" or values.ndim == 0 or values.size == 0:
                raise InputError(f"population.features: column {name!r} of {path} is not numeric; list those that are")
            part = values.astype(np.float64).reshape(len(values), -1)
            bad = np.flatnonzero(~np.isfinite(part).all(axis=1))
            if bad.size:
                raise InputError(f"population.features: column {name!r} of {path} is not finite in row {bad[0]}")
            parts.append(part)
        if not parts or len({len(part) for part in parts}) > 1 or len(parts[0]) != len(columns[self.label]):
            raise InputError(f"population.path = {str(path)!r}: features and labels must have the same number of rows")
        return np.hstack(parts)

    def _vector(self, columns: "Columns", name: str, key: str, path: Path) -> NDArray[np.generic]:
        values = self._column(columns, name, key, path)
        if values.ndim != 1 or values.dtype.kind not in "biufUSOMT":
            raise InputError(f"population.{key} = {name!r}: must be one plain value a row in {path}")
        if pd.isna(values).any():
            raise InputError(f"population.{key} = {name!r}: {path} has rows without a value")
        if values.dtype.kind == "O" and not all(isinstance(value, str | int | float) for value in values):
            raise InputError(f"population.{key} = {name!r}: must be one plain value a row in {path}")
        return values.astype(str) if values.dtype.kind == "O" else values

    @staticmethod
    def _column(columns: "Columns", name: str, key: str, path: Path) -> NDArray[np.generic]:
        if name not in columns:
            raise InputError(f"population.{key} = {name!r}: {path} has {', '.join(map(repr, columns))}")
        return columns[name]


Columns = dict[str, NDArray[np.generic]]


def _read_columns(path: Path) -> Columns:
    if path.suffix not in (".npz", ".csv", ".gz", ".parquet"):
        raise InputError(f"population.path = {str(path)!r}: must end in .csv, .csv.gz, .parquet or .npz")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return {name: np.asarray(file[name]) for name in file.files}
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        return {str(name): frame[name].to_numpy() for name in frame.columns}
    except Exception as error:  # the readers of a damaged file raise whatever they meet first
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"population.path = {str(path)!r}: cannot be read ({first})") from None
