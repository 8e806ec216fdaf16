"""Latency distributions: how long one message travels, in seconds; each states its mean and variance."""

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.config import Config


class Constant(Config):
    """Every message takes the same time."""

    kind: Literal["constant"] = "constant"
    value_s: float = Field(default=0.05, ge=0, le=1e9)
    """Travel time, seconds, 0 to 1e9."""

    @property
    def mean(self) -> float:
        """Expected travel time, seconds."""
        return self.value_s

    @property
    def variance(self) -> float:
        """Variance of the travel time, seconds squared."""
        return 0.0

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        """`size` independent travel times, seconds."""
        return np.full(size, self.value_s)


class Exponential(Config):
    """Memoryless travel times."""

    kind: Literal["exponential"] = "exponential"
    mean_s: float = Field(default=0.05, gt=0, le=1e9)
    """Mean travel time, seconds, above 0 and at most 1e9."""

    @property
    def mean(self) -> float:
        """Expected travel time, seconds."""
        return self.mean_s

    @property
    def variance(self) -> float:
        """Variance of the travel time, seconds squared."""
        return self.mean_s**2

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        """`size` independent travel times, seconds."""
        return rng.exponential(self.mean_s, size)


class Lognormal(Config):
    """Log-normal travel times, the usual first model of delays on the internet."""

    kind: Literal["lognormal"] = "lognormal"
    median_s: float = Field(default=0.05, gt=0, le=1e9)
    """Median travel time, seconds, above 0 and at most 1e9."""
    sigma: float = Field(default=0.5, ge=0, le=5)
    """Standard deviation of the logarithm of the travel time, 0 to 5."""

    @property
    def mean(self) -> float:
        """Expected travel time, seconds."""
        return self.median_s * math.exp(self.sigma**2 / 2)

    @property
    def variance(self) -> float:
        """Variance of the travel time, seconds squared."""
        return self.mean**2 * math.expm1(self.sigma**2)

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        """`size` independent travel times, seconds."""
        return rng.lognormal(math.log(self.median_s), self.sigma, size)


Latency = Annotated[Constant | Exponential | Lognormal, Field(discriminator="kind")]
