"""The accountant of an exchange in which users submit the majority of several peers' noisy labels.

Each user asks k peers, k odd and perhaps drawn, and submits the majority of their noisy labels with probability θ. The
mathematics stands in `majority_kernel` (what changes) and `majority_cluster` (all data sets).

**Other observers.** Whatever an observer sees is made from noisy labels, which are drawn once: ε₀ holds for all, and is
exact for an eavesdropper (`Eavesdropper`). A peer who does not see the release knows the target's noisy label if she
asked for it (`Peer`). Of a coalition see `majority_coalition`.

>>> from p2p_sim.privacy import MajorityExchange
>>> bound = MajorityExchange(200, 0.05, 1.0, peers=3).epsilon(delta=1e-5)
>>> 0.606 < bound.epsilon_lower <= bound.epsilon_upper < 0.618
True
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from p2p_sim.privacy.binomial_windows import LEAST
from p2p_sim.privacy.bound import Bracket, check_delta, check_positive_epsilon, check_range, plain_arguments
from p2p_sim.privacy.exchange.calibration import smallest_flip_prob
from p2p_sim.privacy.exchange.kary import ShuffledLabels
from p2p_sim.privacy.exchange.label_exchange import LARGEST_ROUNDS, OneCluster
from p2p_sim.privacy.exchange.majority_cluster import EXHAUSTIVE, MajorityCluster
from p2p_sim.privacy.exchange.majority_kernel import LARGEST_PEERS, MajorityKernel
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.where_bounds_hold import MAJORITY, PLURALITY

LARGEST_CLUSTER = 1_000_000
ELSEWHERE = "users submit the majority of several labels"
"""Why only the noise on a label is accounted for where anything can fail."""
PeerWeights = tuple[tuple[int, float], ...]
"""(k, probability) for each number of peers that a user may ask."""
Peers = int | Mapping[int, float] | PeerWeights
_UNITY = 1e-9
"""By how much probabilities of numbers of peers may miss one."""


@dataclass(frozen=True)
class MajorityExchange(OneCluster):
    """Privacy of one user's label against the learner in one cluster whose users submit majorities.

    Args:
        cluster_size: n, users in the cluster, 2 to 1,000,000.
        flip_prob: α in [1e-300, 1/2].
        sampling_rate: θ in [1e-300, 1].
        peers: k, odd, up to 41; or the probability of each k, of which every user draws her own. 1 is the label
            exchange.
        rounds: R, exchanges with memoised noisy labels and fresh peers: one with t ~ Bin(Rn, θ) submissions.
    """

    requires = MAJORITY

    peers: Peers = 1
    rounds: int = 1

    def __post_init__(self) -> None:
        check_range("cluster_size", self.cluster_size, 2, LARGEST_CLUSTER, whole=True)
        check_range("flip_prob", self.flip_prob, LEAST, 0.5, or_zero=True)
        check_range("flip_prob", self.flip_prob, LEAST, 0.5)
        check_range("sampling_rate", self.sampling_rate, LEAST, 1.0)
        check_range("rounds", self.rounds, 1, LARGEST_ROUNDS, whole=True)
        object.__setattr__(self, "peers", peer_weights(self.peers))

    @property
    def setting(self) -> MajorityCluster | ClusterExchange:
        """The exchange as the learner sees it; with one peer it is the label exchange's."""
        n, weights = self.cluster_size, peer_weights(self.peers)
        if weights == ((1, 1.0),):
            return ClusterExchange(n, self.flip_prob, self.rounds * n, self.sampling_rate)
        kernel = MajorityKernel(weights)
        return MajorityCluster(
            sources=n,
            flip_prob=self.flip_prob,
            trials=self.rounds * n,
            rate=self.sampling_rate,
            kernel=kernel,
            requests=kernel.requests,
        )

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε), ε at least 0: the largest hockey-stick divergence over all pairs of neighbouring data sets."""
        return self.profile([epsilon])[0]

    @property
    def basis(self) -> str:
        """How the bounds are computed."""
        return "exact, over all data sets" if self.cluster_size <= EXHAUSTIVE else "certified over all data sets"


class PluralityExchange(ShuffledLabels):
    """Privacy of one user's label among K classes where users submit the plurality of peers' noisy labels.

    All that reaches the learner is made from the noisy labels of peers drawn uniformly, whoever they are, with ties
    broken by a coin: a post-processing of all noisy labels, shuffled. So the bound is that of shuffled labels, at most
    ε₀, for any numbers of peers and of submissions; the sampling rate does not matter.
    """

    requires = PLURALITY
    basis = "bound for shuffled labels, every data set"


def peer_weights(peers: Peers) -> PeerWeights:
    """(k, probability) for each number of peers, k ascending, from a number or a table.

    Raises:
        ValueError: a k is even or out of range, or the probabilities do not sum to one.
    """
    pairs = ((peers, 1.0),) if isinstance(peers, int) else tuple(dict(peers).items())
    for k, weight in pairs:
        if not isinstance(k, int) or k % 2 == 0 or not 1 <= k <= LARGEST_PEERS:
            raise ValueError(f"peers = {k}: must be an odd number from 1 to {LARGEST_PEERS}")
        if not 0.0 <= weight <= 1.0:
            raise ValueError(f"peers = {k}: its probability {weight} must lie in [0, 1]")
    total = sum(weight for _, weight in pairs)
    if not abs(total - 1.0) <= _UNITY:
        raise ValueError(f"peers = {dict(pairs)}: the probabilities must sum to one, not {total:g}")
    return tuple(sorted((k, float(weight / total)) for k, weight in pairs if weight > 0.0))


@plain_arguments
def calibrate_majority(
    sizes: Iterable[int], *, sampling_rate: float, peers: Peers, epsilon: float, delta: float
) -> float:
    """The smallest α of three digits at which the learner's (ε, δ) is certified in every cluster.

    As for the label exchange δ does not increase in α: more flips are a post-processing of the target's bit and a
    mixture over the others' labels.

    Args:
        sizes: of the clusters, each at least 2. sampling_rate, peers: θ and k. epsilon, delta: the target.
    """
    check_delta(delta)
    check_positive_epsilon(epsilon)

    def certified(alpha: float, size: int) -> bool:
        return alpha > 0.0 and MajorityExchange(size, alpha, sampling_rate, peers).satisfies(epsilon, delta)

    return smallest_flip_prob(certified, sizes, 2, epsilon)
