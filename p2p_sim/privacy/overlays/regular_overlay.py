"""The learner's ε on any regular overlay: each user asks one of a fixed number of neighbours.

Let every user have G neighbours. Then each target has G fetchers, users who may fetch her label. The row of each
fetcher, her fetch probabilities, has G entries 1/G. The bounds that `fetch_distribution` computes for groups of targets
depend on these facts alone. So every such overlay has the bound of the complete graph of G + 1 users.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.privacy.accountant import FlippedLabels
from p2p_sim.privacy.bound import Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.conditions import FETCH_CONDITIONS, Condition
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.overlays.user_bound import UserBound
from p2p_sim.privacy.where_bounds_hold import REALISED

LARGEST_DEGREE = 4_000
"""Largest degree. The table of fetch probabilities has about degree² entries: 16 million of 12 bytes each."""
REGULAR = Condition(
    "regular-overlay",
    "every user asks one of her neighbours, drawn uniformly; all users have equally many neighbours; "
    "the overlay does not depend on labels",
)


@dataclass(frozen=True)
class RegularExchange(FlippedLabels):
    """An exchange on any overlay where every user has G neighbours and asks one of them.

    Args:
        degree: G, 1 to 4,000.
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1], the probability that a user's label arrives.
    """

    requires = REALISED
    basis = "any regular overlay: three-point pairs, direct exposure"
    conditions = (REGULAR, *FETCH_CONDITIONS)

    degree: int
    flip_prob: float
    sampling_rate: float

    def __post_init__(self) -> None:
        check_range("degree", self.degree, 1, LARGEST_DEGREE, whole=True)
        check_range("flip_prob", self.flip_prob, 0.0, 0.5)
        if not 0.0 < self.sampling_rate <= 1.0:
            raise ValueError(f"sampling_rate = {self.sampling_rate}: must lie in (0, 1]")

    def delta(self, epsilon: float) -> Bracket:
        """A certified bracket of δ(ε) against the learner, for every user; its lower value is 0."""
        check_epsilon(epsilon)
        return Bracket(0.0, self._bounds.delta(epsilon))

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) is certified."""
        check_epsilon(epsilon)
        check_delta(delta)
        return self._bounds.holds(epsilon, delta)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Certified ε(δ), δ in (0, 1), at most ε₀, the ε of the noise on a label alone."""
        check_delta(delta)
        return PrivacyBound(
            0.0,
            self._bounds.epsilon(delta),
            delta,
            observer="learner",
            adjacency="label",
            basis=self.basis,
            conditions=self.conditions,
        )

    @cached_property
    def _bounds(self) -> UserBound:
        """The bounds of δ(ε) and ε(δ), the same for every user: the bounds of the complete graph of G + 1 users.

        The smaller of two bounds of δ(ε) counts. The first reveals all noisy labels except the target's, and bounds
        what the submissions of her G neighbours show. The second is the probability that anybody submits the target's
        label, times the δ(ε) of the label's noise.
        """
        users = self.degree + 1
        weights = (np.ones((users, users)) - np.eye(users)) / self.degree
        [bounds] = FetchDistribution(weights, self.flip_prob, self.sampling_rate)._bounds_by_kind(np.arange(users))
        return bounds


def smallest_degree(most: int, *, flip_prob: float, sampling_rate: float, epsilon: float, delta: float) -> int | None:
    """The smallest degree up to `most` at which bisection finds (ε, δ) certified.

    Bisection assumes that every degree above a certified degree is certified. Even if this is wrong, the returned
    degree is certified, and the next smaller degree (if at least 1) is not. The result is None if neither a power of 2
    below `most` nor `most` is certified.

    Args:
        flip_prob: α in [0, 1/2]. sampling_rate: θ in (0, 1], the probability that a user's label arrives.
    """

    def certified(degree: int) -> bool:
        return RegularExchange(degree, flip_prob, sampling_rate).satisfies(epsilon, delta)

    # Double the degree until it is certified: the answer then lies in (too_few, enough].
    too_few, enough = 0, 1
    while not certified(enough):
        if enough == most:
            return None
        too_few, enough = enough, min(2 * enough, most)
    # Bisect.
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if certified(middle) else (middle, enough)
    return enough
