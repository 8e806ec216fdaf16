"""What a coalition and the learner find out where users submit the majority of several peers' noisy labels.

Of n users c are members; in all R rounds they ask ckR users, k each time. They know whom they asked and what they got,
who asked them, their own noisy labels, and all submissions.

- With probability q = 1 - (E (1-1/n)^k)^(cR) some member asked the target. Then they have her noisy label itself, whose
  δ(ε) is that of the noise alone.
- Else the noisy labels of F others are known, F distinct users, drawn uniformly. Whom anybody asked does not depend on
  labels. Members' labels and those of the F users are known; all other requests of users who are no members go to a
  uniform one of the rest, or to somebody whose noisy label is known. So all that members see beyond these is made from
  the noisy labels of the remaining n-c-F users in random order, the target's among them: a post-processing of what a
  shuffler would release of these.

Whether the target was asked, and who the F are, does not depend on labels, and hockey-stick divergences are jointly
convex, so that

    q δ_noise(ε)  <=  δ(ε)  <=  q δ_noise(ε) + (1-q) E δ_shuffled(ε; n-c-F).

The lower end is what those know who asked her. The upper end uses nothing of g; it holds for any number of classes and
any sampling rate. At a δ well below q the ε of both ends is about ε₀.
"""

from dataclasses import dataclass

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import some
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.conditions import LEARNER_CONDITIONS, PASSIVE
from p2p_sim.privacy.exchange.coalition import known_law
from p2p_sim.privacy.exchange.label_exchange import LARGEST_ROUNDS
from p2p_sim.privacy.exchange.majority_exchange import LARGEST_CLUSTER, Peers, peer_weights
from p2p_sim.privacy.randomized_response import invert, local_delta, local_epsilon, outward
from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse
from p2p_sim.privacy.where_bounds_hold import PLURALITY_INSIDERS

AVERAGED, MOST_REQUESTS = 64, 1_000
"""Most users of a cluster, and most requests of members, where every number of known labels is weighed; beyond these
the largest number counts."""
_ROUNDING = 1e-11
"""More than the relative error of q and of a law of F: some 4u for each of a few hundred requests."""


@dataclass(frozen=True)
class MajorityCoalition(Accountant):
    """`members` passive users of the target's cluster, pooled with the learner, where users ask several peers.

    Args:
        cluster_size: n, users in the cluster, 2 to 1,000,000.
        flip_prob: α, 0 or in [1e-300, (K-1)/K].
        members: c, from 1 to n-1.
        peers: k, odd, up to 41; or the probability of each k.
        num_classes: K, at least 2.
        rounds: R, exchanges with memoised noisy labels and fresh peers.
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
        ShuffledResponse(2, self.flip_prob, self.num_classes)  # checks both

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of the noisy label."""
        return local_epsilon(self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) over all data sets."""
        check_epsilon(epsilon)
        alone = local_delta(self.flip_prob, epsilon, self.num_classes)
        if alone.upper == 0.0:
            return Bracket(0.0, 0.0)
        met = self._met
        total = met * alone.upper + (1.0 - met) * self._unasked(epsilon, alone.upper)
        bracket = outward(met * alone.lower * (1.0 - _ROUNDING), total * (1.0 + _ROUNDING))
        return Bracket(bracket.lower, min(bracket.upper, alone.upper))

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ)."""
        check_delta(delta)

        # δ is more than asked for where the members who asked the target suffice: no need of the others' labels
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
        """q, the probability that some member asked the target."""
        weights = peer_weights(self.peers)
        of_one = sum(weight * some(1.0 / self.cluster_size, k) for k, weight in weights)
        return some(of_one, self.members * self.rounds)

    def _unasked(self, epsilon: float, alone: float) -> float:
        """E δ_shuffled(ε; n-c-F), given that no member asked the target; F others' labels are known to the c members.

        F counts as if all members asked the largest k: to know more labels makes δ no smaller. alone: δ(ε) of the
        target's label if no other label hides it.
        """
        others = self.cluster_size - self.members - 1
        requests = self.members * self.rounds * max(peer_weights(self.peers))[0]
        law = {min(requests, others): 1.0}
        if self.cluster_size <= AVERAGED and requests <= MOST_REQUESTS:
            law = dict(enumerate(known_law(others, self.cluster_size, requests).tolist()))
        total = 0.0
        for fetched, chance in law.items():
            hidden = others + 1 - fetched
            shuffled = ShuffledResponse(hidden, self.flip_prob, self.num_classes) if hidden > 1 else None
            total += chance * (alone if shuffled is None else shuffled.delta(epsilon).upper)
        return total
