"""A curator who holds whole rows releases noisy counts of features in cells, or the density that they make."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.mechanism import OwnMechanism, Setup
from p2p_sim.mechanisms.outcome import DensityRelease, ReleaseKind
from p2p_sim.mechanisms.without_messages import OfAllUsers
from p2p_sim.population.population import Population
from p2p_sim.privacy.bound import Adjacency, PrivacyBound
from p2p_sim.privacy.rivals.histograms import (
    IDEAL,
    ONE_DRAW,
    PUBLIC_CELLS,
    REPLACED,
    counts_epsilon,
    stability_threshold,
)


class PrivateDensityConfig(OwnMechanism):
    """A curator who holds all rows counts their features in cells with noise, and releases what passes a threshold.

    Algorithms 1 and 3 of *Private Bayes consistency* (Bousquet et al. 2022). Labels are not looked at, and nothing is
    learned from the release: the scenario's learner is left out, and rows have distances from the law instead of
    errors. A whole row is private: cells depend on n and on public constants alone.
    """

    kind: Literal["private_density"] = "private_density"
    described: ClassVar[str] = "a trusted curator who releases noisy counts of the cells that pass a threshold"
    conditions: ClassVar[tuple[str, ...]] = (ONE_DRAW, IDEAL, PUBLIC_CELLS, REPLACED)
    adjacency: ClassVar[Adjacency] = "example"
    releases: ClassVar[ReleaseKind] = "density"
    method: Literal["histogram", "pcde"] = "pcde"
    """"histogram": the noisy counts of the cells that pass (Algorithm 1), of which each is a density if it is divided
    by n and by a cell's volume; "pcde": the density alone, on all of R^d (Algorithm 3)."""
    target_epsilon: float = Field(default=1.0, gt=0, le=100)
    """ε of the whole release at the scenario's δ, above 0 and at most 100: counts get Laplace noise of scale 2/ε."""
    normalise: bool | None = None
    """Of pcde: whether counts are divided by their noisy sum (Remark 4.1), and not by n. Absent: true."""
    side: float | None = Field(default=None, gt=0, le=1e6)
    """Side of the cells, a public constant, above 0; absent: n^(-1/(2d))."""
    low: float = 0.0
    """Public constant: features are moved and scaled so that this becomes 0, where a cell begins."""
    high: float = 1.0
    """Public constant above `low` that becomes 1. What lies outside is counted in cells outside."""

    @model_validator(mode="after")
    def _fits(self) -> "PrivateDensityConfig":
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g}: must be below high = {self.high:g}")
        if self.method == "histogram" and self.normalise is not None:
            raise ValueError("normalise: 'histogram' releases counts as they are; only 'pcde' has this key")
        return self

    def built(self, setup: Setup) -> "PrivateDensity":
        """The mechanism; sizes of clusters and classes do not matter."""
        return PrivateDensity(self, setup.delta, int(setup.sizes.sum()))


@dataclass(frozen=True)
class PrivateDensity(OfAllUsers):
    """One density of all users' features, no messages. delta: of the statement. users: n, which is public."""

    trust = "curator"

    config: PrivateDensityConfig
    delta: float
    users: int

    @property
    def parameters(self) -> dict[str, float]:
        """Scale of the Laplace noise on a count, and the least noisy count that is released."""
        epsilon = self.config.target_epsilon
        return {"noise_scale": 2.0 / epsilon, "threshold": stability_threshold(epsilon, self.delta)}

    def released(self, population: Population, streams: Streams) -> DensityRelease:
        """The density. Whatever the rows, there is one: it is 0 everywhere if no cell passes."""
        from p2p_sim.histograms.densities import PCDE
        from p2p_sim.histograms.partitions import cube_side

        asked, (rows, dimensions) = self.config, population.features.shape
        side = (asked.side or cube_side(rows, dimensions)) * (asked.high - asked.low)
        normalised = asked.method == "pcde" and asked.normalise is not False
        seed = streams.integer_seed("private-density")
        model = PCDE(asked.target_epsilon, self.delta, normalised, side, seed)
        with warnings.catch_warnings(action="ignore"):  # that no cell passed is what the release says
            model.fit(DensityRelease.moved(population.features, asked.low))
        coordinates = model.coordinates_.reshape(-1, dimensions)
        counts = model.histogram_.counts if asked.method == "histogram" else None
        return DensityRelease(coordinates, model.masses_, side, asked.low, counts)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """One figure for every user, infinite below the δ that the threshold was made for: clusters do not matter."""
        bound = counts_epsilon(self.config.target_epsilon, self.delta, num_rows=self.users)
        upper = bound.epsilon_upper if delta >= self.delta * (1.0 - 1e-12) else math.inf
        lower = bound.epsilon_lower if delta <= self.delta else 0.0
        return [replace(bound, epsilon_lower=lower, epsilon_upper=upper, delta=delta)] * len(sizes)

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        return {}
