"""Sources in which each cluster is an organisation that holds many rows: hospitals, or simulated branches."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from p2p_sim.base import InputError, Streams, shortened
from p2p_sim.population.data_files import State, find_file, read_bytes, state
from p2p_sim.population.digits_and_adult import RandomSplit
from p2p_sim.population.population import Examples, Floats, Sample, Source

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
CENTRE = (54, 0.7, 3, 132, 240, 0.15, 0.6, 145, 0.4, 1, 1.7, 0.7, 4.7)
SPREAD = (9, 0.5, 1, 18, 55, 0.36, 0.8, 25, 0.5, 1.2, 0.6, 1, 1.9)
"""Public constants that scale the features: approximate means and standard deviations."""
MOST = 1e6


class HeartConfig(RandomSplit):
    """UCI Heart Disease: 13 features scaled by public constants; label 1 for a diseased heart; a cluster is a hospital.

    The hospitals are Cleveland (0), Hungary (1), Switzerland (2) and VA Long Beach (3). A missing value is replaced by
    the public centre of its feature.
    """

    kind: Literal["uci-heart"] = "uci-heart"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(("users", "test_fraction"))
    test_fraction: float = Field(default=0.3, gt=0, lt=1)
    """Share of the rows that are held out to measure error, between 0 and 1; every replicate draws these rows anew."""

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Paths of the four hospitals' files, in the order Cleveland, Hungary, Switzerland, VA Long Beach.

        Args:
            places: directories in which the files are looked for, in this order.
        """
        return [find_file("uci-heart", places, "uci-heart", (f"processed.{name}.data",)) for name in HOSPITALS]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Reads the rows of all hospitals, which are split at random into users and held-out rows.

        Errors are measured on the held-out rows. The cluster of a row is its hospital, 0 to 3.

        Args:
            places: directories in which the files are looked for, in this order. streams: the replicate's random
            streams.
        """
        return self.split(_together([read_hospital(path, state(path)) for path in self.files(places)]), 2, streams)


@lru_cache(maxsize=8)
def read_hospital(path: Path, state: State) -> Examples:
    """Reads one hospital's file: scaled features (n, 13), and labels (n,), 1 for a diseased heart.

    A missing value is replaced by the public centre of its feature, which is scaled to 0. path: the file. state: time
    of last change and size of the file; if these have changed, the file is read again.

    Raises:
        InputError: a row is not 14 numbers (? if missing), or the last one is not 0 to 4, or a number is too large.
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
    rows[:, [3, 4]] = np.where(rows[:, [3, 4]] == 0.0, np.nan, rows[:, [3, 4]])  # pressure, cholesterol: 0 is missing
    features = np.nan_to_num((rows - np.array(CENTRE)) / np.array(SPREAD))
    return Examples(features, (table[:, 13] > 0).astype(np.uint8))


SHIFT = 0.3
"""Standard deviation of a feature's mean in a branch, around the main organisation's mean."""


class Branch(NamedTuple):
    """The law of one organisation's rows.

    Features x have the law N(mean, I), and Pr[label 1] = 1/(1 + exp(-weights·x)). Both mean and weights are (d,).
    """

    mean: Floats
    weights: Floats

    def draw(self, rows: int, rng: np.random.Generator) -> Examples:
        """Draws `rows` independent rows of the law, with their labels, from the generator `rng`."""
        x = rng.standard_normal((rows, len(self.mean))) + self.mean
        return Examples(x, (x @ self.weights + rng.logistic(size=rows) > 0.0).astype(np.uint8))


def branches(
    groups: Sequence[Sequence[int]], importance: Sequence[float], count: int, law: int, signal: float, difference: float
) -> list[Branch]:
    """The laws of the rows of `count` organisations, the main organisation first.

    A row's d features x are Gaussian around the organisation's mean. The label is 1 with probability 1/(1 +
    exp(-weights·x)). The means and weights of all organisations are drawn from one seed.

    Args:
        groups: the features of each group; all groups together have the features 0..d-1. importance: a number for each
        group. This number, divided by the group's number of features, is the standard deviation of the group's weights
        before scaling. count: number of organisations. law: the seed. signal: length to which an organisation's weights
        are scaled, and so the standard deviation of weights·x. difference: relative standard deviation of a branch's
        weights around the main organisation's weights.
    """
    rng, d = np.random.default_rng(law), sum(map(len, groups))
    scale = np.empty(d)
    for group, share in zip(groups, importance, strict=True):
        scale[list(group)] = share / len(group)
    common, laws = rng.standard_normal(d) * scale, list[Branch]()
    for b in range(count):
        own = common * (1.0 + (difference * rng.standard_normal(d) if b else 0.0))
        mean = SHIFT * rng.standard_normal(d) if b else np.zeros(d)
        laws.append(Branch(mean, own * (signal / np.linalg.norm(own))))
    return laws


class BranchesConfig(Source):
    """Rows of a main organisation (cluster 0) and its branches, drawn anew in every replicate from fixed laws.

    Features form groups of equal size; each group is half as important as the group before it. Errors are measured on
    further rows of every organisation.
    """

    kind: Literal["branches"] = "branches"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(
        ("sizes", "groups", "group_size", "signal", "difference", "law", "test_rows")
    )
    sizes: tuple[int, ...] = Field(default=(2000, 400, 400))
    """Numbers of rows of the main organisation and of each branch: 1 to 1000 numbers from 2 to 1,000,000."""
    groups: int = Field(default=5, ge=1, le=1000)
    """Number of groups of features, 1 to 1000; the most important group comes first."""
    group_size: int = Field(default=10, ge=1, le=1000)
    """Number of consecutive features in each group, 1 to 1000."""
    signal: float = Field(default=1.5, gt=0, le=100)
    """Standard deviation of the logits, above 0 and at most 100."""
    difference: float = Field(default=0.5, ge=0, le=10)
    """Relative standard deviation of a branch's weights around the main organisation's weights, 0 to 10."""
    law: int = Field(default=0, ge=0)
    """Seed of the laws, which all replicates share."""
    test_rows: int = Field(default=1000, ge=1, le=1_000_000)
    """Number of further rows of each organisation on which errors are measured, 1 to 1,000,000."""

    @field_validator("sizes")
    @classmethod
    def _some_rows(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        if not 1 <= len(sizes) <= 1000 or not all(2 <= size <= 1_000_000 for size in sizes):
            raise ValueError("1 to 1000 organisations of 2 to 1,000,000 rows each are allowed")
        return sizes

    def laws(self) -> list[Branch]:
        """The law of each organisation's rows, the main organisation first."""
        groups = np.arange(self.groups * self.group_size).reshape(self.groups, self.group_size).tolist()
        shares = 0.5 ** np.arange(self.groups)
        return branches(
            groups, shares / shares.sum(), count=len(self.sizes), law=self.law, signal=self.signal,
            difference=self.difference,
        )  # fmt: skip

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draws the users' rows of one replicate, and `test_rows` further rows of each organisation to measure errors.

        The cluster of a row is the number of its organisation, 0 for the main organisation.

        Args:
            places: not used, since no file is read. streams: the replicate's random streams.
        """
        rng, laws = streams.generator("population"), self.laws()
        return Sample(
            _together([law.draw(size, rng) for law, size in zip(laws, self.sizes, strict=True)]),
            2,
            _together([law.draw(self.test_rows, rng) for law in laws]),
        )


def _together(parts: Sequence[Examples]) -> Examples:
    """The rows of several organisations as one table. A row's cluster is the number of its organisation, from 0."""
    features = np.concatenate([part.features for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    return Examples(features, labels, np.repeat(np.arange(len(parts)), [len(part.labels) for part in parts]))
