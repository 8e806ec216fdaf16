"""Audits of users who ask several peers: sound exchanges pass, wrong claims and planted leaks fail.

Each audit fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

import itertools

import numpy as np
import pytest

from p2p_sim.audit.exchange_attack import audit_exchange, worst_labels
from p2p_sim.audit.small_exchange_attack import audit
from p2p_sim.base.errors import InputError
from p2p_sim.exchange.peers import Asking, Peers
from p2p_sim.mechanisms import LabelExchangeMechanism, RandomizedResponse
from p2p_sim.privacy import MajorityExchange
from p2p_sim.privacy.exchange import peer_weights
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.scenario import Scenario
from tests.commands import command

MIXTURE = {"1": 0.5, "5": 0.5}


def scenario(peers=3, engine="vectorised", alpha=0.1, theta=1.0, **keys) -> Scenario:
    mechanism = {"flip_prob": alpha, "sampling_rate": theta, "peers": peers}
    return Scenario.from_tree({"name": "several", "seed": 1, "engine": engine, "mechanism": mechanism} | keys)


@pytest.mark.parametrize(("peers", "engine", "size"), [(3, "vectorised", 40), (MIXTURE, "events", 12)])
def test_a_sound_exchange_passes_and_a_claim_of_more_noise_fails(peers, engine, size):
    done = audit(scenario(peers, engine), trials=20_000, cluster_size=size)
    assert done.passed
    assert 0.5 * done.certified[0] < done.attacked[0] <= done.certified[0]
    weights = peers if isinstance(peers, int) else {int(k): share for k, share in peers.items()}
    expected = MajorityExchange(size, 0.1, 1.0, weights).epsilon(done.bound.delta)
    assert done.bound.epsilon_upper == expected.epsilon_upper
    assert not audit_exchange(Replicate(scenario(peers, engine)), 20_000, size, claimed_flip_prob=0.3).passed


@pytest.mark.parametrize("engine", ["vectorised", "events"])
def test_users_who_often_ask_themselves_are_caught(engine, monkeypatch):
    """A planted leak: with probability .3 a user puts all questions but the first to herself."""
    again = Peers.again

    def leaking(self, users, attempt, times):
        peers = again(self, users, attempt, times)
        leaks = self.streams.uniforms("planted", self.shard.index).at(users) < 0.3
        return np.where(leaks, users, peers).astype(peers.dtype)

    assert audit(scenario(3, engine), trials=6_000, cluster_size=40).passed
    monkeypatch.setattr(Peers, "again", leaking)
    assert not audit(scenario(3, engine), trials=6_000, cluster_size=40).passed


def test_the_bound_is_that_of_the_worst_cluster_of_the_scenarios_own():
    population = {"kind": "synthetic", "users": 900, "num_clusters": 3}
    own = scenario(5, population=population)
    done = audit(own, trials=1_000)
    assert done.passed
    bounds = [MajorityExchange(n, 0.1, 1.0, 5).epsilon(1e-5) for n in Replicate(own).people().cluster_sizes.tolist()]
    assert (done.bound.delta, done.bound.epsilon_upper) == (1e-5, max(bound.epsilon_upper for bound in bounds))


@pytest.mark.parametrize("peers", [3, 5, {1: 0.5, 5: 0.5}])
def test_copies_have_nearly_the_worst_data_set(peers):
    """Within a tenth of the largest δ over all data sets; control: with five peers, all zeros is not."""
    for size, alpha in itertools.product((40, 90), (0.1, 0.3)):
        exchange = MajorityExchange(size, alpha, 1.0, peers)
        evaluator = DeltaEvaluator(exchange.setting, -14.0)
        law = np.array([evaluator.at(ones, 0.2).upper for ones in range((size + 1) // 2)])
        mechanism = LabelExchangeMechanism(RandomizedResponse(alpha), 1.0, asking=Asking(peer_weights(peers)))
        assert law[worst_labels(mechanism, size).sum()] >= 0.9 * law.max()
        assert peers != 5 or law[0] < 0.9 * law.max()


def test_what_is_not_audited_of_several_peers_is_one_line():
    for given, keys in (
        ({"observer": "coalition"}, {}),
        ({"epsilon": 0.3}, {}),
        ({}, {"engine": "events", "network": {"loss": 0.1, "request_timeout_s": 0.2}}),
    ):
        with pytest.raises(InputError, match=r"several peers|asks one peer"):
            audit(scenario(**keys), trials=1_000, cluster_size=40, **given)


def test_the_command_prints_how_many_peers_and_the_worst_cluster():
    options = ("--cluster-size", "40", "--trials", "1000", "--set", 'engine="vectorised"')
    status, out, _ = command("audit", "ask-three", *options)
    assert status == 0
    assert "peers 3" in out
    assert "certified, worst cluster" in out
