"""Whoever could see a user's noisy label is named in the film: it is told from the record of the exchange."""

from dataclasses import replace

import numpy as np
import pytest

from p2p_sim.exchange.transcript import REPLY, SUBMISSION
from p2p_sim.film import film_html
from p2p_sim.replicate.observed_network import observe
from tests.film.test_film import data_of
from tests.replicate.test_observed_network import COALITION, NETWORKS, scenario

LATE = ("churn", "queue")
"""Networks with a deadline: some submissions come too late."""


@pytest.fixture(scope="module")
def found():
    kept = {}

    def get(network, users=90):
        users = {"walk": 30, "scale_free": 30}.get(network, users)  # theirs take longer to account for
        if (network, users) not in kept:
            kept[network, users] = observe(scenario(network, COALITION, users))
        return kept[network, users]

    return get


def rows(run, kind):
    """Delivered messages of a kind in order of time: when, from whom, to whom, label, late."""
    m = run.messages
    m = m.select(m.kind == kind)
    return zip(*(column.tolist() for column in (m.time_s, m.sender, m.receiver, m.label, m.late)), strict=True)


def plain(run):
    """Whose label stands in each submission that was delivered, by a walk through the transcript."""
    first = {}
    for _, sender, receiver, _, late in rows(run, REPLY):
        if not late:
            first.setdefault(receiver, sender)
    submitted = {sender for _, sender, _, _, _ in rows(run, SUBMISSION)}
    return {user: user if run.own[user] else first[user] for user in submitted}


def told(run):
    """Whose label stands in each submission that was delivered, as the run says."""
    return {int(user): int(run.source[user]) for user in np.flatnonzero(run.reached)}


def odd(run):
    """Users whose submission, when delivered, had another label than its owner had sent to them."""
    label = {(sender, receiver): label for _, sender, receiver, label, _ in rows(run, REPLY)}
    label |= {(user, user): label for _, user, _, label, _ in rows(run, SUBMISSION) if run.own[user]}
    return [user for _, user, _, held, _ in rows(run, SUBMISSION) if label.get((int(run.source[user]), user)) != held]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.slow_where(lambda network: network == "walk")
def test_whose_label_stands_in_a_submission_is_what_a_plain_walk_says(found, network):
    run = found(network)
    assert told(run) == plain(run)
    assert odd(run) == []
    moved = replace(run, source=(run.source + 1) % run.num_users)
    assert bool(told(moved) != plain(run)) == bool(odd(moved)) == bool(plain(run))  # the control
    assert set(np.flatnonzero(np.isfinite(run.submitted_s))) <= set(told(run))


def test_who_asks_everybody_submits_the_label_that_she_asked_for_as_a_user():
    """Her many probes are answered too; a submission's label is that of its source all the same."""
    run = observe(scenario("complete", {"sybil": {"share": 0.2, "probe_every_s": 0.001}}, 60, seed=1))
    assert odd(run) == []
    assert told(run) != plain(run)  # the first answer that such a user gets may be one to a probe


def misses(run, page):
    """Users of whose label the page says less than the learner saw, or more."""
    users = data_of(page)["users"]
    carried = {user: set(carriers) for user, carriers in zip(users["id"], users["carried"], strict=True)}
    expected = {user: set() for user in users["id"]}
    for carrier, owner in plain(run).items():
        if owner in expected:
            expected[owner].add(carrier)
    return [user for user, carriers in expected.items() if carriers != carried[user]]


@pytest.mark.parametrize("network", LATE)
def test_a_submission_that_came_too_late_was_seen_as_well(found, network):
    run = found(network)
    taken = np.isfinite(run.submitted_s)
    assert (run.reached & ~taken).any()
    assert misses(run, film_html(run)) == []
    users = data_of(film_html(run))["users"]
    assert {late for dropped in users["dropped"] for late in dropped} == set(np.flatnonzero(run.reached & ~taken))
    assert misses(run, film_html(replace(run, reached=taken))) != []  # the control: only what the learner took


def test_in_a_sample_everybody_is_named_and_hidden_members_count(found):
    run = found("complete", 700)
    page = film_html(run)
    assert misses(run, page) == []
    users = data_of(page)["users"]
    assert 0 < len(users["id"]) < 700
    got = {user: set() for user in users["id"]}
    for _, sender, receiver, _, _ in rows(run, REPLY):
        if sender in got and sender != receiver:
            got[sender].add(receiver)
    assert [set(others) for others in users["received"]] == list(got.values())
    assert users["held"] == [int(run.member[[*others]].any()) for others in got.values()]
