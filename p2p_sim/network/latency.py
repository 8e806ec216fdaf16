"""How long messages travel, in seconds: laws of travel times, and a queue for a connection that all messages share."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import Config
from p2p_sim.network.trace_file import read_trace
from p2p_sim.population import find_named

Floats = NDArray[np.float64]


class LatencyLaw(Protocol):
    """A law from which the travel times of messages are drawn."""

    @property
    def mean(self) -> float:
        """Expected travel time, seconds."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """`size` independent travel times, seconds."""
        ...

    def quantile(self, u: Floats) -> Floats:
        """Travel times (m,), in seconds: the quantile of the law at each u (m,) in [0, 1)."""
        ...


class Constant(Config):
    """Every message takes the same time."""

    kind: Literal["constant"] = "constant"
    value_s: float = Field(default=0.05, ge=0, le=1e9)
    """Travel time, seconds, 0 to 1e9."""

    @property
    def mean(self) -> float:
        return self.value_s

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return np.full(size, self.value_s)

    def quantile(self, u: Floats) -> Floats:
        return np.full(np.shape(u), self.value_s)


class Exponential(Config):
    """Exponentially distributed travel times."""

    kind: Literal["exponential"] = "exponential"
    mean_s: float = Field(default=0.05, gt=0, le=1e9)
    """Mean travel time, seconds, above 0 and at most 1e9."""

    @property
    def mean(self) -> float:
        return self.mean_s

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return rng.exponential(self.mean_s, size)

    def quantile(self, u: Floats) -> Floats:
        out = np.log1p(np.negative(u))
        out *= -self.mean_s
        return out


class Lognormal(Config):
    """Log-normal travel times, the usual first model of delays on the internet."""

    kind: Literal["lognormal"] = "lognormal"
    median_s: float = Field(default=0.05, gt=0, le=1e9)
    """Median travel time, seconds, above 0 and at most 1e9."""
    sigma: float = Field(default=0.5, ge=0, le=5)
    """Standard deviation of the logarithm of the travel time, 0 to 5."""

    @property
    def mean(self) -> float:
        return self.median_s * math.exp(self.sigma**2 / 2)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return rng.lognormal(math.log(self.median_s), self.sigma, size)

    def quantile(self, u: Floats) -> Floats:
        from scipy.special import ndtri

        if self.sigma == 0.0:  # u = 0 would give 0 times infinity
            return np.full(np.shape(u), self.median_s)
        out = np.asarray(ndtri(u))
        out *= self.sigma
        np.exp(out, out=out)
        out *= self.median_s
        return out


@dataclass(frozen=True)
class Recorded:
    """The law that draws uniformly from recorded travel times, with replacement.

    values: (m,) the recorded travel times, in seconds, ascending.
    """

    values: Floats

    @property
    def mean(self) -> float:
        """Mean of the recorded travel times, seconds."""
        return float(self.values.mean())

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.values[rng.integers(0, len(self.values), size)]

    def quantile(self, u: Floats) -> Floats:
        """For each u, the travel time, in seconds, of rank floor(u m) among the m recorded times in ascending order.

        Args:
            u: numbers in [0, 1), such as uniform random numbers. Ranks count from 0.
        """
        rank = (u * len(self.values)).astype(np.int64)
        np.minimum(rank, len(self.values) - 1, out=rank)  # for u just below 1, the product u m is rounded up to m
        return self.values[rank]


class LatencyTrace(Config):
    """Measured travel times from a file. Each message draws one time at random, independent of sender and receiver."""

    kind: Literal["trace"] = "trace"
    path: str = Field(min_length=1)
    """A CSV file with a header line and a column latency_s, or with a single column. The column has travel times in
    seconds, 0 to 1e9. The file is looked for beside the scenario file, in the data directory, then in the working
    directory."""

    def load(self, places: tuple[Path, ...]) -> Recorded:
        """The law that draws from the travel times in the file's column latency_s, or in the file's only column.

        Args:
            places: directories in which the file is looked for, in this order.

        Raises:
            InputError: the file or the column is missing, or a line has no travel time from 0 to 1e9. The message names
            the line.
        """
        path = find_named(self.path, places, "network.latency.path")
        [values] = read_trace(path, ("latency_s",), "network.latency.path").columns.values()
        return Recorded(np.sort(values))


LatencyConfig = Annotated[Constant | Exponential | Lognormal | LatencyTrace, Field(discriminator="kind")]
"""The laws of travel times in a scenario; `LatencyTrace.load` turns a trace into a law."""


def departures(arrivals: NDArray[np.float64], service_s: float) -> NDArray[np.float64]:
    """The times, in seconds, at which messages leave a queue that serves one message at a time, in order of arrival.

    The result (m,) is in the order of `arrivals`. Messages that arrive together are served in the given order.

    Args:
        arrivals: (m,) times at which the messages arrive, in seconds, in any order.
        service_s: time that the queue needs for one message, in seconds, above 0.

    >>> departures(np.array([0.0, 0.1, 5.0]), 1.0).tolist()
    [1.0, 2.0, 6.0]
    """
    order = np.argsort(arrivals, kind="stable")
    service_before_s = np.arange(arrivals.size) * service_s
    departure_s = np.empty_like(arrivals)
    # Lindley's recursion, unrolled
    departure_s[order] = np.maximum.accumulate(arrivals[order] - service_before_s) + service_before_s + service_s
    return departure_s
