"""What each observer sees, and that nobody sees a true label."""

import numpy as np
import pytest

import p2p_sim
from p2p_sim.exchange.adversaries import AdversariesConfig, Sybil
from p2p_sim.exchange.transcript import LEARNER, REPLY, REQUEST, SUBMISSION, Messages, Transcript
from p2p_sim.network.latency import Exponential
from p2p_sim.network.network_config import NetworkConfig, OnTimeout, RandomWalk
from p2p_sim.network.overlay import GeometricOverlay, RegularOverlay
from tests.small_networks import LEADING, Case


@pytest.fixture(scope="module")
def result():
    tree = {
        "name": "t",
        "population": {"kind": "synthetic", "users": 300, "num_clusters": 3},
        "mechanism": {"flip_prob": 0.3, "sampling_rate": 0.5},
        "network": {"start_window_s": 1.0},
    }
    return p2p_sim.run(p2p_sim.Scenario.from_tree(tree), record=True)


def test_learner_sees_submissions_alone(result):
    seen = result.transcript.view("learner")
    assert set(seen.kind) == {SUBMISSION}
    assert set(seen.receiver) == {LEARNER} == {-1}
    order = np.argsort(seen.sender)
    assert np.array_equal(seen.sender[order], result.release.user)
    assert np.array_equal(seen.label[order], result.release.payload)


def test_peer_sees_what_she_sends_and_receives(result):
    seen = result.transcript.view("peer", [7])
    assert np.all((seen.sender == 7) | (seen.receiver == 7))
    assert np.count_nonzero((seen.kind == REPLY) & (seen.receiver == 7)) == 1
    requests = np.count_nonzero((seen.kind == REQUEST) & (seen.receiver == 7))
    assert requests == np.count_nonzero((seen.kind == REPLY) & (seen.sender == 7))


def test_coalition_pools_its_members_and_the_learner(result):
    whole = result.transcript.messages
    seen = result.transcript.view("coalition", [1, 2])
    expected = (whole.receiver == LEARNER) | np.isin(whole.sender, [1, 2]) | np.isin(whole.receiver, [1, 2])
    assert len(seen) == np.count_nonzero(expected)
    assert len(result.transcript.view("eavesdropper")) == len(whole) == 600 + len(result.release)


def test_messages_are_in_order_and_stay_within_clusters(result):
    m = result.transcript.messages
    assert np.all(np.diff(m.time_s) >= 0)
    cluster = np.searchsorted(result.population.cluster_offsets, np.arange(300), side="right")
    inner = m.receiver != LEARNER
    assert np.array_equal(cluster[m.sender[inner]], cluster[m.receiver[inner]])


def test_a_user_always_answers_with_the_same_noisy_label(result):
    m = result.transcript.messages
    replies = m.select(m.kind == REPLY)
    answers: dict[int, set[int]] = {}
    for sender, label in zip(replies.sender.tolist(), replies.label.tolist(), strict=True):
        answers.setdefault(sender, set()).add(label)
    assert any(np.count_nonzero(replies.sender == s) > 1 for s in answers)
    assert all(len(labels) == 1 for labels in answers.values())
    truth = result.population.labels
    wrong = np.mean([next(iter(labels)) != truth[sender] for sender, labels in answers.items()])
    assert 0.1 < wrong < 0.5  # flipped with probability 0.3: 190 noisy labels, 6 standard errors


def test_where_nobody_sends_anything_the_transcript_is_empty(result):
    nothing = Messages.join([])
    assert len(nothing) == 0
    whole = result.transcript.messages
    assert all(getattr(nothing, name).dtype == getattr(whole, name).dtype for name in vars(nothing))


@pytest.mark.parametrize(("observer", "members"), [("boss", []), ("peer", []), ("peer", [1, 2]), ("coalition", [])])
def test_impossible_observers_are_refused(result, observer, members):
    with pytest.raises(ValueError, match=r"observer|members"):
        result.transcript.view(observer, members)


# -- on networks with faults -----------------------------------------------------------------------------------------


def recorded(case: Case) -> Messages:
    exchange = case.exchange()
    exchange.run()
    return exchange.messages()


def test_a_late_reply_is_seen_and_marked():
    rule = OnTimeout(retry="redraw", attempts=3)
    network = NetworkConfig(latency=Exponential(mean_s=1.0), request_timeout_s=1.0, on_timeout=rule)
    exchange = Case(network, (200,)).exchange()
    traffic = exchange.run()
    m = exchange.messages()
    assert np.count_nonzero(m.late) == traffic.late_replies > 0
    assert set(m.kind[m.late]) == {REPLY}
    assert np.count_nonzero((m.kind == REPLY) & ~m.late) == traffic.answered


def test_nothing_that_was_lost_is_seen():
    exchange = Case(NetworkConfig(loss=0.3), (200,)).exchange()
    traffic = exchange.run()
    m = exchange.messages()
    assert len(m) == traffic.messages_delivered == traffic.messages_sent - traffic.messages_lost
    assert np.count_nonzero(m.receiver == LEARNER) == traffic.learner_messages == len(exchange.submissions().user)


def test_a_duplicate_is_seen_twice_and_carries_the_same_label():
    m = recorded(Case(NetworkConfig(duplication=1.0), (50,)))
    submitted = m.select(m.kind == SUBMISSION)
    users, counts = np.unique(submitted.sender, return_counts=True)
    assert users.size == 50
    assert set(counts) == {2}
    assert len(set(zip(submitted.sender, submitted.label, strict=True))) == 50
    assert np.count_nonzero(m.kind == REQUEST) == 100
    assert np.count_nonzero(m.kind == REPLY) == 200


def test_each_step_of_a_walk_is_seen_between_neighbours_and_the_answer_goes_straight_back():
    case = Case(NetworkConfig(overlay=RegularOverlay(degree=3), peers=RandomWalk(length=4)), (30,))
    exchange = case.exchange()
    exchange.run()
    m, overlay = exchange.messages(), exchange.journey.overlay
    steps = m.select(m.kind == REQUEST)
    assert len(steps) == 4 * 30
    near = [set(overlay.indices[a:b] + LEADING) for a, b in zip(overlay.indptr, overlay.indptr[1:], strict=False)]
    assert all(to in near[by - LEADING] for by, to in zip(steps.sender, steps.receiver, strict=True))
    replies = m.select(m.kind == REPLY)
    order = np.argsort(replies.receiver)
    assert np.array_equal(replies.receiver[order], np.arange(30) + LEADING)
    assert np.array_equal(replies.sender[order] - LEADING, exchange.source)


def test_a_probing_coalition_has_everybodys_noisy_label_in_its_view():
    roles = AdversariesConfig(sybil=Sybil(share=0.1, answer="noisy", probe_every_s=0.1))
    case = Case(NetworkConfig(), (40,), adversaries=roles)
    members = np.flatnonzero(case.roles.member) + LEADING
    seen = Transcript(recorded(case)).view("coalition", members.tolist())
    prober = np.flatnonzero(case.roles.prober) + LEADING
    heard = seen.select((seen.kind == REPLY) & (seen.receiver == prober))
    told = dict(zip(heard.sender.tolist(), heard.label.tolist(), strict=True))
    assert set(told) | set(prober.tolist()) == set(range(LEADING, LEADING + 40))
    assert all(label == case.payload[user - LEADING] for user, label in told.items())


def test_nobody_said_anything_and_the_transcript_is_empty():
    m = recorded(Case(NetworkConfig(overlay=GeometricOverlay(radius=1e-9)), (5,)))
    assert len(m) == 0
    assert len(Transcript(m).view("coalition", [3])) == 0
    assert (m.sender.dtype, m.label.dtype, m.late.dtype) == (np.int32, np.int16, np.bool_)
