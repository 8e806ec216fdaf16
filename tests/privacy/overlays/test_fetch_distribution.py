"""Any fetch distribution: the certified bound against enumeration and against brute-force suprema."""

import gc
import itertools
import weakref

import numpy as np
import pytest
import scipy.sparse as sparse

from p2p_sim.privacy import Coalition, LabelExchange, local_epsilon
from p2p_sim.privacy.overlays import fetch_distribution as fetch
from p2p_sim.privacy.overlays.fetch_distribution import NEAR, FetchDistribution
from p2p_sim.privacy.overlays.symmetric_pairs import Pair, product
from p2p_sim.privacy.overlays.user_bound import tail_bounds
from p2p_sim.privacy.randomized_response import local_delta
from tests.reference import fetch as reference


def three_point_divergence(weights, level, sampling_rate, ratio):
    return product([Pair.three_point(level, w, sampling_rate, 1) for w in weights.tolist()]).divergence(ratio)


def ring(n: int, neighbours: int) -> np.ndarray:
    """Each user fetches uniformly from her nearest neighbours and herself."""
    weights = np.zeros((n, n))
    for i in range(n):
        weights[i, [(i + d) % n for d in range(-(neighbours // 2), neighbours // 2 + 1)]] = 1.0 / (neighbours + 1)
    return weights


def overlays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    random = rng.random((5, 5)) * (rng.random((5, 5)) < 0.6) + 0.05
    return {"complete": np.full((5, 5), 0.2), "ring": ring(6, 2), "random": random / random.sum(axis=1, keepdims=True)}


@pytest.mark.parametrize("name", ["complete", "ring", "random"])
@pytest.mark.parametrize(("alpha", "theta"), [(0.3, 1.0), (0.4, 0.5)])
def test_bound_lies_above_enumeration(name, alpha, theta):
    weights = overlays()[name]
    fetch = FetchDistribution(weights, alpha, theta)
    for epsilon in (0.0, 0.2, 0.4, 0.8):
        assert fetch.delta(epsilon).upper >= reference.delta(weights, alpha, theta, epsilon)


@pytest.mark.parametrize("weights", [[0.3, 0.3], [0.2, 0.2, 0.2], [0.1, 0.3], [0.05, 0.05, 0.4]])
@pytest.mark.parametrize("ratio", [1.05, 1.4, 2.5])
def test_three_point_pairs_dominate_every_vertex_and_interior_point(weights, ratio):
    """All products of Bernoulli pairs (p, p+w) with p on a grid of [τ, 1-τ-w], mixed vertices included."""
    weights, level, theta = np.array(weights), 0.08, 0.7
    bound = three_point_divergence(weights, level, theta, ratio)
    grids = [np.linspace(level, 1 - level - w, 5) for w in weights]
    worst = max(product_divergence(np.array(ps), weights, theta, ratio) for ps in itertools.product(*grids))
    assert bound >= worst


@pytest.mark.parametrize("theta", [1.0, 0.5])
def test_without_noise_delta_is_the_chance_that_somebody_submits_the_label(theta):
    """Three users fetch from the target, with probability 1/3 each."""
    found = FetchDistribution(ring(6, 2), 0.0, theta).delta(0.5)
    assert found.upper == pytest.approx(1.0 - (1.0 - theta / 3.0) ** 3, rel=1e-9)


def test_a_mixed_vertex_can_beat_both_pure_ends():
    """Two users with weight .1, τ = .05, r = 2.66: scanning the pure ends alone would be 60% too low."""
    weights, low, high, ratio = np.array([0.1, 0.1]), 0.05, 0.85, 2.66
    low_low, low_high, high_high = (
        product_divergence(np.array(ps), weights, 1.0, ratio) for ps in ((low, low), (low, high), (high, high))
    )
    assert low_high > 1.6 * max(low_low, high_high)
    assert three_point_divergence(weights, low, 1.0, ratio) >= low_high


def product_divergence(p: np.ndarray, w: np.ndarray, theta: float, ratio: float) -> float:
    a, b = np.ones(1), np.ones(1)
    for low, gain in zip(p, w, strict=True):
        a = np.outer(a, [1 - theta, theta * low, theta * (1 - low)]).ravel()
        b = np.outer(b, [1 - theta, theta * (low + gain), theta * (1 - low - gain)]).ravel()
    return max(np.maximum(a - ratio * b, 0).sum(), np.maximum(b - ratio * a, 0).sum())


def test_complete_overlay_costs_little_more_than_the_exact_figure():
    n, alpha, theta = 1000, 0.1, 0.1
    bound = FetchDistribution(np.full((n, n), 1 / n), alpha, theta).epsilon(1e-6)
    exact = LabelExchange(n, alpha, theta).epsilon(1e-6)
    assert exact.epsilon_upper < bound.epsilon_upper <= 1.03 * exact.epsilon_lower


@pytest.mark.slow
def test_sparse_overlays_gain_once_they_are_dense_enough():
    n = 800

    def circulant(degree: int) -> sparse.csr_array:
        rows = np.repeat(np.arange(n), degree)
        columns = (rows + np.tile(np.arange(1, degree + 1), n)) % n
        return sparse.csr_array((np.full(n * degree, 1 / degree), (rows, columns)), shape=(n, n))

    few, many = (FetchDistribution(circulant(d), 0.1, 0.5).epsilon(1e-6).epsilon_upper for d in (10, 400))
    assert many < 1.3 < few <= local_epsilon(0.1)


def test_a_badly_placed_user_is_seen():
    """User 0 is fetched with probability 1/2 by everyone: her figure is the local one, the others' is better."""
    n = 400
    weights = np.full((n, n), 0.5 / (n - 1))
    weights[:, 0] = 0.5
    fetch = FetchDistribution(weights, 0.3, 0.2)
    assert fetch.user_delta(0, 0.5) > 10 * fetch.user_delta(7, 0.5)
    assert fetch.delta(0.5).upper == pytest.approx(fetch.user_delta(0, 0.5))


@pytest.mark.parametrize("weights", [np.full(50, 0.02), np.array([0.5] + [0.01] * 50)])
def test_tail_bound_lies_above_simulation(weights):
    """200,000 draws; an upper bound is refuted only beyond 6.2 standard errors (1e-9); a third of it is refuted."""
    rng = np.random.default_rng(1)
    sums = (rng.random((200_000, len(weights))) < 0.2) @ weights
    for level in (0.05, 0.1):
        share = float(np.mean(sums < level - 1e-12))
        error = 6.2 * np.sqrt(share * (1 - share) / len(sums))
        assert tail_bounds(np.sort(weights), 0.2, np.array([level]))[0] >= share - error
    if np.ptp(weights) == 0:  # where the bound is exact
        assert tail_bounds(weights, 0.2, np.array([0.1]))[0] / 3 < share - error


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((2, 3)) / 3, "must be square"),
        (np.full((2, 2), 0.6), "every row must sum to 1"),
        (np.array([[1.5, -0.5], [0.5, 0.5]]), "at least 0"),
        (np.array([[np.nan, 1.0], [0.5, 0.5]]), "finite"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        FetchDistribution(weights, 0.1, 0.5)


def test_repeated_entries_are_one_entry():
    """A sparse matrix may list an entry in parts; they are one fetch probability."""
    n = 4
    whole = np.full((n, n), 1 / n)
    indices, pointers = np.tile(np.repeat(np.arange(n), 50), n), np.arange(n + 1) * 50 * n
    parts = sparse.csr_array((np.full(indices.size, 1 / 200), indices, pointers), shape=(n, n))
    bounds = [FetchDistribution(w, 0.3, 1.0).delta(0.3).upper for w in (whole, parts)]
    assert bounds[1] == pytest.approx(bounds[0])
    assert parts.nnz == indices.size  # the caller's matrix is left as it was


@pytest.mark.slow
def test_the_worst_target_is_among_those_evaluated():
    """Two targets whose fetchers have the same rows' shapes, but different numbers of equal rows of each."""
    n = 900
    weights = np.full((n, n), 1 / n)

    def even(target: int, first: int) -> np.ndarray:
        row = np.zeros(n)
        row[[target, *range(first, first + 39)]] = 0.025
        return row

    def uneven(target: int, first: int) -> np.ndarray:
        row = np.zeros(n)
        row[target], row[first : first + 78] = 0.025, 0.0125
        return row

    weights[0] = weights[1] = even(898, 10)
    weights[2], weights[3] = uneven(898, 50), uneven(898, 130)
    weights[4], weights[5] = even(899, 210), even(899, 250)
    weights[6] = weights[7] = uneven(899, 300)
    fetch = FetchDistribution(weights, 0.4, 1.0)
    assert fetch.delta(0.2).upper >= max(fetch.user_delta(user, 0.2) for user in (0, 500, 898, 899))


@pytest.mark.parametrize("name", ["complete", "ring", "random"])
def test_realised_submitters_and_known_bits_lie_above_enumeration(name):
    """Rates of 0 and 1, whose rows of rate 0 may be empty, or any; user 1's bit is known."""
    weights, alpha, known = overlays()[name], 0.25, (1,)
    n = len(weights)
    arrived = np.arange(n) % 3 != 0
    for rates, table in ((arrived.astype(float), weights * arrived[:, None]), (np.linspace(0, 1, n), weights)):
        fetch = FetchDistribution(table, alpha, rates, known=np.isin(np.arange(n), known))
        for epsilon in (0.0, 0.3, 0.8):
            for user in set(range(n)) - set(known):
                assert fetch.user_delta(user, epsilon) >= reference.delta(table, alpha, rates, epsilon, known, [user])
            assert fetch.user_delta(1, epsilon) == fetch.delta(epsilon).upper == local_delta(alpha, epsilon).upper


@pytest.mark.slow
def test_a_realised_network_is_worth_what_its_submitters_are():
    """Of 300 users 30 submit: as rates of 0 and 1 about the figure of a rate of .1; known bits only cost."""
    n, alpha = 300, 0.2
    weights, rates, known = np.full((n, n), 1 / n), (np.arange(n) < 30).astype(float), np.arange(n) >= 225
    some = FetchDistribution(weights, alpha, rates)
    drawn = FetchDistribution(weights, alpha, 0.1).epsilon(1e-6).epsilon_upper
    assert some.epsilon(1e-6).epsilon_upper == pytest.approx(drawn, rel=0.1)
    assert some.user_epsilon(0, 1e-6) < FetchDistribution(weights, alpha, rates, known=known).user_epsilon(0, 1e-6)


def test_the_map_of_users_agrees_with_each_user_and_with_the_worst():
    weights = overlays()["random"]
    members, known = np.arange(5) == 4, np.arange(5) == 3
    fetch = FetchDistribution(weights, 0.2, 1.0, known=known, members=members)
    found = fetch.user_epsilons(0.05)
    assert np.isnan(found[4])
    assert found[:4].tolist() == [fetch.user_epsilon(user, 0.05) for user in range(4)]
    assert found[:4].max() == pytest.approx(fetch.epsilon(0.05).epsilon_upper, rel=1e-6)
    for user in range(4):
        assert fetch.user_delta(user, found[user]) <= 0.05
    with pytest.raises(ValueError, match="member of the coalition"):
        fetch.user_delta(4, 0.1)


@pytest.mark.slow
def test_members_of_dense_overlays_cost_little_more_than_the_coalition_of_the_exact_accountant():
    """Where meeting the target (3 in 400) is within δ; control: the learner's bound is smaller."""
    n, delta = 400, 0.02
    fetch = FetchDistribution(np.full((n, n), 1 / n), 0.1, 0.1, members=np.arange(n) < 3)
    exact = Coalition(LabelExchange(n, 0.1, 0.1), 3)
    learner = FetchDistribution(np.full((n, n), 1 / n), 0.1, 0.1)
    for epsilon in (0.05, 0.3):
        assert exact.delta(epsilon).lower < fetch.user_delta(7, epsilon) < exact.delta(epsilon).upper + 0.01
        assert learner.user_delta(7, epsilon) < fetch.user_delta(7, epsilon)
    assert fetch.epsilon(delta).epsilon_upper < 0.05


def test_whoever_is_asked_by_nobody_else_is_exposed_only_that_often():
    """Direct exposure: one user in a large population asks the target, 1 time in 50, and nothing else hides the bit."""
    n = 60
    weights = np.eye(n)
    weights[0] = 0.0
    weights[0, 1], weights[0, 0] = 0.02, 0.98
    fetch = FetchDistribution(weights * (np.arange(n) == 0)[:, None], 0.1, (np.arange(n) == 0).astype(float))
    for epsilon in (0.0, 1.0, 2.0):
        assert fetch.user_delta(1, epsilon) <= 0.02 * local_delta(0.1, epsilon).upper * (1 + 1e-9)
    assert fetch.user_delta(2, 0.0) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling_rate": 0.0}, "sampling_rate = 0.0: must lie in"),
        ({"sampling_rate": np.full(3, 0.5)}, "one number, or one for each user"),
        ({"sampling_rate": np.array([0.5, 1.2])}, "every user's must lie in"),
        ({"sampling_rate": 1.0, "known": np.zeros(3, dtype=bool)}, "known: must be one bool"),
        ({"sampling_rate": 1.0, "members": np.zeros(2)}, "members: must be one bool"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        FetchDistribution(np.full((2, 2), 0.5), 0.1, **options)


def test_a_user_nobody_asks_loses_nothing():
    weights = np.array([[0.0, 0.5, 0.5]] * 3)
    fetch = FetchDistribution(weights, 0.2, 1.0)
    assert fetch.user_delta(0, 0.1) == 0.0
    assert fetch.delta(0.3).upper >= reference.delta(weights, 0.2, 1.0, 0.3)
    assert fetch.epsilon(0.1).epsilon_upper <= local_epsilon(0.2)


def test_targets_who_look_alike_to_a_silent_crowd_keep_their_own_figures():
    """Users 0 and 20 are asked by four who submit, with rows of equal entries, but differ in whom these ask besides.

    More users than a neighbourhood is looked at for could ask both as well, but submit nothing.
    """
    crowd, delta = NEAR + 2, 1e-3
    weights = np.zeros((25 + crowd, 25 + crowd))
    weights[:20, :20] = (ring(20, 4) - np.eye(20) / 5.0) * 1.25
    weights[20:25, 20:25] = (1.0 - np.eye(5)) / 4.0
    weights[25:, [0, 20]] = 0.5
    rates = 0.3 * (np.arange(25 + crowd) < 25)
    fetch, alone = FetchDistribution(weights, 0.4, rates), FetchDistribution(weights[:25, :25], 0.4, 0.3)
    own = [fetch.user_epsilon(user, delta) for user in (0, 20)]
    assert own[0] != own[1]  # control: one figure would not do for both
    assert fetch.user_epsilons(delta)[[0, 20]].tolist() == own
    assert own == [alone.user_epsilon(user, delta) for user in (0, 20)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("weights", "alpha", "rates"),
    [
        ([[1.0, 0.0, 0.0], [0.03, 0.91, 0.06], [0.43, 0.57, 0.0]], 0.247, [0.912, 1e-267, 0.77]),
        (
            [[1.8e-11, 1.0 - 1.8e-11, 0.0], [0.7, 0.0, 0.3], [2.4e-11, 0.4, 0.6 - 2.4e-11]],
            0.0046,
            [1.0, 2.6e-47, 3e-62],
        ),
    ],
)
def test_users_who_nearly_never_submit_are_no_trouble(weights, alpha, rates):
    """The grid of their losses was as fine as they are rare, with 1e11 points and more."""
    table = FetchDistribution(np.array(weights), alpha, np.array(rates))
    for epsilon in (0.0, 0.1, 1.0):
        assert table.delta(epsilon).upper >= reference.delta(np.array(weights), alpha, rates, epsilon)
        assert table.delta(epsilon).upper <= local_delta(alpha, epsilon).upper


def test_a_table_is_freed_when_nobody_uses_it():
    """An audit makes thousands; each was kept by itself until the collector came, which memory alone does not call."""
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((30, 30)) < 0.5, 1.0, 0.0) * (1.0 - np.eye(30))
    table = FetchDistribution(weights / weights.sum(axis=1, keepdims=True), 0.1, 0.5)
    seen = weakref.ref(table)
    gc.disable()
    try:
        table.user_delta(0, 0.3)
        del table
        fetch._bounds_of.cache_clear()
        assert seen() is None
    finally:
        gc.enable()


def test_rows_that_miss_a_sum_of_one_by_rounding_are_scaled():
    """δ of rows that sum to 1 - 9e-10 was 1.2e-7 of itself too small."""
    exact, rounded = (FetchDistribution(np.full((100, 100), s / 100), 0.3, 1.0) for s in (1.0, 1.0 - 9e-10))
    bound = exact.delta(0.5).upper
    assert abs(rounded.delta(0.5).upper - bound) <= 1e-9 * bound
