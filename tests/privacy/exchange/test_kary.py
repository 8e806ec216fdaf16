"""K classes: exact in tiny clusters, certified beyond."""

import itertools
import math

import pytest

from p2p_sim.privacy import LabelExchange, local_epsilon
from p2p_sim.privacy.definition import delta_by_summation
from p2p_sim.privacy.exchange.blanket import Blanket
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.worst_of_several import largest_deltas


def exact_delta(n, classes, flip_prob, sampling_rate, epsilon):
    found = delta_by_summation(n, classes, flip_prob, sampling_rate, epsilon)
    return (found.lower + found.upper) / 2.0


def enumerated(n: int, k: int, alpha: float, theta: float, epsilon: float) -> float:
    """Every flip, choice and subsample."""
    keeps = [(s, math.prod(theta if x else 1 - theta for x in s)) for s in itertools.product((0, 1), repeat=n)]
    given = {}
    for noisy in itertools.product(range(k), repeat=n):
        views: dict[tuple[int, ...], float] = {}
        for peers in itertools.product(range(n), repeat=n):
            for keep, probability in keeps:
                view = tuple(noisy[p] if s else k for p, s in zip(peers, keep, strict=True))
                views[view] = views.get(view, 0.0) + probability / n**n
        given[noisy] = views
    worst = 0.0
    for labels in itertools.product(range(k), repeat=n):
        for other in range(k):
            if other == labels[0]:
                continue
            gap: dict[tuple[int, ...], float] = {}
            for sign, vector in ((1.0, labels), (-math.exp(epsilon), (other, *labels[1:]))):
                for noisy, views in given.items():
                    flips = [1 - alpha if a == b else alpha / (k - 1) for a, b in zip(vector, noisy, strict=True)]
                    weight = sign * math.prod(flips)
                    for view, probability in views.items():
                        gap[view] = gap.get(view, 0.0) + weight * probability
            worst = max(worst, sum(max(value, 0.0) for value in gap.values()))
    return worst


@pytest.mark.parametrize(("n", "k"), [(2, 3), (3, 3), (2, 4)])
def test_exact_value_equals_enumeration(n, k):
    for epsilon in (0.0, 0.5, 1.4):
        truth = enumerated(n, k, 0.3, 0.6, epsilon)
        bracket = KaryExchange(n, 0.3, 0.6, k).delta(epsilon)
        assert bracket.lower - 1e-14 <= truth <= bracket.upper + 1e-14
        assert bracket.upper == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize(("n", "theta"), [(5, 0.5), (12, 1.0)])
def test_two_classes_agree_with_the_binary_accountant(n, theta):
    for epsilon in (0.0, 0.4, 1.0):
        assert exact_delta(n, 2, 0.1, theta, epsilon) == pytest.approx(
            LabelExchange(n, 0.1, theta).delta(epsilon).upper, rel=1e-9
        )


@pytest.mark.parametrize(("n", "k", "alpha"), [(6, 3, 0.2), (6, 3, 0.5), (5, 4, 0.3), (9, 2, 0.1)])
def test_certified_bound_lies_above_the_exact_value_at_every_rate(n, k, alpha):
    for epsilon in (0.1, 0.5, 1.2):
        for theta in (0.3, 1.0):
            exchange = KaryExchange(n, alpha, theta, k)
            assert exchange.shuffled_delta(epsilon) >= exact_delta(n, k, alpha, theta, epsilon)


def blanket(n: int, k: int, alpha: float, epsilon: float) -> float:
    """E[k/(b+1) · (sum of b + 1 worths)]_+ over the multisets of uniform labels; b users in n-1 answer at random."""
    law = [1.0 - alpha, *[alpha / (k - 1)] * (k - 1)]  # of the noisy label, if the target holds 0
    worth = [law[z] - math.exp(epsilon) * law[[1, 0, *range(2, k)][z]] for z in range(k)]  # against her holding 1
    share, total = alpha * k / (k - 1), 0.0
    for b in range(n):
        chance = math.comb(n - 1, b) * share**b * (1.0 - share) ** (n - 1 - b)
        sums = [sum(worth[z] for z in drawn) for drawn in itertools.product(range(k), repeat=b + 1)]
        total += chance * k / (b + 1) * sum(max(0.0, s) for s in sums) / k ** (b + 1)
    return total


@pytest.mark.parametrize(("n", "k", "alpha"), [(4, 3, 0.3), (3, 4, 0.5), (5, 2, 0.2), (2, 3, 0.6)])
def test_certified_bound_is_the_walk_it_says(n, k, alpha):
    for epsilon in (0.0, 0.4, 1.0):
        found = KaryExchange(n, alpha, 1.0, k).shuffled_delta(epsilon)
        assert found == pytest.approx(min(1.0, blanket(n, k, alpha, epsilon)), rel=1e-8)


def test_a_bound_of_delta_is_at_most_one():
    """One user, whose message is worth much."""
    assert Blanket(1, 0.5, 2.0, 3.0, 0.0, 0.0).delta() == 1.0


def test_certified_bound_is_not_vacuous():
    """Control: with 10 classes and 400 users it is far below the local bound, and falls with n."""
    small, large = (KaryExchange(n, 0.5, 1.0, 10).epsilon(1e-6).epsilon_upper for n in (50, 400))
    local = local_epsilon(0.5, 10)
    assert large < 0.6 * small < 0.6 * local


def test_many_labels_and_odd_parameters():
    assert KaryExchange(30, 0.0, 1.0, 5).epsilon(1e-6).epsilon_upper == math.inf
    assert KaryExchange(30, 0.8, 1.0, 5).epsilon(1e-6).epsilon_upper == 0.0
    for users in (3, 30):  # enumerated, and not
        nothing = KaryExchange(users, 0.3, 1.0, 3).delta(local_epsilon(0.3, 3))
        assert (nothing.lower, nothing.upper) == (0.0, 0.0)
    for arguments, key in (
        ((1, 0.1, 1.0, 3), "cluster_size"),
        ((9, 0.9, 1.0, 3), "flip_prob"),
        ((9, 0.1, 0, 3), "sampling"),
    ):
        with pytest.raises(ValueError, match=key):
            KaryExchange(*arguments)


@pytest.mark.parametrize(("n", "k", "alpha"), [(3, 5, 1e-9), (3, 3, 1e-9), (4, 3, 0.66), (6, 3, 1e-6)])
def test_certified_bound_holds_beside_the_local_limit(n, k, alpha):
    for share in (1e-6, 0.5, 0.999, 1 - 1e-9):
        epsilon = share * local_epsilon(alpha, k)
        assert KaryExchange(n, alpha, 1.0, k).shuffled_delta(epsilon) >= exact_delta(n, k, alpha, 1.0, epsilon) - 1e-15


def test_certified_bound_where_a_single_label_decides():
    """n = 3, K = 100, α = 1e-12: that labels 0, 2 and 3 are all released has excess 7e-9 near ε₀."""
    epsilon = local_epsilon(1e-12, 100) * (1 - 1e-9)
    assert KaryExchange(3, 1e-12, 1.0, 100).shuffled_delta(epsilon) >= 7.1e-9


def near_the_bound() -> list[tuple[KaryExchange, float, float]]:
    """Exchanges with ε and their certified δ(ε)."""
    asked = itertools.product((12, 30), (4, 8), ((0.1, 1.0), (0.4, 0.3)), (0.0, 0.4))
    found = []
    for n, k, (alpha, theta), epsilon in asked:
        exchange = KaryExchange(n, alpha, theta, k)
        found.append((exchange, epsilon, exchange.delta(epsilon).upper))
    return [(exchange, epsilon, delta) for exchange, epsilon, delta in found if 0.0 < delta < 0.9]


def test_what_is_satisfied_is_what_the_upper_end_certifies(monkeypatch):
    """A coarse bound must not certify what the fine one does not: just below δ(ε) nothing is satisfied."""
    cases = near_the_bound()
    assert len(cases) > 12
    for exchange, epsilon, delta in cases:
        assert exchange.satisfies(epsilon, delta)
        assert not exchange.satisfies(epsilon, delta * (1.0 - 1e-9))
        assert exchange.satisfies(epsilon, min(3.0 * delta, 0.99))
    real = KaryExchange._blanket
    monkeypatch.setattr(KaryExchange, "_blanket", lambda *given: 0.99 * real(*given))  # the control: a bound too small
    assert any(exchange.satisfies(epsilon, delta * (1.0 - 1e-9)) for exchange, epsilon, delta in cases)


def test_clusters_are_held_against_the_largest_delta_at_zero():
    models = [KaryExchange(n, 0.3, 0.5, 5) for n in (60, 25, 31, 90)]  # the second is the worst
    largest = max(model.delta(0.0).upper for model in models)
    assert largest_deltas(models, [0.0]) == [largest]
    assert largest > models[0].delta(0.0).upper
