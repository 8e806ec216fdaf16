"""Lower ends of realised networks: no more than enumeration, near the exact figures, and what a mistake would do."""

import numpy as np
import pytest

from p2p_sim.analysis.privacy import CappedFetch, Coalition, LabelExchange, UniformSources, local_epsilon
from p2p_sim.analysis.privacy.exchange.known_zeros import ZeroSources, attained
from p2p_sim.analysis.privacy.exchange.one_cluster import Setting
from tests.reference import fetch as reference

SLIGHTLY_LESS = 1.0 - 1e-6


def uniform(n: int) -> np.ndarray:
    return np.full((n, n), 1 / n)


def arrived(n: int, submissions: int) -> np.ndarray:
    return (np.arange(n) < submissions).astype(float)


@pytest.mark.parametrize(("known", "submissions"), [(1, 1), (1, 5), (2, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("delta", [0.001, 0.05])
def test_known_sources_attain_it(known, submissions, delta):
    """Control: one known source more is above the truth."""
    plain = tuple(range(1, known + 1))
    lower = UniformSources(5, known, submissions, 0.2).lower_epsilon(delta)

    def truth(epsilon: float) -> float:
        return reference.delta(uniform(5), 0.2, arrived(5, submissions), epsilon, known=plain)

    assert lower > 0.0
    assert truth(lower * SLIGHTLY_LESS) > delta
    assert truth(lower * 1.05) <= delta * 1.2
    if known < 4:
        more = UniformSources(5, known + 1, submissions, 0.2).lower_epsilon(delta)
        assert truth(more * SLIGHTLY_LESS) < delta


@pytest.mark.parametrize(
    ("n", "members", "submissions", "known", "draws"),
    [(4, 1, 4, 0, 1), (4, 2, 3, 0, 1), (4, 1, 2, 1, 1), pytest.param(4, 1, 3, 0, 2, marks=pytest.mark.slow)],
)
def test_members_attain_it(n, members, submissions, known, draws):
    """Control: a member who got one label more would have attained more than the truth."""
    pooled, plain = tuple(range(n - members, n)), tuple(range(1, 1 + known))
    for delta in (0.01, 0.2):
        lower = UniformSources(n, known, submissions, 0.2, members, draws).lower_epsilon(delta)
        args = (uniform(n), 0.2, arrived(n, submissions), pooled)
        truth = reference.member_delta(*args, lower * SLIGHTLY_LESS, plain, draws=draws)
        assert lower > 0.0 or delta > 0.01
        assert lower == 0.0 or truth > delta
    too_much = UniformSources(n, known, submissions, 0.2, members, draws + 1).lower_epsilon(0.2)
    assert reference.member_delta(*args, too_much * SLIGHTLY_LESS, plain, draws=draws) < 0.2


def test_nothing_known_is_the_exact_figure():
    for sources, submissions in ((30, 10), (200, 200)):
        bound = UniformSources(sources, 0, submissions, 0.1).epsilon(1e-6)
        zeros = attained(ZeroSources(sources, 0.1, submissions, 1.0, 0), 0.0, 1e-6)
        assert bound.epsilon_lower * (1.0 - 1e-6) <= zeros <= bound.epsilon_upper


@pytest.mark.parametrize("known", [1, 20, 200])
def test_large_networks_with_known_sources_are_between(known):
    exchange = UniformSources(400, known, 300, 0.1)
    assert (
        0.9 * exchange.epsilon(1e-6).epsilon_upper
        <= exchange.lower_epsilon(1e-6)
        <= exchange.epsilon(1e-6).epsilon_upper
    )


@pytest.mark.parametrize(("members", "known"), [(1, 0), (5, 0), (2, 30)])
@pytest.mark.parametrize("delta", [1e-6, 0.03])
def test_members_of_large_networks_are_between(members, known, delta):
    exchange = UniformSources(400, known, 300, 0.1, members)
    upper, lower = exchange.epsilon(delta).epsilon_upper, exchange.lower_epsilon(delta)
    assert 0.9 * upper <= lower <= upper or upper < 0.02


def test_without_noise_whoever_is_seen_is_named():
    assert UniformSources(50, 5, 20, 0.0).lower_epsilon(0.3) == np.inf
    assert UniformSources(50, 5, 20, 0.0).lower_epsilon(0.4) == 0.0


@pytest.mark.parametrize("theta", [40, 400])
@pytest.mark.parametrize("mass", [0.0, 0.3])
@pytest.mark.slow_where(lambda theta, mass: theta == 400 and mass == 0.0)
def test_equal_caps_attain_the_exact_figure_of_equal_rows(theta, mass):
    capped = CappedFetch(np.full(theta, 1 / 400), 0.1, mass)
    lower, upper = capped.lower_epsilon(1e-6), capped.epsilon(1e-6).epsilon_upper
    exact = Setting(400, 0.1, theta, 1.0).epsilon(1e-6)
    assert lower <= upper
    assert lower >= exact.lower * (1.0 - 1e-6)
    assert lower <= exact.upper or mass > 0.0


def test_different_caps_attain_more_than_the_smallest_one_would():
    caps = np.concatenate([np.full(300, 1 / 400), np.full(100, 1 / 50)])
    assert CappedFetch(caps, 0.1).lower_epsilon(1e-6) > CappedFetch(np.full(400, 1 / 400), 0.1).lower_epsilon(1e-6)
    assert CappedFetch(caps, 0.1).lower_epsilon(1e-6) <= CappedFetch(caps, 0.1).epsilon(1e-6).epsilon_upper
    assert CappedFetch(np.zeros(0), 0.1).lower_epsilon(1e-6) == 0.0


@pytest.mark.parametrize(
    ("n", "theta", "members", "delta"),
    [pytest.param(1000, 1.0, 3, 1e-6, marks=pytest.mark.slow), (1000, 1.0, 3, 5e-3), (1000, 0.1, 5, 1e-2)],
)
def test_coalitions_in_large_clusters_have_both_ends_at_once(n, theta, members, delta):
    """Each end is where the bracket of δ(ε) crosses δ."""
    coalition = Coalition(LabelExchange(n, 0.1, theta), members)
    bound = coalition.epsilon(delta)
    assert 0.0 < bound.epsilon_lower <= bound.epsilon_upper < local_epsilon(0.1)
    assert bound.epsilon_upper <= 1.02 * bound.epsilon_lower
    assert coalition.delta(bound.epsilon_lower * (1.0 - 1e-5)).lower > delta
    assert coalition.delta(bound.epsilon_upper * (1.0 + 1e-5)).upper <= delta
    assert coalition.delta(bound.epsilon_upper * (1.0 - 1e-5)).upper > delta
