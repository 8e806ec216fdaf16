"""An attack on the simulated exchange: two neighbouring worlds through the event engine, counted view by view.

A population of many copies of one small cluster is as many independent trials. In one world the target, the first user
of each cluster, holds label 0, in the other 1; all else has the same law. Mechanism and network are the scenario's.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from analysis.privacy.attack.power import AuditResult, Plan, plan
from analysis.privacy.attack.views import LARGEST_COALITION, CoalitionViews, LearnerViews, Views
from analysis.privacy.exchange.label_exchange import LabelExchange
from analysis.privacy.exchange.one_cluster import LARGEST_EPSILON
from analysis.privacy.exchange.paper import lemma9_epsilon
from analysis.privacy.statement.local import local_epsilon
from p2p_sim.attacks.curator import CuratorAudit, audit_scenario
from p2p_sim.attacks.faulty_network import RealisedAudit, audit_realised
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import BLOCK, Streams
from p2p_sim.mechanisms.interface import LabelRelease, Mechanism
from p2p_sim.mechanisms.label_exchange import exchange_of
from p2p_sim.mechanisms.messages import flipped_labels
from p2p_sim.network.config import NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.protocol.roles import NOBODY
from p2p_sim.protocol.transcript import REPLY, REQUEST, SUBMISSION, Messages
from p2p_sim.replicate.case import Case
from p2p_sim.scenario import Scenario

LARGEST_CLUSTER = 30
FEWEST_TRIALS, MOST_TRIALS = 1_000, 10_000_000
SHARDS = 4
"""Shards run at a time, which bounds the memory."""
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Audit:
    """A finished audit: what was attacked, and the result.

    scenario: its name; cluster_size, flip_prob, sampling_rate: n, α, θ; members: c, 0 for the learner alone.
    lemma9: the paper's ε for the learner at the result's δ, None where its conditions do not hold.
    """

    scenario: str
    cluster_size: int
    flip_prob: float
    sampling_rate: float
    members: int
    lemma9: float | None
    result: AuditResult

    @property
    def passed(self) -> bool:
        """Whether no attack exceeds the exact bound."""
        return self.result.passed


def audit(
    scenario: Scenario,
    observer: str = "learner",
    members: int | None = None,
    trials: int = 100_000,
    cluster_size: int | None = None,
    epsilon: float | None = None,
    data_dir: Path | None = None,
) -> Audit | RealisedAudit | CuratorAudit:
    """Attack a scenario's exchange and compare the result with the exact bound, or, where the network has faults or
    somebody does not follow the protocol, with the certified one of the realised networks; or attack a curator.

    Args:
        scenario: mechanism, network, δ and seed; its clusters, unless `cluster_size` is given. Labels are binary.
        observer: "learner" or "coalition" (passive users of the cluster, pooled with the learner).
        members: c, users in the coalition, 1 to 5 and fewer than the cluster has; None: 1.
        trials: clusters simulated in each of the two worlds, 1,000 to 10,000,000.
        cluster_size: n, 2 to 30; None: the scenario's smallest cluster, refused above 30.
        epsilon: ε at which δ is tested, below ε₀; None: the one with the most power.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.

    Raises:
        InputError: an argument is out of its range.
    """
    colluders = _colluders(observer, members)
    if not FEWEST_TRIALS <= trials <= MOST_TRIALS:
        raise InputError(f"--trials {trials}: must lie in {FEWEST_TRIALS}..{MOST_TRIALS}")
    if scenario.mechanism.kind == "cluster_rr":
        if colluders or epsilon is not None:
            raise InputError("--observer, --epsilon: an audit of a curator tests the learner's pure ε; leave them out")
        return audit_scenario(scenario, trials, cluster_size, data_dir)
    if scenario.mechanism.kind != "label_exchange":
        raise InputError(
            f"mechanism.kind = {scenario.mechanism.kind!r}: an audit attacks 'label_exchange' or 'cluster_rr'"
        )
    size = _size(scenario, cluster_size, data_dir)
    if colluders >= size:
        raise InputError(f"--members {colluders}: must be below the cluster size, {size}; the target is no member")
    if not scenario.network.ideal or scenario.adversaries != NOBODY:
        if colluders:
            raise InputError('--observer "coalition": known for networks without faults and adversaries only')
        return audit_realised(scenario, size, trials, epsilon)
    network, delta = scenario.network, scenario.privacy.delta
    sizes = np.array([size], dtype=np.int64)
    mechanism = exchange_of(scenario.mechanism.build(sizes, 2, delta, "events"), "an audit")
    alpha, theta = flipped_labels(mechanism.randomizer, "an audit").flip_prob, mechanism.sampling_rate
    largest = min(local_epsilon(alpha), LARGEST_EPSILON)
    if epsilon is not None and not 0.0 <= epsilon < largest:
        raise InputError(f"--epsilon {epsilon:g}: must be at least 0 and below {largest:.4g}")
    views: Views = LearnerViews(LabelExchange(size, alpha, theta))
    if colluders:
        views = CoalitionViews(size, alpha, theta, colluders)
    attack = plan(views, delta, trials, epsilon)
    with threadpool_limits(1):
        zero, one = (count(attack, mechanism, network, scenario.seed, label) for label in (0, 1))
    result = attack.judge(zero, one)
    lemma9 = None if colluders else lemma9_epsilon(size, alpha, theta, delta)
    return Audit(scenario.name, size, alpha, theta, colluders, lemma9, result)


def count(attack: Plan, mechanism: Mechanism, network: NetworkConfig, seed: int, label: int) -> Counts:
    """How often each view occurred in `attack.trials` clusters whose first user holds `label`: (J,).

    Args:
        attack: says who looks, and at which data set.
        mechanism: what is attacked; it must simulate messages.
        network: over which they travel.
        seed: root seed; each world has streams of its own.
        label: the target's, 0 or 1.
    """
    views, size = attack.views, attack.views.cluster_size
    cluster = cluster_labels(attack, label)
    counts = np.zeros(attack.law.a.size, dtype=np.int64)
    together = SHARDS * (BLOCK // size)
    for batch, done in enumerate(range(0, attack.trials, together)):
        clusters = min(together, attack.trials - done)
        offsets = np.arange(clusters + 1, dtype=np.int64) * size
        labels = np.tile(cluster, clusters)
        population = Population(np.zeros((labels.size, 1)), labels, offsets, 2)
        streams = Streams(seed, 2 * batch + label)
        outcome = mechanism.release(population, network, streams, record=views.members > 0)
        if isinstance(views, CoalitionViews):
            assert outcome.transcript is not None
            members = np.add.outer(offsets[:-1], np.arange(1, 1 + views.members)).ravel()
            seen = outcome.transcript.view("coalition", members.tolist())
            cells = coalition_cells(seen, views, population)
        else:
            assert isinstance(views, LearnerViews)
            cells = learner_cells(outcome.labels, views, clusters)
        counts += np.bincount(cells, minlength=counts.size)
    return counts


def cluster_labels(attack: Plan, label: int) -> NDArray[np.uint8]:
    """Labels of the attacked cluster (n,): the target's, the members' (all 0), the others' ones, the others' zeros."""
    labels = np.zeros(attack.views.cluster_size, dtype=np.uint8)
    labels[0] = label
    others = 1 + attack.views.members
    labels[others : others + attack.ones] = 1
    return labels


def learner_cells(release: LabelRelease, views: LearnerViews, clusters: int) -> Counts:
    """The cell of `LearnerViews` that each cluster's submissions make: (clusters,).

    Args:
        release: all submissions; in several rounds a user may have submitted several times.
        views: what the learner may see of a cluster.
        clusters: how many there are.
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

    tells = (seen.kind == SUBMISSION) & ~from_member & ~asked[user]
    cluster = user[0][tells]
    kept = np.bincount(cluster, minlength=shape[0])
    ones = np.bincount(cluster, weights=seen.label[tells], minlength=shape[0]).astype(np.int64)

    target, known = bit[:, 0], bit[:, 1:] >= 0
    truth = population.labels.reshape(shape)[:, 1:]
    f0, f1 = (known & (truth == 0)).sum(axis=1), (known & (truth == 1)).sum(axis=1)
    pattern = views.cell_of_pattern[f0, f1, (bit[:, 1:] == 1).sum(axis=1)]
    cells = pattern + kept * (views.sources + 1) + ones
    return np.where(target >= 0, target, cells).astype(np.int64)


def _colluders(observer: str, members: int | None) -> int:
    """c, 0 for the learner alone."""
    if observer not in ("learner", "coalition"):
        raise InputError(f'--observer "{observer}": must be learner or coalition')
    if observer == "learner":
        if members is not None:
            raise InputError(f"--members {members}: needs --observer coalition")
        return 0
    colluders = 1 if members is None else members
    if not 1 <= colluders <= LARGEST_COALITION:
        raise InputError(f"--members {colluders}: must lie in 1..{LARGEST_COALITION}")
    return colluders


def _size(scenario: Scenario, cluster_size: int | None, data_dir: Path | None) -> int:
    """The cluster size that is audited."""
    if cluster_size is not None:
        if not 2 <= cluster_size <= LARGEST_CLUSTER:
            raise InputError(f"--cluster-size {cluster_size}: must lie in 2..{LARGEST_CLUSTER}")
        return cluster_size
    with threadpool_limits(1):
        population = Case(scenario, 0, data_dir).people()
    if population.num_classes > 2:
        raise InputError(
            f"population: has {population.num_classes} classes; an audit needs two, or --cluster-size to audit the "
            "exchange of binary labels"
        )
    smallest = int(population.cluster_sizes.min())
    if smallest > LARGEST_CLUSTER:
        raise InputError(
            f"clusters: the smallest has {smallest} users; an audit has power up to {LARGEST_CLUSTER}, since one "
            "label's influence falls as 1/√n while a trial costs n users; give --cluster-size 2..30"
        )
    return smallest
