"""The privacy loss as a law: it dominates, loses less than 1%, and gives Rényi ε, μ and trade-off curves that hold."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from p2p_sim.privacy import (
    Accountant,
    Bracket,
    CappedFetch,
    ClusterResampling,
    Coalition,
    DpSgd,
    Eavesdropper,
    FetchDistribution,
    KaryExchange,
    LabelExchange,
    Peer,
    PrivacyBound,
    ShuffledMessages,
    ShuffledResponse,
    TimedLearner,
    UniformSources,
)
from p2p_sim.privacy.conversions import gdp, loss_law, pld, renyi, tradeoff
from p2p_sim.privacy.dominating_law import LossLaw

SMALL = LabelExchange(20, 0.1, 0.5)
EVERY = [
    SMALL, LabelExchange(12, 0.2, 1.0, rounds=3), Coalition(LabelExchange(8, 0.1, 0.5), 2), Peer(30, 0.1),
    Eavesdropper(0.1), Eavesdropper(0.2, 5), TimedLearner(SMALL), TimedLearner(SMALL, True),
    KaryExchange(60, 0.2, 0.5, 4), KaryExchange(3, 0.2, 0.5, 3), UniformSources(40, 0, 20, 0.1),
    UniformSources(40, 5, 20, 0.1, 2), CappedFetch(np.full(50, 0.02), 0.2), ShuffledResponse(100, 0.1),
    ShuffledResponse(100, 0.2, 3), ShuffledMessages(500, 2.0), ClusterResampling(100, 3, 0.9, 1.0, 0.1, True),
    ClusterResampling(60, 2, 0.9, 1.0, 0.1, False), DpSgd(1.5, 0.05, 50),
    FetchDistribution(np.full((20, 20), 1 / 20), 0.1, 0.5),
]  # fmt: skip


def check_round_trip(model: Accountant, deltas: tuple[float, ...]) -> int:
    """ε(δ) of the exported law is at most 1% above the accountant's, and certified: never below the bracket."""
    law, of_library, checked = loss_law(model), pld(model), 0
    for delta in deltas:
        if delta < model.least_delta:
            continue
        ours, exported = model.epsilon(delta), of_library.get_epsilon_for_delta(delta)
        assert exported >= ours.epsilon_lower * (1 - 1e-9), (model, delta)
        assert exported <= ours.epsilon_upper * 1.01 + 1e-6, (model, delta, exported, ours)
        for epsilon in (0.3 * exported, exported, 1.3 * exported):
            attained = model.delta(epsilon).lower
            assert law.delta(epsilon) >= attained * (1 - 1e-9)
            assert of_library.get_delta_for_epsilon(epsilon) >= attained * (1 - 1e-9)
        checked += 1
    return checked


@pytest.mark.parametrize(
    "model",
    [pytest.param(one, marks=[pytest.mark.slow] * isinstance(one, FetchDistribution)) for one in EVERY],
    ids=lambda model: type(model).__name__,
)
def test_the_exported_law_loses_less_than_a_hundredth(model):
    assert check_round_trip(model, (1e-2, 1e-5, 1e-8))


@pytest.mark.slow
def test_two_hundred_settings_lose_less_than_a_hundredth():
    rng = np.random.default_rng(20)
    checked = 0
    for _ in range(17):
        n, alpha, theta = int(rng.integers(3, 120)), float(rng.uniform(0.02, 0.45)), float(rng.uniform(0.05, 1.0))
        classes, messages = int(rng.integers(3, 9)), int(rng.integers(5, 80))
        exchange, steps = LabelExchange(n, alpha, theta), int(rng.integers(1, 200))
        for model in (
            exchange, Coalition(LabelExchange(min(n, 14), alpha, theta), 1), Peer(n, alpha), Eavesdropper(alpha),
            Eavesdropper(alpha, classes), TimedLearner(exchange, True), KaryExchange(n, alpha, theta, classes),
            UniformSources(n, int(rng.integers(0, min(n, 5))), messages, alpha),
            CappedFetch(rng.uniform(0.01, 0.1, messages), alpha), ShuffledResponse(n, alpha, int(rng.integers(2, 5))),
            ShuffledMessages(n, float(rng.uniform(0.2, 4.0))),
            ClusterResampling(n, 2, 0.9, float(rng.uniform(0.5, 4.0)), 0.1, False),
            DpSgd(float(rng.uniform(0.6, 4.0)), theta, steps), LabelExchange(min(n, 30), alpha, theta, rounds=4),
        ):  # fmt: skip
            checked += check_round_trip(model, (float(10.0 ** rng.uniform(-9, -2)),))
    assert checked >= 200


@pytest.mark.parametrize(
    "model",
    [pytest.param(one, marks=[pytest.mark.slow] * isinstance(one, FetchDistribution)) for one in EVERY],
    ids=lambda model: type(model).__name__,
)
def test_both_laws_of_the_pair_are_whole(model):
    law = loss_law(model)
    both = law._both
    losses, masses = both.losses, both.masses
    assert np.all(masses >= 0.0)
    assert np.all(np.diff(law.losses) > 0.0)
    assert math.fsum(masses) + law.infinite == pytest.approx(1.0, abs=1e-12)
    assert math.fsum(masses * np.exp(-losses)) + law.infinite == pytest.approx(1.0, abs=1e-9)
    table = pld(model, 0.0137)._pmf_remove.to_dense_pmf()
    at = (table._lower_loss + np.arange(len(table._probs))) * 0.0137
    assert math.fsum(table._probs) + law.infinite == pytest.approx(1.0, abs=1e-12)
    assert math.fsum(table._probs * np.exp(-at)) + law.infinite == pytest.approx(1.0, abs=1e-9)


def test_randomised_response_has_two_losses():
    law, local = loss_law(Eavesdropper(0.1)), math.log(9.0)
    assert law.losses[-1] == pytest.approx(local)
    assert law.masses[-1] == pytest.approx(0.9)
    for order in (1.5, 2.0, 10.0):
        exact = math.log(0.9**order * 0.1 ** (1 - order) + 0.1**order * 0.9 ** (1 - order)) / (order - 1)
        assert exact <= law.renyi(order) * (1 + 1e-12) <= exact * (1 + 1e-6)


def test_upper_ends_that_are_not_convex_only_raise_the_law():
    """δ* convex, U above it with wiggles: the law stays between δ* and U at every point that was asked for."""
    rng, grid = np.random.default_rng(3), np.linspace(0.0, 4.0, 60)
    exact = np.array([gaussian(1.0, epsilon) for epsilon in grid])
    upper = np.minimum(1.0, exact * (1.0 + 0.1 * rng.random(60)))
    law = LossLaw.of(grid, upper)
    found = np.array([law.delta(epsilon) for epsilon in grid])
    assert np.all(found >= exact * (1 - 1e-12))
    assert np.all(found <= np.minimum.accumulate(upper) * (1 + 1e-12))
    assert np.any(found < upper * (1 - 1e-3))
    between = np.array([[law.delta(e), gaussian(1.0, e)] for e in rng.uniform(0.0, 4.0, 200)])
    assert np.all(between[:, 0] >= between[:, 1])


def test_points_that_bend_upwards_at_zero_are_joined_to_their_mirror():
    law = LossLaw.of([0.0, 0.1, 1.0, 2.0], [0.9, 0.2, 0.01, 0.0])
    assert law.losses[0] > 0.0
    assert law.delta(0.1) <= 0.2 + 1e-12
    assert law.delta(0.0) < 0.9
    assert math.fsum(law._both.masses) + law.infinite == pytest.approx(1.0)


def gaussian(mu: float, epsilon: float) -> float:
    """δ(ε) of a μ-GDP mechanism."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


class Gaussian(Accountant):
    """The Gaussian mechanism, exactly."""

    conditions = ()
    mu = 0.7

    def delta(self, epsilon):
        return Bracket(0.0, gaussian(self.mu, epsilon) * (1 + 1e-9))

    def epsilon(self, delta):
        low, high = 0.0, 50.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle).upper > delta else (low, middle)
        return PrivacyBound(0.0, high, delta, "learner", "label", "exact")


def test_a_gaussian_mechanism_is_recognised():
    model = Gaussian()
    assert math.isinf(gdp(model))  # what happens beyond the last ε is not known
    assert model.mu <= gdp(model, 1e-12) < 1.01 * model.mu
    curve = tradeoff(model, [0.0, 0.05, 0.5, 1.0])
    exact = [1.0, 0.8279, 0.2420, 0.0]  # Φ(Φ⁻¹(1-a) - μ)
    assert np.all(curve <= np.array(exact) + 5e-5)
    assert np.all(curve >= np.array(exact) - 2e-3)


@pytest.mark.parametrize(
    "model", [SMALL, KaryExchange(60, 0.2, 0.5, 4), DpSgd(1.5, 0.05, 50)], ids=lambda m: type(m).__name__
)
def test_mu_covers_the_whole_curve(model):
    beside = 1e-9
    mu = gdp(model, beside)
    law = loss_law(model)
    for epsilon in np.linspace(0.0, 2.0 * law.top, 400):
        assert model.delta(epsilon).lower <= gaussian(mu, epsilon) + beside
        assert law.delta(epsilon) <= gaussian(mu, epsilon) + beside + 1e-15
    assert any(law.delta(e) > gaussian(0.97 * mu, e) + beside for e in np.linspace(0.0, law.top, 400))


def test_without_a_failure_mu_covers_the_largest_loss():
    model = KaryExchange(100, 0.3, 0.5, 10)
    mu, law = gdp(model), loss_law(model)._closed
    assert law.infinite == 0.0
    assert mu > 1.1 * gdp(model, 1e-9)
    for epsilon in np.linspace(0.0, model.pure_epsilon, 300):
        assert law.delta(epsilon) <= gaussian(mu, epsilon) * (1 + 1e-9) + 1e-300


def test_renyi_is_above_that_of_every_data_set():
    exchange = LabelExchange(6, 0.2, 0.7)
    for order in (2.0, 8.0):
        worst = 0.0
        for ones in range(6):
            zero, one = exchange.privacy_loss_pmfs(ones)
            for p, q in ((zero, one), (one, zero)):
                total = math.fsum(p[k] ** order * q[k] ** (1 - order) for k in p if p[k] > 0.0)
                worst = max(worst, math.log(total) / (order - 1))
        assert worst <= renyi(exchange, order) <= 1.1 * worst


@pytest.mark.parametrize("order", [1.0, 0.5, math.inf, math.nan])
def test_an_order_that_is_none_is_refused(order):
    with pytest.raises(ValueError, match="order"):
        renyi(SMALL, order)


def test_where_no_epsilon_holds_all_loss_is_infinite():
    law = loss_law(LabelExchange(9, 0.0, 1.0))
    assert law.infinite > 0.5
    assert math.isinf(law.gdp())
    assert math.isinf(law.renyi(2.0))
