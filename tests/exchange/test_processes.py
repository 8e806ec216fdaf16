"""The protocol as SimPy processes: the same run as the batched engine's, and no true label in reach."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import p2p_sim
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.message_timing import MessageTiming
from p2p_sim.exchange.processes import ProcessExchange
from p2p_sim.exchange.protocol import Me, Protocol
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.protocol_mechanism import ProtocolMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network import event_queue
from p2p_sim.network.latency import Constant
from p2p_sim.network.network_config import NetworkConfig, OnTimeout
from p2p_sim.population.population import Population
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange
from tests.exchange.test_batched_exchange import differences, left_behind, small
from tests.small_networks import Case, adversaries, networks

SHARD = 40
"""Users of a shard in these tests, so that small populations have several."""


@st.composite
def trees(draw) -> dict[str, Any]:
    """Scenarios of two or three classes, one or several shards, any faults and adversaries."""
    classes = draw(st.sampled_from([2, 3]))
    two = {"kind": "synthetic", "users": draw(st.integers(20, 120)), "num_clusters": 2}
    network = draw(networks())
    narrow = draw(st.sampled_from([None, None, 2e3])) if not network.batch_submission else None
    return {
        "seed": draw(st.integers(0, 2**32)),
        "population": two if classes == 2 else {"kind": "wine"},
        "clusters": {"kind": "kmeans", "count": draw(st.integers(1, 6)), "min_size": 2},
        "mechanism": {"flip_prob": 0.2, "sampling_rate": draw(st.sampled_from([0.5, 1.0]))},
        "network": {**network.model_dump(exclude_none=True), **({"learner_bandwidth_bps": narrow} if narrow else {})},
        "adversaries": draw(adversaries).model_dump(exclude_none=True),
        "learner": {"kind": "table"} if classes == 2 else {"kind": "knn"},
    }


def both(tree: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of both engines of messages, but for the engine and the identity."""
    found = []
    for engine in ("events", "processes"):
        row = p2p_sim.run(p2p_sim.Scenario.from_tree({**tree, "engine": engine})).row
        found.append({key: repr(value) for key, value in row.items() if key not in ("engine", "scenario")})
    return found


def agree(examples: int) -> None:
    """Compare so many random scenarios."""

    @settings(max_examples=examples, deadline=None)
    @given(tree=trees())
    def compare(tree):
        try:
            p2p_sim.Scenario.from_tree(tree)
        except p2p_sim.InputError:
            return
        events, processes = both(tree)
        assert processes == events

    compare()


@pytest.mark.parametrize("examples", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_rows_are_equal_to_the_last_bit(monkeypatch, examples):
    monkeypatch.setattr("p2p_sim.population.population.BLOCK", SHARD)
    agree(examples)


def always_first(right: Callable) -> Callable:
    return lambda self, users, draw, times: right(self, users, 0, times)


def last_counts(right: Callable) -> Callable:
    def on_submission(self, user, number, label):
        right(self, user, number, label)
        self.arrival[user], self._submitted[user, number] = self.clock.now, (label, self.clock.now)

    return on_submission


def not_closed(right: Callable) -> Callable:
    return lambda self, question: self.ledger.expired(np.array([question.user]), np.array([self.clock.now]))


exact = Case(NetworkConfig(latency=Constant(value_s=0.25), request_timeout_s=0.5), (10,))
redrawn = OnTimeout(retry="redraw", attempts=3)
MISTAKES: dict[str, tuple[Case, Any, str, Callable]] = {
    "a timer comes first": (exact, event_queue, "LAST", lambda right: 0),
    "the peer is not drawn anew": (
        small(request_timeout_s=0.5, on_timeout=redrawn), MessageTiming, "drawn_path", always_first,
    ),
    "a late reply counts": (small(request_timeout_s=1.0), ProcessExchange, "_expire", not_closed),
    "a duplicate is submitted twice": (small(duplication=1.0), ProcessExchange, "_on_submission", last_counts),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_seen(mistake, monkeypatch):
    case, owner, name, wrong = MISTAKES[mistake]
    batched = left_behind(case.exchange())
    assert differences(case.processes(), batched) == []
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    assert differences(case.processes(), batched) != []


class Gossip(Protocol):
    """Push one's label to two random peers; submit the majority of what came in two seconds, with the own label."""

    def user(self, me):
        for _ in range(2):
            if (peer := me.random_peer()) is not None:
                me.send(peer, me.noisy_label)
        yield me.wait(2.0)
        if me.coin("submit", 0.5):
            me.submit(round(me.noisy_label))

    def answer(self, me, request):
        return None if request.payload is not None else me.noisy_label


class Twice(Protocol):
    """Ask two peers, and submit if they agree; a peer answers every other request only."""

    def user(self, me):
        first = yield me.ask()
        second = yield me.ask()
        if first is not None and second is not None and first.label == second.label:
            me.submit(first)

    def answer(self, me, request):
        return me.noisy_label if me.coin("answers", 0.5) else None


def transcript(protocol: Protocol | None, labels: np.ndarray, monkeypatch) -> list[bytes]:
    """All that an eavesdropper sees, and all that is traced, in bytes; noisy labels do not depend on the labels."""
    noisy = np.random.default_rng(7).integers(0, 2, 60).astype(np.uint8)
    monkeypatch.setattr(RandomizedResponse, "randomize", lambda self, labels, rng: noisy[: labels.size].copy())
    offsets = np.array([0, 20, 45, 60])
    people = Population(np.zeros((60, 1)), labels, offsets, 2)
    network = NetworkConfig(loss=0.1, request_timeout_s=1.0, duplication=0.2, on_timeout=redrawn)
    noise, streams = RandomizedResponse(0.2), Streams(3, 0)
    own = LabelExchangeMechanism(noise, 0.5, "processes")
    mechanism = own if protocol is None else ProtocolMechanism(noise, protocol)
    outcome = mechanism.run(people, network, streams, record=True)
    trace = outcome.transcript.trace
    tables = (outcome.transcript.messages, trace.sent, trace.expired)
    return [column.tobytes() for table in tables for column in vars(table).values()]


@pytest.mark.parametrize("protocol", [None, Gossip(), Twice()], ids=["label exchange", "gossip", "twice"])
def test_same_noisy_labels_give_the_same_bytes_whatever_the_true_ones(protocol, monkeypatch):
    seen = [transcript(protocol, np.full(60, label, np.uint8), monkeypatch) for label in (0, 1)]
    assert seen[0] == seen[1]
    assert sum(map(len, seen[0])) > 5_000


class NoiseAgain(Protocol):
    def user(self, me):
        me._exchange._streams.generator("flip", 0)
        yield me.ask()


class TrueLabels(Protocol):
    def user(self, me):
        me.submit(int(me._exchange.population.labels[me.number]))
        yield me.ask()


@pytest.mark.parametrize(
    ("protocol", "fault", "text"),
    [(NoiseAgain(), p2p_sim.InputError, "'flip' is not for protocols"), (TrueLabels(), AttributeError, "population")],
)
def test_a_protocol_that_reaches_for_the_noise_or_for_true_labels_is_refused(protocol, fault, text, monkeypatch):
    with pytest.raises(fault, match=text):
        transcript(protocol, np.zeros(60, np.uint8), monkeypatch)


def test_true_labels_and_the_population_are_no_attributes_of_anything_near_a_user():
    """Whatever `me` leads to in three steps holds no array that is equal to the true labels."""
    tree = {"population": {"kind": "synthetic", "users": 200}, "mechanism": {"flip_prob": 0.5}, "engine": "processes"}
    held: list[Me] = []

    class Keeps(Protocol):
        def user(self, me):
            held.append(me)
            yield me.wait(0.1)

    case = Replicate(p2p_sim.Scenario.from_tree(tree))
    people = exchange(case).population
    ProtocolMechanism(RandomizedResponse(0.5), Keeps()).run(people, NetworkConfig(), case.streams)
    near, reached = [held[0]._exchange], set()
    for _ in range(3):
        near = [value for one in near for value in getattr(one, "__dict__", {}).values() if id(value) not in reached]
        reached |= set(map(id, near))
        arrays = [value for value in near if isinstance(value, np.ndarray) and value.size == people.labels.size]
        assert not any(np.array_equal(value, people.labels) for value in arrays)


@pytest.mark.parametrize(
    "mechanism",
    [
        {"kind": "label_exchange", "randomizer": {"kind": "vector_approximation", "epsilon": 1.0}},
        {"kind": "private_stacking", "epsilon": 1.0},
    ],
    ids=["vectors", "models"],
)
def test_what_is_no_label_is_refused(mechanism):
    models = mechanism["kind"] == "private_stacking"
    tree = {
        "population": {"kind": "synthetic"}, "clusters": {"kind": "given"}, "mechanism": mechanism,
        "engine": "processes", "learner": {"kind": "logistic_regression" if models else "one_vs_rest"},
    }  # fmt: skip
    p2p_sim.Scenario.from_tree({**tree, "engine": "events"})
    with pytest.raises(p2p_sim.InputError, match="engine = 'processes': carries only labels"):
        p2p_sim.Scenario.from_tree(tree)
