"""Tables that are bundled with scikit-learn, so no data directory is needed."""

from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from p2p_sim.base import Streams
from p2p_sim.population.digits_and_adult import RandomSplit
from p2p_sim.population.population import GRID, Examples, GridSize, Sample, even_grid, rounded


@lru_cache
def bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The features (n, d) and labels (n,) of scikit-learn's table `load_{name}`.

    The features are standardised over all rows. Labels play no part, so standardising reveals nothing about a label.
    """
    from sklearn import datasets
    from sklearn.preprocessing import StandardScaler

    raw = {"scaled": False} if name == "diabetes" else {}
    features, labels = getattr(datasets, f"load_{name}")(return_X_y=True, **raw)
    return StandardScaler().fit_transform(features), labels


class BreastCancerConfig(RandomSplit):
    """scikit-learn's bundled breast cancer table: 569 tumours, 30 standardised features. Label 1 means malignant.

    Every replicate draws a fresh holdout.
    """

    kind: Literal["breast-cancer"] = "breast-cancer"
    known_classes: ClassVar[int | None] = 2

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Splits the tumours into users and holdout. `streams` draws the split; `places` is not used."""
        features, benign = bundled("breast_cancer")
        return self.split(Examples(features, (1 - benign).astype(np.uint8)), 2, streams)


class WineConfig(RandomSplit):
    """scikit-learn's bundled wine table: 178 wines, 13 standardised features. The label is one of three growers.

    Every replicate draws a fresh holdout.
    """

    kind: Literal["wine"] = "wine"
    known_classes: ClassVar[int | None] = 3

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Splits the wines into users and holdout. `streams` draws the split; `places` is not used."""
        features, grower = bundled("wine")
        return self.split(Examples(features, grower.astype(np.uint8)), 3, streams)


class DiabetesConfig(RandomSplit):
    """scikit-learn's bundled diabetes table: 442 patients, 10 standardised features. The label is a number.

    The label is the progression of the disease after one year, 25 to 346. Users' labels are clipped to the public range
    and rounded to the nearest value of the public grid. The labels of held-out rows stay unchanged. Every replicate
    draws a fresh holdout.
    """

    kind: Literal["diabetes"] = "diabetes"
    grid: GridSize = GRID
    """k: number of label values, evenly spaced over the public range, 2 to 64."""
    low: float = Field(default=0.0, allow_inf_nan=False)
    """Smallest value of the public range, a constant that does not come from the labels."""
    high: float = Field(default=400.0, allow_inf_nan=False)
    """Largest value of the public range, a constant above `low` that does not come from the labels."""

    @model_validator(mode="after")
    def _range(self) -> "DiabetesConfig":
        even_grid(self.low, self.high, self.grid)
        return self

    @property
    def known_values(self) -> tuple[float, ...]:
        return even_grid(self.low, self.high, self.grid)

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Splits the patients into users and holdout. `streams` draws the split; `places` is not used.

        Labels are indices into the public grid.
        """
        features, progression = bundled("diabetes")
        target = progression.astype(np.float64)
        return self.split(Examples(features, rounded(target, self.known_values), target=target), self.grid, streams)
