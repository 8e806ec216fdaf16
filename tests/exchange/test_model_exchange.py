"""Requests and replies among organisations: times, bytes, faults, and the same as one event a message."""

import math

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.exchange import model_exchange
from p2p_sim.exchange.model_exchange import exchange_models, neighbours
from p2p_sim.network.network_config import Network, NetworkConfig
from p2p_sim.population.population import Population
from tests.reference.plain_models import PlainModels

CONSTANT = {"latency": {"kind": "constant", "value_s": 0.5}}
CHURN = {"kind": "on_off", "mean_on_s": 3.0, "mean_off_s": 2.0}


def opened(organisations, seed=1, **config):
    nodes = Population(np.zeros((organisations, 0)), np.zeros(organisations, np.uint8), np.array([0, organisations]), 2)
    return Network.open(NetworkConfig(**config), nodes, Streams(seed, 0))


def run(organisations=5, seed=1, record=False, **config):
    network = opened(organisations, seed, **config)
    return exchange_models(network, *neighbours(network, organisations), np.full(organisations, 936), record)


def test_over_perfect_links_everybody_gets_every_model_in_one_round_trip():
    done = run(**CONSTANT)
    assert done.arrival_s.tolist() == [1.0] * 20
    assert done.used.all()
    assert done.received.all()
    assert not done.offline.any()
    t = done.traffic
    assert (t.fetches, t.answered, t.failed, t.messages_sent, t.messages_delivered) == (20, 20, 0, 40, 40)
    assert t.bytes_sent == 20 * 64 + 20 * 1000
    assert t.completion_time_s == 1.0


def test_a_slow_link_takes_the_time_of_its_bytes():
    done = run(bandwidth_bps=8000.0, **CONSTANT)
    assert done.arrival_s == pytest.approx(1.0 + 0.064 + 1.0)


def test_what_comes_after_the_deadline_is_seen_but_not_used():
    done = run(deadline_s=0.9, **CONSTANT)
    assert done.received.all()
    assert not done.used.any()
    nobody = run(deadline_s=0.1, start_window_s=1e6, **CONSTANT)
    assert (nobody.traffic.fetches, nobody.traffic.messages_sent) == (0, 0)


def test_losses_are_those_of_the_law_and_retries_make_them_good():
    """Of 9,900 pairs a share 0.49 gets its model; 6.2 standard deviations are 1e-9."""
    one = run(100, loss=0.3)
    assert abs(one.used.mean() - 0.49) < 6.2 * 0.5 / math.sqrt(9900)
    assert abs(one.used.mean() - 0.7) > 0.1  # control: a reply that cannot be lost
    assert one.traffic.failed == np.count_nonzero(~one.used)
    more = run(100, loss=0.3, request_timeout_s=1e3, on_timeout={"retry": "same_peer", "attempts": 10})
    assert more.used.mean() > 0.99
    assert more.traffic.expired > 0


def test_an_overlay_says_who_may_ask_whom():
    done = run(20, overlay={"kind": "regular", "degree": 4})
    assert np.bincount(done.asker).tolist() == np.bincount(done.owner).tolist() == [4] * 20


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(model_exchange, "MOST_PAIRS", 19)
    with pytest.raises(InputError, match="5 organisations are 20 pairs; at most 19 are allowed"):
        run()


def test_a_pairs_fate_depends_on_no_other_pair():
    """Common random numbers: without some pairs the others' messages are the same."""
    network = opened(9, loss=0.3, duplication=0.5, availability=CHURN)
    asker, owner = neighbours(network, 9)
    payload, some = np.full(9, 10), np.arange(asker.size) % 3 == 0
    whole = exchange_models(network, asker, owner, payload)
    part = exchange_models(network, asker[some], owner[some], payload)
    assert (part.arrival_s == whole.arrival_s[some]).all()
    assert (run(9, 2, loss=0.3).arrival_s != run(9, 3, loss=0.3).arrival_s).any()


def test_the_transcript_holds_every_delivered_message_and_no_label():
    done = run(8, record=True, loss=0.2, duplication=0.5, request_timeout_s=0.12)
    m = done.transcript.messages
    assert len(m) == done.traffic.messages_delivered
    assert (m.label == -1).all()
    replies = m.select(m.kind == 2)
    assert {*zip(replies.receiver.tolist(), replies.sender.tolist(), strict=True)} == {
        (a, o)
        for a, o, seen in zip(done.asker.tolist(), done.owner.tolist(), done.received.tolist(), strict=True)
        if seen
    }
    assert done.traffic.late_replies == np.count_nonzero(m.late) > 0


NETWORKS = {
    "plain": {},
    "loss": {"loss": 0.4, "start_window_s": 2.0},
    "duplicates": {"duplication": 0.6, "reordering": 0.4, "loss": 0.2, "bandwidth_bps": 1e5},
    "retries": {"loss": 0.5, "duplication": 0.3, "request_timeout_s": 0.11, "deadline_s": 5.0,
                "on_timeout": {"retry": "same_peer", "attempts": 4, "backoff": 1.5}},
    "churn": {"availability": CHURN, "start_window_s": 1.0, "request_timeout_s": 0.5, "duplication": 0.2,
              "on_timeout": {"retry": "same_peer", "attempts": 5}},
    "leaving": {"availability": {"kind": "always", "leave_share": 0.5, "leave_mean_s": 0.05}},
    "distance": {"overlay": {"kind": "geometric", "mean_degree": 4}, "distance_s": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_as_one_event_a_message(name):
    network = opened(11, 4, **NETWORKS[name])
    asker, owner = neighbours(network, 11)
    pairs, payload = list(zip(asker.tolist(), owner.tolist(), strict=True)), [100 + k for k in range(11)]
    done, plain = exchange_models(network, asker, owner, np.array(payload)), PlainModels(network, 11, pairs, payload)
    assert done.arrival_s == pytest.approx([plain.arrival.get(pair, np.inf) for pair in pairs], abs=1e-6)
    assert done.received.tolist() == [pair in plain.shown for pair in pairs]
    assert set(np.flatnonzero(done.offline).tolist()) == plain.offline
    t = done.traffic
    counted = {key: getattr(t, key) for key in plain.counts}
    assert counted == dict(plain.counts)
    assert t.messages_sent + t.messages_duplicated == t.messages_lost + t.messages_undelivered + t.messages_delivered
    if name != "plain":
        assert done.traffic != run(11, 4).traffic
