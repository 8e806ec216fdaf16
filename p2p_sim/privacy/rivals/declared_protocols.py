"""Accountants of protocols that declare the law of what the learner sees, given a cluster's noisy labels.

**A law of submissions.** Let N of a cluster's n noisy labels be ones. A protocol may declare that each submission is a
one with probability g(N/n), independent of all others and of who submits. A user submits at most once. She submits with
probability θ, whatever the labels are. The function g does not decrease, and g(1-p) = 1 - g(p). The proofs of
`majority_kernel` use no more than this. So the bounds of `MajorityCluster` hold for every such g.

**Symmetry.** A protocol may declare only this: a permutation of a cluster's noisy labels does not change the law of
what the learner sees. Then the learner sees a post-processing of the noisy labels in random order, which a shuffler
releases.

**Walks** (`ShuffledByWalks`). Noisy labels walk on an overlay (the graph of who may ask whom) before they are
submitted. The protocol would be symmetric if every walk ended at a uniformly random user. The distance of a walk is the
total variation between the law of its last user and the uniform law. Let D be the sum of the distances of all walks.
Then the bound of δ(ε) for a shuffler grows by (1 + e^ε) D.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import LEAST, UNIT, Floats
from p2p_sim.privacy.bound import Bracket, PrivacyBound
from p2p_sim.privacy.conditions import DECLARED, PROTOCOL_CONDITIONS
from p2p_sim.privacy.exchange import MajorityCluster, OneCluster, Shares, SmoothKernel
from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse
from p2p_sim.privacy.where_bounds_hold import PLURALITY

LARGEST_CLUSTER = 2_048
"""Largest cluster for which g is tabulated. Larger clusters get the bound for shuffled labels."""
_ODD = 1e-9
"""Largest difference between g(p) + g(1-p) and 1 that counts as rounding."""


@dataclass(frozen=True)
class SubmissionLaw:
    """The law that a protocol declares for a submission, given the noisy labels of its cluster, for two classes.

    ones: g, the probability that the submission is a one, as a function of the share of noisy ones in [0, 1].
    sampling_rate: θ, the probability that a user submits, above 0 and at most 1.
    """

    ones: Callable[[float], float]
    sampling_rate: float = 1.0

    def fault(self) -> str | None:
        """Why the declared law is not allowed, in words; None if it is allowed.

        `ones` must give a probability and must not decrease, and ones(1 - share) must be 1 - ones(share). This is
        checked at 201 shares from 0 to 1. The sampling rate must be above 0 and at most 1.
        """
        if not 0.0 < self.sampling_rate <= 1.0:
            return f"sampling_rate must be above 0 and at most 1, not {self.sampling_rate}"
        values = np.array([float(self.ones(share)) for share in np.linspace(0.0, 1.0, 201).tolist()])
        if not bool(((values >= 0.0) & (values <= 1.0)).all()):  # NaN fails both comparisons
            return "ones(share) must be a probability"
        if (np.diff(values) < 0.0).any():
            return "ones(share) must not decrease"
        odd = np.abs(values + values[::-1] - 1.0).max() > _ODD
        return "ones(1 - share) must be 1 - ones(share)" if odd else None

    def table(self, size: int) -> tuple[float, ...]:
        """g(x/n) for x = 0, 1, ..., n//2 ones among n = `size` noisy labels. g is the probability of submitting a one.

        Values are limited to [0, 1/2]. A running maximum removes any decrease that comes from rounding.
        """
        values = [min(float(self.ones(x / size)), 0.5) for x in range(size // 2 + 1)]
        return tuple(np.maximum.accumulate(np.maximum(values, 0.0)).tolist())


@dataclass(frozen=True)
class DeclaredKernel(SmoothKernel):
    """The kernel of a declared law: the probability g(x/S) of submitting a one if x of S noisy labels are ones.

    sources: S. lower: (S//2 + 1,), g(x/S) for x up to S/2, taken as exact. The rule g(1-p) = 1 - g(p) gives the rest.
    """

    sources: int
    lower: tuple[float, ...]

    requests = None
    error = 2.0 * UNIT

    @cached_property
    def _ones(self) -> Floats:
        half = np.array(self.lower)
        table = np.concatenate([half, 1.0 - half[: (self.sources + 1) // 2][::-1]])
        if self.sources % 2 == 0:
            table[self.sources // 2] = 0.5
        return table

    def shares(self, noisy: Floats, sources: int) -> Shares:
        if sources != self.sources:  # interpolated; used only to guide searches
            p, grid = np.asarray(noisy) / sources, np.arange(self.sources + 1) / self.sources
            share = np.interp(p, grid, self._ones)
            return Shares(share, 1.0 - share)
        index = np.asarray(noisy, dtype=np.int64)
        return Shares(self._ones[index], self._ones[self.sources - index])

    def slope(self, p: float) -> float:
        """An approximation, above 0, of the derivative g'(p): the difference quotient between p - 1/S and p + 1/S.

        g(p) is the probability of submitting a one if the share p of the S noisy labels is one. The approximation only
        guides a search for the worst data set, and its error affects no bound.
        """
        step = 1.0 / self.sources
        [low, high], _ = self.shares(np.clip([p - step, p + step], 0.0, 1.0), 1)
        return max(float(high - low) / (2.0 * step), 1e-12)


@dataclass(frozen=True)
class _ByLaw(OneCluster):
    """Accountant of one cluster whose protocol declares a law of submissions; lower: as in `DeclaredKernel`."""

    lower: tuple[float, ...]

    basis = "declared law, over all data sets"

    @property
    def setting(self) -> MajorityCluster:
        n = self.cluster_size
        return MajorityCluster(n, self.flip_prob, n, self.sampling_rate, DeclaredKernel(n, self.lower), None)

    def delta(self, epsilon: float) -> Bracket:
        return self.profile([epsilon])[0]


@dataclass(frozen=True)
class DeclaredProtocol(Accountant):
    """Privacy of one user's label against the learner in one cluster of users who follow a declared protocol.

    Args:
        cluster_size: n, 2 to 1,000,000. flip_prob: α, the probability of a label flip. num_classes: K.
        law: the law of submissions, for two classes; None: the protocol declares only that it is symmetric.
    """

    requires = PLURALITY
    conditions = (*PROTOCOL_CONDITIONS, DECLARED)

    cluster_size: int
    flip_prob: float
    num_classes: int = 2
    law: SubmissionLaw | None = None

    @cached_property
    def model(self) -> Accountant:
        """The accountant that is used. A declared law is used for two classes, up to 2,048 users and α of at least
        1e-300. In all other cases the bound for shuffled labels is used.
        """
        n, law = self.cluster_size, self.law
        if law is None or self.num_classes > 2 or n > LARGEST_CLUSTER or self.flip_prob < LEAST:
            return ShuffledResponse(n, self.flip_prob, self.num_classes)
        return _ByLaw(n, self.flip_prob, law.sampling_rate, law.table(n))

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the pure ε of one noisy label."""
        return self.model.pure_epsilon

    @property
    def basis(self) -> str:
        """How the bounds are computed, in words."""
        return self.model.basis if isinstance(self.model, _ByLaw) else "declared symmetric: bound for shuffled labels"

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε). If the declared law is used, it attains the lower bound. Otherwise the lower bound is 0."""
        bracket = self.model.delta(epsilon)
        return bracket if isinstance(self.model, _ByLaw) else Bracket(0.0, bracket.upper)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ in (0, 1), under the condition that the protocol does what it declares."""
        bound = self.model.epsilon(delta)
        lower = bound.epsilon_lower if isinstance(self.model, _ByLaw) else 0.0
        return replace(bound, epsilon_lower=lower, basis=self.basis, conditions=self.conditions)


@dataclass(frozen=True)
class ShuffledByWalks(Accountant):
    """Privacy of one user's label against the learner where noisy labels walk on an overlay before they are submitted.

    distance: D, the sum of the distances of the cluster's walks. The distance of a walk is the total variation between
    the law of its last user and the uniform law. `ShuffledResponse` explains the other arguments.
    """

    requires = PLURALITY
    conditions = (*PROTOCOL_CONDITIONS, DECLARED)
    basis = "bound for shuffled labels, and how far the ends of walks are from uniform"

    cluster_size: int
    flip_prob: float
    num_classes: int
    distance: float

    @property
    def pure_epsilon(self) -> float:
        """ε₀, the pure ε of one noisy label."""
        return self._shuffled.pure_epsilon

    @property
    def _shuffled(self) -> ShuffledResponse:
        return ShuffledResponse(self.cluster_size, self.flip_prob, self.num_classes)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε). The upper bound is the bound for shuffled labels plus (1 + e^ε) D, at most 1. The lower bound
        is 0. If ε is at least ε₀, the pure ε of one noisy label, both bounds are 0.

        D is `distance`: how far the ends of the cluster's walks are from uniformly random users.
        """
        if epsilon >= self.pure_epsilon:
            return Bracket(0.0, 0.0)
        extra = (1.0 + float(np.exp(epsilon))) * self.distance
        return Bracket(0.0, min(1.0, (self._shuffled.delta(epsilon).upper + extra) * (1.0 + 1e-12)))
