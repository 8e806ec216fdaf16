"""The windowed event engine against one event per message, and its own invariants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_sim.network.config import NetworkConfig
from p2p_sim.network.engine import Engine
from p2p_sim.network.latency import Constant, Exponential, Lognormal
from p2p_sim.population.shards import shards
from p2p_sim.protocol import label_exchange
from p2p_sim.protocol.label_exchange import ShardExchange
from p2p_sim.streams import Streams
from tests.reference import plain_engine

latencies = st.one_of(
    st.builds(Constant, value_s=st.sampled_from([0.0, 0.1])),
    st.builds(Exponential, mean_s=st.floats(0.01, 10.0)),
    st.builds(Lognormal, median_s=st.floats(0.01, 1.0), sigma=st.floats(0.0, 3.0)),
)
networks = st.builds(
    NetworkConfig,
    latency=latencies,
    start_window_s=st.sampled_from([0.0, 1e-3, 1.0, 50.0]),
    request_timeout_s=st.one_of(st.none(), st.floats(0.01, 2.0)),
)


@settings(max_examples=80, deadline=None)
@given(
    network=networks,
    sizes=st.lists(st.integers(2, 60), min_size=1, max_size=8),
    theta=st.sampled_from([0.2, 1.0]),
    seed=st.integers(0, 2**32),
    window=st.sampled_from([1, 16, 8192]),
)
def test_windowed_engine_equals_one_event_per_message_bit_for_bit(network, sizes, theta, seed, window):
    [shard] = shards(np.concatenate([[0], np.cumsum(sizes)]))
    streams = Streams(seed, 0)
    payload = streams.generator("flip").integers(0, 2, shard.size).astype(np.uint8)
    plain = plain_engine.run(shard, payload, theta, network, streams)

    exchange = ShardExchange(shard, payload, theta, network, streams, record=True)
    exchange._engine._target = window
    traffic = exchange.run()
    users, labels = exchange.submissions()
    m = exchange.messages()

    assert dict(zip(users.tolist(), labels.tolist(), strict=True)) == plain.submitted
    assert (traffic.protocol_events, traffic.late_replies) == (plain.events, plain.late)
    columns = (m.time_s, m.kind, m.sender, m.receiver, m.label, m.late)
    assert sorted(zip(*(c.tolist() for c in columns), strict=True)) == sorted(plain.messages)


def test_times_depend_on_no_neighbouring_shard():
    network, streams = NetworkConfig(start_window_s=1.0), Streams(5, 2)
    alone = list(shards(np.array([0, 70_000, 70_050])))
    moved = list(shards(np.array([0, 66_000, 66_050])))
    payload = np.zeros(50, np.uint8)
    runs = [ShardExchange(s[1], payload, 1.0, network, streams, record=True) for s in (alone, moved)]
    for run in runs:
        run.run()
    assert np.array_equal(runs[0].messages().time_s, runs[1].messages().time_s)


def test_engine_delivers_everything_in_causal_order():
    seen: list[tuple[int, float]] = []
    engine = Engine(
        [
            lambda users, times: engine.post(1, users, times + 0.25),
            lambda users, times: seen.extend(zip(users.tolist(), times.tolist(), strict=True)),
        ],
        window_messages=4,
    )
    engine.post(0, np.arange(100, dtype=np.int32), np.linspace(0.0, 9.0, 100))
    end = engine.run()
    assert sorted(seen) == [(i, t + 0.25) for i, t in enumerate(np.linspace(0.0, 9.0, 100))]
    assert engine.delivered == 200
    assert engine.windows > 20
    assert end >= 9.25


@pytest.mark.parametrize("distribution", [Constant(value_s=0.3), Exponential(mean_s=2.0), Lognormal(median_s=0.5)])
def test_latency_states_its_mean_and_variance(distribution):
    """False alarm 1e-9 (6.1 standard errors); it detects a mean that is off by 0.4% here."""
    sample = distribution.sample(Streams(3, 0).generator("latency-request"), 1_000_000)
    error = 6.2 * np.sqrt(distribution.variance / sample.size)
    assert abs(sample.mean() - distribution.mean) <= error + 1e-12
    assert abs(sample.var() - distribution.variance) <= 0.05 * distribution.variance + 1e-12
    if distribution.variance:
        assert abs(sample.mean() - 1.02 * distribution.mean) > error  # the planted mistake is seen


def test_late_replies_are_dropped_and_counted():
    [shard] = shards(np.array([0, 500]))
    network = NetworkConfig(latency=Constant(value_s=0.3), request_timeout_s=0.5)
    exchange = ShardExchange(shard, np.zeros(500, np.uint8), 1.0, network, Streams(1, 0))
    traffic = exchange.run()
    assert traffic.late_replies == 500
    assert traffic.protocol_events == 1500  # starts, requests, replies; no submission
    assert len(exchange.submissions()[0]) == 0


def test_the_comparison_would_see_a_wrong_engine(monkeypatch):
    """Control: an engine that forgets deadlines must differ from the reference."""
    [shard] = shards(np.array([0, 200]))
    network, streams = NetworkConfig(request_timeout_s=0.1), Streams(1, 0)
    payload = np.zeros(200, np.uint8)
    plain = plain_engine.run(shard, payload, 1.0, network, streams)
    exchange = ShardExchange(shard, payload, 1.0, network, streams)
    forgetful = label_exchange.Timing(
        **{name: getattr(exchange._timing, name) for name in ("start", "request", "reply", "submission")},
        timeout=np.inf,
    )
    monkeypatch.setattr(exchange, "_timing", forgetful)
    exchange.run()
    assert len(exchange.submissions()[0]) != len(plain.submitted)
