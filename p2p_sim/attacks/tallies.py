"""What observers count in many simulated copies of one small cluster, as numbers of cells and of events."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.attack.fault_laws import Seen
from p2p_sim.analysis.privacy.attack.split import split_cells, split_name
from p2p_sim.analysis.privacy.attack.submission_law import Cluster
from p2p_sim.analysis.privacy.attack.views import CoalitionViews, CountViews
from p2p_sim.base.streams import BLOCK, Streams
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.population.population import Population
from p2p_sim.protocol.transcript import REPLY, REQUEST, SUBMISSION, Messages

Counts = NDArray[np.int64]
Sent = NDArray[np.int8]
"""(clusters, n): 0 where a user submitted nothing, 1 for a zero, 2 for a one."""
SHARDS = 4
"""Shards run at a time, which bounds the memory."""


def copies(labels: NDArray[np.uint8], trials: int, seed: int) -> Iterator[tuple[Population, Streams]]:
    """Many copies of a cluster with these labels (n,), some shards at a time; each label of user 0 has own streams."""
    together = SHARDS * (BLOCK // labels.size)
    for batch, done in enumerate(range(0, trials, together)):
        clusters = min(together, trials - done)
        offsets = np.arange(clusters + 1, dtype=np.int64) * labels.size
        people = Population(np.zeros((clusters * labels.size, 0)), np.tile(labels, clusters), offsets, 2)
        yield people, Streams(seed, 2 * batch + int(labels[0]))


def sent_of(users: NDArray[np.integer], labels: NDArray[np.generic], cluster_size: int, clusters: int) -> Sent:
    """Submissions by cluster and user."""
    sent = np.zeros(clusters * cluster_size, dtype=np.int8)
    sent[users] = 1 + labels.astype(np.int8)
    return sent.reshape(clusters, cluster_size)


def target_cells(sent: Sent) -> Counts:
    """The cell (clusters,) of `attack.split` that each cluster's submissions make; user 0 is the target."""
    n, others = sent.shape[1], sent[:, 1:]
    kept, ones = (others > 0).sum(axis=1), (others == 2).sum(axis=1)
    return np.asarray((sent[:, 0].astype(np.int64) * n + kept) * n + ones)


def learner_cells(release: LabelRelease, cluster_size: int, clusters: int) -> Counts:
    """What the learner sees of each cluster (clusters,): the target's submission beside the others'."""
    return target_cells(sent_of(release.user, release.payload, cluster_size, clusters))


def count_cells(release: LabelRelease, views: CountViews, clusters: int) -> Counts:
    """The cell of `CountViews` that each cluster's submissions make: (clusters,).

    Args:
        release: all submissions; in several rounds a user may have submitted several times.
    """
    cluster = release.user // views.cluster_size
    kept = np.bincount(cluster, minlength=clusters)
    ones = np.bincount(cluster, weights=release.payload, minlength=clusters).astype(np.int64)
    return kept * (views.trials + 1) + ones


def coalition_cells(seen: Messages, views: CoalitionViews, population: Population) -> Counts:
    """The cell of `CoalitionViews` that each cluster's messages make, as its members and the learner saw them: (C,).

    Members are the users 1 to c of each cluster; of the others' true labels the coalition is taken to know all.
    """
    n, c = views.cluster_size, views.members
    shape = (population.num_users // n, n)
    user, other = np.divmod(seen.sender, n), np.divmod(seen.receiver, n)
    from_member = (user[1] >= 1) & (user[1] <= c)
    to_member = (other[1] >= 1) & (other[1] <= c) & (seen.receiver >= 0)

    bit = np.full(shape, -1, dtype=np.int8)  # what members fetched
    got = (seen.kind == REPLY) & to_member & ~from_member
    bit[user[0][got], user[1][got]] = seen.label[got]

    asked = np.zeros(shape, dtype=np.bool_)  # who fetched from a member, so that her submission tells nothing
    rows = (seen.kind == REQUEST) & to_member
    asked[user[0][rows], user[1][rows]] = True

    submitted = seen.kind == SUBMISSION
    sent = sent_of(seen.sender[submitted], seen.label[submitted], n, shape[0])
    sent[asked] = 0
    cells = target_cells(np.delete(sent, np.s_[1 : 1 + c], axis=1))

    target, known = bit[:, 0], bit[:, 1:] >= 0
    truth = population.labels.reshape(shape)[:, 1:]
    f0, f1 = (known & (truth == 0)).sum(axis=1), (known & (truth == 1)).sum(axis=1)
    pattern = views.cell_of_pattern[f0, f1, (bit[:, 1:] == 1).sum(axis=1)]
    return np.where(target >= 0, target, pattern + cells).astype(np.int64)


def coalition_cell_name(cell: int, views: CoalitionViews) -> str:
    """A cell of `CoalitionViews` in words."""
    if cell < 2:
        return f"a member fetches the target's noisy label, a {('zero', 'one')[cell]}"
    pattern, rest = divmod(cell - 2, split_cells(views.sources))
    f0, f1, ones = views.patterns[pattern]
    tells = split_name(rest, views.sources)
    return (
        f"members fetch from {f0} others with label 0 and {f1} with label 1, {ones} ones; of what tells more, {tells}"
    )


def fetched_in(seen: Messages, cluster: Cluster, clusters: int) -> Counts:
    """Counts (c, 3) of whom members fetched from: the target, a member, another user."""
    n, c = cluster.size, cluster.members
    group, place = np.divmod(seen.receiver, n)
    got = (seen.kind == REPLY) & (seen.receiver >= 0) & (place >= 1) & (place <= c)
    peer = np.full((clusters, c), -1)
    peer[group[got], place[got] - 1] = seen.sender[got] % n
    return np.asarray(np.stack([peer == 0, (peer >= 1) & (peer <= c), peer > c], axis=2).sum(axis=0))


def seen_in(
    sent: Sent, arrival: NDArray[np.float64], met: Messages | None, cluster: Cluster, rng: np.random.Generator
) -> Seen:
    """Counts of what each user submits, of who comes first and last, and of what holders of 1 and of 0 submit.

    Args:
        sent: submissions. arrival: (clusters, n) when they came; infinite where there is none.
        met: what members of a coalition saw. cluster: all clusters are copies of it.
        rng: breaks ties of arrivals.
    """
    users = np.stack([(sent == what).sum(axis=0) for what in (0, 1, 2)], axis=1)
    holds = np.array(cluster.labels) == 1
    groups = [np.count_nonzero(sent[:, here] == what, axis=1) for here in (holds, ~holds) for what in (2, 1)]
    table = np.bincount(np.ravel_multi_index(groups, cluster.shape), minlength=int(np.prod(cluster.shape)))
    user = _by_arrival(arrival, rng)
    came, heads = np.take_along_axis(sent, user, axis=1), rng.random(len(sent)) < 0.5
    late = [_later(came == 2, came == 1, heads), _later((came > 0) & holds[user], (came > 0) & ~holds[user], heads)]
    kept = np.count_nonzero(sent, axis=1)
    rows = np.flatnonzero(kept)
    ends = [2 * user[rows, place] + came[rows, place] - 1 for place in (0, kept[rows] - 1)]
    order = [np.bincount(end, minlength=2 * cluster.size).reshape(-1, 2) for end in ends]
    fetched = np.zeros((0, 3)) if met is None else fetched_in(met, cluster, len(sent))
    counts = (users, np.stack(order), np.array(late), fetched, table.reshape(cluster.shape))
    return Seen(*(count.astype(np.float64) for count in counts))


def _by_arrival(arrival: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
    """Users (clusters, n) of each cluster in order of arrival, ties in random order."""
    users = arrival.argsort(axis=1)
    times = np.take_along_axis(arrival, users, axis=1)
    if ((times[:, 1:] == times[:, :-1]) & np.isfinite(times[:, 1:])).any():
        users = np.lexsort((rng.random(arrival.shape), arrival), axis=1)
    return users


def _later(some: NDArray[np.bool_], others: NDArray[np.bool_], heads: NDArray[np.bool_]) -> int:
    """How often some submissions come after others on average, where there are both; a coin decides between equals.

    Args:
        some, others: (clusters, n) in order of arrival.
        heads: (clusters,) the coins.
    """
    place = np.arange(some.shape[1], dtype=np.float32)
    many, few = (np.count_nonzero(group, axis=1) for group in (some, others))
    ahead = (some @ place) * few - (others @ place) * many
    return int(np.count_nonzero((many * few > 0) & ((ahead > 0) | ((ahead == 0) & heads))))
