"""One replicate of which only the row is wanted: users are drawn shard by shard, and nothing but sums is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

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
from p2p_sim.replicate.memory_need import check_memory, streams
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.row import StatedRow
from p2p_sim.replicate.run import exchange, measure, set_up


class _ByShard(Protocol):
    """A mechanism that can run shard by shard (its configuration sets `by_shard`)."""

    def release_on(self, opened: Network, population: People, *, part: tuple[int, int]) -> Outcome: ...


@dataclass(frozen=True)
class Streamed:
    """A case before anything is exchanged, whose users are drawn shard by shard and not held."""

    people: DrawnPeople
    mechanism: Deployment
    network: Network


def prepare_streamed(case: Replicate) -> Streamed:
    """Draw how many users are at each point, calibrate the mechanism and open the network."""
    # `memory_need.streams` holds for these alone
    population = cast(SyntheticConfig, case.scenario.population)
    clusters = cast(GivenClusters, case.scenario.clusters)
    case.scenario.learner.check_installed()
    check_memory(case.scenario, rows_alone=True)
    with one_thread():
        people = draw_people(population, clusters, case.streams)
        return Streamed(people, *set_up(case, people))


def exchange_streamed(ready: Streamed, part: tuple[int, int]) -> Outcome:
    """Runs some shards of a case; returns the sum of what they release.

    part: first shard, and the one after the last.
    """
    sums = _Sums(ready.people)
    mechanism = cast(_ByShard, ready.mechanism)
    with one_thread():
        for shard in ready.people.shards[slice(*part)]:
            alone = shard.index, shard.index + 1
            outcome = mechanism.release_on(ready.network, ready.people, part=alone)
            sums.add(shard, outcome)
    return sums.outcome()


class _Sums:
    """Labels received and true ones, traffic and arrival times of finished shards, summed."""

    def __init__(self, people: DrawnPeople) -> None:
        shape = people.law.label_distribution.shape
        self._people = people
        self._received, self._truth = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._traffic: Traffic | None = None
        self._arrivals, self._realised = Arrivals(), list[NetworkRecord]()

    def add(self, shard: Shard, outcome: Outcome) -> None:
        """Add a shard's outcome to the sums."""
        point, release = self._people.points_of(shard), outcome.labels
        first, last = int(point[0]), int(point[-1]) + 1
        point -= np.int32(first)
        shape = last - first, self._people.num_classes
        self._truth[first:last] += Tally.of(point, self._people.labels_of(shard), shape).counts
        self._received[first:last] += Tally.of(point[release.user - shard.start], release.payload, shape).counts
        if outcome.traffic is None:
            return
        # whoever counts traffic knows arrival times and the network as it turned out, too
        arrival_s = cast(NDArray[np.float64], outcome.arrival_s)
        realised = cast(tuple[NetworkRecord, ...], outcome.realised)
        self._traffic = outcome.traffic + (self._traffic or Traffic())
        self._arrivals.add(Arrivals([arrival_s]))
        self._realised += [facts.summed() for facts in realised]

    def outcome(self) -> Outcome:
        """The sums as the outcome of a run whose users nobody holds."""
        facts = tuple(self._realised) if self._traffic else None
        return Outcome(
            Tally(self._received), self._traffic, realised=facts, arrivals=self._arrivals, truth=Tally(self._truth)
        )


def measure_streamed(case: Replicate, ready: Streamed, parts: Sequence[Outcome]) -> StatedRow:
    """The row of a case from what all its shards left behind, in order, and the statements of its columns.

    Raises:
        RuntimeError: a shard is there twice, or not at all.
    """
    whole = Outcome.summed(parts)
    if whole.truth is None or not np.array_equal(whole.truth.counts.sum(axis=1), ready.people.users.counts):
        raise RuntimeError("the parts of a replicate do not have every user once")
    return measure(case, ready.people, ready.mechanism, whole).stated


def row_alone(case: Replicate) -> StatedRow:
    """Run one replicate for its row, and the statements of its columns."""
    if not streams(case.scenario):
        exchanged = exchange(case)
        return measure(case, exchanged.population, exchanged.mechanism, exchanged.outcome).stated
    ready = prepare_streamed(case)
    return measure_streamed(case, ready, [exchange_streamed(ready, (0, len(ready.people.shards)))])
