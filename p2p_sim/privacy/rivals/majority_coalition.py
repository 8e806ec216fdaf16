"""Accountant against a coalition with the learner, if users submit the majority of several peers' noisy labels.

Of n users, c are members of the coalition. In each of R rounds each member sends k requests; k may be random. The
members know all their own requests and answers, and who asked a member. The members also know their own noisy labels
and all submissions.

- With probability q = 1 - (E (1-1/n)^k)^(cR) at least one member asked the target. Then the members know the target's
  noisy label, and δ(ε) is the δ_noise(ε) of the noise alone.
- Otherwise the members know the noisy labels of F other users, who are distinct and drawn uniformly. That leaves n-c-F
  users, including the target. Each request of an honest user goes to a user with a known label or to a uniformly random
  user of these n-c-F. So the rest of what members see is a post-processing of the n-c-F noisy labels in random order,
  which a shuffler would release.

Labels affect neither whether a member asked the target nor who the F users are. Hockey-stick divergences are jointly
convex. So

    q δ_noise(ε)  <=  δ(ε)  <=  q δ_noise(ε) + (1-q) E δ_shuffled(ε; n-c-F).

The lower bound is what members learn by asking the target. The upper bound holds for any number of classes and any
sampling rate. Any rule may compute a submission from the peers' noisy labels. If δ is well below q, both bounds of ε
are about ε₀, the pure ε of one noisy label.
"""

from dataclasses import dataclass

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import some
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.conditions import LEARNER_CONDITIONS, PASSIVE
from p2p_sim.privacy.exchange import LARGEST_ROUNDS, Peers, known_law, peer_weights
from p2p_sim.privacy.exchange.majority_exchange import LARGEST_CLUSTER
from p2p_sim.privacy.randomized_response import invert, local_delta, local_epsilon, outward
from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse
from p2p_sim.privacy.where_bounds_hold import PLURALITY_INSIDERS

AVERAGED, MOST_REQUESTS = 64, 1_000
"""Largest cluster and largest number of members' requests for which the bound averages over F. Otherwise the bound
takes the largest F. F is the number of other users whose noisy labels members know.
"""
_ROUNDING = 1e-11
"""Bound of the relative error of q and of the law of F: about 4 · 2^-53 for each of at most 1,000 requests."""


@dataclass(frozen=True)
class MajorityCoalition(Accountant):
    """Accountant against the learner and passive members of the target's cluster, if users ask several peers.

    Args:
        cluster_size: n, the number of users in the cluster, 2 to 1,000,000.
        flip_prob: α, the probability of a label flip, 0 or in [1e-300, (K-1)/K].
        members: c, the number of members, from 1 to n-1.
        peers: k, how many peers a user asks, odd and up to 41; or the probability of each k.
        num_classes: K, at least 2.
        rounds: R, the number of exchanges, with the same noisy labels and new peers.
    """

    requires = PLURALITY_INSIDERS
    basis = "members who asked the user; of all others' labels what a shuffler would release"
    conditions = (PASSIVE, *LEARNER_CONDITIONS)

    cluster_size: int
    flip_prob: float
    members: int
    peers: Peers
    num_classes: int = 2
    rounds: int = 1

    def __post_init__(self) -> None:
        check_range("cluster_size", self.cluster_size, 2, LARGEST_CLUSTER, whole=True)
        check_range("members", self.members, 1, self.cluster_size - 1, whole=True)
        check_range("rounds", self.rounds, 1, LARGEST_ROUNDS, whole=True)
        object.__setattr__(self, "peers", peer_weights(self.peers))
        ShuffledResponse(2, self.flip_prob, self.num_classes)  # checks α and K

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the pure ε of one noisy label."""
        return local_epsilon(self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε): the largest hockey-stick divergence over all data sets of the cluster, if one user's label
        changes.

        The c members of the coalition are chosen beforehand, and the target is not a member. The lower bound is what
        members learn if a member asks the target.
        """
        check_epsilon(epsilon)
        alone = local_delta(self.flip_prob, epsilon, self.num_classes)
        if alone.upper == 0.0:
            return Bracket(0.0, 0.0)
        met = self._met
        total = met * alone.upper + (1.0 - met) * self._unasked(epsilon, alone.upper)
        bracket = outward(met * alone.lower * (1.0 - _ROUNDING), total * (1.0 + _ROUNDING))
        return Bracket(bracket.lower, min(bracket.upper, alone.upper))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ, by bisection of δ(ε)."""
        check_delta(delta)

        # if the lower bound of δ(ε) is above δ, the upper bound is not needed
        def curve(epsilon: float) -> Bracket:
            alone = local_delta(self.flip_prob, epsilon, self.num_classes).lower
            return Bracket(1.0, 1.0) if self._met * alone * (1.0 - _ROUNDING) > delta else self.delta(epsilon)

        return invert(
            curve,
            delta,
            self.flip_prob,
            observer="coalition",
            basis=self.basis,
            conditions=self.conditions,
            num_classes=self.num_classes,
        )

    @property
    def _met(self) -> float:
        """q, the probability that at least one member asked the target."""
        of_one = sum(weight * some(1.0 / self.cluster_size, k) for k, weight in peer_weights(self.peers))
        return some(of_one, self.members * self.rounds)

    def _unasked(self, epsilon: float, alone: float) -> float:
        """Upper bound of δ(ε) if no member asked the target: the mean over F of the δ(ε) of n-c-F shuffled noisy
        labels.

        The cluster has n users and c members. Members know the noisy labels of F other users. The bound assumes that
        all members ask the largest number of peers that occurs. This never lowers δ. In clusters of more than 64 users,
        or with over 1,000 requests by members, the largest possible F replaces the mean over F.

        Args:
            alone: δ(ε) of the target's noisy label alone, used if members know all other noisy labels.
        """
        others = self.cluster_size - self.members - 1
        requests = self.members * self.rounds * max(peer_weights(self.peers))[0]
        law = {min(requests, others): 1.0}
        if self.cluster_size <= AVERAGED and requests <= MOST_REQUESTS:
            law = dict(enumerate(known_law(others, self.cluster_size, requests).tolist()))
        total = 0.0
        for fetched, chance in law.items():
            hidden, delta = others + 1 - fetched, alone
            if hidden > 1:
                delta = ShuffledResponse(hidden, self.flip_prob, self.num_classes).delta(epsilon).upper
            total += chance * delta
        return total
