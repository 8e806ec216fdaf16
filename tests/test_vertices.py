"""Equal submitters: the worst of all p_i in a band, against enumeration, and the bound of most rows."""

import math

import numpy as np
import pytest

from p2p_sim.analysis.privacy import CappedFetch, LabelExchange
from p2p_sim.analysis.privacy.networks import realised_network
from p2p_sim.analysis.privacy.networks.losses import amplified
from p2p_sim.analysis.privacy.networks.vertices import VertexLevels, Vertices


def product_divergence(chances: np.ndarray, cap: float, ratio: float) -> float:
    """The larger of both directions, by enumeration."""
    first, second = np.ones(1), np.ones(1)
    for p in chances:
        first = np.outer(first, [1.0 - p, p]).ravel()
        second = np.outer(second, [1.0 - p - cap, p + cap]).ravel()
    return max(float(np.maximum(a - ratio * b, 0.0).sum()) for a, b in ((first, second), (second, first)))


@pytest.mark.parametrize("ratio", [1.0, 1.3, 2.0])
def test_no_product_in_the_band_tells_more(ratio):
    """Of 300 products, half of them at ends of the bands; the control has half the cap."""
    rng, level, least, cap = np.random.default_rng(1), 0.15, 0.05, 0.12
    bound, control = Vertices(level, cap, 5, least, 2), Vertices(level, cap / 2.0, 5, least, 2)
    worst = 0.0
    for trial in range(300):
        place = rng.random(7) if trial % 2 else rng.integers(0, 2, 7)
        lows = np.where(np.arange(7) < 5, level, least)
        worst = max(worst, product_divergence(lows + place * (1.0 - cap - 2.0 * lows), cap, ratio))
    assert control.divergence(ratio) < worst <= bound.divergence(ratio)


def test_the_worst_of_all_tells_less_than_three_points_for_all():
    bound = CappedFetch(np.full(400, 1 / 400), 0.1)
    levels, at = bound._found
    found = Vertices(at[10], 1 / 400, 400, at[10], 0).divergence(2.0)
    assert found < 0.4 * levels.laws[10].divergence(2.0)


@pytest.mark.parametrize(("sources", "ratio"), [(60, 1.5), (300, 1.3), (300, 2.5)])
def test_the_bound_of_most_rows_holds_where_all_rows_are_alike(sources, ratio):
    """W = 1/S: the law is a mixture of binomial ones over S - 1 bits. The control takes p_i to be 1/2."""
    from scipy.stats import binom

    bits, seen = np.arange(sources), np.arange(sources + 1)
    weight = binom.pmf(bits, sources - 1, 0.1)
    zero, one = (weight @ binom.pmf(seen, sources, (bits[:, None] + more) / sources) for more in (0, 1))
    truth = max(float(np.maximum(p - ratio * q, 0.0).sum()) for p, q in ((zero, one), (one, zero)))
    levels, at = CappedFetch(np.full(sources, 1.0 / sources), 0.1)._found
    bound = VertexLevels(levels, at, 1.0 / sources, sources)
    found = bound.divergence(ratio)
    assert truth <= found <= levels.divergence(ratio)
    assert Vertices(0.49, 1.0 / sources, sources, 0.49, 0).divergence(ratio) < truth


@pytest.mark.parametrize(("n", "share"), [(400, 0.85), pytest.param(1000, 0.8, marks=pytest.mark.slow)])
def test_it_is_smaller_for_many_equal_submitters(monkeypatch, n, share):
    capped = CappedFetch(np.full(n, 1.0 / n), 0.1)
    bound = capped.epsilon(1e-6).epsilon_upper
    assert bound > LabelExchange(n, 0.1, 1.0).epsilon(1e-6).epsilon_lower
    monkeypatch.setattr(realised_network, "_MOST", 0)
    assert bound < share * CappedFetch(np.full(n, 1.0 / n), 0.1).epsilon(1e-6).epsilon_upper


def test_it_answers_for_any_ratio():
    bound = CappedFetch(np.full(200, 0.005), 0.2)
    values = [bound.delta(epsilon).upper for epsilon in (0.0, 0.1, 0.5, 1.0, 1.3)]
    assert values == sorted(values, reverse=True)
    assert amplified(0.2, 0.1)[1] > 1.0
    assert all(math.isfinite(value) for value in values)
