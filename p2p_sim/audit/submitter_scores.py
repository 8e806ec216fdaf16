"""Scores that see who submits together: the parity of some users, words over some users, and whole patterns.

By the protocol each user decides by herself, whatever the labels are, whether she submits. So who submits tells nothing
of the target's label, and whatever ties it to the coin is a leak. All is learnt from held-out runs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Packed = NDArray[np.uint64]
MOST_SUBSETS = 200_000
"""Sets of users whose parity is looked at: all up to the largest size with no more of them."""
MOST_WORDS = 8
"""Words of a list."""
WIDTH = 64
"""Words that are made longer at a time; all words of one user, as there are at most 30 users."""
FEWEST_HITS = 20
"""Clusters in which a word must occur to be looked at."""
LEAST_SIGMAS = 5.0
"""Standard deviations by which a word of a list must tell the labels apart."""
SMOOTHING = 4.0
"""Hits added to each label's, so that rare words are no strong evidence."""


@dataclass(frozen=True)
class Parity:
    """A score by the parity of how many of some users submit.

    users: of a cluster, from 0. if_odd, if_even: ln Pr[parity | 1] - ln Pr[parity | 0] for either parity.
    """

    users: tuple[int, ...]
    if_odd: float
    if_even: float

    def __call__(self, submits: Bools) -> Floats:
        """Scores (N,) of who submits (N, n)."""
        odd = submits[:, list(self.users)].sum(axis=1) % 2 == 1
        return np.where(odd, self.if_odd, self.if_even)

    @property
    def name(self) -> str:
        """What the score looks at, in words."""
        return f"whether an odd number submits of the {_users(self.users)}"


@dataclass(frozen=True)
class Word:
    """A pattern of who submits among some users, and its evidence: ln Pr[pattern | 1] - ln Pr[pattern | 0].

    users: from 0. submit: whether each of them submits.
    """

    users: tuple[int, ...]
    submit: tuple[bool, ...]
    log_odds: float

    def occurs(self, submits: Bools) -> Bools:
        """In which clusters the pattern occurs, (N,), given who submits, (N, n)."""
        return np.asarray((submits[:, list(self.users)] == np.array(self.submit)).all(axis=1))

    @property
    def name(self) -> str:
        """The pattern, in words."""
        pairs = list(zip(self.users, self.submit, strict=True))
        do, not_do = (tuple(user for user, submits in pairs if submits is state) for state in (True, False))
        parts = [f"{verb} of the {_users(users)}" for verb, users in (("all", do), ("none", not_do)) if users]
        return " and ".join(parts) + (" submit" if do else " submits")


@dataclass(frozen=True)
class Submitters:
    """What has been learnt of who submits in clusters of one size.

    size: n. parity: the set of users whose parity tells most. words: a list, of which the first that occurs counts.
    patterns, log_odds: whole patterns as binary numbers, ascending, and their evidence for label 1.
    """

    size: int
    parity: Parity
    words: tuple[Word, ...]
    patterns: NDArray[np.int64]
    log_odds: Floats

    @staticmethod
    def of(submits: Bools, labels: Bools) -> "Submitters":
        """Learn from who submitted (N, n) in held-out runs, and the labels (N,)."""
        numbers, which = np.unique(_numbers(submits), return_inverse=True)
        ones, zeros = (np.bincount(which[labels == label], minlength=numbers.size) for label in (True, False))
        log_odds = np.log((ones + SMOOTHING) / (zeros + SMOOTHING))
        return Submitters(submits.shape[1], best_parity(submits, labels), word_list(submits, labels), numbers, log_odds)

    def __call__(self, submits: Bools) -> Floats:
        """Three scores (3, N) of who submits in N clusters, each the larger, the likelier the target's label is 1.

        They are the evidence of the parity, of the first word of the list that occurs, and of the whole pattern.

        submits: (N, n), which of a cluster's users submit.
        """
        listed = np.zeros(len(submits))
        for word in reversed(self.words):
            listed[word.occurs(submits)] = word.log_odds
        numbers = _numbers(submits)
        at = np.minimum(np.searchsorted(self.patterns, numbers), self.patterns.size - 1)
        by_pattern = np.where(self.patterns[at] == numbers, self.log_odds[at], 0.0)
        return np.stack([self.parity(submits), listed, by_pattern])

    @property
    def names(self) -> tuple[str, ...]:
        """The three scores, in words."""
        words = "; ".join(f"whether {word.name}" for word in self.words[:2])
        return self.parity.name, words or "no word", "the whole pattern of who submits"


def largest_parity(size: int) -> int:
    """How many users a set may have whose parity is looked at."""
    subsets = np.cumsum([math.comb(size, users) for users in range(1, size + 1)])
    return max(1, int(np.count_nonzero(subsets <= MOST_SUBSETS)))


def best_parity(submits: Bools, labels: Bools) -> Parity:
    """The set of users whose parity tells the labels (N,) apart best, among all of up to `largest_parity` users.

    Args:
        submits: (N, n).
    """
    size, most, trials = submits.shape[1], largest_parity(submits.shape[1]), labels.size
    columns, ones = _packed(submits.T), _packed(labels)
    of_one = max(int(labels.sum()), 1)
    of_zero = max(trials - of_one, 1)
    best, chosen = -1.0, tuple[int, ...]()
    sets: list[tuple[tuple[int, ...], Packed]] = [((), np.zeros_like(ones))]
    while sets:
        users, parity = sets.pop()
        # One more user at a time: the parity of a set is that of the set without her, plus hers.
        first = users[-1] + 1 if users else 0
        longer = parity ^ columns[first:]
        odd, odd_ones = _hits(longer), _hits(longer & ones)
        # (Pr[odd | 1] - Pr[odd | 0]) in standard deviations
        share = odd / trials
        spread = np.sqrt(np.maximum(share * (1.0 - share), 1.0 / trials) * (1.0 / of_one + 1.0 / of_zero))
        apart = np.abs(odd_ones / of_one - (odd - odd_ones) / of_zero) / spread
        if apart.max() > best:
            best, chosen = float(apart.max()), (*users, first + int(np.argmax(apart)))
        if len(users) + 1 < most:
            sets += [((*users, user), longer[user - first]) for user in range(first, size - 1)]
    odd_at = submits[:, list(chosen)].sum(axis=1) % 2 == 1
    return Parity(chosen, _log_odds(odd_at, labels), _log_odds(~odd_at, labels))


def word_list(submits: Bools, labels: Bools) -> tuple[Word, ...]:
    """Patterns of who submits that tell the labels (N,) apart, each in the clusters in which none before it occurs."""
    words, remaining = list[Word](), np.ones(labels.size, dtype=np.bool_)
    while len(words) < MOST_WORDS:
        word = best_word(submits[remaining], labels[remaining])
        if word is None:
            break
        words.append(word)
        remaining &= ~word.occurs(submits)
    return tuple(words)


Literals = tuple[tuple[int, int], ...]
"""Users of a word, ascending, each with 1 if she submits in it, else 0."""


class PartialWord(NamedTuple):
    """A word, where it occurs (packed bits of clusters), and by how many standard deviations it tells labels apart."""

    literals: Literals
    occurs: Packed
    sigmas: float


def best_word(submits: Bools, labels: Bools) -> Word | None:
    """The pattern of who submits that tells the labels (N,) apart best; None if none does so by `LEAST_SIGMAS`.

    The `WIDTH` best patterns of each length are made longer by each further user, who submits or does not.
    """
    size = submits.shape[1]
    columns = _packed(np.stack([~submits.T, submits.T], axis=1))  # (n, 2, words)
    ones = _packed(labels)
    best = PartialWord((), np.full_like(ones, np.iinfo(np.uint64).max), LEAST_SIGMAS)
    beam = [best]
    for _ in range(size):
        longer = {word.literals: word for shorter in beam for word in _longer(shorter, columns, ones)}
        beam = sorted(longer.values(), key=lambda word: (-word.sigmas, word.literals))[:WIDTH]
        if not beam:
            break
        best = beam[0] if beam[0].sigmas > best.sigmas else best
    if not best.literals:
        return None
    users, submit = tuple(user for user, _ in best.literals), tuple(bit == 1 for _, bit in best.literals)
    return Word(users, submit, _log_odds(Word(users, submit, 0.0).occurs(submits), labels))


def _longer(word: PartialWord, columns: Packed, ones: Packed) -> Iterator[PartialWord]:
    """The best `WIDTH` patterns with one more user. columns: (n, 2, words), the clusters in which each user does not
    and does submit.
    """
    occurs = word.occurs & columns
    hits, of_one = _hits(occurs), _hits(occurs & ones)
    # Labels are fair coins: given the hits, ones less zeros among them have variance `hits`.
    sigmas = np.where(hits >= FEWEST_HITS, np.abs(2.0 * of_one - hits) / np.sqrt(np.maximum(hits, 1)), -1.0)
    sigmas[[user for user, _ in word.literals]] = -1.0
    for index in np.argsort(-sigmas, axis=None)[:WIDTH].tolist():
        user, bit = divmod(index, 2)
        if sigmas[user, bit] >= 0.0:
            yield PartialWord(tuple(sorted((*word.literals, (user, bit)))), occurs[user, bit], float(sigmas[user, bit]))


def _log_odds(occurs: Bools, labels: Bools) -> float:
    """The evidence of an event for label 1, ln Pr[event | 1] - ln Pr[event | 0], estimated and drawn towards 0."""
    ones, zeros = (np.count_nonzero(occurs & (labels == label)) + SMOOTHING for label in (True, False))
    return math.log(ones / zeros)


def _numbers(submits: Bools) -> NDArray[np.int64]:
    """Who submits (N, n) as binary numbers (N,); n is at most 62."""
    return np.asarray(submits.astype(np.int64) @ (1 << np.arange(submits.shape[1], dtype=np.int64)))


def _packed(bits: Bools) -> Packed:
    """Bits (..., N) in words of 64, filled up with zeros."""
    missing = -bits.shape[-1] % 64
    filled = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)])
    return np.ascontiguousarray(np.packbits(filled, axis=-1)).view(np.uint64)


def _hits(bits: Packed) -> NDArray[np.int64]:
    """How many bits are set, (...) of (..., words)."""
    return np.asarray(np.bitwise_count(bits).sum(axis=-1, dtype=np.int64))


def _users(users: tuple[int, ...]) -> str:
    others = ", ".join(str(user) for user in users if user)
    target = ["target"] if 0 in users else []
    return " and ".join([*target, *([f"users {others}"] if others else [])])
