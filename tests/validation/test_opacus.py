"""Our DP-SGD beside that of Opacus: the same clipped sums and the same noise; the same ε where both account alike."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.dp_sgd import DpSgdConfig, clipped_gradient_sum
from p2p_sim.population.population import Population
from p2p_sim.privacy import DpSgd

opacus = pytest.importorskip("opacus", reason="needs Opacus: pip install -e '.[deep]'")
torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -e '.[deep]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of PyTorch and Opacus
]
CLASSES, INPUTS, FALSE_ALARM = 5, 7, 1e-9


def people(count, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, INPUTS)), rng.integers(0, CLASSES, count).astype(np.uint8)


def opacus_optimizer(inputs, sigma, clip, batch, rate=1.0):
    """A linear model from zero weights, without intercept (the inputs carry the constant), and Opacus' optimiser."""
    layer = torch.nn.Linear(inputs, CLASSES, bias=False)
    torch.nn.init.zeros_(layer.weight)
    model = opacus.GradSampleModule(layer)
    plain = torch.optim.SGD(model.parameters(), lr=rate)
    private = opacus.optimizers.DPOptimizer(
        plain,
        noise_multiplier=sigma,
        max_grad_norm=clip,
        expected_batch_size=batch,
        generator=torch.Generator().manual_seed(7),
    )
    return model, layer.weight, private


def step(model, optimizer, inputs, labels):
    optimizer.zero_grad()
    logits = model(torch.tensor(inputs, dtype=torch.float32))
    torch.nn.functional.cross_entropy(logits, torch.tensor(labels, dtype=torch.int64)).backward()
    optimizer.step()


@pytest.mark.parametrize("clip", [0.3, 2.0, 100.0])
def test_clipped_sums_are_those_of_opacus_along_a_run(clip):
    inputs, labels = people(300)
    inputs = inputs.astype(np.float32)
    model, weight, optimizer = opacus_optimizer(INPUTS, 0.0, clip, 60)
    for batch in np.split(np.random.default_rng(2).permutation(300), 5):
        weights = weight.detach().numpy().copy()
        norms = np.linalg.norm(inputs[batch], axis=1)
        ours = clipped_gradient_sum(weights, inputs[batch], norms, labels[batch], clip)
        step(model, optimizer, inputs[batch], labels[batch])
        theirs = weight.summed_grad.numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
        if clip < 1:  # control: sums that are not clipped
            whole = clipped_gradient_sum(weights, inputs[batch], norms, labels[batch], 1e9)
            assert not np.allclose(whole, theirs, rtol=1e-2, atol=1e-2)


def test_whole_runs_with_full_batches_and_next_to_no_noise_agree():
    features, labels = people(200)
    population = Population(features, labels, np.array([0, 200]), CLASSES)
    settings = {"noise_multiplier": 0.05, "sampling_rate": 1.0, "epochs": 20.0, "clip": 1e-3, "learning_rate": 1000.0}
    built = DpSgdConfig(**settings, feature_norm=3.0).deployed(Setup(np.array([200]), CLASSES, 1e-5))
    ours = built.train(population.labels, population.features, Streams(1, 0).generator("dp-sgd"))
    inputs = ours.scaling.apply(features)
    model, weight, optimizer = opacus_optimizer(INPUTS + 1, 0.0, 1e-3, 200, rate=1000.0)
    for _ in range(20):
        step(model, optimizer, inputs, labels)
    theirs = weight.detach().numpy()
    noise = 1000.0 * 0.05 * 1e-3 / 200 * math.sqrt(20)
    # gradients of norm C turn with the weights, which lets the noise grow a little
    assert np.abs(ours.weights - theirs).max() < 10 * noise < 0.1 * np.abs(theirs).max()


def within(values, deviation):
    statistic = float(np.square(values / deviation).sum())
    return chi2.ppf(FALSE_ALARM / 2, values.size) < statistic < chi2.isf(FALSE_ALARM / 2, values.size)


def test_the_same_multiplier_is_the_same_noise():
    sigma, clip, expected, dimensions = 3.0, 2.0, 50, 2000
    labels = np.array([0, 1] * 50, dtype=np.uint8)
    population = Population(np.zeros((100, dimensions)), labels, np.array([0, 100]), CLASSES)
    settings = {"noise_multiplier": sigma, "clip": clip, "sampling_rate": 0.5, "epochs": 0.5, "learning_rate": 1.0}
    built = DpSgdConfig(**settings).deployed(Setup(np.array([100]), CLASSES, 1e-5))
    ours = built.train(population.labels, population.features, Streams(1, 0).generator("dp-sgd")).weights[:, :-1]
    model, weight, optimizer = opacus_optimizer(dimensions, sigma, clip, expected)
    step(model, optimizer, np.zeros((10, dimensions), dtype=np.float32), labels[:10])
    theirs = weight.detach().numpy()
    for weights in (ours, theirs):
        assert within(weights, sigma * clip / expected)
        assert not within(weights, sigma / expected)  # control: noise that forgets the clipping norm


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(1.0, 0.01, 1000), (4.0, 0.2, 100), (2.0, 1.0, 10)])
def test_accounting_agrees_where_records_are_added_and_is_dearer_where_they_are_replaced(sigma, rate, steps):
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    theirs = opacus.accountants.PRVAccountant()
    theirs.history = [(sigma, rate, steps)]
    epsilon = theirs.get_epsilon(1e-5)
    added = from_gaussian_mechanism(sigma, sampling_prob=rate).self_compose(steps).get_epsilon_for_delta(1e-5)
    assert epsilon == pytest.approx(added, rel=0.01)
    replaced = DpSgd(sigma, rate, steps).epsilon(1e-5).epsilon_upper
    # Opacus' figure, reported as label privacy, would understate it
    assert 1.2 * epsilon < replaced
    if rate == 1.0:  # nothing but twice the sensitivity
        doubled = opacus.accountants.PRVAccountant()
        doubled.history = [(sigma / 2, rate, steps)]
        assert replaced == pytest.approx(doubled.get_epsilon(1e-5), rel=0.01)
