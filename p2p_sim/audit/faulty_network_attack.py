"""An attack on an exchange over a network with faults, held against the certified bound of the realised networks.

As in `audit`, a population of many copies of one small cluster is as many independent trials, in two worlds that differ
in the label of each cluster's first user. What the learner sees of a cluster is her submission (none, 0 or 1), and how
many others submitted, with how many ones. Which views are evidence is learnt from a pilot run with a seed of its own;
then the event is fixed, and its frequencies in fresh trials bound δ(ε) from below.

The certified δ(ε) is conditional on the realised network, cluster by cluster. Who is online, what is lost and who
submits do not depend on labels, so the δ(ε) that the attack is about is at most its mean over networks; the mean over
the trials' networks estimates that, with an empirical Bernstein bound (Maurer and Pontil 2009) on its error.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import BLOCK, InputError, Streams, one_thread
from p2p_sim.exchange import REPLY, REQUEST, SUBMISSION, Messages
from p2p_sim.mechanisms import LabelExchangeMechanism, LabelRelease, Setup, exchange_of, flipped_labels, target_deltas
from p2p_sim.population import Population
from p2p_sim.privacy import local_delta, local_epsilon
from p2p_sim.privacy.audit_statistics import (
    ERROR,
    CoalitionViews,
    LearnerViews,
    delta_lower,
    evidence,
    plan,
    split_cells,
)
from p2p_sim.privacy.exchange import LabelExchange
from p2p_sim.replicate import Replicate
from p2p_sim.scenario import Scenario

Counts = NDArray[np.int64]
Sent = NDArray[np.int8]
"""(clusters, n): 0 where a user submitted nothing, 1 for a zero, 2 for a one."""
SHARDS = 4
"""Shards run at a time, which bounds the memory."""


class Copies(NamedTuple):
    """A population of copies of one cluster, and the random streams of their run."""

    people: Population
    streams: Streams


def copies(labels: NDArray[np.uint8], trials: int, seed: int) -> Iterator[Copies]:
    """Runs of many copies of a cluster with these labels (n,), some shards at a time; each label of user 0 has its own
    streams.
    """
    together = SHARDS * (BLOCK // labels.size)
    for batch, start in enumerate(range(0, trials, together)):
        clusters = min(together, trials - start)
        offsets = np.arange(clusters + 1, dtype=np.int64) * labels.size
        people = Population(np.zeros((clusters * labels.size, 0)), np.tile(labels, clusters), offsets, 2)
        yield Copies(people, Streams(seed, 2 * batch + int(labels[0])))


def sent_of(users: NDArray[np.integer], labels: NDArray[np.generic], cluster_size: int, clusters: int) -> Sent:
    """What each user of each cluster submitted, (clusters, n): 0 nothing, 1 a zero, 2 a one."""
    sent = np.zeros(clusters * cluster_size, dtype=np.int8)
    sent[users] = 1 + labels.astype(np.int8)
    return sent.reshape(clusters, cluster_size)


def target_cells(sent: Sent) -> Counts:
    """The cell (clusters,) of `view_laws.split` that each cluster's submissions make; user 0 is the target."""
    n, others = sent.shape[1], sent[:, 1:]
    submissions, ones = (others > 0).sum(axis=1), (others == 2).sum(axis=1)
    return np.asarray((sent[:, 0].astype(np.int64) * n + submissions) * n + ones)


def learner_cells(release: LabelRelease, cluster_size: int, clusters: int) -> Counts:
    """The view of each cluster (clusters,) as a number: the target's submission beside the others', as in
    `target_cells`.
    """
    return target_cells(sent_of(release.user, release.payload, cluster_size, clusters))


def coalition_cells(messages: Messages, views: CoalitionViews, population: Population) -> Counts:
    """The cell of `CoalitionViews` that each cluster's messages make, as its members and the learner saw them: (C,).

    Members are the users 1 to c of each cluster; of the others' true labels the coalition is taken to know all.
    """
    n, c = views.cluster_size, views.members
    shape = (population.num_users // n, n)
    cluster, user = np.divmod(messages.sender, n)
    peer = messages.receiver % n
    from_member = (user >= 1) & (user <= c)
    to_member = (peer >= 1) & (peer <= c) & (messages.receiver >= 0)
    # What members fetched from others: her bit, -1 where nobody did.
    bit = np.full(shape, -1, dtype=np.int8)
    got = (messages.kind == REPLY) & to_member & ~from_member
    bit[cluster[got], user[got]] = messages.label[got]
    # Submissions of those who did not fetch from a member; the others' tell nothing.
    submitted, rows = messages.kind == SUBMISSION, (messages.kind == REQUEST) & to_member
    sent = sent_of(messages.sender[submitted], messages.label[submitted], n, shape[0])
    sent[cluster[rows], user[rows]] = 0
    cells = target_cells(np.delete(sent, np.s_[1 : 1 + c], axis=1))
    # How many bits of holders of 0 and of 1 are known, and how many of them are ones.
    target, fetched = bit[:, 0], bit[:, 1:] >= 0
    truth = population.labels.reshape(shape)[:, 1:]
    f0, f1 = (fetched & (truth == 0)).sum(axis=1), (fetched & (truth == 1)).sum(axis=1)
    pattern = views.cell_of_pattern[f0, f1, (bit[:, 1:] == 1).sum(axis=1)]
    return np.where(target >= 0, target, pattern + cells).astype(np.int64)


PILOT = 0.5
"""Trials of the pilot run, as a share of the others."""
PILOT_SEED = 7_919
"""Added to the root seed for a pilot run."""


@dataclass(frozen=True)
class RealisedAudit:
    """What an attack achieved beside what is certified.

    scenario: its name; cluster_size, flip_prob, sampling_rate: n, α, θ; ones: m, holders of 1 among the others.
    epsilon: ε of the test. delta_certified: upper bound of the mean of the certified δ(ε) over networks, at error
    `error`; delta_mean: that mean over the trials. delta_lower_confidence: what the attack proves at error `error`.
    delta_local: δ(ε) of the noise alone. trials: clusters simulated in each world, the pilot's left out.
    """

    scenario: str
    cluster_size: int
    flip_prob: float
    sampling_rate: float
    ones: int
    epsilon: float
    delta_certified: float
    delta_mean: float
    delta_lower_confidence: float
    delta_local: float
    trials: int
    error: float

    @property
    def passed(self) -> bool:
        """Whether the attack proves no more than is certified."""
        return self.delta_lower_confidence <= self.delta_certified


def audit_realised(
    scenario: Scenario,
    cluster_size: int,
    trials: int,
    epsilon: float | None = None,
    *,
    data_dir: Path | None = None,
) -> RealisedAudit:
    """Attack a scenario's exchange as a learner who sees the set of submissions.

    Args:
        scenario: mechanism, network, adversaries, δ and seed; labels are binary.
        cluster_size: n, 2 to 30.
        trials: clusters simulated in each of the two worlds, besides the pilot.
        epsilon: ε at which δ is tested, at least 0 and below ε₀; None: a quarter of the ideal exchange's ε(δ = 1e-3).
        data_dir: where data files are.
    """
    # The mechanism, and the worst data set of the exchange without faults.
    sizes = np.array([cluster_size], dtype=np.int64)
    built = scenario.mechanism.deployed(Setup(sizes, 2, scenario.privacy.delta, "events", scenario.adversaries))
    mechanism = exchange_of(built, "an audit of a network")
    noise, theta = flipped_labels(mechanism.randomizer, "an audit"), mechanism.sampling_rate
    alpha = noise.flip_prob
    if scenario.adversaries.coalition.users:
        raise InputError("adversaries.coalition.users: an audit draws its own users; take a share")
    ideal = LearnerViews(LabelExchange(cluster_size, alpha, theta))
    tested = 0.25 * ideal.epsilon(1e-3).upper if epsilon is None else epsilon
    if not 0.0 <= tested < local_epsilon(alpha):
        raise InputError(f"--epsilon {tested:g}: must be at least 0 and below {local_epsilon(alpha):.4g}")
    ones = plan(ideal, scenario.privacy.delta, trials, tested).ones
    case, worlds = Replicate(scenario, 0, data_dir), np.zeros((2, cluster_size), dtype=np.uint8)
    worlds[1, 0], worlds[:, 1 : 1 + ones] = 1, 1
    # A pilot fixes the event for each label; its frequencies in both worlds of the run that counts bound δ from below.
    with one_thread():
        few = max(int(PILOT * trials), 1)
        runs = [_world(case, mechanism, labels, few, seed=scenario.seed + PILOT_SEED).views for labels in worlds]
        pilot = np.stack(runs).astype(np.float64)
        first, second = (
            _world(case, mechanism, labels, trials, seed=scenario.seed, epsilon=tested) for labels in worlds
        )
    # The certified δ, averaged over the networks of both worlds.
    deltas = np.concatenate([first.deltas, second.deltas])
    local = local_delta(alpha, tested).upper
    mean = float(deltas.mean())
    return RealisedAudit(
        scenario=scenario.name,
        cluster_size=cluster_size,
        flip_prob=alpha,
        sampling_rate=theta,
        ones=ones,
        epsilon=tested,
        delta_certified=min(local, mean + _doubt(deltas, local, ERROR)),
        delta_mean=mean,
        delta_lower_confidence=_proved(pilot, (first.views, second.views), tested, trials),
        delta_local=local,
        trials=trials,
        error=ERROR,
    )


class World(NamedTuple):
    """What happened in runs with one label of the target. views: (J,) how often each view occurred. deltas: (trials,)
    the certified δ(ε) of each trial's network.
    """

    views: Counts
    deltas: NDArray[np.float64]


def _world(
    case: Replicate,
    mechanism: LabelExchangeMechanism,
    labels: NDArray[np.uint8],
    trials: int,
    *,
    seed: int,
    epsilon: float | None = None,
) -> World:
    """Run copies of a cluster with these labels, and count the views. epsilon: of the certified δ; None: it is not
    computed.
    """
    noise, network = flipped_labels(mechanism.randomizer, "an audit"), case.scenario.network
    n, views, deltas = labels.size, np.zeros(split_cells(labels.size), dtype=np.int64), [np.zeros(0)]
    for people, streams in copies(labels, trials, seed):
        outcome = mechanism.run(people, network, streams, places=case.places)
        views += np.bincount(learner_cells(outcome.labels, n, people.num_users // n), minlength=views.size)
        if epsilon is not None and outcome.realised is not None:
            deltas.append(target_deltas(outcome.realised, noise, [epsilon])[:, 0])
    return World(views, np.concatenate(deltas))


def _proved(pilot: NDArray[np.float64], counts: tuple[Counts, Counts], epsilon: float, trials: int) -> float:
    """The better lower bound of δ(ε), by the event for each label that a pilot suggests, from counts in both worlds."""
    events = [evidence(pilot + 0.5, epsilon, label) for label in (0, 1)]
    pairs = zip(events, counts, counts[::-1], strict=True)
    hits = [(int(own[event].sum()), int(opposite[event].sum())) for event, own, opposite in pairs]
    return max(delta_lower(*pair, trials, epsilon, ERROR / 2) for pair in hits)


def _doubt(values: NDArray[np.float64], largest: float, error: float) -> float:
    """By how much the mean of independent values in [0, largest] may exceed their average, but with probability
    `error`.

    It is sqrt(2 variance L/m) + 7 largest L/(3 (m-1)), L = ln(2/error) (Maurer and Pontil 2009, Theorem 4).
    """
    log = math.log(2.0 / error)
    spread = math.sqrt(2.0 * float(values.var(ddof=1)) * log / values.size)
    return spread + 7.0 * largest * log / (3.0 * (values.size - 1))
