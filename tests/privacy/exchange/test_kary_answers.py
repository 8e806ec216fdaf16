"""Answers about K classes come soon, and are those of the slow way."""

import math

import mpmath
import numpy as np
import pytest

from p2p_sim.privacy.binomial_windows import UNIT
from p2p_sim.privacy.exchange.kary import FetchedLabels, KaryExchange, ShuffledLabels
from p2p_sim.privacy.exchange.kary_lower_end import _power
from p2p_sim.privacy.guessing_advantage import advantage
from p2p_sim.privacy.randomized_response import bisect, bisect_twice

EXCHANGES = [
    KaryExchange(60, 0.2, 0.5, 3),
    KaryExchange(400, 0.05, 1.0, 10),
    ShuffledLabels(80, 0.3, 1.0, 4),
    FetchedLabels(90, 0.1, 1.0, 3, 200),
]


@pytest.mark.parametrize(
    "exchange", EXCHANGES, ids=lambda exchange: f"{type(exchange).__name__}-{exchange.num_classes}"
)
def test_a_target_is_met_exactly_where_the_whole_bound_meets_it(exchange):
    for epsilon in (0.05, 0.4):
        certified = exchange.certified_delta(epsilon)
        assert certified == exchange.delta(epsilon).upper
        assert 0.0 <= exchange._least(epsilon) <= certified
        for factor in (1e-3, 0.5, 1.0 - 1e-6, 1.0, 1.0 + 1e-6, 1.5):
            if certified * factor < 1.0:
                assert exchange.satisfies(epsilon, certified * factor) == (factor >= 1.0)
    assert not exchange.satisfies(0.4, 0.5 * certified)


def test_a_part_is_often_enough_to_refuse(monkeypatch):
    exchange, asked = EXCHANGES[1], []
    limit = 0.3 * exchange.certified_delta(0.4)
    monkeypatch.setattr(KaryExchange, "certified_delta", lambda self, epsilon: asked.append(epsilon))
    assert not exchange.satisfies(0.4, limit)
    assert asked == []
    monkeypatch.setattr(KaryExchange, "_least", lambda self, epsilon: 0.0)  # the control: without the part
    with pytest.raises(TypeError):
        exchange.satisfies(0.4, limit)
    assert asked == [0.4]


@pytest.mark.parametrize("power", [0.5, 3.0])
def test_fewer_looks_find_the_ends_of_bisection(power):
    for zero in (0.0371, 0.5, 0.93, 1e-7):
        looks = []

        def curve(point, zero=zero, looks=looks):
            looks.append(point)
            return math.exp(power * math.log(zero / point) - (point - zero)) if point > 0.0 else math.inf

        slow = bisect_slowly(curve, zero)
        many = len(looks)
        looks.clear()
        assert bisect_twice(lambda point, zero=zero: point < 1.04 * zero, curve, 1.0, 1.0, 1e-6) == slow
        assert len(looks) < 0.7 * many


def bisect_slowly(curve, zero):
    """As `bisect_twice` where the limit is 1, with no more than bisection."""
    guess = bisect(lambda point: point < 1.04 * zero, 0.0, 1.0, 1e-3).below
    return bisect(lambda point: curve(point) > 1.0, 0.9 * guess, guess, 1e-6)


@pytest.mark.parametrize("n", [7, 1000, 2048])
def test_a_power_is_as_exact_as_charged(n):
    rng = np.random.default_rng(3)
    angle, loss = rng.uniform(-0.01, 0.01, 12), rng.uniform(0.0, 3.0 / n, 12)
    base = (1.0 - loss) * np.exp(1j * angle)
    with mpmath.workprec(200):
        truth = [complex(mpmath.mpc(one) ** n) for one in base.tolist()]
    errors = np.abs(_power(base, n) - truth) / np.abs(truth)
    assert errors.max() < 3.0 * n * UNIT
    assert np.abs(_power(base, n + 1) - truth).max() > 1e3 * n * UNIT  # the control: another power


def test_equally_likely_labels_are_asked_about_once(monkeypatch):
    asked = []
    real = KaryExchange.delta
    monkeypatch.setattr(KaryExchange, "delta", lambda self, epsilon: asked.append(epsilon) or real(self, epsilon))
    advantage(KaryExchange(30, 0.2, 0.5, 6), np.full(6, 1.0 / 6.0))
    assert len(asked) == len(set(asked)) > 2
