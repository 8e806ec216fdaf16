"""PATE: all results of tiny cases enumerated, sensitivities by enumeration, the sampler against its law.

Statistical tests raise a false alarm with probability at most 1e-9 each.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.mechanisms.pate import PateConfig, taught, teachers_inputs
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy.rivals.pate import Pate, calibrate_votes
from p2p_sim.scenario import Scenario

FALSE_ALARM = 1e-9


def votes_of(teachers, classes):
    """(T^K, K): the number of votes of each class for every way in which the teachers can vote."""
    said = itertools.product(range(classes), repeat=teachers)
    return [np.bincount(one, minlength=classes) for one in said]


@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (3, 2), (3, 3), (2, 5)])
def test_one_changed_vote_moves_the_largest_by_one_and_all_by_root_two(teachers, classes):
    largest, all_of_them = 0.0, 0.0
    for said in itertools.product(range(classes), repeat=teachers):
        for teacher, other in itertools.product(range(teachers), range(classes)):
            changed = list(said)
            changed[teacher] = other
            first, second = (np.bincount(one, minlength=classes) for one in (said, changed))
            largest = max(largest, abs(int(first.max()) - int(second.max())))
            all_of_them = max(all_of_them, float(np.linalg.norm(first - second)))
    assert largest == (1.0 if teachers > 1 else 0.0)
    assert all_of_them == pytest.approx(math.sqrt(2.0))


def laws(votes, model, threshold):
    """Probability of every sequence of results of two classes; votes: (Q, 2); a result is None, 0 or 1."""
    found = {(): (1.0, 0)}
    for v in votes:
        passes = norm.sf((threshold - max(v)) / model.test_noise)
        ones = norm.cdf((v[1] - v[0]) / (math.sqrt(2.0) * model.answer_noise))
        more = {}
        for results, (p, given) in found.items():
            if given == model.answers:
                more[*results, None] = (p, given)
                continue
            more[*results, None] = (p * (1.0 - passes), given)
            more[*results, 0] = (p * passes * (1.0 - ones), given + 1)
            more[*results, 1] = (p * passes * ones, given + 1)
        found = more
    return {results: p for results, (p, _) in found.items()}


def exact_delta(first, second, model, threshold, epsilon):
    p, q = laws(first, model, threshold), laws(second, model, threshold)
    return sum(max(0.0, p[results] - math.exp(epsilon) * q[results]) for results in p)


def neighbours(teachers, queries):
    """All pairs of votes (Q, 2) that differ in one teacher's, whatever she says to each query."""
    others = list(itertools.product(range(teachers), repeat=queries))  # ones among the other teachers
    for rest, own, new in itertools.product(others, *[list(itertools.product((0, 1), repeat=queries))] * 2):
        first, second = ([(teachers - r - b, r + b) for r, b in zip(rest, one, strict=True)] for one in (own, new))
        yield first, second


@pytest.mark.parametrize(("answers", "queries"), [(1, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize(("answer", "test"), [(0.7, 1.0), (2.0, 0.6)])
def test_all_results_of_tiny_cases_stay_below_the_bound(answers, queries, answer, test):
    model = Pate(answer, test, answers, queries)
    for epsilon in (0.0, 0.3, 1.0):
        upper = model.delta(epsilon).upper
        for threshold in (0.0, 1.5):
            worst = max(exact_delta(a, b, model, threshold, epsilon) for a, b in neighbours(2, queries))
            assert worst <= upper


def test_an_answer_attains_the_bound_and_refutes_a_smaller_sensitivity():
    """One teacher: her vote is another, the difference of both classes moves by 2 with noise of √2 σ₂."""
    model = Pate(1.3, 1e9, 1, 1)
    worst = exact_delta([(1, 0)], [(0, 1)], model, -1e12, 0.0)
    assert worst == pytest.approx(model.delta(0.0).upper, rel=1e-6)
    one = Pate(1.3 * math.sqrt(2.0), 1e9, 1, 1)  # planted: as if all votes together moved by 1
    assert worst > one.delta(0.0).upper * 1.2


def test_a_test_attains_the_bound_and_two_cost_more_than_one():
    model, votes = Pate(1e8, 0.8, 1, 1), ([(2, 0)], [(1, 1)])
    worst = exact_delta(*votes, model, 1.5, 0.0)
    assert worst == pytest.approx(model.delta(0.0).upper, rel=1e-6)
    assert worst > Pate(1e8, 1.6, 1, 1).delta(0.0).upper * 1.2  # planted: the largest number as if it moved by 1/2
    five = Pate(1e8, 0.8, 5, 5)
    together = exact_delta(*(vote * 5 for vote in votes), five, 1.5, 0.0)
    assert model.delta(0.0).upper < together <= five.delta(0.0).upper  # planted: five tests counted once


def test_answers_count_as_often_as_they_are_given():
    four, once = Pate(2.0, 1e9, 4, 4), Pate(2.0, 1e9, 1, 4)
    worst = exact_delta([(1, 0)] * 4, [(0, 1)] * 4, four, -1e12, 0.0)
    assert once.delta(0.0).upper < worst <= four.delta(0.0).upper  # planted: four answers counted once


def test_delta_is_that_of_the_gaussian_mechanism():
    model = Pate(20.0, 35.0, 30, 70)
    mu = math.sqrt(70 / 35.0**2 + 60 / 20.0**2)
    assert model.mu == pytest.approx(mu)
    for epsilon in (0.0, 0.5, 3.0):
        truth = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert truth <= model.delta(epsilon).upper <= truth * (1 + 1e-9) + 3e-12
    bound = model.epsilon(1e-5)
    assert model.delta(bound.epsilon_upper).upper <= 1e-5 < model.delta(bound.epsilon_upper - 1e-6).upper
    assert (bound.epsilon_lower, bound.observer, bound.adjacency) == (0.0, "learner", "label")
    assert {"disjoint-shards", "trusted-curator-votes"} <= set(bound.condition_ids)


@pytest.mark.parametrize(("epsilon", "test"), [(0.1, 2.0), (1.0, 0.5), (8.0, 10.0)])
def test_calibration_finds_the_smallest_of_three_digits(epsilon, test):
    sigma = calibrate_votes(epsilon, 1e-5, test, 40, 60)
    assert float(f"{sigma:.3g}") == sigma
    assert Pate(sigma, test * sigma, 40, 60).epsilon(1e-5).epsilon_upper <= epsilon
    less = sigma - 10.0 ** (math.floor(math.log10(sigma)) - 2)
    assert Pate(less, test * less, 40, 60).epsilon(1e-5).epsilon_upper > epsilon


def test_calibration_reaches_the_largest_noise():
    # the noise is multiplied by 4 up to 0.01 · 4^18 = 6.9e8, then the limit of 1e9 is tried
    epsilon = Pate(8e8, 8e8, 1, 1).epsilon(1e-12).epsilon_upper
    assert 0.01 * 4**18 < calibrate_votes(epsilon, 1e-12, 1.0, 1, 1) <= 8e8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pate(0.0, 1.0, 1, 1), "answer_noise = 0"),
        (lambda: Pate(1.0, math.nan, 1, 1), "test_noise = nan"),
        (lambda: Pate(1.0, 1.0, 2, 1), "answers = 2: must lie in 1..1"),
        (lambda: Pate(1.0, 1.0, 0, 1), "answers = 0"),
        (lambda: Pate(1.0, 1.0, 1, 0), "queries = 0"),
        (lambda: Pate(1.0, 1.0, 1, 1).delta(-1.0), "epsilon = -1"),
        (lambda: calibrate_votes(0.0, 1e-5, 1.0, 1, 1), "epsilon = 0"),
        (lambda: calibrate_votes(1e-12, 1e-12, 1.0, 1000, 1000), "needs noise of more than"),
    ],
)
def test_values_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def mechanism(sizes, classes=2, **settings):
    return PateConfig(**settings).deployed(Setup(sizes, classes, 1e-5))


def counts_are(counts, law, trials):
    """Whether every count of a result is one that a binomial law gives, two-sided, all results together."""
    share = FALSE_ALARM / (2 * len(law))
    return all(
        binom.ppf(share, trials, p) <= counts.get(results, 0) <= binom.isf(share, trials, p)
        for results, p in law.items()
    )


def test_what_is_sampled_has_the_law_that_is_enumerated():
    votes, trials = [(2, 1), (3, 0)], 20_000
    built = mechanism(
        np.array([10]), noise_multiplier=1.5, test_noise=0.5, teachers=3, queries=2, answers=1, threshold=0.8
    )
    assert built.accountant(built.setup, 10) == Pate(1.5, 0.75, 1, 2)
    rng, counts = Streams(1, 0).generator("test"), {}
    for _ in range(trials):
        results = tuple(None if c < 0 else int(c) for c in built.answered(np.array(votes), rng))
        counts[results] = counts.get(results, 0) + 1
    assert sum(counts.values()) == trials
    assert counts_are(counts, laws(votes, built.accountant(built.setup, 10), 2.4), trials)
    assert not counts_are(counts, laws(votes, Pate(0.75, 0.75, 1, 2), 2.4), trials)  # control: half the noise
    assert not counts_are(counts, laws(votes, Pate(1.5, 0.75, 2, 2), 2.4), trials)  # control: goes on after A answers


def population(users=60, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, users).astype(np.uint8)
    features = np.eye(3)[labels] + 0.1 * rng.normal(size=(users, 3))
    return Population(features, labels, np.array([0, users // 2, users]), 3)


def test_another_label_changes_one_vote_of_each_query():
    one = population()
    built = mechanism(one.cluster_sizes, 3, noise_multiplier=1.0, teachers=7, queries=9, answers=9)
    asked = np.arange(9)

    def votes(labels):
        inputs = teachers_inputs(one.features, one.cluster_sizes, True)
        return built.votes(labels, inputs, asked, Streams(3, 0).generator("shards"))

    first = votes(one.labels)
    assert (first.sum(axis=1) == 7).all()
    moved = 0
    for user in range(0, one.num_users, 5):
        labels = one.labels.copy()
        labels[user] = (labels[user] + 1) % 3
        change = np.abs(votes(labels) - first).sum(axis=1)
        assert change.max() <= 2
        moved += int(change.sum())
    assert moved > 0


def test_a_teacher_in_the_span_of_her_rows_is_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(5)
    inputs, asked = rng.normal(size=(12, 40)), rng.normal(size=(200, 40))
    labels = np.tile([0, 1, 2], 4).astype(np.uint8)
    plain = LogisticRegression(C=0.5, max_iter=1000).fit(inputs, labels).predict(asked)
    assert (taught(inputs, labels, asked, 2.0) == plain).mean() > 0.98
    assert (taught(inputs, np.full(12, 2, dtype=np.uint8), asked, 2.0) == 2).all()


def test_teachers_know_the_clusters_only_if_they_should():
    one = population()
    with_clusters, without = (teachers_inputs(one.features, one.cluster_sizes, c) for c in (True, False))
    assert with_clusters.shape == (60, 5)
    np.testing.assert_array_equal(with_clusters[:, :3], without)
    np.testing.assert_array_equal(with_clusters[:, 3:].argmax(axis=1), np.repeat([0, 1], 30))


def test_the_release_names_users_once_and_no_more_than_the_answers():
    one = population()
    built = mechanism(one.cluster_sizes, 3, noise_multiplier=0.05, teachers=5, queries=30, answers=12, threshold=0.3)
    release = built.run(one, NetworkConfig(), Streams(1, 0)).labels
    assert isinstance(release, LabelRelease)
    assert (len(release), release.kind) == (12, "hard")
    assert (np.diff(release.user) > 0).all()
    assert (release.payload == one.labels[release.user]).mean() > 0.9
    with pytest.raises(InputError, match="cannot be split"):
        built.release_on(None, one, part=(0, 1))


def scenario(**changes):
    tree = {"name": "s", "replicates": 1, "mechanism": {"kind": "pate", "target_epsilon": 4.0, **changes}}
    return Scenario.from_tree(tree)


def test_the_shipped_scenario_learns_from_a_few_answers(scenarios):
    chosen = p2p_sim.load_scenario(scenarios / "pate.toml")
    result = p2p_sim.run(chosen)
    row = result.row
    assert row["error_rate"] < 0.5
    assert 3.9 < row["epsilon_upper"] <= 4.0
    assert (row["trust"], row["threshold"]) == ("curator", 0.4)
    assert row["noise_multiplier"] == calibrate_votes(4.0, 1e-5, 2.0, 40, 60)
    assert 0 < row["submissions"] <= 40
    assert p2p_sim.run(chosen).row == row


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": 1.0}, "either noise_multiplier or target_epsilon"),
        ({"target_epsilon": None}, "either noise_multiplier or target_epsilon"),
        ({"answers": 101}, "answers = 101: must be at most queries = 100"),
        ({"teachers": 0}, "teachers = 0"),
        ({"threshold": 1.5}, "threshold = 1.5"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        scenario(**changes)


def test_too_few_users_are_refused():
    with pytest.raises(InputError, match=r"mechanism.teachers = 100: must be at most the number of users, 10"):
        mechanism(np.array([4, 6]), noise_multiplier=1.0)
    with pytest.raises(InputError, match=r"mechanism.queries = 100: must be at most the number of users, 10"):
        mechanism(np.array([4, 6]), noise_multiplier=1.0, teachers=2)
