"""Models that travel between organisations: times, bytes, faults and the ledger of ε."""

import math

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.network.availability import Availability
from p2p_sim.network.latency import Constant
from p2p_sim.protocol.model_exchange import ModelExchangeConfig, Release, exchange_models

MODEL = Release(origin=0, payload_bytes=936, epsilon=1.0)


def run(releases=(MODEL,), organisations=5, seed=1, availability=None, **config):
    settings = ModelExchangeConfig(**{"latency": Constant(value_s=0.5), "poll_s": 10.0, **config})
    return exchange_models(releases, organisations, settings, np.random.default_rng(seed), availability)


def test_over_perfect_links_everybody_gets_the_model_in_one_round_trip():
    done = run()
    phases = 10.0 * np.random.default_rng(1).random(5)  # when each first asks
    assert done.received_s[0, 0] == 0.0
    assert done.received_s[1:, 0] == pytest.approx(phases[1:] + 1.0)
    assert done.completion_s == done.received_s.max()
    assert (done.requests, done.models_sent, done.messages_lost, done.messages_undelivered) == (4, 4, 0, 0)
    assert done.bytes_sent.tolist() == [4 * 1000, 64, 64, 64, 64]


def test_models_queue_on_the_senders_link():
    """Requests that arrive (nearly) at once are served one a second: 1,000 bytes at 8,000 bits a second."""
    done = run(poll_s=1e-3, bandwidth_bps=8000.0)
    times = np.sort(done.received_s[1:, 0])
    assert np.diff(times) == pytest.approx(1.0)
    assert done.models_sent == 4  # nobody is sent what is under way


@pytest.mark.parametrize("spread", ["source", "gossip"])
def test_losses_are_made_good(spread):
    done = run(organisations=12, spread=spread, loss=0.5)
    assert math.isfinite(done.completion_s)
    assert done.messages_lost > 5
    assert done.bytes_sent.sum() == 64 * done.requests + 1000 * done.models_sent


def test_gossip_spreads_what_a_source_that_left_released():
    """The source is online for 30 s; a branch that comes at 100 s gets the model from the others, or never."""
    periods = Availability.of(
        np.arange(5), np.array([0.0, 0.0, 0.0, 0.0, 100.0]), np.array([30.0, np.inf, np.inf, np.inf, np.inf]), 5
    )
    gossip = run(availability=periods, spread="gossip")
    assert 101.0 <= gossip.received_s[4, 0] < 300.0
    source = run(availability=periods, deadline_s=1000.0)
    assert math.isinf(source.received_s[4, 0])
    assert source.messages_undelivered == source.requests - 3
    assert gossip.epsilon.tolist() == source.epsilon.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_gossip_relieves_the_source():
    """Of 40 organisations most get the model from each other, sooner over slow links; ε is the same."""
    slow = {"organisations": 40, "bandwidth_bps": 200.0, "poll_s": 20.0}
    source, gossip = run(**slow), run(**slow, spread="gossip")
    assert gossip.bytes_sent[0] < 0.3 * source.bytes_sent[0]
    assert gossip.completion_s < 0.5 * source.completion_s
    assert (gossip.epsilon == source.epsilon).all()


def test_several_releases_of_the_same_rows_add_up():
    later = Release(origin=0, payload_bytes=10, epsilon=0.5, ready_s=50.0)
    other = Release(origin=3, payload_bytes=10, epsilon=2.0)
    done = run((MODEL, later, other))
    assert done.epsilon.tolist() == [1.5, 0.0, 0.0, 2.0, 0.0]
    assert (done.received_s[1:, 1] > 50.0).all()
    assert np.isfinite(done.received_s).all()


@pytest.mark.parametrize("key", ["poll_s", "deadline_s"])
def test_times_are_above_0_and_at_most_1e9_seconds(key):
    assert getattr(ModelExchangeConfig(**{key: 1e9}), key) == 1e9
    for value in (0.0, 1e9 + 0.5):
        with pytest.raises(ValueError, match=key):
            ModelExchangeConfig(**{key: value})


def test_the_same_seed_gives_the_same_run():
    first, again, other = (run(organisations=9, loss=0.3, spread="gossip", seed=seed) for seed in (3, 3, 4))
    assert (first.received_s == again.received_s).all()
    assert (first.received_s != other.received_s).any()


@pytest.mark.parametrize(
    ("releases", "organisations", "line"),
    [
        ((Release(5, 1, 1.0),), 5, "origin = 5: must lie in 0..4"),
        ((Release(0, 0, 1.0),), 5, "payload_bytes must be at least 1"),
        ((Release(0, 1, -1.0),), 5, "epsilon and ready_s at least 0"),
        ((MODEL,), 1, "organisations = 1: must be at least 2"),
    ],
)
def test_bad_input_is_one_clear_line(releases, organisations, line):
    with pytest.raises(InputError, match=line):
        run(releases, organisations)
