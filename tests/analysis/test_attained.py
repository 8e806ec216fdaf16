"""What is attained on overlays: against enumeration, with planted mistakes."""

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sparse

from analysis import attained
from analysis.privacy_tables import worst_placed
from p2p_sim.privacy import LabelExchange, local_epsilon
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from tests.fetch_enumeration import FewUsers, random_laws
from tests.reference import fetch as reference

LAWS = random_laws(50)


@pytest.mark.parametrize("index", range(50))
@pytest.mark.slow_where(lambda index: index >= 20)
def test_the_upper_end_lies_above_the_truth(index):
    law = LAWS[index]
    fetch = FetchDistribution(law.weights, law.flip_prob, law.rates)
    for epsilon in (0.1, 0.5, 1.5):
        assert fetch.delta(epsilon).upper >= law.delta(epsilon) * (1.0 - 1e-12)


def test_both_enumerations_agree():
    for law in [law for law in LAWS if len(law.weights) <= 4][:5]:
        for epsilon in (0.1, 0.7):
            expected = reference.delta(law.weights, law.flip_prob, law.rates, epsilon)
            assert law.delta(epsilon) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_laws_are_the_same_each_time_and_of_all_sizes():
    again = random_laws(50)
    assert all(np.array_equal(a.weights, b.weights) for a, b in zip(LAWS, again, strict=True))
    assert {len(law.weights) for law in LAWS} == {3, 4, 5, 6}


def fetchers(law: FewUsers, target: int) -> attained.Fetchers:
    """Those who may fetch from the target."""
    users = np.flatnonzero((law.weights[:, target] > 0.0) & (law.rates > 0.0))
    rows = law.rates[users, None] * law.weights[users]
    return attained.Fetchers(np.delete(rows, target, axis=1), rows[:, target], law.flip_prob)


def sampled_epsilon(law: FewUsers, target: int, delta: float) -> float:
    return attained.attained_epsilon(fetchers(law, target), delta)


def above_the_truth() -> tuple[int, list[float]]:
    """How often a sampled lower end is above the truth, and its shares of it."""
    shares = []
    for law in LAWS[:20]:
        target = int((law.rates @ law.weights**2).argmax())
        for delta in (1e-3, 0.05):
            truth, lower = law.user_epsilon(target, delta), sampled_epsilon(law, target, delta)
            shares.append(lower / truth if truth > 0.0 else float(lower > 0.0) * 2.0)
    return sum(share > 1.0 for share in shares), shares


def test_sampled_lower_ends_lie_below_enumeration_and_some_are_near():
    count, shares = above_the_truth()
    assert count == 0
    assert np.median(shares) > 0.5


@pytest.mark.parametrize("worth", ["without the flip", "keep too large"])
def test_a_wrong_worth_is_caught(monkeypatch, worth):
    def wrong(flip_prob: float, epsilon: float) -> tuple[float, float, float]:
        grow, keep = np.exp(epsilon), 1.0 - flip_prob
        return (1.0, grow, 0.0) if worth == "without the flip" else (keep, grow * keep - flip_prob, 0.0)

    monkeypatch.setattr(attained, "hockey_stick_coefficients", wrong)
    assert above_the_truth()[0] > 0


def test_too_large_an_effect_of_the_bit_is_caught(monkeypatch):
    """As if every fetch from the target counted twice."""
    draw = attained._Sample.draw

    def doubled(self, count, rng):
        y, likelier, other = draw(self, count, rng)
        return [y, other + 2.0 * (likelier - other), other]

    monkeypatch.setattr(attained._Sample, "draw", doubled)
    assert above_the_truth()[0] > 0


def test_the_mean_is_covered_and_without_a_margin_it_is_not():
    """Rare large values of both signs, mean 0: 2,000 samples, each with an allowed error of 1e-3."""
    rng = np.random.default_rng(3)
    bounds, means = [], []
    for _ in range(2_000):
        values = np.where(rng.random(4_000) < 2e-3, np.where(rng.random(4_000) < 0.2, 4.0, -1.0), 0.0)
        bounds.append(attained.mean_at_least(values, 4.0, 1.0, 1e-3))
        means.append(values.mean())
    assert np.sum(np.array(bounds) > 0.0) <= 8
    assert np.sum(np.array(means) > 0.0) > 800


def test_the_margin_of_the_mean_is_the_published_one():
    """Maurer and Pontil (2009), theorem 4, for values in [0, cut], none of them negative."""
    values = np.random.default_rng(4).uniform(0.0, 3.0, 500)
    confidence = math.log(4.0 / 1e-3)
    margin = math.sqrt(2.0 * values.var(ddof=1) * confidence / 500) + 7.0 * confidence * 3.0 / (3.0 * 499)
    found = attained.mean_at_least(values, 3.0, 1e-300, 1e-3)
    assert found == pytest.approx(values.mean() - margin, rel=1e-12)


def test_no_value_is_below_the_range_that_the_margin_assumes(monkeypatch):
    """On small, sparse and dense tables, for both events; the range is not far too large either."""
    shares = []

    def recorded(values, cut, most, error):
        shares.append(-values.min() / most)
        return 0.0

    monkeypatch.setattr(attained, "mean_at_least", recorded)
    for law in LAWS[:10]:
        sampled_epsilon(law, 0, 0.01)
    for weights, theta in ((overlay(10, 60), 1.0), (complete(60, 0.2), 0.1)):
        attained.attained_epsilon(worst_placed(weights, 0.1, theta), 1e-4)
    assert len(shares) > 100
    assert 0.05 < max(shares) <= 1.0


def test_at_least_so_many_successes():
    rng = np.random.default_rng(4)
    chances = rng.random((3, 7))
    for successes in range(8):
        found = attained.at_least(chances, successes)
        for line, value in zip(chances, found, strict=True):
            law = np.ones(1)
            for p in line:
                law = np.convolve(law, [1.0 - p, p])
            assert value == pytest.approx(law[successes:].sum(), rel=1e-12)


def overlay(degree: int, users: int) -> sparse.csr_array:
    """Everybody fetches from as many users."""
    return (
        sparse.csr_array(nx.to_scipy_sparse_array(nx.random_regular_graph(degree, users, seed=1), dtype=float)) / degree
    )


def complete(n: int, spread: float = 0.0) -> sparse.csr_array:
    """Everybody fetches from everybody, with weights disturbed by a share of up to `spread`."""
    rows = 1.0 + spread * np.random.default_rng(5).uniform(-1.0, 1.0, (n, n))
    return sparse.csr_array(rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("theta", [pytest.param(0.1, marks=pytest.mark.slow), 1.0])
def test_equal_rows_attain_nearly_the_exact_figure(theta):
    exact = LabelExchange(100, 0.1, theta).epsilon(1e-6)
    lower = attained.attained_epsilon(worst_placed(complete(100), 0.1, theta), 1e-6)
    assert 0.95 * exact.epsilon_lower <= lower <= exact.epsilon_upper


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.1, 1.0])
def test_disturbed_rows_attain_about_as_much(theta):
    table = complete(200, 0.2)
    lower = attained.attained_epsilon(worst_placed(table, 0.1, theta), 1e-6)
    assert 0.9 * LabelExchange(200, 0.1, theta).epsilon(1e-6).epsilon_lower <= lower
    assert lower <= FetchDistribution(table, 0.1, theta).epsilon(1e-6).epsilon_upper


def test_a_sparse_overlay_attains_nearly_the_local_figure_and_the_same_digits_again():
    target = worst_placed(overlay(10, 400), 0.1, 1.0)
    lower = attained.attained_epsilon(target, 1e-6)
    assert 0.95 * local_epsilon(0.1) <= lower <= local_epsilon(0.1)
    assert lower == attained.attained_epsilon(target, 1e-6)
