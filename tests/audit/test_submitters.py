"""What is learnt of who submits together, against direct searches of small cases."""

from itertools import combinations, product

import numpy as np
import pytest

from p2p_sim.audit.exchange_attack import ClusterCurves, exchange_attack
from p2p_sim.audit.exchange_targets import ClusterTargets, copies
from p2p_sim.audit.submitter_scores import (
    FEWEST_HITS,
    LEAST_SIGMAS,
    Submitters,
    best_parity,
    best_word,
    largest_parity,
    word_list,
)
from p2p_sim.privacy.audit_statistics.one_run_plan import AttackScores, plan_one_run
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.scenario import Scenario
from tests.planted import exchange


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


@pytest.mark.slow
def test_scores_of_who_submits_hardly_ever_fail_a_sound_exchange():
    """1,000 audits at error .01 by each score alone: 25 or more false alarms have probability below 1e-4.

    Planted: evidence that is learnt from the very targets that are counted, which fails most audits.
    """
    size, trials, error = 12, 1_000, 0.01
    tree = {"name": "small", "engine": "events", "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5}}
    case = Replicate(Scenario.from_tree(tree | {"network": {"start_window_s": 1.0}}))
    labels = np.zeros(size, dtype=np.uint8)
    mechanism = exchange(0.1, 0.5, engine="events")
    attack = exchange_attack(ClusterTargets(case, mechanism, copies(labels), looks_closely=True), True, 5_000, 0)
    account = ClusterCurves(mechanism, np.array([size]), 1e-5)
    epsilons, bound = account.tested(), account.bound(1e-5).epsilon_upper
    certified, pilot = account.deltas(epsilons), attack.sample(20_000, 1, ())
    assert len(pilot.scores) == len(attack.scope.scores) == 5

    def fails(plan, seen):
        deltas, epsilon = plan.bounds([event.guesses(seen) for event in plan.events])
        return bool((deltas > certified).any() or epsilon > bound)

    def alone(seen, score):
        return AttackScores(seen.labels, seen.scores[[score]])

    plans = {
        score: plan_one_run(alone(pilot, score), epsilons, 1e-5, trials=trials, error=error, exact=[False])
        for score in (2, 3, 4)
    }
    alarms = dict.fromkeys(plans, 0)
    for seed in range(1_000):
        seen = attack.sample(trials, 100 + seed, ())
        for score, plan in plans.items():
            alarms[score] += fails(plan, alone(seen, score))
    assert max(alarms.values()) <= 25

    wrong = 0
    for seed in range(20):
        submits, coins, _ = drawn(size, trials, seed=seed)
        evidence = Submitters.of(submits, coins)(submits)[[2]]
        counted = AttackScores(coins, evidence)
        wrong += fails(plan_one_run(counted, epsilons, 1e-5, trials=trials, error=error, exact=[False]), counted)
    assert wrong >= 15
