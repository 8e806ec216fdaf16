"""ALIBI: its density, its posterior, its sampler. False alarm 1e-9 a test, each with a control that must fail."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, laplace

from benchmarks.timing import peak_bytes
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.noisy_vectors import Alibi
from p2p_sim.mechanisms.outcome import Outcome
from p2p_sim.privacy.randomized_response import law_delta, law_epsilon
from p2p_sim.privacy.rivals.alibi import (
    laplace_delta,
    laplace_epsilon,
    laplace_variation,
    noise_scale_of,
    soft_labels,
)
from p2p_sim.privacy.rivals.histograms import laplace_delta as two_cells
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare, run
from p2p_sim.scenario import Scenario

FALSE_ALARM = 1e-9


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_the_density_ratio_is_epsilon_and_no_more(k, epsilon):
    """Everywhere it is linear between the corners of {0, 1}^K, so that these and random points say it all."""
    scale = noise_scale_of(epsilon)
    corners = np.stack(np.meshgrid(*[[-2.0, 0.0, 1.0, 3.0]] * k), axis=-1).reshape(-1, k)
    points = np.concatenate([corners, np.random.default_rng(0).laplace(scale=scale, size=(5_000, k))])
    logs = laplace.logpdf(points[:, None] - np.eye(k), scale=scale).sum(axis=-1)
    ratios = logs.max(axis=1) - logs.min(axis=1)
    assert ratios.max() == pytest.approx(epsilon, abs=1e-12)
    assert ratios.max() <= laplace_epsilon(scale) + 1e-13
    assert laplace_epsilon(scale) <= epsilon


@pytest.mark.parametrize("prior", [np.full(4, 0.25), np.array([0.7, 0.2, 0.1, 0.0])])
def test_soft_labels_are_bayes_rule(prior):
    noisy = np.random.default_rng(1).laplace(scale=2.0, size=(500, 4))
    weights = laplace.pdf(noisy[:, None] - np.eye(4), scale=2.0).prod(axis=-1) * prior
    assert np.allclose(soft_labels(noisy, prior, 2.0), weights / weights.sum(axis=1, keepdims=True), atol=1e-12)
    assert np.allclose(soft_labels(np.clip(noisy, 0, 1), prior, 2.0), soft_labels(noisy, prior, 2.0), atol=1e-12)
    assert np.allclose(soft_labels(noisy.astype(np.float32), prior.astype(np.float32), 0.02).sum(axis=1), 1, atol=1e-6)


EDGES = np.array([0.0, 0.2, 0.5, 0.8, 1.0])
"""Cells of one cut entry: exactly 0, four stretches between, exactly 1."""


def cell_law(scale: float, edges: np.ndarray = EDGES) -> np.ndarray:
    """Probability of each cell for an entry that is 0 and one that is 1: (2, cells)."""
    below = 1.0 - 0.5 * np.exp(-edges / scale)  # Pr[noise < edge]
    zero = np.concatenate([[0.5], np.diff(below), [0.5 * math.exp(-1.0 / scale)]])
    return np.stack([zero, zero[::-1]])  # the edges are symmetric about 1/2


def test_the_law_in_cells_is_as_private_as_said():
    scale = noise_scale_of(1.5)
    zero, one = cell_law(scale)
    law = np.stack([np.multiply.outer(one, zero).ravel(), np.multiply.outer(zero, one).ravel()])
    assert law_epsilon(law) == pytest.approx(1.5, abs=1e-12)
    for epsilon in (0.0, 0.7, 1.4, 1.49):
        assert law_delta(law, epsilon) <= laplace_delta(scale, epsilon).upper
    assert laplace_delta(scale, 1.5).upper == 0.0


@pytest.mark.parametrize("scale", [0.3, 2.0, 20.0])
def test_the_delta_of_a_message_is_exact(scale):
    """It was 1 - e^{ε - 2/b}, of which the noises of two entries leave between a quarter and a half: .632 at b = 2."""
    pure = laplace_epsilon(scale)
    for share in (0.0, 0.3, 0.9, 0.999):
        bracket = laplace_delta(scale, share * pure)
        assert bracket.upper == pytest.approx(two_cells(2.0 / scale, share * pure, cells=2), rel=1e-10, abs=2e-15)
        zero, one = cell_law(scale, np.linspace(0.0, 1.0, 401))  # what is told in cells is less, and nearly all
        law = np.stack([np.multiply.outer(one, zero).ravel(), np.multiply.outer(zero, one).ravel()])
        assert 0.99 * bracket.lower <= law_delta(law, share * pure) <= bracket.upper
        assert bracket.upper - bracket.lower <= 1e-11 * bracket.upper + 1e-15
        assert Alibi(scale, 10).alone(share * pure).upper == bracket.upper
    assert laplace_delta(scale, 0.0).upper == pytest.approx(laplace_variation(scale), rel=1e-12)


def p_value(scale: float, drawn_with: float, k: int = 3) -> float:
    """Chi-squared test of the joint law of the own entry's, another's and a third's cell."""
    labels = np.random.default_rng(0).integers(0, k, 60_000).astype(np.uint8)
    vectors = Alibi(drawn_with, k).noisy(labels, Streams(1, 0).generator("flip"))
    turned = np.take_along_axis(vectors, (labels[:, None] + np.arange(k)) % k, axis=1)
    cells = np.where(turned >= 1.0, 5, np.where(turned <= 0.0, 0, np.searchsorted(EDGES, turned)))
    zero, one = cell_law(scale)
    expected = np.multiply.outer(np.multiply.outer(one, zero), zero) * labels.size
    counts = np.zeros((6, 6, 6))
    np.add.at(counts, tuple(cells.T), 1)
    enough = expected >= 20
    assert expected[~enough].sum() >= 20
    seen, due = (np.append(part[enough], part[~enough].sum()) for part in (counts, expected))
    return float(chi2.sf(np.sum((seen - due) ** 2 / due), due.size - 1))


def test_the_sampler_follows_the_law():
    """Detects entries that hang together, and half of the scale, which costs 2ε, the control."""
    assert p_value(1.0, 1.0) > FALSE_ALARM
    assert p_value(1.0, 0.5) < FALSE_ALARM


def test_class_shares_are_estimated_without_bias():
    """Within 6.2 standard errors (1e-9) of a share, twice for the scaling; the control takes the mean as it is."""
    shares, noise = np.array([0.6, 0.3, 0.1]), Alibi(2.0, 3)
    labels = np.repeat(np.arange(3, dtype=np.uint8), (shares * 60_000).astype(int))
    vectors = noise.noisy(labels, Streams(1, 0).generator("flip"))
    slope = 1.0 - 2.0 * (1.0 - math.exp(-0.5))  # of the mean of a cut entry in its class's share, at scale 2
    error = 2 * 6.2 * vectors.std() / (len(labels) ** 0.5 * slope)
    assert np.all(np.abs(noise.estimated_prior(vectors) - shares) < error)
    assert np.any(np.abs(vectors.mean(axis=0) - shares) > error)


def test_memory_beyond_the_soft_labels_does_not_grow():
    labels, noise = np.zeros(100_000, np.uint8), Alibi(2.0, 20)
    beyond = [
        peak_bytes(lambda n=n: noise.randomize(labels[:n], Streams(1, 0).generator("flip"))) - 80 * n
        for n in (10_000, 100_000)
    ]
    assert beyond[1] <= 1.1 * beyond[0] + 10_000


@pytest.mark.parametrize("prior", ["uniform", "cluster"])
def test_a_scenario_releases_soft_labels(prior):
    tree = {
        "name": "alibi",
        "engine": "vectorised",
        "population": {"kind": "circle", "num_classes": 4, "users": 2000, "holdout": 500},
        "mechanism": {"kind": "alibi", "target_epsilon": 2.0, "prior": prior},
        "learner": {"kind": "knn"},
    }
    result = run(Scenario.from_tree(tree))
    assert result.release.kind == "soft"
    assert np.allclose(result.release.payload.sum(axis=1), 1.0, atol=1e-5)
    assert result.row["epsilon_lower"] <= result.row["epsilon_upper"] <= 2.0
    assert result.row["epsilon_lower"] == pytest.approx(2.0, abs=1e-3)
    assert result.row["noise_scale"] == pytest.approx(1.0)
    assert result.row["error_rate"] < 0.4


@pytest.mark.parametrize(
    "mechanism",
    [
        {"kind": "alibi", "target_epsilon": 1.0},
        {"kind": "alibi", "target_epsilon": 1.0, "prior": "cluster"},
        {"kind": "vector_approximation", "target_epsilon": 1.0},
        {"kind": "rr_with_prior", "target_epsilon": 1.0, "stages": 1},
        {"kind": "randomized_response", "target_epsilon": 1.0},
        {"kind": "cluster_rr", "target_epsilon": 1.0, "split": "half", "heterogeneity": 0.2},
        {"kind": "noisy_aggregates", "target_epsilon": 1.0},
        {"kind": "noise_shares", "target_epsilon": 1.0, "bag_size": 20},
    ],
)
def test_a_part_without_shards_joins_the_others(mechanism):
    tree = {
        "name": "parts",
        "engine": "vectorised",
        "population": {"kind": "circle", "num_classes": 4, "users": 500, "holdout": 10},
        "mechanism": mechanism,
        "learner": {"kind": "knn"},
    }
    ready = prepare(Replicate(Scenario.from_tree(tree)))
    whole = ready.mechanism.release_on(ready.network, ready.population).labels
    parts = [ready.mechanism.release_on(ready.network, ready.population, part=p) for p in ((0, 0), (0, 1), (1, 1))]
    joined = Outcome.join(parts).labels
    assert joined.kind == whole.kind
    assert np.array_equal(joined.user, whole.user)
    assert np.array_equal(joined.payload, whole.payload)
    assert joined.payload.dtype == whole.payload.dtype


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        noise_scale_of(bad)
