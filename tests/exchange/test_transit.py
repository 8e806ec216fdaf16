"""Faults of messages in transit that plug-ins offer: what they do, what is said of privacy, how they are refused."""

import json
import sys
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from pydantic import Field, create_model
from scipy.stats import binomtest

import p2p_sim
from p2p_sim.base import plugins
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.cli.main import main
from p2p_sim.exchange.adversaries import AdversariesConfig, Sybil
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.exchange.network_record import Unknown
from p2p_sim.exchange.transcript import REPLY
from p2p_sim.network.faults import NetworkFault
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.scenario import Scenario, load_scenario
from tests.exchange.test_batched_exchange import differences, left_behind
from tests.plug_ins import EXAMPLE, install
from tests.small_networks import LEADING, Case, cases

ERROR = 1e-9
ALPHA = 0.2
LOCAL = np.log(4.0)
"""ε₀ at α = 0.2."""
AT_ONCE = {"latency": {"kind": "constant", "value_s": 0.25}}
MODULE = """
from typing import Literal
import numpy as np
from pydantic import Field
from p2p_sim import extend
class Slow(extend.NetworkFault):
    kind: Literal["slow"] = "slow"
    by_s: float = Field(default=0.5, ge=0)
    def delay_s(self, messages):
        return np.where(messages.sender % 2 == 0, self.by_s, 0.0)
class Twice(extend.NetworkFault):
    kind: Literal["twice"] = "twice"
    share: float = 0.5
    def duplicated(self, messages):
        return messages.uniform("twice") < self.share
class Garbled(extend.NetworkFault):
    kind: Literal["garbled"] = "garbled"
    share: float = 0.25
    def corrupted(self, messages, payload, num_classes):
        hit = messages.uniform("garbled") < self.share
        payload[hit] = (payload[hit] + 1) % num_classes
        return payload
class Cut(extend.NetworkFault):
    kind: Literal["cut"] = "cut"
    share: float = 0.5
    def lost(self, messages):
        return messages.uniform("cut") < self.share
class Odd(extend.NetworkFault):
    kind: Literal["odd"] = "odd"
    what: str
    def lost(self, messages):
        return 0.5 if self.what == "lost" else np.zeros(messages.user.size, dtype=bool)
    def delay_s(self, messages):
        return np.full(messages.user.size, -1.0 if self.what == "delay_s" else 0.0)
    def duplicated(self, messages):
        return np.zeros(messages.user.size + (self.what == "duplicated"), dtype=bool)
    def corrupted(self, messages, payload, num_classes):
        return np.full_like(payload, 7) if self.what == "corrupted" else payload
class Idle(extend.NetworkFault):
    kind: Literal["idle"] = "idle"
"""
KINDS = {"slow": "Slow", "twice": "Twice", "garbled": "Garbled", "cut": "Cut", "odd": "Odd", "idle": "Idle"}


@pytest.fixture
def faulty(folder):
    """The import path with a package of all these kinds."""
    install(folder, "faulty", "1", {"p2p_sim.faults": {kind: f"faulty:{name}" for kind, name in KINDS.items()}}, MODULE)
    plugins.offers.cache_clear()
    return folder


def network(*faults, **more) -> NetworkConfig:
    return NetworkConfig.model_validate_json(json.dumps({**AT_ONCE, "in_transit": faults, **more}))


def scenario(*faults, users=400, **changes) -> Scenario:
    return Scenario.from_tree(
        {"name": "x", "replicates": 1, "population": {"kind": "synthetic", "users": users, "num_clusters": 4},
         "mechanism": {"kind": "label_exchange", "flip_prob": ALPHA}, "network": {**AT_ONCE, "in_transit": faults}}
    ).replace(**changes)  # fmt: skip


def finished(config: NetworkConfig, users=20_000, **more):
    exchange = Case(config, (users,), **more).exchange()
    return exchange, exchange.run()


# -- the example -----------------------------------------------------------------------------------------------------


def jammed(from_s: float, share: float = 0.4, for_s: float = 0.1) -> dict:
    return {"kind": "jammed", "from_s": from_s, "for_s": for_s, "share": share}


def test_jamming_loses_the_share_of_what_is_sent_in_its_time(installed):
    """Requests leave at 0, replies at 0.25, submissions at 0.5: in each window one leg. The control jams nothing."""
    for from_s in (0.0, 0.2, 0.45):
        submitted = finished(network(jammed(from_s)))[0].submissions().user.size
        assert binomtest(submitted, 20_000, 0.6).pvalue > ERROR
        assert binomtest(submitted, 20_000, 0.57).pvalue < ERROR
    assert finished(network(jammed(0.6)))[0].submissions().user.size == 20_000


def test_the_example_runs_and_its_bound_is_the_noise_alone(installed, tmp_path):
    result = p2p_sim.run(load_scenario(EXAMPLE / "jammed.toml"))
    assert result.row["messages_lost"] > 0
    assert result.row["epsilon_upper"] == pytest.approx(LOCAL)
    assert result.privacy[0].basis == "noise alone: nobody has said what network.in_transit does"


# -- privacy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"network.overlay": {"kind": "regular", "degree": 4}},
        {"network.availability": {"kind": "on_off", "mean_on_s": 1.0, "mean_off_s": 1.0}},
        {"adversaries.coalition.share": 0.2},
        {"adversaries.free_riders.share": 0.3},
        {"adversaries.liars.share": 0.3},
    ],
)
@pytest.mark.parametrize("fault", [{"kind": "cut", "share": 1e-9}, {"kind": "cut", "share": 1.0}, {"kind": "garbled"}])
def test_every_bound_holds_whatever_the_network_does(faulty, more, fault):
    """ε₀ for all observers, even where nothing arrived: that, too, may depend on labels for all that is known."""
    row = p2p_sim.run(scenario(fault, **more)).row
    seen = [row[f"epsilon_{who}upper"] for who in ("", "others_", "times_", "coalition_")]
    assert seen[:3] == pytest.approx([LOCAL] * 3)
    assert seen[3] is None or seen[3] == pytest.approx(LOCAL)
    assert row.get("epsilon_unmet_upper") is None


def test_the_same_losses_by_a_key_that_is_accounted_for_leave_less(faulty):
    """The control: what is listed keeps its bounds, and nothing seen is 0."""
    assert p2p_sim.run(scenario(**{"network.loss": 0.5})).row["epsilon_upper"] < 0.9 * LOCAL
    assert p2p_sim.run(scenario(**{"network.loss": 1 - 1e-12})).row["epsilon_upper"] == 0.0


def test_each_users_figure_is_that_of_the_noise(faulty):
    from p2p_sim.mechanisms.exchange_accounting import user_epsilons

    ready = scenario({"kind": "cut"}, **{"adversaries.free_riders.share": 0.3})
    result = p2p_sim.run(ready)
    from p2p_sim.mechanisms.randomized_response import RandomizedResponse
    from p2p_sim.replicate.replicate import Replicate as Replicate
    from p2p_sim.replicate.run import prepare

    prepared = prepare(Replicate(ready))
    done = prepared.mechanism.run(result.population, ready.network, Streams(1, 0))
    epsilons, bound = user_epsilons(done.realised, RandomizedResponse(ALPHA), 1e-5)
    assert epsilons == pytest.approx(LOCAL)
    assert bound.epsilon_upper == pytest.approx(LOCAL)
    assert bound.conditional_on == ""


def test_a_key_of_the_network_that_nobody_listed_leaves_the_noise_alone():
    """Its fetches would else count as those of a network without it: the control."""
    from p2p_sim.exchange.network_record import realised

    planted = create_model("Planted", __base__=NetworkConfig, corruption=(float, 0.0))
    for config, anything in ((planted(corruption=0.5), True), (planted(), False)):
        law = realised(finished(config, 50)[0]).law
        assert (isinstance(law, Unknown) and law.anything) is anything


# -- effects ---------------------------------------------------------------------------------------------------------


def test_a_delay_is_added_to_the_travel_time_of_whom_it_meets(faulty):
    exchange, _ = finished(network({"kind": "slow", "by_s": 0.5}))
    users = np.arange(20_000)
    peers = exchange.source
    expected = 0.75 + 0.5 * (users % 2 == 0) + 0.5 * (peers % 2 == 0) + 0.5 * (users % 2 == 0)
    assert exchange.arrival == pytest.approx(expected)


def test_a_share_is_delivered_twice(faulty):
    """Each of the messages that are sent is doubled with probability 1/2, one number a message."""
    _, traffic = finished(network({"kind": "twice", "share": 0.5}))
    assert binomtest(traffic.messages_duplicated, traffic.messages_sent, 0.5).pvalue > ERROR
    assert binomtest(traffic.messages_duplicated, traffic.messages_sent, 0.52).pvalue < ERROR


def test_labels_are_corrupted_in_replies_and_submissions(faulty):
    """A label is wrong if one of both is changed, not both: 2 q (1-q); the control has one of them alone."""
    exchange, _ = finished(network({"kind": "garbled", "share": 0.25}))
    received = exchange.submissions()
    users, labels = received.user, received.label
    wrong = int(np.count_nonzero(labels != exchange._payload[exchange.source[users - exchange._shard.start]]))
    assert binomtest(wrong, users.size, 2 * 0.25 * 0.75).pvalue > ERROR
    assert binomtest(wrong, users.size, 0.25).pvalue < ERROR


def test_two_faults_of_a_kind_have_random_numbers_of_their_own(faulty):
    """Three legs, each kept by both with probability 0.8²; the control has the same numbers twice."""
    submitted = finished(network(*[{"kind": "cut", "share": 0.2}] * 2))[0].submissions().user.size
    assert binomtest(submitted, 20_000, 0.8**6).pvalue > ERROR
    assert binomtest(submitted, 20_000, 0.8**3).pvalue < ERROR


EVERY = [{"kind": "slow"}, {"kind": "twice"}, {"kind": "garbled"}, {"kind": "cut", "share": 0.1}]


@pytest.mark.parametrize("examples", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_both_engines_of_messages_agree_to_the_last_bit(faulty, examples):
    every = network(*EVERY).in_transit

    @settings(max_examples=examples, deadline=None)
    @given(case=cases)
    def agree(case):
        latency = case.config.latency
        assume(latency.kind != "constant" and getattr(latency, "sigma", 1.0) > 0.0)  # copies that come at one instant
        case = replace(case, config=case.config.model_copy(update={"in_transit": every}))
        plain = left_behind(case.processes())
        assert differences(case.exchange(True), plain) == []
        assert differences(case.exchange(False), plain) == []

    agree()


def test_a_corruption_that_is_forgotten_is_seen(faulty, monkeypatch):
    case = Case(network(*EVERY), (50,))
    plain = left_behind(case.processes())
    assert differences(case.exchange(), plain) == []
    monkeypatch.setattr(ShardExchange, "_arrived", lambda self, kind, users, source: self._payload[source])
    assert differences(case.exchange(), plain) != []


def test_what_a_probe_hears_may_be_corrupted(faulty):
    """One label in four is changed on its way; the control is a network that changes none."""
    roles, changed = AdversariesConfig(sybil=Sybil(share=0.1, answer="noisy", probe_every_s=1e-3)), []
    for faults in (({"kind": "garbled", "share": 0.25},), ()):
        case = Case(network(*faults), (40,), adversaries=roles)
        exchange = case.exchange(True)
        exchange.run()
        seen = exchange.messages()
        heard = seen.select((seen.kind == REPLY) & np.isin(seen.receiver - LEADING, np.flatnonzero(case.roles.prober)))
        assert len(heard) >= 39
        changed.append(np.count_nonzero(heard.label != case.payload[heard.sender - LEADING]))
    assert 0 < changed[0] < 30
    assert changed[1] == 0


def test_corrupted_labels_of_three_classes_and_vectors_run(faulty):
    classes = {
        "population": {"kind": "circle", "users": 200, "num_classes": 3},
        "clusters": {"kind": "kmeans", "count": 2},
    }
    assert p2p_sim.run(scenario({"kind": "garbled"}, **classes)).row["epsilon_upper"] == pytest.approx(np.log(8.0))
    vectors = {"kind": "label_exchange", "randomizer": {"kind": "vector_approximation", "epsilon": 1.0}}
    learner = {"kind": "one_vs_rest"}
    clean, garbled = (
        p2p_sim.run(scenario(*faults, **classes, mechanism=vectors, learner=learner))
        for faults in ((), ({"kind": "garbled"},))
    )
    assert garbled.row["epsilon_upper"] == pytest.approx(1.0)
    assert garbled.release.payload.shape == clean.release.payload.shape
    assert (garbled.release.payload != clean.release.payload).any()


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "changes", "message"),
    [
        ([{"kind": "cut"}], {"engine": "vectorised"}, "draws from a network without faults: network.in_transit needs"),
        (
            [{"kind": "cut"}],
            {"mechanism": {"kind": "randomized_response", "flip_prob": 0.2}},
            "no messages of it are simulated; leave out network.in_transit",
        ),
        (
            [{"kind": "cut"}],
            {"mechanism": {"kind": "private_stacking", "epsilon": 1.0}},
            "network.in_transit has no meaning for models",
        ),
        (
            [{"kind": "cut"}],
            {"mechanism": {"kind": "label_exchange", "target_epsilon": 1.0}},
            "mechanism.target_epsilon = 1: can be met only if .*; with network.in_transit, give flip_prob",
        ),
        ([{"kind": "slow", "by_s": -1.0}], {}, "network.in_transit.0.by_s = -1.0: should be greater than or equal"),
        ([{"kind": "cut"}, {"kind": "cut", "shar": 0.1}], {}, "network.in_transit.1.shar: unknown key"),
        ([{"kind": "cit"}], {}, "network.in_transit.0.kind = .cit.: must be one of 'cut', .*; did you mean cut"),
        ([{"share": 0.1}], {}, "network.in_transit.0.kind is missing"),
        ([3], {}, "network.in_transit.0 = 3: should be an object"),
        ([{"kind": "idle"}], {}, "'idle' of plug-in faulty 1 defines none of lost, delay_s, duplicated, corrupted"),
    ],
)
def test_mistakes_are_one_line(faulty, faults, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        scenario(*faults, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("lost", r"lost must give an array of bool \(\d+,\), not float"),
        ("delay_s", "delay_s must give finite seconds of at least 0"),
        ("duplicated", r"duplicated must give an array of bool \(\d+,\), not bool \(\d+,\)"),
        ("corrupted", "corrupted must give labels below 2, not 7"),
    ],
)
def test_what_a_fault_must_not_give_is_one_line(faulty, what, message):
    with pytest.raises(InputError, match=f"network.in_transit.kind = 'odd': {message}"):
        p2p_sim.run(scenario({"kind": "odd", "what": what}))


def test_the_command_ends_with_status_2_and_one_line(installed, monkeypatch, capsys, tmp_path):
    text = (EXAMPLE / "jammed.toml").read_text().replace("share = 0.4", "share = 1.4")
    (tmp_path / "bad.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "run", "bad.toml"])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr().err
    assert stop.value.code == 2
    assert shown.splitlines() == [
        "p2p-sim: bad.toml: network.in_transit.0.share = 1.4: should be less than or equal to 1"
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("site", "bad.toml")] == []


def test_without_a_plug_in_there_is_no_kind(folder):
    with pytest.raises(InputError, match=r"network.in_transit.0.kind = .jammed.: must be one of those of an installed"):
        scenario({"kind": "jammed"})
    assert "in_transit" in Scenario.model_json_schema()["$defs"]["NetworkConfig"]["properties"]


def test_a_kind_of_the_simulators_own_stands_beside_those_of_plug_ins(faulty):
    class Own(NetworkFault):
        kind: Literal["own"] = "own"
        share: float = Field(default=0.5, le=1)

        def lost(self, messages):
            return messages.uniform("own") < self.share

    union = tuple[Annotated[Own, plugins.PlugIns(plugins.FAULTS, NetworkFault)], ...]
    config = create_model("WithOwn", __base__=NetworkConfig, in_transit=(union, ()))
    made = config.model_validate_json('{"in_transit": [{"kind": "own"}, {"kind": "cut", "share": 0.25}]}')
    assert [fault.kind for fault in made.in_transit] == ["own", "cut"]
    with pytest.raises(ValueError, match="less than or equal to 1"):
        config.model_validate_json('{"in_transit": [{"kind": "own", "share": 2.0}]}')


# -- identity --------------------------------------------------------------------------------------------------------


def test_a_list_that_is_empty_changes_no_identity_and_one_that_is_not_holds_the_version(faulty):
    assert "in_transit" not in scenario().canonical()["network"]
    one, other = scenario({"kind": "cut"}), scenario({"kind": "cut", "share": 0.2})
    assert len({ready.content_hash() for ready in (one, other, scenario())}) == 3
    assert one.packages == {"faulty": "1"}
    assert one.canonical()["network"]["in_transit"][0]["plug-in"] == "faulty 1"
    assert Scenario.from_tree(one.model_dump(mode="json")) == one


def test_the_schema_has_the_kinds(installed):
    schema = json.dumps(Scenario.model_json_schema())
    assert "JammedConfig" in schema
    assert "Probability that a message sent in that time is lost" in schema


def test_a_base_alone_is_no_fault():
    with pytest.raises(ValueError, match="defines none of"):
        NetworkFault(kind="none")
