"""The audit of any scenario: it chooses the attack that fits the scenario's mechanism and network.

A view is all that the observer sees of a cluster. An exchange in small clusters is attacked view by view. The event
engine simulates two worlds, and the attack counts how often each view occurs in each world. The target is the first
user of each cluster. She holds label 0 in one world and 1 in the other; all else has the same law (distribution).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2p_sim.audit.cells_attack import audit_cells
from p2p_sim.audit.curator_attack import CuratorAudit, audit_scenario
from p2p_sim.audit.exchange_attack import audit_exchange, people_of
from p2p_sim.audit.faulty_network_attack import RealisedAudit, audit_realised, run_worlds
from p2p_sim.audit.local_attack import audit_aggregates, audit_local
from p2p_sim.audit.model_attack import ModelAudit, audit_model
from p2p_sim.audit.one_run import OneRunAudit
from p2p_sim.audit.organisations_attack import audit_organisations
from p2p_sim.audit.pooled_attack import audit_pooled
from p2p_sim.audit.protocol_attack import audit_protocol
from p2p_sim.audit.votes_attack import audit_votes
from p2p_sim.base import InputError, one_thread
from p2p_sim.exchange import NOBODY
from p2p_sim.mechanisms import (
    Aggregates,
    ClusterRRConfig,
    LabelExchangeConfig,
    LocalChannel,
    Mechanism,
    NoisySteps,
    OrganisationsConfig,
    PateConfig,
    PrivateDensityConfig,
    PrivateHistogramConfig,
    ProtocolConfig,
    Setup,
    ShuffledChannel,
    exchange_of,
    flipped_labels,
)
from p2p_sim.privacy import LARGEST_EPSILON, Situation, Stated, local_epsilon
from p2p_sim.privacy.audit_statistics import (
    LARGEST_COALITION,
    AuditResult,
    CoalitionViews,
    LearnerViews,
    Views,
    plan,
)
from p2p_sim.privacy.exchange import Coalition, LabelExchange, lemma9_stated
from p2p_sim.replicate import Replicate
from p2p_sim.scenario import OWN_MECHANISMS, Scenario

ATTACKED: dict[type, Callable[[Replicate, int], OneRunAudit | ModelAudit]] = {
    LocalChannel: audit_local,
    NoisySteps: audit_model,
    PateConfig: audit_votes,
    Aggregates: audit_aggregates,
    ShuffledChannel: audit_pooled,
    ClusterRRConfig: audit_pooled,
    PrivateHistogramConfig: audit_cells,
    PrivateDensityConfig: audit_cells,
    OrganisationsConfig: audit_organisations,
    ProtocolConfig: audit_protocol,
    Mechanism: audit_pooled,
}
"""The function that audits a Python class of mechanisms. If a mechanism belongs to several classes, the first counts.
"""


def audit_at_own_size(case: Replicate, trials: int) -> OneRunAudit | ModelAudit:
    """The audit of what a scenario's mechanism releases about its own users, by the attack that fits the mechanism. The
    result has the lower bounds of ε and δ that the attack proves, and the certified bounds. The class of the result is
    `ModelAudit` if the mechanism trains a model by noisy gradient steps, else `OneRunAudit`.

    Args:
        case: one replicate (random repetition) of a scenario, with its users. trials: the least number of targets
        (users whose labels or rows are guessed).

    Raises:
        InputError: there is no attack on the mechanism.
    """
    mechanism = case.scenario.mechanism
    attack = next((attack for sort, attack in ATTACKED.items() if isinstance(mechanism, sort)), None)
    if attack is None:
        kinds = ", ".join(repr(kind) for kind, own in OWN_MECHANISMS.items() if issubclass(own, tuple(ATTACKED)))
        raise InputError(f"mechanism.kind = {mechanism.kind!r}: an audit attacks {kinds} or 'label_exchange'")
    return attack(case, trials)


LARGEST_CLUSTER = 30
"""Largest number of users of a cluster that is attacked view by view."""
LARGEST_COPY = 1_000_000
"""Largest number of users of a cluster of which copies are attacked."""
FEWEST_TRIALS, MOST_TRIALS = 1_000, 10_000_000


@dataclass(frozen=True)
class Audit:
    """A finished audit of an exchange in small clusters.

    scenario: the scenario's name. cluster_size, flip_prob, sampling_rate: n, α, θ. members: c, the number of users in
    the coalition; 0: the observer is the learner alone. lemma9: the ε that Lemma 9 of the clustering paper (Esfandiari
    et al.) states for this observer at the result's δ, or the reason for none. conditions: the conditions under which
    the exact values hold. result: the result of the attack view by view. learned: the result of a second attack on the
    same cluster, in one run. There a classifier learns from all submissions and their times. None: the observer is a
    coalition, or the attack was left out.
    """

    scenario: str
    cluster_size: int
    flip_prob: float
    sampling_rate: float
    members: int
    lemma9: Stated
    conditions: tuple[str, ...]
    result: AuditResult
    learned: OneRunAudit | None = None

    @property
    def passed(self) -> bool:
        """Whether no attack proves more than the exact bound."""
        return self.result.passed and (self.learned is None or self.learned.passed)


def audit(
    scenario: Scenario,
    observer: str = "learner",
    members: int | None = None,
    *,
    trials: int = 100_000,
    cluster_size: int | None = None,
    epsilon: float | None = None,
    data_dir: Path | None = None,
    learn: bool = True,
) -> Audit | RealisedAudit | CuratorAudit | OneRunAudit | ModelAudit:
    """Attacks a scenario's mechanism and compares the result with the certified bounds.

    - A label exchange in clusters of at most 30 users is attacked view by view, on the event engine. The attack counts
      how often each view of the observer occurs for each label of a target. The result is an `Audit`. On a network with
      faults or adversaries, the result is a `RealisedAudit`.
    - In larger clusters, or if users ask several peers, the exchange is attacked in one run, with many targets at once.
      This run uses the scenario's engine. The result is a `OneRunAudit`.
    - A curator may release noisy label distributions of clusters. The attack counts how often a rare event occurs in
      the release. The result is a `CuratorAudit`.
    - Any other mechanism is attacked in one run. The result is a `ModelAudit` for training by noisy gradient steps,
      else a `OneRunAudit`.

    Args:
        scenario: has the mechanism, network, δ and seed, and the clusters unless `cluster_size` is set. Labels of an
        exchange are binary. observer: "learner" or "coalition" (passive users of the cluster, pooled with the learner).
        members: c, number of users in the coalition, 1 to 5 and fewer than the cluster has; None: 1. trials: number of
        clusters simulated in each of the two worlds (target's label 0 or 1), or number of targets in one run; 1,000 to
        10,000,000.
        cluster_size: n. Copies of one cluster of n users are attacked. n is 2 to 1,000,000 for an exchange, and 2 to
        200 for a curator of label distributions. Other mechanisms need None. None: the scenario's own clusters. An
        attack view by view then copies a cluster of the smallest size. The attack on a curator then chooses, among
        a few cluster sizes, the size at which it is expected to prove most.
        epsilon: for clusters of at most 30 users, the ε at which δ is tested. The value must be at least 0 and below
        the ε of a single noisy label. None: of three values, the ε at which the attack is expected to prove the largest
        share of the exact δ. With faults or adversaries, None stands for a quarter of the learner's ε at δ = 1e-3 in an
        exchange without faults and adversaries.
        data_dir: where data files are; None: the environment variable P2P_SIM_DATA. learn: whether a classifier also
        attacks clusters of at most 30 users, by all submissions and their times.

    Raises:
        InputError: an argument is out of its range or does not go with the mechanism, or there is no attack on the
        mechanism.
    """
    colluders = _colluders(observer, members)
    if not FEWEST_TRIALS <= trials <= MOST_TRIALS:
        raise InputError(f"--trials {trials}: must lie in {FEWEST_TRIALS}..{MOST_TRIALS}")
    narrowed = colluders > 0 or epsilon is not None  # whether the observer is a coalition, or one ε is tested
    if scenario.mechanism.kind == "cluster_rr" and scenario.mechanism.releases == "signed":
        if narrowed:
            raise InputError("--observer, --epsilon: an audit of a curator tests the learner's pure ε; leave them out")
        return audit_scenario(scenario, trials, cluster_size, data_dir)
    if scenario.mechanism.kind != "label_exchange":
        if (narrowed, cluster_size) != (False, None):
            raise InputError(
                f"--observer, --epsilon, --cluster-size: not for mechanism.kind = {scenario.mechanism.kind!r}; leave "
                "them out"
            )
        return audit_at_own_size(Replicate(scenario, 0, data_dir), trials)
    return _audit_exchange(
        scenario, colluders, trials, cluster_size=cluster_size, epsilon=epsilon, data_dir=data_dir, learn=learn
    )


def _audit_exchange(
    scenario: Scenario,
    colluders: int,
    trials: int,
    *,
    cluster_size: int | None,
    epsilon: float | None,
    data_dir: Path | None,
    learn: bool,
) -> Audit | RealisedAudit | OneRunAudit:
    """Attacks a label exchange: view by view if its clusters are small and every user asks one peer, else in one run.

    Args:
        colluders: number of users in a coalition with the learner; 0: the learner alone. The other arguments are as in
        `audit`.
    """
    if cluster_size is not None and not 2 <= cluster_size <= LARGEST_COPY:
        raise InputError(f"--cluster-size {cluster_size}: must lie in 2..{LARGEST_COPY}")
    if (size := cluster_size) is None:  # then the size of the smallest cluster
        with one_thread():
            size = int(people_of(Replicate(scenario, 0, data_dir)).cluster_sizes.min())
    several = isinstance(scenario.mechanism, LabelExchangeConfig) and scenario.mechanism.asking.several
    if size <= LARGEST_CLUSTER and not several:
        return _audit_small(scenario, size, colluders, trials=trials, epsilon=epsilon, data_dir=data_dir, learn=learn)
    # an attack in one run tests many ε, for the learner alone
    if colluders or epsilon is not None:
        raise InputError(
            "--observer, --epsilon: an audit with several peers tests the learner alone, at many ε"
            if several
            else "--observer, --epsilon: an audit of clusters above 30 users tests the learner alone, at many ε; leave "
            "them out, or give --cluster-size 2..30"
        )
    return audit_exchange(Replicate(scenario, 0, data_dir), trials, cluster_size)


def _audit_small(
    scenario: Scenario,
    size: int,
    colluders: int,
    *,
    trials: int,
    epsilon: float | None,
    data_dir: Path | None,
    learn: bool,
) -> Audit | RealisedAudit:
    """Attacks a label exchange in clusters of at most 30 users. The attack counts how often each view (all that the
    observer sees of a cluster) occurs in two worlds. A target's label is 0 in one world, and 1 in the other. Without
    network faults and adversaries, the result is an `Audit`, which compares with the exact bound. Otherwise it is a
    `RealisedAudit`, with a certified bound for what happened on the simulated networks.

    Args:
        size: n, the number of users of a cluster. colluders: number of users in a coalition with the learner; 0: the
        learner alone. learn: whether a classifier is a second attack, if the network has no faults and there is no
        coalition. The other arguments are as in `audit`.
    """
    if colluders >= size:
        raise InputError(f"--members {colluders}: must be below the cluster size, {size}; the target is no member")
    if not scenario.network.ideal or scenario.adversaries != NOBODY:
        if colluders:
            raise InputError('--observer "coalition": needs a network without faults and adversaries')
        return audit_realised(scenario, size, trials, epsilon, data_dir=data_dir)
    delta, sizes = scenario.privacy.delta, np.array([size], dtype=np.int64)
    mechanism = exchange_of(scenario.mechanism.deployed(Setup(sizes, 2, delta)), "an audit")
    alpha, theta = flipped_labels(mechanism.randomizer, "an audit").flip_prob, mechanism.sampling_rate
    largest = min(local_epsilon(alpha), LARGEST_EPSILON)
    if epsilon is not None and not 0.0 <= epsilon < largest:
        raise InputError(f"--epsilon {epsilon:g}: must be at least 0 and below {largest:.4g}")
    # what the observer may see, and the attack on it
    exchange = LabelExchange(size, alpha, theta)
    views: Views = CoalitionViews(size, alpha, theta, colluders) if colluders else LearnerViews(exchange)
    attack = plan(views, delta, trials, epsilon)
    with one_thread():
        counts = run_worlds(attack, mechanism, Replicate(scenario, 0, data_dir))
    # the second attack on the same cluster, in one run, uses all submissions and their times
    learned = None
    if learn and not colluders:
        events = Replicate(scenario.model_copy(update={"engine": "events"}), 0, data_dir)
        learned = audit_exchange(events, trials, size, closely=True)
    return Audit(
        scenario=scenario.name,
        cluster_size=size,
        flip_prob=alpha,
        sampling_rate=theta,
        members=colluders,
        lemma9=lemma9_stated(size, alpha, theta, delta, Situation(observer=views.observer)),
        conditions=(Coalition(exchange, colluders) if colluders else exchange).conditions,
        result=attack.judge(counts.trials, counts.pilot),
        learned=learned,
    )


def _colluders(observer: str, members: int | None) -> int:
    """c, the number of members of the observer "coalition"; 0 for the learner alone. A coalition has 1 member if
    `members` is None.

    Raises:
        InputError: `observer` is unknown, `members` is given for the learner alone, or `members` is out of range.
    """
    if observer not in ("learner", "coalition"):
        raise InputError(f'--observer "{observer}": must be learner or coalition')
    if observer == "learner" and members is not None:
        raise InputError(f"--members {members}: needs --observer coalition")
    colluders = int(observer == "coalition") if members is None else members
    if observer == "coalition" and not 1 <= colluders <= LARGEST_COALITION:
        raise InputError(f"--members {colluders}: must lie in 1..{LARGEST_COALITION}")
    return colluders
