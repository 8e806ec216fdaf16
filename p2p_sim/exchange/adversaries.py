"""Adversaries: users who do not follow the protocol, or who pool what they see with the learner."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import Config, InputError, Streams, defaults, differing
from p2p_sim.population import Shard

Answer = Literal["inverted", "zero", "one"]
Bools = NDArray[np.bool_]


class CoalitionConfig(Config):
    """Users who follow the protocol but pool what they see with each other and the learner."""

    choice: Literal["random", "degree", "given"] = "random"
    """Members: "random"; "degree": the users with the most neighbours, ties at random; "given": the list `users`."""
    share: float = Field(default=0.0, ge=0, lt=1)
    """Share of each cluster, rounded to whole users, 0 to below 1."""
    users: tuple[int, ...] = ()
    """The members for choice = "given", by their rows in the source, from 0."""

    @model_validator(mode="after")
    def _who(self) -> "CoalitionConfig":
        if (self.choice == "given") != bool(self.users):
            raise ValueError(
                f"choice = {self.choice!r} with {len(self.users)} users: 'given' goes with a list of users"
            )
        if self.choice == "given" and self.share:
            raise ValueError(f"share = {self.share:g}: choice = 'given' takes users, not a share")
        return self


class Liars(Config):
    """Users who answer requests with a false label instead of their noisy label."""

    share: float = Field(default=0.0, ge=0, lt=1)
    """Share of each cluster, rounded to whole users, 0 to below 1."""
    answer: Answer = "inverted"
    """"inverted": the class after the noisy label's; "zero" or "one": always class 0 or 1."""


class FreeRiders(Config):
    """Users who ask but do not answer."""

    share: float = Field(default=0.0, ge=0, lt=1)
    """Share of each cluster, rounded to whole users, 0 to below 1."""


class Sybil(Config):
    """One adversary behind several users of each cluster. These users pool what they see and may lie."""

    share: float = Field(default=0.0, ge=0, lt=1)
    """Share of each cluster, rounded to whole users, 0 to below 1."""
    answer: Literal["noisy", "inverted", "zero", "one"] = "one"
    """The answer of these users: "noisy": the noisy label, as in the protocol; other values: as for liars."""
    probe_every_s: float | None = Field(default=None, gt=0, le=1e9)
    """Seconds, above 0 and at most 1e9, between the requests of a user who asks everybody. In each cluster, one of the
    adversary's users asks all other users for their labels, one after another. Absent: nobody asks everybody."""


class AdversariesConfig(Config):
    """Users who break the protocol or pool what they see. Roles are drawn independently of each other and of labels."""

    coalition: CoalitionConfig = CoalitionConfig()
    """Users who pool what they see."""
    liars: Liars = Liars()
    """Users who answer falsely."""
    free_riders: FreeRiders = FreeRiders()
    """Users who do not answer."""
    sybil: Sybil = Sybil()
    """One adversary behind many users."""

    @property
    def active(self) -> tuple[str, ...]:
        """The dotted keys, such as "adversaries.liars", of the roles whose configuration differs from the default. With
        the default, everybody follows the protocol.
        """
        keys = differing("adversaries", self.model_dump(), defaults(type(self)))
        return tuple(dict.fromkeys(key.rpartition(".")[0] for key in keys))

    @property
    def lying(self) -> tuple[str, ...]:
        """The names of the roles, "liars" or "sybil", with users whose answer is not the noisy label."""
        roles = ["liars"] * (self.liars.share > 0) + ["sybil"] * (self.sybil.share > 0 and self.sybil.answer != "noisy")
        return tuple(roles)

    @property
    def inverting(self) -> tuple[str, ...]:
        """The names of the roles, "liars" or "sybil", with users who answer a noisy label y with the next class. For K
        classes, this is y + 1 modulo K.
        """
        return tuple(role for role in self.lying if getattr(self, role).answer == "inverted")

    @property
    def hiding_nobody(self) -> tuple[str, ...]:
        """The names of the roles with users who answer with a fixed class or not at all: "liars", "sybil" or
        "free_riders". In a label exchange, a user's label is hidden among other users' noisy labels. An answer that
        does not depend on a noisy label hides nobody.
        """
        fixed = [role for role in ("liars", "sybil") if getattr(self, role).answer in ("zero", "one")]
        return tuple(role for role in (*fixed, "free_riders") if getattr(self, role).share > 0)


NOBODY = AdversariesConfig()


@dataclass(frozen=True)
class Roles:
    """The roles of the users of a shard, a group of whole clusters. Each array (m,) has an entry for each user.

    member: whether she pools what she sees with the learner. silent: whether she never answers. answer: the class that
    she always answers; -1: her noisy label; -2: the class after her noisy label. prober: whether she asks all other
    users of her cluster.
    """

    member: Bools
    silent: Bools
    answer: NDArray[np.int16]
    prober: Bools

    @staticmethod
    def without_adversaries(size: int) -> "Roles":
        """The roles of m = `size` users who all follow the protocol and tell nobody what they see, as arrays (m,)."""
        nobody = np.zeros(size, dtype=np.bool_)
        return Roles(nobody, nobody, np.full(size, -1, dtype=np.int16), nobody)

    @staticmethod
    def draw(
        config: AdversariesConfig, shard: Shard, degrees: NDArray[np.int64], row: NDArray[np.int32], streams: Streams
    ) -> "Roles":
        """The roles of m users, as arrays (m,), drawn at random within each cluster. Members of the coalition may also
        be chosen by degree, or listed. Each role has random numbers of its own: the share of one role does not change
        who has another role.

        Args:
            config: the share of users with each role, and how members of the coalition are chosen. shard: the users, a
            group of whole clusters. degrees: (m,) numbers of neighbours, for the choice by degree. row: (m,) each
            user's row in the data source, from 0, for listed members. streams: the replicate's random streams.
        """
        nobody = np.zeros(shard.size, dtype=np.bool_)

        def some(purpose: str, share: float, rank: NDArray[np.int64] | None = None) -> Bools:
            if share == 0.0:
                return nobody
            key = streams.uniforms(f"role-{purpose}", shard.index).at(np.arange(shard.size))
            return _first_of_each_cluster(shard, key, share, rank)

        coalition, sybil = config.coalition, some("sybil", config.sybil.share)
        rank = -degrees if coalition.choice == "degree" else None
        member = some("coalition", coalition.share, rank)
        if coalition.choice == "given":
            member = np.isin(row, coalition.users)
        answer = np.full(shard.size, -1, dtype=np.int16)
        answer[some("liar", config.liars.share)] = _CODE[config.liars.answer]
        answer[sybil] = _CODE[config.sybil.answer]
        prober = nobody
        if config.sybil.probe_every_s is not None:  # the first of the adversary's users in each cluster asks everybody
            prober = nobody.copy()
            users = np.flatnonzero(sybil)
            cluster = np.searchsorted(shard.offsets, users, side="right")
            prober[users[np.unique(cluster, return_index=True)[1]]] = True
        return Roles(member | sybil, some("free-rider", config.free_riders.share), answer, prober)

    def lie(self, payload: NDArray[np.generic], num_classes: int) -> NDArray[np.generic]:
        """The answers that m users give to requests. `payload` (m, ...) has what their randomizers drew, such as noisy
        labels. If nobody lies, the answers are `payload`. Otherwise payloads are taken as classes, and the answers are
        classes (m,). A user who lies answers a fixed class, or the next of `num_classes` classes in cyclic order.
        """
        if not (self.answer != -1).any():
            return payload
        labels = payload.astype(np.uint8)
        answers = np.where(self.answer >= 0, self.answer, labels).astype(np.uint8)
        inverted = self.answer == _CODE["inverted"]
        answers[inverted] = (labels[inverted] + 1) % num_classes
        return answers


_CODE = {"noisy": -1, "inverted": -2, "zero": 0, "one": 1}


def _first_of_each_cluster(
    shard: Shard, key: NDArray[np.float64], share: float, rank: NDArray[np.int64] | None
) -> Bools:
    """Which of m users are chosen, a mask (m,). In each cluster of s users, the first round(share · s) users are
    chosen, in ascending order of `rank`. Among equal ranks, `key` orders the users.

    Args:
        shard: the users, in whole clusters. key: (m,) random numbers. share: from 0 to below 1. rank: (m,) for example
        minus the number of neighbours; None: all ranks are equal.
    """
    sizes = np.diff(shard.offsets)
    cluster = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((key, cluster) if rank is None else (key, rank, cluster))
    position = np.arange(shard.size) - np.repeat(shard.offsets[:-1], sizes)
    chosen = np.zeros(shard.size, dtype=np.bool_)
    chosen[order] = position < np.repeat(np.rint(share * sizes), sizes)
    return chosen


def check_given(config: AdversariesConfig, rows: int) -> None:
    """Raise InputError if a listed member of the coalition is no row of the data source. The source has rows 0 to
    `rows` - 1.
    """
    for user in config.coalition.users:
        if not 0 <= user < rows:
            raise InputError(
                f"adversaries.coalition.users: {user} is no row of the source; 0 to {rows - 1} are allowed"
            )
