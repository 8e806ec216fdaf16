"""An audit in one run of a shuffler, or of a curator who releases noisy labels: one target in every cluster.

The attacker knows the true labels of all other users. A score is the likelihood ratio of the noisy labels of the
cluster, exactly where that is cheap; a classifier learns from held-out runs what else the release says, such as whose
label it is. A curator who releases the clusters' noisy distributions too is attacked by events (`curator`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.exchange_targets import Batch, ClusterTargets, own_users
from p2p_sim.audit.local_attack import frequent_pair
from p2p_sim.audit.one_run import TYPE_ONE, Account, Asked, OneRunAudit, audited
from p2p_sim.audit.scores import ClusterAttack, LikelihoodRatio, Score
from p2p_sim.base.errors import InputError
from p2p_sim.base.threads import one_thread
from p2p_sim.mechanisms.cluster_rr import ClusterRRConfig
from p2p_sim.mechanisms.deployment import Deployment
from p2p_sim.mechanisms.randomized_response import ShuffledResponseConfig
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.audit_statistics.power import ERROR
from p2p_sim.privacy.bound import PrivacyBound, worst_bound
from p2p_sim.privacy.conversions import tradeoff
from p2p_sim.privacy.exchange.direct_sum import OtherUsers
from p2p_sim.privacy.rivals.centralised import ClusterResampling
from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

Floats = NDArray[np.float64]
SHARES = (0.0, 0.1, 0.2, 0.4, 0.7, 0.9)
"""Parts of ε(δ = 1e-5) at which δ is tested."""
LARGEST_TEST_EPSILON, LARGEST_RISEN = 8.0, 100.0
HALVINGS = 14
LARGEST_EXACT = 4096
"""Most clusters, and most users of one, whose laws are tabulated."""
_TAIL = -200.0


def audit_pooled(
    case: Replicate, trials: int, error: float = ERROR, mechanism: Deployment | None = None
) -> OneRunAudit:
    """Attack a shuffler, or a curator who releases noisy labels alone.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.
        error: probability that a sound mechanism fails.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism is neither.
    """
    ready, scenario = prepare(case), case.scenario
    claimed, people = ready.mechanism, ready.population
    curves = pooled_curves(claimed, people.cluster_sizes, scenario.privacy.delta)
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
    sizes = int(people.cluster_sizes.min()), int(people.cluster_sizes.max())
    return audited(Asked.of(scenario), attack, curves, trials, error, claimed.parameters, sizes, scope=attack.scope)


def own_label(batch: Batch) -> Floats:
    """What the target's own noisy label says."""
    return np.asarray((batch.own == 2).astype(np.float64) - (batch.own == 1))


@dataclass(frozen=True)
class ShuffledRatio(LikelihoodRatio):
    """The logarithm of the likelihood ratio of the noisy ones of a cluster, each of which is there once."""

    def _table(self, size: int, ones: int) -> tuple[int, Floats]:
        if (size, ones) not in self._tables:
            alpha, found = self.flip_prob, np.zeros((1, size + 1))
            law = OtherUsers(size, size - 1 - ones, ones, alpha).noisy_ones(_TAIL)
            others = np.zeros(size + 1)  # at [k]: k - 1 noisy ones among the others; the last one wraps to [-1]
            others[law.first : law.first + len(law.probabilities)] = law.probabilities
            more = np.roll(others, 1)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(alpha * others + (1.0 - alpha) * more) - np.log((1.0 - alpha) * others + alpha * more)
            found[0] = np.nan_to_num(ratio, nan=0.0, posinf=700.0, neginf=-700.0)
            self._tables[size, ones] = size, found
        return self._tables[size, ones]

    def _normal(self, batch: Batch) -> Floats:
        alpha = self.flip_prob
        others = batch.ones * (1.0 - alpha) + (batch.sizes - 1 - batch.ones) * alpha
        spread = np.maximum((batch.sizes - 1) * alpha * (1.0 - alpha), 1e-9)
        return np.asarray((batch.sent_ones - others - 0.5) * (1.0 - 2.0 * alpha) / spread)


@dataclass(frozen=True)
class PairRatio:
    """About the same for K classes, by how many more noisy labels are of the high class than of the low one.

    flip_prob: α. num_classes: K.
    """

    flip_prob: float
    num_classes: int

    def __call__(self, batch: Batch) -> Floats:
        """(c,) of a batch."""
        other = self.flip_prob / (self.num_classes - 1)
        keeps = 1.0 - self.flip_prob - other
        among = batch.sizes - 1 - batch.ones - batch.zeros
        holds = 1.0 - self.flip_prob + other - keeps**2
        spread = np.maximum((batch.ones + batch.zeros) * holds + among * 2.0 * other, 1e-9)
        more = batch.sent_ones - batch.sent_zeros - keeps * (batch.ones - batch.zeros)
        return np.asarray(2.0 * keeps * more / spread)


def pooled_curves(mechanism: Deployment, sizes: NDArray[np.int64], delta: float) -> "PooledCurves":
    """What is certified of a shuffler or a curator.

    Raises:
        InputError: the mechanism is neither, or releases more than noisy labels.
    """
    if isinstance(mechanism, ShuffledResponseConfig):
        noise = mechanism.randomizer(mechanism.setup)
        alpha, classes = noise.flip_prob, noise.num_classes
        return PooledCurves(
            mechanism,
            sizes,
            delta,
            lambda size: ShuffledResponse(size, alpha, classes),
            lambda size, share: ShuffledResponse(size, share * alpha, classes),
        )
    if isinstance(mechanism, ClusterRRConfig) and mechanism.bias_correction == 0.0:
        r = mechanism.response

        def curator(size: int, share: float, counted: bool) -> ClusterResampling:
            resampled = share * r.resampling_prob
            return ClusterResampling(size, r.num_classes, resampled, r.noise_scale, r.threshold, False, counted)

        return PooledCurves(
            mechanism,
            sizes,
            delta,
            lambda size: curator(size, 1.0, mechanism.approximate),
            lambda size, share: curator(size, share, False),
        )
    raise InputError("mechanism: neither a shuffler nor a curator who releases noisy labels alone")


@dataclass(frozen=True)
class PooledCurves(Account):
    """The certified curves of clusters of these sizes (C,), one target in each; delta: δ of the scenario.

    accountant: of a cluster of some size. weaker: the same where labels are flipped or resampled with this share of the
    probability; of a curator by the pure ε alone, which costs less.
    """

    mechanism: Deployment
    sizes: NDArray[np.int64]
    delta: float
    accountant: Callable[[int], Accountant]
    weaker: Callable[[int, float], Accountant]

    @cached_property
    def middle(self) -> int:
        """The median size."""
        return int(np.sort(self.sizes)[len(self.sizes) // 2])

    def tested(self) -> list[float]:
        """Parts of ε(δ = 1e-5)."""
        largest = min(self.accountant(self.middle).epsilon(1e-5).epsilon_upper, LARGEST_TEST_EPSILON)
        return [share * largest for share in SHARES] if largest > 0.0 else [0.0, 1e-3]

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """Mean certified δ at each ε over the clusters."""
        found, weights = np.unique(self.sizes, return_counts=True)
        table = [[bracket.upper for bracket in self.accountant(int(n)).profile(epsilons)] for n in found]
        return np.asarray(np.array(table).T @ weights / weights.sum())

    def bound(self, delta: float) -> PrivacyBound:
        """As the mechanism states it."""
        return worst_bound(self.mechanism.privacy(np.unique(self.sizes), delta))

    def grown(self, epsilons: Sequence[float], rise: float, delta: float) -> Floats:
        """By the smaller share of noise with which ε(δ) is so many times as large, in a cluster of median size."""
        own = self.weaker(self.middle, 1.0)
        target = rise * own.epsilon(delta).epsilon_upper
        low, high = 0.0, 1.0
        if not 0.0 < target <= LARGEST_RISEN:
            return np.ones(len(epsilons))
        for _ in range(HALVINGS):
            share = 0.5 * (low + high)
            met = self.weaker(self.middle, share).satisfies(target, delta)
            low, high = (low, share) if met else (share, high)
        weak = self.weaker(self.middle, high)
        pairs = [(weak.delta(epsilon).upper, own.delta(epsilon).upper) for epsilon in epsilons]
        return np.array([more / less if less > 0.0 else 1.0 for more, less in pairs])

    def curves(self) -> dict[str, Floats]:
        """What is certified in a cluster of median size."""
        return {"certified, of the median cluster": tradeoff(self.accountant(self.middle), TYPE_ONE)}
