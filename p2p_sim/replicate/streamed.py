"""A replicate's row without users in memory: users are drawn by shards (groups of clusters), and only sums are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import one_thread
from p2p_sim.exchange import Arrivals, NetworkRecord, Traffic
from p2p_sim.mechanisms import Deployment, Outcome, Tally
from p2p_sim.network import Network
from p2p_sim.population import DrawnPeople, GivenClusters, People, SyntheticConfig, draw_people
from p2p_sim.replicate.replicate import Replicate, check_memory, streams
from p2p_sim.replicate.row import StatedRow
from p2p_sim.replicate.run import exchange, measure, set_up


class _ByShard(Protocol):
    """A mechanism that can run shard by shard (its configuration sets `by_shard`)."""

    def release_on(self, opened: Network, population: People, *, part: tuple[int, int]) -> Outcome: ...


@dataclass(frozen=True)
class Streamed:
    """A replicate before the exchange: users, mechanism and network.

    The users are drawn shard by shard, and not held in memory.
    """

    people: DrawnPeople
    mechanism: Deployment
    network: Network


def prepare_streamed(case: Replicate) -> Streamed:
    """A replicate before the exchange, if its users are not to be held in memory. The scenario must allow this.

    The result has the number of users at each point (possible feature vector) of the known law, the mechanism and the
    network. Labels are generated again, shard by shard, when needed.
    """
    # `streams` is true only for these types
    population = cast(SyntheticConfig, case.scenario.population)
    clusters = cast(GivenClusters, case.scenario.clusters)
    case.scenario.learner.check_installed()
    check_memory(case.scenario, rows_alone=True)
    with one_thread():
        people = draw_people(population, clusters, case.streams)
        return Streamed(people, *set_up(case, people))


def exchange_streamed(ready: Streamed, part: tuple[int, int]) -> Outcome:
    """Run some shards of a replicate. The outcome has sums over these shards, and the arrival times.

    The sums are counts of released and of true labels at each point of the law, and traffic.
    part: index of the first shard, and the index after the last shard.
    """
    people, mechanism = ready.people, cast(_ByShard, ready.mechanism)
    shape = people.law.label_distribution.shape
    received, truth = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    traffic, arrivals, realised = list[Traffic](), Arrivals(), list[NetworkRecord]()
    with one_thread():
        for shard in people.shards[slice(*part)]:
            outcome = mechanism.release_on(ready.network, people, part=(shard.index, shard.index + 1))
            point, release = people.points(shard.start, shard.stop), outcome.labels
            first, last = int(point[0]), int(point[-1]) + 1
            point -= np.int32(first)
            some = last - first, people.num_classes
            truth[first:last] += Tally.of(point, people.labels_of(shard), some).counts
            received[first:last] += Tally.of(point[release.user - shard.start], release.payload, some).counts
            # if traffic is counted, arrival times and the network's records are known, too
            if outcome.traffic is not None:
                traffic.append(outcome.traffic)
                arrivals.add(Arrivals([cast(NDArray[np.float64], outcome.arrival_s)]))
                realised += [record.summed() for record in cast(tuple[NetworkRecord, ...], outcome.realised)]
    return Outcome(
        Tally(received),
        sum(traffic, Traffic()) if traffic else None,
        realised=tuple(realised) if traffic else None,
        arrivals=arrivals,
        truth=Tally(truth),
    )


def measure_streamed(case: Replicate, ready: Streamed, parts: Sequence[Outcome]) -> StatedRow:
    """The row of a replicate and its terms (privacy statements without numbers), from the outcomes of parts. Together,
    the parts must hold each user exactly once.

    Args:
        case: the replicate. ready: its users, mechanism and network. parts: the outcomes, in the order of the
        shards.

    Raises:
        RuntimeError: the parts do not have every user once.
    """
    whole = Outcome.join(parts)
    if whole.truth is None or not np.array_equal(whole.truth.counts.sum(axis=1), ready.people.counts):
        raise RuntimeError("the parts of a replicate do not have every user once")
    return measure(case, ready.people, ready.mechanism, whole).stated


def row_alone(case: Replicate) -> StatedRow:
    """The row of one replicate, with its terms (privacy statements without numbers).

    Users are drawn shard by shard if the scenario allows this. Otherwise memory holds all users.
    """
    if not streams(case.scenario):
        exchanged = exchange(case)
        return measure(case, exchanged.population, exchanged.mechanism, exchanged.outcome).stated
    ready = prepare_streamed(case)
    return measure_streamed(case, ready, [exchange_streamed(ready, (0, len(ready.people.shards)))])
