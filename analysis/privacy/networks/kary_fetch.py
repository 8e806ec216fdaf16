"""Any fetch distribution with K classes: what hides two labels x and x' from each other.

With a = α/(K-1), P_x - e^ε P_x' <= keep · A - lose · B, where A and B are the laws given that the target's noisy label
is x or x', keep = 1-α-a e^ε, lose = e^ε(1-α) - a; noisy labels of other classes are as likely under both.

Everybody's noisy label is x with probability a at least, and x' too. Reveal all noisy labels but the target's. User i's
is then x and x' with probabilities (p+w, p') or (p, p'+w). If p >= τ and p' >= τ, that pair is a post-processing of the
three-point pair (τ+w, 1-2τ-w, τ) against (τ, 1-2τ-w, τ+w): the middle becomes x with probability (p-τ)/(1-2τ-w), x'
with (p'-τ)/(1-2τ-w), else another class, as the rest has. So all that `fetch` says of three-point pairs, strays,
neighbourhoods and exposure holds with flip probability a; only keep and lose are those of K classes.

The lower end is by `attained`: all others hold a third class, and the learner counts the noisy labels x.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.networks.attained import attained_epsilon
from p2p_sim.analysis.privacy.networks.fetch import CLOSELY, NEAR, FetchDistribution
from p2p_sim.analysis.privacy.networks.losses import LEAST_FLIP, Divergence
from p2p_sim.analysis.privacy.networks.lower_end import LowerEnd
from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.bound import Bracket, PrivacyBound
from p2p_sim.analysis.privacy.statement.checks import check_delta, check_epsilon, check_flip_prob
from p2p_sim.analysis.privacy.statement.conditions import FETCH_CONDITIONS
from p2p_sim.analysis.privacy.statement.domain import UNLISTED
from p2p_sim.analysis.privacy.statement.inversion import cross
from p2p_sim.analysis.privacy.statement.local import local_delta, local_epsilon, outward, worth
from p2p_sim.analysis.privacy.statement.windows import UNIT, Floats


@dataclass(frozen=True, eq=False)
class KaryFetch(Accountant):
    """An exchange of K-ary randomised response in which user i fetches from j with probability weights[i, j].

    Args:
        weights, sampling_rate: as in `FetchDistribution`; at most 32,768 users.
        flip_prob: α in [0, (K-1)/K], the K-1 other classes equally likely. num_classes: K, at least 3.
    """

    requires = UNLISTED
    kept = False  # tables are not compared
    conditions = FETCH_CONDITIONS
    basis = "any fetch distribution, many classes: three-point pairs, neighbourhoods, direct exposure"

    weights: "NDArray[np.float64] | scipy.sparse.sparray"
    flip_prob: float
    sampling_rate: float | Floats
    num_classes: int

    def __post_init__(self) -> None:
        if self.num_classes < 3:
            raise ValueError(f"num_classes = {self.num_classes}: must be at least 3; FetchDistribution is for two")
        check_flip_prob(self.flip_prob, self.num_classes)
        if self._pairs._rows.shape[0] > CLOSELY:
            raise ValueError(f"weights of shape {self._pairs._rows.shape}: must be of at most {CLOSELY:,} users")

    @property
    def pure_epsilon(self) -> float:
        """ε₀ of the noisy label."""
        return local_epsilon(self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """Certified upper bound on δ(ε) for the worst-placed user; the lower value is 0."""
        return Bracket(0.0, max((self.user_delta(user, epsilon) for user in self._users), default=0.0))

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified upper bound on one user's δ(ε)."""
        check_epsilon(epsilon)
        keep, lose, doubt = worth(self.flip_prob, epsilon, self.num_classes)
        direct = local_delta(self.flip_prob, epsilon, self.num_classes).upper
        if keep == 0.0 or direct == 0.0:
            return 0.0
        most = keep * (1.0 + doubt)
        ratio = max(1.0, lose * (1.0 - 16.0 * UNIT) / most) if lose < most * 1e300 else 1e300
        least = min(bound.divergence(ratio) for bound in self._bounds(user))
        return min(direct, outward(0.0, most * least * (1.0 + 1e-12)).upper) if least > 0.0 else 0.0

    def epsilon(self, delta: float) -> PrivacyBound:
        """Certified ε(δ) for the worst-placed user, at most ε₀."""
        check_delta(delta)
        worst, local = 0.0, self.pure_epsilon
        for user in self._users:
            if worst < local and self.user_delta(user, worst) > delta:
                worst = self._user_epsilon(user, delta)
        return PrivacyBound(0.0, worst, delta, "learner", "label", self.basis, self.conditions)

    def lower_epsilon(self, delta: float) -> float:
        """An ε below which no ε holds at δ for the worst-placed user; see `FetchDistribution.lower_epsilon`."""
        check_delta(delta)
        one, pairs = self.flip_prob / (self.num_classes - 1), self._pairs
        nobody = np.zeros(len(pairs._rates), dtype=np.bool_)
        if one == 0.0 or self.pure_epsilon == 0.0:
            return 0.0
        end = LowerEnd(pairs._rows, pairs._columns, one, pairs._rates, nobody, nobody, 1)
        views = [replace(end.fetchers(target), true_prob=1.0 - self.flip_prob) for target in end.targets(~nobody)]
        return max((attained_epsilon(view, lambda epsilon: delta) for view in views), default=0.0)

    def _user_epsilon(self, user: int, delta: float) -> float:
        return cross(
            lambda epsilon: self.user_delta(user, epsilon) > delta, self.flip_prob, 1e-6, num_classes=self.num_classes
        )[1]

    @cached_property
    def _pairs(self) -> FetchDistribution:
        """Two of the classes, each of which everybody's noisy label is with probability a at least."""
        return FetchDistribution(self.weights, min(0.5, self.flip_prob / (self.num_classes - 1)), self.sampling_rate)

    @cached_property
    def _users(self) -> list[int]:
        """One user of each place."""
        return [int(user) for user in np.unique(self._pairs._alike)]

    def _bounds(self, user: int) -> list[Divergence]:
        """What bounds the divergence of one user's noisy label; the last few are kept."""
        return _bounds_of(self, user)

    def _built(self, user: int) -> Iterator[Divergence]:
        pairs = self._pairs
        users, weights = pairs._column(user)
        counted = pairs._rates[users] > 0.0
        users, weights = users[counted], weights[counted]
        _, first, counts = np.unique(pairs._places.same[users], return_index=True, return_counts=True)
        ones = np.ones(len(first))
        yield pairs._levels(users[first], weights[first], counts.astype(np.float64), ones).all()
        if pairs.flip_prob >= LEAST_FLIP and 0 < users.size <= NEAR:
            yield pairs._neighbourhood.law(user)


@lru_cache(maxsize=32)
def _bounds_of(table: KaryFetch, user: int) -> list[Divergence]:
    """Kept here, not by the table, which would then refer to itself and be freed late."""
    return list(table._built(user))
