"""A one-run audit of mechanisms that release only noisy labels, such as a shuffler or a curator.

Every cluster has one target. The target's label is a fair coin between two classes, the low and the high class. The
attacker knows the true labels of all other users. For a shuffler, one score is the log-likelihood ratio of the
cluster's noisy labels. The score is exact for two classes in few and small clusters, and approximate otherwise. For all
other mechanisms, one score is the target's own noisy label. A classifier also learns from separate, held-out runs. The
classifier finds what else the release reveals, such as the owner of a noisy label. The module `curator_attack` attacks
curators who also release the clusters' noisy distributions.
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
"""Largest number of clusters, and largest number of users of a cluster, for which exact probabilities are tabulated."""
_TAIL = -200.0
"""Natural logarithm of the probability that is neglected in the tails of a distribution. The distribution describes the
number of ones among the other users' noisy labels.
"""


def audit_pooled(case: Replicate, trials: int, mechanism: Deployment | None = None) -> OneRunAudit:
    """Attacks a shuffler, a curator or another mechanism that releases only noisy labels.

    Args:
        case: the first replicate of the scenario, which has the users. trials: the least number of targets. mechanism:
        what is attacked; None: the mechanism that the scenario claims.

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
    """The scores (c,) of c targets. A target's score is 1 if her own noisy label is of the high class. The score is -1
    if the label is of the low class, and 0 otherwise.
    """
    return np.asarray((batch.own == 2).astype(np.float64) - (batch.own == 1))


@dataclass(frozen=True)
class ShuffledRatio(LikelihoodRatio):
    """The log-likelihood ratio of the number of noisy ones in a cluster. Each user submits her own label."""

    def _table(self, size: int, ones: int) -> RatioTable:
        law = OtherUsers(size, size - 1 - ones, ones, self.flip_prob).noisy_ones(_TAIL)
        # Pr[k noisy ones] if the target's noisy bit is 0. If the bit is 1, k - 1 other users have noisy ones.
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
    """An approximate log-likelihood ratio for a target's label among K classes, from a normal distribution.

    The score compares the number of noisy labels of the high class with the number of the low class. flip_prob: α.
    num_classes: K.
    """

    flip_prob: float
    num_classes: int

    def __call__(self, batch: Batch) -> Floats:
        """Scores (c,) of c targets, one in each cluster: roughly ln Pr[lead | high class] - ln Pr[lead | low class].
        The lead is the number of the cluster's noisy labels of the high class, minus the number of the low class. The
        lead is treated as normal. Its variance is taken not to depend on the target's label.

        batch: what is seen of the targets' clusters, and how many other users hold the high and the low class.
        """
        # Without the target, the lead has the mean keeps · (ones - zeros) and the variance `spread`.
        error = self.flip_prob / (self.num_classes - 1)
        keeps = 1.0 - self.flip_prob - error
        among = batch.sizes - 1 - batch.ones - batch.zeros
        holds = 1.0 - self.flip_prob + error - keeps**2
        spread = np.maximum((batch.ones + batch.zeros) * holds + among * 2.0 * error, 1e-9)
        more = batch.sent_ones - batch.sent_zeros - keeps * (batch.ones - batch.zeros)
        return np.asarray(2.0 * keeps * more / spread)


def pooled_curves(mechanism: Deployment, sizes: NDArray[np.int64], delta: float) -> ClusterAccount:
    """The certified bounds of a mechanism that releases noisy labels, with one target in each cluster.

    Args:
        mechanism: releases the labels. sizes: the clusters' sizes. delta: the δ at which a leak's ε is taken.

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
        leak. The audit computes how likely it would detect this leak.

        Args:
            size: number of users of the cluster. noise: the share of the claimed flip probability that is left; 1: the
            claimed noise.
        """
        message = self.mechanism.randomizer(self.mechanism.setup)
        return ShuffledResponse(size, noise * message.flip_prob, message.num_classes)


@dataclass(frozen=True)
class CuratorCurves(ClusterAccount):
    """The certified bounds for clusters whose labels a curator resamples (redraws with some probability)."""

    mechanism: ClusterRRConfig

    def weaker(self, size: int, noise: float) -> ClusterResampling:
        """The accountant of a cluster whose labels a curator redraws with some probability, with less noise than
        claimed. Less noise is a leak. The audit computes how likely it would detect this leak. The accountant states
        only the pure ε, because this is faster.

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
        """The accountant that the mechanism itself states for a cluster of `size` users. `noise` is ignored, because
        nothing says how the mechanism's ε depends on its noise. The method `reached` describes a leak as a factor by
        which ε grows.
        """
        return self.mechanism.accountant(self.mechanism.setup, size)

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each of the given values of ε, in a cluster of median size. The leak multiplies the claimed ε(δ) by
        `rise` at every δ.
        """
        return self.of_median([epsilon / rise for epsilon in epsilons], self.noise)
