"""The audit passes the honest exchange and fails planted leaks, all run as messages through the event engine.

Every test fails a sound mechanism with probability at most 1e-9 (each of the δ- and the ε-test), since the bounds it
compares are Clopper-Pearson bounds at that error. What each detects is stated with it; seeds are fixed.
"""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from p2p_sim.audit.faulty_network_attack import run_world
from p2p_sim.audit.small_exchange_attack import audit
from p2p_sim.base.errors import InputError
from p2p_sim.exchange import engines
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.network.latency import Exponential
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.privacy import LabelExchange, lemma9_epsilon
from p2p_sim.privacy.audit_statistics.power import AttackPlan, AuditResult, plan
from p2p_sim.privacy.audit_statistics.view_laws import CoalitionViews, LearnerViews
from p2p_sim.scenario import Scenario
from tests.planted import FreshNoise, OwnLabel, Truthful, exchange

NETWORK = NetworkConfig(start_window_s=1.0)


def attacked(attack: AttackPlan, mechanism, network: NetworkConfig = NETWORK, seed: int = 3) -> AuditResult:
    return attack.judge(np.stack([run_world(attack, mechanism, network, seed, label).views for label in (0, 1)]))


def scenario(alpha: float, theta: float, delta: float = 1e-3, **network) -> Scenario:
    tree = {"name": "small", "mechanism": {"flip_prob": alpha, "sampling_rate": theta}, "privacy": {"delta": delta}}
    return Scenario.from_tree({**tree, "network": {"start_window_s": 1.0, **network}})


def drawn() -> list[tuple[int, float, float, float]]:
    """Eight scenarios (n, α, θ, δ) with n >= 2/α; in the last four δ is barely large enough for Lemma 9 to apply."""
    rng, found = np.random.default_rng(20), []
    for i in range(8):
        n = int(rng.integers(10, 31) if i < 4 else rng.integers(22, 31))
        alpha = float(rng.uniform(2.0 / n, 0.3) if i < 4 else rng.uniform(0.18, 0.3))
        theta = float(rng.uniform(0.3, 1.0) if i < 4 else rng.uniform(0.8, 1.0))
        least = math.exp(-2.25 * alpha**3 * theta * n / (alpha + 1.0 / n))
        delta = 10.0 ** float(rng.uniform(-4, -1)) if i < 4 else least * float(rng.uniform(1.01, 1.2))
        found.append((n, alpha, theta, delta))
    return found


@pytest.mark.parametrize(
    ("n", "alpha", "theta", "delta", "trials"),
    [(*drawn()[1], 20_000), *(pytest.param(*case, 150_000, marks=pytest.mark.slow) for case in drawn())],
)
def test_attack_exact_and_paper_are_in_order(n, alpha, theta, delta, trials):
    """Detects an exact bound that is too low, by the margin that `detectable` names, or a paper's bound below it."""
    done = audit(scenario(alpha, theta, delta), trials=trials, cluster_size=n)
    result = done.result
    assert result.passed
    assert 0.0 < result.delta_lower_confidence <= result.delta_exact.upper < result.detectable
    assert result.detectable < 2.0 * result.delta_exact.upper
    assert result.delta_lower_confidence == pytest.approx(result.expected, abs=0.02)
    if done.lemma9.epsilon is not None:
        assert result.epsilon_exact.upper <= done.lemma9.epsilon


def test_lemma9_applies_to_some_of_the_drawn_scenarios():
    assert sum(lemma9_epsilon(*case) is not None for case in drawn()) >= 4


@pytest.mark.parametrize("members", [1, *(pytest.param(count, marks=pytest.mark.slow) for count in (2, 5))])
def test_the_honest_exchange_passes_against_a_coalition(members):
    """Detects a coalition that learns more than the exact law of its view allows; the attack is worth something."""
    done = audit(scenario(0.1, 0.6), "coalition", members, trials=25_000, cluster_size=10)
    assert done.result.passed
    assert done.result.delta_lower_confidence > 0.6 * done.result.delta_exact.lower
    assert done.result.epsilon_lower_confidence > 0.8 * done.result.epsilon_exact.lower


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("views", [CoalitionViews(6, 0.2, 0.6, 2), LearnerViews(LabelExchange(6, 0.2, 0.6))])
def test_views_follow_their_law(views, label):
    """A G-test at 1e-9 over the cells with at least 20 expected hits, the rest pooled; it sees 0.002 nats.

    The control holds the counts against the law of the other world.
    """
    attack = plan(views, 1e-3, 60_000)
    counts = run_world(attack, exchange(0.2, 0.6), NETWORK, 5, label).views

    def p_value(world: int) -> float:
        expected = attack.law.probabilities[world] * attack.trials
        many = expected >= 20
        seen = np.append(counts[many], counts[~many].sum())
        awaited = np.append(expected[many], expected[~many].sum())
        hit = seen > 0
        return float(chi2.sf(2.0 * np.sum(seen[hit] * np.log(seen[hit] / awaited[hit])), seen.size - 1))

    assert p_value(label) > 1e-9 > p_value(1 - label)


@pytest.mark.parametrize(("alpha", "theta"), [(0.0, 0.5), (0.5, 1.0), (0.1, 1e-9)])
@pytest.mark.parametrize("observer", ["learner", "coalition"])
def test_extreme_parameters_pass(alpha, theta, observer):
    """No flips at all (ε infinite), nothing but noise (ε = 0), hardly a submission."""
    result = audit(scenario(alpha, theta), observer, trials=2_000, cluster_size=4).result
    assert result.passed
    assert math.isinf(result.epsilon_exact.upper) == (alpha == 0.0)


def test_late_replies_only_lower_the_sampling_rate():
    """Detects lateness that depends on labels or favours a peer; about half of the replies are late."""
    network = NetworkConfig(start_window_s=1.0, request_timeout_s=0.1)
    result = attacked(plan(LearnerViews(LabelExchange(8, 0.1, 1.0)), 1e-3, 60_000), exchange(0.1, 1.0), network)
    assert result.passed
    assert result.delta_lower_confidence > 0.1


@pytest.mark.parametrize("members", [0, 1, 2])
@pytest.mark.slow_where(lambda members: members > 0)
def test_a_true_label_is_caught(members):
    """Detects one user who does not flip (n = 8, α = 0.1, θ = 0.8).

    The learner then proves δ = 0.27 where 0.21 is exact; one member and the learner 0.28 where 0.19 is, two 0.41, 0.29.
    """
    views = CoalitionViews(8, 0.1, 0.8, members) if members else LearnerViews(LabelExchange(8, 0.1, 0.8))
    attack = plan(views, 1e-3, 40_000)
    assert attacked(attack, exchange(0.1, 0.8)).passed
    leak = attacked(attack, LabelExchangeMechanism(Truthful(0.1, size=8), 0.8))
    assert not leak.passed
    assert leak.delta_lower_confidence > leak.delta_exact.upper


def test_an_ignored_sampling_rate_is_caught():
    """Detects that everything is submitted although θ = 0.2 (n = 6, α = 0.1)."""
    attack = plan(LearnerViews(LabelExchange(6, 0.1, 0.2)), 1e-3, 40_000)
    assert attacked(attack, exchange(0.1, 0.2)).passed
    leak = attacked(attack, exchange(0.1, 1.0))
    assert leak.delta_lower_confidence > leak.delta_exact.upper


def test_fresh_noise_per_request_is_caught(monkeypatch):
    """Detects one round in which every request draws new noise (n = 10, α = 0.2, θ = 1)."""
    attack = plan(LearnerViews(LabelExchange(10, 0.2, 1.0)), 1e-3, 60_000)
    assert attacked(attack, exchange(0.2, 1.0)).passed
    monkeypatch.setattr(engines, "ShardExchange", FreshNoise)
    leak = attacked(attack, exchange(0.0, 1.0))
    assert leak.delta_lower_confidence > leak.delta_exact.upper


def test_own_label_after_a_failed_fetch_is_caught(monkeypatch):
    """Detects the fall back to one's own noisy label where most replies are late (n = 8, α = 0.1, θ = 1)."""
    network = NetworkConfig(latency=Exponential(mean_s=1.0), request_timeout_s=0.5)
    attack = plan(LearnerViews(LabelExchange(8, 0.1, 1.0)), 1e-3, 60_000)
    assert attacked(attack, exchange(0.1, 1.0), network).passed
    monkeypatch.setattr(engines, "ShardExchange", OwnLabel)
    leak = attacked(attack, exchange(0.1, 1.0), network)
    assert leak.delta_lower_confidence > leak.delta_exact.upper


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observer": "peer"}, "--observer"),
        ({"members": 2, "cluster_size": 5}, "--members 2: needs"),
        ({"observer": "coalition", "members": 6, "cluster_size": 9}, r"--members 6: must lie in 1\.\.5"),
        ({"observer": "coalition", "members": 3, "cluster_size": 3}, "--members 3: must be below"),
        ({"trials": 10}, "--trials 10"),
        ({"cluster_size": 2_000_000}, r"--cluster-size 2000000: must lie in 2\.\.1000000"),
        ({"cluster_size": 31, "epsilon": 0.1}, "--observer, --epsilon: an audit of clusters above 30 users"),
        ({"cluster_size": 5, "epsilon": 3.0}, "--epsilon 3: must be at least 0 and below"),
        ({"observer": "coalition"}, "--observer, --epsilon: an audit of clusters above 30 users"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        audit(scenario(0.1, 0.5), **arguments)
