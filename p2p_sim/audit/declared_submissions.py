"""Tests what a protocol declares about its submissions: a law of the submissions, or symmetry (all users submit alike).

The test of a law takes the noisy labels as fixed. The test of symmetry takes the submissions as fixed. If the
declaration is true, each statistic is then a sum of terms with mean 0 and absolute value at most 1. Let V be the sum of
the terms' variances. By Bernstein's inequality the probability that the statistic is s or more away from 0 is at most

    2 exp(-s² / (2 (V + s/3))).

The test of symmetry assumes that the noisy labels of a cluster are arranged at random among its users. This holds if
the true labels are fair coins. A sum over these labels is a sum over a sample without replacement. The inequality for
independent terms holds for such sums, too (Hoeffding 1963, Theorem 4).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.rivals import SubmissionLaw

Floats = NDArray[np.float64]
LARGEST_PAIRED = 128
"""Largest number of users of a cluster in which each user's submissions are tested against each user's noisy label."""


@dataclass(frozen=True)
class HeldAndSubmitted:
    """What the n users of one cluster held and submitted in R runs; all arrays are (R, n).

    held: whether a user's noisy label is a one. ones: how many ones she submitted. count: how many labels in all.
    """

    held: NDArray[np.bool_]
    ones: NDArray[np.int64]
    count: NDArray[np.int64]


@dataclass(frozen=True)
class LawCheck:
    """The check of one statistic of a protocol's submissions.

    name: what the statistic looks at. excess: the sum of the statistic, in standard deviations. probability: an upper
    bound of the probability that the sum is at least as far from 0 if the declaration is true.
    """

    name: str
    excess: float
    probability: float

    @staticmethod
    def of(name: str, total: float, variance: float, tests: int = 1) -> "LawCheck":
        """The check of one sum of observations. If the declaration is true, the terms have mean 0 and absolute value at
        most 1. The result has the sum in standard deviations. By Bernstein's inequality, it also has an upper bound of
        the probability that a sum is at least as far from 0.

        Args:
            name: what the sum looks at. total: the sum. variance: the sum of the terms' variances. tests: the number of
            sums of which this sum is the most unlikely; 1 for a single sum. The bound is multiplied by this number.
        """
        off = abs(total)
        bound = 2.0 * tests * math.exp(-off * off / (2.0 * (variance + off / 3.0))) if off else 1.0
        return LawCheck(name, total / math.sqrt(variance) if variance else math.copysign(off, total), min(1.0, bound))


def follows(clusters: Sequence[HeldAndSubmitted], law: SubmissionLaw | None) -> list[LawCheck]:
    """Checks of symmetry and, unless `law` is None, of this law of submissions for two classes.

    clusters: what the n users of each cluster held and submitted in R runs, as arrays (R, n).
    """
    checks = list(_symmetry(clusters))
    return checks if law is None else [*checks, *_by_law(clusters, law)]


def failure(checks: Sequence[LawCheck], error: float) -> LawCheck | None:
    """The check that refuses the declaration, or None. The check with the smallest probability refuses if this
    probability, times the number of checks, is below `error`. So `error` bounds the probability that a true declaration
    is refused.
    """
    worst = min(checks, key=lambda check: check.probability)
    return worst if worst.probability * len(checks) < error else None


def _symmetry(clusters: Sequence[HeldAndSubmitted]) -> Iterator[LawCheck]:
    """Yields checks of whether all users submit alike. If so, the submissions say nothing about which user of a cluster
    had which noisy label. Then two sums over all clusters and runs are near 0. One compares users' noisy labels with
    the numbers of ones that they submitted. The other compares noisy labels with the numbers of submitted labels. In
    small clusters every user's submissions are also compared with every user's noisy label. The most unlikely of these
    sums is checked.

    clusters: what the users of each cluster held and submitted in each run.
    """
    views = [(cluster, _centred(cluster.held)) for cluster in clusters]
    for name, scores in (
        ("labels of users who submit ones", [_within(c.ones) for c in clusters]),
        ("labels of users who submit", [_within(c.count) for c in clusters]),
    ):
        total = sum(float((score * held).sum()) for score, (_, held) in zip(scores, views, strict=True))
        # The users with the rarer noisy label are a random sample of the cluster.
        variance = sum(
            float((np.minimum(c.held.sum(1), (~c.held).sum(1)) * (score**2).mean(1)).sum())
            for score, (c, _) in zip(scores, views, strict=True)
        )
        yield LawCheck.of(name, total, variance)
        # Compare each user's submissions with each user's noisy label, by a sum with one term for each run.
        worst, tests = LawCheck(name, 0.0, 1.0), 0
        for score, (c, held) in zip(scores, views, strict=True):
            if c.held.shape[1] <= LARGEST_PAIRED:
                share = c.held.mean(1, keepdims=True)
                sums, variances = score.T @ held, (score**2).T @ np.broadcast_to(share * (1.0 - share), held.shape)
                strength = sums**2 / (2.0 * (variances + np.abs(sums) / 3.0) + 1e-300)
                u, v = np.unravel_index(int(strength.argmax()), strength.shape)
                tests += sums.size
                check = LawCheck.of(f"one user's {name.rpartition(' ')[2]} and one label", sums[u, v], variances[u, v])
                worst = min(worst, check, key=lambda each: each.probability)
        yield LawCheck(worst.name, worst.excess, min(1.0, worst.probability * max(tests, 1)))


def _by_law(clusters: Sequence[HeldAndSubmitted], law: SubmissionLaw) -> Iterator[LawCheck]:
    """Yields the checks of a declared law. Under this law, submissions are independent given the noisy labels. The law
    gives the probabilities that a user submits and that she submits a one. Seven sums over all users and runs are
    checked. Three sums are about submitted ones: their share, the relation to users' own noisy labels, and pairs of
    users. Three sums are about submitting at all: the number of users who submit, the relation to own noisy labels,
    and pairs of users. The seventh sum counts submissions beyond a user's first.

    clusters: what the users of each cluster held and submitted in each run. law: the declared probabilities.
    """
    theta, sums = law.sampling_rate, defaultdict[str, Floats](lambda: np.zeros(2))

    def add(name: str, terms: Floats, variances: Floats) -> None:
        sums[name] += (terms.sum(), variances.sum())

    for c in clusters:
        size = c.held.shape[1]
        of_ones = np.array([law.ones(x / size) for x in range(size + 1)])
        chance = np.broadcast_to(of_ones[c.held.sum(1)][:, None], c.held.shape)
        came, label = np.minimum(c.count, 1), np.minimum(c.ones, 1)
        rest, variance, held = came * (label - chance), came * chance * (1.0 - chance), _centred(c.held)
        off, spread = came - theta, np.full(came.shape, theta * (1.0 - theta))
        add("share of ones", rest, variance)
        add("own labels", rest * held, variance * held**2)
        add("number of submissions", off, spread)
        add("own labels of those who submit", off * held, spread * held**2)
        add("users who submit more than once", np.maximum(c.count - 1, 0), np.zeros(1))
        half = size // 2  # disjoint pairs of users of a cluster
        first, second = slice(0, half), slice(half, 2 * half)
        add("pairs of labels", rest[:, first] * rest[:, second], variance[:, first] * variance[:, second])
        add("pairs of submissions", off[:, first] * off[:, second], spread[:, first] * spread[:, second])
    yield from (LawCheck.of(name, *total.tolist()) for name, total in sums.items())


def _centred(values: NDArray[np.generic]) -> Floats:
    """The numbers (R, n) of n users in R runs, minus each run's mean. So the result sums to 0 in each run.

    values: (R, n), such as 1 where a user's noisy label is a one.
    """
    numbers = values.astype(np.float64)
    return np.asarray(numbers - numbers.mean(1, keepdims=True))


def _within(counts: NDArray[np.int64]) -> Floats:
    """A score for each of n users in each of R runs, (R, n), from the number of labels that she submitted. A number
    above 2 counts as 2. The mean over the users of the run is subtracted. If the largest absolute score is above 1, all
    scores are divided by it, because Bernstein's inequality needs terms of at most 1.

    counts: (R, n) numbers of submitted labels, or numbers of submitted ones.
    """
    scores = _centred(np.minimum(counts, 2))
    return np.asarray(scores / max(1.0, float(np.abs(scores).max(initial=0.0))))
