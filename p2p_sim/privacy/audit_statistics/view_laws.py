"""Exact laws of what an observer of one small cluster sees, as tables with an entry for each view.

A *view* is one possible outcome of all that the observer sees. Views are numbered, and the number of a view is its
*cell*. The *target* is the user whose label is to stay private. A view's probability is `weight * a` if the target's
noisy bit is 0, and `weight * b` if it is 1. The weight does not depend on her label. So the ratio of a to b decides
which views are evidence, even if the weight is nearly zero.

**The target's submission, separate from the others'.** Let t users submit, and let k of these submit a 1. Every
assignment of the submissions to users is equally likely. So the law of (t, k) determines the law of the *split view*
(s, t', k'). Here s is what the target submits (0: nothing, 1: label 0, 2: label 1). t' is how many other users submit,
and k' how many of these submit a 1. For n users, view (s, t', k') has the cell (s n + t') n + k'. t' and k' run from 0
to n - 1. Cells with k' > t' stay empty.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats, binomial_pmf
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.exchange import LabelExchange, OtherUsers, likelihoods
from p2p_sim.privacy.randomized_response import cross, hockey_stick_coefficients, local_epsilon, outward


def split_cells(users: int) -> int:
    """The number 3 n² of cells for the split views (s, t', k') of n `users`; see the docstring of this file."""
    return 3 * users * users


def split_weights(users: int, rate: float) -> Floats:
    """The factor (3 n²,) of each split view's probability that does not depend on labels, for n users.

    The split view (s, t', k') is explained at the top of this file. The factor is Pr[t' others submit] times the
    probability that the target submits (s > 0) or submits nothing (s = 0).

    Args:
        users: n. rate: probability with which each user submits, independently.
    """
    others = binomial_pmf(0, users - 1, users - 1, rate)
    states = np.array([1.0 - rate, rate, rate])
    return np.asarray(np.repeat(np.multiply.outer(states, others).ravel(), users))


def split(counts: Floats) -> Floats:
    """The probability (..., 3 n²) of each split view, given how many others submit and whether the target submits.

    The split view (s, t', k') is explained at the top of this file.

    Args:
        counts: (..., n + 1, n + 1) the probability of k ones given that t of all users submit; t is the second last
        axis and k the last. Leading axes, such as an axis of data sets, are kept.
    """
    n = counts.shape[-1] - 1
    t, k = np.arange(n)[:, None], np.arange(n)[None, :]
    zero = counts[..., 1:, :-1] * np.maximum(t + 1 - k, 0) / (t + 1)
    ones = counts[..., 1:, 1:] * (k + 1) / (t + 1)
    cells = np.stack([counts[..., :-1, :-1], zero, ones], axis=-3)
    return np.asarray(cells.reshape(*counts.shape[:-2], split_cells(n)))


SLACK = 1e-11
"""Relative rounding error that is assumed for a tabulated probability.

The proved error is below 3e-12 for up to 100 submissions. Three laws contribute 1e-12: the laws of k (ones), of t
(submissions), and of X (other users with the noisy label 1). Each law has 101 values, and so an error of 102 times
`VALUE_ERROR`. The other 2e-12 comes from 1 - θ(n-c)/n in the law of t against c colluding users. This number has an
error of up to 100u, with u = 2^-53, and is raised to powers of up to 100.
"""
LARGEST_VIEW = 100
"""Largest number of submissions for which views are tabulated."""
LARGEST_COALITION = 5


@dataclass(frozen=True)
class ViewLaw:
    """The two exact laws of what an observer sees in one data set: for the target's label 0, and for label 1.

    flip_prob: α. weight, a, b: (J,), one entry per view. A view's probability is weight · a if the target's noisy bit
    is 0, and weight · b if it is 1.
    """

    flip_prob: float
    weight: Floats
    a: Floats
    b: Floats

    @property
    def probabilities(self) -> Floats:
        """(2, J) probability of each of J views, for the target's label 0 and label 1."""
        alpha = self.flip_prob
        mixed = (1.0 - alpha) * self.a + alpha * self.b, alpha * self.a + (1.0 - alpha) * self.b
        return np.stack([self.weight * law for law in mixed])

    def event(self, epsilon: float, label: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """A mask (J,) of the views that are more than e^ε times as likely under the target's label `label` as under the
        other label.

        These views are the best event for this ε. Let P and Q be an event's probabilities under `label` and under the
        other label. No event has a larger P - e^ε Q, up to a relative rounding error of 1e-11.

        At ε = 0 the mask is computed from the laws given the target's noisy label. For α < 1/2 this gives the same
        mask. At α = 1/2 views reveal nothing of her label. The mask then has the views that are evidence of her noisy
        label.

        Args:
            epsilon: ε, at least 0. Let ε₀ be the ε of the noisy label alone. If ε₀ > 0 and ε exceeds ε₀ by more than
            rounding, the mask is empty. label: 0 or 1.
        """
        p, q = (self.a, self.b) if label == 0 else (self.b, self.a)
        keep, lose, _ = hockey_stick_coefficients(self.flip_prob, epsilon)
        if epsilon == 0.0 or keep == lose:
            keep = lose = 1.0
        return np.asarray(keep * p * (1.0 - SLACK) > lose * q)

    def deltas(self, epsilon: float, slack: float = 0.0) -> Floats:
        """δ(ε) in this data set, (2,): the sum of max(0, P - e^ε Q) over all views, in each of two directions.

        P and Q are the probabilities of a view for the target's label 0 and 1. The second entry exchanges P and Q.

        Args:
            epsilon: ε, at least 0. slack: the share by which rounding may have changed P and Q. A positive slack gives
            an upper bound, and a negative slack a lower bound. Both bounds also allow for underflow.
        """
        if epsilon >= local_epsilon(self.flip_prob):
            return np.zeros(2)
        laws = self.probabilities
        up, down = 1.0 + slack, (1.0 - slack) * math.exp(epsilon)
        tiny = math.copysign(512.0 * SUBNORMAL * self.a.size * (1.0 + math.exp(epsilon)), slack) if slack else 0.0
        sums = [float(np.maximum(up * p - down * q, 0.0).sum()) for p, q in (laws, laws[::-1])]
        return np.array([max(0.0, value + tiny) for value in sums])


def _count_laws(worlds: Sequence[OtherUsers], trials: int) -> Floats:
    """The probability that k of t submissions are ones, (2, W, T+1, T+1); 0 for k > t.

    The axes are the target's noisy label (0 or 1), the data set, t, and k.

    Args:
        worlds: for each of W data sets, the other users' labels and what is known of their noisy labels. trials: T, the
        largest number of submissions.
    """
    a, b = laws = np.zeros((2, len(worlds), trials + 1, trials + 1))
    for t, (low, high) in enumerate(likelihoods(worlds, range(trials + 1))):
        a[:, t, : t + 1], b[:, t, : t + 1] = low.T, high.T
    return laws


@dataclass(frozen=True)
class CountViews:
    """What the learner sees: t submissions, k of which are ones. View (t, k) has the cell t (T+1) + k, with T = n ·
    rounds.

    members: number of users who collude with the learner, here 0. observer, basis: in words, who sees these views, and
    how ε and δ are computed.
    """

    members = 0

    exchange: LabelExchange
    observer: str = "learner"
    basis: str = "exact, over all data sets"

    def __post_init__(self) -> None:
        if self.trials > LARGEST_VIEW:
            raise ValueError(f"{self.trials} submissions: views are tabulated up to {LARGEST_VIEW}")

    @property
    def cluster_size(self) -> int:
        """n, the number of users of the cluster."""
        return self.exchange.cluster_size

    @property
    def trials(self) -> int:
        """T, the largest number of submissions: one for each user and round."""
        return self.exchange.cluster_size * self.exchange.rounds

    @cached_property
    def laws(self) -> tuple[ViewLaw, ...]:
        """The law of (t, k) in each data set m = 0 to (n-1)/2. In data set m, m other users hold label 1."""
        alpha, t = self.exchange.flip_prob, self.trials
        weight = np.repeat(binomial_pmf(0, t, t, self.exchange.sampling_rate), t + 1)
        return tuple(ViewLaw(alpha, weight, a.ravel(), b.ravel()) for a, b in zip(*self._counts(), strict=True))

    def _counts(self) -> Floats:
        """Pr[k of t submissions are ones], (2, M, T+1, T+1). The axes are the target's noisy label (0 or 1), the data
        set, t, k.

        In data set m = 0 to M - 1, m users besides the target hold label 1. M is ⌊(n-1)/2⌋ + 1.
        """
        x = self.exchange
        return _count_laws([x.setting.world(m) for m in range((x.cluster_size - 1) // 2 + 1)], self.trials)

    def delta(self, epsilon: float) -> Bracket:
        """The learner's exact δ(ε), the largest over all data sets, between two bounds that allow for rounding.

        The tabulated views play no part in this.
        """
        return self.exchange.delta(epsilon)

    def epsilon(self, delta: float) -> Bracket:
        """The learner's exact ε at δ, the largest over all data sets, between two bounds that allow for rounding.

        The tabulated views play no part in this.
        """
        bound = self.exchange.epsilon(delta)
        return Bracket(bound.epsilon_lower, bound.epsilon_upper)


@dataclass(frozen=True)
class LearnerViews(CountViews):
    """What the learner sees in one round if she knows which submission is the target's. The top of this file explains
    these split views (s, t', k').
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exchange.rounds != 1:
            raise ValueError(f"rounds = {self.exchange.rounds}: a target submits once; take CountViews")

    @cached_property
    def laws(self) -> tuple[ViewLaw, ...]:
        """The law of all split views in each data set m = 0 to (n-1)/2. In data set m, m other users hold label 1."""
        weight = split_weights(self.cluster_size, self.exchange.sampling_rate)
        a, b = (split(counts) for counts in self._counts())
        return tuple(ViewLaw(self.exchange.flip_prob, weight, *pair) for pair in zip(a, b, strict=True))


class Pattern(NamedTuple):
    """Noisy bits that a coalition knows of non-members other than the target. f₀ bits belong to users with label 0, f₁
    bits to users with label 1. j of these bits are 1.
    """

    zeros: int
    ones: int
    noisy_ones: int


@dataclass(frozen=True)
class CoalitionViews:
    """What the learner and c passive users of the cluster, the members, see together.

    With probability 1 - (1 - 1/n)^c a member fetched the target's noisy label. Cells 0 and 1 stand for the two values
    of this label. Otherwise the members know the noisy bits of f = f₀ + f₁ of the other n-c-1 non-members (`Pattern`).
    The members also know who fetched from a member, which reveals nothing about the target.

    What is left is an exchange among the n-c non-members (the sources). In this exchange the noisy bits of f sources
    are known. The submissions that count are by non-members who fetched from non-members. Their number is t ~ Bin(n-c,
    θ(n-c)/n). The laws are conditional on things that the coalition sees and that do not depend on the target's label.

    Each pattern (f₀, f₁, j) with each split view (s, t', k') of the exchange that is left has a cell. The cell is
    `cell_of_pattern` [f₀, f₁, j] plus the cell of the split view for n-c users.

    Args:
        cluster_size: n, at least 2.
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1].
        members: c, 1 to 5 and at most n - 1; none of them is the target.
    """

    cluster_size: int
    flip_prob: float
    sampling_rate: float
    members: int
    observer: str = "coalition"
    basis: str = "exact, over all data sets, for passive members"

    def __post_init__(self) -> None:
        LabelExchange(self.cluster_size, self.flip_prob, self.sampling_rate)  # checks the ranges of all three
        if self.cluster_size > LARGEST_VIEW:
            raise ValueError(f"cluster_size = {self.cluster_size}: views are tabulated up to {LARGEST_VIEW}")
        if not 1 <= self.members <= min(LARGEST_COALITION, self.cluster_size - 1):
            raise ValueError(f"members = {self.members}: must lie in 1..{LARGEST_COALITION} and below cluster_size")

    @property
    def sources(self) -> int:
        """n - c, the number of users who are not members, including the target."""
        return self.cluster_size - self.members

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """All patterns (f₀, f₁, j) that the coalition may know of non-members, in the order of the patterns' cells.

        f₀ + f₁ is at most c, the number of members. `Pattern` explains f₀, f₁ and j.
        """
        c = self.members
        return tuple(Pattern(f0, f1, j) for f0 in range(c + 1) for f1 in range(c + 1 - f0) for j in range(f0 + f1 + 1))

    @cached_property
    def cell_of_pattern(self) -> NDArray[np.int64]:
        """The first cell of each pattern, (c+1, c+1, c+1), indexed by f₀, f₁ and j; -1: there is no such pattern.

        Each pattern has 3 n'² consecutive cells, one for each split view of the n' non-members. Cells 0 and 1 are for a
        target whose noisy label a member fetched.
        """
        first = np.full((self.members + 1,) * 3, -1, dtype=np.int64)
        for i, pattern in enumerate(self.patterns):
            first[pattern] = 2 + i * split_cells(self.sources)
        return first

    @cached_property
    def laws(self) -> tuple[ViewLaw, ...]:
        """The law of what the coalition sees in each data set m = 0 to (n-c-1)/2. In data set m, m non-members besides
        the target hold label 1. All laws have the same cells.
        """
        return tuple(self._law(m) for m in range((self.sources - 1) // 2 + 1))

    def _law(self, ones: int) -> ViewLaw:
        """The law of what the coalition sees if `ones` of the non-members besides the target hold label 1."""
        alpha, s, cells = self.flip_prob, self.sources, split_cells(self.sources)
        zeros = s - 1 - ones
        fetched = self._fetched(zeros, ones)
        weight, a, b = np.zeros((3, 2 + len(self.patterns) * cells))
        # Cells 0 and 1: a member fetched the target's noisy bit. All other cells: the members know a pattern.
        weight[:2], a[0], b[1] = -math.expm1(self.members * math.log1p(-1.0 / self.cluster_size)), 1.0, 1.0
        possible = [p for p in self.patterns if p[0] <= zeros and p[1] <= ones]
        worlds = [OtherUsers(s, zeros - f0, ones - f1, alpha, known_ones=j) for f0, f1, j in possible]
        mass = split_weights(s, self.sampling_rate * s / self.cluster_size)
        for (f0, f1, j), low, high in zip(possible, *map(split, _count_laws(worlds, s)), strict=True):
            bits = np.convolve(binomial_pmf(0, f0, f0, alpha), binomial_pmf(0, f1, f1, alpha)[::-1])
            first = int(self.cell_of_pattern[f0, f1, j])
            here = slice(first, first + cells)
            weight[here], a[here], b[here] = fetched[f0, f1] * bits[j] * mass, low, high
        return ViewLaw(alpha, weight, a, b)

    def _fetched(self, zeros: int, ones: int) -> Floats:
        """The probability (c+1, c+1), for each (f₀, f₁), that no member asked the target and the members know f₀ and f₁
        bits.

        The members then fetched from f₀ different non-members with label 0, and from f₁ different non-members with
        label 1. The entries sum to less than 1; the rest is the probability that a member asked the target.

        Args:
            zeros, ones: numbers of non-members besides the target with label 0 and with label 1.
        """
        n, c = self.cluster_size, self.members
        now = np.zeros((c + 1, c + 1))
        now[0, 0] = 1.0
        for _ in range(c):
            then = np.zeros_like(now)
            for f0, f1 in zip(*np.nonzero(now), strict=True):
                p = now[f0, f1] / n
                then[f0, f1] += p * (c + f0 + f1)  # a member is asked, or a user whose bit is known already
                if f0 < zeros:
                    then[f0 + 1, f1] += p * (zeros - f0)
                if f1 < ones:
                    then[f0, f1 + 1] += p * (ones - f1)
            now = then
        return now

    def delta(self, epsilon: float) -> Bracket:
        """The coalition's exact δ(ε), the largest over all data sets, between two bounds that allow for rounding."""
        lower, upper = (max(float(law.deltas(epsilon, s).max()) for law in self.laws) for s in (-SLACK, SLACK))
        return outward(lower, upper)

    def epsilon(self, delta: float) -> Bracket:
        """The coalition's exact ε at δ, between two close bounds, found by bisection to 1e-6."""
        lower, _ = cross(lambda epsilon: self.delta(epsilon).lower > delta, self.flip_prob, 1e-6)
        _, upper = cross(lambda epsilon: self.delta(epsilon).upper > delta, self.flip_prob, 1e-6)
        return Bracket(lower, upper)


Views = CountViews | CoalitionViews
"""The views that one observer may have of one small cluster: their laws, and the observer's exact ε and δ."""
