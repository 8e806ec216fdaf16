"""What holds on every network: nothing is lost from the books, nobody's true label is said, faults touch their own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.adversaries import AdversariesConfig, CoalitionConfig, Liars
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.exchange.processes import ProcessExchange
from p2p_sim.exchange.transcript import REPLY, SUBMISSION, Messages
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.availability import OnOff
from p2p_sim.network.faults import InTransit
from p2p_sim.network.latency import Constant, Exponential, departures
from p2p_sim.network.network_config import NetworkConfig, OnTimeout
from p2p_sim.network.overlay import GeometricOverlay
from p2p_sim.population.population import Population
from tests.planted import Truthful
from tests.small_networks import Case, adversaries, cases, networks

TRUTH = 2
"""Everybody's true label where three classes are."""


def changed(case: Case, **config) -> Case:
    return replace(case, config=NetworkConfig(**{**dict(case.config), **config}))


def finished(case: Case) -> ShardExchange:
    exchange = case.exchange()
    exchange.run()
    return exchange


# -- the books balance -----------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(case=cases)
def test_every_request_and_every_message_ends_exactly_once(case):
    exchange = case.exchange(record=False)
    t = exchange.run()
    assert t.fetches == t.answered + t.expired + t.failed
    assert t.messages_sent + t.messages_duplicated == t.messages_delivered + t.messages_lost + t.messages_undelivered
    assert t.protocol_events == np.isfinite(exchange.journey.start).sum() + t.messages_delivered + t.expired
    assert t.fallbacks == np.count_nonzero(exchange.fallback)
    assert t.failed == 0 or case.config.request_timeout_s is None


def test_who_passes_on_her_own_label_is_counted():
    case = Case(NetworkConfig(loss=0.5, request_timeout_s=1.0, on_timeout=OnTimeout(fallback="own_label")), (60,))
    exchange = case.exchange(record=False)
    assert exchange.run().fallbacks == np.count_nonzero(exchange.fallback) > 10


def outcomes_of(exchange: ProcessExchange) -> dict[tuple[int, int], str]:
    """What became of each request, by user and attempt."""
    found = {}
    for question in exchange.questions:
        reply = question.reply
        outcome = "failed" if not reply.triggered else "expired" if reply.value is None else "answered"
        found[question.user, question.attempt] = outcome
    return found


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_requests_follow_each_other_and_at_most_one_of_a_user_is_answered(case):
    outcomes = outcomes_of(case.lived())
    for (user, attempt), outcome in outcomes.items():
        assert attempt < case.config.on_timeout.attempts
        assert attempt == 0 or outcomes[user, attempt - 1] == "expired"
        assert outcome != "failed" or case.config.request_timeout_s is None
    answered = [user for (user, _), outcome in outcomes.items() if outcome == "answered"]
    assert len(answered) == len(set(answered))


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_a_user_submits_at_most_one_label_and_always_answers_the_same(case):
    exchange = finished(case)
    received = exchange.submissions()
    users = received.user
    assert np.all(np.diff(users) > 0)
    assert np.array_equal(received.label, case.payload[exchange.source[users - case.shard.start]])
    seen = exchange.messages()
    for kind in (REPLY, SUBMISSION):
        assert says_one_thing(seen.select(seen.kind == kind))
    answers = seen.select(seen.kind == REPLY)
    assert np.array_equal(answers.label, case.payload[answers.sender - case.shard.start])


def says_one_thing(messages: Messages) -> bool:
    """Whether all messages of a sender carry the same label."""
    said = {(int(sender), int(label)) for sender, label in zip(messages.sender, messages.label, strict=True)}
    return len(said) == len({sender for sender, _ in said})


def test_fresh_noise_for_every_answer_would_be_seen(monkeypatch):
    """Control of the test above: replies whose labels are drawn anew."""
    case = Case(NetworkConfig(), (50,))
    rng, delivered = np.random.default_rng(1), finished(case).messages()
    fresh = replace(delivered, label=rng.integers(0, 2, len(delivered)).astype(np.int16))
    assert says_one_thing(delivered.select(delivered.kind == REPLY))
    assert not says_one_thing(fresh.select(fresh.kind == REPLY))


@pytest.mark.parametrize(
    "slow",
    [
        {"overlay": GeometricOverlay(radius=1.5), "distance_s": 5_000.0},
        {"bandwidth_bps": 1.0},
        {"latency": Constant(value_s=500.0)},
        {"start_window_s": 5_000.0},
    ],
)
def test_users_switch_on_and_off_for_as_long_as_anything_happens(slow):
    """Otherwise who is offline at the horizon would stay so while messages are still on their way."""
    case = Case(NetworkConfig(availability=OnOff(mean_on_s=20.0, mean_off_s=5.0), **slow), (60,))
    exchange = case.exchange(record=False)
    traffic = exchange.run()
    assert 100.0 < traffic.completion_time_s < case.network.horizon_s
    assert np.isfinite(exchange.arrival).any()


# -- nobody's true label is said -------------------------------------------------------------------------------------


def everything_said(noise, network, roles, sizes, seed) -> set[int]:
    """All labels in the release and in any message when everybody's true label is TRUTH."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    users = Population(np.zeros((offsets[-1], 1)), np.full(offsets[-1], TRUTH, np.uint8), offsets, 3)
    outcome = LabelExchangeMechanism(noise, 1.0, "events", roles).run(users, network, Streams(seed, 0), record=True)
    return set(outcome.release.payload.tolist()) | set(outcome.transcript.view("eavesdropper").label.tolist())


class AlwaysFlips(RandomizedResponse):
    """Every noisy label is the class after the true one, so that a true label anywhere is a leak."""

    def randomize(self, labels, rng):
        return ((labels + 1) % self.num_classes).astype(np.uint8)


@settings(max_examples=40, deadline=None)
@given(
    network=networks(),
    roles=adversaries,
    sizes=st.lists(st.integers(2, 12), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_no_message_and_no_release_holds_a_true_label(network, roles, sizes, seed):
    """Everybody holds class 2, answers 0, and lies with 0 or 1: a 2 would be a true label; -1 is no label."""
    assert everything_said(AlwaysFlips(0.5, 3), network, roles, sizes, seed) <= {-1, 0, 1}


def test_one_true_label_in_an_answer_would_be_seen():
    """Control of the test above: users who answer with their true label."""
    assert TRUTH in everything_said(Truthful(0.5, 3, size=20), NetworkConfig(), AdversariesConfig(), [20], 1)


@pytest.mark.parametrize("answer", ["inverted", "zero", "one"])
def test_falling_back_submits_what_one_answers_and_not_the_truth(answer):
    network = NetworkConfig(request_timeout_s=1e-6, on_timeout=OnTimeout(fallback="own_label"))
    roles = AdversariesConfig(liars=Liars(share=0.5, answer=answer), coalition=CoalitionConfig(share=0.2))
    said = everything_said(AlwaysFlips(0.5, 3), network, roles, [40], 1)
    assert said == {-1, 0} | {{"inverted": 1, "zero": 0, "one": 1}[answer]}


# -- common random numbers -------------------------------------------------------------------------------------------


def fetched(exchange: ShardExchange) -> dict[int, int]:
    """Whose label each submitter passed on, fallbacks left out."""
    users = np.flatnonzero(exchange.accepts(exchange.arrival) & ~exchange.fallback)
    return dict(zip(users.tolist(), exchange.source[users].tolist(), strict=True))


def steadfast(case: Case) -> Case:
    """The same, but that nobody draws a second peer or falls back, so that a fault cannot change what is passed on."""
    rule = case.config.on_timeout
    retry = "same_peer" if rule.retry == "redraw" else rule.retry
    if case.config.request_timeout_s is None:
        return case
    return changed(case, on_timeout=OnTimeout(retry=retry, attempts=rule.attempts, backoff=rule.backoff))


@settings(max_examples=25, deadline=None)
@given(case=cases, losses=st.sampled_from([(0.0, 0.01), (0.01, 0.02), (0.1, 0.5)]))
def test_more_loss_only_removes_submissions_and_delays_them(case, losses):
    case = steadfast(case)
    little, much = (finished(changed(case, loss=loss)) for loss in losses)
    assert fetched(much).items() <= fetched(little).items()
    assert np.all(little.arrival <= much.arrival)


@settings(max_examples=25, deadline=None)
@given(case=cases, shares=st.sampled_from([(0.0, 0.1), (0.1, 0.5), (0.5, 1.0)]))
def test_more_duplicates_only_add_submissions_and_hasten_them(case, shares):
    case = steadfast(case)
    few, many = (finished(changed(case, duplication=share)) for share in shares)
    assert fetched(few).items() <= fetched(many).items()
    assert np.all(many.arrival <= few.arrival)


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_falling_back_changes_nothing_for_who_got_a_reply(case):
    assume(case.config.request_timeout_s is not None)
    rule = case.config.on_timeout
    with_own, without = (
        finished(changed(case, on_timeout=OnTimeout(**{**dict(rule), "fallback": fallback})))
        for fallback in ("own_label", "skip")
    )
    assert fetched(with_own) == fetched(without)
    assert not without.fallback.any()
    rest = ~with_own.fallback
    assert np.array_equal(with_own.arrival[rest], without.arrival[rest])
    assert not np.isfinite(without.arrival[with_own.fallback]).any()


@settings(max_examples=25, deadline=None)
@given(case=cases, share=st.sampled_from([0.2, 0.9]))
def test_free_riders_and_liars_change_nobodys_choices(case, share):
    case = replace(steadfast(case), adversaries=AdversariesConfig())
    honest = finished(case)
    tree = {"free_riders": {"share": share}, "liars": {"share": share, "answer": "one"}}
    rogue = finished(replace(case, adversaries=AdversariesConfig.model_validate(tree)))
    assert fetched(rogue).items() <= fetched(honest).items()
    users = list(fetched(rogue))
    assert np.array_equal(rogue.arrival[users], honest.arrival[users])


@settings(max_examples=25, deadline=None)
@given(case=cases, losses=st.sampled_from([(0.0, 0.02), (0.01, 0.02)]))
def test_loss_touches_only_those_whose_messages_it_takes(case, losses):
    """Whatever users do when a fetch fails: who is answered at the first request in both runs passes on the same."""
    little, much = (changed(case, loss=loss) for loss in losses)
    runs = [c.lived() for c in (little, much)]
    first = [outcomes_of(run) for run in runs]
    received = [run.submissions() for run in runs]
    passed_on = [dict(zip(r.user.tolist(), r.label.tolist(), strict=True)) for r in received]
    for user in range(case.shard.size):
        number = user + case.shard.start
        if all(found.get((user, 0)) == "answered" for found in first) and all(number in done for done in passed_on):
            assert passed_on[0][number] == passed_on[1][number]
            assert runs[0].source[user] == runs[1].source[user]


def test_chances_drawn_in_the_order_of_events_would_be_seen(monkeypatch):
    """Control: with one generator for all, more loss does not take away alone, it changes who submits."""
    rng = np.random.default_rng(3)
    monkeypatch.setattr(InTransit, "uniform", lambda self, purpose: rng.random(self.user.size))
    little, much = (finished(Case(NetworkConfig(loss=loss), (300,))) for loss in (0.1, 0.2))
    assert not fetched(much).items() <= fetched(little).items()


# -- a link that all share -------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    arrivals=st.lists(st.floats(0.0, 20.0), max_size=40).map(np.array),
    service=st.sampled_from([0.01, 0.5, 3.0]),
)
def test_the_learners_link_serves_one_after_another(arrivals, service):
    left, free = np.empty(arrivals.size), 0.0
    for number in np.argsort(arrivals, kind="stable"):
        free = max(free, arrivals[number]) + service
        left[number] = free
    assert departures(arrivals, service) == pytest.approx(left, abs=1e-9)


def test_a_slow_link_of_the_learner_loses_nothing_but_time():
    network = NetworkConfig(latency=Exponential(mean_s=1.0), start_window_s=5.0)
    offsets = np.array([0, 70_000, 70_030])  # two shards
    users = Population(np.zeros((70_030, 1)), np.zeros(70_030, np.uint8), offsets, 2)
    mechanism = LabelExchangeMechanism(RandomizedResponse(0.2), 0.01)
    slow = NetworkConfig(**{**dict(network), "learner_bandwidth_bps": 8 * 65 * 50.0})
    one, other = (mechanism.run(users, n, Streams(1, 0)) for n in (network, slow))
    assert one.release.user.tobytes() == other.release.user.tobytes()
    assert one.release.payload.tobytes() == other.release.payload.tobytes()
    times = np.sort(other.arrival_s)
    assert np.all(np.diff(times) > 1 / 50.0 - 1e-9)
    assert other.traffic.completion_time_s >= times[-1]
    assert times[-1] >= np.max(one.arrival_s)
