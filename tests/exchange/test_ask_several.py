"""Users who ask several peers: the engines agree to the last bit, and draw from the exact joint law.

Each of many clusters of three users is one draw of the whole cluster's release, whose law is enumerated. A G-test
rejects at 1e-9; every planted mistake is caught.
"""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

import p2p_sim
from p2p_sim.base.streams import Streams
from p2p_sim.exchange import held_labels
from p2p_sim.exchange.algorithm import label_exchange
from p2p_sim.exchange.held_labels import Questions
from p2p_sim.exchange.message_timing import MessageTiming
from p2p_sim.exchange.peers import Asking
from p2p_sim.measures.privacy_sentences import adds_little
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.availability import OnOff
from p2p_sim.network.network_config import NetworkConfig, OnTimeout, RandomWalk
from p2p_sim.network.overlay import RegularOverlay
from p2p_sim.population.population import Population
from p2p_sim.privacy import MajorityExchange, PluralityExchange
from tests.exchange.test_batched_exchange import differences, left_behind, small
from tests.small_networks import Case, cases

ALPHA, THETA, CLUSTERS, FALSE_ALARM = 0.2, 0.6, 60_000, 1e-9
THREE, MIXED = Asking(((3, 1.0),)), Asking(((1, 0.3), (3, 0.3), (5, 0.4)))
LABELS = {2: (0, 1, 1), 3: (0, 1, 2)}


def of_one(noisy: tuple[int, ...], classes: int, k: int, came: float, answered: bool) -> np.ndarray:
    """The law of what a user would submit, given all noisy labels: a class, or nothing (the last entry)."""
    found = np.zeros(classes + 1)
    for number in range(k + 1):
        weight = binom.pmf(number, k, came)
        if number == 0 or (number < k and not answered):
            found[-1] += weight
            continue
        for replies in itertools.product(noisy, repeat=number):
            votes = Counter(replies)
            most = [label for label, count in votes.items() if count == max(votes.values())]
            found[most] += weight / len(noisy) ** number / len(most)
    return found


def law(
    classes: int, shares: tuple[tuple[int, float], ...], theta: float = THETA, came: float = 1.0, answered: bool = False
) -> np.ndarray:
    """The joint law of what a cluster of three submits."""
    labels, total = LABELS[classes], np.zeros((classes + 1,) * 3)
    for noisy in itertools.product(range(classes), repeat=3):
        flips = sum(a != b for a, b in zip(noisy, labels, strict=True))
        chance = (1 - ALPHA) ** (3 - flips) * (ALPHA / (classes - 1)) ** flips
        one = theta * sum(share * of_one(noisy, classes, k, came, answered) for k, share in shares)
        one[-1] += 1 - theta
        total += chance * np.einsum("a,b,c->abc", one, one, one)
    return total.ravel()


def population(classes: int = 2) -> Population:
    labels = np.tile(np.array(LABELS[classes], np.uint8), CLUSTERS)
    return Population(np.zeros((labels.size, 1)), labels, np.arange(0, labels.size + 1, 3), classes)


def p_value(users: np.ndarray, labels: np.ndarray, expected: np.ndarray) -> float:
    """Of a G-test; outcomes below 20 expected counts are taken together."""
    classes = round(expected.size ** (1 / 3)) - 1
    view = np.full(3 * CLUSTERS, classes)
    view[users] = labels
    counts = np.bincount(view.reshape(-1, 3) @ (classes + 1) ** np.array([2, 1, 0]), minlength=expected.size)
    expected = expected * CLUSTERS
    rare = expected < 20
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum() + 1e-12)
    seen = counts > 0
    g = 2.0 * np.sum(counts[seen] * np.log(counts[seen] / expected[seen]))
    return float(chi2.sf(g, len(counts) - 2))


def released(asking: Asking, classes: int, engine: str = "events", **network) -> tuple[np.ndarray, np.ndarray]:
    mechanism = LabelExchangeMechanism(RandomizedResponse(ALPHA, classes), THETA, engine, asking=asking)
    release = mechanism.run(population(classes), NetworkConfig(**network), Streams(11, 0)).release
    return release.user, release.payload


def printed(classes: int, peers: int) -> tuple[np.ndarray, np.ndarray]:
    clusters = [(3 * c, 3 * c + 1, 3 * c + 2) for c in range(CLUSTERS)]
    found = label_exchange(
        population(classes).labels.tolist(), clusters, flip_prob=ALPHA, sampling_rate=THETA, num_classes=classes,
        rng=np.random.default_rng(7), peers=peers,
    )  # fmt: skip
    return np.array(list(found)), np.array(list(found.values()))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_algorithm_draws_from_the_joint_law(classes):
    assert p_value(*printed(classes, 3), law(classes, THREE.shares)) > FALSE_ALARM


@pytest.mark.parametrize("engine", ["events", "vectorised"])
@pytest.mark.parametrize(("classes", "asking"), [(2, THREE), (3, THREE), (2, MIXED)])
def test_engines_draw_from_the_joint_law(classes, asking, engine):
    """The control has the law of one peer."""
    found = released(asking, classes, engine)
    assert p_value(*found, law(classes, asking.shares)) > FALSE_ALARM
    assert p_value(*found, law(classes, ((1, 1.0),))) < FALSE_ALARM


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("answered", [False, True])
def test_replies_that_never_come(classes, answered):
    """Each reply comes with probability 0.8², each submission with 0.8. The control takes the other rule."""
    found = released(replace(THREE, answered=answered), classes, loss=0.2, request_timeout_s=1e6)
    chance = {"theta": THETA * 0.8, "came": 0.8**2}
    assert p_value(*found, law(classes, THREE.shares, **chance, answered=answered)) > FALSE_ALARM
    assert p_value(*found, law(classes, THREE.shares, **chance, answered=not answered)) < FALSE_ALARM


def wrong_releases() -> dict[str, tuple[int, np.ndarray]]:
    """Classes and submitted labels (CLUSTERS, 3) of engines with a planted mistake."""
    rng = np.random.default_rng(5)
    truth = population().labels.reshape(-1, 3)
    rows, peers = np.arange(CLUSTERS)[:, None, None], rng.integers(0, 3, (CLUSTERS, 3, 3))
    noisy = truth ^ (rng.random(truth.shape) < ALPHA)
    fresh = truth[rows, peers] ^ (rng.random(peers.shape) < ALPHA)
    three = population(3).labels.reshape(-1, 3).astype(int)
    three = (three + rng.integers(1, 3, three.shape) * (rng.random(three.shape) < ALPHA)) % 3
    votes = np.stack([(three[rows, peers] == label).sum(axis=2) for label in range(3)], axis=2)
    return {
        "fresh noise per request": (2, fresh.sum(axis=2) > 1),
        "without replacement": (2, np.repeat(noisy.sum(axis=1, keepdims=True) > 1, 3, axis=1)),
        "one draw of peers for all": (2, np.repeat((noisy[rows, peers].sum(axis=2) > 1)[:, :1], 3, axis=1)),
        "ties to the least label": (3, votes.argmax(axis=2)),
    }


@pytest.mark.parametrize("name", wrong_releases())
def test_a_planted_wrong_engine_is_caught(name):
    classes, labels = wrong_releases()[name]
    users = np.flatnonzero(np.random.default_rng(6).random(labels.size) < THETA)
    assert p_value(users, labels.ravel()[users].astype(int), law(classes, THREE.shares)) < FALSE_ALARM


@pytest.mark.parametrize("asking", [THREE, MIXED, Asking(((41, 1.0),))])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("network", [{}, {"overlay": RegularOverlay(degree=3), "peers": RandomWalk(length=2)}])
def test_all_engines_release_the_same_bytes(asking, classes, network, monkeypatch):
    """In several shards."""
    monkeypatch.setattr("p2p_sim.population.population.BLOCK", 100)
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(4, 40, 20))])
    users = Population(
        np.zeros((offsets[-1], 1)), rng.integers(0, classes, offsets[-1]).astype(np.uint8), offsets, classes
    )
    found = [
        LabelExchangeMechanism(RandomizedResponse(0.1, classes), 0.7, engine, asking=asking)
        .run(users, NetworkConfig(start_window_s=0.5, **network), Streams(3, 1))
        .release
        for engine in ("vectorised", "events", "processes")
    ]
    assert len({(one.user.tobytes(), one.payload.tobytes()) for one in found}) == 1
    assert found[0].user.size > 100


askings = st.builds(Asking, st.sampled_from([THREE.shares, MIXED.shares]), st.booleans())


@settings(max_examples=40, deadline=None)
@given(
    case=st.builds(lambda case, asking, classes: replace(case, asking=asking, num_classes=classes),
                   cases, askings, st.sampled_from([2, 4])),
    window=st.sampled_from([1, 16, 8192]),
)  # fmt: skip
def test_messages_and_processes_leave_the_same_behind(case, window):
    """Any faults, retries and adversaries."""
    plain = left_behind(case.processes())
    assert differences(case.exchange(True, window), plain) == []
    assert differences(case.exchange(False, window), plain) == []


faulty = small(
    request_timeout_s=1.0,
    on_timeout=OnTimeout(retry="redraw", attempts=2),
    availability=OnOff(mean_on_s=1.0, mean_off_s=0.5),
)
FAULTY = replace(faulty, asking=replace(MIXED, answered=True))


def first_settled(right):
    def settle(self, users, times):
        done = right(self, users, times)
        self.last_s[users] = times
        return done

    return settle


MISTAKES = {
    "a submission does not wait for the last reply": (Questions, "settle", first_settled),
    "the last of a majority is taken for the first": (
        held_labels, "first_of_majority", lambda right: lambda labels: -1 - right(labels[:, ::-1]),
    ),
    "attempts wait as if there was one question": (
        MessageTiming, "in_question", lambda right: lambda self, attempt: attempt,
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_sees_a_planted_mistake(mistake, monkeypatch):
    owner, name, wrong = MISTAKES[mistake]
    plain = left_behind(FAULTY.processes())
    assert differences(FAULTY.exchange(), plain) == []
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    assert differences(FAULTY.exchange(), plain) != []


BASE = {"population": {"kind": "synthetic", "users": 300, "num_clusters": 3}, "learner": {"kind": "table"}}


def scenario(classes: int = 2, **parts) -> p2p_sim.Scenario:
    """Changes in the keys of a mechanism, and other parts."""
    people = BASE if classes == 2 else {"population": {"kind": "wine"}, "learner": {"kind": "knn"}}
    mechanism = {"flip_prob": 0.2, "sampling_rate": 0.8, **parts.pop("mechanism", {})}
    mechanism = {key: value for key, value in mechanism.items() if value is not None}
    return p2p_sim.Scenario.from_tree({**people, "seed": 3, **parts, "mechanism": mechanism})


def test_one_peer_is_what_it_was():
    """A table that says so has another identity, and the same rows."""
    plain = scenario()
    assert scenario(mechanism={"peers": 1, "missing": "silent"}).content_hash() == plain.content_hash()
    sure = scenario(mechanism={"peers": {"1": 1.0}})
    assert sure.content_hash() != plain.content_hash()
    rows = [
        {key: repr(value) for key, value in p2p_sim.run(one).row.items() if key != "scenario"} for one in (plain, sure)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("peers", [3, {"1": 0.5, "5": 0.5}])
@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_the_learner_s_figure_is_that_of_majorities_where_nothing_fails(peers, engine):
    done = p2p_sim.run(scenario(mechanism={"peers": peers}, engine=engine))
    weights = peers if isinstance(peers, int) else {int(k): share for k, share in peers.items()}
    exact = MajorityExchange(int(done.row["min_cluster_size"]), 0.2, 0.8, weights).epsilon(1e-5)
    assert done.row["epsilon_upper"] == pytest.approx(exact.epsilon_upper, rel=1e-9)
    assert done.row["epsilon_upper"] < done.row["epsilon_local"]
    assert done.row["epsilon_paper_lemma9"] is None
    assert done.row["epsilon_paper_theorem3"] is None


def test_of_more_classes_it_is_that_of_shuffled_labels():
    row = p2p_sim.run(scenario(3, mechanism={"peers": 3})).row
    bound = PluralityExchange(int(row["min_cluster_size"]), 0.2, 0.8, 3).epsilon(1e-5)
    assert row["epsilon_upper"] == pytest.approx(bound.epsilon_upper, rel=1e-9)


@pytest.mark.parametrize(
    "parts",
    [
        {"network": {"loss": 0.1}},
        {"network": {"overlay": {"kind": "regular", "degree": 3}}},
        {"network": {"peers": {"kind": "gossip"}}},
        {"adversaries": {"coalition": {"share": 0.1}}},
        {"adversaries": {"free_riders": {"share": 0.1}}},
        {"mechanism": {"flip_prob": 0.0}},
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_elsewhere_only_the_noise_is_accounted_for(parts, classes):
    row = p2p_sim.run(scenario(classes, **{**parts, "mechanism": {"peers": 3, **parts.get("mechanism", {})}})).row
    if classes == 2 or "mechanism" not in parts:
        assert row["epsilon_upper"] == row["epsilon_local"]


def test_a_target_is_met_exactly_where_it_can_be():
    row = p2p_sim.run(scenario(mechanism={"peers": 3, "flip_prob": None, "target_epsilon": 0.7})).row
    assert 0.65 < row["epsilon_upper"] <= 0.7
    assert row["epsilon_local"] > 1.0


WRONG = (0, 2, 43, -1, 1.0, "3", True, {}, {"2": 1.0}, {"1": 0.5, "3": 0.4}, {"1": -1, "3": 2}, {"x": 1})
TARGET = {"peers": 3, "flip_prob": None, "target_epsilon": 1.0}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        *(({"mechanism": {"peers": wrong}}, "mechanism.peers") for wrong in WRONG),
        ({"mechanism": {"peers": 3, "missing": "never"}}, "mechanism.missing"),
        ({"mechanism": {"peers": 3, "debias": True}}, "debias"),
        ({"mechanism": {"peers": 3, "flip_prob": None, "randomizer": {"kind": "alibi", "epsilon": 1.0}}}, "randomizer"),
        ({"mechanism": TARGET, "network": {"loss": 0.1}}, "network.loss"),
        ({"mechanism": TARGET, "adversaries": {"coalition": {"share": 0.1}}}, "adversaries.coalition"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused_in_one_line(parts, text):
    with pytest.raises(p2p_sim.InputError) as refused:
        scenario(**parts)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_learners_that_need_the_law_of_the_noise_are_refused():
    with pytest.raises(p2p_sim.InputError):
        p2p_sim.run(scenario(mechanism={"peers": 3}, learner={"kind": "forward_correction"}))


def test_what_helps_is_not_said_of_majorities_that_may_fail():
    """Larger clusters change nothing there."""
    row = p2p_sim.run(scenario(mechanism={"peers": 3}, network={"loss": 0.1})).row
    assert "an ideal network" in adds_little(row["epsilon_upper"], row["epsilon_local"], row["basis"])
    row = p2p_sim.run(scenario(network={"overlay": {"kind": "regular", "degree": 1}})).row
    assert "an ideal network" not in adds_little(row["epsilon_local"], row["epsilon_local"], row["basis"])


@pytest.mark.parametrize("asking", [Asking(THREE.shares, True), Asking(MIXED.shares, False)])
def test_the_same_peer_is_asked_again_although_views_have_changed(asking):
    network = NetworkConfig(
        peers={"kind": "gossip", "view_size": 1, "refresh_s": 0.3}, latency={"kind": "constant", "value_s": 0.0},
        loss=0.5, start_window_s=0.0, request_timeout_s=0.15, on_timeout={"retry": "same_peer", "attempts": 3},
    )  # fmt: skip
    for seed in range(4):
        case = Case(network, (2,), 0.5, seed, asking=asking)
        assert differences(case.exchange(True, 1), left_behind(case.processes())) == []
