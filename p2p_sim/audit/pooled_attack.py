"""An audit in one run of a shuffler, or of a curator or other mechanism that releases only noisy labels; every cluster
has one target.

The target's label is a fair coin between two classes, the low and the high class. The attacker knows the true labels of
all other users. For a shuffler, one score is the logarithm of the likelihood ratio of the cluster's noisy labels. It is
exact for two classes in few and small clusters, and otherwise approximate. For all others, one score is the target's
own noisy label. A classifier learns from held-out runs what else the release reveals, such as which user a noisy label
belongs to. A curator who also releases the clusters' noisy distributions is attacked by counting a rare event
(`curator_attack`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.cluster_account import ClusterAccount
from p2p_sim.audit.exchange_targets import Batch, ClusterTargets, own_users
from p2p_sim.audit.local_attack import SCORED, frequent_pair
from p2p_sim.audit.one_run import Floats, OneRunAudit, perform_audit
from p2p_sim.audit.scores import ClusterAttack, LikelihoodRatio, RatioTable, Score, log_ratio
from p2p_sim.base import InputError, one_thread
from p2p_sim.mechanisms import ClusterRRConfig, Deployment, Mechanism, ShuffledResponseConfig
from p2p_sim.privacy import Accountant
from p2p_sim.privacy.exchange import OtherUsers
from p2p_sim.privacy.rivals import ClusterResampling, ShuffledResponse
from p2p_sim.replicate import Replicate, prepare

LARGEST_EXACT = 4096
"""Largest number of clusters, and largest number of users of a cluster, for which laws are tabulated."""
_TAIL = -200.0
"""Natural logarithm of the probability of the tails that are left out of a law. The law is that of the number of ones
among the other users' noisy labels.
"""


def audit_pooled(case: Replicate, trials: int, mechanism: Deployment | None = None) -> OneRunAudit:
    """Attacks a shuffler, or a curator or other mechanism that releases noisy labels alone.

    Args:
        case: the first replicate of the scenario, which has the users. trials: the least number of targets.
        mechanism: what is attacked; None: the mechanism that the scenario claims.

    Raises:
        InputError: the mechanism releases no labels, or more than noisy labels.
    """
    ready, scenario = prepare(case), case.scenario
    claimed, people = ready.mechanism, ready.population
    account = pooled_curves(claimed, people.cluster_sizes, scenario.privacy.delta)
    pair = frequent_pair(people)
    ratio, exact = cast(Score, own_label), False
    if isinstance(claimed, ShuffledResponseConfig):
        alpha, classes = claimed.randomizer(claimed.setup).flip_prob, people.num_classes
        exact = classes == 2 and max(len(people.cluster_sizes), int(people.cluster_sizes.max())) <= LARGEST_EXACT
        ratio = ShuffledRatio(alpha, 1.0, exact) if classes == 2 else PairRatio(alpha, classes)
    with one_thread():
        targets = ClusterTargets(case, mechanism or claimed, own_users(people, pair), pair)
        attack = ClusterAttack.prepared(targets, ratio, exact, trials, scenario.seed)
    return perform_audit(scenario, attack, account, trials=trials)


def own_label(batch: Batch) -> Floats:
    """The scores (c,) of c targets by their own noisy labels: 1 for a label of the high class, -1 for one of the low
    class, else 0.
    """
    return np.asarray((batch.own == 2).astype(np.float64) - (batch.own == 1))


@dataclass(frozen=True)
class ShuffledRatio(LikelihoodRatio):
    """The log likelihood ratio of the number of noisy ones in a cluster, in which each user submits her own label."""

    def _table(self, size: int, ones: int) -> RatioTable:
        law = OtherUsers(size, size - 1 - ones, ones, self.flip_prob).noisy_ones(_TAIL)
        # Pr[k noisy ones] if the target's noisy bit is 0; if it is 1, only k - 1 of the others have noisy ones.
        zero = np.zeros(size + 1)
        zero[law.first : law.first + len(law.probabilities)] = law.probabilities
        return RatioTable(size, log_ratio(zero, np.roll(zero, 1), self.flip_prob)[None, :])

    def _normal(self, batch: Batch) -> Floats:
        alpha = self.flip_prob
        others = batch.ones * (1.0 - alpha) + (batch.sizes - 1 - batch.ones) * alpha
        spread = np.maximum((batch.sizes - 1) * alpha * (1.0 - alpha), 1e-9)
        return np.asarray((batch.sent_ones - others - 0.5) * (1.0 - 2.0 * alpha) / spread)


@dataclass(frozen=True)
class PairRatio:
    """An approximate log likelihood ratio for a target's label among K classes, from a normal law.

    The score compares how many noisy labels are of the high class with how many are of the low class. flip_prob: α.
    num_classes: K.
    """

    flip_prob: float
    num_classes: int

    def __call__(self, batch: Batch) -> Floats:
        """The scores (c,) of c targets, one in each cluster: approximately
        ln Pr[lead | high class] - ln Pr[lead | low class]. The lead is how many more of the cluster's noisy labels are
        of the high class than of the low class. It is taken as normal, with a variance that does not depend on the
        target's label.

        batch: what is seen of the targets' clusters, and how many other users hold the high and the low class.
        """
        # The lead of the high class is approximately normal: its mean is keeps · (ones - zeros), its variance is
        # `spread`.
        error = self.flip_prob / (self.num_classes - 1)
        keeps = 1.0 - self.flip_prob - error
        among = batch.sizes - 1 - batch.ones - batch.zeros
        holds = 1.0 - self.flip_prob + error - keeps**2
        spread = np.maximum((batch.ones + batch.zeros) * holds + among * 2.0 * error, 1e-9)
        more = batch.sent_ones - batch.sent_zeros - keeps * (batch.ones - batch.zeros)
        return np.asarray(2.0 * keeps * more / spread)


def pooled_curves(mechanism: Deployment, sizes: NDArray[np.int64], delta: float) -> ClusterAccount:
    """The certified bounds of a mechanism that releases noisy labels, with one target in each cluster.

    Raises:
        InputError: the mechanism releases no labels, or more than noisy labels.
    """
    if isinstance(mechanism, ShuffledResponseConfig):
        return ShuffledCurves(mechanism, sizes, delta)
    if isinstance(mechanism, ClusterRRConfig) and mechanism.bias_correction == 0.0:
        return CuratorCurves(mechanism, sizes, delta)
    if isinstance(mechanism, Mechanism) and mechanism.releases in SCORED and not isinstance(mechanism, ClusterRRConfig):
        return StatedCurves(mechanism, sizes, delta)
    raise InputError("mechanism: releases no labels, or more than noisy labels alone")


@dataclass(frozen=True)
class ShuffledCurves(ClusterAccount):
    """The certified bounds for clusters whose labels are shuffled."""

    mechanism: ShuffledResponseConfig

    def weaker(self, size: int, noise: float) -> ShuffledResponse:
        """The accountant of a cluster whose noisy labels are shuffled, with less noise than claimed. Less noise is a
        leak; the audit computes how likely it would detect this leak.

        Args:
            size: number of users of the cluster. noise: the share of the claimed flip probability that is left; 1:
            the claimed noise.
        """
        message = self.mechanism.randomizer(self.mechanism.setup)
        return ShuffledResponse(size, noise * message.flip_prob, message.num_classes)


@dataclass(frozen=True)
class CuratorCurves(ClusterAccount):
    """The certified bounds for clusters whose labels a curator resamples."""

    mechanism: ClusterRRConfig

    def weaker(self, size: int, noise: float) -> ClusterResampling:
        """The accountant of a cluster whose labels a curator redraws at random with some probability, with less noise
        than claimed. Less noise is a leak; the audit computes how likely it would detect this leak. The accountant
        states only the pure ε, since this is quicker.

        Args:
            size: number of users of the cluster. noise: the share of the claimed probability that is left; 1: the
            claimed noise.
        """
        r = self.mechanism.response
        return ClusterResampling(
            size, r.num_classes, noise * r.resampling_prob, r.noise_scale, r.threshold, released=False, counted=False
        )

    def accountant(self, size: int) -> ClusterResampling:
        return replace(self.weaker(size, 1.0), counted=self.mechanism.approximate)


@dataclass(frozen=True)
class StatedCurves(ClusterAccount):
    """The bounds that a mechanism's own accountant certifies for clusters that have independent noise."""

    mechanism: Mechanism

    def weaker(self, size: int, noise: float) -> Accountant:
        """The accountant that the mechanism itself states for a cluster of `size` users. `noise`, the share of the
        claimed noise that a leak leaves, is ignored: it is unknown how the mechanism's ε depends on its noise. The
        method exists because all accounts of clusters have it. Instead, the method `reached` of this class describes a
        leak, as a factor by which ε grows.
        """
        return self.mechanism.accountant(self.mechanism.setup, size)

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each of the given values of ε, in a cluster of median size, if ε(δ) is `rise` times as large as claimed
        at every δ.
        """
        return self.of_median([epsilon / rise for epsilon in epsilons], self.noise)
