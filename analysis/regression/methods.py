"""Regression labels: users who hold labels, methods of private release, and ridge regression on a release.

A label is the index of a value in a public grid. So the exchange treats labels as classes. Users come from a law of
known heterogeneity, or from scikit-learn's diabetes table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Streams
from p2p_sim.exchange import Exchange
from p2p_sim.mechanisms import (
    LabelExchangeMechanism,
    RandomizedResponse,
    RrOnBins,
    UnbiasedValues,
    ValueMessage,
    exchanged_at,
    prior_of,
)
from p2p_sim.network import Network, NetworkConfig
from p2p_sim.population import Population, merge_small
from p2p_sim.privacy import Floats, local_flip_prob

SLOPE, GRID = 0.2, 17
"""Change of the mean label from the middle cluster to the last one, and the number k of label values."""
DIABETES_RANGE = (0.0, 400.0)
"""Public range of the diabetes table's label, which is the progression of the disease after one year."""


@dataclass(frozen=True)
class RegressionUsers:
    """Users, and the points at which their learner is measured.

    population: the users; their labels are indices of `values`. values: (k,) the public grid of label values. points:
    (m, d) features at which the learner predicts. target: (m,) values with which predictions are compared. residual:
    mean squared distance of labels from targets under a known law; no prediction can avoid it.
    """

    population: Population
    values: Floats
    points: Floats
    target: Floats
    residual: float = 0.0

    @property
    def cluster(self) -> NDArray[np.intp]:
        """The cluster of each user, (n,)."""
        return np.repeat(np.arange(len(self.population.cluster_sizes)), self.population.cluster_sizes)

    @property
    def label_variance(self) -> float:
        """The mean squared distance of users' labels, as grid values, from the mean label of their cluster."""
        y, cluster = self.values[self.population.labels], self.cluster
        means = np.bincount(cluster, weights=y) / np.bincount(cluster)
        return float(np.mean((y - means[cluster]) ** 2))


@dataclass(frozen=True)
class LabelLaw:
    """A law of labels on a grid of k values in [0, 1]. A label has the mean f(t, v) = 1/2 + a t + γ v.

    A point has the features (t, v), with t = u + τ r. Only u differs between clusters: u in [-1, 1] is the centre of
    the cluster. r and v are ±1, and all four pairs (r, v) are equally likely. A label is the number of successes in k-1
    trials, each with probability f, divided by k-1. The slope a is `SLOPE`, and a τ = γ = h/√2. So the variance of f
    within a cluster is exactly h². Half of it comes from t, the other half from v.

    Args:
        heterogeneity: h in [0, 0.2], the standard deviation of f within a cluster. clusters, size: number of clusters,
        and number of users in each.
    """

    heterogeneity: float
    clusters: int = 50
    size: int = 200

    @property
    def points(self) -> Floats:
        """The points of the law, (4 · clusters, 2), cluster by cluster. Each point has two features (t, v). The four
        points of a cluster with centre u have t = u ± τ and v = ±1, with τ = h/(0.2 √2). Here h is `heterogeneity`. The
        centres lie at equal distances from -1 to 1.
        """
        along = self.heterogeneity / math.sqrt(2.0) / SLOPE
        middle = np.repeat(np.linspace(-1.0, 1.0, self.clusters), 4)
        r, v = (np.tile(side, self.clusters) for side in ([1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]))
        return np.stack([middle + along * r, v], axis=1)

    @property
    def mean(self) -> Floats:
        """The mean label f at every point of the law."""
        points = self.points
        return 0.5 + SLOPE * points[:, 0] + self.heterogeneity / math.sqrt(2.0) * points[:, 1]

    @property
    def residual(self) -> float:
        """Variance of a label around f, averaged over the points: the risk of f itself."""
        return float(np.mean(self.mean * (1.0 - self.mean)) / (GRID - 1))

    def draw(self, streams: Streams) -> RegressionUsers:
        """The users of one replicate. Each cluster has the same number of users, each at a random point of the cluster.
        The law gives the labels (indices of grid values). The learner is measured at all points of the law, against the
        true mean labels.

        streams: random numbers of the replicate.
        """
        rng, n = streams.generator("population"), self.clusters * self.size
        point = 4 * np.repeat(np.arange(self.clusters), self.size) + rng.integers(0, 4, n)
        labels = rng.binomial(GRID - 1, self.mean[point]).astype(np.uint8)
        offsets = np.arange(self.clusters + 1, dtype=np.int64) * self.size
        population = Population(self.points[point], labels, offsets, GRID)
        return RegressionUsers(population, np.linspace(0.0, 1.0, GRID), self.points, self.mean, self.residual)


@dataclass(frozen=True)
class Diabetes:
    """scikit-learn's 442 diabetes patients; their 10 standardised features are public, and k-means makes the clusters.

    Args:
        clusters: number of clusters that k-means makes. least: fewest users allowed in a cluster; smaller clusters are
        merged with others. held_out: share of the rows on which the error is measured.
    """

    clusters: int = 6
    least: int = 40
    held_out: float = 0.2

    def draw(self, streams: Streams) -> RegressionUsers:
        """The users of one replicate, and the held-out rows. Only users' labels are rounded to the grid."""
        from sklearn.cluster import KMeans
        from sklearn.datasets import load_diabetes
        from sklearn.preprocessing import StandardScaler

        raw, progression = load_diabetes(return_X_y=True, scaled=False)
        features = StandardScaler().fit_transform(raw)
        order = streams.generator("holdout").permutation(len(features))
        held, rest = np.split(order, [round(self.held_out * len(order))])
        model = KMeans(self.clusters, n_init=1, random_state=streams.integer_seed("clusters"))
        cluster = merge_small(features[rest], model.fit_predict(features[rest]).astype(np.int64), self.least)
        rest = rest[np.argsort(cluster, kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(cluster))]).astype(np.int64)
        values = np.linspace(*DIABETES_RANGE, GRID)
        # users' labels are rounded to the nearest value of the grid
        labels = np.abs(progression[rest, None] - values).argmin(axis=1).astype(np.uint8)
        population = Population(features[rest], labels, offsets, GRID)
        return RegressionUsers(population, values, features[held], progression[held].astype(np.float64))


BINS, DEBIASED, UNBIASED = "RR-on-Bins", "RR-on-Bins, debiased", "unbiased"
PAID = ", prior paid for"
EXCHANGED, KNOWING = "exchanged ", ", cluster means"
LOCAL = (BINS, DEBIASED, UNBIASED, BINS + PAID, UNBIASED + PAID)
EXCHANGES = tuple(EXCHANGED + name + end for name in (DEBIASED, UNBIASED) for end in ("", KNOWING))
METHODS = (*LOCAL, EXCHANGED + BINS, *EXCHANGES)
PAYING = 10
"""Some methods have `PAID` in their names. In these methods some users give their labels only to estimate the prior
(the law of labels): on average one of this many users."""


@dataclass(frozen=True)
class Released:
    """The values that a learner gets.

    user: (m,) the user to whom the learner attributes each of m arrived values. value: (m,) these values. noise: mean
    variance of a value given its label. epsilon: ε at the learner. epsilon_local: ε₀ of a single message.
    """

    user: NDArray[np.integer]
    value: Floats
    noise: float
    epsilon: float
    epsilon_local: float


def release(method: str, people: RegressionUsers, epsilon: float, delta: float, streams: Streams) -> Released:
    """Releases the labels of one replicate, such that the learner's ε at δ is at most `epsilon`.

    Args:
        method: one of `METHODS`. "RR-on-Bins", "RR-on-Bins, debiased" and "unbiased" are randomizers alone. If a name
        ends with `PAID`, about one user in ten gives her label only to estimate the law of labels. The randomizer of
        the other users is then fitted to this law. If a name begins with `EXCHANGED`, messages pass through the label
        exchange. The ending `KNOWING` changes what the learner uses, not the release. people: users with labels on a
        public grid of values. epsilon, delta: the bound at the learner; a randomizer alone has this ε at δ = 0.
        streams: random numbers of the replicate.
    """
    base = method.removeprefix(EXCHANGED).removesuffix(KNOWING)
    kind = UnbiasedValues if base.startswith(UNBIASED) else RrOnBins
    values = tuple(people.values.tolist())
    if method.startswith(EXCHANGED):
        # with this noise the exchange has this ε in the worst cluster; the sampling rate θ is 1
        sizes = np.unique(people.population.cluster_sizes)
        noise = _calibrated(kind, values, epsilon, tuple(sizes.tolist()), delta)
        opened = Network.open(NetworkConfig(), people.population, streams)
        submitted = Exchange(noise, 1.0, "vectorised").run(people.population, opened, False, None)
        bounds = LabelExchangeMechanism(noise, 1.0, "vectorised").privacy(sizes, delta)
        numbers = _numbers(noise, base)
        return Released(
            submitted.user, numbers[submitted.payload.astype(np.intp)], noise=_noise_variance(noise, numbers),
            epsilon=max(bound.epsilon_upper for bound in bounds), epsilon_local=noise.local_epsilon,
        )  # fmt: skip
    # each user sends her own noisy value, at ε
    user: NDArray[np.integer] = np.arange(people.population.num_users)
    prior = None
    if base.endswith(PAID):
        # some users answer by randomised response at ε, for the prior alone
        pays = streams.generator("half").random(people.population.num_users) < 1.0 / PAYING
        response = RandomizedResponse(local_flip_prob(epsilon, len(values)), len(values))
        answers = response.randomize(people.population.labels[pays], streams.generator("prior"))
        user, prior = np.flatnonzero(~pays), prior_of(answers, response)
    local = kind(epsilon, values, prior)
    payload, numbers = local.randomize(people.population.labels[user], streams.generator("flip")), _numbers(local, base)
    return Released(
        user, numbers[payload], _noise_variance(local, numbers), epsilon=epsilon, epsilon_local=local.local_epsilon
    )


def _numbers(noise: ValueMessage, base: str) -> Floats:
    """The number that a learner takes for each possible message of a randomizer. Usually this is the message's output
    value. For "RR-on-Bins, debiased" the numbers undo the noise: given a label, the expected number is the prior mean
    of the label's bin (interval of labels). base: the method's name without the words for the exchange and for cluster
    means.
    """
    payloads = np.arange(len(noise.outputs))
    return noise.debiased(payloads) if base == DEBIASED and isinstance(noise, RrOnBins) else noise.values_of(payloads)


def _noise_variance(noise: ValueMessage, numbers: Floats) -> float:
    """The variance, given a label, of the number that a learner takes for it. The variance is averaged over labels by
    the public prior.

    numbers: for each message, the number that the learner takes for it.
    """
    return float(np.array(noise.common_prior) @ (noise.law @ numbers**2 - (noise.law @ numbers) ** 2))


@lru_cache(maxsize=4096)
def _calibrated(kind: Callable[..., ValueMessage], values: tuple[float, ...], epsilon: float,
                sizes: tuple[int, ...], delta: float) -> ValueMessage:  # fmt: skip
    """The randomizer with which the learner of a label exchange has ε at δ in clusters of these sizes. Every user
    submits the message that she fetched (θ = 1). The result is cached for further replicates. kind: class of the
    randomizer, called with the ε₀ of a message and the grid of values. values: the public grid of label values.
    """
    return exchanged_at(partial(_randomizer, kind, values), epsilon, np.array(sizes), sampling_rate=1.0, delta=delta)


@lru_cache(maxsize=4096)
def _randomizer(kind: Callable[..., ValueMessage], values: tuple[float, ...], epsilon: float) -> ValueMessage:
    """The randomizer of a kind at ε for a grid of values, cached because it takes a linear programme.

    kind: class of the randomizer, called with ε and the grid. values: the public grid of label values. epsilon: ε.
    """
    return kind(epsilon, values)


def ridge(features: Floats, values: Floats, noise: float, span: float, spread: Floats) -> Callable[[Floats], Floats]:
    """Ridge regression with a penalty from public numbers alone; returns the prediction as a function of features.

    The prediction is a posterior mean under two assumptions. The coefficients of standardised features are normal, and
    together explain a variance of (span/4)². Values have the variance (span/4)² + noise around the prediction.
    (span/4)² is a public guess: the true variances depend on private labels.

    Args:
        features: (n, d). values: (n,). noise: variance of a value given its label. span: width of the labels' range.
        spread: (d,) standard deviations of the users' features, each above 0, by which features are scaled.
    """
    middle = features.mean(axis=0)
    X, y = (features - middle) / spread, values - values.mean()
    penalty = X.shape[1] * (1.0 + noise / (span / 4.0) ** 2)
    weights = np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ y)
    return lambda points: values.mean() + ((points - middle) / spread) @ weights


def learned(method: str, people: RegressionUsers, released: Released) -> Callable[[Floats], Floats]:
    """The prediction, a function of features, that a learner makes from a release.

    The learner knows users' features. With cluster means (names that end with `KNOWING`) only the mean features of each
    cluster are used.
    """
    features, cluster = people.population.features, people.cluster
    spread = features.std(axis=0)
    if method.endswith(KNOWING):
        sums = np.stack([np.bincount(cluster, weights=column) for column in features.T], axis=1)
        features = (sums / np.bincount(cluster)[:, None])[cluster]
    span = float(people.values[-1] - people.values[0])
    return ridge(features[released.user], released.value, released.noise, span, spread)


def without_privacy(people: RegressionUsers) -> Callable[[Floats], Floats]:
    """The prediction, a function of features, that ridge regression makes of the true labels of all users."""
    features, values = people.population.features.astype(np.float64), people.values[people.population.labels]
    return ridge(features, values, 0.0, float(people.values[-1] - people.values[0]), features.std(axis=0))


def risk(prediction: Callable[[Floats], Floats], people: RegressionUsers) -> float:
    """Mean squared distance of predictions from targets: the excess risk if a law is known, else the test error."""
    return float(np.mean((prediction(people.points) - people.target) ** 2))
