"""Majorities of several peers' noisy labels: the accountant against enumeration, direct summation and 50 digits."""

import itertools
import math
import random

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom

from p2p_sim.privacy import LabelExchange, advantage, local_epsilon, tradeoff
from p2p_sim.privacy.exchange import majority_cluster
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.exchange.majority_exchange import MajorityExchange, PluralityExchange, calibrate_majority
from p2p_sim.privacy.exchange.majority_kernel import MajorityKernel, TabulatedKernel, dominating_kernel
from p2p_sim.privacy.exchange.tail_quadrature import TailQuadrature
from tests.reference import majority

MIXTURES = [{3: 1.0}, {5: 1.0}, {1: 0.5, 5: 0.5}, {1: 0.25, 3: 0.75}, {3: 0.5, 7: 0.5}]


def shifted(monkeypatch):
    """Plants a mistake: one noisy label more than there is."""
    shares = MajorityKernel.shares
    monkeypatch.setattr(MajorityKernel, "shares", lambda self, x, s: shares(self, np.minimum(x + 1.0, s), s))


def fewer(monkeypatch):
    """Plants a mistake: two peers fewer than were asked."""
    made = MajorityKernel.majority
    monkeypatch.setattr(
        MajorityKernel,
        "majority",
        lambda self, p, q: made(MajorityKernel(tuple((max(1, k - 2), w) for k, w in self.weights)), p, q),
    )


MISTAKES = [shifted, fewer]


def settings(count, largest, seed):
    """Random settings: n, α, θ, peers."""
    rng = random.Random(seed)
    for _ in range(count):
        n = max(2, round(math.exp(rng.uniform(math.log(2), math.log(largest)))))
        alpha, theta = rng.choice([rng.uniform(0.01, 0.5), 10 ** rng.uniform(-3, -0.31)]), rng.uniform(0.02, 1.0)
        yield n, alpha, 1.0 if rng.random() < (0.3 if n <= 40 else 0.9) else theta, rng.choice(MIXTURES)


def wrong_beside_enumeration(count, seed):
    """Settings of up to 5 users whose bracket is not at the enumerated δ."""
    rng, wrong = random.Random(seed + 1), 0
    for n, alpha, theta, peers in settings(count, 5, seed):
        epsilon = rng.random() * local_epsilon(alpha)
        truth, found = majority.enumerated(n, alpha, theta, peers, epsilon), MajorityExchange(n, alpha, theta, peers)
        bracket = found.delta(epsilon)
        wrong += not (bracket.lower <= truth + 1e-14 and bracket.upper >= truth - 1e-14)
        wrong += not abs(bracket.upper - bracket.lower) <= 1e-12
    return wrong


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_equals_enumeration_of_all_noisy_labels_and_requests(count):
    assert wrong_beside_enumeration(count, 1) == 0


@pytest.mark.parametrize("mistake", MISTAKES)
def test_enumeration_sees_a_mistake(mistake, monkeypatch):
    mistake(monkeypatch)
    assert wrong_beside_enumeration(20, 1) > 5


@pytest.mark.parametrize(("n", "rounds"), [(2, 3), (3, 2)])
def test_memoised_rounds_equal_enumeration_of_all_their_views(n, rounds):
    for peers, epsilon in itertools.product(MIXTURES, (0.0, 0.5, 1.2)):
        truth = majority.enumerated(n, 0.1, 0.6, peers, epsilon, rounds)
        bracket = MajorityExchange(n, 0.1, 0.6, peers, rounds).delta(epsilon)
        assert bracket.lower == pytest.approx(truth, abs=1e-12)
        assert bracket.upper == pytest.approx(truth, abs=1e-12)


def misses_beside_direct_summation(points, largest, seed):
    """Points (ε, δ) up to `largest` users at which the bracket does not hold the summed δ, or is above it by a half."""
    rng, misses = random.Random(seed + 1), 0
    for n, alpha, theta, peers in settings(points // 4, largest, seed):  # four points each
        exchange, local = MajorityExchange(n, alpha, theta, peers), local_epsilon(alpha)
        crossing = exchange.epsilon(10 ** rng.uniform(-9, -2))
        epsilons = [rng.random() * local, crossing.epsilon_lower, crossing.epsilon_upper, 0.5 * crossing.epsilon_upper]
        inside = [epsilon for epsilon in epsilons if epsilon < local * (1.0 - 1e-9)]
        truths = majority.summed(n, alpha, theta, peers, inside)
        for epsilon, truth in zip(inside, truths, strict=True):
            bracket = exchange.delta(epsilon)
            misses += not bracket.lower <= truth * (1 + 1e-9) + 1e-15
            misses += not truth * (1 - 1e-9) - 1e-15 <= bracket.upper <= 2.0 * truth + 1e-12
        if crossing.epsilon_lower in inside and crossing.epsilon_lower > 0.0:
            misses += not truths[inside.index(crossing.epsilon_lower)] >= crossing.delta * (1 - 1e-7)
        if crossing.epsilon_upper in inside:
            misses += not truths[inside.index(crossing.epsilon_upper)] <= crossing.delta * (1 + 1e-7)
    return misses


@pytest.mark.parametrize(("points", "largest"), [(60, 60), (40, 150), pytest.param(2000, 400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("exhaustive", [0, 256])
def test_brackets_hold_direct_summation_over_all_data_sets(points, largest, exhaustive, monkeypatch):
    """Where every data set is evaluated, and where others' bits are revealed."""
    monkeypatch.setattr(majority_cluster, "EXHAUSTIVE", exhaustive)
    assert misses_beside_direct_summation(points, largest, 3) == 0


@pytest.mark.parametrize("mistake", MISTAKES)
def test_direct_summation_sees_a_mistake(mistake, monkeypatch):
    mistake(monkeypatch)
    assert misses_beside_direct_summation(30, 60, 3) > 5


@pytest.mark.parametrize("peers", MIXTURES)
@pytest.mark.parametrize(("n", "alpha", "theta"), [(2, 0.49999999, 1.0), (4, 0.1, 0.3), (6, 0.3, 1.0), (7, 1e-6, 0.7)])
def test_bounds_hold_to_the_last_digit(n, alpha, theta, peers):
    exchange = MajorityExchange(n, alpha, theta, peers)
    for share in (0.1, 0.5, 0.999, 1 - 1e-9):
        epsilon = share * local_epsilon(alpha)
        truth, bracket = majority.fifty_digits(n, alpha, theta, peers, epsilon), exchange.delta(epsilon)
        assert bracket.lower <= truth <= bracket.upper
        assert bracket.upper <= truth * (1.0 + 1e-6) + 1e-15


def of_block(sources, alpha, first, revealed, kernel):
    """A block, and the largest δ of its data sets one by one, at some ε."""
    cluster = majority_cluster.MajorityCluster(sources, alpha, sources, 1.0, kernel, kernel.requests)
    block = cluster._block(first, revealed, -14.0, True)
    exact = DeltaEvaluator(cluster, -14.0)
    epsilons = [share * exact.cross([first], 1e-5, 0.0, upper=False)[0] for share in (0.3, 0.7, 1.0)]
    data_sets = range(first, first + revealed + 1)
    return [(block.delta(epsilon), max(exact.at(ones, epsilon).upper for ones in data_sets)) for epsilon in epsilons]


BLOCKS = [(300, 0.1, 80, 12), (500, 0.3, 60, 20), (900, 0.2, 100, 20), (3000, 0.1, 0, 8)]


@pytest.mark.parametrize("weights", [((3, 1.0),), ((1, 0.5), (5, 0.5)), ((1, 0.3), (11, 0.7))])
@pytest.mark.parametrize(("sources", "alpha", "first", "revealed"), BLOCKS)
def test_a_block_lies_above_each_of_its_data_sets_and_close(
    sources, alpha, first, revealed, weights, monkeypatch
):  # the last mixture is not log-concave
    monkeypatch.setattr(majority_cluster, "EXHAUSTIVE", 0)
    for certified, largest in of_block(sources, alpha, first, revealed, MajorityKernel(weights)):
        assert largest <= certified < 4.0 * largest


def test_a_block_whose_kernel_ignores_what_is_revealed_is_seen(monkeypatch):
    """Control: the kernel of the middle of what may be revealed does not serve all of it."""
    monkeypatch.setattr(majority_cluster, "EXHAUSTIVE", 0)

    def middle(kernel, sources, *, revealed, first, last):
        share, _ = kernel.shares(np.arange(first, last + 1) + revealed / 2.0, sources)
        return TabulatedKernel(first, share)

    monkeypatch.setattr(majority_cluster, "dominating_kernel", middle)
    points = [of_block(*block, MajorityKernel(((5, 1.0),))) for block in BLOCKS]
    assert any(certified < largest for certified, largest in itertools.chain(*points))


@pytest.mark.parametrize("peers", MIXTURES)
@pytest.mark.parametrize(
    ("sources", "revealed", "first", "last"), [(100, 3, 30, 60), (200, 8, 60, 120), (5000, 40, 2000, 2100)]
)
def test_a_dominating_kernel_has_the_larger_steps_in_fifty_digits(sources, revealed, first, last, peers):
    """p̃ rises by more and 1-p̃ falls by more than those of every number of revealed ones; control: than of one more."""
    kernel = dominating_kernel(MajorityKernel(tuple(peers.items())), sources, revealed=revealed, first=first, last=last)
    assert kernel is not None
    table = [mp.mpf(float(share)) for share in kernel.table]
    with mp.workdps(50):
        p = [majority.exact_share(mp.mpf(j) / sources, peers) for j in range(first, last + revealed + 2)]

        def holds(ones):
            steps = itertools.pairwise(zip(table, p[ones:], strict=False))
            return all(b / a >= d / c and (1 - b) / (1 - a) <= (1 - d) / (1 - c) for (a, c), (b, d) in steps)

        assert all(holds(ones) for ones in range(revealed + 1))
        assert not holds(revealed + 1)


def test_the_steps_of_a_linear_kernel_are_those_of_the_exchange_among_the_rest():
    kernel = dominating_kernel(MajorityKernel(((1, 1.0),)), 1000, revealed=50, first=200, last=400)
    assert kernel.table == pytest.approx(np.arange(200, 401) / 950.0, rel=1e-9)


VALUES = [
    (50, 0.1, (0.852, 0.858, 0.934, 0.828)),
    (200, 0.05, (0.897, 0.607, 0.643, 0.551)),
    (200, 0.1, (0.562, 0.440, 0.482, 0.418)),
    (200, 0.2, (0.273, 0.280, 0.293, 0.262)),
]


@pytest.mark.parametrize(("n", "alpha", "expected"), VALUES)
def test_values_of_direct_summation_are_reproduced(n, alpha, expected):
    for peers, epsilon in zip((1, 3, 5, {1: 0.5, 5: 0.5}), expected, strict=True):
        bound = MajorityExchange(n, alpha, 1.0, peers).epsilon(1e-5)
        assert bound.epsilon_lower == pytest.approx(epsilon, abs=7e-4)
        assert bound.epsilon_upper == pytest.approx(epsilon, abs=7e-4)


@pytest.mark.parametrize("n", [36, 300, 3000, *(pytest.param(n, marks=pytest.mark.slow) for n in (30_000, 1_000_000))])
@pytest.mark.parametrize("theta", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("peers", [3, {1: 0.5, 5: 0.5}, pytest.param(5, marks=pytest.mark.slow)])
def test_brackets_are_narrow(n, theta, peers):
    bound = MajorityExchange(n, 0.1, theta, peers).epsilon(1e-5)
    assert 0.0 < bound.epsilon_lower <= bound.epsilon_upper <= 1.02 * bound.epsilon_lower


def test_one_peer_is_the_label_exchange():
    for n, theta, rounds in ((40, 0.5, 1), (700, 1.0, 2)):
        one, exchange = MajorityExchange(n, 0.1, theta, {1: 1.0}, rounds), LabelExchange(n, 0.1, theta, rounds)
        assert one.epsilon(1e-5).epsilon_upper == exchange.epsilon(1e-5).epsilon_upper
        assert one.delta(0.1) == exchange.delta(0.1)


def test_what_follows_from_the_curve_is_there():
    exchange = MajorityExchange(60, 0.1, 0.5, {1: 0.5, 5: 0.5})
    bound = exchange.epsilon(1e-5)
    assert exchange.satisfies(1.001 * bound.epsilon_upper, 1e-5)
    assert not exchange.satisfies(0.999 * bound.epsilon_lower, 1e-5)
    assert exchange.delta(local_epsilon(0.1)).upper == 0.0
    assert 0.0 < advantage(exchange).lower <= advantage(exchange).upper < 0.5
    first = np.array([0.01, 0.2])
    assert np.all(tradeoff(exchange, first) <= 1.0 - first)
    alpha = calibrate_majority([60, 90], sampling_rate=0.5, peers=3, epsilon=0.5, delta=1e-5)
    assert MajorityExchange(60, alpha, 0.5, 3).epsilon(1e-5).epsilon_upper <= 0.5 * (1 + 1e-6)
    assert MajorityExchange(60, alpha - 1e-3, 0.5, 3).epsilon(1e-5).epsilon_upper > 0.5


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((1, 0.1, 0.5, 3), "cluster_size"), ((9, 0.0, 0.5, 3), "flip_prob"), ((9, 0.1, 0.0, 3), "sampling_rate"),
     ((9, 0.1, 0.5, 2), "peers = 2"), ((9, 0.1, 0.5, 43), "peers = 43"), ((9, 0.1, 0.5, {}), "sum to one"),
     ((9, 0.1, 0.5, {1: 0.5, 3: 0.4}), "sum to one"), ((9, 0.1, 0.5, {3: 1.5, 5: -0.5}), "probability"),
     ((9, 0.1, 0.5, 3, 0), "rounds")],
)  # fmt: skip
def test_bad_parameters_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        MajorityExchange(*arguments)


def plurality_delta(n, classes, alpha, peers, epsilon):
    """δ(ε) where all submit the plurality of so many noisy labels, ties by a coin, by enumeration."""
    noisy = list(itertools.product(range(classes), repeat=n))
    views = []
    for labels in noisy:
        law = np.zeros(classes)
        for answers in itertools.product(labels, repeat=peers):
            counts = np.bincount(answers, minlength=classes)
            law += (counts == counts.max()) / (counts == counts.max()).sum() / n**peers
        views.append(np.ravel(math.prod(np.ix_(*[law] * n))))

    def view(true):
        flips = [math.prod(1 - alpha if a == b else alpha / (classes - 1) for a, b in zip(true, z, strict=True))
                 for z in noisy]  # fmt: skip
        return np.array(flips) @ np.array(views)

    pairs = ((view((0, *others)), view((1, *others))) for others in itertools.product(range(classes), repeat=n - 1))
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in pairs)


@pytest.mark.parametrize(("n", "classes", "peers"), [(2, 3, 3), (3, 3, 2), (4, 3, 3), (3, 4, 3), (4, 2, 5)])
def test_pluralities_of_many_classes_lie_below_the_bound_for_shuffled_labels(n, classes, peers):
    """Control, where there are enough peers: they lie above the exact figure of the label exchange."""
    above = 0
    for alpha, epsilon in itertools.product((0.2, 0.4), (0.0, 0.3, 1.0)):
        truth = plurality_delta(n, classes, alpha, peers, epsilon)
        bracket = PluralityExchange(n, alpha, 1.0, classes).delta(epsilon)
        assert bracket.lower <= truth <= bracket.upper
        above += truth > KaryExchange(n, alpha, 1.0, classes).delta(epsilon).upper
    assert above > 0 or peers < 5


@pytest.mark.parametrize(("submissions", "log_off"), [(100_000, -40.0), (20_000, -60.0)])
def test_sums_at_few_points_are_those_of_all_values(submissions, log_off):
    """Within what is charged, in either tail; control: with the points of one piece they are not."""
    noisy, p = np.arange(9_000.0, 11_001.0), MajorityKernel(((3, 1.0),))
    share, _ = p.shares(noisy, 100_000)
    weights = binom.pmf(noisy[:-1], 100_000, 0.1)
    few = TailQuadrature.of(weights, share, submissions, log_off)
    assert few is not None
    assert 2 * few.points.size < noisy.size
    for ones in np.quantile(submissions * share, [0.2, 0.4, 0.6]).astype(int).tolist():
        for tail in (binom.cdf, binom.sf):
            values = tail(ones, submissions, share)
            at, above, off = few.sums(tail(ones, submissions, few.points))
            assert abs(at - weights @ values[:-1]) <= off
            assert abs(above - weights @ values[1:]) <= off
            assert off <= 1e-9
    coarse = TailQuadrature._with_moments(weights, share, 1, 0.0)
    found = coarse.sums(binom.cdf(ones, submissions, coarse.points))
    assert abs(found[0] - weights @ binom.cdf(ones, submissions, share)[:-1]) > found[2]
