"""Privacy amplification by shuffling for any local randomizer, given ε₀ and the total variation of the randomizer's
laws.

Let an output o have probability P(o) and P'(o) under the target's two labels, and at least b(o) under every label. For
an ε₀-private randomizer, b = max(P, P') e^-ε₀ is allowed. Each user's output can be drawn in two steps. With
probability Σ b(o) it is a draw from b, scaled to a law. Otherwise it is a draw from the rest of her law. Tell the
learner which other users did not draw from b, and what these users sent. Then, for n users (Balle et al. 2019, Lemma
5.3; for fewer submissions see `exchange.blanket`),

    δ(ε) <= (1/n) E [Y_1 + ... + Y_n]_+,    Y_i = (P(o) - e^ε P'(o)) / b(o) with probability b(o) for each o, else 0,

where the Y_i are independent, with mean 1 - e^ε. The bound grows with the law of the Y_i in the convex order. Let Y be
distributed as the Y_i. For convex f with f(0) = 0, E f(Y) = Σ_o F(P(o), P'(o)), where F is homogeneous and convex on
either side of P = P'. For an output with P > P' let s = (P - P')/(e^ε₀-1). Then (P, P') = s (e^ε₀, 1) + r (1, 1) with
r >= 0. If P < P', exchange the roles of P and P'. Let β be the total variation of P and P'. On either side the sum of s
over outputs is σ = β/(e^ε₀-1). Hence E f(Y) is at most its value for

    Y = e^ε₀ - e^ε  or  1 - e^(ε₀+ε)  with probability σ each,   e^ε₀ (1 - e^ε)  with e^-ε₀ (1 - σ (e^ε₀+1)),   else 0.

This bound grows with σ, since the third value alone is smaller in the convex order than the first two alone. To see
this, compare E [Y - k]_+ in three cases: k is above 0, between the two negative values, or below both. So β may be the
total variation of the worst pair of labels. β is at most (e^ε₀-1)/(e^ε₀+1). At this largest β there is no third value.
Then randomised response between two labels is the worst randomizer, and the bound equals Feldman, McMillan and Talwar's
(Stronger privacy amplification by shuffling, 2023). Wang et al. observed that β matters besides ε₀ (Privacy
amplification via shuffling: unified, simplified, and tightened, 2024). If few outputs are likelier under one of the
labels, β and ε are much smaller. The bits of vector approximation are an example.
"""

import math
from dataclasses import dataclass, replace

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import LEAST
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.conditions import LEARNER_CONDITIONS
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.exchange import BLOCKS, COARSE, VISITED, Blanket, visited
from p2p_sim.privacy.exchange.kary import LARGEST_CLUSTER
from p2p_sim.privacy.randomized_response import bisect, bisect_twice
from p2p_sim.privacy.where_bounds_hold import ANY_MESSAGE

WEAKEST = 100.0
"""The bound by shuffling is computed only if ε₀ is below this value."""
_UP = 1.0 + 1e-12
"""Factor by which values that must not be rounded down are raised."""


@dataclass(frozen=True)
class ShuffledMessages(Accountant):
    """Privacy of one user's label if n users each run the same local randomizer once and their messages are shuffled.

    The bound holds for everything that is computed from the messages without their senders, as in the label exchange.
    The bound fails if a user's randomizer depends on others' messages.

    Args:
        users: n, at least 1; the messages of users beyond 1,000,000 count as known to the learner.
        local_epsilon: ε₀ of the randomizer, at least 0, infinite allowed.
        total_variation: β in [0, 1], the largest total variation between the laws of one message under two labels. This
        is the δ(0) of one message. 1 if only ε₀ is known.
        caveats: the conditions under which ε₀ holds; they become conditions of the bound, too.
        sampling_rate: θ in (0, 1], as in the label exchange: with probability θ each user submits the message of a
        random user among all n. None: the learner gets all n messages.
        submissions: given in place of θ: the number of messages that the learner got, at least 0. Each is the message
        of a random user.
    """

    requires = ANY_MESSAGE

    users: int
    local_epsilon: float
    total_variation: float = 1.0
    caveats: tuple[str, ...] = ()
    sampling_rate: float | None = None
    submissions: int | None = None

    def __post_init__(self) -> None:
        if not self.local_epsilon >= 0.0:
            raise ValueError(f"local_epsilon = {self.local_epsilon}: must be at least 0")
        if self.users < 1:
            raise ValueError(f"users = {self.users}: must be at least 1")
        check_range("total_variation", self.total_variation, 0.0, 1.0)
        if self.sampling_rate is not None:
            check_range("sampling_rate", self.sampling_rate, LEAST, 1.0)
        if self.submissions is not None and (self.submissions < 0 or self.sampling_rate is not None):
            raise ValueError(
                f"submissions = {self.submissions}: must be at least 0, and stand in place of a sampling rate"
            )

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the pure ε of one message."""
        return self.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), ε at least 0, for the messages that the learner gets. The lower bound is 0.

        The upper bound is 0 if ε is at least ε₀ or the total variation is 0. Otherwise it is the bound by shuffling.
        For a single user, or for ε₀ of 100 or more, the bound by shuffling is not computed, and the upper bound is 1.
        """
        check_epsilon(epsilon)
        if epsilon >= self.local_epsilon or self.total_variation == 0.0:
            return Bracket(0.0, 0.0)
        return Bracket(0.0, self._bound(epsilon) if self._amplified else 1.0)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Upper bound of ε at δ, at most ε₀; the lower bound is 0."""
        check_delta(delta)
        high, basis = self.local_epsilon, "local randomizer alone"
        if self._amplified:
            above = self.delta(0.0).upper > delta
            high = _epsilon(replace(self, caveats=()), delta).upper if above else 0.0
        if high < self.local_epsilon:
            basis = "bound for shuffled messages of any local randomizer"
        return PrivacyBound(
            0.0, high, delta, observer="learner", adjacency="label", basis=basis, conditions=self.conditions
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*LEARNER_CONDITIONS, *self.caveats)

    @property
    def _amplified(self) -> bool:
        """Whether the bound by shuffling is computed: for two or more users, and an ε₀ above 0 and below 100."""
        return self.users > 1 and 0.0 < self.local_epsilon < WEAKEST

    def _bound(self, epsilon: float, values: int = VISITED, blocks: tuple[int, int] = BLOCKS) -> float:
        """Upper bound of δ(ε), in which other users' messages hide the target's message. The bound counts only draws
        from the privacy blanket, the part that the message laws of all labels share.

        Args:
            epsilon: ε. values: the bound uses at most this many values, or one more, of the number of users whose
            message the learner got; these values are near the mean. blocks: the smallest and the largest number of
            groups into which the number of blanket messages is cut. `values` and `blocks` are ignored if the learner
            got all messages. Smaller arguments are quicker and give a bound that is no sharper.
        """
        walk = self._blanket(epsilon)
        if self._complete:
            return walk.delta()
        rate = 1.0 if self.sampling_rate is None else self.sampling_rate
        return walk.delta(visited(walk.users, rate, values, self.users, self.submissions), blocks)

    @property
    def _complete(self) -> bool:
        """Whether the learner has all n messages."""
        return self.sampling_rate is None and self.submissions is None

    def _blanket(self, epsilon: float) -> Blanket:
        """The object that computes the bound of δ at one ε, for the worst randomizer with this ε₀ and total variation
        (both rounded up).

        A message belongs to the blanket if it is drawn from the part that the laws of all labels share. There are three
        kinds of blanket messages: likelier for one label, likelier for the other label, and all others. For each kind
        the object has a probability and a value as evidence.
        """
        local = self.local_epsilon * _UP
        grown, growth = math.expm1(local), math.expm1(epsilon)
        variation = min(self.total_variation * _UP, grown / (grown + 2.0))
        side = variation / grown  # σ
        neither = max(0.0, 1.0 - side * (grown + 2.0)) * math.exp(-local)
        share = 2.0 * side + neither
        # σ times |Y| of the three outcomes: e^ε₀ - e^ε, e^(ε₀+ε) - 1 and e^ε₀ (e^ε - 1)
        keep, lose, rest = grown - growth, grown + growth * (grown + 1.0), growth * (grown + 1.0)
        worths = side * keep, side * lose, side * rest
        return Blanket(min(self.users, LARGEST_CLUSTER), share, share / side, *worths, growth * (1.0 - 2.0**-50))


@disk_cached
def _epsilon(messages: ShuffledMessages, delta: float) -> Bracket:
    """Bounds of ε at δ, stored on disk: the upper bound by bisection, and the lower bound 0. δ must not hold at ε = 0.

    Args:
        messages: the accountant. delta: δ in (0, 1).
    """
    high = messages.local_epsilon
    if messages._complete:
        return Bracket(0.0, bisect(lambda epsilon: messages.delta(epsilon).upper > delta, 0.0, high, 1e-6).below)
    ends = bisect_twice(
        lambda epsilon: messages._bound(epsilon, *COARSE) > delta,
        lambda epsilon: messages.delta(epsilon).upper,
        delta,
        high,
        1e-5,
    )
    return Bracket(0.0, ends.below)
