"""Protocols besides the label exchange: what they send, which ε is stated of them, and audits of what they declare."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import p2p_sim
from p2p_sim.audit.protocol_attack import audit_protocol
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.protocol import Protocol
from p2p_sim.exchange.transcript import REQUEST, SUBMISSION
from p2p_sim.mechanisms.pushed_labels import PushedWalk
from p2p_sim.privacy import MajorityExchange, ShuffledResponse, local_epsilon
from p2p_sim.privacy.rivals.declared_protocols import SubmissionLaw
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.scenario import Scenario

ALPHA = 0.3


def scenario(mechanism, users=400, **network):
    return Scenario.from_tree(
        {
            "name": "shelf",
            "engine": "processes",
            "population": {"kind": "synthetic", "users": users, "num_clusters": 10},
            "mechanism": {"flip_prob": ALPHA, **mechanism},
            "network": network,
            "learner": {"kind": "table"},
            "privacy": {"delta": 1e-5},
        }
    )


def pushed(steps=1, **network):
    return scenario({"kind": "pushed_labels", "steps": steps}, **network)


def transcript(case):
    done = prepare(Replicate(case))
    outcome = done.mechanism.run(done.population, case.network, Streams(case.seed, 0), record=True)
    return outcome.transcript.messages


def shuffled(case):
    sizes = prepare(Replicate(case)).population.cluster_sizes
    return max(ShuffledResponse(int(n), ALPHA).epsilon(1e-5).epsilon_upper for n in sizes)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_label_walks_its_steps_and_is_submitted(steps):
    messages = transcript(pushed(steps))
    assert (messages.kind == REQUEST).sum() == 400 * steps
    assert (messages.kind == SUBMISSION).sum() == 400


def test_the_learner_learns_from_every_label_that_is_submitted():
    """A user who holds several labels submits each of them; behind a slow link they come later, and none is lost."""
    for network in ({}, {"learner_bandwidth_bps": 1e5}):
        done = prepare(Replicate(pushed(**network)))
        outcome = done.mechanism.run(done.population, pushed(**network).network, Streams(1, 0), record=True)
        user, submitted = outcome.labels.user, outcome.transcript.view("learner")
        assert len(user) == len(outcome.arrival_s) == 400 > len(np.unique(user))
        assert (np.diff(user) >= 0).all()
        assert np.bincount(outcome.labels.payload).tolist() == np.bincount(submitted.label).tolist()
        slower = np.sort(outcome.arrival_s) - np.sort(submitted.time_s)
        assert (slower > 0).all() if network else (slower == 0).all()


def test_the_learner_has_the_bound_for_shuffled_labels():
    row = p2p_sim.run(pushed()).row
    assert row["epsilon_upper"] == shuffled(pushed()) < local_epsilon(ALPHA)
    assert row["epsilon_coalition_upper"] == row["epsilon_times_upper"] == row["epsilon_local"] == local_epsilon(ALPHA)


@pytest.mark.parametrize(
    "network",
    [
        {"loss": 0.01},
        {"request_timeout_s": 1.0},
        {"availability": {"kind": "on_off", "mean_on_s": 10.0, "mean_off_s": 1.0}},
        {"overlay": {"kind": "regular", "degree": 10}},  # one step on it tells much
        {"deadline_s": 10.0},
    ],
)
def test_whatever_can_fail_leaves_the_noise_alone(network):
    assert p2p_sim.run(pushed(**network)).row["epsilon_upper"] == local_epsilon(ALPHA)


def test_long_walks_on_an_overlay_come_near_the_shuffled_bound():
    row = p2p_sim.run(pushed(30, overlay={"kind": "regular", "degree": 16})).row
    assert shuffled(pushed()) <= row["epsilon_upper"] < 1.1 * shuffled(pushed())


def test_gossip_submits_nothing_and_begins_with_the_noisy_label():
    case = scenario({"kind": "gossip_averaging", "rounds": 5})
    messages = transcript(case)
    assert set(messages.kind.tolist()) == {REQUEST}
    assert len(messages) == 5 * 400
    assert p2p_sim.run(case).row["epsilon_upper"] == local_epsilon(ALPHA)


@dataclass(frozen=True)
class Declared(Protocol):
    """The label exchange as a plug-in would write it, with its law. own: how often she submits her own label."""

    own: float = 0.0

    def user(self, me):
        reply = yield me.ask()
        me.submit(me.noisy_label if me.coin("own", self.own) else reply)

    def law(self):
        return SubmissionLaw(lambda share: share)


@dataclass(frozen=True)
class Kept(PushedWalk):
    """Planted: three in ten users submit their own labels."""

    def user(self, me):
        if me.coin("own", 0.3):
            me.submit(me.noisy_label)
            yield me.online()
        else:
            yield from super().user(me)


def audited(protocol, planted, trials):
    """An audit of a mechanism that claims one protocol and runs another."""
    case = Replicate(pushed(users=1_000))
    claimed = replace(prepare(case).mechanism, protocol=protocol)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("p2p_sim.mechanisms.pushed_labels.PushedLabelsConfig.protocol", lambda _: protocol)
        return audit_protocol(case, trials, mechanism=replace(claimed, protocol=planted))


@pytest.mark.parametrize(
    ("protocol", "planted"), [(Declared(), Declared(own=0.1)), (PushedWalk(1), Kept(1))], ids=["by law", "by symmetry"]
)
def test_who_submits_her_own_label_is_caught(protocol, planted):
    """By law: one who does so a tenth of the time."""
    done = audited(protocol, planted, 10_000)
    assert not done.passed
    assert "own" in done.refuted.name or "label" in done.refuted.name
    assert audited(protocol, protocol, 4_000).passed


def test_a_plug_in_with_the_law_of_an_exchange_has_its_epsilon():
    case = Replicate(pushed(users=1_000))
    declared = replace(prepare(case).mechanism, protocol=Declared())
    [bound] = declared.privacy(np.array([40]), 1e-5)
    exact = MajorityExchange(40, ALPHA, 1.0, 1).epsilon(1e-5)
    assert bound.epsilon_upper == pytest.approx(exact.epsilon_upper, rel=1e-6)
    assert "declared-law" in {condition.identifier for condition in bound.conditions}
