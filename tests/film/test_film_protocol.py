"""The film of a protocol of one's own says what was sent, and nothing of whose label a message carries."""

import re

import numpy as np
import pytest

import p2p_sim
from p2p_sim.exchange.transcript import REPLY, REQUEST, SUBMISSION
from p2p_sim.film import film_html, film_of
from p2p_sim.film.film_record import LATE
from p2p_sim.film.story import story_of
from p2p_sim.privacy.randomized_response import local_epsilon
from p2p_sim.replicate.observed_network import observe
from tests.browser import violations
from tests.conftest import ROOT
from tests.film.test_film import data_of
from tests.mechanisms.test_protocols import RETRIES, mine
from tests.plug_ins import EXAMPLE

ANY_LABEL = "me.submit(1 - me.noisy_label); me.submit(me.noisy_label)"
UNASKED = "me.send(me.random_peer(), 1); me.submit(1 - me.noisy_label)"


def first_labels(run, kind, end):
    """The label that came first to the learner from each user, or to each user from others, by a plain walk."""
    first = {}
    m = run.messages.select((run.messages.kind == kind) & ~run.messages.late)
    for user, label in zip(getattr(m, end).tolist(), m.label.tolist(), strict=True):
        first.setdefault(user, label)
    return [first.get(user, -1) for user in range(run.num_users)]


def test_the_label_that_the_learner_took_is_the_one_that_came_first(folder):
    run = observe(mine(folder, ANY_LABEL).replace(**{"network.loss": 0.2}))
    data = data_of(film_html(run))
    gave, own = data["users"]["gave"], run.labels.noisy
    assert gave == first_labels(run, SUBMISSION, "sender")
    hers = np.count_nonzero(np.array(gave) == own)
    assert 0 < hers < run.submissions.sum() < run.num_users  # the control: her own label would be another one
    assert set(data["users"]["submits"]) == {-1}
    assert not any(data["users"]["carried"])
    m = {name: np.array(column) for name, column in data["messages"].items()}
    assert np.count_nonzero(m["how"] == LATE) == run.counts["messages_delivered"] - run.submissions.sum() > 0
    assert np.array_equal(m["label"] < 0, m["how"] == 0)  # what was lost may have carried any label


def test_the_first_reply_is_what_a_user_of_the_example_got(installed):
    run = observe(p2p_sim.load_scenario(EXAMPLE / "second_opinion.toml"))
    users = data_of(film_html(run))["users"]
    expected = {"got": first_labels(run, REPLY, "receiver"), "gave": first_labels(run, SUBMISSION, "sender")}
    for name, labels in expected.items():
        assert users[name] == [labels[user] for user in users["id"]]
        assert {0, 1} <= set(users[name])
    taken = np.array(users["gave"]) >= 0
    assert np.array_equal(np.array(users["gave"])[taken], np.array(users["got"])[taken])  # both peers must agree


def test_attempts_are_those_of_a_question_whatever_peers_were_drawn_before(folder):
    run = observe(mine(folder, "me.random_peer(); yield me.ask(); me.random_peer(); yield me.ask()").replace(**RETRIES))
    film, sent = film_of(run), run.trace.sent
    asked = np.bincount(sent.attempt[sent.kind == REQUEST], minlength=3)
    assert asked[0] == 2 * run.num_users  # two questions each
    assert asked[1] + asked[2] == film.run["retries"] == run.counts["retries"] > asked[1] > asked[2] > 0


def test_the_opening_tells_the_noise_and_the_end_what_a_noisy_label_tells(installed):
    story = story_of(film_of(observe(p2p_sim.load_scenario(EXAMPLE / "second_opinion.toml"))))
    assert [step.scene for step in story.steps] == ["label", "alpha", "crowd", "learned"]
    assert "up to their protocol" in str(story.steps[2].caption)
    stated = re.search(r"e<sup>ε₀</sup> = ([\d.]+)\. Here ε₀ = ([\d.]+) ", str(story.learned[0]))
    assert 0.0 <= float(stated[2]) - local_epsilon(0.2) < 1e-3
    assert 0.0 <= float(stated[1]) - np.exp(local_epsilon(0.2)) < 2e-3


PUSH = ROOT / "scenarios" / "protocols" / "push.toml"
ASKING = ROOT / "scenarios" / "ask-three.toml"
LOST = ("network.loss=0.1", "network.request_timeout_s=0.3")


@pytest.mark.parametrize("path", [PUSH, ASKING])
def test_what_is_declared_or_proved_of_the_learner_is_shown_for_each_cluster_and_epsilon_0_beside_it(path):
    scenario = p2p_sim.load_scenario(path)
    run, row = observe(scenario), p2p_sim.run(scenario).row
    assert run.statement.epsilon_upper == row["epsilon_upper"] < run.epsilon_local
    by_cluster = run.epsilon[run.cluster_offsets[:-1]]
    assert np.array_equal(run.epsilon, np.repeat(by_cluster, run.cluster_sizes))
    assert run.cluster(run.worst) == np.argmax(by_cluster)
    assert len(set(by_cluster)) > 1
    [text] = map(str, story_of(film_of(run)).learned)
    stated = re.search(r"Here ε = ([\d.]+) is the worst cluster’s.* only ε₀ = ([\d.]+) ", text)
    assert 0.0 <= float(stated[1]) - row["epsilon_upper"] < 1e-3
    assert 0.0 <= float(stated[2]) - run.epsilon_local < 1e-3


@pytest.mark.parametrize("path", [PUSH, ASKING])
def test_where_replies_or_messages_are_lost_only_epsilon_0_is_shown(path):
    """Control of the figure above: it is not shown of a network of which it is not proved."""
    run = observe(p2p_sim.load_scenario(path, LOST))
    assert set(run.epsilon) == {run.epsilon_local}
    assert "e<sup>ε₀</sup>" in str(story_of(film_of(run)).learned[0])


def test_a_user_who_asks_three_submits_what_most_of_them_replied():
    run = observe(p2p_sim.load_scenario(ASKING))
    m = run.messages
    replies, submissions = m.select(m.kind == REPLY), m.select(m.kind == SUBMISSION)
    ones = np.bincount(replies.receiver, weights=replies.label, minlength=run.num_users)
    assert set(np.bincount(replies.receiver, minlength=run.num_users)) == {3}
    assert np.array_equal(submissions.label, ones[submissions.sender] >= 2)
    users = data_of(film_html(run))["users"]
    gave, first = np.array(users["gave"]), np.array(first_labels(run, REPLY, "receiver"))[users["id"]]
    assert np.array_equal(gave[gave >= 0], (ones[users["id"]] >= 2)[gave >= 0])
    assert not np.array_equal(gave[gave >= 0], first[gave >= 0])  # the control: the first reply is another label


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the film of a run; at the end nothing has gone wrong on the page."""
    page, faults = browser.new_page(reduced_motion="reduce"), []
    page.on("pageerror", lambda error: faults.append(str(error)))

    def get(run):
        (tmp_path / "film.html").write_text(film_html(run))
        page.goto((tmp_path / "film.html").as_uri())
        return page

    yield get
    assert faults == []
    page.close()


CLAIM = re.compile(r"her (own )?noisy label|noisy label of|submission of user")
"""What is known in the label exchange alone."""


def said(page):
    """What the page says of every user: what happened, who could see what, and the key of each view."""
    texts = page.evaluate(
        "film.users.id.flatMap((_, user) => [...logOf(user).map(([, text]) => text), ...watched(user)])"
    )
    return texts + page.evaluate("Object.values(KEYS).flatMap((lines) => lines.map(([, text]) => text))")


@pytest.mark.slow
def test_what_is_sent_unasked_is_no_retry_and_no_label_is_said_to_be_hers(opened, folder):
    run = observe(mine(folder, UNASKED))
    page = opened(run)
    texts = said(page)
    assert sum("sends a message to" in text for text in texts) == run.num_users
    assert sum("submits a label" in text for text in texts) == run.num_users
    assert not any("asks" in text or "retry" in text or CLAIM.search(text) for text in texts)
    page.evaluate("jump(END)")
    assert page.inner_text("#caption").startswith("What did the learner learn of Ada? Only this: her odds change")
    basket = [int(page.text_content(f"#basket text >> nth={label}")) for label in (0, 1)]
    assert basket == np.bincount(1 - run.labels.noisy, minlength=2).tolist()
    assert basket != np.bincount(run.labels.noisy, minlength=2).tolist()
    page.evaluate("film.protocol = null")  # the control: the words of the label exchange would be untrue
    assert any(CLAIM.search(text) for text in said(page))


@pytest.mark.slow
def test_the_film_of_the_example_plays_and_counts_on_the_page_are_the_runs(opened, installed):
    run = observe(p2p_sim.load_scenario(EXAMPLE / "second_opinion.toml").replace(**RETRIES))
    page, film = opened(run), film_of(run)
    assert not any(CLAIM.search(text) for text in said(page))
    page.evaluate("jump(OPENING - 1)")
    assert "Coin α" in page.inner_text("#caption")
    assert page.get_attribute("#story-learner", "opacity") == "0"
    page.evaluate("jump(clockAt(0.3 * film.end))")
    assert "the learner took one" in page.inner_text("#caption")
    page.evaluate("jump(END)")
    for name, number in film.run.items():
        assert page.inner_text(f"#now-{name}") == page.inner_text(f"#run-{name}") == f"{number:,}"
    assert film.run["unanswered"] > 0 < film.run["retries"]
    assert violations(page) == []
    page.evaluate("film.timeline.unanswered.fill(0); jump(END)")  # the control
    assert page.inner_text("#now-unanswered") == "0" != page.inner_text("#run-unanswered")
