"""RRWithPrior, and with it label privacy in one or two stages (LP-1ST, LP-2ST; Ghazi et al. 2021)."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import BLOCK, bernoulli
from p2p_sim.exchange.randomizer import Message, check_labels
from p2p_sim.mechanisms.channels import LocalAccountant, LocalChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.mechanism import Column
from p2p_sim.mechanisms.noise_law import NoiseLaw
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.network.network_config import Network
from p2p_sim.population.population import People, Population
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.conditions import ONE_LABEL, PUBLIC_PRIOR, Condition
from p2p_sim.privacy.guessing_advantage import local_advantage
from p2p_sim.privacy.randomized_response import local_delta, local_epsilon, local_flip_prob
from p2p_sim.privacy.rivals.rr_with_prior import best_candidates, by_prior, top_k_law

QUERIES = 4_096
"""Rows that are looked up at a time, so that memory does not grow with their number."""


@dataclass(frozen=True)
class NeighbourMeans:
    """Averages vectors over nearest neighbours: at a point, the mean of the vectors of its k nearest rows (Euclidean).

    Args:
        features: (m, d), m at least 1.
        vectors: (m, K) numbers, float32, one for each row.
        neighbours: k, at least 1; all rows where there are fewer.
    """

    features: NDArray[np.floating]
    vectors: NDArray[np.float32]
    neighbours: int

    @cached_property
    def _index(self) -> Any:
        from sklearn.neighbors import NearestNeighbors

        return NearestNeighbors(n_neighbors=min(self.neighbours, len(self.features))).fit(self.features)

    def at(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Returns the mean vector (n, K) at each of the points (n, d)."""
        from scipy.sparse import csr_array

        out = np.empty((len(points), self.vectors.shape[1]))
        for start in range(0, len(points), QUERIES):
            near = self._index.kneighbors(points[start : start + QUERIES], return_distance=False)
            rows, k = near.shape
            ends = np.arange(0, rows * k + 1, k)
            sums = csr_array((np.ones(rows * k, np.float32), near.ravel(), ends), shape=(rows, len(self.features)))
            out[start : start + rows] = (sums @ self.vectors) / k
        return out


Floats = NDArray[np.float64]
NEIGHBOURS = 200
"""Default number of users whose noisy labels make a prior."""
LARGEST_LAW = 2**24
"""Most entries of the matrices of a noise law."""
CONDITIONS = (
    ONE_LABEL,
    Condition(
        "public-halves",
        "the halves are public and drawn without the labels, and the first half alone decides the second half's priors",
    ),
)


@dataclass(frozen=True)
class RRWithPrior(Message):
    """Randomised response among the k labels that a prior finds most likely; k maximises the chance to keep the label.

    Args:
        target_epsilon: ε, above 0 and at most 100.
        num_classes: K, from 2 to 256.
        prior: K probabilities that depend on no label; absent: all the same, which makes it plain randomised response.
    """

    target_epsilon: float
    num_classes: int
    prior: tuple[float, ...] | None = None

    kind: ClassVar[str] = "rr_with_prior"
    parameters: ClassVar[dict[str, float]] = {"stages": 1}
    """One stage: what a user says does not depend on what others said."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Conditions of ε₀ beyond those of any message: a prior, if there is one, must be public."""
        return () if self.prior is None else (PUBLIC_PRIOR,)

    @property
    def common_prior(self) -> Floats:
        """Prior probabilities (K,) of users who have no prior of their own; uniform if none is given."""
        return np.full(self.num_classes, 1.0 / self.num_classes) if self.prior is None else np.array(self.prior)

    @property
    def candidates(self) -> int:
        """Number k of labels that may be sent under the common prior."""
        return int(best_candidates(self.common_prior, self.target_epsilon))

    @property
    def local_epsilon(self) -> float:
        """ε₀ of a message under the common prior; 0 for k = 1, where the message is constant."""
        k = self.candidates
        return local_epsilon(self.flip_prob(k), k) if k > 1 else 0.0

    @property
    def total_variation(self) -> float:
        """Largest total variation between two labels' messages under the common prior: 1 - αk/(k-1); 0 if k is 1."""
        k = self.candidates
        return local_delta(self.flip_prob(k), 0.0, k).upper if k > 1 else 0.0

    @property
    def payload_bits(self) -> int:
        """Size of one message in bits: enough to name one of K classes."""
        return (self.num_classes - 1).bit_length()

    def flip_prob(self, candidates: int) -> float:
        """Flip probability α of randomised response among `candidates` labels; the smallest that is ε-private."""
        return local_flip_prob(self.target_epsilon, candidates) if candidates > 1 else 0.0

    @cached_property
    def _flip_probs(self) -> Floats:
        """Flip probability α for each number k of candidate labels, 0 to K: (K+1,)."""
        return np.array([self.flip_prob(k) for k in range(self.num_classes + 1)])

    def attained(self, delta: float) -> float:
        """Returns ln((1-α-δ)(k-1)/α), below which no ε is valid at δ for one message under the common prior."""
        k = self.candidates
        alpha = self.flip_prob(k)
        numerator = (1.0 - alpha - delta) * (k - 1)
        return max(0.0, math.log(max(numerator / alpha, 1.0)) * (1.0 - 1e-12)) if k > 1 else 0.0

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns the users' messages under the common prior: a noisy label (n,) for each of the labels (n,)."""
        prior, rows = self.common_prior[None, :], self._block
        blocks = [self.with_priors(labels[i : i + rows], prior, rng) for i in range(0, labels.size, rows)]
        return np.concatenate([np.zeros(0, np.uint8), *blocks])

    def with_priors(self, labels: NDArray[np.uint8], priors: Floats, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns noisy labels (n,) of the labels (n,), with a prior for each user (n, K) or one for all (1, K)."""
        check_labels(labels, self.num_classes)
        order, k = by_prior(priors), best_candidates(priors, self.target_epsilon)
        rank = np.argmax(order == labels[:, None], axis=1)
        likely = rank < k
        flip = ~likely | (rng.random(labels.size) < self._flip_probs[k])
        # a uniform one of the k likeliest labels, the label itself left out
        replacement = (rng.random(labels.size) * (k - likely)).astype(np.int64)
        replacement += likely & (replacement >= rank)
        chosen = np.where(flip, replacement, rank)
        order = np.broadcast_to(order, (labels.size, self.num_classes))
        return np.take_along_axis(order, chosen[:, None], axis=1)[:, 0].astype(np.uint8)

    @property
    def transition(self) -> Floats:
        """Matrix (K, K) under the common prior: entry [y, z] is the probability that the label y is sent as z."""
        return self.transition_among(self.likeliest(self.common_prior[None, :])[0])

    def likeliest(self, priors: Floats) -> NDArray[np.bool_]:
        """Marks (n, K) the labels that may be sent under each of the priors (n, K): the k most likely ones."""
        order, k = by_prior(priors), best_candidates(priors, self.target_epsilon)
        likely = np.zeros(priors.shape, dtype=np.bool_)
        np.put_along_axis(likely, order, np.arange(self.num_classes) < np.reshape(k, (-1, 1)), axis=1)
        return likely

    def transition_among(self, candidates: NDArray[np.bool_]) -> Floats:
        """Matrix (K, K) of the noise if the mask `candidates` (K,) marks the labels that may be sent.

        A label outside the candidates is sent as any of them, equally likely.
        """
        k = int(candidates.sum())
        return top_k_law(candidates / k, k, self.target_epsilon)

    @property
    def _block(self) -> int:
        return max(1, BLOCK // self.num_classes)


def check_prior(key: str, prior: tuple[float, ...] | None, num_classes: int) -> None:
    """Raise InputError if a prior, given under the key `key`, is no distribution over K classes; None is allowed."""
    if prior is not None and len(prior) != num_classes:
        raise InputError(f"{key}: {len(prior)} probabilities are given for {num_classes} classes")
    if prior is not None and (min(prior) < 0 or not math.isclose(sum(prior), 1.0, abs_tol=1e-6)):
        raise InputError(f"{key} = {list(prior)}: must be probabilities that sum to 1")


class RRWithPriorConfig(LocalChannel):
    """Label privacy in one or two stages (LP-1ST, LP-2ST) by RRWithPrior; no trusted party and no amplification.

    In two stages a random half of the users sends first, with a common prior. The prior of each user of the other half
    is then the shares of noisy labels among her nearest neighbours of the first half. The second half's priors do not
    depend on its labels, and a user is in only one half: the total is ε (parallel composition).
    """

    kind: Literal["rr_with_prior"] = "rr_with_prior"
    described: ClassVar[str] = "RRWithPrior, every user on her own"
    conditions: ClassVar[tuple[str, ...]] = CONDITIONS
    columns: ClassVar[tuple[Column, ...]] = (Column("stages", "stages"),)
    target_epsilon: float = Field(gt=0, le=100)
    """ε, above 0 and at most 100."""
    stages: Literal[1, 2] = 2
    """1: all users have the common prior; 2: half of them send first, then the others."""
    prior: tuple[float, ...] | None = Field(default=None, min_length=2, max_length=256)
    """Common prior: K public probabilities that do not come from the labels; absent: all the same."""
    neighbours: int | None = Field(default=None, ge=1)
    """Users of the first half whose noisy labels make a prior, at least 1; absent: as many as `learner.neighbours`
    where the learner is "knn", else 200."""

    def beside(self, learner: Config) -> Self:
        """This configuration with its number of neighbours filled in, from a "knn" learner or by default."""
        if self.neighbours is not None:
            return self
        follows = self.stages == 2 and getattr(learner, "kind", None) == "knn"
        return self.model_copy(
            update={"neighbours": getattr(learner, "neighbours", NEIGHBOURS) if follows else NEIGHBOURS}
        )

    def check(self, num_classes: int) -> None:
        """Raise InputError if the prior is no distribution over K classes."""
        check_prior("mechanism.prior", self.prior, num_classes)

    def calibrated(self, setup: Setup) -> Self:
        return self.model_copy(update={"neighbours": self.neighbours or NEIGHBOURS})

    def randomizer(self, setup: Setup) -> RRWithPrior:
        return RRWithPrior(self.target_epsilon, setup.num_classes, self.prior)

    def release_on(
        self, opened: Network, population: People, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        """Runs one or two stages and returns noisy labels; in two stages with the labels that each could have become.

        If a part of the shards is asked for, the first stage still runs on all shards, since priors come from it.
        """
        if self.stages == 1:
            return super().release_on(opened, population, record, part)
        population = cast(Population, population)  # by_shard is false
        noise, streams, every = self.randomizer(self.setup), opened.streams, population.shards
        # Half of the users send first, with the common prior; what they send teaches the others' priors.
        goes_first = np.concatenate([bernoulli(streams.generator("half", s.index), 0.5, s.size) for s in every])
        noisy = super().release_on(opened, population).labels.payload
        means = self._learn(population.features[goes_first], noisy[goes_first])
        among = np.repeat(packed(noise, noise.common_prior[None, :]), len(noisy), axis=0)
        chosen = every[slice(*(part or (None,)))]
        for shard in chosen:
            second = shard.start + np.flatnonzero(~goes_first[shard.start : shard.stop])
            rng = streams.generator("second", shard.index)
            for block in np.array_split(second, second.size * noise.num_classes // BLOCK + 1):
                priors = means.at(population.features[block])
                among[block] = packed(noise, priors)
                noisy[block] = noise.with_priors(population.labels[block], priors, rng)
        user = np.concatenate([np.zeros(0, np.int32), *(np.arange(s.start, s.stop, dtype=np.int32) for s in chosen)])
        return Outcome(LabelRelease(user, noisy[user], "hard", among[user]))

    def noise_law(self, outcome: Outcome) -> NoiseLaw | None:
        """Probabilities of each released label given the true one, with one matrix for each set of candidate labels.

        None if the matrices would have more than 2^24 entries.
        """
        candidates = outcome.labels.candidates
        if candidates is None:
            return super().noise_law(outcome)
        noise, k = self.randomizer(self.setup), self.setup.num_classes
        sets, group = np.unique(candidates, axis=0, return_inverse=True)
        if len(sets) * k * k > LARGEST_LAW:
            return None
        among = np.unpackbits(sets, axis=1, count=k).astype(np.bool_)
        return NoiseLaw(np.stack([noise.transition_among(labels) for labels in among]), "user", group.ravel())

    def _learn(self, features: NDArray[np.floating], noisy: NDArray[np.generic]) -> NeighbourMeans:
        """Class shares of the first half's noisy labels near any point, as priors of the second half.

        If the first half is empty, it is the common prior everywhere.
        """
        k = self.setup.num_classes
        if not len(noisy):
            common = self.randomizer(self.setup).common_prior.astype(np.float32)
            return NeighbourMeans(np.zeros((1, features.shape[1])), common[None, :], 1)
        votes = np.zeros((len(noisy), k), dtype=np.float32)
        votes[np.arange(len(noisy)), noisy.astype(np.intp)] = 1.0
        return NeighbourMeans(features, votes, self.neighbours or NEIGHBOURS)

    def accountant(self, setup: Setup, size: int) -> Accountant:
        """Accountant of a user's single message, seen with her name; the cluster size does not matter."""
        noise = self.randomizer(setup)
        pure = noise.local_epsilon if self.stages == 1 else self.target_epsilon
        return LocalAccountant(noise, pure, self.conditions)

    def local_advantage(self, num_classes: int) -> float | None:
        """Upper bound of the guessing advantage of an observer of a message; in two stages for any ε-private message.

        Priors of the second stage are not known beforehand.
        """
        if self.stages == 1:
            return super().local_advantage(num_classes)
        return local_advantage(1.0, self.target_epsilon, num_classes)

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        return super().local_epsilon(sizes) if self.stages == 1 else self.target_epsilon


def packed(noise: RRWithPrior, priors: Floats) -> NDArray[np.uint8]:
    """The labels that may be sent under each of the priors (n, K), as packed bits (n, ceil(K/8))."""
    return np.packbits(noise.likeliest(priors), axis=1)
