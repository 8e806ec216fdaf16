"""Composition: from dominating pairs, never of memoised rounds, refused below its floor."""

import math

import numpy as np
import pytest

from p2p_sim.analysis.privacy import LabelExchange
from p2p_sim.analysis.privacy.exchange.composition import _POINTS, _dominating, compose, convex_majorant
from p2p_sim.analysis.privacy.exchange.direct import likelihoods


def product_delta(exchange: LabelExchange, rounds: int, epsilon: float, per_round: bool = False) -> float:
    """δ(ε) of independent rounds about the same labels, by enumerating all outcomes (θ = 1)."""
    n, alpha, worst = exchange.cluster_size, exchange.flip_prob, 0.0
    for ones in range(n):
        [(a, b)] = likelihoods([exchange.setting.world(ones)], [n])
        p, q = ((1 - alpha) * a + alpha * b)[:, 0], (alpha * a + (1 - alpha) * b)[:, 0]
        for x, y in ((p, q), (q, p)):
            big_x, big_y = x, y
            for _ in range(rounds - 1):
                big_x, big_y = np.outer(big_x, x).ravel(), np.outer(big_y, y).ravel()
            worst = max(worst, float(np.maximum(big_x - math.exp(epsilon) * big_y, 0).sum()))
    return worst


@pytest.mark.parametrize(("n", "alpha", "rounds"), [(6, 0.2, 2), (10, 0.1, 3), (4, 0.3, 4)])
def test_composed_bound_lies_above_the_product_and_close(n, alpha, rounds):
    exchange = LabelExchange(n, alpha, 1.0)
    for delta in (1e-1, 1e-2, 1e-4):
        bound = compose([exchange] * rounds, delta)
        assert product_delta(exchange, rounds, bound.epsilon_upper) <= delta
        assert bound.epsilon_upper <= 1e-9 or product_delta(exchange, rounds, 0.8 * bound.epsilon_upper) > delta


def test_memoised_rounds_are_not_composed_rounds():
    """n = 20, α = .1, θ = 1, two rounds, ε = 1.2: composing gives .0247, the truth is .0365."""
    truth = LabelExchange(20, 0.1, 1.0, rounds=2).delta(1.2)
    assert truth.lower == pytest.approx(0.0365, abs=5e-5)
    assert product_delta(LabelExchange(20, 0.1, 1.0), 2, 1.2) == pytest.approx(0.0247, abs=5e-5)


def test_different_exchanges_compose_in_any_order():
    one, two = LabelExchange(30, 0.1, 0.5), LabelExchange(60, 0.2, 1.0)
    both, swapped = compose([one, two], 1e-4), compose([two, one], 1e-4)
    assert both.epsilon_upper == pytest.approx(swapped.epsilon_upper, rel=1e-9)
    singles = [compose([e], 1e-4).epsilon_upper for e in (one, two)]
    assert max(singles) < both.epsilon_upper < sum(compose([e], 5e-5).epsilon_upper for e in (one, two))
    assert singles[0] == pytest.approx(one.epsilon(1e-4).epsilon_upper, rel=0.02)


@pytest.mark.parametrize(("n", "rounds"), [(20, 300), pytest.param(200, 3000, marks=pytest.mark.slow)])
def test_many_rounds_charge_the_rounding_of_their_convolutions(n, rounds):
    """Against a direct convolution of the same pairs' losses, which has no such rounding."""
    exchange = LabelExchange(n, 0.3, 0.5)
    epsilon = compose([exchange] * rounds, 2e-12).epsilon_upper
    tail = exchange.epsilon(1e-18).epsilon_upper
    step = max(tail / _POINTS, 1e-9)
    law = _dominating(exchange, tail, step)._pmf_remove.to_dense_pmf()
    power, start = convolved(law._probs, law._lower_loss, rounds)
    losses = (start + np.arange(len(power))) * step
    infinite = -math.expm1(rounds * math.log1p(-law._infinity_mass))
    delta = float(power @ np.maximum(-np.expm1(epsilon - losses), 0.0)) + infinite
    assert 1e-12 < delta <= 2e-12


def convolved(law: np.ndarray, low: int, count: int) -> tuple[np.ndarray, int]:
    """Law of the sum of `count` losses by repeated squaring, entries below 1e-25 dropped."""
    power, start = np.ones(1), 0
    while count:
        if count & 1:
            power, start = np.convolve(power, law), start + low
        law, low, count = np.convolve(law, law), 2 * low, count >> 1
        kept = np.flatnonzero(law > 1e-25)
        law, low = law[kept[0] : kept[-1] + 1], low + int(kept[0])
    return power, start


@pytest.mark.parametrize(
    ("exchanges", "delta", "message"),
    [([], 1e-5, "at least one"), ([LabelExchange(9, 0.1, 1.0)], 1e-15, "at least 1e-14"),
     ([LabelExchange(9, 0.1, 1.0)] * 20_000, 1e-13, "at least 6"),
     ([LabelExchange(9, 0.0, 1.0)], 1e-5, "flip_prob = 0")],
)  # fmt: skip
def test_what_cannot_be_composed_is_refused(exchanges, delta, message):
    with pytest.raises(ValueError, match=message):
        compose(exchanges, delta)


def test_majorant_is_convex_and_above():
    rng = np.random.default_rng(0)
    x = np.exp(np.linspace(0, 2, 30))
    y = np.maximum(1 - 0.4 * x, 0) + 1e-3 * rng.random(30)
    out = convex_majorant(x, y)
    assert np.all(out >= y)
    slopes = np.diff(out) / np.diff(x)
    assert np.all(np.diff(slopes) >= -1e-12)
    assert np.all(slopes <= 0)
    assert any(np.diff(np.diff(y) / np.diff(x)) < 0)  # what went in was not convex
