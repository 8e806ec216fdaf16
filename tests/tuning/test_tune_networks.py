"""On every network with a fault, with every role of an adversary: each look states its ε, or is refused in one line."""

import itertools
import math

import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.exchange.adversaries import AdversariesConfig
from p2p_sim.network.network_config import HARMLESS, NetworkConfig
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import account, exchange
from p2p_sim.tuning.goal import Goal
from p2p_sim.tuning.run_search import make_tuning, tune
from p2p_sim.tuning.search_space import Dimension, Space

pytest.importorskip("optuna")
PENALTY = Space((Dimension("learner.l2", values=(1.0, 2.0)),), 2)
FAULTS = {
    "overlay": {"overlay": {"kind": "regular", "degree": 4}},
    "peers": {"peers": {"kind": "gossip"}},
    "distance_s": {"overlay": {"kind": "geometric", "mean_degree": 6.0}, "distance_s": 1.0},
    "loss": {"loss": 0.05, "request_timeout_s": 1.0},
    "in_transit": {"in_transit": [{"kind": "jammed", "from_s": 0.0, "for_s": 0.1, "share": 0.4}]},
    "learner_bandwidth_bps": {"learner_bandwidth_bps": 1e4},
    "availability": {"availability": {"kind": "on_off", "mean_on_s": 5.0, "mean_off_s": 1.0}},
    "request_timeout_s": {"request_timeout_s": 0.1},
    "on_timeout": {"loss": 0.2, "request_timeout_s": 1.0, "on_timeout": {"fallback": "own_label"}},
    "deadline_s": {"deadline_s": 0.2},
    "batch_submission": {"deadline_s": 2.0, "batch_submission": True},
}
LOCAL = math.log(4.0) * (1.0 + 1e-9)
"""At least ε₀ at α = 0.2."""
ROLES = ("nobody", *AdversariesConfig.model_fields)


def scenario(mechanism: dict, fault: str, role: str) -> p2p_sim.Scenario:
    tree = {
        "name": "faulty",
        "replicates": 1,
        "population": {"kind": "synthetic", "users": 60, "num_clusters": 2},
        "mechanism": mechanism,
        "network": FAULTS[fault],
        "adversaries": {} if role == "nobody" else {role: {"share": 0.2}},
    }
    return p2p_sim.Scenario.from_tree(tree)


def test_every_fault_has_a_network():
    assert set(FAULTS) == set(NetworkConfig.model_fields) - {key.split(".")[1] for key in HARMLESS}


@pytest.mark.parametrize("role", ROLES)
def test_whatever_is_exchanged_can_be_accounted_for(role, installed):
    for fault in FAULTS:
        case = Replicate(scenario({"flip_prob": 0.2}, fault, role))
        done = exchange(case)
        accounted = account(case, done.population, done.mechanism, done.outcome)
        assert 0.0 <= accounted.statements["epsilon_upper"].epsilon_upper <= LOCAL
        assert accounted.learner == p2p_sim.run(case.scenario).privacy


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("look", ["public", "oracle"])
@pytest.mark.slow_where(lambda role: role != "nobody")
@pytest.mark.filterwarnings("ignore:--accuracy:UserWarning")
def test_a_search_states_its_epsilon_whatever_fails(look, role, installed, tmp_path):
    for fault in FAULTS:
        faulty = scenario({"flip_prob": 0.2}, fault, role)
        tuned = tune(make_tuning(faulty, Goal(accuracy=0.01), PENALTY, look), 1, tmp_path / fault)
        assert 0.0 <= tuned.best.epsilon <= LOCAL
        assert tuned.best.row["messages_sent"] > 0


def test_released_labels_without_a_known_law_judge_nothing_and_a_curator_has_no_messages_that_could_fail(installed):
    curated = {"kind": "dp_sgd", "target_epsilon": 1.0, "epochs": 1.0}
    for fault, role in itertools.product(FAULTS, ROLES):
        faulty = scenario({"flip_prob": 0.2}, fault, role)
        with pytest.raises(InputError, match=r"^--look released: needs released labels whose law is known; leave out"):
            make_tuning(faulty, Goal("accuracy", epsilon=1.0), PENALTY, "released")
        with pytest.raises(InputError, match="no messages of it are simulated; leave out network"):
            scenario(curated, fault, role)
