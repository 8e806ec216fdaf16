"""Scores that guess a target's label from who submits in the target's cluster: from parities, words and whole patterns.

A *pattern* of a cluster is the set of its users who submit. A *word* says for each of some users whether she submits.
The *parity* of a set of users says whether an odd number of the users submits. In the protocol, each user decides
independently of all labels whether she submits. So patterns should reveal nothing about the target's label, and any
dependence is a leak. All scores are learned from held-out runs, which serve only to learn.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import Floats

Bools = NDArray[np.bool_]
Packed = NDArray[np.uint64]
MOST_SUBSETS = 200_000
"""Largest number of sets of users whose parity is tested. All sets of at most k users are tested. This number fixes k.
"""
MOST_WORDS = 8
"""Largest number of words in a list."""
WIDTH = 64
"""Largest number of words of each length that the search extends. The search begins with words of one user, and adds
one user at a time. A cluster of at most 30 users has at most 60 words of one user, so none of these is left out.
"""
FEWEST_HITS = 20
"""Smallest number of clusters in which a word must occur. The search ignores rarer words."""
LEAST_SIGMAS = 5.0
"""A word of a list must tell the labels apart by more than this number of standard deviations."""
SMOOTHING = 4.0
"""Number that is added to the count of an event's occurrences with each label. So rare events are no strong evidence.
"""


@dataclass(frozen=True)
class Parity:
    """A score that depends on whether an odd number of a set of users submits.

    users: the set, as the users' numbers in the cluster, from 0. if_odd, if_even: the score if an odd, or an even,
    number of these users submits. The score estimates ln Pr[parity | 1] - ln Pr[parity | 0], where 1 and 0 are the
    target's label.
    """

    users: tuple[int, ...]
    if_odd: float
    if_even: float

    def __call__(self, submits: Bools) -> Floats:
        """Scores (N,) of N clusters of n users. The score is `if_odd` if an odd number of the set's users submits, and
        `if_even` otherwise. A larger score means that label 1 of the target is more likely. submits: (N, n) which users
        submit.
        """
        odd = submits[:, list(self.users)].sum(axis=1) % 2 == 1
        return np.where(odd, self.if_odd, self.if_even)

    @property
    def name(self) -> str:
        """What the score looks at, in words."""
        return f"whether an odd number submits of the {_users(self.users)}"


@dataclass(frozen=True)
class Word:
    """A word: for each of some users of a cluster, whether she submits.

    users: numbers of these users in the cluster, from 0. submit: whether each submits. log_odds: an estimate of ln
    Pr[word occurs | 1] - ln Pr[word occurs | 0], where 1 and 0 are the target's label.
    """

    users: tuple[int, ...]
    submit: tuple[bool, ...]
    log_odds: float

    def occurs(self, submits: Bools) -> Bools:
        """In which of N clusters the word occurs, (N,); submits: (N, n) which users of each cluster submit."""
        return np.asarray((submits[:, list(self.users)] == np.array(self.submit)).all(axis=1))

    @property
    def name(self) -> str:
        """The word's users and what they do, in plain text."""
        pairs = list(zip(self.users, self.submit, strict=True))
        do, not_do = (tuple(user for user, submits in pairs if submits is state) for state in (True, False))
        parts = [f"{verb} of the {_users(users)}" for verb, users in (("all", do), ("none", not_do)) if users]
        return " and ".join(parts) + (" submit" if do else " submits")


@dataclass(frozen=True)
class Submitters:
    """What held-out runs teach about who submits in clusters of one size.

    size: number of users of a cluster. parity: the score of the set of users whose parity reveals most. words: a list
    of words; in each cluster only the first word that occurs counts. patterns: all patterns that occurred, as binary
    numbers, ascending. log_odds: for each pattern, an estimate of ln Pr[pattern | 1] - ln Pr[pattern | 0], where 1 and
    0 are the target's label.
    """

    size: int
    parity: Parity
    words: tuple[Word, ...]
    patterns: NDArray[np.int64]
    log_odds: Floats

    @staticmethod
    def of(submits: Bools, labels: Bools) -> "Submitters":
        """Learn from N clusters of held-out runs. submits: (N, n) who submits. labels: (N,) the targets' labels."""
        numbers, which = np.unique(_numbers(submits), return_inverse=True)
        ones, zeros = (np.bincount(which[labels == label], minlength=numbers.size) for label in (True, False))
        log_odds = np.log((ones + SMOOTHING) / (zeros + SMOOTHING))
        return Submitters(submits.shape[1], best_parity(submits, labels), word_list(submits, labels), numbers, log_odds)

    def __call__(self, submits: Bools) -> Floats:
        """Three scores (3, N) of N clusters of n users. Each score estimates ln Pr[e | 1] - ln Pr[e | 0]. Here e is
        what the score sees of a cluster, and 0 and 1 are the target's label. A larger score means that label 1 is more
        likely.

        The first score sees whether an odd number of a certain set of users submits. The second score goes through a
        list of words. It sees only the first word that occurs, and is 0 if none occurs. The third score sees exactly
        who submits. This score is 0 if the pattern did not occur in the held-out runs. submits: (N, n) which users
        submit.
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
    """The largest size k of a set whose parity is tested, in a cluster of `size` users. At most 200,000 sets have up to
    k users; k is at least 1.
    """
    subsets = np.cumsum([math.comb(size, users) for users in range(1, size + 1)])
    return max(1, int(np.count_nonzero(subsets <= MOST_SUBSETS)))


def best_parity(submits: Bools, labels: Bools) -> Parity:
    """The score of the set of users whose parity tells the labels apart best. The parity says whether an odd number of
    the set's users submits. All sets of up to k users are compared, for the largest k with at most 200,000 such sets.
    For the best set, the frequency of an odd number differs most between the labels, in standard deviations.

    Args:
        submits: (N, n) which of the n users of each of N clusters submit. labels: (N,) the targets' labels.
    """
    size, most, trials = submits.shape[1], largest_parity(submits.shape[1]), labels.size
    columns, ones = _packed(submits.T), _packed(labels)
    of_one = max(int(labels.sum()), 1)
    of_zero = max(trials - of_one, 1)
    best, chosen = -1.0, tuple[int, ...]()
    sets: list[tuple[tuple[int, ...], Packed]] = [((), np.zeros_like(ones))]
    while sets:
        users, parity = sets.pop()
        # Add one more user: the parity of the longer set is the shorter set's parity xor the new user's bit.
        first = users[-1] + 1 if users else 0
        longer = parity ^ columns[first:]
        odd, odd_ones = _hits(longer), _hits(longer & ones)
        # the distance of Pr[odd | 1] and Pr[odd | 0], in standard deviations
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
    """Up to eight words that tell the targets' labels apart. A word says for each of some users whether she submits.
    The search for each next word uses only clusters in which no earlier word occurs. A word that reveals nothing occurs
    about equally often with label 1 and label 0 of the target. The next word is the word with the largest difference,
    in standard deviations. The difference must exceed five.

    Args:
        submits: (N, n) which of the n users of each of N clusters submit. labels: (N,) the targets' labels.
    """
    words, remaining = list[Word](), np.ones(labels.size, dtype=np.bool_)
    while len(words) < MOST_WORDS:
        word = best_word(submits[remaining], labels[remaining])
        if word is None:
            break
        words.append(word)
        remaining &= ~word.occurs(submits)
    return tuple(words)


Literals = tuple[tuple[int, int], ...]
"""The users of a word, ascending, each with 1 if she submits and 0 if she does not."""


class PartialWord(NamedTuple):
    """A word that may become longer. occurs: whether the word occurs in each cluster, as packed bits. sigmas: how far
    the word tells labels apart, in standard deviations.
    """

    literals: Literals
    occurs: Packed
    sigmas: float


def best_word(submits: Bools, labels: Bools) -> Word | None:
    """The word that tells the labels apart best, among the words that the search finds. A word says for each of some
    users whether she submits. A word that reveals nothing occurs about equally often with label 1 and label 0 of the
    target. The best word has the largest difference, in standard deviations. If no difference exceeds five, the result
    is None.

    The search is greedy: the 64 best words of each length are extended by one more user, who submits or does not.

    Args:
        submits: (N, n) which of the n users of each of N clusters submit. labels: (N,) the targets' labels.
    """
    size = submits.shape[1]
    columns = _packed(np.stack([~submits.T, submits.T], axis=1))  # (n, 2, W), W integers of 64 bits
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
    """Yields the best 64 (or fewer) of the words that add one user to a given word. A word says for each of some users
    whether she submits. A word that reveals nothing occurs about equally often with label 1 and label 0. A better word
    has a larger difference, in standard deviations. The best word comes first. Words that occur in fewer than 20
    clusters are left out.

    Args:
        word: the given word, with the clusters in which this word occurs. columns: (n, 2, W) for each of n users, the
        clusters in which she does not submit, then the clusters in which she does. The clusters are bits, packed into W
        integers of 64 bits. ones: (W,) the clusters whose target has label 1, as packed bits.
    """
    occurs = word.occurs & columns
    hits, of_one = _hits(occurs), _hits(occurs & ones)
    # Labels are fair coins. So among h hits, the number of ones minus the number of zeros has the variance h.
    sigmas = np.where(hits >= FEWEST_HITS, np.abs(2.0 * of_one - hits) / np.sqrt(np.maximum(hits, 1)), -1.0)
    sigmas[[user for user, _ in word.literals]] = -1.0
    for index in np.argsort(-sigmas, axis=None)[:WIDTH].tolist():
        user, bit = divmod(index, 2)
        if sigmas[user, bit] >= 0.0:
            yield PartialWord(tuple(sorted((*word.literals, (user, bit)))), occurs[user, bit], float(sigmas[user, bit]))


def _log_odds(occurs: Bools, labels: Bools) -> float:
    """An estimate of ln Pr[event | 1] - ln Pr[event | 0], drawn towards 0. Here 1 and 0 are the target's label.
    Before the estimate, 4 is added to the number of the event's occurrences with each label.

    occurs: (N,) whether the event occurs in each cluster. labels: (N,) the targets' labels.
    """
    ones, zeros = (np.count_nonzero(occurs & (labels == label)) + SMOOTHING for label in (True, False))
    return math.log(ones / zeros)


def _numbers(submits: Bools) -> NDArray[np.int64]:
    """The patterns (N, n) of N clusters as binary numbers (N,), for n of at most 62. User 0 is the lowest bit."""
    return np.asarray(submits.astype(np.int64) @ (1 << np.arange(submits.shape[1], dtype=np.int64)))


def _packed(bits: Bools) -> Packed:
    """Bits (..., N), packed into integers (..., W) of 64 bits each. Zeros at the end fill up the last integer."""
    filled = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, -bits.shape[-1] % 64)])
    return np.ascontiguousarray(np.packbits(filled, axis=-1)).view(np.uint64)


def _hits(bits: Packed) -> NDArray[np.int64]:
    """The number of clusters in which each event occurs: the number of set bits. bits: packed bits (..., W). The result
    has the shape (...).
    """
    return np.asarray(np.bitwise_count(bits).sum(axis=-1, dtype=np.int64))


def _users(users: tuple[int, ...]) -> str:
    others = ", ".join(str(user) for user in users if user)
    target = ["target"] if 0 in users else []
    return " and ".join([*target, *([f"users {others}"] if others else [])])
