"""One replicate of which only the row is wanted: users are drawn shard by shard, and nothing but sums is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from p2p_sim.base.threads import one_thread
from p2p_sim.exchange.network_record import NetworkRecord
from p2p_sim.exchange.traffic import Arrivals, Traffic
from p2p_sim.mechanisms.deployment import Deployment
from p2p_sim.mechanisms.outcome import Outcome, Tally
from p2p_sim.network.network_config import Network
from p2p_sim.population.build import draw_people
from p2p_sim.population.clustering import GivenClusters
from p2p_sim.population.population import People, Shard
from p2p_sim.population.synthetic import DrawnPeople, SyntheticConfig
from p2p_sim.privacy.statement_record import Terms
from p2p_sim.replicate.memory_need import check_memory, streams
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.row import Row
from p2p_sim.replicate.run import exchange, measure, set_up


class _ByShard(Protocol):
    """A mechanism whose configuration says `by_shard`."""

    def release_on(self, opened: Network, population: People, *, part: tuple[int, int]) -> Outcome: ...


@dataclass(frozen=True)
class Streamed:
    """A case before anything is exchanged, of whose users nothing is held."""

    people: DrawnPeople
    mechanism: Deployment
    network: Network


def prepare_streamed(case: Replicate) -> Streamed:
    """Draw how many users are at each point, calibrate the mechanism and open the network."""
    population, clusters = case.scenario.population, case.scenario.clusters
    assert isinstance(population, SyntheticConfig)
    assert isinstance(clusters, GivenClusters)
    case.scenario.learner.check_installed()
    check_memory(case.scenario, rows_alone=True)
    with one_thread():
        people = draw_people(population, clusters, case.streams)
        return Streamed(people, *set_up(case, people))


def exchange_streamed(ready: Streamed, part: tuple[int, int]) -> Outcome:
    """What the shards first to last - 1 leave behind, summed."""
    sums = _Sums(ready.people)
    mechanism = cast(_ByShard, ready.mechanism)
    with one_thread():
        for shard in ready.people.shards[slice(*part)]:
            alone = shard.index, shard.index + 1
            outcome = mechanism.release_on(ready.network, ready.people, part=alone)
            sums.add(shard, outcome)
    return sums.outcome()


class _Sums:
    """The sums over finished shards."""

    def __init__(self, people: DrawnPeople) -> None:
        shape = people.law.label_distribution.shape
        self._people = people
        self._received, self._truth = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._traffic: Traffic | None = None
        self._arrivals, self._realised = Arrivals(), list[NetworkRecord]()

    def add(self, shard: Shard, outcome: Outcome) -> None:
        """Take in a shard's outcome."""
        point, release = self._people.points_of(shard), outcome.labels
        first, last = int(point[0]), int(point[-1]) + 1
        point -= np.int32(first)
        shape = last - first, self._people.num_classes
        self._truth[first:last] += Tally.of(point, self._people.labels_of(shard), shape).counts
        self._received[first:last] += Tally.of(point[release.user - shard.start], release.payload, shape).counts
        if outcome.traffic is None:
            return
        assert outcome.arrival_s is not None
        assert outcome.realised is not None
        self._traffic = outcome.traffic + (self._traffic or Traffic())
        self._arrivals.add(Arrivals([outcome.arrival_s]))
        self._realised += [facts.summed() for facts in outcome.realised]

    def outcome(self) -> Outcome:
        """The sums."""
        facts = tuple(self._realised) if self._traffic else None
        return Outcome(
            Tally(self._received), self._traffic, realised=facts, arrivals=self._arrivals, truth=Tally(self._truth)
        )


def measure_streamed(case: Replicate, ready: Streamed, parts: Sequence[Outcome]) -> tuple[Row, Terms]:
    """The row of a case from what all its shards left behind, in order, and the statements of its columns.

    Raises:
        RuntimeError: a shard is there twice, or not at all.
    """
    whole = Outcome.summed(parts)
    assert whole.truth is not None
    if not np.array_equal(whole.truth.counts.sum(axis=1), ready.people.users.counts):
        raise RuntimeError("the parts of a replicate do not have every user once")
    return measure(case, ready.people, ready.mechanism, whole)[:2]


def row_alone(case: Replicate) -> tuple[Row, Terms]:
    """Run one replicate for its row, and the statements of its columns."""
    if not streams(case.scenario):
        exchanged = exchange(case)
        return measure(case, exchanged.population, exchanged.mechanism, exchanged.outcome)[:2]
    ready = prepare_streamed(case)
    return measure_streamed(case, ready, [exchange_streamed(ready, (0, len(ready.people.shards)))])
