"""What each observer sees, and that nobody sees a true label."""

import numpy as np
import pytest

import p2p_sim
from p2p_sim.protocol.transcript import LEARNER, REPLY, REQUEST, SUBMISSION, Messages


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
    assert set(seen.receiver) == {LEARNER}
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
    assert all(getattr(nothing, name).dtype == getattr(whole, name).dtype for name in Messages.__dataclass_fields__)


@pytest.mark.parametrize(("observer", "members"), [("boss", []), ("peer", []), ("peer", [1, 2]), ("coalition", [])])
def test_impossible_observers_are_refused(result, observer, members):
    with pytest.raises(ValueError, match=r"observer|members"):
        result.transcript.view(observer, members)
