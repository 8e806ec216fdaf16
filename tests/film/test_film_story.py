"""The opening of the film, and what it says the learner learned."""

import itertools
import re

import numpy as np
import pytest

from p2p_sim.exchange.transcript import REPLY
from p2p_sim.film import film_html, film_of
from p2p_sim.film.story import learned_of, peers_of, posterior_of, protagonist, story_of
from p2p_sim.privacy import LabelExchange, advantage
from p2p_sim.replicate.observed_network import observe
from p2p_sim.scenario import Scenario
from tests.film.test_film import data_of
from tests.reference.enumeration import NOTHING, law, views
from tests.replicate.test_observed_network import COALITION, NETWORKS, scenario

CIRCLE = {"kind": "circle", "users": 60, "num_classes": 4, "holdout": 10}
"""A population with four labels."""


def enumerated(others, alpha, theta):
    """By submissions and ones: the two laws of the view, by the target's label."""
    table = {}
    for label in (0, 1):
        for view, mass in zip(views(len(others) + 1), law((label, *others), alpha, theta), strict=True):
            seen = [bit for bit in view if bit != NOTHING]
            table.setdefault((len(seen), sum(seen)), [0.0, 0.0])[label] += mass
    return {view: masses for view, masses in table.items() if sum(masses) > 0.0}


def misses(table, posterior):
    """How far a posterior is from that of the enumeration, at most."""
    return max(abs(posterior(t, k) - one / (zero + one)) for (t, k), (zero, one) in table.items())


@pytest.mark.parametrize("others", list(itertools.product((0, 1), repeat=2)))
@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 0.5), (0.3, 1.0)])
def test_the_posterior_is_that_of_every_flip_choice_and_coin(others, alpha, theta):
    table, model, ones = enumerated(others, alpha, theta), LabelExchange(3, alpha, theta), sum(others)
    assert misses(table, lambda t, k: posterior_of(model, ones, t, k)) < 1e-12
    # controls: one of the others more, and peers among the others alone
    assert misses(table, lambda t, k: posterior_of(LabelExchange(4, alpha, theta), ones, t, k)) > 1e-3
    assert misses(table, lambda t, k: posterior_of(LabelExchange(2, alpha, theta), min(ones, 1), t, k)) > 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_over_views_is_the_advantage_for_these_labels_and_at_most_the_printed_one(seed):
    run = observe(scenario("complete", None, 3, seed=seed).replace(**{"population.num_clusters": 1}))
    for user in range(3):
        learned, others = learned_of(run, user), tuple(np.delete(run.labels.true, user).tolist())
        table = enumerated(others, 0.3, 0.6)
        mean = sum(abs(one / (zero + one) - 0.5) * (zero + one) / 2.0 for zero, one in table.values())
        assert mean <= learned.advantage <= mean * (1.0 + 1e-9)
        zero, one = table[learned.submissions, learned.ones]
        assert learned.posterior == pytest.approx(one / (zero + one), rel=1e-12)
        assert learned.printed == advantage(LabelExchange(3, 0.3, 0.6)).upper
        assert learned.advantage <= learned.printed * (1.0 + 1e-9)


def test_in_a_larger_cluster_too_no_labels_of_the_others_give_more_than_is_printed():
    run = observe(scenario("complete", None, 90))
    for user in (0, 40, 89):
        learned = learned_of(run, user)
        assert 0.0 < learned.advantage <= learned.printed * (1.0 + 1e-9)
        assert learned.submissions == run.submissions[run.cluster(user)]


@pytest.mark.parametrize("network", sorted(set(NETWORKS) - {"complete"}))
def test_where_the_law_is_not_exact_the_end_says_only_what_epsilon_says(network):
    run = observe(scenario(network, None, 30))
    film = film_of(run)
    story = story_of(film)
    assert learned_of(run, protagonist(film)) is None
    assert story.stage["beliefs"] == []
    assert "probability <b>" not in str(story.learned)
    assert "her odds change by at most" in str(story.learned) or "no finite ε" in str(story.learned)


@pytest.mark.parametrize(
    "change",
    [
        {"adversaries.coalition.share": 0.2},
        {"mechanism.flip_prob": 0.0},
        {"population": CIRCLE},
    ],
)
def test_nor_with_a_coalition_without_noise_or_with_three_classes(change):
    small = scenario("complete", None, 30)
    run = observe(scenario("complete", **change) if "population" in change else small.replace(**change))
    assert learned_of(run, 0) is None
    assert learned_of(observe(small), 0) is not None  # the control


def test_the_stated_odds_are_the_runs_rounded_up():
    run = observe(scenario("lossy", None, 90))
    text = str(story_of(film_of(run)).learned[0])
    assert f"δ = {run.delta:g}" in text
    stated = float(re.search(r"</sup> = ([\d.]+)", text)[1].rstrip("."))
    assert np.exp(run.statement.epsilon_upper) <= stated <= 1.001 * np.exp(run.statement.epsilon_upper)


def test_noisy_labels_are_those_that_were_sent():
    run = observe(scenario("lossy", None, 90))
    replies = run.messages.select(run.messages.kind == REPLY)
    assert np.array_equal(replies.label, run.labels.noisy[replies.sender])
    assert not np.array_equal(replies.label, run.labels.true[replies.sender])  # the control


def test_the_opening_tells_what_happened():
    run = observe(scenario("complete", None, 90))
    film = film_of(run)
    user, story = protagonist(film), story_of(film)
    peer = int(peers_of(run)[user])
    assert film.users[story.stage["place"]] == user != peer
    assert np.isfinite(run.submitted_s[user])
    assert run.source[user] == peer
    assert run.labels.noisy[user] != run.labels.true[user]  # her label is flipped
    assert [step.scene for step in story.steps] == [
        *("label", "alpha", "asks", "reply", "theta", "submits", "hers", "crowd", "learned")
    ]
    assert 18_000 < sum(step.length_ms for step in story.steps) < 30_000
    names = ["square", "triangle"]
    captions = {step.scene: str(step.caption) for step in story.steps}
    assert names[run.labels.true[user]] in captions["label"]
    assert names[run.labels.noisy[user]] in captions["alpha"]
    assert "It does." in captions["alpha"]
    assert names[run.labels.noisy[peer]] in captions["reply"]
    assert "She does; else she sends nothing." in captions["theta"]


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ({"loss": 0.999}, "no reply comes: she has nothing to pass on"),
        ({"loss": 0.9, "request_timeout_s": 0.3, "on_timeout": {"fallback": "own_label"}}, "her own noisy label"),
        (NETWORKS["alone"], "asks nobody"),
    ],
)
def test_the_opening_is_honest_where_nothing_comes(network, text):
    tree = scenario("complete", None, 12).model_dump(mode="json")
    run = observe(Scenario.from_tree({**tree, "network": {"start_window_s": 1.0, **network}}))
    assert text in film_html(run)


@pytest.mark.parametrize("randomizer", [None, {"kind": "vector_approximation", "epsilon": 2.0}])
def test_more_labels_have_other_shapes_and_messages_that_carry_more_have_their_own(randomizer):
    mechanism = {"flip_prob": 0.3} if randomizer is None else {"randomizer": randomizer}
    mechanism, learner = {**mechanism, "sampling_rate": 0.6}, {"kind": "knn"}
    run = observe(scenario("complete", population=CIRCLE, mechanism=mechanism, learner=learner))
    page = film_html(run)
    held = set(data_of(page)["users"]["got"])
    assert held == ({0, 1, 2, 3} if randomizer is None else {-1})
    assert ("star" in page, "a noisy message" in page) == (True, randomizer is not None)


def test_a_sample_says_which_cluster_of_how_many_it_shows():
    page = film_html(observe(scenario("lossy", COALITION, 400)))
    assert re.search(r"the picture shows \d+ of 400 users \(\d of 3 clusters", page)
