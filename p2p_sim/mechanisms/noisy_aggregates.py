"""Noisy class counts of bags (groups) of users, computed by a trusted curator or by the users themselves.

If users compute the counts of their bag, nobody sees a label. Each user adds a share of the noise to her one-hot label.
She splits the result into numbers modulo 2^64, one for each helper of her bag. All these numbers except the last are
drawn uniformly; the last makes the sum right. Each helper sends the learner the sum of the received numbers. The
learner adds these sums up; the total is the bag's noisy count. A helper sees uniform numbers only. All helpers of a bag
together could read each user's noisy label.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import InputError, Streams, bernoulli
from p2p_sim.exchange import check_labels
from p2p_sim.mechanisms.deployment import Setup, Trust
from p2p_sim.mechanisms.mechanism import NOISE_SCALE, Column, Mechanism
from p2p_sim.mechanisms.noise_law import to_simplex
from p2p_sim.mechanisms.outcome import LabelRelease, ReleaseKind
from p2p_sim.privacy import Condition
from p2p_sim.privacy.rivals import (
    CURATED,
    LARGEST_SCALE,
    LEAST_SCALE,
    SHARED,
    NoisyCounts,
    counts_scale,
    messages_epsilon,
)

Words = NDArray[np.uint64]


def noise_share(
    size: tuple[int, ...], shares: NDArray[np.int64] | int, noise_scale: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draws independent random whole numbers (shares of noise). The sum of h shares is two-sided geometric noise of
    scale σ: a noise z has probability proportional to e^(-|z|/σ). A share is the difference of two negative binomial
    variables with r = 1/h. For h = 1 a share is the whole noise.

    Args:
        size: shape of the result. shares: h, at least 1; a number, or an array that broadcasts to `size`. noise_scale:
        σ, above 0. rng: draws the shares.
    """
    success = -np.expm1(-1.0 / noise_scale)
    r = np.broadcast_to(1.0 / np.asarray(shares, dtype=np.float64), size)
    first, second = (rng.negative_binomial(r, success, size) for _ in range(2))
    return np.asarray(first - second, dtype=np.int64)


def secret_shares(values: NDArray[np.int64], helpers: int, rng: np.random.Generator) -> Words:
    """Splits each of k numbers of each of n users into H random numbers (H, n, k), one for each of H helpers. The H
    numbers sum to the split number modulo 2^64. Any H - 1 of the H numbers are uniform and reveal nothing.

    Args:
        values: (n, k), may be negative. helpers: H. rng: draws the random numbers.
    """
    sent = rng.integers(0, 2**64, size=(helpers, *values.shape), dtype=np.uint64)
    sent[-1] = values.view(np.uint64) - sent[:-1].sum(axis=0, dtype=np.uint64)
    return sent


def helper_sums(sent: Words, bag: NDArray[np.int64], bags: int) -> Words:
    """The sums (H, B, k) modulo 2^64 that the H helpers send to the learner. A helper sends one sum for each of B
    groups (bags) of users and each of k counts.

    Args:
        sent: (H, n, k) the numbers that each helper got from each of n users, one for each count. bag: (n,) the group
        of each user. bags: B, the number of groups.
    """
    sums = np.zeros((len(sent), bags, sent.shape[2]), dtype=np.uint64)
    for helper, got in zip(sums, sent, strict=True):
        np.add.at(helper, bag, got)
    return sums


def totals(sums: Words) -> NDArray[np.int64]:
    """Noisy counts (B, k) of B groups (bags) of users, as signed numbers. The helpers' sums are added modulo 2^64.

    Args:
        sums: (H, B, k), the sum that each of H helpers sends for each group and each count.
    """
    return np.asarray(sums.sum(axis=0, dtype=np.uint64).view(np.int64))


Counts = NDArray[np.int64]
ALL_HER_SHARES = (Condition("all-shares-of-one-user", "the observer reads all the shares that one user sends, once"),)


@dataclass(frozen=True)
class Bags:
    """The public bags (groups) of the users of a shard, which is a part of the clusters.

    bag: (n,) index of each user's bag. sizes: (B,) number of users in each bag.
    """

    bag: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @staticmethod
    def dealt(offsets: NDArray[np.int64], bag_size: int | None, rng: np.random.Generator) -> "Bags":
        """Divides the users of each cluster at random into nearly equal bags of at least `bag_size` users.

        Args:
            offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1. bag_size: least size; a smaller cluster
                is one bag. None: every cluster is one bag.
        """
        sizes = np.diff(offsets)
        many = np.ones_like(sizes) if bag_size is None else np.maximum(sizes // bag_size, 1)
        cluster = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((rng.random(len(cluster)), cluster))
        rank = np.arange(len(cluster)) - np.repeat(offsets[:-1], sizes)
        bag = np.empty(len(cluster), dtype=np.int64)
        bag[order] = np.repeat(np.cumsum(many) - many, sizes) + rank * many[cluster] // np.maximum(sizes, 1)[cluster]
        return Bags(bag, np.bincount(bag, minlength=int(many.sum())))


def bag_sizes(cluster_size: int, bag_size: int | None) -> tuple[int, int]:
    """Sizes of the smallest and of the largest bag when the users of a cluster are divided into bags.

    Args:
        cluster_size: number of users of the cluster. bag_size: least size of a bag; a smaller cluster is one bag. None:
        the cluster is one bag.

    >>> bag_sizes(25, 10), bag_sizes(5, None)
    ((12, 13), (5, 5))
    """
    many = 1 if bag_size is None else max(1, cluster_size // bag_size)
    return cluster_size // many, -(-cluster_size // many)


class BagCounts(NamedTuple):
    """The noisy counts of the bags of a shard.

    noisy: (B, k) noisy class counts of each bag. counted: (n,) whether the counts include each user.
    """

    noisy: Counts
    counted: NDArray[np.bool_]


def one_hot(labels: NDArray[np.uint8], num_classes: int) -> Counts:
    """What each of n users adds to the k class counts of her group: an array (n, k). For two classes k = 1, and she
    adds her label, 0 or 1. For K > 2 classes k = K, and she adds her one-hot label.

    Args:
        labels: (n,), classes 0 to K-1. num_classes: K.
    """
    check_labels(labels, num_classes)
    if num_classes == 2:
        return labels[:, None].astype(np.int64)
    return np.asarray(labels[:, None] == np.arange(num_classes), dtype=np.int64)


def shares_of(noisy: Counts, present: NDArray[np.int64], num_classes: int) -> NDArray[np.float64]:
    """Class shares (B, K) of each bag: noisy counts over numbers of users, moved to the nearest distribution.

    Args:
        noisy: (B, k) noisy counts; k = 1 for two classes, otherwise k = K. present: (B,) number of counted users of
            each bag, at least 1. num_classes: K.
    """
    share = noisy / present[:, None]
    return to_simplex(np.concatenate([1.0 - share, share], axis=1) if num_classes == 2 else share)


class Aggregates(Mechanism):
    """Base of mechanisms that release noisy class counts of bags (groups) of users. A user's soft label is the noisy
    class shares of her bag.
    """

    releases: ClassVar[ReleaseKind] = "soft"
    columns: ClassVar[tuple[Column, ...]] = (NOISE_SCALE,)
    one_of: ClassVar[tuple[str, ...]] = ("target_epsilon", "noise_scale")
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """Pure ε of a bag's counts, above 0 and at most 100: sets `noise_scale`."""
    noise_scale: float | None = Field(default=None, ge=LEAST_SCALE, le=LARGEST_SCALE)
    """σ: scale of two-sided geometric noise z on a count, of probability ∝ e^(-abs(z)/σ); 0.001 to 1,000,000."""
    bag_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """Least number of users in a bag, 1 to 1,000,000. Each cluster is dealt at random into as many bags as possible; a
    smaller cluster is one bag. Absent: each cluster is one bag."""

    def calibrated(self, setup: Setup) -> Self:
        if self.target_epsilon is None:
            return self
        return self.model_copy(
            update={"noise_scale": counts_scale(self.target_epsilon, setup.num_classes), "target_epsilon": None}
        )

    @property
    def scale(self) -> float:
        """Scale σ of the noise on a count: noise z has probability proportional to e^(-|z|/σ)."""
        return cast(float, self.noise_scale)

    @abstractmethod
    def noisy_counts(self, labels: NDArray[np.uint8], bags: Bags, streams: Streams) -> BagCounts:
        """Draws the noisy class counts (B, k) of B bags (groups of users), and a mask (n,) of the counted users. With
        two classes k = 1: only label 1 is counted. With K > 2 classes k = K. Users who left are not counted.

        Args:
            labels: (n,) true labels of the users of a shard. bags: the bag of each user. streams: random numbers of the
            shard.
        """

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """Returns a soft label (K class probabilities) for every counted user: the noisy class shares of her bag.

        Args:
            labels: (n,) true labels of the users of a shard. features: not used. clusters: (C+1,); cluster c holds
            users clusters[c]..clusters[c+1]-1, who are divided into bags. streams: random numbers of the shard.
        """
        bags = Bags.dealt(clusters, self.bag_size, streams.generator("bags"))
        noisy, counted = self.noisy_counts(labels, bags, streams)
        present = np.bincount(bags.bag[counted], minlength=len(bags.sizes))
        soft = shares_of(noisy, np.maximum(present, 1), self.setup.num_classes)
        payload = soft[bags.bag[counted]].astype(np.float32)
        return LabelRelease(np.flatnonzero(counted).astype(np.int32), payload, "soft")

    @abstractmethod
    def accountant(self, setup: Setup, size: int) -> NoisyCounts:
        """The learner's accountant for one user's label, given the noisy class counts of her bag (group of users).

        Args:
            setup: facts of the scenario; only the number of classes matters. size: number of users of her cluster. The
            upper bounds hold for every bag of the cluster. The lower bounds hold for its largest bag.
        """


class NoisyAggregatesConfig(Aggregates):
    """A trusted curator releases noisy class counts of bags; a user's soft label is her bag's noisy class shares."""

    kind: Literal["noisy_aggregates"] = "noisy_aggregates"
    trust: ClassVar[Trust] = "curator"
    described: ClassVar[str] = "a trusted curator who adds noise to the class counts of bags of users"
    conditions: ClassVar[tuple[str, ...]] = CURATED

    def accountant(self, setup: Setup, size: int) -> NoisyCounts:
        return NoisyCounts(setup.num_classes, self.scale)

    def noisy_counts(self, labels: NDArray[np.uint8], bags: Bags, streams: Streams) -> BagCounts:
        own = one_hot(labels, self.setup.num_classes)
        counts = np.stack([np.bincount(bags.bag[column > 0], minlength=len(bags.sizes)) for column in own.T], axis=1)
        noise = noise_share(counts.shape, 1, self.scale, streams.generator("bag-noise"))
        return BagCounts(counts + noise, np.ones(len(labels), dtype=np.bool_))


class NoiseSharesConfig(Aggregates):
    """The users of a bag compute its noisy class counts; each adds a share of the noise to her label.

    The noise suffices if at most `colluders` users of a bag collude with the learner and at most `leavers` users leave
    the bag. If more users leave it, the bag releases nothing.
    """

    kind: Literal["noise_shares"] = "noise_shares"
    described: ClassVar[str] = "shares of the noise on the class counts of bags, added up among users"
    conditions: ClassVar[tuple[str, ...]] = SHARED
    local_conditions: ClassVar[tuple[str, ...]] = ALL_HER_SHARES
    colluders: int = Field(default=1, ge=0, le=1_000_000)
    """c: number of users of a bag who may share with the learner what they see, 0 to 1,000,000."""
    leavers: int = Field(default=0, ge=0, le=1_000_000)
    """d: number of users of a bag who may leave before they send anything, 0 to 1,000,000."""
    helpers: int | None = Field(default=None, ge=2, le=1_000)
    """H: number of users of a bag who add up shares, above `colluders`, 2 to 1,000. Absent: the least such number."""
    leaving: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a user leaves before she sends anything, 0 to below 1. Helpers are users who stay."""

    @property
    def number_of_helpers(self) -> int:
        """The number H of helpers of a bag; by default `colluders` + 1, but at least 2."""
        return self.helpers or max(2, self.colluders + 1)

    @model_validator(mode="after")
    def _kept_from_helpers(self) -> Self:
        if self.helpers is not None and self.helpers <= self.colluders:
            raise ValueError(
                f"helpers = {self.helpers}: must be above colluders = {self.colluders}; helpers who all collude read "
                "every user's noisy label"
            )
        return self

    def calibrated(self, setup: Setup) -> Self:
        """This configuration with the noise scale σ fixed. A target ε gives the smallest σ with which a bag's noisy
        counts have this ε at δ = 0.

        Args:
            setup: facts of the scenario: cluster sizes and the number of classes K.

        Raises:
            InputError: a bag has too few users for the helpers and for the users who may leave.
        """
        least = min(bag_sizes(int(size), self.bag_size)[0] for size in setup.sizes)
        if least < self.leavers + self.number_of_helpers:
            raise InputError(
                f"mechanism: a bag of {least} users has too few for colluders = {self.colluders}, leavers = "
                f"{self.leavers} and {self.number_of_helpers} helpers; bags need "
                f"{self.leavers + self.number_of_helpers} users or more"
            )
        return super().calibrated(setup)

    def sharers(self, sizes: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """The number h of shares that add up to the whole noise in a bag (group) of n users: n minus `colluders` minus
        `leavers`, but at least 1. The learner knows the colluders' shares. More than h shares give more noise.

        Args:
            sizes: n, of one or several groups.
        """
        return np.maximum(sizes - self.colluders - self.leavers, 1)

    def accountant(self, setup: Setup, size: int) -> NoisyCounts:
        n = bag_sizes(size, self.bag_size)[1]
        surplus = n / int(self.sharers(n))
        released = 1.0
        if self.leaving > 0.0:
            # the probability that a user stays and at most `leavers` other users of her bag leave, rounded down
            import scipy

            others = float(scipy.special.bdtr(min(self.leavers, n - 1), n - 1, self.leaving))
            released = (1.0 - self.leaving) * others * (1.0 - 1e-9)
        return NoisyCounts(setup.num_classes, self.scale, "shares", surplus, released)

    def noisy_counts(self, labels: NDArray[np.uint8], bags: Bags, streams: Streams) -> BagCounts:
        """Draws the noisy class counts (B, k) that the users of each bag compute, and a mask (n,) of the counted users.
        Each user adds a share of the noise to her one-hot label. She sends the helpers random numbers that sum to the
        result. If more than `leavers` users leave a bag, too little noise would remain. Then no user of the bag is
        counted, and its counts are 0.

        Args:
            labels: (n,) true labels of the users of a shard. bags: the bag of each user. streams: random numbers of the
            shard.
        """
        stays = ~bernoulli(streams.generator("bag-leave"), self.leaving, len(labels))
        leavers = np.bincount(bags.bag[~stays], minlength=len(bags.sizes))
        counted = stays & (leavers <= self.leavers)[bags.bag]
        own, shares = one_hot(labels, self.setup.num_classes), self.sharers(bags.sizes)[bags.bag][:, None]
        own += noise_share(own.shape, shares, self.scale, streams.generator("bag-noise"))
        sent = secret_shares(own[counted], self.number_of_helpers, streams.generator("bag-shares"))
        return BagCounts(totals(helper_sums(sent, bags.bag[counted], len(bags.sizes))), counted)

    def local_epsilon(self, sizes: NDArray[np.int64]) -> float:
        """ε₀ of one user's label against an observer who reads all the random numbers that she sends. Together these
        numbers show her one-hot label with her share of the noise. The result is for the largest bag, where a share is
        smallest and ε₀ is largest.

        Args:
            sizes: number of users of each cluster.
        """
        largest = max(bag_sizes(int(size), self.bag_size)[1] for size in sizes)
        return messages_epsilon(self.scale, self.setup.num_classes, int(self.sharers(largest)))
