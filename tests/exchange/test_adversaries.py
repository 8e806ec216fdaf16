"""Who does not follow the protocol: how many, who, and what they say."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.adversaries import AdversariesConfig, Roles, Sybil
from p2p_sim.exchange.transcript import REPLY, REQUEST
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.availability import Always, OnOff
from p2p_sim.network.latency import Constant, Exponential
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.network.overlay import GeometricOverlay, ScaleFreeOverlay
from p2p_sim.population.population import Population, Shard
from tests.small_networks import LEADING, Case


def roles_of(config: dict, sizes=(10, 7, 40), seed: int = 1, **given) -> Roles:
    """The roles of a shard with these clusters."""
    shard = Shard(0, 0, sum(sizes), np.concatenate([[0], np.cumsum(sizes)]))
    degrees = given.get("degrees", np.ones(shard.size, np.int64))
    row = given.get("row", np.arange(shard.size, dtype=np.int32))
    return Roles.draw(adversaries(**config), shard, degrees, row, Streams(seed, 0))


def adversaries(**tree) -> AdversariesConfig:
    return AdversariesConfig.model_validate_json(json.dumps(tree))


def per_cluster(chosen: np.ndarray, sizes=(10, 7, 40)) -> list[int]:
    return [int(part.sum()) for part in np.split(chosen, np.cumsum(sizes)[:-1])]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 50), min_size=1, max_size=6), share=st.floats(0, 0.999), seed=st.integers(0, 2**32)
)
def test_every_cluster_has_its_share_of_each_role_rounded_to_whole_users(sizes, share, seed):
    expected = [round(share * size) for size in sizes]
    tree = {"coalition": {"share": share}, "liars": {"share": share}, "free_riders": {"share": share}}
    roles = roles_of(tree, tuple(sizes), seed)
    for chosen in (roles.member, roles.silent, roles.answer != -1):
        assert per_cluster(chosen, sizes) == expected
    sybil = roles_of({"sybil": {"share": share, "probe_every_s": 1.0}}, tuple(sizes), seed)
    assert per_cluster(sybil.member, sizes) == per_cluster(sybil.answer >= 0, sizes) == expected
    assert per_cluster(sybil.prober, sizes) == [min(number, 1) for number in expected]
    assert not sybil.prober[~sybil.member].any()


def test_roles_are_dealt_independently_and_to_anybody():
    """A user is in a role as often as not, whatever her other role and her place: 4,000 clusters of two, 1e-9."""
    sizes = (2,) * 4_000
    roles = roles_of({"liars": {"share": 0.5}, "free_riders": {"share": 0.5}}, sizes)
    liar, silent = (roles.answer != -1)[::2], roles.silent[::2]
    error = 6.2 * np.sqrt(0.25 / 4_000)
    assert abs(liar.mean() - 0.5) < error
    assert abs(silent.mean() - 0.5) < error
    assert abs((liar == silent).mean() - 0.5) < error
    assert abs((liar == liar).mean() - 0.5) > error  # control: one draw for both


def test_a_larger_share_keeps_who_was_in_the_smaller():
    small, large = (roles_of({"liars": {"share": share}}).answer != -1 for share in (0.2, 0.5))
    assert small.any()
    assert large[small].all()


def test_a_coalition_by_degree_takes_the_best_connected_of_each_cluster():
    case = Case(
        NetworkConfig(overlay=ScaleFreeOverlay(attachments=2)),
        (30, 50),
        adversaries=adversaries(coalition={"share": 0.2, "choice": "degree"}),
    )
    degrees, member = case.network.degrees(case.shard), case.roles.member
    assert per_cluster(member, (30, 50)) == [6, 10]
    for part in (slice(0, 30), slice(30, 80)):
        assert degrees[part][member[part]].min() >= degrees[part][~member[part]].max()


def test_ties_of_degree_are_broken_at_random():
    """Otherwise the first users of each cluster would always be taken: of 50 seeds, not the same twice in a row."""
    found = [roles_of({"coalition": {"share": 0.3, "choice": "degree"}}, seed=seed).member for seed in range(50)]
    assert len({member.tobytes() for member in found}) > 45


def test_given_members_are_found_by_their_rows_in_the_source():
    row = np.arange(57, dtype=np.int32)[::-1] * 2
    member = roles_of({"coalition": {"choice": "given", "users": [0, 4, 7, 112]}}, row=row).member
    assert row[member].tolist() == [112, 4, 0]  # row 7 is nobody's, a holdout's


def test_a_given_row_that_the_source_has_not_is_refused():
    users = Population(np.zeros((20, 1)), np.zeros(20, np.uint8), np.array([0, 20]), 2)
    mechanism = LabelExchangeMechanism(
        RandomizedResponse(0.1), 1.0, adversaries=adversaries(coalition={"choice": "given", "users": [3, 20]})
    )
    with pytest.raises(InputError, match=r"adversaries.coalition.users: 20 is no row of the source; 0 to 19"):
        mechanism.run(users, NetworkConfig(), Streams(1, 0))


@pytest.mark.parametrize(
    "tree",
    [
        {"coalition": {"choice": "given"}},
        {"coalition": {"users": [1]}},
        {"coalition": {"choice": "given", "users": [1], "share": 0.5}},
        {"liars": {"share": 1.0}},
        {"liars": {"share": 0.5, "answer": "noisy"}},
        {"sybil": {"share": 0.5, "probe_every_s": 0.0}},
        {"sybil": {"share": 0.5, "probe_every_s": 1.1e9}},
    ],
)
def test_impossible_adversaries_are_refused(tree):
    with pytest.raises(ValidationError):
        adversaries(**tree)


def test_probes_may_be_thirty_years_apart():
    assert adversaries(sybil={"share": 0.5, "probe_every_s": 1e9}).sybil.probe_every_s == 1e9


def test_nobody_is_nobody():
    honest, drawn = Roles.without_adversaries(57), roles_of({})
    for name in ("member", "silent", "answer", "prober"):
        assert np.array_equal(getattr(honest, name), getattr(drawn, name))


# -- lies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("answer", "says"), [("inverted", None), ("zero", 0), ("one", 1)])
def test_liars_say_what_they_are_told_and_the_others_their_noisy_label(classes, answer, says):
    roles = roles_of({"liars": {"share": 0.4, "answer": answer}})
    noisy = np.random.default_rng(1).integers(0, classes, 57).astype(np.uint8)
    told, liar = roles.lie(noisy, classes), roles.answer != -1
    assert liar.sum() == 4 + 3 + 16
    assert np.array_equal(told[~liar], noisy[~liar])
    assert np.array_equal(told[liar], (noisy[liar] + 1) % classes if says is None else np.full(liar.sum(), says))
    assert np.array_equal(roles.answer >= 0, liar if says is not None else np.zeros(57, dtype=bool))
    assert told.dtype == np.uint8


def test_the_sybils_answer_goes_before_the_liars():
    roles = roles_of({"liars": {"share": 0.9, "answer": "zero"}, "sybil": {"share": 0.5, "answer": "noisy"}})
    sybil = roles.member
    assert np.all(roles.answer[sybil] == -1)
    assert np.all(np.isin(roles.answer[~sybil], [-1, 0]))


def test_a_lie_is_what_every_message_and_the_release_carry():
    tree = adversaries(liars={"share": 0.5, "answer": "one"})
    users = Population(np.zeros((40, 1)), np.zeros(40, np.uint8), np.array([0, 40]), 3)
    outcome = LabelExchangeMechanism(RandomizedResponse(0.0, 3), 1.0, "events", tree).run(
        users, NetworkConfig(), Streams(1, 0), record=True
    )
    seen = outcome.transcript.messages
    replies = seen.select(seen.kind == REPLY)
    assert set(np.unique(replies.label)) == {0, 1}
    assert np.count_nonzero(outcome.release.payload) == np.count_nonzero(replies.label)


# -- free riders -----------------------------------------------------------------------------------------------------


def test_free_riders_ask_and_submit_but_never_answer():
    case = Case(NetworkConfig(), (40, 40), adversaries=adversaries(free_riders={"share": 0.5}))
    exchange = case.exchange()
    traffic = exchange.run()
    silent, seen = case.roles.silent, exchange.messages()
    asked = seen.receiver[seen.kind == REQUEST] - LEADING
    answering = seen.sender[seen.kind == REPLY] - LEADING
    assert silent[asked].any()
    assert not silent[answering].any()
    assert silent[exchange.submissions().user - LEADING].any()
    assert traffic.failed == np.count_nonzero(silent[exchange.journey.choices.peer])


# -- probing ---------------------------------------------------------------------------------------------------------


def test_a_probing_sybil_hears_from_everybody_who_serves():
    tree = {"sybil": {"share": 0.1, "probe_every_s": 0.01}, "free_riders": {"share": 0.3}}
    case = Case(NetworkConfig(start_window_s=3.0), (40, 30), adversaries=adversaries(**tree))
    exchange = case.exchange()
    exchange.run()
    roles = case.roles
    assert roles.prober.sum() == 2
    assert np.array_equal(exchange.probed, ~roles.silent & ~roles.prober)
    seen = exchange.messages()
    asked = seen.select((seen.kind == REQUEST) & np.isin(seen.sender - LEADING, np.flatnonzero(roles.prober)))
    assert len(asked) == 68 + 2  # everybody else of both clusters, and one request each of the usual kind


def test_probing_changes_nothing_in_the_exchange():
    quiet, probing = (
        Case(NetworkConfig(loss=0.1, start_window_s=1.0), (40,), adversaries=AdversariesConfig(sybil=sybil)).exchange()
        for sybil in (Sybil(share=0.1), Sybil(share=0.1, probe_every_s=0.01))
    )
    traffic = [exchange.run() for exchange in (quiet, probing)]
    assert np.array_equal(quiet.arrival, probing.arrival)
    assert traffic[0].fetches == traffic[1].fetches
    assert traffic[0].messages_sent < traffic[1].messages_sent


@pytest.mark.parametrize("seed", range(5))
def test_only_who_is_online_is_probed(seed):
    """Probes leave whenever the prober is online, a second apart; users are heard from who are there half a second
    later, if the prober is there another half second later."""
    config = NetworkConfig(
        latency=Constant(value_s=0.5), availability=OnOff(mean_on_s=3.0, mean_off_s=2.0), start_window_s=30.0
    )
    case = Case(config, (20,), seed=seed, adversaries=adversaries(sybil={"share": 0.1, "probe_every_s": 1.0}))
    exchange = case.exchange(window=16)
    exchange.run()
    j = exchange.journey
    [prober] = np.flatnonzero(case.roles.prober).astype(np.int32)
    now, heard = 0.0, []
    for user in range(20):
        if user == prober:
            continue
        now = float(j.next_online(np.array([prober]), np.array([now]))[0])
        there = j.online(np.array([user]), np.array([now + 0.5]))[0]
        if there and j.online(np.array([prober]), np.array([now + 0.5 + 0.5]))[0]:
            heard.append(user)
        now += 1.0
    assert np.flatnonzero(exchange.probed).tolist() == heard
    assert 0 < len(heard) < 19


def test_a_prober_who_has_left_asks_nobody_any_more():
    config = NetworkConfig(availability=Always(leave_share=1.0, leave_mean_s=5.0))
    case = Case(config, (60,), adversaries=adversaries(sybil={"share": 0.05, "probe_every_s": 1.0}))
    exchange = case.exchange()
    exchange.run()
    seen, [prober] = exchange.messages(), np.flatnonzero(case.roles.prober).astype(np.int32)
    online = exchange.journey.availability
    left = online.end[online.indptr[prober]]
    asked = seen.select((seen.kind == REQUEST) & (seen.sender == prober + LEADING))
    assert 0 < len(asked) < 59
    assert asked.time_s.max() < left + 5.0  # 100 medians of the travel time


def test_probes_to_far_users_take_longer():
    config = NetworkConfig(
        overlay=GeometricOverlay(radius=1.5), distance_s=100.0, latency=Exponential(mean_s=1e-3), start_window_s=0.0
    )
    case = Case(config, (20,), adversaries=adversaries(sybil={"share": 0.1, "probe_every_s": 1000.0}))
    exchange = case.exchange()
    exchange.run()
    seen, [prober] = exchange.messages(), np.flatnonzero(case.roles.prober)
    asked = seen.select((seen.kind == REQUEST) & (seen.sender == prober + LEADING) & (seen.time_s > 900.0))
    position = exchange.journey.overlay.position
    gap = np.hypot(*(position[asked.receiver - LEADING] - position[prober]).T)
    assert asked.time_s % 1000.0 == pytest.approx(100.0 * gap, abs=0.05)
    heard = seen.select((seen.kind == REPLY) & (seen.receiver == prober + LEADING) & (seen.time_s > 900.0))
    gap = np.hypot(*(position[heard.sender - LEADING] - position[prober]).T)
    assert heard.time_s % 1000.0 == pytest.approx(200.0 * gap, abs=0.05)
