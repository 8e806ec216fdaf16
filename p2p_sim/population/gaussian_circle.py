"""K Gaussians around a circle: the synthetic law of the vector approximation paper (Section 5.1)."""

import math
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Examples, Sample
from p2p_sim.population.source import Source

Floats = NDArray[np.float64]


class CircleConfig(Source):
    """K equally likely classes, each a round Gaussian about one of K places equally spaced on the unit circle.

    A user's cluster is the class whose centre is nearest to her features, whatever her label: Bayes' rule.
    """

    kind: Literal["circle"] = "circle"
    clustered: ClassVar[bool] = True
    users: int = Field(default=10_000, ge=2, le=2**31 - 1)
    """N: number of users, each drawn independently from the law; 2 to 2**31 - 1."""
    num_classes: int = Field(default=10, ge=2, le=256)
    """K: number of classes, 2 to 256."""
    spread: float | None = Field(default=None, gt=0, le=10)
    """σ: standard deviation of a class in each direction, above 0 and at most 10; absent: 2/K, so that neighbouring
    classes overlap about as much for every K."""
    holdout: int = Field(default=10_000, ge=1, le=2**31 - 1)
    """Number of rows that belong to no user, drawn from the same law to measure error, at least 1."""

    @property
    def sigma(self) -> float:
        """σ."""
        return 2.0 / self.num_classes if self.spread is None else self.spread

    @property
    def centres(self) -> Floats:
        """Mean of each class (K, 2)."""
        angle = 2.0 * math.pi * np.arange(self.num_classes) / self.num_classes
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    @property
    def known_classes(self) -> int | None:
        return self.num_classes

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draw the users and the holdout of one replicate."""
        users = self._draw(self.users, streams.generator("population"))
        return Sample(users, self.num_classes, self._draw(self.holdout, streams.generator("holdout")))

    def label_distribution(self, features: Floats) -> Floats:
        """p(y|x) (n, K) at features (n, 2): proportional to exp(x · centre / σ²), as all centres have norm one."""
        logits = features @ self.centres.T / self.sigma**2
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def bayes_error_rate(self) -> float:
        """Smallest 0-1 loss of any classifier: the mass of a class outside the wedge of points nearest to its centre.

        With the class along the first axis the wedge is |x₂| < x₁ tan(π/K), and one integral over x₁ is left.
        """
        from scipy.integrate import quad
        from scipy.special import erf

        sigma, slope = self.sigma, math.tan(math.pi / self.num_classes)

        def density(u: float) -> float:  # x₁ = 1 + σ u
            height = (1.0 + sigma * u) * slope / (sigma * math.sqrt(2.0))
            return math.exp(-u * u / 2.0) / math.sqrt(2.0 * math.pi) * float(erf(height))

        inside, _ = quad(density, max(-1.0 / sigma, -40.0), 40.0, points=[0.0], epsabs=1e-13, limit=200)
        return 1.0 - float(inside)

    def _draw(self, count: int, rng: np.random.Generator) -> Examples:
        labels = rng.integers(0, self.num_classes, count, dtype=np.uint8, endpoint=False)
        features = self.centres[labels] + self.sigma * rng.standard_normal((count, 2))
        turn = np.arctan2(features[:, 1], features[:, 0]) * self.num_classes / (2.0 * math.pi)
        return Examples(features, labels, np.rint(turn).astype(np.int64) % self.num_classes)
