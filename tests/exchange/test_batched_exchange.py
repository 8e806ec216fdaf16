"""The windowed event engine against a process for each user and an event for each message; its own invariants."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_sim.base.streams import Streams
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.exchange.exchange_run import ExchangeRun
from p2p_sim.exchange.message_timing import FirstReply, MessageTiming
from p2p_sim.network import event_queue as engine_room
from p2p_sim.network.availability import Always, OnOff
from p2p_sim.network.event_queue import Engine
from p2p_sim.network.latency import Constant, Exponential
from p2p_sim.network.network_config import Network, NetworkConfig, OnTimeout
from p2p_sim.population.population import Population, shards
from tests.small_networks import Case, cases


def left_behind(exchange: ExchangeRun) -> dict[str, object]:
    """Everything that a run leaves behind; messages and what happened besides if they are recorded."""
    traffic = exchange.run()
    received = exchange.submissions()
    came = np.flatnonzero(np.isfinite(exchange.arrival))
    found = {
        "traffic": traffic,
        "submitted": (received.user.tolist(), received.label.tolist(), received.time_s.tolist()),
        "sources": exchange.source[came].tolist(),
        "arrivals": exchange.arrival.tolist(),
        "fallback": exchange.fallback.tolist(),
        "probed": exchange.probed.tolist(),
    }
    if exchange.ledger.records:
        messages, trace = exchange.messages(), exchange.trace()
        found |= {"messages": rows(messages), "sent": rows(trace.sent), "expired": rows(trace.expired)}
    return found


def rows(table: object) -> list[tuple]:
    """The lines of a class of arrays, sorted."""
    return sorted(zip(*(column.tolist() for column in vars(table).values()), strict=True))


def differences(exchange: ExchangeRun, lived: dict[str, object]) -> list[str]:
    """In what a run differs from what another one left behind."""
    return [name for name, value in left_behind(exchange).items() if value != lived[name]]


@settings(max_examples=15, deadline=None)
@given(case=cases, window=st.sampled_from([1, 16, 8192]), most=st.sampled_from([3, engine_room.SLICE]))
def test_windowed_engine_equals_one_event_per_message_bit_for_bit(case, window, most):
    plain = left_behind(case.processes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_room, "SLICE", most)
        assert differences(case.exchange(True, window), plain) == []
        assert differences(case.exchange(False, window), plain) == []


def small(**network) -> Case:
    return Case(NetworkConfig(latency=Exponential(mean_s=1.0), **network), (30, 20))


MISTAKES: dict[str, tuple[Case, type, str, Callable]] = {
    "a reply at its deadline is late": (
        Case(NetworkConfig(latency=Constant(value_s=0.25), request_timeout_s=0.5), (10,)),
        ShardExchange,
        "_valid",
        lambda right: lambda self, users, times, *rest: right(self, users, np.nextafter(times, np.inf), *rest),
    ),
    "timers are not told of a reply": (
        small(request_timeout_s=1.0),
        MessageTiming,
        "answered",
        lambda right: lambda self, users, *rest: FirstReply(np.full(users.size, np.inf), np.zeros(users.size, np.int8)),
    ),
    "late replies count": (
        small(request_timeout_s=1.0),
        ShardExchange,
        "_valid",
        lambda right: lambda self, *rest: (None, right(self, *rest)[1]),
    ),
    "every copy of a reply counts": (
        small(duplication=0.5),
        ShardExchange,
        "_valid",
        lambda right: lambda self, *rest: (None, None),
    ),
    "who retries does not wait to be online": (
        small(
            request_timeout_s=1.0,
            on_timeout=OnTimeout(retry="redraw", attempts=3),
            availability=OnOff(mean_on_s=1.0, mean_off_s=1.0),
        ),
        MessageTiming,
        "next_online",
        lambda right: lambda self, users, times: times,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_sees_a_planted_mistake(mistake, monkeypatch):
    case, owner, name, wrong = MISTAKES[mistake]
    plain = left_behind(case.processes())
    assert differences(case.exchange(), plain) == []
    exchange = case.exchange()
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    assert differences(exchange, plain) != []


def test_a_reply_exactly_at_its_deadline_counts():
    exchange = Case(NetworkConfig(latency=Constant(value_s=0.25), request_timeout_s=0.5), (10,)).exchange()
    traffic = exchange.run()
    assert (traffic.answered, traffic.expired, traffic.late_replies) == (10, 0, 0)
    assert exchange.submissions().user.size == 10


def test_late_replies_are_dropped_and_counted():
    exchange = Case(NetworkConfig(latency=Constant(value_s=0.3), request_timeout_s=0.5), (500,)).exchange()
    traffic = exchange.run()
    assert (traffic.late_replies, traffic.expired, traffic.answered) == (500, 500, 0)
    assert traffic.protocol_events == 2000  # starts, requests, expired ones and replies; no submission
    assert exchange.submissions().user.size == 0


@pytest.mark.parametrize("leave_mean_s", [1.0, 1e-9])
def test_who_has_left_before_her_start_asks_nobody(leave_mean_s):
    """Some of the users, or nearly all."""
    availability = Always(leave_share=0.8, leave_mean_s=leave_mean_s)
    case = Case(NetworkConfig(availability=availability, start_window_s=5.0), (20,))
    exchange = case.exchange()
    here = np.isfinite(exchange.journey.start)
    assert 0 < here.sum() < 20
    assert differences(exchange, left_behind(case.processes())) == []
    traffic = case.exchange().run()
    assert traffic.fetches == here.sum()
    assert np.isfinite(traffic.completion_time_s)


def test_times_depend_on_no_neighbouring_shard():
    config, streams, times = NetworkConfig(start_window_s=1.0, loss=0.1), Streams(5, 2), []
    for leading in (70_000, 66_000):
        offsets = np.array([0, leading, leading + 50])
        population = Population(np.zeros((leading + 50, 1)), np.zeros(leading + 50, np.uint8), offsets, 2)
        shard = list(shards(offsets))[1]
        network = Network.open(config, population, streams)
        exchange = ShardExchange(shard, np.zeros(50, np.uint8), network, streams, sampling_rate=1.0, record=True)
        exchange.run()
        times.append(exchange.messages().time_s)
    assert np.array_equal(*times)


def test_engine_delivers_everything_at_its_time():
    seen: list[tuple[int, float]] = []
    windows: list[float] = []

    def handle(kind, users, times):
        if kind == 0:
            windows.append(times[0])
            engine.post(1, users, times + 0.25)
        else:
            seen.extend(zip(users.tolist(), times.tolist(), strict=True))

    engine = Engine(handle, window_messages=4)
    engine.post(0, np.arange(100, dtype=np.int32), np.linspace(0.0, 9.0, 100))
    engine.run()
    assert sorted(seen) == [(i, t + 0.25) for i, t in enumerate(np.linspace(0.0, 9.0, 100))]
    assert len(windows) > 20


@pytest.mark.parametrize("posts", [(0.0, 0.5), (3.0, 3.0), (5.5, 7.25), (9.999, 10.0), (25.0, 25.0), (0.5, 4.0, 40.0)])
@pytest.mark.parametrize("queued", [[1.0, 10.0], [2.0], [], [0.0, 1.0, 2.0, 3.0, 60.0], np.linspace(0.0, 10.0, 300)])
def test_what_an_actor_posts_before_between_and_after_the_windows_is_delivered(posts, queued):
    seen: list[tuple[int, int, float]] = []
    engine: Engine

    def handle(kind, users, times):
        seen.extend((kind, user, time) for user, time in zip(users.tolist(), times.tolist(), strict=True))
        if kind < 2:
            engine.post(kind + 1, users, times + 0.75)

    def actor(environment):
        for number, time in enumerate(posts):
            yield environment.timeout(time - environment.now)
            engine.post(0, np.array([1000 + number], np.int32), np.array([environment.now]))

    engine = Engine(handle, window_messages=2)
    engine.post(0, np.arange(len(queued), dtype=np.int32), np.array(queued, dtype=float))
    engine.run([actor])
    sent = [*enumerate(np.array(queued, dtype=float).tolist()), *((1000 + i, t) for i, t in enumerate(posts))]
    expected = [(kind, user, time + 0.75 * (kind > 0) + 0.75 * (kind > 1)) for user, time in sent for kind in range(3)]
    assert sorted(seen) == sorted(expected)
