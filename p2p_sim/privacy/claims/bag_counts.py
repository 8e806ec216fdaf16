"""Claims about the class counts of bags (groups) of users: plain counts hide no label; noisy counts are private."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.claims.claim import AGGREGATION, Claim, ClaimCase, at_most
from p2p_sim.privacy.rivals import moved_counts

Counts = tuple[int, ...]
_SPAN = 6
"""Noisy counts from -6 to the bag's size plus 6 are told apart. The two end values also stand for all counts beyond."""


def neighbours(size: int, classes: int) -> Iterator[list[Counts]]:
    """Yields lists [before, after]: the class counts that a bag releases before and after one user's label changes.

    All possible labels of the bag's users occur, and each change in both directions. For two classes, only the count
    of class 1 is released.
    """
    for others in itertools.combinations_with_replacement(range(classes), size - 1):
        for pair in itertools.permutations(range(classes), 2):
            counts = [np.bincount((own, *others), minlength=classes).tolist() for own in pair]
            yield [tuple(of_classes if classes > 2 else of_classes[1:]) for of_classes in counts]


def noisy_law(counts: Counts, noise_scale: float, size: int) -> Floats:
    """Joint probabilities of class counts with two-sided geometric noise: an axis for each count, from -6 to size + 6.

    Noise z has a probability proportional to e^(-|z|/noise_scale). size: users in the bag. The two end entries of an
    axis also hold the probabilities of all values beyond.
    """
    t, law = math.exp(-1.0 / noise_scale), np.ones(())
    for count in counts:
        z = np.arange(-_SPAN, size + _SPAN + 1.0) - count
        of_count = (1.0 - t) / (1.0 + t) * t ** np.abs(z)
        of_count[[0, -1]] = t ** np.abs(z[[0, -1]]) / (1.0 + t)  # and all values beyond
        law = np.multiply.outer(law, of_count)
    return law


def plain_cases(claimed: float = 0.5) -> Iterator[ClaimCase]:
    """Cases of the belief that the plain class counts of a bag (a group of users) hide one label.

    Each case compares `claimed` with the true δ at ε = 10. The observer knows all labels of the bag except one. Then
    the true δ is 1, and the belief is refuted.

    Args:
        claimed: the largest δ at which the belief would count as true. At 1 it cannot fail.
    """
    for size, classes in itertools.product((2, 3, 5), (2, 3)):
        # two deterministic outcomes have δ = 1 if they differ, else 0
        worst = float(any(first != second for first, second in neighbours(size, classes)))
        yield at_most(claimed, worst, None, size * classes, users=size, K=classes, epsilon=10.0)


def noisy_cases(moved: int | None = None) -> Iterator[ClaimCase]:
    """Cases of the claim that the noisy class counts of a bag (a group of users) are ε-label private.

    Each case compares the claimed ε with the exact ε at δ = 0. The exact ε is the largest log-ratio of an output's
    probabilities for two bags that differ in one label. The bags have two or three users.

    Args:
        moved: how many released counts one changed label moves. The noise has the scale moved/ε. None: the true number,
        which is 1 for two classes and 2 for more. With a smaller number the claim must fail (a control).
    """
    for size, classes, epsilon in itertools.product((2, 3), (2, 3), (0.1, 1.0, 3.0)):
        scale = (moved or moved_counts(classes)) / epsilon
        worst = max(
            float(np.log(noisy_law(first, scale, size) / noisy_law(second, scale, size)).max())
            for first, second in neighbours(size, classes)
        )
        yield at_most(epsilon, worst, None, size * classes, users=size, K=classes, epsilon=epsilon)


CLAIMS = (
    Claim(
        "Plain aggregates",
        AGGREGATION,
        "class counts of bags of users hide one label without noise (a common belief, which the paper denies)",
        plain_cases,
        "who knows the bag's other labels reads the last one: δ(ε) = 1 at every ε",
        belief=True,
    ),
    Claim(
        "Noisy aggregates",
        AGGREGATION,
        "two-sided geometric noise of scale 2/ε on every count (two classes: 1/ε on one count) is ε-label private",
        noisy_cases,
        "exact",
    ),
)
