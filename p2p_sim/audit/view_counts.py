"""What observers count in many simulated copies of one small cluster, as numbers of cells."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import BLOCK, Streams
from p2p_sim.exchange.transcript import REPLY, REQUEST, SUBMISSION, Messages
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.population.population import Population
from p2p_sim.privacy.audit_statistics.view_laws import CoalitionViews

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
