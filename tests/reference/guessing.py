"""How much more often an attacker guesses a label right who sees a view, by going through all views and data sets."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

Law = Mapping[object, float]


def gain(laws: Sequence[Law], prior: Sequence[float]) -> float:
    """Probability that the likeliest label is the true one, less that without a view; a law of the view each label."""
    right = 0.0
    for view in set().union(*laws):
        right += max(share * law.get(view, 0.0) for share, law in zip(prior, laws, strict=True))
    return right - max(prior)


def worst_gain(n: int, law: Callable[[tuple[int, ...]], Law], prior: Sequence[float], targets: Sequence[int]) -> float:
    """The largest over all labels of the others, all targets, and all ways to give the prior's shares to labels."""
    classes = range(len(prior))
    return max(
        gain([law(label) for label in labels], shares)
        for target in targets
        for labels in _neighbours(n, target, classes)
        for shares in set(itertools.permutations(prior))
    )


def _neighbours(n: int, target: int, classes: range) -> Iterator[list[tuple[int, ...]]]:
    """For all labels of the others, the data sets in which the target holds each label."""
    for others in itertools.product(classes, repeat=n - 1):
        yield [(*others[:target], label, *others[target:]) for label in classes]


def noisy_law(labels: tuple[int, ...], alpha: float, classes: int = 2) -> dict[tuple[int, ...], float]:
    """Pr[noisy labels], every other label equally likely."""
    found = {}
    for noisy in itertools.product(range(classes), repeat=len(labels)):
        chance = 1.0
        for said, true in zip(noisy, labels, strict=True):
            chance *= 1.0 - alpha if said == true else alpha / (classes - 1)
        found[noisy] = chance
    return found


def peer_law(labels: tuple[int, ...], alpha: float) -> dict[tuple[int, int], float]:
    """User 0 sees whom she asked and what she got."""
    n, found = len(labels), dict[tuple[int, int], float]()
    for asked in range(n):
        for noisy, chance in noisy_law(labels, alpha).items():
            found[asked, noisy[asked]] = found.get((asked, noisy[asked]), 0.0) + chance / n
    return found


def counted_law(labels: tuple[int, ...], alpha: float, theta: float, classes: int = 2) -> dict[tuple[int, ...], float]:
    """The learner sees how many submissions there are of each label; nothing else depends on labels.

    Given the noisy labels each of n users submits, with probability θ, the noisy label of a uniform user.
    """
    n, found = len(labels), dict[tuple[int, ...], float]()
    for noisy, chance in noisy_law(labels, alpha, classes).items():
        counts = {(0,) * classes: chance}
        for _ in range(n):
            after = dict[tuple[int, ...], float]()
            for seen, weight in counts.items():
                after[seen] = after.get(seen, 0.0) + weight * (1.0 - theta)
                for said in noisy:
                    more = tuple(c + (k == said) for k, c in enumerate(seen))
                    after[more] = after.get(more, 0.0) + weight * theta / n
            counts = after
        for seen, weight in counts.items():
            found[seen] = found.get(seen, 0.0) + weight
    return found
