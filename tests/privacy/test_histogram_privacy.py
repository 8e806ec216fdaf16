"""ε of private histograms by enumeration on tiny samples; what the code draws has the law that was accounted for.

Each statistical test has a false-alarm rate of 1e-9.
"""

import itertools
import math
import warnings

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.histograms.classifiers import PCL, CellCounts, LabelPrivateHistogram, PCL2b
from p2p_sim.histograms.densities import PCDE
from p2p_sim.histograms.partitions import CellNoise
from p2p_sim.histograms.semi_supervised import HalfSpaces, SemiSupervised, choice_law
from p2p_sim.learning.exchange_histogram import ExchangeHistogram
from p2p_sim.privacy.rivals.histograms import (
    choice_epsilon,
    counts_epsilon,
    disjoint,
    stability_threshold,
    vote_epsilon,
)

FALSE_ALARM = 1e-9
SIGMAS = 6.11
"""Two-sided normal quantile of the false-alarm rate."""


def neighbours(universe, rows, compatible=lambda old, new: True):
    """All pairs of samples that differ in their first example."""
    for rest in itertools.combinations_with_replacement(universe, rows - 1):
        for old, new in itertools.permutations(universe, 2):
            if compatible(old, new):
                yield (old, *rest), (new, *rest)


def centred(sample):
    """Centred votes of two cells."""
    return tuple(sum(label - 0.5 for cell, label in sample if cell == c) for c in (0, 1))


def uncentred(sample):
    """Planted: plain sums of labels, and of the ones that are not."""
    return tuple(sum(label == value for cell, label in sample if cell == c) for c in (0, 1) for value in (0, 1))


def sensitivity(votes, rows=3, compatible=lambda old, new: True):
    """Largest L1 distance over neighbours: with Laplace noise, the largest log density ratio times the scale."""
    pairs = neighbours([(c, label) for c in (0, 1) for label in (0, 1)], rows, compatible)
    return max(sum(abs(a - b) for a, b in zip(votes(one), votes(two), strict=True)) for one, two in pairs)


def positive(vote, scale):
    """P(vote + Laplace > 0)."""
    return 0.5 * math.exp(vote / scale) if vote < 0 else 1.0 - 0.5 * math.exp(-vote / scale)


def largest_ratio(epsilon, queries=1):
    """Largest log-ratio of a set of classes of both cells, each asked `queries` times with noise of its own."""
    worst = 0.0
    for one, two in neighbours([(c, label) for c in (0, 1) for label in (0, 1)], 3):
        chances = [[positive(vote, 1.0 / epsilon) for vote in centred(sample)] for sample in (one, two)]
        for answer in itertools.product((0, 1), repeat=2):
            p, q = (
                math.prod((c if said else 1.0 - c) ** queries for c, said in zip(chance, answer, strict=True))
                for chance in chances
            )
            worst = max(worst, math.log(p / q))
    return worst


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_votes_cost_epsilon_for_an_example_and_for_a_label_exactly(epsilon):
    assert sensitivity(centred) == 1.0 == sensitivity(centred, compatible=lambda old, new: old[0] == new[0])
    assert sensitivity(uncentred) == 2.0
    assert largest_ratio(epsilon) == pytest.approx(epsilon, rel=1e-12)
    for adjacency in ("example", "label"):
        bound = vote_epsilon(epsilon, adjacency)
        assert (bound.epsilon_lower, bound.epsilon_upper, bound.delta, bound.adjacency) == (
            epsilon,
            epsilon,
            0,
            adjacency,
        )


class NoisePerQuery(PCL):
    """Planted: every query draws noise of its own."""

    def _votes(self, cells):
        fresh = np.random.default_rng().laplace(0.0, 1.0 / self.epsilon, len(cells))
        return self.table_.look_up(self.votes_, cells) + fresh


def answers_change(model):
    """Whether two points of one cell, or one point asked twice, get different votes."""
    points = np.repeat((np.arange(200) + 0.5) / 200, 2)[:, None]
    points[1::2] += 0.001
    votes = [model.decision_function(points), model.decision_function(points[::-1])[::-1]]
    return not np.array_equal(votes[0], votes[1]) or not np.array_equal(votes[0][::2], votes[0][1::2])


def test_noise_belongs_to_the_cell_not_to_the_query():
    rng = np.random.default_rng(1)
    sample = rng.random((40, 1)) * 0.5, rng.integers(0, 2, 40)  # half of the cells are empty
    with warnings.catch_warnings(action="ignore"):  # more cells than rows
        models = PCL(side=1 / 200).fit(*sample), NoisePerQuery(side=1 / 200).fit(*sample)
    assert [answers_change(model) for model in models] == [False, True]
    assert largest_ratio(1.0, queries=5) > 4.9  # what the planted bug costs for five queries


def test_noise_does_not_depend_on_data_rows_or_dimension_of_the_query():
    rng = np.random.default_rng(2)
    points, labels = rng.random((500, 2)), rng.integers(0, 2, 500)
    order = rng.permutation(500)
    models = [PCL(side=0.1).fit(points, labels), PCL(side=0.1).fit(points[order], labels[order])]
    other = PCL(side=0.1).fit(points, 1 - labels)
    grid = rng.random((1000, 2))
    votes = [model.decision_function(grid) for model in (*models, other)]
    noise = models[0].noise_.at(models[0].partition_.cells(grid))
    assert np.array_equal(votes[0], votes[1])
    assert votes[0] - noise == pytest.approx(-(votes[2] - noise), abs=1e-12)
    assert not np.array_equal(votes[0], PCL(side=0.1, random_state=1).fit(points, labels).decision_function(grid))


def kolmogorov(values, scale):
    """Kolmogorov distance from the Laplace law."""
    ordered = np.sort(values) / scale
    law = np.where(ordered < 0, 0.5 * np.exp(np.minimum(ordered, 0)), 1 - 0.5 * np.exp(-np.maximum(ordered, 0)))
    steps = np.arange(len(values) + 1) / len(values)
    return max(np.max(steps[1:] - law), np.max(law - steps[:-1]))


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_noise_is_laplace_and_neighbouring_cells_are_unrelated(dimensions):
    side = round(100_000 ** (1 / dimensions))
    cells = np.stack(np.meshgrid(*[np.arange(side) - side // 2] * dimensions, indexing="ij"), -1).reshape(
        -1, dimensions
    )
    noise = CellNoise(3, "votes", 0.5).at(cells)
    critical = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(noise)))
    assert kolmogorov(noise, 0.5) < critical
    assert kolmogorov(noise, 0.45) > critical  # planted: the scale is off by a tenth
    signs = np.sign(noise)
    for lag in {1, side % len(noise) or 2}:
        product = signs[lag:] * signs[:-lag]
        assert abs(product.sum()) < SIGMAS * math.sqrt(len(product))
    assert len(np.unique(noise)) == len(noise)


def count_law(count, threshold, scale, edges):
    """Law of a cell's noisy count: dropped, then bins between `edges` (from the threshold to infinity)."""

    def below(x):
        z = (x - count) / scale
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))

    if count == 0:
        return np.concatenate([[1.0], np.zeros(len(edges) - 1)])
    return np.concatenate([[below(threshold)], np.diff(below(edges))])


def hockey_stick(one, two, epsilon, threshold, scale):
    """Σ (P - e^ε Q)+ over bins of two cells' noisy counts; bins end where a density ratio changes."""
    edges = np.unique(
        np.concatenate([[threshold, np.inf], np.arange(math.ceil(threshold), 40), np.linspace(threshold, 40, 300)])
    )
    p, q = (np.multiply.outer(*(count_law(c, threshold, scale, edges) for c in counts)) for counts in (one, two))
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def worst_delta(epsilon, at, threshold, scale):
    """Largest δ over neighbours: one example moves from the first cell to the second."""
    pairs = [((a, b), (a - 1, b + 1)) for a in (1, 2, 5, 12) for b in (0, 1, 4, 12)]
    both = [*pairs, *[(two, one) for one, two in pairs]]
    return max(hockey_stick(one, two, at, threshold, scale) for one, two in both)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (0.1, 0.9)])
def test_the_stability_histogram_has_a_quarter_of_its_delta_exactly(epsilon, delta):
    threshold, scale = stability_threshold(epsilon, delta), 2.0 / epsilon
    assert worst_delta(epsilon, epsilon, threshold, scale) == pytest.approx(delta / 4, rel=1e-9)


def test_a_lower_threshold_or_less_noise_costs_more():
    epsilon, delta, scale = 1.0, 0.05, 2.0
    threshold = stability_threshold(epsilon, delta)
    enough = threshold - scale * math.log(4.0)  # the least threshold that keeps δ
    assert worst_delta(epsilon, epsilon, enough, scale) == pytest.approx(delta, rel=1e-9)
    assert worst_delta(epsilon, epsilon, enough - 0.1, scale) > delta
    assert worst_delta(epsilon, epsilon, threshold, scale / 2.0) > delta


def test_no_smaller_epsilon_holds_for_counts():
    epsilon, delta = 1.0, 0.02
    bound = counts_epsilon(epsilon, delta)
    assert (bound.epsilon_upper, bound.delta) == (epsilon, delta)
    assert 0.9 < bound.epsilon_lower < epsilon
    assert worst_delta(epsilon, bound.epsilon_lower - 1e-3, stability_threshold(epsilon, delta), 2.0) > delta
    both = counts_epsilon(epsilon, delta / 16, histograms=2)
    assert (both.epsilon_upper, both.delta) == (2 * epsilon, delta / 8)
    assert 1.9 < both.epsilon_lower < 2.0


@pytest.mark.parametrize("rows", [5, 23, 24])
def test_a_lower_figure_needs_rows_enough_for_it(rows):
    """T = 11.6 at ε = 1 and δ = .01: with fewer than 24 rows no two cells hold T examples each."""
    points, labels = np.zeros((rows, 1)), np.ones(rows, dtype=int)
    with warnings.catch_warnings(action="ignore"):  # no cell passes
        bounds = PCDE(1.0, 0.01).fit(points).privacy(), PCL2b(1.0, 0.01).fit(points, labels).privacy()
    assert [bound.epsilon_lower > 0.5 for bound in bounds] == [rows >= 24] * 2
    assert [bound.epsilon_upper for bound in bounds] == [1.0, 2.0]
    threshold = stability_threshold(1.0, 0.01)
    moves = [((a, 5 - a), (a - 1, 6 - a)) for a in range(1, 6)]
    five = max(hockey_stick(*pair, 0.5, threshold, 2.0) for one, two in moves for pair in ((one, two), (two, one)))
    assert five < 0.01 < math.exp(counts_epsilon(1.0, 0.01).epsilon_lower - 0.5) - 1.0  # 0.5 holds at n = 5


def test_the_same_seed_gives_votes_away_and_the_conditions_say_so():
    rng = np.random.default_rng(8)
    points, labels = rng.random((400, 1)), rng.integers(0, 2, 400)
    other = labels.copy()
    other[3] = 1 - other[3]
    votes = [PCL().fit(points, y).decision_function(points) for y in (labels, other)]
    assert set(np.abs(votes[0] - votes[1]).round(9)) == {0.0, 1.0}
    fresh = PCL(random_state=1).fit(points, other).decision_function(points)
    assert len(set(np.abs(votes[0] - fresh).round(9))) > 5
    for bound in (PCL().fit(points, labels).privacy(), counts_epsilon(1.0, 1e-6)):
        assert any("same seed" in condition for condition in bound.conditions)


def test_two_histograms_of_the_same_examples_cost_twice_as_much():
    """A replaced example with label 1 moves the same two cells in both histograms of PCL2b."""
    epsilon, delta, scale = 1.0, 0.02, 2.0
    threshold = stability_threshold(epsilon, delta)
    edges = np.unique(np.concatenate([[threshold, np.inf], np.arange(11, 22)]))

    def joint(a, b):
        laws = [count_law(count, threshold, scale, edges) for count in (a, b)]
        once = np.multiply.outer(*laws)
        return np.multiply.outer(once, once)

    def excess(at):
        moves = [((a, b), (a - 1, b + 1)) for a in (1, 15) for b in (0, 14)]
        pairs = [*moves, *[(two, one) for one, two in moves]]
        return max(np.maximum(joint(*one) - math.exp(at) * joint(*two), 0.0).sum() for one, two in pairs)

    bound = counts_epsilon(epsilon, delta, histograms=2)
    assert excess(bound.epsilon_upper) == pytest.approx(1.0 - (1.0 - delta / 4.0) ** 2)  # below 2δ
    assert excess(epsilon) > bound.delta  # planted: accounted as one histogram


def test_single_examples_show_as_often_as_accounted():
    cells = np.arange(200_000)[:, None]
    shown = len(CellCounts.noisy(cells, 1.0, 0.4, seed=4).counts)
    expected, deviation = 200_000 * 0.1, SIGMAS * math.sqrt(200_000 * 0.1 * 0.9)
    assert abs(shown - expected) < deviation
    noisy = 1.0 + CellNoise(4, "counts", 2.0).at(cells)
    planted = int(np.sum(noisy >= stability_threshold(1.0, 0.4) - 0.2))
    assert abs(planted - expected) > deviation


def test_the_exponential_mechanism_by_enumeration():
    epsilon, net = 0.8, HalfSpaces().net(np.array([[0.0], [1.0], [2.0]]))
    universe = [(x, label) for x in (0.0, 1.0, 2.0) for label in (0, 1)]

    def law(sample, factor):
        points, labels = np.array([[x] for x, _ in sample]), np.array([label for _, label in sample], dtype=np.uint8)
        return choice_law(net.errors(points, labels), factor * epsilon)

    def worst(factor):
        return max(np.max(np.log(law(a, factor) / law(b, factor))) for a, b in neighbours(universe, 3))

    bound = choice_epsilon(epsilon)
    assert bound.epsilon_lower <= worst(1.0) <= bound.epsilon_upper
    assert worst(2.0) > bound.epsilon_upper  # planted: exp(-ε errors)


def test_samples_of_different_people_do_not_add_up():
    total = disjoint([counts_epsilon(1.0, 1e-8), choice_epsilon(0.5)])
    assert (total.epsilon_upper, total.delta) == (1.0, 1e-8)
    assert any("nobody is in two" in condition for condition in total.conditions)
    for parts in ([], [vote_epsilon(1.0, "label"), vote_epsilon(1.0, "example")]):
        with pytest.raises(ValueError, match="all of one observer and adjacency"):
            disjoint(parts)
    points = np.linspace(0.0, 1.0, 4000)[:, None]
    for unlabelled in (points, points.copy()):
        with pytest.raises(InputError, match="unlabelled: equals X"):
            SemiSupervised().fit(points, points[:, 0] > 0.5, unlabelled)


def test_every_estimator_states_its_bound():
    rng = np.random.default_rng(5)
    points, labels = rng.random((4000, 1)), rng.integers(0, 2, 4000)
    assert PCL(0.5).fit(points, labels).privacy().epsilon_upper == 0.5
    assert LabelPrivateHistogram(0.5).fit(points, labels).privacy().adjacency == "label"
    both = PCL2b(0.5, 1e-6).fit(points, labels).privacy()
    assert (both.epsilon_upper, both.delta) == (1.0, 2e-6)
    exchange = ExchangeHistogram(0.7, delta=1e-6).fit(points, labels).privacy()
    assert 0.6 < exchange.epsilon_lower <= exchange.epsilon_upper <= 0.7
    assert (exchange.delta, exchange.adjacency) == (1e-6, "label")
    learner = SemiSupervised(epsilon=0.5, delta=1e-6, net_points=50).fit(points, labels, rng.random((20_000, 1)))
    assert (learner.privacy().epsilon_upper, learner.privacy().delta) == (0.5, 1e-6)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_parameters_out_of_range_are_refused(wrong):
    for refused in (vote_epsilon, choice_epsilon, lambda e: stability_threshold(e, 0.1)):
        with pytest.raises(ValueError, match="epsilon"):
            refused(wrong)
    with pytest.raises(ValueError, match="delta"):
        stability_threshold(1.0, 1.0)
