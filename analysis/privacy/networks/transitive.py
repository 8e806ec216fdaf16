"""One user's bound for everybody, on overlays on which any two users could change places."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.networks.fetch import CLOSELY, FetchDistribution
from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.bound import Bracket, PrivacyBound
from p2p_sim.analysis.privacy.statement.domain import REALISED

STEPS = 4
"""How far from a user the graph is looked at."""


@dataclass(frozen=True, eq=False)
class EveryPlaceAlike(Accountant):
    """An exchange in which each user asks a uniform neighbour on a vertex-transitive graph.

    A graph is vertex-transitive if for any two users some renumbering (automorphism) maps the one to the other and
    neighbours to neighbours: rings with the d nearest neighbours and other circulant graphs, complete graphs.

    *If everybody submits*, one user's bound is everybody's. The law of all fetches is invariant under an automorphism.
    So what the learner sees of u with labels y has the law of what she sees of v with labels permuted, and δ is the
    supremum over all labels.

    *If only some submit*, and who does is known and independent of fetches and labels, nobody's δ is larger: the
    learner's view is that of the first case without the submissions of the others. So one user's bound, with all rates
    1, holds for all users of the realised network. It does not hold where bits are known or for coalitions.

    *The bound of v depends on users within three steps alone*: her fetchers are neighbours; what hides her are their
    neighbours; and whoever else fetches from these is three steps away. So a part of the graph suffices in which rows
    of users up to three steps away are whole, and those of users four steps away are empty.

    Up to `CLOSELY` users are looked at one by one by `each`; for more, the least of both bounds counts.

    Args:
        each: the same exchange, users told apart. start, neighbours: the graph; user i has the neighbours
            neighbours[start[i]:start[i+1]].
    """

    requires = REALISED
    kept = False

    each: FetchDistribution
    start: NDArray[np.int64]
    neighbours: NDArray[np.int32]

    @property
    def conditions(self) -> tuple[str, ...]:
        return self.each.conditions

    def delta(self, epsilon: float) -> Bracket:
        """Certified upper bound on every user's δ(ε); the lower value is 0."""
        if self._few:
            return self.each.delta(epsilon)
        return Bracket(0.0, min(self.each.delta(epsilon).upper, self._part.user_delta(0, epsilon)))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Certified ε(δ) for every user."""
        return self.epsilon_and_sample(delta, np.ones(len(self.start) - 1, dtype=np.bool_))[0]

    def epsilon_among(self, delta: float, users: NDArray[np.bool_]) -> PrivacyBound:
        return self.epsilon_and_sample(delta, users)[0]

    def epsilon_and_sample(self, delta: float, users: NDArray[np.bool_]) -> tuple[PrivacyBound, PrivacyBound | None]:
        bound, sample = self.each.epsilon_and_sample(delta, users)
        if self._few:
            return bound, sample
        one = self._part.user_epsilon(0, delta)
        if one >= bound.epsilon_upper:
            return bound, sample
        basis = "vertex-transitive overlay: one user for all, everybody submits"
        return PrivacyBound(0.0, one, delta, bound.observer, bound.adjacency, basis, bound.conditions), sample

    def each_epsilon(self, delta: float, users: NDArray[np.bool_]) -> NDArray[np.float64]:
        return self.each.each_epsilon(delta, users)

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified δ(ε) of one user."""
        return self.each.user_delta(user, epsilon)

    @property
    def _few(self) -> bool:
        return len(self.start) - 1 <= CLOSELY

    @cached_property
    def _part(self) -> FetchDistribution:
        """The exchange among the users within `STEPS` of the first, who is number 0; everybody submits."""
        reached = frontier = np.zeros(1, dtype=np.int64)
        for _ in range(STEPS):
            inner = reached.size
            around = np.concatenate([frontier, *(self._of(user) for user in frontier.tolist())])
            frontier = np.setdiff1d(around, reached)
            reached = np.concatenate([reached, frontier])
        place = dict(zip(reached.tolist(), range(reached.size), strict=True))
        weights = scipy.sparse.lil_array((reached.size, reached.size))
        for user in reached[:inner].tolist():
            near = self._of(user).tolist()
            for other in near:
                weights[place[user], place[other]] = 1.0 / len(near)
        rates = (np.arange(reached.size) < inner).astype(np.float64)
        return FetchDistribution(weights.tocsr(), self.each.flip_prob, rates)

    def _of(self, user: int) -> NDArray[np.int32]:
        return self.neighbours[self.start[user] : self.start[user + 1]]
