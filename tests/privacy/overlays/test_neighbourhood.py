"""Sparse overlays: the neighbourhood bound against enumeration, with planted mistakes that enumeration catches."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sparse

import p2p_sim.privacy.overlays.sparse_neighbourhood as room
from p2p_sim.privacy import FetchDistribution, local_epsilon
from p2p_sim.privacy.overlays.overlay_table import OverlayTable
from p2p_sim.privacy.overlays.sparse_neighbourhood import neighbourhood_law
from p2p_sim.privacy.overlays.symmetric_pairs import Pair, SymmetricLosses, amplified_delta, product
from tests.reference import fetch as reference

EPSILONS = (0.0, 0.2, 0.5, 1.0, 1.6)


def table(graph: nx.Graph) -> np.ndarray:
    """Everyone fetches uniformly from her neighbours."""
    weights = nx.to_numpy_array(graph)
    return weights / weights.sum(axis=1, keepdims=True)


def neighbourhood(weights: np.ndarray, alpha: float, rates, known=(), members=()) -> OverlayTable:
    n = len(weights)
    flags = [np.isin(np.arange(n), users) for users in (known, members)]
    rates = np.broadcast_to(rates, n).astype(float)
    return OverlayTable(sparse.csr_array(weights), alpha, rates, *flags)


def overlays() -> dict[str, np.ndarray]:
    """Rings, random graphs and random tables, of four to six users."""
    rng = np.random.default_rng(8)
    found = {f"ring{n}": table(nx.cycle_graph(n)) for n in (4, 5, 6)}
    found |= {f"regular{d}": table(nx.random_regular_graph(d, 6, seed=d)) for d in (3, 4)}
    found |= {f"star{n}": table(nx.star_graph(n)) for n in (4, 5)}
    found["path"] = table(nx.path_graph(5))
    for n in (4, 5, 5, 6):
        weights = rng.random((n, n)) ** 2 * (rng.random((n, n)) < 0.6) + np.eye(n) * 0.05
        found[f"random{len(found)}"] = weights / weights.sum(axis=1, keepdims=True)
    return found


def worst(near: OverlayTable, alpha: float, epsilon: float, targets) -> float:
    return max(amplified_delta(neighbourhood_law(near, v), alpha, epsilon) for v in targets)


@pytest.mark.parametrize("name", overlays())
@pytest.mark.slow_where(lambda name: name in {"regular3", "regular4", "random10", "random11"})
def test_it_lies_above_enumeration(name):
    weights = overlays()[name]
    n = len(weights)
    rng = np.random.default_rng(n)
    for alpha, rates in ((0.1, 1.0), (0.3, 0.4), (0.2, rng.integers(0, 2, n).astype(float)), (0.2, rng.random(n))):
        near, fetch = neighbourhood(weights, alpha, rates), FetchDistribution(weights, alpha, rates)
        for epsilon in EPSILONS:
            truth = reference.delta(weights, alpha, rates, epsilon)
            assert worst(near, alpha, epsilon, range(n)) >= truth - 1e-13
            assert fetch.delta(epsilon).upper >= truth - 1e-13


@pytest.mark.parametrize("name", ["ring5", "regular3", "star4", "random8", "random9"])
def test_known_bits_hide_nobody(name):
    weights = overlays()[name]
    n, alpha = len(weights), 0.2
    known = (0, 2)
    free = [v for v in range(n) if v not in known]
    near = neighbourhood(weights, alpha, 1.0, known)
    for epsilon in EPSILONS:
        truth = reference.delta(weights, alpha, 1.0, epsilon, known)
        assert worst(near, alpha, epsilon, free) >= truth - 1e-13
        flags = np.isin(np.arange(n), known)
        fetch = FetchDistribution(weights, alpha, 1.0, known=flags)
        assert max(fetch.user_delta(v, epsilon) for v in free) >= truth - 1e-13


@pytest.mark.parametrize(("name", "members"), [("ring4", (0,)), ("ring5", (0,)), ("random8", (1,)), ("star4", (2,))])
def test_members_of_a_coalition_are_covered(name, members):
    """Targets next to members and far from them; who submits is known."""
    weights = overlays()[name]
    n, alpha = len(weights), 0.2
    submits = np.arange(n) != 1
    pooled = np.isin(np.arange(n), members)
    fetch = FetchDistribution(weights, alpha, submits.astype(float), members=pooled)
    for epsilon in EPSILONS[:4]:
        truth = reference.member_delta(weights, alpha, submits, members, epsilon)
        assert fetch.delta(epsilon).upper >= truth - 1e-13
    assert fetch.epsilon(0.1).observer == "coalition"


@pytest.mark.parametrize("name", ["ring4", "star4"])
def test_members_who_ask_again_are_covered(name):
    """Two labels each, one of which they do not submit; control: as if they had asked once."""
    weights = overlays()[name]
    n, alpha, gaps = len(weights), 0.2, []
    submits = np.arange(n) != 1
    fetches = [
        FetchDistribution(weights, alpha, submits.astype(float), members=np.arange(n) == 0, draws=draws)
        for draws in (1, 2)
    ]
    for epsilon in EPSILONS[:4]:
        truth = reference.member_delta(weights, alpha, submits, (0,), epsilon, draws=2)
        assert fetches[1].delta(epsilon).upper >= truth - 1e-13
        gaps.append(truth - fetches[0].delta(epsilon).upper)
    assert max(gaps) > 0.05


def test_members_ask_once_unless_told():
    weights = overlays()["ring5"]
    once = FetchDistribution(weights, 0.2, 1.0, members=np.arange(5) == 0, draws=1)
    told = amplified_delta(neighbourhood_law(once._table, 2), 0.2, 0.3)
    assert amplified_delta(neighbourhood_law(neighbourhood(weights, 0.2, 1.0, members=(0,)), 2), 0.2, 0.3) == told
    again = FetchDistribution(weights, 0.2, 1.0, members=np.arange(5) == 0, draws=2)
    assert amplified_delta(neighbourhood_law(again._table, 2), 0.2, 0.3) != told  # control: it would matter here


@pytest.mark.parametrize(("n", "degree", "seed"), [(7, 2, 1), (8, 3, 2), (9, 2, 3), (10, 4, 4)])
def test_it_lies_above_enumeration_of_up_to_ten_users(n, degree, seed):
    """A few label vectors only, all submit: constant, alternating and random others."""
    weights = table(nx.random_regular_graph(degree, n, seed=seed))
    rng = np.random.default_rng(seed)
    for alpha in (0.1, 0.3):
        law = neighbourhood_law(neighbourhood(weights, alpha, 1.0), 0)
        vectors = [np.zeros(n, int), np.arange(n) % 2, rng.integers(0, 2, n)]
        for epsilon in (0.3, 0.9):
            bound = amplified_delta(law, alpha, epsilon)
            truths = [reference.delta_all_submit(weights, alpha, epsilon, labels, 0) for labels in vectors]
            assert bound >= max(truths)


def lone_pair(extra: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """User 0 fetches from the target 3 or from 2, each half the time; `extra`: user -> whom she always fetches from."""
    weights, rates = np.zeros((4, 4)), np.zeros(4)
    weights[0, [2, 3]], rates[0] = 0.5, 1.0
    for user, peer in extra.items():
        weights[user, peer], rates[user] = 1.0, 1.0
    return weights, rates


def test_forgetting_that_others_use_the_same_bits_is_caught(monkeypatch):
    """Control: user 1 shows the bit that hides user 0's; with no rings the bound falls below the truth."""

    def silent(users, cells, entries, rates, draws, num_cells):
        return np.zeros(len(rates)), np.ones(num_cells)

    weights, rates = lone_pair({1: 2})
    truth = reference.delta(weights, 0.1, rates, 1.0, targets=[3])
    assert amplified_delta(neighbourhood_law(neighbourhood(weights, 0.1, rates), 3), 0.1, 1.0) >= truth
    monkeypatch.setattr(room, "_rings", silent)
    assert amplified_delta(neighbourhood_law(neighbourhood(weights, 0.1, rates), 3), 0.1, 1.0) < truth - 0.05


def test_forgetting_what_members_fetched_or_know_is_caught():
    """Control: member 1 fetched the bit that hides user 0's, or it is known anyway."""
    weights, rates = lone_pair({})
    weights[1, 2] = 1.0  # her label does not arrive
    pooled, known = np.arange(4) == 1, np.arange(4) == 2
    sound = FetchDistribution(weights, 0.1, rates, members=pooled).user_delta(3, 1.0)
    told = FetchDistribution(weights, 0.1, rates, known=known).user_delta(3, 1.0)
    forgetful = FetchDistribution(weights, 0.1, rates).user_delta(3, 1.0)
    pooled_truth = reference.member_delta(weights, 0.1, rates == 1.0, (1,), 1.0, idle=(2, 3), targets=[3])
    assert forgetful + 0.05 < pooled_truth <= sound
    assert forgetful + 0.05 < reference.delta(weights, 0.1, rates, 1.0, (2,), [3]) <= told


def test_averaging_the_hidden_weight_is_caught(monkeypatch):
    """Control: user 1 shows the hiding bit half the time; that is not half a hiding bit."""

    def average(fetchers, entries, hidden, count):
        return np.array([[0.0, 1.0]]), np.array([float(entries @ hidden)])

    weights, rates = lone_pair({1: 2})
    rates[1] = 0.5
    truth = reference.delta(weights, 0.1, rates, 2.0, targets=[3])
    assert amplified_delta(neighbourhood_law(neighbourhood(weights, 0.1, rates), 3), 0.1, 2.0) >= truth
    monkeypatch.setattr(room, "_hidden_weight", average)
    assert amplified_delta(neighbourhood_law(neighbourhood(weights, 0.1, rates), 3), 0.1, 2.0) < truth - 0.01


def test_more_rings_or_less_hidden_weight_never_help():
    """The bound does not fall with anyone's rate, nor if weights are rounded down."""
    weights = table(nx.random_regular_graph(3, 8, seed=1))
    bounds = [
        amplified_delta(neighbourhood_law(neighbourhood(weights, 0.1, rate), 0), 0.1, 0.7)
        for rate in (0.2, 0.5, 0.8, 1.0)
    ]
    assert bounds == sorted(bounds)
    exact, _ = room._hidden_weight(np.array([0, 0]), np.array([0.1, 0.1]), np.array([0.5, 0.5]), 1)
    assert exact.tolist() == [[0.25, 0.5, 0.25]]
    law, units = room._hidden_weight(np.array([0, 0]), np.array([0.1, 0.23]), np.array([0.5, 0.25]), 1)
    assert units == pytest.approx([0.165 / 32], rel=1e-9)  # fine enough that little is lost
    values = units[0] * np.arange(law.shape[1])
    for x in (0.0, 0.05, 0.1, 0.2, 0.23, 0.32):
        below = sum(p for s, p in ((0.0, 0.375), (0.1, 0.375), (0.23, 0.125), (0.33, 0.125)) if s <= x + 1e-9)
        assert law[0] @ (values <= x + 1e-9) >= below - 1e-12


def test_rounding_losses_to_the_grid_is_upwards_and_small():
    """Pairs of many different losses against their product, multiplied out; without rounding up it would be below."""
    rng = np.random.default_rng(3)
    lows, gains = rng.uniform(0.05, 0.2, (9, 1)), rng.uniform(1.1, 3.0, (9, 1))
    pairs = [Pair(low, low * gain) for low, gain in zip(lows, gains, strict=True)]
    p, q = np.ones(1), np.ones(1)
    for pair in pairs:
        low, high = float(pair.low[0]), float(pair.high[0])
        p = np.outer(p, [low, high, 1 - low - high]).ravel()
        q = np.outer(q, [high, low, 1 - low - high]).ravel()
    law = product(pairs)
    for ratio in (1.0, 1.3, 2.0, 5.0, 20.0):
        exact = float(np.maximum(p - ratio * q, 0.0).sum())
        assert exact <= law.divergence(ratio) <= 1.05 * exact
    below = SymmetricLosses(law.law, law.first - 1, law.grid, law.lost)
    assert below.divergence(2.0) < float(np.maximum(p - 2.0 * q, 0.0).sum())


def test_sparse_overlays_of_a_thousand_users_are_better_than_the_local_figure():
    n, alpha = 1000, 0.1
    for degree, most in ((20, 1.6), (50, 1.6)):
        graph = nx.random_regular_graph(degree, n, seed=1)
        rows = sparse.csr_array(nx.to_scipy_sparse_array(graph, format="csr") / degree)
        fetch = FetchDistribution(rows, alpha, 0.1)
        assert max(fetch.user_epsilon(v, 1e-6) for v in range(5)) < most < local_epsilon(alpha)
