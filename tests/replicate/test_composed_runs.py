"""What runs released: each as an accountant, and together in `compose`, which refuses equal random streams."""

import numpy as np
import pytest

from p2p_sim import Scenario, release
from p2p_sim.privacy import DpSgd, LabelExchange, PrivacyBound, ShuffledResponse, compose
from p2p_sim.privacy.conditions import FRESH
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.worst_of_several import WorstOf
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange

SIXTY = {"name": "twice", "population": {"kind": "synthetic", "users": 60, "num_clusters": 3}, "seed": 4}
LOSSY = {"loss": 0.1, "request_timeout_s": 1.0}


def sixty(alpha: float, **more) -> Scenario:
    return Scenario.from_tree({**SIXTY, "mechanism": {"flip_prob": alpha}, **more})


def test_a_run_on_a_realised_network_releases_its_worst_user():
    scenario = sixty(0.2, network=LOSSY)
    released = release(scenario, replicate=1).accountant.epsilon(1e-5)
    done = exchange(Replicate(scenario, 1))
    found = done.mechanism.account(done.outcome, done.population.cluster_sizes, scenario.situation(2), 1e-5)
    assert released.epsilon_upper == pytest.approx(max(bound.epsilon_upper for bound in found.learner))
    assert released.conditional_on == "the realised network"
    alone, statement = compose([release(scenario)], 1e-5), OnePoint(PrivacyBound(0, 0.5, 0, "learner", "label", ""))
    total = compose([release(scenario), release(scenario, replicate=1), statement], 1e-5)
    assert total.conditional_on == "the realised network"
    assert alone.epsilon_upper < total.epsilon_upper


def test_scenarios_without_messages_are_composed_whole():
    for name, kind in (("dp-sgd", DpSgd), ("curator", WorstOf)):
        assert isinstance(release(name).accountant, kind)


def test_one_statement_is_worth_its_dominating_pair():
    """Against dp-accounting's privacy loss distribution of an (ε, δ) statement."""
    from dp_accounting.pld import common
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters

    model = OnePoint(PrivacyBound(0.0, 1.0, 1e-4, "learner", "label", "stated"))
    stated = common.DifferentialPrivacyParameters(1.0, 1e-4)
    theirs = from_privacy_parameters(stated, value_discretization_interval=1e-3)
    for epsilon in (0.0, 0.3, 0.99, 1.0, 2.0):
        assert model.delta(epsilon).upper == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-6)
    for delta in (1e-4, 2e-4, 0.1):
        assert model.delta(model.epsilon(delta).epsilon_upper).upper == pytest.approx(delta, rel=1e-6)
    assert model.epsilon(1e-5).epsilon_upper == np.inf


def test_the_worst_of_several():
    models = (LabelExchange(20, 0.2, 0.5), ShuffledResponse(12, 0.2))
    worst = WorstOf(models)
    for epsilon in (0.0, 0.4, 0.9):
        assert worst.delta(epsilon).upper == max(model.delta(epsilon).upper for model in models)


@pytest.mark.parametrize(("salt", "told"), [(0, True), (1, False)])
def test_two_releases_with_shared_noise_tell_labels_for_certain(salt, told):
    """Where they differ the same number lies between the two flip probabilities: the weaker noise left the label."""
    tree = {"name": "twice", "population": {"kind": "synthetic", "users": 2_000}, "engine": "vectorised"}
    settings = [{"mechanism": {"kind": "randomized_response", "flip_prob": alpha}} for alpha in (0.1, 0.3)]
    first, second = (
        exchange(Replicate(Scenario.from_tree({**tree, **mechanism, "noise_salt": own})))
        for mechanism, own in zip(settings, (0, salt), strict=True)
    )
    assert (first.population.labels == second.population.labels).all()
    [weak, strong] = (one.outcome.labels.payload for one in (first, second))
    [differ] = np.nonzero(weak != strong)
    assert len(differ) > 300
    assert bool((weak == first.population.labels)[differ].all()) == told


def test_releases_of_runs_are_composed_from_python():
    first, second = sixty(0.1), sixty(0.3)
    with pytest.raises(ValueError, match="releases 1 and 2: both are drawn with seed = 4, replicate 0, noise_salt = 0"):
        compose([release(first), release(second)], 1e-4)
    with pytest.raises(ValueError, match="release 1, twice: both are drawn"):
        compose([release(first)] * 2, 1e-4)
    apart = compose([release(first), release(second.replace(noise_salt=1)), release(first, replicate=1)], 1e-4)
    assert FRESH not in apart.conditions
    bare = [release(first).accountant, release(second).accountant, release(first, replicate=1).accountant]
    in_words = compose(bare, 1e-4)
    assert FRESH in in_words.conditions  # nobody knows what they were drawn with
    assert in_words.epsilon_upper == pytest.approx(apart.epsilon_upper)
