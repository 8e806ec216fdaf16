"""The K-ary exchange at a sampling rate: a bracket about the exact value, which errors of the proof would leave."""

import itertools
import math

import numpy as np
import pytest

from p2p_sim.privacy import ShuffledMessages, definition, local_epsilon
from p2p_sim.privacy.definition import delta_by_summation
from p2p_sim.privacy.exchange import blanket, kary
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.randomized_response import bisect


class Certified(KaryExchange):
    """Without the enumeration of tiny clusters."""

    enumerable = False


def drawn(count: int) -> list[tuple[int, float, float, int]]:
    """(n, α, θ, K) that can be enumerated quickly."""
    rng, found = np.random.default_rng(5), []
    while len(found) < count:
        k = int(rng.integers(3, 6))
        n = int(rng.integers(2, {3: 13, 4: 9, 5: 6}[k]))
        alpha = float(rng.uniform(0.03, 0.97) * (k - 1) / k)
        found.append((n, alpha, float(10.0 ** rng.uniform(-2.0, 0.0)), k))
    return found


def compared(count: int) -> list[float]:
    """Upper end over exact value, in ε; every bracket holds the exact value."""
    rng, ratios = np.random.default_rng(6), []
    for n, alpha, theta, k in drawn(count):
        delta, exchange = float(10.0 ** rng.uniform(-6.0, -1.5)), Certified(n, alpha, theta, k)
        found = exchange.epsilon(delta)
        local = local_epsilon(alpha, k)

        def above(epsilon: float, n=n, alpha=alpha, theta=theta, k=k, delta=delta) -> bool:
            return delta_by_summation(n, k, alpha, theta, epsilon).upper > delta

        low, high = bisect(above, 0.0, local, 1e-6) if above(0.0) else (0.0, 0.0)
        assert found.epsilon_lower <= high
        assert low <= found.epsilon_upper
        for epsilon in (low, 0.5 * local):
            truth, certified = delta_by_summation(n, k, alpha, theta, epsilon), exchange.delta(epsilon)
            assert certified.lower <= truth.upper
            assert truth.lower <= certified.upper
        ratios.append(found.epsilon_upper / low if low > 0.0 else 1.0)
    return ratios


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_the_bracket_holds_the_exact_value(count):
    assert np.median(compared(count)) <= 1.5


def broken(monkeypatch, name: str) -> None:
    """A mistake in the law of visited users, or in what is due for those who are not."""
    right = blanket.visited
    if name == "one user too few is visited":
        wrong = lambda *a: tuple((max(top - 1, 0), weight) for top, weight in right(*a))  # noqa: E731
    elif name == "half the rate":
        wrong = lambda users, rate, *rest: right(users, rate / 2.0, *rest)  # noqa: E731
    else:  # blocks are charged at their first
        wrong = lambda users, rate, blocks, trials: tuple(  # noqa: E731
            (0 if place == 0 else before, weight)
            for place, ((before, _), (_, weight)) in enumerate(
                itertools.pairwise([(0, 0.0), *right(users, rate, blocks, trials)])
            )
        )
    monkeypatch.setattr(kary, "visited", wrong)


@pytest.mark.parametrize("name", ["one user too few is visited", "half the rate", "blocks are charged at their first"])
def test_planted_errors_leave_the_exact_value(monkeypatch, name):
    broken(monkeypatch, name)
    violated = 0
    for n, alpha, theta, k in drawn(60):
        if n <= 7 and k == 3:
            epsilon = 0.5 * local_epsilon(alpha, k)
            violated += (
                Certified(n, alpha, theta, k).delta(epsilon).upper
                < delta_by_summation(n, k, alpha, theta, epsilon).lower
            )
    assert violated > 0


def test_a_due_too_large_leaves_the_exact_value(monkeypatch):
    """What is due for unseen users is nearly exact where few submit: 3% more is too much."""
    right = KaryExchange._walk

    def wrong(self, epsilon):
        walk = right(self, epsilon)
        return type(walk)(*(getattr(walk, f) for f in walk.__dataclass_fields__ if f != "growth"), walk.growth * 1.03)

    exchange = Certified(5, 0.3, 0.05, 3)
    truth = delta_by_summation(5, 3, 0.3, 0.05, 0.1).lower
    assert exchange.delta(0.1).upper >= truth
    monkeypatch.setattr(KaryExchange, "_walk", wrong)
    assert exchange.delta(0.1).upper < truth


def occupied(n: int, theta: float) -> list[float]:
    """Pr[V = v], every choice of every user."""
    law = [0.0] * (n + 1)
    for choice in itertools.product(range(n + 1), repeat=n):
        seen = {c for c in choice if c < n}
        kept = sum(c < n for c in choice)
        law[len(seen)] += theta**kept * (1.0 - theta) ** (n - kept) / n**kept
    return law


@pytest.mark.parametrize("theta", [0.05, 0.6, 1.0])
def test_the_law_of_visited_users_is_enumerated(theta):
    truth = occupied(5, theta)
    found = dict(blanket.visited(5, theta, 24, 5))
    assert [found.get(v, 0.0) for v in range(6)] == pytest.approx(truth, rel=1e-12, abs=1e-13)
    for blocks in (1, 2, 3):
        blocked = dict(blanket.visited(5, theta, blocks, 5))
        for v in range(6):  # above in the stochastic order
            assert sum(w for top, w in blocked.items() if top >= v) >= sum(truth[v:]) * (1.0 - 1e-12)


@pytest.mark.parametrize("trials", [0, 1, 3, 7])
def test_the_law_of_visited_users_at_a_known_number_of_submissions(trials):
    chosen = [len(set(each)) for each in itertools.product(range(4), repeat=trials)]
    truth = [chosen.count(v) / 4.0**trials for v in range(5)]
    found = dict(blanket.visited(4, 1.0, 24, 4, trials))
    assert [found.get(v, 0.0) for v in range(5)] == pytest.approx(truth, rel=1e-12, abs=1e-13)
    assert all(blanket._bounded_tail(v, 4, 1.0, 0.25, trials) >= sum(truth[v:]) * (1.0 - 1e-12) for v in range(5))


@pytest.mark.parametrize(("n", "k", "alpha"), [(3, 3, 0.3), (4, 3, 0.5), (3, 4, 0.2)])
@pytest.mark.parametrize("submissions", [1, 2, 4, 6])
def test_a_known_number_of_submissions_tells_no_more_than_certified(n, k, alpha, submissions):
    """Every δ of every data set, by enumeration; a bound for one submission less fails."""
    table, ratios, broken = definition._releases(n, k, submissions), [], 0
    for epsilon in (0.0, 0.2, 0.5 * local_epsilon(alpha, k)):
        truth = 0.0
        for others in definition.compositions(n - 1, k):
            zero = definition._noisy(n, k, alpha, (others[0] + 1, *others[1:])) @ table
            one = definition._noisy(n, k, alpha, (others[0], others[1] + 1, *others[2:])) @ table
            truth = max(truth, float(np.maximum(zero - math.exp(epsilon) * one, 0.0).sum()))
        found, fewer = (
            kary.FetchedLabels(n, alpha, 1.0, k, t).delta(epsilon).upper for t in (submissions, submissions // 2)
        )
        assert truth <= found * (1.0 + 1e-12)
        broken += fewer < truth
        ratios.append(found / truth if truth > 0.0 else math.inf)
    assert min(ratios) < 2.5
    assert broken > 0


@pytest.mark.parametrize(("n", "theta"), [(1000, 0.01), (3000, 0.4), (4096, 1.0)])
def test_the_bound_of_large_clusters_lies_above_the_law_of_small_ones(n, theta):
    table = blanket._upper_tails(n, theta, n)
    for v in range(1, n + 1, 7):
        assert blanket._bounded_tail(v, n, theta, theta / n, n) >= table[v] * (1.0 - 1e-9) or table[v] < 1e-280
    mean = n * (1.0 - (1.0 - theta / n) ** n)
    assert (
        blanket._bounded_tail(int(mean + 12.0 * math.sqrt(mean)), n, theta, theta / n, n)
        < 1e-10 + (theta == 1.0) * 1e-3
    )


def test_epsilon_grows_with_the_rate_up_to_that_of_shuffled_labels():
    found = [Certified(60, 0.3, theta, 4).epsilon(1e-4).epsilon_upper for theta in (0.02, 0.1, 0.5, 1.0)]
    assert found == sorted(found)
    assert found[0] < 0.5 * found[-1]
    assert found[-1] < kary.ShuffledLabels(60, 0.3, 1.0, 4).epsilon(1e-4).epsilon_upper


@pytest.mark.slow
@pytest.mark.parametrize(("theta", "attained"), [(0.1, 0.063), (1.0, 0.155)])
def test_the_ends_are_near_each_other(theta, attained):
    """One data set has about .063 and .158; the bound that does not see θ was .229."""
    found = KaryExchange(2000, 0.5, theta, 10).epsilon(1e-6)
    assert found.epsilon_lower == pytest.approx(attained, rel=0.01)
    assert found.epsilon_upper <= 1.2 * found.epsilon_lower


def test_the_ends_of_small_clusters_are_near_each_other():
    found = KaryExchange(60, 0.6, 0.1, 10).epsilon(1e-3)
    assert 0.0 < found.epsilon_lower <= found.epsilon_upper <= 1.2 * found.epsilon_lower


BIG = [pytest.param(n, theta, marks=pytest.mark.slow) for n, theta in ((100_000, 0.1), (1_000_000, 1e-6))]


@pytest.mark.parametrize(("n", "theta"), [*BIG, (2, 1e-300), (2, 1.0)])
def test_large_clusters_and_clusters_of_two(n, theta):
    found = Certified(n, 0.2, theta, 5).epsilon(1e-6)
    assert 0.0 <= found.epsilon_lower <= found.epsilon_upper <= local_epsilon(0.2, 5)


def test_messages_of_any_randomizer_see_the_rate():
    """Randomised response between two of many outputs is the worst: its own bound, and never more than for all."""
    alpha, n = 0.2, 40
    local, variation = local_epsilon(alpha), 1.0 - 2.0 * alpha
    for epsilon in (0.05, 0.3, 1.0):
        every = ShuffledMessages(n, local, variation).delta(epsilon).upper
        for theta in (0.05, 0.5, 1.0):
            found = ShuffledMessages(n, local, variation, sampling_rate=theta).delta(epsilon).upper
            assert found == pytest.approx(Certified(n, alpha, theta, 2)._blanket(epsilon), rel=1e-6)
            assert found < every
    assert ShuffledMessages(3_000_000, 1.0, sampling_rate=0.01).epsilon(1e-6).epsilon_upper < 0.01


def test_many_classes_of_two_users_are_not_enumerated():
    """The table of noisy counts has (n+1)^(K-1) places; it did not fit into memory."""
    for k in (20, 44):
        found = KaryExchange(2, 0.3, 0.5, k).delta(0.5)
        assert 0.0 <= found.lower <= found.upper < 0.5


@pytest.mark.parametrize(("arguments", "delta"), [((5000, 0.5, 1e-4, 4), 1e-3), ((5000, 0.7499, 0.5, 4), 0.01)])
def test_no_search_where_nothing_is_left_to_protect(arguments, delta, monkeypatch):
    monkeypatch.setattr(kary, "_epsilon", None)
    assert KaryExchange(*arguments).epsilon(delta).epsilon_upper == 0.0
