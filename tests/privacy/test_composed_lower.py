"""Lower ends of compositions: no more than the enumerated product of one data set, and near the upper ends."""

import numpy as np
import pytest
from scipy.stats import binom

from p2p_sim.privacy import DpSgd, Eavesdropper, LabelExchange, composition_lower_end
from p2p_sim.privacy.composition import Composition
from p2p_sim.privacy.composition_lower_end import AttainedPair, composed_epsilon
from tests.privacy.test_composition import product_delta

SLIGHTLY_LESS = 1.0 - 1e-7


@pytest.mark.parametrize(("n", "alpha", "rounds"), [(6, 0.2, 2), (10, 0.1, 3), (4, 0.3, 4)])
@pytest.mark.parametrize("delta", [1e-1, 1e-2, 1e-4])
def test_it_is_attained_by_the_product(n, alpha, rounds, delta):
    """Control: one round more attains more than the truth."""
    exchange = LabelExchange(n, alpha, 1.0)
    bound = Composition((exchange,), (rounds,)).epsilon(delta)
    assert bound.epsilon_lower == 0.0 or product_delta(exchange, rounds, bound.epsilon_lower * SLIGHTLY_LESS) > delta
    more = Composition((exchange,), (rounds + 1,)).epsilon(delta).epsilon_lower
    assert more == 0.0 or product_delta(exchange, rounds, more) < delta


@pytest.mark.parametrize(("n", "theta", "rounds"), [(20, 0.5, 10), (200, 0.1, 30), (1000, 1.0, 10), (200, 0.1, 1000)])
def test_both_ends_are_near(n, theta, rounds):
    bound = Composition((LabelExchange(n, 0.2, theta),), (rounds,)).epsilon(1e-5)
    assert 0.95 * bound.epsilon_upper <= bound.epsilon_lower <= bound.epsilon_upper


def test_different_releases_are_together_above_each_alone():
    releases = (LabelExchange(100, 0.1, 0.5), LabelExchange(60, 0.2, 1.0))
    whole = Composition(releases, (2, 3))
    lower = whole.epsilon(1e-5).epsilon_lower
    assert lower > max(release.epsilon(1e-5).epsilon_lower for release in releases)


def test_a_release_whose_law_is_not_known_is_forgotten():
    exchange, steps = LabelExchange(100, 0.1, 0.5), DpSgd(1.0, 0.01, 10)
    alone, both = Composition((exchange,), (1,)), Composition((exchange, steps), (1, 1))
    assert both.adjacency == "label"
    assert both.epsilon(1e-5).epsilon_lower == alone.epsilon(1e-5).epsilon_lower > 0.0
    assert both.epsilon(1e-5).epsilon_lower <= both.epsilon(1e-5).epsilon_upper


def test_of_flipped_labels_it_is_the_exact_one():
    """Ten flips at α = .4: the best event is at least s of ten."""
    alpha, count, delta = 0.4, 10, 0.05
    s = np.arange(count + 1)
    exact = np.log(
        (binom.sf(s - 1, count, 1 - alpha) - delta) / binom.sf(s - 1, count, alpha),
        where=binom.sf(s - 1, count, 1 - alpha) > delta,
        out=np.zeros(count + 1),
    ).max()
    found = Composition((Eavesdropper(alpha),), (count,)).epsilon(delta).epsilon_lower
    assert exact * (1.0 - 1e-6) <= found <= exact


def test_what_is_not_looked_at_counts_for_the_other_side(monkeypatch):
    """A pair that misses a tenth, which says nothing; control: to forget what is missing attains too much."""
    pair = AttainedPair(np.array([0.6, 0.3]), np.array([0.3, 0.6]), 0.0)
    assert composed_epsilon([pair], [1], 0.01) == pytest.approx(np.log(0.59 / 0.4), abs=1e-6)
    whole = AttainedPair(np.array([0.6, 0.4]), np.array([0.3, 0.7]), 0.0)
    assert composed_epsilon([whole], [1], 0.01) > composed_epsilon([pair], [1], 0.01)
    monkeypatch.setattr(composition_lower_end, "_CUT", 1e-3)
    assert composed_epsilon([whole], [40], 0.01) <= 40 * np.log(2.0)


def test_without_noise_or_for_many_users_it_is_not_known():
    assert LabelExchange(100, 0.0, 0.5).attained_pair() is None
    assert LabelExchange(5000, 0.1, 0.5).attained_pair() is None
    pair = LabelExchange(60, 0.1, 0.3).attained_pair()
    assert pair is not None
    assert pair.label_zero.sum() == pytest.approx(1.0, abs=1e-11)
    assert pair.label_one.sum() == pytest.approx(1.0, abs=1e-11)
