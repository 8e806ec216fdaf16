"""DP-SGD: the accountant against brute force and attacks, the gradients against plain loops.

Statistical tests raise a false alarm with probability at most 1e-9 each.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta, chi2, norm

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.dp_sgd import DpSgdConfig, clipped_gradient_sum, softmax
from p2p_sim.mechanisms.outcome import ModelRelease
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy import DpSgd, calibrate_noise
from p2p_sim.scenario import Scenario

FALSE_ALARM = 1e-9
SETTINGS = [(1.0, 0.3), (0.6, 0.02), (3.0, 1.0)]


def mixture(x, sigma, rate, mean):
    return (1 - rate) * norm.pdf(x, 0, sigma) + rate * norm.pdf(x, mean, sigma)


def one_step(sigma, rate, epsilon):
    """Hockey-stick divergence of the replaced pair by summation over a fine grid."""
    x, width = np.linspace(-1 - 12 * sigma, 1 + 12 * sigma, 100_001, retstep=True)
    gap = mixture(x, sigma, rate, 1) - math.exp(epsilon) * mixture(x, sigma, rate, -1)
    return float(np.maximum(gap, 0).sum() * width)


def two_steps(sigma, rate, epsilon):
    """The same of two steps: over the first one's outcome, what the second must still exceed, in closed form."""
    x, width = np.linspace(-1 - 12 * sigma, 1 + 12 * sigma, 20_001, retstep=True)
    up, low = mixture(x, sigma, rate, 1), mixture(x, sigma, rate, -1)
    loss = np.log(up / low)  # increases with x
    cut = np.interp(epsilon - loss, loss, x)
    tails = [(1 - rate) * norm.sf(cut / sigma) + rate * norm.sf((cut - mean) / sigma) for mean in (1, -1)]
    return float((up * (tails[0] - np.exp(epsilon - loss) * tails[1])).sum() * width)


def add_or_remove(sigma, rate, steps):
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    return from_gaussian_mechanism(sigma, value_discretization_interval=1e-3, sampling_prob=rate).self_compose(steps)


@pytest.mark.parametrize(("sigma", "rate"), SETTINGS)
@pytest.mark.parametrize(("steps", "brute_force"), [(1, one_step), (2, two_steps)])
def test_delta_is_that_of_brute_force_and_never_below(sigma, rate, steps, brute_force):
    accountant, other = DpSgd(sigma, rate, steps), add_or_remove(sigma, rate, steps)
    # control: as if the user were absent from one of the worlds
    assert other.get_delta_for_epsilon(0.0) < brute_force(sigma, rate, 0.0) * 0.95
    for epsilon in (0.0, 0.1, 1.0):
        truth = brute_force(sigma, rate, epsilon)
        upper = accountant.delta(epsilon).upper
        assert truth * (1 - 2e-5) <= upper <= truth * 1.002 + 1e-12  # the grid misses 1e-5 at the kink


def on_the_plane(sigma, rate, first, second, epsilon):
    """Hockey-stick divergence between the worlds of two gradients of a plane (2,)."""
    x, width = np.linspace(-1 - 8 * sigma, 1 + 8 * sigma, 301, retstep=True)
    still = norm.pdf(x, 0, sigma)

    def density(mean):
        moved = np.outer(norm.pdf(x, mean[0], sigma), norm.pdf(x, mean[1], sigma))
        return (1 - rate) * np.outer(still, still) + rate * moved

    return float(np.maximum(density(first) - math.exp(epsilon) * density(second), 0).sum() * width**2)


def test_opposite_gradients_on_a_line_are_the_worst():
    rng = np.random.default_rng(1)
    beaten = 0
    for _ in range(25):
        sigma, rate, epsilon = rng.uniform(0.3, 2), rng.uniform(0.02, 1), rng.uniform(-2, 2)
        angle, lengths = rng.uniform(0, 2 * math.pi, 2), np.sqrt(rng.uniform(0, 1, 2))
        first, second = (r * np.array([math.cos(a), math.sin(a)]) for a, r in zip(angle, lengths, strict=True))
        worst = one_step(sigma, rate, epsilon)
        assert on_the_plane(sigma, rate, first, second, epsilon) <= worst + 1e-7
        # control: a claim that gradients move by no more than √2 C is refuted by opposite ones
        claimed = one_step(sigma * math.sqrt(2), rate, epsilon)
        beaten += on_the_plane(sigma, rate, np.array([1, 0]), np.array([-1, 0]), epsilon) > claimed + 1e-6
    assert beaten > 10


@pytest.mark.parametrize(("mu", "steps"), [(1.0, 1), (1.0, 1000), (0.1, 20_000), (4.0, 300)])
def test_full_batches_are_a_gaussian_mechanism(mu, steps):
    accountant = DpSgd(2 * math.sqrt(steps) / mu, 1.0, steps)
    for z in (0.0, 2.0, 4.0, 6.0):
        epsilon = mu * (z + mu / 2)
        truth = norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon + norm.logsf(epsilon / mu + mu / 2))
        assert truth <= accountant.delta(epsilon).upper <= 1.01 * truth + 2e-15 * steps


@pytest.mark.parametrize("steps", [1, 3])
def test_little_noise_is_accounted_for_as_closely(steps):
    """Losses of a hundred and more: a bound of the Gaussian mechanism, at most 2e-7 of ε above it."""
    mu, delta = 10.0 * math.sqrt(steps), 1e-6
    upper = DpSgd(0.2, 1.0, steps).epsilon(delta).epsilon_upper

    def reached(epsilon):
        return norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon + norm.logsf(epsilon / mu + mu / 2))

    assert reached(upper) <= delta < reached(upper * (1 - 2e-7))


@pytest.mark.parametrize("setting", [(0.3, 1.0, 100_000), (0.05, 0.1, 900_000), (5.0, 0.9, 999_999)])
def test_the_loss_of_all_steps_fits_into_a_million_bins(setting, monkeypatch):
    """Memory and time stay bounded: the bins are wide enough for the mean of the loss, 2qT/σ²."""
    widths = []

    def stop(*_, value_discretization_interval, **__):
        widths.append(value_discretization_interval)
        raise InterruptedError

    monkeypatch.setattr("dp_accounting.pld.privacy_loss_distribution.from_gaussian_mechanism", stop)
    sigma, rate, steps = setting
    with pytest.raises(InterruptedError):
        DpSgd(*setting).epsilon(1e-3)
    assert 2.0 * rate * steps / sigma**2 <= 1_000_000 * widths[0]


def test_epsilon_and_delta_agree():
    accountant = DpSgd(2.0, 0.05, 400)
    bound = accountant.epsilon(1e-6)
    assert (bound.epsilon_lower, bound.observer, bound.adjacency) == (0.0, "learner", "label")
    assert all(any(word in c for c in bound.conditions) for word in ("curator", "Poisson", "public"))
    assert accountant.delta(bound.epsilon_upper).upper == pytest.approx(1e-6, rel=1e-3)
    assert DpSgd(2.0, 0.05, 800).epsilon(1e-6).epsilon_upper > bound.epsilon_upper


@pytest.mark.parametrize(
    ("epsilon", "rate", "steps"),
    [(0.1, 0.05, 200), (1.0, 1.0, 20), pytest.param(2.0, 0.01, 50, marks=pytest.mark.slow)],
)
def test_calibration_finds_the_smallest_of_three_digits(epsilon, rate, steps):
    sigma = calibrate_noise(epsilon, 1e-5, rate, steps)
    assert float(f"{sigma:.3g}") == sigma
    assert DpSgd(sigma, rate, steps).epsilon(1e-5).epsilon_upper <= epsilon
    less = sigma - 10.0 ** (math.floor(math.log10(sigma)) - 2)
    assert DpSgd(less, rate, steps).epsilon(1e-5).epsilon_upper > epsilon


def test_calibration_reaches_the_largest_noise():
    # 262,144 is the last power of 4 below a million
    epsilon = DpSgd(600_000.0, 1.0, 1).epsilon(1e-9).epsilon_upper
    assert 262_144 < calibrate_noise(epsilon, 1e-9, 1.0, 1) <= 600_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DpSgd(0.0, 0.1, 1), "noise_multiplier = 0"),
        (lambda: DpSgd(math.nan, 0.1, 1), "noise_multiplier = nan"),
        (lambda: DpSgd(1.0, 0.0, 1), "sampling_rate = 0"),
        (lambda: DpSgd(1.0, 0.1, 0), "steps = 0"),
        (lambda: DpSgd(1.0, 0.1, 1000).epsilon(1e-13), "delta = 1e-13: must be at least 1e-11 for 1000 steps"),
        (lambda: DpSgd(1.0, 0.1, 1).delta(-1.0), "epsilon = -1"),
        (lambda: calibrate_noise(0.0, 1e-5, 0.1, 10), "epsilon = 0"),
        (lambda: calibrate_noise(1e-9, 1e-10, 1.0, 1000), "noise multiplier above"),
        (lambda: calibrate_noise(1.0, 1e-5, 2.0, 10), "sampling_rate = 2"),
    ],
)
def test_values_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def plain_sum(weights, inputs, labels, clip):
    """One gradient at a time, shortened as a whole."""
    total = np.zeros(weights.shape)
    for x, y in zip(inputs.astype(float), labels, strict=True):
        logits = weights @ x
        p = np.exp(logits - logits.max())
        gradient = np.outer(p / p.sum() - np.eye(len(weights))[y], x)
        total += gradient * min(1.0, clip / np.linalg.norm(gradient))
    return total


@pytest.mark.parametrize("clip", [0.5, 2.0, 1e6])
def test_clipped_gradients_are_those_of_a_plain_loop(clip):
    rng = np.random.default_rng(2)
    inputs, labels = rng.normal(size=(200, 6)).astype(np.float32), rng.integers(0, 4, 200).astype(np.uint8)
    weights = rng.normal(size=(4, 6)).astype(np.float32)
    got = clipped_gradient_sum(weights, inputs, np.linalg.norm(inputs, axis=1), labels, clip)
    np.testing.assert_allclose(got, plain_sum(weights, inputs, labels, clip), rtol=1e-4, atol=1e-4)


def test_gradients_descend_the_log_loss():
    rng = np.random.default_rng(3)
    inputs, labels = rng.normal(size=(50, 3)), rng.integers(0, 3, 50).astype(np.uint8)
    weights, step = rng.normal(size=(3, 3)), 1e-6

    def loss(w):
        return -np.log(softmax(inputs @ w.T)[np.arange(50), labels]).sum()

    gradient = clipped_gradient_sum(weights, inputs, np.linalg.norm(inputs, axis=1), labels, 1e9)
    for k, j in np.ndindex(3, 3):
        moved = weights.copy()
        moved[k, j] += step
        assert (loss(moved) - loss(weights)) / step == pytest.approx(gradient[k, j], abs=1e-3)


def population(labels, features, num_classes=2):
    labels = np.array(labels, dtype=np.uint8)
    return Population(np.array(features, dtype=float), labels, np.array([0, len(labels)]), num_classes)


def learned(people, streams, **settings):
    mechanism = DpSgdConfig(**settings).deployed(Setup(people.cluster_sizes, people.num_classes, 1e-5))
    return mechanism.train(people.labels, people.features, streams.generator("dp-sgd")).weights


def noise_is_right(weights, deviation):
    """Whether entries look like N(0, deviation²), two-sided."""
    statistic = float(np.square(weights / deviation).sum())
    return chi2.ppf(FALSE_ALARM / 2, weights.size) < statistic < chi2.isf(FALSE_ALARM / 2, weights.size)


def test_noise_has_the_multiplier_times_the_clipping_norm():
    people = population([0, 1] * 50, np.zeros((100, 999)), num_classes=10)
    settings = {"sampling_rate": 0.5, "epochs": 0.5, "learning_rate": 0.1, "clip": 3.0}
    weights = learned(people, Streams(1, 0), noise_multiplier=4.0, **settings)[:, :-1]  # where gradients are 0
    assert noise_is_right(weights, 0.1 * 4.0 * 3.0 / 50)
    assert not noise_is_right(weights, 0.1 * 4.0 / 50)  # control: the clipping norm forgotten
    assert not noise_is_right(weights, 0.1 * 4.0 * 3.0 / 100)  # control: divided by all users


def attack(noise_multiplier, trials=1500):
    """Lower bound of δ(0) that an attack on one full-batch step proves; the target's two gradients are opposite."""
    settings = {"sampling_rate": 1.0, "epochs": 1.0, "clip": 0.5, "learning_rate": 1.0}
    direction = np.array([[10, 1], [-10, -1]])  # the target's input, for and against class 0

    def sights(label, sigma, count):
        people = population([label, 0], [[3.0], [-3.0]])
        mechanism = DpSgdConfig(noise_multiplier=sigma, **settings).deployed(Setup(people.cluster_sizes, 2, 1e-5))
        runs = (
            mechanism.train(people.labels, people.features, Streams(label, i).generator("dp-sgd")) for i in range(count)
        )
        return np.array([float((run.weights * direction).sum()) for run in runs])

    middle = np.mean([sights(label, 0.05, 20) for label in (0, 1)])  # what the other user contributes
    seen = [np.count_nonzero(sights(label, noise_multiplier, trials) > middle) for label in (0, 1)]
    low = beta.ppf(FALSE_ALARM / 2, seen[0], trials - seen[0] + 1)
    high = beta.isf(FALSE_ALARM / 2, seen[1] + 1, trials - seen[1])
    return low - high


def test_an_attack_proves_more_than_add_or_remove_claims_but_not_more_than_the_bound():
    proven = attack(1.0)
    assert add_or_remove(1.0, 1.0, 1).get_delta_for_epsilon(0.0) < proven <= DpSgd(1.0, 1.0, 1).delta(0.0).upper
    assert attack(0.5) > DpSgd(1.0, 1.0, 1).delta(0.0).upper  # control: half the noise that was accounted for


def scenario(**mechanism):
    return Scenario.from_tree({"name": "s", "replicates": 1, "mechanism": {"kind": "dp_sgd", **mechanism}})


def test_digits_are_learned_and_the_row_says_how(scenarios):
    chosen = p2p_sim.load_scenario(scenarios / "dp-sgd.toml", ["mechanism.target_epsilon=4.0"])
    result = p2p_sim.run(chosen)
    row = result.row
    assert isinstance(result.release, ModelRelease)
    assert row["error_rate"] < 0.12
    assert 3.9 < row["epsilon_upper"] <= 4.0
    assert (row["trust"], row["submissions"], row["flip_prob"]) == ("curator", None, None)
    assert (row["noise_multiplier"], row["sampling_rate"]) == (calibrate_noise(4.0, 1e-5, 0.05, 400), 0.05)
    assert p2p_sim.run(chosen).row == row


def test_little_noise_gives_what_the_learner_without_privacy_gets():
    row = p2p_sim.run(scenario(noise_multiplier=0.05)).row
    assert row["error_rate"] < row["nonprivate_error_rate"] + 0.03


def test_whole_gradients_give_calibrated_probabilities():
    tree = {"name": "s", "population": {"kind": "synthetic", "users": 20_000}}
    tree["mechanism"] = {"kind": "dp_sgd", "noise_multiplier": 1.0, "feature_norm": 1.0, "clip": 2.0}
    assert p2p_sim.run(Scenario.from_tree(tree)).row["excess_risk"] < 0.01


def test_on_noisy_labels_a_shorter_step_does_not_fall_behind_with_less_noise():
    """The known law of the second comparison; σ as for ε = 0.5 and 4. The usual step is too long: the control."""

    def accuracy(**mechanism):
        population = {"kind": "synthetic", "users": 20_000, "num_clusters": 20, "heterogeneity": 0.2}
        tree = {"name": "s", "population": population, "mechanism": {"kind": "dp_sgd", **mechanism}}
        rows = [p2p_sim.run(Scenario.from_tree(tree), replicate=i).row for i in range(2)]
        return 1.0 - sum(row["error_rate"] for row in rows) / len(rows)

    short = [accuracy(noise_multiplier=sigma, learning_rate=4.5 / 4) for sigma in (16.2, 2.39)]
    assert short[1] > short[0] - 0.002
    assert short[1] > 0.67
    assert accuracy(noise_multiplier=2.39) < short[1] - 0.01


def test_constant_features_and_empty_batches_do_no_harm():
    people = population([0, 1], np.ones((2, 1)))
    weights = learned(people, Streams(1, 0), noise_multiplier=1.0, sampling_rate=0.01, epochs=1.0)
    assert np.isfinite(weights).all()


def test_a_penalty_shrinks_the_weights():
    people = population([0, 1] * 500, [[-1.0], [1.0]] * 500)
    plain, shrunk = (learned(people, Streams(1, 0), noise_multiplier=0.1, learning_rate=0.1, l2=v) for v in (0.0, 1.0))
    assert np.linalg.norm(shrunk) < 0.5 * np.linalg.norm(plain)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({}, "either noise_multiplier or target_epsilon"),
        ({"noise_multiplier": 1.0, "target_epsilon": 1.0}, "either noise_multiplier or target_epsilon"),
        ({"noise_multiplier": 0.0}, "noise_multiplier = 0"),
        ({"target_epsilon": 1.0, "sampling_rate": 2.0}, "sampling_rate = 2"),
    ],
)
def test_bad_settings_are_refused(mechanism, message):
    with pytest.raises(InputError, match=message):
        scenario(**mechanism)


def test_what_cannot_be_accounted_or_split_is_refused():
    sizes = np.array([10])
    with pytest.raises(InputError, match=r"dp_sgd.*delta = 1e-15"):
        DpSgdConfig(noise_multiplier=1.0).deployed(Setup(sizes, 2, 1e-15))
    with pytest.raises(InputError, match=r"dp_sgd.*steps = 10000000"):
        DpSgdConfig(noise_multiplier=1.0, sampling_rate=1e-4, epochs=1000.0).deployed(Setup(sizes, 2, 1e-5))
    mechanism = DpSgdConfig(noise_multiplier=1.0).deployed(Setup(sizes, 2, 1e-5))
    people = population([0, 1], [[0.0], [1.0]])
    outcome = mechanism.run(people, NetworkConfig(), Streams(1, 0))
    with pytest.raises(InputError, match="no labels"):
        _ = outcome.labels
    with pytest.raises(InputError, match="cannot be split"):
        mechanism.release_on(SimpleNamespace(streams=Streams(1, 0)), people, part=(0, 1))


def test_setting_one_noise_drops_the_other(scenarios):
    file = scenarios / "dp-sgd.toml"
    chosen = p2p_sim.load_scenario(file, ["mechanism.noise_multiplier=3.0"]).mechanism
    assert (chosen.noise_multiplier, chosen.target_epsilon) == (3.0, None)


def test_too_little_noise_for_a_figure_is_infinite():
    steps = DpSgd(0.05, 1.0, 1_000_000)
    assert steps.epsilon(0.02).epsilon_upper == math.inf
    assert steps.delta(5.0).upper == 1.0
