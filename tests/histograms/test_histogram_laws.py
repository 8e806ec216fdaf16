"""Exact excess error and total variation against quadrature and counting."""

import math

import numpy as np
import pytest

from p2p_sim.measures.exact_laws import Cauchy, Harmonic, Normal, ProductLaw, Sine, Spikes, box_centres, half_l1

SIGMAS = 6.11  # false-alarm rate 1e-9
FACTORS = [Sine(0.75), Sine(2), Sine(7.3), Harmonic()]


@pytest.mark.parametrize("factor", FACTORS)
def test_parts_of_a_factor_integrate_it(factor):
    fine = np.linspace(0.0, 1.0, 2_000_001)
    value = factor.value(0.5 * (fine[1:] + fine[:-1]))
    for x in (0.0, 0.013, 0.25, 0.5, 0.77, 1.0):
        until = round(x * 2_000_000)
        above, below = (float(part[0]) for part in factor.parts(np.array([x])))
        assert above == pytest.approx(
            np.maximum(value[:until], 0).sum() / 2e6, abs=2e-3 if factor == Harmonic() else 1e-9
        )
        assert below == pytest.approx(
            np.maximum(-value[:until], 0).sum() / 2e6, abs=2e-3 if factor == Harmonic() else 1e-9
        )
        assert above + below == pytest.approx(x, abs=1e-12) or factor != Harmonic()


def test_the_harmonic_law_by_its_series():
    above, below = (float(part[0]) for part in Harmonic().parts(np.array([1.0])))
    assert above == pytest.approx(math.log(2.0), abs=1e-14)  # 1/(1·2) + 1/(3·4) + ...
    assert below == pytest.approx(1.0 - math.log(2.0), abs=1e-14)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("factor", FACTORS)
def test_excess_error_by_sampling(factor, dimension):
    law, edges, rng = (
        ProductLaw(factor, dimension),
        np.array([0.0, 0.1, 0.35, 0.6, 1.0]),
        np.random.default_rng(dimension),
    )
    predicted = rng.integers(0, 2, 4**dimension)
    points, labels = law.draw(200_000, rng)
    box = np.ravel_multi_index((np.searchsorted(edges, points, side="right") - 1).T, (4,) * dimension)
    centres = box_centres(edges, dimension)
    assert np.array_equal(
        np.searchsorted(edges, centres[box], side="right"), np.searchsorted(edges, points, side="right")
    )
    excess = law.excess_error(edges, predicted)
    above, below = factor.parts(np.array([1.0]))
    bayes = 0.5 - law.amplitude * float(above[0] + below[0]) ** dimension  # (∫|g|)^d is what the best rule gains
    expected, deviation = excess + bayes, SIGMAS * 0.5 / math.sqrt(200_000)
    assert abs(np.mean(predicted[box] != labels) - expected) < deviation
    assert abs(np.mean(predicted[box] == labels) - (1.0 - expected)) < deviation
    best = law.positive(points) > 0.5
    assert abs(np.mean(best != labels) - bayes) < deviation
    assert excess + law.excess_error(edges, 1 - predicted) == pytest.approx(1.0 - 2.0 * bayes)


def test_a_wrong_excess_error_would_be_seen():
    law, rng = ProductLaw(Sine(2), 2), np.random.default_rng(1)
    edges = np.linspace(0.0, 1.0, 9)
    centres = box_centres(edges, 2)
    best = (law.positive(centres) > 0.5).astype(int)
    assert law.excess_error(edges, best) == pytest.approx(0.0, abs=1e-15)
    transposed = ProductLaw(Sine(1), 2).excess_error(edges, best)
    assert transposed > 0.01
    points, labels = law.draw(10_000, rng)
    assert set(np.unique(labels)) == {0, 1}
    assert points.shape == (10_000, 2)


DENSITIES = {
    Normal(): lambda x: np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi),
    Cauchy(): lambda x: 1.0 / (math.pi * (1.0 + x * x)),
    Spikes(3, 0.05): lambda x: np.where(
        (x < 0) | (x > 1), 0.0, 0.5 + np.where(np.abs((3.0 * x) % 1.0 - 0.5) < 0.075, 0.5 / 0.15, 0.0)
    ),
}


@pytest.mark.parametrize(("law", "density"), DENSITIES.items(), ids=lambda value: type(value).__name__)
def test_half_l1_by_quadrature(law, density):
    rng = np.random.default_rng(2)
    cells, side = np.unique(rng.integers(-12, 13, 15)), 0.17
    heights = rng.random(len(cells)) * 0.6
    fine = np.linspace(-40.0, 40.0, 4_000_001)
    middle = 0.5 * (fine[1:] + fine[:-1])
    at = np.floor(middle / side).astype(int)
    estimate = np.where(np.isin(at, cells), heights[np.minimum(np.searchsorted(cells, at), len(cells) - 1)], 0.0)
    inside = np.sum(np.abs(density(middle) - estimate)) * 2e-5
    outside = 1.0 - float(law.cdf(np.array(40.0)) - law.cdf(np.array(-40.0)))
    assert half_l1(law, cells, side, heights) == pytest.approx(0.5 * (inside + outside), abs=1e-4)
    assert half_l1(law, cells[:0], side, heights[:0]) == pytest.approx(0.5)


@pytest.mark.parametrize("law", DENSITIES, ids=lambda law: type(law).__name__)
def test_draws_follow_the_law(law):
    values = np.sort(law.draw(100_000, np.random.default_rng(3))[:, 0])
    critical = math.sqrt(math.log(2e9) / 2e5)
    assert np.max(np.abs(law.cdf(values) - np.arange(100_000) / 1e5)) < critical + 1e-5
    assert np.max(np.abs(law.cdf(1.1 * values + 0.02) - np.arange(100_000) / 1e5)) > critical  # planted


def test_spikes_must_fit():
    with pytest.raises(ValueError, match=r"width = 0\.5"):
        Spikes(2, 0.5)
