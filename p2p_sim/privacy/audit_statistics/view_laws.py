"""Exact laws of what an observer of one small cluster sees, tabulated view by view.

A view is a number, a *cell*. Its probability with the target's noisy bit 0 or 1 is `weight * a` or `weight * b`, where
the weight does not depend on labels; a and b decide which event tells most, also where the weight is nearly zero.

**One user's submission beside the others'.** Given how many users submitted and how many of the labels were ones, who
submitted which is exchangeable. So the law of (t, k) says that of (the target's submission, the others' t', the ones k'
among these).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import SUBNORMAL, Floats, binomial_pmf
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket
from p2p_sim.privacy.exchange.direct_sum import OtherUsers, likelihoods
from p2p_sim.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.privacy.randomized_response import bisect, hockey_stick_coefficients, local_epsilon, outward


def split_cells(users: int) -> int:
    """How many different views there are of the target's submission s beside the others' submissions: 3n².

    View (s, t', k') has the number (s n + t') n + k': s = 0 for silence, else 1 + label; t' others submitted, k' of
    them ones.
    """
    return 3 * users * users


def split_weights(users: int, rate: float) -> Floats:
    """Probabilities of who submits, for each view of `split_cells`, (3 n²,): no label has a say in them.

    Args:
        users: n, of whom each submits by herself.
        rate: with this probability.
    """
    others = binomial_pmf(0, users - 1, users - 1, rate)
    states = np.array([1.0 - rate, rate, rate])
    return np.asarray(np.repeat(np.multiply.outer(states, others).ravel(), users))


def split(counts: Floats) -> Floats:
    """Probabilities of the views of `split_cells` given who submits, (..., 3 n²).

    counts: (..., n + 1, n + 1), the probability of k ones among t submissions.
    """
    n = counts.shape[-1] - 1
    t, k = np.arange(n)[:, None], np.arange(n)[None, :]
    zero = counts[..., 1:, :-1] * np.maximum(t + 1 - k, 0) / (t + 1)
    ones = counts[..., 1:, 1:] * (k + 1) / (t + 1)
    cells = np.stack([counts[..., :-1, :-1], zero, ones], axis=-3)
    return np.asarray(cells.reshape(*counts.shape[:-2], split_cells(n)))


SLACK = 1e-11
"""Charged for the relative rounding error of a tabulated probability.

Proved below 3e-12 up to 100 submissions: `VALUE_ERROR` of a column of 101 values, of X's and of t's, 1e-12 in all,
and 2e-12 for 1 - θ(n-c)/n in the law of t, which is off by up to 100u and taken to powers of up to 100."""
LARGEST_VIEW = 100
"""Most submissions for which views are tabulated."""
LARGEST_COALITION = 5


@dataclass(frozen=True)
class ViewLaw:
    """The law of an observer's view for one data set, if the target's label is 0 and if it is 1.

    flip_prob: α. weight, a, b: (J,), for each view what the labels have no say in, and the rest if the target's noisy
    bit is 0 (a) and 1 (b).
    """

    flip_prob: float
    weight: Floats
    a: Floats
    b: Floats

    @property
    def probabilities(self) -> Floats:
        """The probability of each view if the target's label is 0, and if it is 1, (2, J)."""
        alpha = self.flip_prob
        mixed = (1.0 - alpha) * self.a + alpha * self.b, alpha * self.a + (1.0 - alpha) * self.b
        return np.stack([self.weight * law for law in mixed])

    def event(self, epsilon: float, label: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Cells (J,) that are evidence beyond e^ε for the target's label: P - e^ε Q = (A, B times factors) > 0.

        No other event has a larger P - e^ε Q. Where no evidence is possible at all (α = 1/2) it is what would be
        evidence if the target's bit were not flipped.

        Args:
            epsilon: ε, at least 0 and at most ε₀ for an event that is not empty.
            label: 0 or 1.
        """
        p, q = (self.a, self.b) if label == 0 else (self.b, self.a)
        keep, lose, _ = hockey_stick_coefficients(self.flip_prob, epsilon)
        if epsilon == 0.0 or keep == lose:
            keep = lose = 1.0
        return np.asarray(keep * p * (1.0 - SLACK) > lose * q)

    def deltas(self, epsilon: float, slack: float = 0.0) -> Floats:
        """Σ max(0, (1 + slack) P - (1 - slack) e^ε Q) for evidence of label 0 and of label 1, (2,).

        Underflow is charged as well if there is slack: a few times the smallest positive number a cell.
        """
        if epsilon >= local_epsilon(self.flip_prob):
            return np.zeros(2)
        laws = self.probabilities
        up, down = 1.0 + slack, (1.0 - slack) * math.exp(epsilon)
        tiny = math.copysign(512.0 * SUBNORMAL * self.a.size * (1.0 + math.exp(epsilon)), slack) if slack else 0.0
        sums = [float(np.maximum(up * p - down * q, 0.0).sum()) for p, q in (laws, laws[::-1])]
        return np.array([max(0.0, value + tiny) for value in sums])


class Views(Protocol):
    """What one observer may see of one cluster: all possible views, with their laws for each data set."""

    @property
    def observer(self) -> str:
        """Who looks, one of `bound.OBSERVERS`."""

    @property
    def basis(self) -> str:
        """Where the exact figures come from, in words."""

    @property
    def cluster_size(self) -> int:
        """n, the users of the cluster."""

    @property
    def members(self) -> int:
        """c, users of the cluster who look on; 0 for the learner alone."""

    @property
    def laws(self) -> Sequence[ViewLaw]:
        """The laws for m = 0, 1, ... ones among the others; swapping the labels mirrors the rest."""

    def delta(self, epsilon: float) -> Bracket:
        """The exact δ(ε) over all data sets."""

    def epsilon(self, delta: float) -> Bracket:
        """The exact ε(δ) over all data sets."""


def _count_laws(worlds: Sequence[OtherUsers], trials: int) -> Floats:
    """For each of W worlds Pr[k ones | t submissions], if the target's noisy bit is 0 and if it is 1: (2, W, T+1, T+1).

    It is zero where k > t.
    """
    a, b = laws = np.zeros((2, len(worlds), trials + 1, trials + 1))
    for t, (low, high) in enumerate(likelihoods(worlds, range(trials + 1))):
        a[:, t, : t + 1], b[:, t, : t + 1] = low.T, high.T
    return laws


@dataclass(frozen=True)
class CountViews:
    """The learner's view as counts: t submissions with k ones among them, view t (T+1) + k, where T = n · rounds."""

    members = 0

    exchange: LabelExchange
    observer: str = "learner"
    basis: str = "exact, over all data sets"

    def __post_init__(self) -> None:
        if self.trials > LARGEST_VIEW:
            raise ValueError(f"{self.trials} submissions: views are tabulated up to {LARGEST_VIEW}")

    @property
    def cluster_size(self) -> int:
        """n, the users of the cluster."""
        return self.exchange.cluster_size

    @property
    def trials(self) -> int:
        """T, the largest number of submissions."""
        return self.exchange.cluster_size * self.exchange.rounds

    @cached_property
    def laws(self) -> tuple[ViewLaw, ...]:
        """One law for each m from 0 to (n-1)/2."""
        alpha, t = self.exchange.flip_prob, self.trials
        weight = np.repeat(binomial_pmf(0, t, t, self.exchange.sampling_rate), t + 1)
        return tuple(ViewLaw(alpha, weight, a.ravel(), b.ravel()) for a, b in zip(*self._counts(), strict=True))

    def _counts(self) -> Floats:
        """Pr[k ones | t submissions] for every m from 0 to (n-1)/2, as `_count_laws` gives it."""
        x = self.exchange
        return _count_laws([x.setting.world(m) for m in range((x.cluster_size - 1) // 2 + 1)], self.trials)

    def delta(self, epsilon: float) -> Bracket:
        """The accountant's exact δ(ε)."""
        return self.exchange.delta(epsilon)

    def epsilon(self, delta: float) -> Bracket:
        """The accountant's exact ε(δ)."""
        bound = self.exchange.epsilon(delta)
        return Bracket(bound.epsilon_lower, bound.epsilon_upper)


@dataclass(frozen=True)
class LearnerViews(CountViews):
    """The learner's view if it sees what the target submitted, beside what the others did, in one round: see
    `split_cells`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exchange.rounds != 1:
            raise ValueError(f"rounds = {self.exchange.rounds}: a target submits once; take CountViews")

    @cached_property
    def laws(self) -> tuple[ViewLaw, ...]:
        weight = split_weights(self.cluster_size, self.exchange.sampling_rate)
        a, b = (split(counts) for counts in self._counts())
        return tuple(ViewLaw(self.exchange.flip_prob, weight, *pair) for pair in zip(a, b, strict=True))


class Pattern(NamedTuple):
    """Which noisy bits a coalition knows: f₀ of holders of label 0 and f₁ of holders of label 1, j of these bits being
    ones.
    """

    zeros: int
    ones: int
    noisy_ones: int


@dataclass(frozen=True)
class CoalitionViews:
    """c passive users of the cluster, pooled with the learner.

    With probability 1 - (1 - 1/n)^c a member fetched the target's noisy label: cells 0 and 1, its value. Otherwise the
    members know the noisy bits of f of the other n-c-1 non-members; who fetched from a member is known and tells
    nothing. What is left is an exchange among n-c sources, f of them known, with t ~ Bin(n-c, θ(n-c)/n) submissions by
    non-members who fetched from non-members. All that is conditioned on is seen and independent of the target's label.
    Cell of (f₀ known bits of holders of label 0, f₁ of label 1, j ones among these bits, and these submissions, the
    target's apart): `cell_of_pattern` [f₀, f₁, j] + the cell of `split` among n-c users.

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
        LabelExchange(self.cluster_size, self.flip_prob, self.sampling_rate)  # checks their ranges
        if self.cluster_size > LARGEST_VIEW:
            raise ValueError(f"cluster_size = {self.cluster_size}: views are tabulated up to {LARGEST_VIEW}")
        if not 1 <= self.members <= min(LARGEST_COALITION, self.cluster_size - 1):
            raise ValueError(f"members = {self.members}: must lie in 1..{LARGEST_COALITION} and below cluster_size")

    @property
    def sources(self) -> int:
        """n - c: the users who are no members."""
        return self.cluster_size - self.members

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """All possible patterns (f₀, f₁, j) of known bits."""
        c = self.members
        return tuple(Pattern(f0, f1, j) for f0 in range(c + 1) for f1 in range(c + 1 - f0) for j in range(f0 + f1 + 1))

    @cached_property
    def cell_of_pattern(self) -> NDArray[np.int64]:
        """First cell of each pattern, (c+1, c+1, c+1); -1 where there is none."""
        first = np.full((self.members + 1,) * 3, -1, dtype=np.int64)
        for i, pattern in enumerate(self.patterns):
            first[pattern] = 2 + i * split_cells(self.sources)
        return first

    @cached_property
    def laws(self) -> tuple[ViewLaw, ...]:
        """One law for each number of ones, 0 to (n-c-1)/2, among the non-members besides the target."""
        return tuple(self._law(m) for m in range((self.sources - 1) // 2 + 1))

    def _law(self, ones: int) -> ViewLaw:
        alpha, s, cells = self.flip_prob, self.sources, split_cells(self.sources)
        zeros = s - 1 - ones
        fetched = self._fetched(zeros, ones)
        size = 2 + len(self.patterns) * cells
        weight, a, b = np.zeros(size), np.zeros(size), np.zeros(size)
        # A member fetched the target's bit, or knows other bits; then an exchange among the rest, given these.
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
        """Probabilities that members know f₀ bits of holders of label 0 and f₁ of label 1, and not the target's, (c+1,
        c+1).
        """
        n, c = self.cluster_size, self.members
        now = np.zeros((c + 1, c + 1))
        now[0, 0] = 1.0
        for _ in range(c):
            then = np.zeros_like(now)
            for f0, f1 in zip(*np.nonzero(now), strict=True):
                p = now[f0, f1] / n
                then[f0, f1] += p * (c + f0 + f1)  # a member, or someone known already
                if f0 < zeros:
                    then[f0 + 1, f1] += p * (zeros - f0)
                if f1 < ones:
                    then[f0, f1 + 1] += p * (ones - f1)
            now = then
        return now

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) from the tables, rounding charged on both sides."""
        lower, upper = (max(float(law.deltas(epsilon, s).max()) for law in self.laws) for s in (-SLACK, SLACK))
        return outward(lower, upper)

    def epsilon(self, delta: float) -> Bracket:
        """ε(δ) by bisection on either side of δ(ε), to 1e-6."""
        return Bracket(self._cross(delta, "lower").lower, self._cross(delta, "upper").upper)

    def _cross(self, delta: float, side: str) -> Bracket:
        """Two neighbouring ε between which the upper or lower bound of δ(ε), `side`, falls to `delta`."""
        local = local_epsilon(self.flip_prob)
        high = min(local, LARGEST_EPSILON)

        def above(epsilon: float) -> bool:
            return bool(getattr(self.delta(epsilon), side) > delta)

        if not above(0.0):
            return Bracket(0.0, 0.0)
        return Bracket(local, local) if above(high) else Bracket(*bisect(above, 0.0, high, 1e-6))
