"""LabelDP-Pro: the projection against a solver, tiny runs enumerated, and an attack on what a step shows.

Statistical tests raise a false alarm with probability at most 1e-9 each.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import beta, norm

import p2p_sim
from p2p_sim.audit.model_attack import audit_model
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.dp_sgd import LabelDpProConfig, class_residuals, clipped_gradient_sum, mixed, nearest_mixture
from p2p_sim.mechanisms.outcome import ModelRelease
from p2p_sim.population.population import Population
from p2p_sim.privacy import DpSgd, calibrate_noise
from p2p_sim.privacy.rivals.dp_sgd import ProjectedSteps
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.scenario import Scenario

FALSE_ALARM = 1e-9
LABELS = (-1.0, 1.0)
"""Clipped gradients of one weight under the two labels: opposite, of norm C = 1."""


def rows_of(seed, rows=5, classes=3, dims=2):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, dims)).astype(np.float32)
    weights = rng.normal(size=(classes, dims)).astype(np.float32)
    norms = np.linalg.norm(inputs, axis=1)
    return rng, inputs, weights, norms


@pytest.mark.parametrize("clip", [0.3, 100.0])
def test_class_gradients_are_the_clipped_gradients_of_single_rows(clip):
    _, inputs, weights, norms = rows_of(1)
    residuals = class_residuals(weights, inputs, norms, clip)
    for row, label in itertools.product(range(5), range(3)):
        one = np.zeros((5, 3))
        one[row, label] = 1.0
        plain = clipped_gradient_sum(weights, inputs[[row]], norms[[row]], np.array([label], dtype=np.uint8), clip)
        np.testing.assert_allclose(mixed(one, residuals, inputs), plain, atol=1e-6)
        assert np.linalg.norm(plain) <= clip * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_projection_is_as_near_as_a_general_solver_gets(seed):
    rng, inputs, weights, norms = rows_of(seed)
    residuals = class_residuals(weights, inputs, norms, 1.0)
    target = rng.normal(size=(3, 2)).astype(np.float32)

    def distance(mixture):
        return float(np.square(mixed(mixture.reshape(5, 3), residuals, inputs).astype(float) - target).sum())

    found = nearest_mixture(target, residuals, inputs, 3000)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)
    solved = minimize(
        distance, np.full(15, 1 / 15), bounds=[(0, 1)] * 15, method="SLSQP",
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1}, options={"maxiter": 500, "eps": 1e-4},
    )  # fmt: skip
    assert distance(found) <= solved.fun + 1e-3
    assert distance(found) < distance(np.full(15, 1 / 15)) - 1e-2  # control: not projected at all


def test_a_mixture_is_its_own_projection():
    rng, inputs, weights, norms = rows_of(7)
    residuals = class_residuals(weights, inputs, norms, 1.0)
    inside = mixed(rng.dirichlet(np.ones(15)).reshape(5, 3), residuals, inputs)
    found = mixed(nearest_mixture(inside, residuals, inputs, 3000), residuals, inputs)
    np.testing.assert_allclose(found, inside, atol=2e-3)


def worlds(sigma, rate, others, target, shown):
    """Density on a grid of one noisy step, and of each batch if it is `shown`: (batches or 1, points) and the grid."""
    x = np.linspace(-len(others) - 2 - 12 * sigma, len(others) + 2 + 12 * sigma, 40_001)
    found = []
    for batch in itertools.product((0, 1), repeat=len(others) + 1):
        chosen = math.prod(rate if b else 1 - rate for b in batch)
        mean = sum(b * g for b, g in zip(batch, (*others, target), strict=True))
        found.append(chosen * norm.pdf(x, mean, sigma))
    return (np.array(found) if shown else np.sum(found, axis=0, keepdims=True)), x


def exact_delta(sigma, rate, others, epsilon, shown=False):
    """δ(ε) of one step for a user whose label is replaced, by enumeration of all batches."""
    (first, x), (second, _) = (worlds(sigma, rate, others, label, shown) for label in LABELS)
    gaps = (first - math.exp(epsilon) * second, second - math.exp(epsilon) * first)
    return max(float(np.maximum(gap, 0).sum() * (x[1] - x[0])) for gap in gaps)


@pytest.mark.parametrize("others", [(), (1.0,), (1.0, -1.0), (1.0, 1.0, 1.0)])
@pytest.mark.parametrize(("sigma", "rate"), [(0.7, 0.3), (1.5, 0.1)])
def test_every_batch_of_up_to_four_users_enumerated(others, sigma, rate):
    accountant = ProjectedSteps(sigma, rate, 1)
    for epsilon in (0.0, 0.2, 1.0):
        truth = exact_delta(sigma, rate, others, epsilon)
        assert truth <= accountant.delta(epsilon).upper * (1 + 2e-5) + 1e-9
    if not others:  # nobody else hides her: the bound is attained
        assert exact_delta(sigma, rate, others, 0.2) == pytest.approx(accountant.delta(0.2).upper, rel=2e-3)
        assert exact_delta(sigma, rate, others, 0.2) > DpSgd(2 * sigma, rate, 1).delta(0.2).upper  # moved by C, not 2C


def test_rows_of_the_batch_itself_would_break_the_bound():
    """SELF variants: the set shows who is in the batch, so that a step has no amplification by subsampling."""
    sigma, rate = 1.5, 0.1
    bound = ProjectedSteps(sigma, rate, 1).delta(0.2).upper
    assert exact_delta(sigma, rate, (1.0,), 0.2, shown=True) > 1.2 * bound
    assert exact_delta(sigma, rate, (1.0,), 0.2, shown=False) <= bound


def people(label):
    """A target with features of her own, whose gradients under her two labels are opposite, and another user."""
    return Population(np.array([[3.0], [-3.0]]), np.array([label, 0], dtype=np.uint8), np.array([0, 2]), 2)


def proven(noise_multiplier, steps=1, trials=900):
    """Lower bound of δ(0) that an attack on the projected model proves."""
    settings = {"sampling_rate": 1.0, "epochs": float(steps), "clip": 0.5, "learning_rate": 0.1, "smoothing": 1.0}
    settings |= {"public_batch": 8, "iterations": 20}

    def sights(label, count):
        one = people(label)
        built = LabelDpProConfig(noise_multiplier=noise_multiplier, **settings).deployed(
            Setup(one.cluster_sizes, 2, 1e-5)
        )
        models = (built.train(one.labels, one.features, Streams(label, i).generator("dp-sgd")) for i in range(count))
        return np.array([model.weights[0, 0] - model.weights[1, 0] for model in models])

    seen = [sights(label, trials) for label in (0, 1)]
    cut = np.median(np.concatenate([sight[:200] for sight in seen]))
    above = [np.count_nonzero(sight[200:] > cut) for sight in seen]
    many = trials - 200
    low = beta.ppf(FALSE_ALARM / 2, above[0], many - above[0] + 1)
    return low - beta.isf(FALSE_ALARM / 2, above[1] + 1, many - above[1])


@pytest.mark.slow
def test_an_attack_proves_no_more_than_the_bound_unless_the_noise_is_a_third():
    bound = ProjectedSteps(3.0, 1.0, 1).delta(0.0).upper
    assert proven(3.0, trials=600) <= bound
    assert proven(1.0, trials=600) > bound  # control: a third of the noise that is accounted for


def scenario(**mechanism):
    return Scenario.from_tree({"name": "s", "replicates": 1, "mechanism": {"kind": "label_dp_pro", **mechanism}})


def test_the_row_says_how_and_the_noise_is_that_of_dp_sgd(scenarios):
    chosen = p2p_sim.load_scenario(scenarios / "label-dp-pro.toml", ["mechanism.target_epsilon=4.0"])
    chosen = chosen.replace(**{"population.users": 200, "mechanism.epochs": 0.5})
    result = p2p_sim.run(chosen)
    row = result.row
    assert isinstance(result.release, ModelRelease)
    assert 3.9 < row["epsilon_upper"] <= 4.0
    assert (row["trust"], row["submissions"], row["noise_multiplier"]) == (
        "curator", None, calibrate_noise(4.0, 1e-5, 0.05, 10)
    )  # fmt: skip
    assert result.privacy[0].condition_ids[-1] == "public-rows-apart"
    assert p2p_sim.run(chosen).row == row


@pytest.mark.slow
def test_the_shipped_scenario_is_learned(scenarios):
    chosen = p2p_sim.load_scenario(scenarios / "label-dp-pro.toml", ["mechanism.target_epsilon=4.0"])
    row = p2p_sim.run(chosen).row
    assert row["error_rate"] < 0.2
    assert row["noise_multiplier"] == calibrate_noise(4.0, 1e-5, 0.05, 400)


def test_projected_steps_stay_within_the_longest_gradient():
    """However much noise: a step has at most the norm C, which an unprojected one exceeds by far."""
    one = people(0)
    settings = {"sampling_rate": 1.0, "epochs": 1.0, "learning_rate": 1.0, "clip": 0.5, "noise_multiplier": 1000.0}
    built = LabelDpProConfig(**settings).deployed(Setup(one.cluster_sizes, 2, 1e-5))
    moved = built.train(one.labels, one.features, Streams(1, 0).generator("dp-sgd")).weights
    assert np.linalg.norm(moved) <= 0.5 * (1 + 1e-5)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({}, "either noise_multiplier or target_epsilon"),
        ({"noise_multiplier": 1.0, "public_batch": 0}, "public_batch = 0"),
        ({"noise_multiplier": 1.0, "smoothing": 0.0}, "smoothing = 0"),
        ({"noise_multiplier": 1.0, "iterations": 0}, "iterations = 0"),
    ],
)
def test_bad_settings_are_refused(mechanism, message):
    with pytest.raises(InputError, match=message):
        scenario(**mechanism)


def test_what_cannot_be_accounted_is_refused():
    with pytest.raises(InputError, match=r"label_dp_pro.*delta = 1e-15"):
        LabelDpProConfig(noise_multiplier=1.0).deployed(Setup(np.array([10]), 2, 1e-15))


@pytest.mark.slow
def test_an_audit_passes_and_finds_noise_that_is_missing():
    """The control: σ is 0.05 instead of what ε = 0.5 needs."""
    mechanism = {"kind": "label_dp_pro", "target_epsilon": 0.5, "sampling_rate": 1.0, "epochs": 30.0, "smoothing": 1.0}
    tree = {"name": "s", "population": {"kind": "wine"}, "clusters": {"kind": "kmeans", "count": 3, "min_size": 2}}
    case = Replicate(Scenario.from_tree(tree | {"mechanism": mechanism}), 0)
    done = audit_model(case, 3000)
    assert done.passed
    assert done.mechanism == "label_dp_pro"
    sound = prepare(case).mechanism
    weak = sound.model_copy(update={"noise_multiplier": 0.05})
    assert not audit_model(case, 3000, mechanism=weak).passed
