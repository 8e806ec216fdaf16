"""The accountant of an exchange in which users submit the majority of several peers' noisy labels.

Each user asks k peers and submits the majority of their noisy labels with probability θ. The odd number k is fixed, or
each user draws her own k. `majority_kernel` has the proofs that are special to majorities. `majority_cluster` bounds δ
over all data sets.

**Other observers.** An observer sees only what can be computed from noisy labels. These are drawn once. So ε₀, the ε of
the noisy label alone, holds for every observer. For an eavesdropper this ε is exact (`Eavesdropper`). A peer who does
not see the release knows the target's noisy label only if she asked for it (`Peer`). The target is the user whose label
is protected. For a coalition see `rivals.majority_coalition`.

>>> from p2p_sim.privacy import MajorityExchange
>>> bound = MajorityExchange(200, 0.05, 1.0, peers=3).epsilon(delta=1e-5)
>>> 0.606 < bound.epsilon_lower <= bound.epsilon_upper < 0.618
True
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from p2p_sim.privacy.binomial_windows import LEAST
from p2p_sim.privacy.bound import check_delta, check_positive_epsilon, check_range, plain_arguments
from p2p_sim.privacy.exchange.calibration import smallest_flip_prob
from p2p_sim.privacy.exchange.kary import ShuffledLabels
from p2p_sim.privacy.exchange.label_exchange import LARGEST_ROUNDS, OneCluster
from p2p_sim.privacy.exchange.majority_cluster import EXHAUSTIVE, MajorityCluster
from p2p_sim.privacy.exchange.majority_kernel import LARGEST_PEERS, MajorityKernel
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.where_bounds_hold import MAJORITY, PLURALITY

LARGEST_CLUSTER = 1_000_000
NOISE_ALONE = "noise alone: "
"""First words of a report on how bounds are computed, if only ε₀ is known. The reason follows."""
ELSEWHERE = "users submit the majority of several labels"
"""The reason in reports if, after network faults, only the noise protects a label."""
PeerWeights = tuple[tuple[int, float], ...]
"""(k, probability) for each number k of peers that a user may ask."""
Peers = int | Mapping[int, float] | PeerWeights
_UNITY = 1e-9
"""The largest distance from 1 that the sum of the probabilities of all k may have."""


@dataclass(frozen=True)
class MajorityExchange(OneCluster):
    """Privacy of one user's label against the learner in one cluster whose users submit majorities.

    Args:
        cluster_size: n, users in the cluster, 2 to 1,000,000.
        flip_prob: α in [1e-300, 1/2].
        sampling_rate: θ in [1e-300, 1].
        peers: k, odd, up to 41; or the probability of each k, from which every user draws her own k. k = 1 is the label
            exchange.
        rounds: R, how many exchanges take place, with the same noisy labels and fresh peers. The R rounds together are
            one exchange with t ~ Bin(Rn, θ) submissions.
    """

    requires = MAJORITY

    peers: Peers = 1
    rounds: int = 1

    def __post_init__(self) -> None:
        check_range("cluster_size", self.cluster_size, 2, LARGEST_CLUSTER, whole=True)
        check_range("flip_prob", self.flip_prob, LEAST, 0.5)
        check_range("sampling_rate", self.sampling_rate, LEAST, 1.0)
        check_range("rounds", self.rounds, 1, LARGEST_ROUNDS, whole=True)
        object.__setattr__(self, "peers", peer_weights(self.peers))

    @property
    def setting(self) -> MajorityCluster | ClusterExchange:
        """The object that computes the bounds of δ and ε. For k = 1 this is the object of the label exchange."""
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

    @property
    def basis(self) -> str:
        """In words, how the bounds are computed, for reports."""
        return "exact, over all data sets" if self.cluster_size <= EXHAUSTIVE else "certified over all data sets"


class PluralityExchange(ShuffledLabels):
    """Privacy of one user's label among K classes if users submit the plurality of peers' noisy labels.

    Peers are drawn uniformly, and a coin breaks ties. So what the learner sees can be computed from all noisy labels in
    random order. The bound for such shuffled labels holds for any numbers of peers and submissions, and for any
    sampling rate. The bound is at most ε₀, the ε of the noisy label alone.
    """

    requires = PLURALITY
    basis = "bound for shuffled labels, every data set"


def peer_weights(peers: Peers) -> PeerWeights:
    """The law of the number of peers that a user asks: pairs (k, probability > 0) with k ascending.

    Args:
        peers: a fixed odd k; or the law from which every user draws her k, as a dict {k: probability} or as such pairs.

    Raises:
        ValueError: some k is not an odd number from 1 to 41, a probability lies outside [0, 1], or the sum is not 1.
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
    """The smallest flip probability α with three significant digits at which the learner's (ε, δ) is certified in every
    cluster; never 0. For exceptions see `smallest_flip_prob`.

    Bisection is correct, since δ does not increase in α. The reason: a larger α is the same as further flips after the
    first flips. For the target's bit, further flips are post-processing. For the other users' bits, they mix over data
    sets. The δ of a mixture is at most the largest δ over data sets.

    Args:
        sizes: cluster sizes, each at least 2. sampling_rate: θ. peers: k, or the probability of each k. epsilon, delta:
        the (ε, δ) to certify.
    """
    check_delta(delta)
    check_positive_epsilon(epsilon)

    def certified(alpha: float, size: int) -> bool:
        return alpha > 0.0 and MajorityExchange(size, alpha, sampling_rate, peers).satisfies(epsilon, delta)

    return smallest_flip_prob(certified, sizes, 2, epsilon)
