"""An audit in one run of a shuffler, or of a curator who releases noisy labels: one target in every cluster.

The attacker knows the true labels of all other users. A score is the likelihood ratio of the noisy labels of the
cluster, exactly where that is cheap; a classifier learns from held-out runs what else the release says, such as whose
label it is. A curator who releases the clusters' noisy distributions too is attacked by events (`curator`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.cluster_account import ClusterAccount
from p2p_sim.audit.exchange_targets import Batch, ClusterTargets, own_users
from p2p_sim.audit.local_attack import SCORED, frequent_pair
from p2p_sim.audit.one_run import OneRunAudit, audited
from p2p_sim.audit.scores import ClusterAttack, LikelihoodRatio, RatioTable, Score
from p2p_sim.base import InputError, one_thread
from p2p_sim.mechanisms import ClusterRRConfig, Deployment, Mechanism, ShuffledResponseConfig
from p2p_sim.privacy import Accountant
from p2p_sim.privacy.exchange import OtherUsers
from p2p_sim.privacy.rivals import ClusterResampling, ShuffledResponse
from p2p_sim.replicate import Replicate, prepare

Floats = NDArray[np.float64]
LARGEST_EXACT = 4096
"""Most clusters, and most users of one, whose laws are tabulated."""
_TAIL = -200.0
"""Logarithm of what is left out of the law of the others' noisy ones."""


def audit_pooled(case: Replicate, trials: int, mechanism: Deployment | None = None) -> OneRunAudit:
    """Attack a shuffler, or a curator who releases noisy labels alone.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism releases no labels.
    """
    ready, scenario = prepare(case), case.scenario
    claimed, people = ready.mechanism, ready.population
    account = pooled_curves(claimed, people.cluster_sizes, scenario.privacy.delta)
    pair = frequent_pair(people)
    exact = people.num_classes == 2 and max(len(people.cluster_sizes), int(people.cluster_sizes.max())) <= LARGEST_EXACT
    ratio: Score = own_label
    if isinstance(claimed, ShuffledResponseConfig):
        alpha, classes = claimed.randomizer(claimed.setup).flip_prob, people.num_classes
        ratio = ShuffledRatio(alpha, 1.0, exact) if classes == 2 else PairRatio(alpha, classes)
    else:
        exact = False
    with one_thread():
        targets = ClusterTargets(case, mechanism or claimed, own_users(people, pair), pair)
        attack = ClusterAttack.prepared(targets, ratio, exact, trials, scenario.seed)
    return audited(scenario, attack, account, trials=trials)


def own_label(batch: Batch) -> Floats:
    """The score of a target's own noisy label, where the learner sees it: 1 for the high class, -1 for the low one,
    else 0; (c,).
    """
    return np.asarray((batch.own == 2).astype(np.float64) - (batch.own == 1))


@dataclass(frozen=True)
class ShuffledRatio(LikelihoodRatio):
    """The score of a target by the noisy ones of her cluster, each noisy label being there once: the log likelihood
    ratio.
    """

    def _table(self, size: int, ones: int) -> RatioTable:
        if (size, ones) not in self._tables:
            alpha = self.flip_prob
            law = OtherUsers(size, size - 1 - ones, ones, alpha).noisy_ones(_TAIL)
            others = np.zeros(size + 1)  # at [k]: k - 1 noisy ones among the others; the last one wraps to [-1]
            others[law.first : law.first + len(law.probabilities)] = law.probabilities
            more = np.roll(others, 1)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(alpha * others + (1.0 - alpha) * more) - np.log((1.0 - alpha) * others + alpha * more)
            ratios = np.nan_to_num(ratio, nan=0.0, posinf=700.0, neginf=-700.0)[None, :]
            self._tables[size, ones] = RatioTable(size, ratios)
        return self._tables[size, ones]

    def _normal(self, batch: Batch) -> Floats:
        alpha = self.flip_prob
        others = batch.ones * (1.0 - alpha) + (batch.sizes - 1 - batch.ones) * alpha
        spread = np.maximum((batch.sizes - 1) * alpha * (1.0 - alpha), 1e-9)
        return np.asarray((batch.sent_ones - others - 0.5) * (1.0 - 2.0 * alpha) / spread)


@dataclass(frozen=True)
class PairRatio:
    """The score of a target among K classes, about the log likelihood ratio.

    It looks at how many more noisy labels are of the high class than of the low one. flip_prob: α. num_classes: K.
    """

    flip_prob: float
    num_classes: int

    def __call__(self, batch: Batch) -> Floats:
        """The scores (c,) of a batch of targets."""
        # By how much the high class leads is about normal: mean keeps · (ones - zeros), variance `spread`.
        error = self.flip_prob / (self.num_classes - 1)
        keeps = 1.0 - self.flip_prob - error
        among = batch.sizes - 1 - batch.ones - batch.zeros
        holds = 1.0 - self.flip_prob + error - keeps**2
        spread = np.maximum((batch.ones + batch.zeros) * holds + among * 2.0 * error, 1e-9)
        more = batch.sent_ones - batch.sent_zeros - keeps * (batch.ones - batch.zeros)
        return np.asarray(2.0 * keeps * more / spread)


def pooled_curves(mechanism: Deployment, sizes: NDArray[np.int64], delta: float) -> ClusterAccount:
    """What is certified of a shuffler or a curator, one target in each of its clusters.

    Raises:
        InputError: the mechanism is neither, or releases more than noisy labels.
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
    """What is certified of clusters whose labels are shuffled."""

    mechanism: ShuffledResponseConfig

    noise = 1.0

    def weaker(self, size: int, noise: float) -> ShuffledResponse:
        """The accountant of a cluster of this size whose labels are flipped with the share `noise` of the
        probability.
        """
        message = self.mechanism.randomizer(self.mechanism.setup)
        return ShuffledResponse(size, noise * message.flip_prob, message.num_classes)


@dataclass(frozen=True)
class CuratorCurves(ClusterAccount):
    """What is certified of clusters whose labels a curator resamples."""

    mechanism: ClusterRRConfig

    noise = 1.0

    def weaker(self, size: int, noise: float) -> ClusterResampling:
        """The accountant of a cluster of this size whose labels are resampled with the share `noise` of the
        probability.

        It states the pure ε alone, which is quicker.
        """
        r = self.mechanism.response
        return ClusterResampling(
            size, r.num_classes, noise * r.resampling_prob, r.noise_scale, r.threshold, released=False, counted=False
        )

    def accountant(self, size: int) -> ClusterResampling:
        return replace(self.weaker(size, 1.0), counted=self.mechanism.approximate)


@dataclass(frozen=True)
class StatedCurves(ClusterAccount):
    """What any mechanism's own accountant certifies of clusters, each with noise of its own."""

    mechanism: Mechanism

    noise = 1.0

    def weaker(self, size: int, noise: float) -> Accountant:
        """The mechanism's accountant as it is: how noise and ε go together is not known of any mechanism."""
        return self.mechanism.accountant(self.mechanism.setup, size)

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each ε if every ε(δ) is `rise` times as large, in a cluster of median size."""
        return self.of_median([epsilon / rise for epsilon in epsilons], self.noise)
