"""Audits in one run: sound exchanges pass, wrong claims and planted leaks fail, on either engine and at any size.

Each audit fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from p2p_sim.audit.exchange_attack import ClusterCurves, audit_exchange, exchange_attack, people_of
from p2p_sim.audit.exchange_targets import ClusterTargets, copies, own_users
from p2p_sim.audit.local_attack import audit_local
from p2p_sim.audit.model_attack import audit_model
from p2p_sim.audit.scores import LikelihoodRatio
from p2p_sim.base.errors import InputError
from p2p_sim.cli.printing.one_run_audits import model_output
from p2p_sim.mechanisms.randomized_response import RandomizedResponseConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy.audit_statistics.one_run_guesses import binomial_power
from p2p_sim.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.scenario import Scenario
from tests.false_alarms import false_alarms
from tests.planted import exchange
from tests.planted_faults import Planted

FAULTY = {
    "start_window_s": 1.0,
    "loss": 0.1,
    "request_timeout_s": 0.15,
    "on_timeout": {"retry": "redraw", "attempts": 3},
}
SYNTHETIC = {"kind": "synthetic", "users": 3000, "num_clusters": 20}


def case(alpha: float = 0.1, theta: float = 1.0, engine: str = "vectorised", seed: int = 1, **keys) -> Replicate:
    mechanism = {"flip_prob": alpha, "sampling_rate": theta}
    return Replicate(
        Scenario.from_tree({"name": "large", "seed": seed, "engine": engine, "mechanism": mechanism} | keys)
    )


def flip_prob_with(share: float, size: int = 100) -> float:
    """The α in place of 0.1 at which δ(0) is so much smaller, θ = 1."""
    least, low, high = share * LabelExchange(size, 0.1, 1.0).delta(0.0).upper, 0.1, 0.5
    for _ in range(30):
        middle = 0.5 * (low + high)
        below = LabelExchange(size, middle, 1.0).delta(0.0).upper < least
        low, high = (low, middle) if below else (middle, high)
    return high


@pytest.mark.slow
def test_a_hundred_users_vectorised():
    """Refuses the curve of an α whose δ(0) is 40% smaller, with probability above .99, and accepts the true one."""
    done = audit_exchange(case(), 100_000, 100)
    assert (done.passed, done.users, done.realised) == (True, 10_000_000, False)
    claimed = done.certified[0]
    assert binomial_power(0.6 * claimed, claimed, 100_000, 0.5e-9) > 0.99
    assert done.attacked[0] > 0.6 * claimed
    assert done.flip_prob_refused is not None
    assert 0.1 < done.flip_prob_refused < flip_prob_with(0.6)
    assert done.smallest_rise == pytest.approx(1.1)
    assert not audit_exchange(case(), 100_000, 100, claimed_flip_prob=flip_prob_with(0.6)).passed


@pytest.mark.slow
def test_a_million_clusters_vectorised():
    """Refuses the curve of the α whose δ(0) is 10% smaller, with probability above .8, and accepts the true one."""
    true = LabelExchange(100, 0.1, 1.0).delta(0.0).upper
    assert binomial_power(0.9 * true, true, 1_000_000, 0.5e-9) > 0.8
    assert audit_exchange(case(), 1_000_000, 100).passed
    assert not audit_exchange(case(), 1_000_000, 100, claimed_flip_prob=flip_prob_with(0.9)).passed


@pytest.mark.slow
def test_a_hundred_thousand_clusters_with_loss_and_retries():
    """As events: refuses the curve of the α whose δ(0) is 40% smaller, and accepts the true one."""
    faulty = case(engine="events", network=FAULTY)
    done = audit_exchange(faulty, 100_000, 100)
    assert (done.passed, done.realised) == (True, True)
    assert not audit_exchange(faulty, 100_000, 100, claimed_flip_prob=flip_prob_with(0.6)).passed


@pytest.mark.slow
def test_loss_and_retries():
    """Refuses the curve of the α whose δ(0) is 40% as large, in clusters of 40 users."""
    faulty = case(engine="events", network=FAULTY)
    assert audit_exchange(faulty, 10_000, 40).passed
    assert not audit_exchange(faulty, 10_000, 40, claimed_flip_prob=flip_prob_with(0.4, 40)).passed


@pytest.mark.slow
def test_own_labels_where_fetches_fail_are_accounted_for():
    """The attack proves far more than the exchange without faults allows, and no more than is certified."""
    network = {"start_window_s": 1.0, "loss": 0.3, "request_timeout_s": 0.15, "on_timeout": {"fallback": "own_label"}}
    done = audit_exchange(case(engine="events", network=network), 6_000, 24)
    assert done.passed
    ideal = [bracket.upper for bracket in LabelExchange(24, 0.1, 1.0).profile(done.epsilons)]
    assert (done.attacked > ideal).any()


@pytest.mark.parametrize("engine", ["vectorised", pytest.param("events", marks=pytest.mark.slow)])
def test_a_scenario_at_its_own_size(engine):
    done = audit_exchange(case(engine=engine, population=SYNTHETIC | {"users": 800}), 10_000)
    assert done.passed
    assert done.clusters is not None
    assert done.clusters[0] < 40 < done.clusters[1]
    assert 0.0 < done.attacked[0] < done.certified[0]
    assert done.expected[0] == pytest.approx(done.attacked[0], abs=0.03)


def test_users_who_are_drawn_are_those_who_are_held():
    asked = case(population=SYNTHETIC)
    drawn, held = people_of(asked), asked.people()
    assert not isinstance(drawn, Population)
    found = [
        list(ClusterTargets(asked, exchange(0.1, 1.0, engine="vectorised"), own_users(people)).batches(50, 7))
        for people in (drawn, held)
    ]
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one.features, other.features)
        assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize("ones", [0, 5, 11])
def test_the_score_is_the_exact_likelihood_ratio(ones):
    labels = np.zeros(12, dtype=np.uint8)
    labels[1 : 1 + ones] = 1
    targets = ClusterTargets(case(), exchange(0.15, 0.6, engine="vectorised"), copies(labels))
    [batch] = targets.batches(500, 3)
    zero, one = LabelExchange(12, 0.15, 0.6).privacy_loss_pmfs(ones)
    views = list(zip(batch.sent.tolist(), batch.sent_ones.tolist(), strict=True))
    expected = [math.log(one[view]) - math.log(zero[view]) for view in views]
    assert LikelihoodRatio(0.15, 0.6, True)(batch) == pytest.approx(expected, abs=1e-9)
    near = LikelihoodRatio(0.15, 0.6, False)(batch)
    assert np.corrcoef(near, expected)[0, 1] > 0.9


@pytest.mark.slow
def test_simulated_audits_of_a_sound_exchange_hardly_ever_fail():
    """1,000 audits at error .01: 25 or more false alarms have probability below 1e-4; at error 1e-9 there are none."""
    labels = np.zeros(31, dtype=np.uint8)
    targets = ClusterTargets(case(), exchange(0.1, 1.0, engine="vectorised"), copies(labels))
    attack = exchange_attack(targets, True, 5_000, 0)
    account = ClusterCurves(targets.mechanism, np.array([31]), 1e-5)
    often, never = false_alarms(attack, account)
    assert often <= 25
    assert never == 0


LEAKS = (
    Planted("own label", 0.3, 60_000),
    Planted("true label", 0.3, 60_000),
    Planted("neighbour's label", 0.5, 60_000),
    Planted("common flips", 0.5, 60_000),
    Planted("flips redrawn", 1.0, 200_000),
    Planted("fetches among equals", 0.5, 60_000),
    Planted("silence", 0.7, 60_000),
)
"""Planted faults through which more of a label is learnt than is certified."""


QUICK = ("true label",)
"""The others are found, each with its smallest strength, by the slow test below."""


@pytest.mark.parametrize("planted", [one for one in LEAKS if one.fault in QUICK], ids=lambda planted: planted.name)
def test_planted_leaks_are_caught(planted, monkeypatch):
    """The classifier finds them in the raw view: nobody tells it what to look for."""
    planted.plant(monkeypatch)
    asked = case(planted.flip_prob, planted.sampling_rate, "events", network={"start_window_s": 1.0})
    assert not audit_exchange(asked, planted.trials, planted.cluster_size).passed


@pytest.mark.slow
@pytest.mark.parametrize("planted", LEAKS, ids=lambda planted: planted.fault)
def test_the_smallest_planted_leak_that_is_caught(planted, capsys):
    """Prints it: of a few strengths, the smallest that 200,000 targets show."""
    asked = case(planted.flip_prob, planted.sampling_rate, "events", network={"start_window_s": 1.0})
    for strength in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0):
        with pytest.MonkeyPatch.context() as patched:
            replace(planted, strength=strength).plant(patched)
            caught = not audit_exchange(asked, 200_000, planted.cluster_size).passed
        if caught:
            with capsys.disabled():
                print(f"\n{planted.fault}: caught from probability {strength:g} on")
            break
    assert caught


@pytest.mark.parametrize("fault", ["order by label"])
def test_what_tells_nothing_about_a_label_is_no_leak(fault, monkeypatch):
    """It departs from the law of the exchange, which other tests hold it against."""
    planted = Planted(fault, 1.0, 20_000)
    planted.plant(monkeypatch)
    asked = case(planted.flip_prob, planted.sampling_rate, "events", network={"start_window_s": 1.0})
    assert audit_exchange(asked, planted.trials, planted.cluster_size).passed
    assert planted.audit().passed


def test_the_same_audit_passes_without_a_leak():
    assert audit_exchange(case(0.1, 0.5, "events", network={"start_window_s": 1.0}), 60_000, 12).passed


def local(mechanism: dict, **keys) -> Replicate:
    tree = {"name": "local", "population": SYNTHETIC, "mechanism": mechanism}
    return Replicate(Scenario.from_tree(tree | keys))


LOCAL = (
    local({"kind": "randomized_response", "flip_prob": 0.2}),
    local(
        {"kind": "randomized_response", "flip_prob": 0.2, "debias": True}, learner={"kind": "soft_logistic_regression"}
    ),
    local({"kind": "alibi", "target_epsilon": 2.0}, learner={"kind": "soft_logistic_regression"}),
    local({"kind": "alibi", "target_epsilon": 2.0, "prior": "cluster"}, learner={"kind": "soft_logistic_regression"}),
    local({"kind": "vector_approximation", "target_epsilon": 2.0}, learner={"kind": "one_vs_rest"}),
    local({"kind": "rr_with_prior", "target_epsilon": 2.0}),
)


@pytest.mark.parametrize("asked", LOCAL, ids=lambda asked: asked.scenario.mechanism.kind)
def test_local_mechanisms_pass_and_the_attack_is_worth_something(asked):
    done = audit_local(asked, 30_000)
    assert done.passed
    assert done.epsilon_attacked > 0.7 * done.bound.epsilon_upper
    assert done.power > 0.1 or done.smallest_rise is not None


def test_too_little_local_noise_is_caught():
    """The control: α is 0.18 instead of 0.2."""
    weak = RandomizedResponseConfig(flip_prob=0.18).deployed(prepare(LOCAL[0]).mechanism.setup)
    assert not audit_local(LOCAL[0], 60_000, mechanism=weak).passed


def test_a_model_trained_with_too_little_noise_is_caught():
    """The control: σ is 2 instead of 31.5, which ε = 0.5 needs; the claim itself passes."""
    mechanism = {"kind": "dp_sgd", "target_epsilon": 0.5, "sampling_rate": 1.0, "epochs": 5.0}
    asked = local(mechanism, population={"kind": "wine"}, clusters={"kind": "kmeans", "count": 3, "min_size": 2})
    sound = prepare(asked).mechanism
    done = audit_model(asked, 3_000)
    assert done.passed
    assert done.bound.delta < done.error
    weak = audit_model(asked, 3_000, mechanism=sound.model_copy(update={"noise_multiplier": 2.0}))
    assert weak.curve_refused
    assert weak.mu_attacked > 2.0 * math.sqrt(5.0) / 31.5 > done.mu_attacked
    assert "refuses the certified trade-off curve" in model_output(weak).failure


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InputError, match="users do not send messages of their own"):
        audit_local(local({"kind": "dp_sgd", "target_epsilon": 1.0}), 1000)
    with pytest.raises(InputError, match="needs 'dp_sgd'"):
        audit_model(LOCAL[0], 1000)
    with pytest.raises(InputError, match="has 10 classes"):
        audit_exchange(case(population={"kind": "digits", "task": "classes"}), 1000)
