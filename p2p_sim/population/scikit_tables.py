"""Tables that are bundled with scikit-learn, so that they need no data directory."""

from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from p2p_sim.base.streams import Streams
from p2p_sim.population.digits_and_adult import RandomSplit, split
from p2p_sim.population.population import GRID, Examples, GridSize, Sample, even_grid, rounded


class _BundledTable(RandomSplit):
    """Base of the labelled tables that come with scikit-learn, with a random holdout in every replicate."""

    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Share of the rows held out to measure error, between 0 and 1."""

    @property
    def known_classes(self) -> int:
        return self.classes

    classes: ClassVar[int]

    @abstractmethod
    def rows(self) -> Examples:
        """All rows of the table, with features standardised over all of them, which reveals nothing about a label."""

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Splits the rows at random into users and holdout."""
        return split(self.rows(), self.classes, self.test_fraction, streams, self.users)


class BreastCancerConfig(_BundledTable):
    """scikit-learn's bundled breast cancer table: 569 tumours, 30 features, standardised; label 1: malignant.

    Every replicate draws a fresh holdout.
    """

    kind: Literal["breast-cancer"] = "breast-cancer"
    classes: ClassVar[int] = 2

    def rows(self) -> Examples:
        """All 569 tumours with standardised features, and label 1 for malignant."""
        return load_breast_cancer()


class WineConfig(_BundledTable):
    """scikit-learn's bundled wine table: 178 wines, 13 features, standardised; the label is one of three growers.

    Every replicate draws a fresh holdout.
    """

    kind: Literal["wine"] = "wine"
    classes: ClassVar[int] = 3

    def rows(self) -> Examples:
        """All 178 wines with standardised features, and the grower 0 to 2 as label."""
        return load_wine()


class DiabetesConfig(RandomSplit):
    """scikit-learn's bundled diabetes table: 442 patients, 10 features, standardised; the label is a number.

    The label is the progression of the disease after one year, 25 to 346. It is clipped to the public range and rounded
    to the nearest value of the public grid; labels that are held out stay as they are. Every replicate draws a fresh
    holdout.
    """

    kind: Literal["diabetes"] = "diabetes"
    grid: GridSize = GRID
    """k: number of label values, evenly spaced over the public range, 2 to 64."""
    low: float = Field(default=0.0, allow_inf_nan=False)
    """Smallest value of the public range, a constant that does not come from the labels."""
    high: float = Field(default=400.0, allow_inf_nan=False)
    """Largest value of the public range, a constant above `low` that does not come from the labels."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Share of the rows held out to measure error, between 0 and 1."""

    @model_validator(mode="after")
    def _range(self) -> "DiabetesConfig":
        even_grid(self.low, self.high, self.grid)
        return self

    @property
    def known_classes(self) -> int | None:
        return self.grid

    @property
    def known_values(self) -> tuple[float, ...]:
        return even_grid(self.low, self.high, self.grid)

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Splits the patients at random into users and holdout; labels are indices into the public grid."""
        values = self.known_values
        features, target = load_diabetes()
        rows = Examples(features, rounded(target, values), target=target)
        return replace(split(rows, self.grid, self.test_fraction, streams, self.users), values=values)


@lru_cache(maxsize=1)
def load_breast_cancer() -> Examples:
    """All tumours: standardised features (569, 30), and labels with 1 for malignant (scikit-learn has 0 for it)."""
    from sklearn import datasets

    features, benign = datasets.load_breast_cancer(return_X_y=True)
    return _standardised(features, 1 - benign)


@lru_cache(maxsize=1)
def load_wine() -> Examples:
    """All wines: standardised features (178, 13), and labels 0 to 2."""
    from sklearn import datasets

    return _standardised(*datasets.load_wine(return_X_y=True))


@lru_cache(maxsize=1)
def load_diabetes() -> tuple[np.ndarray, np.ndarray]:
    """All patients: standardised features (442, 10), and numeric labels (442,)."""
    from sklearn import datasets
    from sklearn.preprocessing import StandardScaler

    features, progression = datasets.load_diabetes(return_X_y=True, scaled=False)
    return StandardScaler().fit_transform(features), progression.astype(np.float64)


def _standardised(features: np.ndarray, labels: np.ndarray) -> Examples:
    from sklearn.preprocessing import StandardScaler

    return Examples(StandardScaler().fit_transform(features), labels.astype(np.uint8))
