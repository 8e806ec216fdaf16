"""RRWithPrior: randomised response among the likely labels of a prior, in one or two stages.

The mechanisms with one and two stages are LP-1ST and LP-2ST (Ghazi et al. 2021).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import BLOCK, Config, InputError, bernoulli
from p2p_sim.exchange import Message, check_labels
from p2p_sim.mechanisms.channels import LocalAccountant, LocalChannel
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.mechanism import Column
from p2p_sim.mechanisms.noise_law import NoiseLaw
from p2p_sim.mechanisms.outcome import Floats, LabelRelease, Outcome
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network import Network
from p2p_sim.population import People, Population
from p2p_sim.privacy import (
    ONE_LABEL,
    PUBLIC_PRIOR,
    Accountant,
    Bracket,
    Condition,
    local_advantage,
    local_flip_prob,
    pure_delta,
)
from p2p_sim.privacy.rivals import best_candidates, by_prior, top_k_law

QUERIES = 4_096
"""Number of points whose neighbours are looked up at a time, to limit the memory."""


@dataclass(frozen=True)
class NeighbourMeans:
    """The mean vector at a point: the mean over the k rows that are nearest to the point (Euclidean distance).

    Args:
        features: (m, d) rows, m at least 1. vectors: (m, K) float32, a vector for each row.
        neighbours: k, at least 1. If there are fewer than k rows, all rows are used.
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


NEIGHBOURS = 200
"""Default number of users from whose noisy labels a prior is made."""
LARGEST_LAW = 2**24
"""Largest number of entries that the tables of a noise law may have together."""
CONDITIONS = (
    ONE_LABEL,
    Condition(
        "public-halves",
        "users' halves are public and drawn without the labels; the first half alone decides the second half's priors",
    ),
)


@dataclass(frozen=True)
class RRWithPrior(Message):
    """Randomised response among the k most likely labels of a prior. The number k maximises the probability that the
    true label is sent.

    Args:
        target_epsilon: ε, above 0 and at most 100.
        num_classes: K, from 2 to 256.
        prior: K probabilities that depend on no label; None: equal, which gives plain randomised response.
    """

    target_epsilon: float
    num_classes: int
    prior: tuple[float, ...] | None = None

    kind: ClassVar[str] = "rr_with_prior"
    parameters: ClassVar[dict[str, float]] = {"stages": 1}
    """One stage: a user's message does not depend on other users' messages."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Further conditions of ε₀, the ε of one message: a given prior is public."""
        return () if self.prior is None else (PUBLIC_PRIOR,)

    @property
    def common_prior(self) -> Floats:
        """The common prior (K,): class probabilities for users without a prior of their own; uniform if not given."""
        return np.full(self.num_classes, 1.0 / self.num_classes) if self.prior is None else np.array(self.prior)

    @property
    def candidates(self) -> int:
        """Number k of labels that may be sent under the common prior."""
        return int(best_candidates(self.common_prior, self.target_epsilon))

    @property
    def among_candidates(self) -> RandomizedResponse | None:
        """Randomised response among the k labels that may be sent under the common prior; None if k = 1."""
        k = self.candidates
        return RandomizedResponse(self.flip_prob(k), k) if k > 1 else None

    @property
    def local_epsilon(self) -> float:
        """ε₀, the ε of one message, under the common prior; 0 if only one label may be sent."""
        return self.among_candidates.local_epsilon if self.among_candidates else 0.0

    @property
    def total_variation(self) -> float:
        """Largest total variation distance of two labels' messages under the common prior; 0 if they are constant."""
        return self.among_candidates.total_variation if self.among_candidates else 0.0

    @property
    def payload_bits(self) -> int:
        return (self.num_classes - 1).bit_length()

    def flip_prob(self, candidates: int) -> float:
        """The smallest flip probability α with which randomised response among `candidates` labels is ε-private."""
        return local_flip_prob(self.target_epsilon, candidates) if candidates > 1 else 0.0

    def attained(self, delta: float) -> float:
        """A lower bound of ε at δ for one message under the common prior; 0 if only one label may be sent."""
        return self.among_candidates.attained(delta) if self.among_candidates else 0.0

    def randomize(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws the messages (n,), which are noisy labels, for labels (n,) under the common prior."""
        prior, rows = self.common_prior[None, :], max(1, BLOCK // self.num_classes)
        blocks = [self.with_priors(labels[i : i + rows], prior, rng) for i in range(0, labels.size, rows)]
        return np.concatenate([np.zeros(0, np.uint8), *blocks])

    def with_priors(self, labels: NDArray[np.uint8], priors: Floats, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draws noisy labels (n,) for labels (n,). `priors` has a row for each user, or a single row for all users."""
        check_labels(labels, self.num_classes)
        order, k = by_prior(priors), best_candidates(priors, self.target_epsilon)
        rank = np.argmax(order == labels[:, None], axis=1)
        likely = rank < k
        flip_probs = np.array([self.flip_prob(count) for count in range(int(k.max(initial=0)) + 1)])  # for each k
        flip = ~likely | (rng.random(labels.size) < flip_probs[k])
        # uniform among the k most likely labels, without the true label
        replacement = (rng.random(labels.size) * (k - likely)).astype(np.int64)
        replacement += likely & (replacement >= rank)
        chosen = np.where(flip, replacement, rank)
        order = np.broadcast_to(order, (labels.size, self.num_classes))
        return np.take_along_axis(order, chosen[:, None], axis=1)[:, 0].astype(np.uint8)

    @property
    def transition(self) -> Floats:
        """A table (K, K) under the common prior: entry [y, z] is the probability that the label y is sent as z."""
        return self.transition_among(self.likeliest(self.common_prior[None, :])[0])

    def likeliest(self, priors: Floats) -> NDArray[np.bool_]:
        """The labels that may be sent under each prior, as a mask (n, K): the k most likely labels. Each prior has its
        own k, which maximises the probability that the true label is sent.

        Args:
            priors: (n, K), a prior over K classes in each row.
        """
        order, k = by_prior(priors), best_candidates(priors, self.target_epsilon)
        likely = np.zeros(priors.shape, dtype=np.bool_)
        np.put_along_axis(likely, order, np.arange(self.num_classes) < np.reshape(k, (-1, 1)), axis=1)
        return likely

    def transition_among(self, candidates: NDArray[np.bool_]) -> Floats:
        """A table (K, K) of the noise if only some labels, the candidates, may be sent. Entry [y, z] is the probability
        that the label y is sent as z. A candidate goes through randomised response among the candidates, at the target
        ε. Any other label is replaced by a uniformly random candidate.

        Args:
            candidates: (K,), whether each label may be sent.
        """
        k = int(candidates.sum())
        return top_k_law(candidates / k, k, self.target_epsilon)


def check_prior(key: str, prior: tuple[float, ...] | None, num_classes: int) -> None:
    """Raise InputError unless `prior` is None or a distribution over K classes. `key`: the prior's name in errors."""
    if prior is not None and len(prior) != num_classes:
        raise InputError(f"{key}: {len(prior)} probabilities are given for {num_classes} classes")
    if prior is not None and (min(prior) < 0 or not math.isclose(sum(prior), 1.0, abs_tol=1e-6)):
        raise InputError(f"{key} = {list(prior)}: must be probabilities that sum to 1")


@dataclass(frozen=True)
class EitherStage(LocalAccountant):
    """Accountant of a message of either stage. In the second stage, only ε₀ of each user's randomizer is known."""

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε) of one message: 0, and the δ(ε) of binary randomised response with the same ε₀.

        ε₀ is an upper bound of a message's ε at δ = 0, in both stages. No mechanism with this ε₀ has a larger δ(ε).
        """
        return Bracket(0.0, pure_delta(self.local_epsilon, epsilon))


class RRWithPriorConfig(LocalChannel):
    """Label privacy in one or two stages (LP-1ST, LP-2ST) by RRWithPrior; no trusted party and no amplification.

    In two stages, a random half of the users sends first, with a common prior. A user of the other half then has her
    own prior: the share of each class among noisy labels of her nearest neighbours in the first half. These priors do
    not depend on labels of the second half. A user is in only one half, so the total is ε (parallel composition).
    """

    kind: Literal["rr_with_prior"] = "rr_with_prior"
    described: ClassVar[str] = "RRWithPrior, every user on her own"
    conditions: ClassVar[tuple[str, ...]] = CONDITIONS
    columns: ClassVar[tuple[Column, ...]] = (Column("stages", "stages"),)
    target_epsilon: float = Field(gt=0, le=100)
    """ε, above 0 and at most 100."""
    stages: Literal[1, 2] = 2
    """1: all users send with the common prior; 2: half of the users do; their noisy labels make the others' priors."""
    prior: tuple[float, ...] | None = Field(default=None, min_length=2, max_length=256)
    """Common prior: K public probabilities that do not come from the labels; absent: equal."""
    neighbours: int | None = Field(default=None, ge=1)
    """Number of users of the first half from whose noisy labels a prior is made, at least 1; absent:
    `learner.neighbours` if the learner is "knn", else 200."""

    def beside(self, learner: Config) -> Self:
        """This configuration with `neighbours` set: a prior is made from the noisy labels of so many nearest users. An
        absent number becomes the number of a "knn" learner (only in two stages), or 200.

        Args:
            learner: the configuration of the scenario's learner.
        """
        if self.neighbours is not None:
            return self
        follows = self.stages == 2 and getattr(learner, "kind", None) == "knn"
        return self.model_copy(
            update={"neighbours": getattr(learner, "neighbours", NEIGHBOURS) if follows else NEIGHBOURS}
        )

    def check(self, num_classes: int) -> None:
        check_prior("mechanism.prior", self.prior, num_classes)

    def calibrated(self, setup: Setup) -> Self:
        return self.model_copy(update={"neighbours": self.neighbours or NEIGHBOURS})

    def randomizer(self, setup: Setup) -> RRWithPrior:
        return RRWithPrior(self.target_epsilon, setup.num_classes, self.prior)

    def release_on(
        self, opened: Network, population: People, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        """Makes the users' labels noisy and returns the noisy labels. In one stage, all users use the common prior. In
        two stages, a random half of the users sends first with this prior. The prior of each other user is made from
        the noisy labels of her nearest users in the first half. The outcome then marks, for each released
        label, the classes that might have been released.

        In two stages, the first stage runs on all users even if `part` selects some: any label may enter a prior.

        Args:
            opened: the network and random streams of this replicate. population: the users. record: not used. part:
            (start, stop), indices of the shards (groups of whole clusters) whose users' labels are returned; None: all.
        """
        if self.stages == 1:
            return super().release_on(opened, population, record, part)
        population = cast(Population, population)  # not run shard by shard, so all users are in memory
        noise, streams, every = self.randomizer(self.setup), opened.streams, population.shards
        # half of the users send first, with the common prior; their noisy labels give the priors of the other half
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
        """Public probabilities of each released label given the true label; None if there would be more than 2^24
        entries. In two stages, there is a table (K, K) for each set of classes among which labels were drawn. Entry
        [y, z] is the probability that the true label y is released as z.

        Args:
            outcome: the released labels; in two stages with the set of classes of each label.
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
        """The priors of the second stage: at any point of feature space, the share of each class among the noisy labels
        of the nearest users of the first stage. If no user is in the first stage, the common prior is used.

        Args:
            features: (m, d), of the m users of the first stage. noisy: (m,), their noisy labels.
        """
        k = self.setup.num_classes
        if not len(noisy):
            common = self.randomizer(self.setup).common_prior.astype(np.float32)
            return NeighbourMeans(np.zeros((1, features.shape[1])), common[None, :], 1)
        votes = np.zeros((len(noisy), k), dtype=np.float32)
        votes[np.arange(len(noisy)), noisy.astype(np.intp)] = 1.0
        return NeighbourMeans(features, votes, self.neighbours or NEIGHBOURS)

    def accountant(self, setup: Setup, size: int) -> Accountant:
        """The accountant of a user's message against a learner who knows the sender. The accountant is the same
        for every cluster.

        Args:
            setup: facts of the scenario; the number of classes is used. size: not used.
        """
        if self.stages == 1:
            return super().accountant(setup, size)
        return EitherStage(self.randomizer(setup), self.target_epsilon, self.conditions)

    def local_advantage(self, num_classes: int) -> float | None:
        """Upper bound of what a message adds to the probability to guess the label right. Before the message, all K
        labels are equally likely. In two stages, the bound holds for any ε-private message. The exact value depends on
        priors that are not known beforehand.

        Args:
            num_classes: number K of labels.
        """
        if self.stages == 1:
            return super().local_advantage(num_classes)
        return local_advantage(1.0, self.target_epsilon, num_classes)

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float | None:
        return super().local_epsilon(sizes) if self.stages == 1 else self.target_epsilon


def packed(noise: RRWithPrior, priors: Floats) -> NDArray[np.uint8]:
    """The labels that may be sent under each of the priors (n, K), as packed bits (n, ceil(K/8))."""
    return np.packbits(noise.likeliest(priors), axis=1)
