"""What is known of a run besides the labels: the ground on which its privacy stands."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.exchange_run import ExchangeRun
from p2p_sim.exchange.fetch_laws import FetchLaw, Uniform, Unknown, fetch_law
from p2p_sim.exchange.message_timing import Bools
from p2p_sim.population.shards import Shard

FLAGS = ("fetched", "own", "answers", "constant", "member", "probed")


@dataclass(frozen=True)
class NetworkRecord:
    """One shard of a run, every array (m,).

    fetched: passed on somebody's label; own: passed on her own for want of a reply. What reached the learner after her
    deadline counts too: she does not take it, but she has seen it.
    answers: answers requests; constant: with a label that is fixed beforehand; member: tells the learner what she sees.
    probed: was asked by somebody who chose to ask her.
    law: whose label each of the first may have got. draws: labels that a user may have got in all, at most: late ones
    are dropped, but seen. times_tell: the moment of a submission may say whose label it is.
    offsets: (C+1,), cluster c has the entries offsets[c]..offsets[c+1]-1. users: (m,) how many users an entry stands
    for; None: every user has her own.
    """

    shard: Shard
    fetched: Bools
    own: Bools
    answers: Bools
    constant: Bools
    member: Bools
    probed: Bools
    law: FetchLaw
    draws: int
    times_tell: bool
    offsets: NDArray[np.int64]
    users: NDArray[np.int64] | None = None

    def count(self, chosen: Bools) -> int:
        """How many users the chosen entries (m,) stand for."""
        return int(np.count_nonzero(chosen) if self.users is None else self.users[chosen].sum())

    def summed(self) -> "NetworkRecord":
        """The same with one entry for all users of a cluster of whom the same is known; they must have one law."""
        assert isinstance(self.law, Uniform | Unknown)
        clusters = len(self.offsets) - 1
        kind = np.repeat(np.arange(clusters) << len(FLAGS), np.diff(self.offsets))
        for place, name in enumerate(FLAGS):
            kind |= getattr(self, name).astype(np.int64) << place
        counts = np.bincount(kind, minlength=clusters << len(FLAGS))
        kept = np.flatnonzero(counts)
        known: dict[str, Any] = {name: (kept >> place & 1).astype(np.bool_) for place, name in enumerate(FLAGS)}
        offsets = np.searchsorted(kept, np.arange(clusters + 1) << len(FLAGS))
        return replace(self, **known, offsets=offsets, users=counts[kept])


def realised(exchange: ExchangeRun) -> NetworkRecord:
    """Note what a finished run leaves behind."""
    journey = exchange.journey
    arrived = np.isfinite(exchange.arrival)
    fetched = arrived & ~exchange.fallback
    law = fetch_law(journey, fetched, arrived & ~exchange.in_time)
    roles, rule = journey.roles, journey.config.on_timeout
    return NetworkRecord(
        journey.shard,
        fetched,
        arrived & exchange.fallback,
        ~roles.silent,
        roles.constant,
        roles.member,
        exchange.probed,
        law,
        rule.attempts if rule.retry == "redraw" else 1,
        _times_tell(exchange),
        journey.shard.offsets,
    )


def _times_tell(exchange: ExchangeRun) -> bool:
    """Whether the moment of a submission may say whose label it is."""
    journey, config = exchange.journey, exchange.journey.config
    if config.batch_submission:
        return False
    return journey.availability is not None or config.distance_s > 0
