"""What is learnt of who submits together, against direct searches of small cases."""

from itertools import combinations, product

import numpy as np
import pytest

from p2p_sim.attacks.submitters import (
    FEWEST_HITS,
    LEAST_SIGMAS,
    Submitters,
    best_parity,
    best_word,
    largest_parity,
    word_list,
)


def drawn(users: int, trials: int, rate: float = 0.5, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.random((trials, users)) < rate, rng.random(trials) < 0.5, rng


@pytest.mark.parametrize(("users", "most"), [(1, 1), (2, 2), (12, 12), (17, 17), (18, 10), (30, 5)])
def test_how_many_users_a_parity_may_have(users, most):
    assert largest_parity(users) == most


@pytest.mark.parametrize(("trials", "rate"), [(777, 0.5), (1_000, 0.1), (64, 0.9)])
def test_the_best_parity_is_the_one_of_a_direct_search(trials, rate):
    submits, labels, _ = drawn(6, trials, rate)

    def apart(users):
        odd = submits[:, users].sum(axis=1) % 2 == 1
        share, ones = odd.mean(), labels.sum()
        spread = np.sqrt(max(share * (1 - share), 1 / trials) * (1 / ones + 1 / (trials - ones)))
        return abs(odd[labels].mean() - odd[~labels].mean()) / spread

    sets = [list(users) for size in range(1, 7) for users in combinations(range(6), size)]
    assert list(best_parity(submits, labels).users) == max(sets, key=apart)


def test_the_best_word_is_the_one_of_a_direct_search():
    """Planted: with label 1, one cluster in five has users 0 and 4 submit, and user 2 not."""
    submits, labels, rng = drawn(6, 1_000)
    submits[np.ix_(labels & (rng.random(1_000) < 0.2), [0, 2, 4])] = True, False, True

    def sigmas(word):
        users, bits = word
        occurs = (submits[:, users] == bits).all(axis=1)
        hits = occurs.sum()
        return abs(2 * (occurs & labels).sum() - hits) / np.sqrt(hits) if hits >= FEWEST_HITS else 0.0

    words = [
        (list(users), bits)
        for size in range(1, 7)
        for users in combinations(range(6), size)
        for bits in product((False, True), repeat=size)
    ]
    users, bits = max(words, key=sigmas)
    word = best_word(submits, labels)
    assert word is not None
    assert (list(word.users), word.submit) == (users, bits)
    assert {0, 2, 4} <= set(users)
    assert sigmas((users, bits)) > LEAST_SIGMAS


def test_no_word_is_seen_where_there_is_none():
    submits, labels, _ = drawn(10, 5_000)
    assert word_list(submits, labels) == ()


def test_a_list_of_words_has_one_for_each_that_was_planted():
    submits, labels, rng = drawn(12, 10_000)
    coded = rng.random(10_000) < 0.05
    words = rng.random((2, 12)) < 0.5
    submits[coded] = words[labels[coded].astype(int)]
    found = word_list(submits, labels)
    assert [word.occurs(words).tolist() for word in found[:2]] in (
        [[True, False], [False, True]],
        [[False, True], [True, False]],
    )
    assert all((word.log_odds > 0) == word.occurs(words)[1] for word in found[:2])


@pytest.mark.parametrize(("leak", "score", "least"), [("parity", 0, 0.99), ("pattern", 2, 0.8)])
def test_scores_point_to_the_label_that_a_leak_codes(leak, score, least):
    """Detects evidence with the wrong sign, and users who are confused."""
    submits, labels, rng = drawn(9, 8_000)
    if leak == "parity":
        submits[:, 7] = submits[:, [0, 2, 5]].sum(axis=1) % 2 == labels
    else:  # each of the 512 patterns is drawn for one of the labels
        patterns = np.array(list(product((False, True), repeat=9)))
        label_of = rng.random(512) < 0.5
        for label in (False, True):
            here = labels == label
            submits[here] = rng.choice(patterns[label_of == label], size=int(here.sum()))
    learned = Submitters.of(submits[:4_000], labels[:4_000])
    evidence = learned(submits[4_000:])[score]
    assert ((evidence > 0) == labels[4_000:]).mean() > least
    assert len(learned.names) == len(learned(submits))


def test_a_pattern_that_was_never_seen_is_no_evidence():
    learned = Submitters.of(np.zeros((100, 5), dtype=bool), np.arange(100) % 2 == 0)
    assert learned(np.ones((3, 5), dtype=bool)).tolist()[1:] == [[0.0] * 3] * 2
