"""Claims about class counts of bags (groups) of users: without noise they hide nothing; with noise they are private."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.claims.claim import AGGREGATION, Claim, ClaimCase, at_most
from p2p_sim.privacy.rivals.noisy_counts import moved_counts

Counts = tuple[int, ...]
_SPAN = 6
"""How many values of a noisy count below 0, and above the bag's size, are distinguished."""


def neighbours(size: int, classes: int) -> Iterator[list[Counts]]:
    """Yield pairs of class counts of a bag of `size` users before and after one label changes, for all labels.

    With two classes only the count of class 1 is given.
    """
    for others in itertools.combinations_with_replacement(range(classes), size - 1):
        for pair in itertools.permutations(range(classes), 2):
            counts = [np.bincount((own, *others), minlength=classes).tolist() for own in pair]
            yield [tuple(of_classes if classes > 2 else of_classes[1:]) for of_classes in counts]


def noisy_law(counts: Counts, noise_scale: float, size: int) -> NDArray[np.float64]:
    """Joint law of class counts with two-sided geometric noise, one axis a class with values from -6 to size + 6.

    The first and last value of an axis stand for all beyond as well.
    """
    t, law = math.exp(-1.0 / noise_scale), np.ones(())
    for count in counts:
        z = np.arange(-_SPAN, size + _SPAN + 1.0) - count
        of_count = (1.0 - t) / (1.0 + t) * t ** np.abs(z)
        of_count[[0, -1]] = t ** np.abs(z[[0, -1]]) / (1.0 + t)  # with all values beyond
        law = np.multiply.outer(law, of_count)
    return law


def plain_cases(claimed: float = 0.5) -> Iterator[ClaimCase]:
    """Cases: δ at ε = 10 of the noiseless counts of a bag, for who knows the bag's other labels.

    Args:
        claimed: δ that the claim allows.
    """
    for size, classes in itertools.product((2, 3, 5), (2, 3)):
        worst = 0.0
        for pair in neighbours(size, classes):
            first, second = ({counts: 1.0} for counts in pair)
            excess = (p - math.exp(10.0) * second.get(counts, 0.0) for counts, p in first.items())
            worst = max(worst, sum(max(0.0, part) for part in excess))
        yield at_most(claimed, worst, None, size * classes, users=size, K=classes, epsilon=10.0)


def noisy_cases(moved: int | None = None) -> Iterator[ClaimCase]:
    """Cases: ε of noisy counts over all outputs and all neighbouring bags of two or three users.

    Args:
        moved: how many counts a changed label is taken to move, from which the noise scale follows; None: as it does.
    """
    for size, classes, epsilon in itertools.product((2, 3), (2, 3), (0.1, 1.0, 3.0)):
        scale, worst = (moved or moved_counts(classes)) / epsilon, 0.0
        for first, second in neighbours(size, classes):
            laws = (noisy_law(counts, scale, size) for counts in (first, second))
            worst = max(worst, float(np.log(np.divide(*laws)).max()))
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
