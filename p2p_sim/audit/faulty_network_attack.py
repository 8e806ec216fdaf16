"""Attacks that count an observer's views in small clusters, and the audit of an exchange over a network with faults.

An attack runs on many copies of one small cluster, and each copy is an independent trial. The target is the first user
of each cluster. Her label is 0 in one world and 1 in the other. The learner's view has three parts: what the target
submitted (nothing, 0 or 1), how many other users submitted, and how many of these submitted a one. A pilot run with a
seed of its own shows which views are evidence of a label. These views are then fixed as an event. The event's
frequencies in fresh trials bound δ(ε) from below.

With faults, the certified δ(ε) is conditional on the realised network of each cluster: who is online, and what is lost.
The realised network and the choice of who submits do not depend on labels. So the exchange's true δ(ε) is at most the
mean over networks of the certified δ(ε). The average over the trials' networks estimates this mean. An empirical
Bernstein bound limits the estimate's error (Maurer and Pontil 2009).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import PILOT_SEED, SHARDS, Floats
from p2p_sim.base import BLOCK, InputError, Streams, one_thread
from p2p_sim.exchange import REPLY, REQUEST, SUBMISSION, Messages, Transcript
from p2p_sim.mechanisms import (
    Deployment,
    RandomizedResponse,
    Setup,
    exchange_of,
    flipped_labels,
    target_deltas,
)
from p2p_sim.network import NetworkConfig
from p2p_sim.population import Population
from p2p_sim.privacy import local_delta, local_epsilon
from p2p_sim.privacy.audit_statistics import (
    ERROR,
    AttackPlan,
    CoalitionViews,
    LearnerViews,
    Views,
    delta_lower,
    evidence,
    plan,
)
from p2p_sim.privacy.exchange import LabelExchange
from p2p_sim.replicate import Replicate
from p2p_sim.scenario import Scenario

Counts = NDArray[np.int64]
Sent = NDArray[np.int8]
"""What each user of each cluster submitted, (clusters, n): 0 nothing, 1 a zero, 2 a one."""
PILOT = 0.5
"""Number of trials of the pilot run, as a share of the number of trials that count."""


class Copies(NamedTuple):
    """A population of copies of one cluster, and the random streams of their run."""

    people: Population
    streams: Streams


def copies(labels: NDArray[np.uint8], trials: int, seed: int) -> Iterator[Copies]:
    """Yields populations made of copies of one cluster, each with the random streams for its run. All populations
    together have `trials` copies. To save memory, each population has at most 4 × 65,536 users.

    Args:
        labels: (n,) labels of the cluster's users, with the target's label first. Streams for the target's label 0 are
        independent of streams for her label 1. trials: number of copies. seed: root seed.
    """
    together = SHARDS * (BLOCK // labels.size)
    for batch, start in enumerate(range(0, trials, together)):
        clusters = min(together, trials - start)
        offsets = np.arange(clusters + 1, dtype=np.int64) * labels.size
        people = Population(np.zeros((clusters * labels.size, 0)), np.tile(labels, clusters), offsets, 2)
        yield Copies(people, Streams(seed, 2 * batch + int(labels[0])))


def sent_of(users: NDArray[np.integer], labels: NDArray[np.generic], cluster_size: int, clusters: int) -> Sent:
    """What each user of each cluster submitted, (clusters, n): 0 nothing, 1 a label 0, 2 a label 1.

    Args:
        users: (m,) who submitted, numbered through all clusters from 0. labels: (m,) the label 0 or 1 that each of
        these users submitted. cluster_size: n. clusters: number of clusters.
    """
    sent = np.zeros(clusters * cluster_size, dtype=np.int8)
    sent[users] = 1 + labels.astype(np.int8)
    return sent.reshape(clusters, cluster_size)


def target_cells(sent: Sent) -> Counts:
    """The learner's view of each cluster of n users as one number below 3n², (clusters,). The number is an index into
    tables of the views' exact probabilities.

    The number is (s n + m) n + k. Here s is what the target, the first user, submitted: 0 nothing, 1 a label 0, 2 a
    label 1. m is how many other users submitted, and k is how many of these submitted a 1. sent: (clusters, n) what
    each user submitted, with the code of s.
    """
    n, others = sent.shape[1], sent[:, 1:]
    submissions, ones = (others > 0).sum(axis=1), (others == 2).sum(axis=1)
    return np.asarray((sent[:, 0].astype(np.int64) * n + submissions) * n + ones)


def coalition_cells(messages: Messages, views: CoalitionViews, population: Population) -> Counts:
    """What a coalition sees together with the learner, as one number for each of C clusters of n users, (C,). The
    number is an index into the tables of `views`. The coalition is users 1 to c of each cluster. User 0 is the target;
    the coalition knows all labels except the target's label.

    If a member fetched the target's noisy label, the number is this label, 0 or 1. Otherwise the number encodes two
    parts. Outsiders are all users except target and members. The first part counts the outsiders from whom members
    fetched: with true label 0, with true label 1, and with noisy label 1. The second part is what the target and the
    outsiders submitted, except for users who fetched from a member.

    Args:
        messages: delivered messages that a member sent or got, or that the learner got. views: the object that numbers
        the coalition's views; it has n and c. population: the users, with their true labels.
    """
    n, c = views.cluster_size, views.members
    shape = (population.num_users // n, n)
    cluster, user = np.divmod(messages.sender, n)
    peer = messages.receiver % n
    from_member = (user >= 1) & (user <= c)
    to_member = (peer >= 1) & (peer <= c) & (messages.receiver >= 0)
    # The noisy bit of each user from whom a member fetched; -1 for all other users.
    bit = np.full(shape, -1, dtype=np.int8)
    got = (messages.kind == REPLY) & to_member & ~from_member
    bit[cluster[got], user[got]] = messages.label[got]
    # Submissions of users who did not fetch from a member. If a user fetched from a member, her submission reveals
    # nothing more.
    submitted, rows = messages.kind == SUBMISSION, (messages.kind == REQUEST) & to_member
    sent = sent_of(messages.sender[submitted], messages.label[submitted], n, shape[0])
    sent[cluster[rows], user[rows]] = 0
    cells = target_cells(np.delete(sent, np.s_[1 : 1 + c], axis=1))
    # How many noisy bits of users with label 0, and of users with label 1, the members know; how many bits are ones.
    target, fetched = bit[:, 0], bit[:, 1:] >= 0
    truth = population.labels.reshape(shape)[:, 1:]
    f0, f1 = (fetched & (truth == 0)).sum(axis=1), (fetched & (truth == 1)).sum(axis=1)
    pattern = views.cell_of_pattern[f0, f1, (bit[:, 1:] == 1).sum(axis=1)]
    return np.where(target >= 0, target, pattern + cells).astype(np.int64)


def cluster_labels(views: Views, ones: int, label: int) -> NDArray[np.uint8]:
    """Labels (n,) of a cluster to attack. First comes the target's label, then a 0 for each member of the coalition,
    then `ones` labels 1 of other users, then labels 0.

    Args:
        views: describes the observer, with the cluster size n and the coalition's number of members (0 for the learner
        alone). ones: how many users besides the target hold label 1. label: the target's label, 0 or 1.
    """
    labels = np.zeros(views.cluster_size, dtype=np.uint8)
    labels[0] = label
    labels[1 + views.members :][:ones] = 1
    return labels


class World(NamedTuple):
    """What happened in the trials of one world.

    views: (J,) how often each view occurred. deltas: (trials,) the certified δ(ε) of each trial's network; empty if
    these were not computed.
    """

    views: Counts
    deltas: Floats


def run_world(
    attack: AttackPlan,
    mechanism: Deployment,
    network: NetworkConfig,
    seed: int,
    label: int,
    *,
    places: tuple[Path, ...] = (),
    noise: RandomizedResponse | None = None,
) -> World:
    """How often each of J possible views of the observer occurs in the attack's trials if every target holds `label`.
    The result `views` (J,) has these counts. The result `deltas` (trials,) has the certified δ at the attack's ε for
    each trial's realised network. It is empty without `noise`, or if the mechanism's runs have no network records.

    Args:
        attack: has the observer's views, the number of other users who hold label 1, ε, and the number of trials.
        mechanism: what is attacked. network: the network that carries messages. seed: root seed. label: 0 or 1. places:
        folders with data files that the network may need, such as recorded times at which users are online. noise: the
        randomizer for which δ is certified; None: δ is not computed.
    """
    views, counts, deltas = attack.views, np.zeros(attack.law.a.size, dtype=np.int64), [np.zeros(0)]
    for people, streams in copies(cluster_labels(views, attack.ones, label), attack.trials, seed):
        outcome = mechanism.run(people, network, streams, views.members > 0, places=places)
        if isinstance(views, CoalitionViews):
            members = np.add.outer(people.cluster_offsets[:-1], np.arange(1, 1 + views.members)).ravel()
            messages = cast(Transcript, outcome.transcript).view("coalition", members.tolist())
            cells = coalition_cells(messages, views, people)
        else:
            release, clusters = outcome.labels, len(people.cluster_offsets) - 1
            cells = target_cells(sent_of(release.user, release.payload, views.cluster_size, clusters))
        counts += np.bincount(cells, minlength=counts.size)
        if noise is not None and outcome.realised is not None:
            deltas.append(target_deltas(outcome.realised, noise, [attack.epsilon])[:, 0])
    return World(counts, np.concatenate(deltas))


class WorldCounts(NamedTuple):
    """How often each view occurred in a pilot and in the trials that count: (2, J), for target label 0 and for label 1.

    deltas: (2 · trials,) the certified δ(ε) of each trial's network; empty if these were not computed.
    """

    pilot: Counts
    trials: Counts
    deltas: Floats


def run_worlds(
    attack: AttackPlan, mechanism: Deployment, case: Replicate, noise: RandomizedResponse | None = None
) -> WorldCounts:
    """How often each of J possible views occurs in two runs: (2, J), for target label 0 and for label 1. The first run
    is a pilot, half as long and with a seed of its own. From the pilot an attack learns which views are evidence. The
    second run has the trials that count. For each of these trials, the result also has the certified δ at the attack's
    ε. The δ for label 0 come first, then the δ for label 1.

    Args:
        attack: has the observer's views, ε and the number of trials for each label. mechanism: what is attacked. case:
        one run of a scenario, with its network, seed and files. noise: the randomizer for which δ is certified; None: δ
        is not computed.
    """
    network, seed, places = case.scenario.network, case.scenario.seed, case.places
    few = replace(attack, trials=max(int(PILOT * attack.trials), 1))
    pilot = [run_world(few, mechanism, network, seed + PILOT_SEED, label, places=places).views for label in (0, 1)]
    worlds = [run_world(attack, mechanism, network, seed, label, places=places, noise=noise) for label in (0, 1)]
    counts, deltas = zip(*worlds, strict=True)
    return WorldCounts(np.stack(pilot), np.stack(counts), np.concatenate(deltas))


@dataclass(frozen=True)
class RealisedAudit:
    """A finished audit of an exchange over a network with faults.

    scenario: its name. cluster_size, flip_prob, sampling_rate: n, α, θ. ones: how many users besides the target hold
    label 1. epsilon: the ε at which δ is tested. delta_certified: upper bound, at error `error`, of the mean over
    networks of the certified δ(ε). delta_mean: the mean of the certified δ(ε) over the trials. delta_lower_confidence:
    the lower bound that the attack proves at error `error`. delta_local: δ(ε) of the noise alone. trials: clusters
    simulated in each world, without the pilot.
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
        """Whether the lower bound of δ(ε) that the attack proves is at most `delta_certified`."""
        return self.delta_lower_confidence <= self.delta_certified


def audit_realised(
    scenario: Scenario,
    cluster_size: int,
    trials: int,
    epsilon: float | None = None,
    *,
    data_dir: Path | None = None,
) -> RealisedAudit:
    """Attacks a scenario's exchange as a learner who sees who submits what.

    Args:
        scenario: has the mechanism, network, adversaries, δ and seed; labels are binary.
        cluster_size: n, 2 to 30.
        trials: number of clusters simulated in each of two worlds. A cluster's first user, the target, holds label 0 in
        one world and label 1 in the other. A pilot with half as many trials comes before; from it the attack learns
        which views are evidence.
        epsilon: ε at which δ is tested, at least 0 and below the ε of a single noisy label; None: a quarter of the ε
        that holds against the learner at δ = 1e-3 without faults.
        data_dir: where data files are.

    Raises:
        InputError: ε is out of range, or the mechanism or its adversaries cannot be attacked.
    """
    # The mechanism. Below, `plan` takes the data set that is worst for the exchange without faults.
    setup = Setup(np.array([cluster_size]), 2, scenario.privacy.delta, "events", scenario.adversaries)
    mechanism = exchange_of(scenario.mechanism.deployed(setup), "an audit of a network")
    noise, theta = flipped_labels(mechanism.randomizer, "an audit"), mechanism.sampling_rate
    alpha = noise.flip_prob
    if scenario.adversaries.coalition.users:
        raise InputError("adversaries.coalition.users: an audit has users of its own; set coalition.share instead")
    ideal = LearnerViews(LabelExchange(cluster_size, alpha, theta))
    tested = 0.25 * ideal.epsilon(1e-3).upper if epsilon is None else epsilon
    if not 0.0 <= tested < local_epsilon(alpha):
        raise InputError(f"--epsilon {tested:g}: must be at least 0 and below {local_epsilon(alpha):.4g}")
    attack = plan(ideal, scenario.privacy.delta, trials, tested)
    with one_thread():
        counts = run_worlds(attack, mechanism, Replicate(scenario, 0, data_dir), noise)
    # The pilot trials fix an event for each label. The event's frequencies in the other trials bound δ from below.
    events = [evidence(0.5 + counts.pilot.astype(np.float64), tested, label) for label in (0, 1)]
    hits = [[int(counts.trials[world][event].sum()) for world in (i, 1 - i)] for i, event in enumerate(events)]
    proved = max(delta_lower(own, opposite, trials, tested, ERROR / 2) for own, opposite in hits)
    # The certified δ, averaged over the networks of both worlds.
    local, mean = local_delta(alpha, tested).upper, float(counts.deltas.mean())
    return RealisedAudit(
        scenario=scenario.name,
        cluster_size=cluster_size,
        flip_prob=alpha,
        sampling_rate=theta,
        ones=attack.ones,
        epsilon=tested,
        delta_certified=min(local, mean + bernstein_margin(counts.deltas, local, ERROR)),
        delta_mean=mean,
        delta_lower_confidence=proved,
        delta_local=local,
        trials=trials,
        error=ERROR,
    )


def bernstein_margin(values: Floats, largest: float, error: float) -> float:
    """By how much a distribution's mean may exceed the average of m independent draws: an upper bound.

    The distribution lies in [0, largest]. The bound is sqrt(2 variance L/m) + 7 largest L/(3 (m-1)), with the draws'
    sample variance and L = ln(2/error). It fails with probability at most `error` (Maurer and Pontil 2009, Theorem 4).
    values: (m,) the draws.
    """
    log = math.log(2.0 / error)
    spread = math.sqrt(2.0 * float(values.var(ddof=1)) * log / values.size)
    return spread + 7.0 * largest * log / (3.0 * (values.size - 1))
