"""Ways to privatise regression labels, alone and through the exchange, and ridge regression on what is released."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from analysis.regression.tables import Floats, RegressionUsers
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.engines import EngineName, Exchange
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.label_values import RrOnBins, UnbiasedValues, ValueMessage, exchanged_at, prior_of
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.privacy.randomized_response import local_flip_prob

BINS, DEBIASED, UNBIASED = "RR-on-Bins", "RR-on-Bins, debiased", "unbiased"
PAID = ", prior paid for"
EXCHANGED, KNOWING = "exchanged ", ", cluster means"
LOCAL = (BINS, DEBIASED, UNBIASED, BINS + PAID, UNBIASED + PAID)
EXCHANGES = tuple(EXCHANGED + name + end for name in (DEBIASED, UNBIASED) for end in ("", KNOWING))
METHODS = (*LOCAL, EXCHANGED + BINS, *EXCHANGES)
PAYING = 10
"""One user of so many answers for the prior alone, where it is paid for."""


@dataclass(frozen=True)
class Released:
    """What a learner has: values (m,) of users (m,), the variance that noise gave each, and the ε that was stated."""

    user: NDArray[np.integer]
    value: Floats
    noise: float
    epsilon: float
    epsilon_local: float


def release(method: str, people: RegressionUsers, epsilon: float, delta: float, streams: Streams,
            engine: EngineName = "vectorised") -> Released:  # fmt: skip
    """The released values of one replicate under a method of `METHODS`."""
    base = method.removeprefix(EXCHANGED).removesuffix(KNOWING)
    kind = UnbiasedValues if base.startswith(UNBIASED) else RrOnBins
    values = tuple(people.values.tolist())
    if method.startswith(EXCHANGED):
        noise = _calibrated(kind, values, epsilon, tuple(np.unique(people.population.cluster_sizes).tolist()), delta)
        opened = Network.open(NetworkConfig(), people.population, streams)
        done = Exchange(noise, 1.0, engine).run(people.population, opened, False, None)
        bounds = LabelExchangeMechanism(noise, 1.0, engine).privacy(np.unique(people.population.cluster_sizes), delta)
        stated = max(bound.epsilon_upper for bound in bounds)
        return Released(done.user, *_read(noise, done.payload.astype(np.intp), base), stated, noise.local_epsilon)
    user: NDArray[np.integer] = np.arange(people.population.num_users)
    prior = None
    if base.endswith(PAID):
        user, prior = _paid_prior(people, epsilon, streams)
    local = kind(epsilon, values, prior)
    payload = local.randomize(people.population.labels[user], streams.generator("flip"))
    return Released(user, *_read(local, payload, base), epsilon, local.local_epsilon)


def _paid_prior(
    people: RegressionUsers, epsilon: float, streams: Streams
) -> tuple[NDArray[np.integer], tuple[float, ...]]:
    """The other users, and the prior that a public part of the users made by randomised response at ε."""
    k, pays = len(people.values), streams.generator("half").random(people.population.num_users) < 1.0 / PAYING
    noise = RandomizedResponse(local_flip_prob(epsilon, k), k)
    told = noise.randomize(people.population.labels[pays], streams.generator("prior"))
    return np.flatnonzero(~pays), prior_of(told, noise)


def _read(noise: ValueMessage, payload: NDArray[np.integer], base: str) -> tuple[Floats, float]:
    """Numbers from payloads, and the mean variance that a number has given its label, under the prior."""
    every = np.arange(len(noise.outputs))
    numbers = noise.debiased(every) if base == DEBIASED and isinstance(noise, RrOnBins) else noise.values_of(every)
    means = noise.law @ numbers
    variance = float(np.array(noise.common_prior) @ (noise.law @ numbers**2 - means**2))
    return numbers[payload], variance


@lru_cache(maxsize=4096)
def _calibrated(kind: Callable[..., ValueMessage], values: tuple[float, ...], epsilon: float,
                sizes: tuple[int, ...], delta: float) -> ValueMessage:  # fmt: skip
    make = partial(_made, kind, values)
    return exchanged_at(make, epsilon, np.array(sizes), 1.0, delta)


@lru_cache(maxsize=4096)
def _made(kind: Callable[..., ValueMessage], values: tuple[float, ...], epsilon: float) -> ValueMessage:
    return kind(epsilon, values)


def ridge(features: Floats, values: Floats, noise: float, span: float, spread: Floats) -> Callable[[Floats], Floats]:
    """Ridge regression with a penalty that only public numbers decide; returns the prediction.

    It is the posterior mean if coefficients of standardised features are normal and explain a variance of (span/4)²
    together, and values have the variance (span/4)² + noise around them.

    Args:
        features: (n, d). values: (n,). noise: variance of a value given its label. span: width of the public range.
        spread: (d,) standard deviations of the users' features, each above 0, by which features are scaled.
    """
    middle = features.mean(axis=0)
    X, y = (features - middle) / spread, values - values.mean()
    penalty = X.shape[1] * (1.0 + noise / (span / 4.0) ** 2)
    weights = np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ y)
    return lambda points: values.mean() + ((points - middle) / spread) @ weights


def learned(method: str, people: RegressionUsers, found: Released) -> Callable[[Floats], Floats]:
    """The prediction that a learner makes of what is released; see `METHODS` for what it knows."""
    features, cluster = people.population.features, people.cluster
    spread = features.std(axis=0)
    if method.endswith(KNOWING):
        sizes = np.bincount(cluster)[:, None]
        sums = np.stack([np.bincount(cluster, weights=column) for column in features.T], axis=1)
        features = (sums / sizes)[cluster]
    span = float(people.values[-1] - people.values[0])
    return ridge(features[found.user], found.value, found.noise, span, spread)


def without_privacy(people: RegressionUsers) -> Callable[[Floats], Floats]:
    """The same learner on the true labels of all users."""
    span = float(people.values[-1] - people.values[0])
    features = people.population.features.astype(np.float64)
    return ridge(features, people.values[people.population.labels], 0.0, span, features.std(axis=0))


def risk(prediction: Callable[[Floats], Floats], people: RegressionUsers) -> float:
    """Mean squared distance from the targets: the excess risk where a law is known, else the test error."""
    return float(np.mean((prediction(people.points) - people.target) ** 2))
