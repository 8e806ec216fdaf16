"""An audit of the label exchange in one run. One user of every cluster is a target, and her label is a fair coin.

The clusters are the scenario's own, or copies of one cluster with the worst data set. Networks may have faults, and
users may depart from the protocol.
"""

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.cluster_account import ClusterAccount
from p2p_sim.audit.exchange_targets import ClusterTargets, copies, own_users
from p2p_sim.audit.one_run import TYPE_ONE, Floats, OneRunAudit, perform_audit
from p2p_sim.audit.scores import LARGEST_TABLE, MOST_TABLES, ClusterAttack, LikelihoodRatio
from p2p_sim.base import InputError, one_thread
from p2p_sim.exchange import NOBODY
from p2p_sim.mechanisms import LabelExchangeMechanism, RandomizedResponse, Setup, exchange_of, flipped_labels
from p2p_sim.population import GivenClusters, People, SyntheticConfig, draw_people
from p2p_sim.privacy import PrivacyBound, tradeoff
from p2p_sim.privacy.audit_statistics import LARGEST_VIEW, CountViews, OneRunPlan, smallest_refused
from p2p_sim.privacy.exchange import LabelExchange, MajorityCluster, MajorityExchange, MajorityKernel, lemma9_stated
from p2p_sim.replicate import Replicate, streams
from p2p_sim.scenario import Scenario

_LOOKS = 65
"""Largest number of data sets among which the worst is chosen if users submit majorities."""


def audit_exchange(
    case: Replicate,
    trials: int,
    cluster_size: int | None = None,
    *,
    claimed_flip_prob: float | None = None,
    closely: bool = False,
) -> OneRunAudit:
    """Attacks a scenario's label exchange, in the scenario's own clusters or in copies of one cluster.

    Args:
        case: the scenario, whose first replicate has the users. trials: the least number of targets.
        cluster_size: number n of users in each of many copies of one cluster with the worst data set; None: the
        scenario's own clusters are attacked.
        claimed_flip_prob: the flip probability α for which the certified δ is tested; None: the scenario's α.
        closely: whether a classifier also learns from every submission and its time. This needs clusters of one size,
        and an engine that sends messages.

    Raises:
        InputError: the exchange cannot be attacked, or nothing is certified of it.
    """
    scenario = case.scenario
    with one_thread():
        # The exchange with the claimed noise, and what is certified of it.
        people = None if cluster_size is not None else people_of(case)
        sizes = np.array([cluster_size]) if people is None else people.cluster_sizes
        mechanism = _deployed_exchange(case, sizes)
        noise = flipped_labels(mechanism.randomizer, "an audit")
        noise = noise if claimed_flip_prob is None else RandomizedResponse(claimed_flip_prob)
        claimed = replace(mechanism, randomizer=noise)
        numbers = int(sizes.min()), noise.flip_prob, claimed.sampling_rate, scenario.privacy.delta
        stated = lemma9_stated(*numbers, claimed.situation(scenario.situation(2)))
        account = ClusterCurves(claimed, sizes, scenario.privacy.delta, engine=claimed.engine, paper=stated)
        few = people is None or len(sizes) <= MOST_TABLES
        rounds = copies(worst_labels(mechanism, int(sizes[0]))) if people is None else own_users(people)
        targets = ClusterTargets(
            case, mechanism, rounds, looks_closely=closely, certified=noise if _may_fail(scenario) else None
        )
        attack = exchange_attack(targets, few and int(sizes.max()) <= LARGEST_TABLE, trials, scenario.seed)
    return perform_audit(scenario, attack, account, trials=trials)


def people_of(case: Replicate) -> People:
    """The users of the scenario's first replicate, drawn in shards (groups of whole clusters) if possible.

    Raises:
        InputError: labels have more than two classes.
    """
    scenario = case.scenario
    if streams(scenario):
        # Such scenarios have synthetic users in given clusters.
        source, clusters = cast(SyntheticConfig, scenario.population), cast(GivenClusters, scenario.clusters)
        people: People = draw_people(source, clusters, case.streams)
    else:
        people = case.people()
    if people.num_classes > 2:
        raise InputError(
            f"population: has {people.num_classes} classes; an audit needs two, or --cluster-size to audit the "
            "exchange of binary labels"
        )
    return people


def _may_fail(scenario: Scenario) -> bool:
    """Whether networks may have faults, or users may depart from the protocol."""
    return not scenario.network.ideal or scenario.adversaries != NOBODY


def _deployed_exchange(case: Replicate, sizes: NDArray[np.int64]) -> LabelExchangeMechanism:
    """The label exchange that a scenario deploys in clusters of these sizes, with labels 0 and 1. This exchange does
    not correct the bias that flips cause.

    case: the scenario. sizes: numbers of users of the clusters.

    Raises:
        InputError: the scenario names the users of its coalition; or its mechanism is no label exchange; or users ask
        several peers while the network may have faults or users may depart from the protocol.
    """
    scenario = case.scenario
    if scenario.adversaries.coalition.users:
        raise InputError("adversaries.coalition.users: an audit has users of its own; set coalition.share instead")
    setup = Setup(sizes, 2, scenario.privacy.delta, scenario.engine, scenario.adversaries)
    built = exchange_of(scenario.mechanism.deployed(setup), "an audit", True)
    if _may_fail(scenario):
        exchange_of(built, "an audit of a network with faults or adversaries")
    return replace(built, debias=False)


def worst_labels(mechanism: LabelExchangeMechanism, size: int) -> NDArray[np.uint8]:
    """The labels (n,) of a cluster in which an attack is expected to learn most about the first user, the target. Her
    label is 0 here. The search is over the number of other users who hold label 1. These users follow the target.

    If every user asks one peer and n is at most 100, the number with the largest δ(0) is taken. This δ is computed from
    the exact law of what the learner sees. In larger clusters the number 0 is taken. If users ask several peers and
    submit the majority, up to 65 numbers are tried. The number with the least estimated variance is taken, because this
    variance hides the target.

    size: n.
    """
    labels, alpha = np.zeros(size, dtype=np.uint8), flipped_labels(mechanism.randomizer, "an audit").flip_prob
    if mechanism.asking.several:
        exchange = MajorityExchange(size, alpha, mechanism.sampling_rate, mechanism.asking.shares)
        setting = cast(MajorityCluster, exchange.setting)
        # the least variance reveals approximately the most
        tried: list[int] = np.unique(np.linspace(0, (size - 1) // 2, _LOOKS).astype(int)).tolist()
        labels[1 : 1 + min(tried, key=lambda ones: sum(setting.variances(ones)))] = 1
    elif size <= LARGEST_VIEW:
        laws = CountViews(LabelExchange(size, alpha, mechanism.sampling_rate)).laws
        labels[1 : 1 + int(np.argmax([law.deltas(0.0).max() for law in laws]))] = 1
    return labels


def exchange_attack(targets: ClusterTargets, tabulated: bool, trials: int, seed: int) -> ClusterAttack:
    """The attack on an exchange. One score of a target's label is the likelihood ratio of the counts that the learner
    sees of her cluster. Another score comes from a classifier that has learned from held-out runs. Three more scores
    look at who submits together, if targets are looked at closely and arrival times are known.

    Args:
        targets: the source of the targets; each cluster has one target. tabulated: True if the ratio is taken from
        tables of the exact law, which needs few and small clusters; False if it is taken from normal approximations.
        trials: how many targets will count; this fixes the number of held-out targets. seed: root seed.
    """
    mechanism = exchange_of(targets.mechanism, "an audit", True)
    asking, alpha = mechanism.asking, flipped_labels(mechanism.randomizer, "an audit").flip_prob
    kernel = MajorityKernel(asking.shares) if asking.several else None
    ratio = LikelihoodRatio(alpha, mechanism.sampling_rate, tabulated, kernel)
    return ClusterAttack.prepared(targets, ratio, tabulated and targets.certified is None, trials, seed)


@dataclass(frozen=True)
class ClusterCurves(ClusterAccount):
    """What is certified of clusters of an exchange with one target in each."""

    mechanism: LabelExchangeMechanism

    shares = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)
    most = 4.0

    @property
    def noise(self) -> float:
        """The flip probability α."""
        return flipped_labels(self.mechanism.randomizer, "an audit").flip_prob

    @property
    def parameters(self) -> dict[str, float]:
        asking = self.mechanism.asking
        peers = {"peers": asking.requests} if asking.several else {}
        return {"flip_prob": self.noise, "sampling_rate": self.mechanism.sampling_rate, **peers}

    def weaker(self, size: int, noise: float) -> LabelExchange | MajorityExchange:
        """The accountant of an exchange in a cluster of this size with the flip probability `noise`."""
        rate, asking = self.mechanism.sampling_rate, self.mechanism.asking
        if asking.several:
            return MajorityExchange(size, noise, rate, asking.shares)
        return LabelExchange(size, noise, rate)

    def bound(self, delta: float) -> PrivacyBound:
        """The learner's ε at δ in the smallest cluster, which holds for all clusters. To see this, tell the learner the
        noisy labels of some users of a larger cluster. The rest is an exchange in a smaller cluster, and additional
        knowledge can only raise ε.

        This argument fails if users ask several peers and submit the majority: noisy labels that the learner knows also
        count in majorities. Then the result is the largest ε of all cluster sizes.
        """
        sizes = np.unique(self.sizes) if self.mechanism.asking.several else self.sizes.min(keepdims=True)
        return max((self.accountant(int(n)).epsilon(delta) for n in sizes), key=lambda bound: bound.epsilon_upper)

    def curves(self) -> dict[str, Floats]:
        """Trade-off curves of a cluster of median size, by name. One is the exact curve without faults. The other
        follows from the clustering paper's Lemma 9. This curve is left out if users ask several peers, or if the lemma
        does not apply.
        """
        n = self.middle
        curves = {"exact, without faults": tradeoff(self.accountant(n), TYPE_ONE)}
        if self.mechanism.asking.several:
            return curves
        paper = lemma9_stated(n, self.noise, self.mechanism.sampling_rate, self.delta).epsilon
        if paper is not None:
            rest = 1.0 - self.delta
            lines = rest - math.exp(paper) * TYPE_ONE, math.exp(-paper) * (rest - TYPE_ONE)
            curves["the paper's Lemma 9"] = np.maximum(np.maximum(*lines), 0.0)
        return curves

    def refused(self, plan: OneRunPlan, certified: Floats, attacked: Floats) -> float | None:
        """The smallest flip probability α, up to 1/2, that the attack refutes; None if no α is refuted. An α is refuted
        if at some tested ε the attack proves a larger δ than would be certified with this α.

        δ at another α is the certified δ times a ratio: δ with this α, divided by δ with the claimed α, in a cluster of
        median size.

        Args:
            plan: has the J values of ε at which δ is tested. certified: (J,) the mean certified δ of the targets at
            each ε. attacked: (J,) the lower bounds of this mean that the attack proves.
        """
        epsilons = [event.epsilon for event in plan.deltas]
        if not (attacked > 0.0).any():
            return None
        own = self.of_median(epsilons, self.noise)

        def falls(flip_prob: float) -> bool:
            weaker = self.of_median(epsilons, flip_prob)
            factors = np.divide(weaker, own, out=np.ones_like(own), where=own > 0.0)
            return bool((factors * certified < attacked).any())

        return smallest_refused(falls, 0.0, 0.5)
