"""Laws on the unit cube whose Bayes rule is known: those of the consistency study."""

import math
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base.configuration import Extended
from p2p_sim.base.streams import Streams
from p2p_sim.measures.exact_laws import Factor, Harmonic, ProductLaw, Sine, StepLaw, box_centres
from p2p_sim.population.population import Examples, FiniteLaw, Sample
from p2p_sim.population.source import Source


class UnitCubeConfig(Extended, Source):
    """x uniform on the midpoints of a fine grid of [0, 1]^d, and p(1|x) = 1/2 + amplitude · Π_j g(x_j).

    With finitely many points every error is exact. The grid is fine beside the cells of any rule that learns from up to
    a million users.
    """

    kind: Literal["unit_cube"] = "unit_cube"
    clustered: ClassVar[bool] = True
    known_classes: ClassVar[int | None] = 2
    row_by_row: ClassVar[frozenset[str]] = frozenset(
        ("users", "dimensions", "curve", "periods", "amplitude", "per_axis")
    )
    later: ClassVar[tuple[str, ...]] = ("cells",)
    users: int = Field(default=10_000, ge=2, le=10_000_000)
    """n: number of users, each drawn independently from the law; 2 to 10,000,000."""
    dimensions: int = Field(default=1, ge=1, le=4)
    """d: number of features, 1 to 4."""
    curve: Literal["sine", "harmonic", "step"] = "sine"
    """g: "sine": sin(2π periods x); "harmonic": 1 where floor(1/x) is odd, else -1, ever faster towards 0; "step": -1
    below 1/2, then 1."""
    periods: float = Field(default=2.0, gt=0, le=1000)
    """Periods of the sine in [0, 1], above 0 and at most 1000."""
    amplitude: float = Field(default=0.4, gt=0, le=0.5)
    """Largest distance of p(1|x) from 1/2, above 0 and at most 0.5."""
    per_axis: int | None = Field(default=None, ge=1, le=1_000_000)
    """Grid points along each axis, with at most 1,000,000 in all; absent: about 65,536 in all."""

    cells: bool = False
    """Whether users in one cube of side n^(-1/(2d)) are a cluster, as the histogram rule on exchanged labels needs it;
    absent: all are in one cluster. The cubes cut [0, 1] evenly if n is the fourth power of a whole number."""

    @model_validator(mode="after")
    def _bounded(self) -> "UnitCubeConfig":
        if self.grid**self.dimensions > 1_000_000:
            raise ValueError(f"per_axis = {self.per_axis}: at most 1,000,000 grid points are allowed in all dimensions")
        return self

    @property
    def grid(self) -> int:
        """Points along each axis."""
        return self.per_axis or round(65_536 ** (1.0 / self.dimensions))

    def law(self) -> FiniteLaw:
        """The law: equally likely points, in the clusters of their cubes or all in one."""
        curves: dict[str, Factor] = {"sine": Sine(self.periods), "harmonic": Harmonic(), "step": StepLaw()}
        points = box_centres(np.linspace(0.0, 1.0, self.grid + 1), self.dimensions)
        positive = ProductLaw(curves[self.curve], self.dimensions, self.amplitude).positive(points)
        count = len(points)
        return FiniteLaw(
            points,
            np.full(count, 1.0 / count),
            np.stack([1.0 - positive, positive], axis=1),
            self.cubes(points) if self.cells else np.zeros(count, dtype=np.int64),
        )

    def cubes(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Number of the cube of side n^(-1/(2d)) that holds each of the points (m, d), the last axis fastest."""
        side = float(self.users ** (-0.5 / self.dimensions))
        per_axis = math.ceil(1.0 / side - 1e-9)
        place = np.minimum(np.floor(points / side), per_axis - 1).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(place.T), (per_axis,) * self.dimensions), dtype=np.int64)

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draw the users of one replicate."""
        law, rng = self.law(), streams.generator("population")
        point = rng.integers(0, len(law.mass), self.users, dtype=np.int32)
        labels = (rng.random(self.users) < law.label_distribution[point, 1]).astype(np.uint8)
        users = Examples(law.points[point], labels, law.cluster[point])
        return Sample(users, 2, law=law, point=point)
