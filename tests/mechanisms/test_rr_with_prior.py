"""RRWithPrior and its stages. Statistical tests have a false-alarm rate of 1e-9 and a control that must fail."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import chi2

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.rr_with_prior import RRWithPrior, RRWithPriorConfig
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy.randomized_response import law_delta, law_epsilon
from p2p_sim.privacy.rivals.rr_with_prior import best_candidates, top_k_law
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange, prepare, run
from p2p_sim.scenario import Scenario
from p2p_sim.tuning.goal import Goal
from p2p_sim.tuning.run_search import make_tuning
from p2p_sim.tuning.search_space import Dimension, Space

FALSE_ALARM = 1e-9


def priors(k: int) -> list[np.ndarray]:
    rng = np.random.default_rng(k)
    return [np.full(k, 1 / k), np.eye(k)[0], *(rng.dirichlet(np.full(k, a)) for a in (0.1, 0.5, 1.0, 5.0))]


# -- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 4, 6])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_every_top_k_costs_epsilon_or_nothing(k, epsilon):
    for prior in priors(k):
        for candidates in range(1, k + 1):
            law = top_k_law(prior, candidates, epsilon)
            assert law_epsilon(law) == pytest.approx(epsilon if candidates > 1 else 0.0, abs=1e-12)


@pytest.mark.parametrize("k", [2, 3, 5, 6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_number_of_candidates_keeps_the_label_most_often(k, epsilon):
    for prior in priors(k):
        kept = [float(prior @ np.diag(top_k_law(prior, candidates, epsilon))) for candidates in range(1, k + 1)]
        chosen = int(best_candidates(prior, epsilon))
        assert kept[chosen - 1] == pytest.approx(max(kept), rel=1e-12)
    assert np.array_equal(
        best_candidates(np.stack(priors(k)), epsilon), [best_candidates(p, epsilon) for p in priors(k)]
    )


@pytest.mark.parametrize("k", [2, 3, 4])
def test_no_private_channel_keeps_the_label_more_often(k):
    """Ghazi et al., Theorem 3: a linear programme over all ε-private K × K channels finds nothing better."""
    epsilon = 0.8
    for prior in priors(k):
        ratios = []
        for out in range(k):
            for one in range(k):
                for other in set(range(k)) - {one}:
                    row = np.zeros((k, k))
                    row[one, out], row[other, out] = 1.0, -math.exp(epsilon)
                    ratios.append(row.ravel())
        sums = [np.kron(np.eye(k)[label], np.ones(k)) for label in range(k)]
        best = linprog(-np.diag(prior).ravel(), np.array(ratios), np.zeros(len(ratios)), np.array(sums), np.ones(k))
        law = top_k_law(prior, int(best_candidates(prior, epsilon)), epsilon)
        assert float(prior @ np.diag(law)) == pytest.approx(-best.fun, abs=1e-9)


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match=r"candidates = 4: must lie in 1\.\.3"):
        top_k_law(np.full(3, 1 / 3), 4, 1.0)


# -- the sampler -----------------------------------------------------------------------------------------------------


def p_value(noisy: np.ndarray, labels: np.ndarray, law: np.ndarray) -> float:
    k = len(law)
    counts = np.bincount(labels * k + noisy, minlength=k * k)
    expected = (law * np.bincount(labels, minlength=k)[:, None]).ravel()
    if counts[expected == 0].any():
        return 0.0
    counts, expected = counts[expected > 0], expected[expected > 0]
    assert expected.min() >= 20
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), max(1, expected.size - k)))


@pytest.mark.parametrize("prior", [(0.05, 0.4, 0.1, 0.45), (0.2, 0.5, 0.2, 0.1), (0.25, 0.25, 0.25, 0.25)])
def test_the_sampler_follows_the_law(prior):
    """Detects labels outside the candidates, a wrong rank, or α 5% too small; the controls: one candidate more or less,
    and a little less noise."""
    labels = np.random.default_rng(1).integers(0, 4, 200_000).astype(np.uint8)
    noise = RRWithPrior(1.0, 4, prior)
    noisy = noise.randomize(labels, Streams(1, 0).generator("flip"))
    k = noise.candidates
    assert k == (2, 3, 4)[[0.05, 0.2, 0.25].index(prior[0])]
    assert p_value(noisy, labels, top_k_law(np.array(prior), k, 1.0)) > FALSE_ALARM
    assert p_value(noisy, labels, top_k_law(np.array(prior), 2 if k == 3 else 3, 1.0)) < FALSE_ALARM
    assert p_value(noisy, labels, top_k_law(np.array(prior), k, 1.1)) < FALSE_ALARM
    assert noise.local_epsilon <= 1.0
    assert noise.local_epsilon == pytest.approx(1.0, abs=1e-12)


def test_each_user_has_her_own_prior():
    labels = np.random.default_rng(1).integers(0, 3, 90_000).astype(np.uint8)
    both = np.array([[0.8, 0.1, 0.1], [0.1, 0.45, 0.45]])
    mine = np.arange(labels.size) % 2
    noisy = RRWithPrior(1.0, 3).with_priors(labels, both[mine], Streams(1, 0).generator("flip"))
    for i, candidates in ((0, 1), (1, 2)):
        part = mine == i
        assert int(best_candidates(both[i], 1.0)) == candidates
        assert p_value(noisy[part], labels[part], top_k_law(both[i], candidates, 1.0)) > FALSE_ALARM
        assert p_value(noisy[part], labels[part], top_k_law(both[1 - i], 3 - candidates, 1.0)) < FALSE_ALARM


def test_a_certain_prior_releases_nothing_of_the_label():
    noise = RRWithPrior(1.0, 3, (0.0, 1.0, 0.0))
    assert noise.local_epsilon == 0.0
    labels = np.array([0, 1, 2], np.uint8)
    assert noise.randomize(labels, np.random.default_rng(0)).tolist() == [1, 1, 1]
    assert noise.randomize(labels[:0], np.random.default_rng(0)).size == 0


# -- two stages ------------------------------------------------------------------------------------------------------


def population(clusters: int = 3, size: int = 400) -> Population:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, clusters * size).astype(np.uint8)
    features = labels[:, None] + rng.normal(size=(labels.size, 2)) * 0.3
    return Population(features, labels, np.arange(0, labels.size + 1, size), 4)


def two_stages(users: Population) -> RRWithPriorConfig:
    return RRWithPriorConfig(target_epsilon=1.0, neighbours=20).deployed(Setup(users.cluster_sizes, 4, 1e-5))


def released(users: Population, part: tuple[int, int] | None = None) -> np.ndarray:
    mechanism = two_stages(users)
    streams = Streams(1, 0)
    return mechanism.release_on(Network.open(NetworkConfig(), users, streams), users, part=part).labels.payload


def test_nobody_learns_from_the_second_half_and_a_label_moves_only_what_it_may():
    """What makes ε hold in parallel: a second-half label changes its owner's release alone; of the first half, all that
    a label changes comes through its owner's noisy label."""
    users = population()
    before, ripples = released(users), []
    for user in range(0, 1200, 60):
        labels = users.labels.copy()
        labels[user] = (labels[user] + 1) % 4
        changed = np.flatnonzero(released(replace(users, labels=labels)) != before)
        if user not in changed:
            assert changed.size == 0
        ripples.append(np.setdiff1d(changed, [user]).size)
    assert ripples.count(0) >= 5
    assert max(ripples) > 0  # the first half's noisy labels do reach the second half's priors


def test_parts_are_pieces_of_the_whole():
    users = population(3, 40_000)
    whole = released(users)
    assert np.array_equal(np.concatenate([released(users, (0, 1)), released(users, (1, 3))]), whole)
    assert released(users, (1, 1)).size == 0


def test_neighbours_make_the_second_half_keep_its_labels_more_often():
    """Kept without a prior: e/(e+3) = 0.475; the second half, about half of all, keeps more."""
    users = population()
    assert np.mean(released(users) == users.labels) > 0.54
    assert np.all(np.bincount(released(replace(users, labels=np.zeros(1200, np.uint8))), minlength=4) > 0)


def test_two_users_may_all_go_second():
    tiny = Population(np.zeros((2, 1)), np.zeros(2, np.uint8), np.array([0, 2]), 4)
    for seed in range(8):
        streams = Streams(seed, 0)
        mechanism = two_stages(tiny)
        release = mechanism.release_on(Network.open(NetworkConfig(), tiny, streams), tiny).labels
        assert len(release) == 2
        assert np.all(release.payload < 4)


def test_the_accountant_of_two_stages_holds_for_every_prior():
    """Under this common prior a message is constant, under a prior of the second stage it is not (the control)."""
    setup = Setup(np.array([100]), 3, 1e-5)
    mechanism = RRWithPriorConfig(target_epsilon=1.0, prior=(0.98, 0.01, 0.01)).deployed(setup)
    noise, pair = mechanism.randomizer(setup), np.array([True, True, False])
    for epsilon in (0.0, 0.5, 0.9, 1.0, 2.0):
        laws = [noise.transition_among(among) for among in (*noise.likeliest(np.array(priors(3))), pair)]
        stated = mechanism.accountant(setup, 100).delta(epsilon).upper
        assert max(law_delta(law, epsilon) for law in laws) <= stated + 1e-15
    assert noise.alone(0.5).upper == 0.0 < law_delta(noise.transition_among(pair), 0.5)


# -- in a scenario ---------------------------------------------------------------------------------------------------


def scenario(**mechanism: object) -> Scenario:
    return Scenario.from_tree({
        "name": "stages", "engine": "vectorised",
        "population": {"kind": "circle", "num_classes": 6, "users": 1500, "holdout": 500},
        "mechanism": {"kind": "rr_with_prior", "target_epsilon": 1.5, **mechanism}, "learner": {"kind": "knn"},
    })  # fmt: skip


@pytest.mark.parametrize("stages", [1, 2])
def test_a_scenario_releases_hard_labels(stages):
    row = run(scenario(stages=stages)).row
    assert row["epsilon_upper"] <= 1.5
    assert row["stages"] == stages
    law = top_k_law(np.full(6, 1 / 6), 6, 1.5)
    assert law_delta(law, row["epsilon_lower"] * (1 - 1e-9)) > row["delta"]
    assert law_delta(law, row["epsilon_lower"] * (1 + 1e-9)) < row["delta"]


def test_one_stage_without_a_prior_is_randomised_response_in_law():
    done = exchange(Replicate(scenario(stages=1)))
    labels, noisy = done.population.labels.astype(int), done.outcome.labels.payload.astype(int)
    own = np.bincount((noisy - labels) % 6, minlength=6)
    expected = top_k_law(np.full(6, 1 / 6), 6, 1.5)[0] * 1500
    assert chi2.sf(np.sum((own - expected) ** 2 / expected), 5) > FALSE_ALARM
    assert chi2.sf(np.sum((np.roll(own, 1) - expected) ** 2 / expected), 5) < FALSE_ALARM


@pytest.mark.parametrize(
    ("prior", "message"),
    [((0.5, 0.5), "2 probabilities are given for 6 classes"), ((0.5,) * 6, "must be probabilities that sum to 1"),
     ((1.5, -0.5, 0.0, 0.0, 0.0, 0.0), "must be probabilities that sum to 1")],
)  # fmt: skip
def test_a_prior_that_is_none_is_refused(prior, message):
    with pytest.raises(InputError, match=message):
        run(scenario(prior=list(prior)))


@pytest.mark.parametrize(
    ("learner", "own", "expected"),
    [
        ({"kind": "knn", "neighbours": 100}, None, 100),
        ({"kind": "knn"}, None, 200),
        ({"kind": "knn", "neighbours": 100}, 40, 40),
        ({"kind": "logistic_regression"}, None, 200),
    ],
)
def test_as_many_neighbours_make_a_prior_as_the_learner_has(learner, own, expected):
    given = {} if own is None else {"neighbours": own}
    mechanism = scenario(**given).mechanism.model_dump(mode="json")
    chosen = scenario().replace(mechanism=mechanism, learner=learner)
    assert prepare(Replicate(chosen)).mechanism.neighbours == expected
    settled = chosen.replace(**{"mechanism.neighbours": expected})  # the same release is the same scenario
    assert chosen.content_hash() == settled.content_hash()
    assert chosen.content_hash() != chosen.replace(**{"mechanism.neighbours": expected + 1}).content_hash()


def test_neighbours_follow_the_learner_along_an_axis_but_not_among_trials_on_one_release():
    """Another number of neighbours is another release: no search may look at several for the ε of one."""
    along = [scenario().replace(**{"learner.neighbours": k}) for k in (50, 100)]
    assert [prepare(Replicate(one)).mechanism.neighbours for one in along] == [50, 100]
    space = Space((Dimension("learner.neighbours", values=(50, 100)),))
    base = make_tuning(scenario(), Goal("accuracy", epsilon=1.5), space, "released").base
    one, other = (exchange(Replicate(base.replace(**{"learner.neighbours": k}))).outcome.labels for k in (50, 100))
    assert np.array_equal(one.payload, other.payload)
    one, other = (exchange(Replicate(chosen)).outcome.labels for chosen in along)  # control: these are two releases
    assert not np.array_equal(one.payload, other.payload)
