"""The label association problem: ε by enumeration, exact chances, the exact maximum against a linear program."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linprog

from analysis.label_association import (
    ClusterSubsets,
    ExampleSubsets,
    NoisyHistogram,
    best,
    count_pairs,
    largest_product,
    measure,
    printed_product,
    product,
)
from p2p_sim.privacy.claims.centralised_utility import precision_times_recall, subset_selection

FALSE_ALARM = 1e-9


def sets(classes: int) -> np.ndarray:
    """All sets of labels, (2^K, K)."""
    return np.array(list(itertools.product((False, True), repeat=classes)))


def subset_law(labels, classes, epsilon, width):
    """Pr[S] proportional to e^(ε |S ∩ Y|) among sets of ω labels, by enumeration."""
    every = sets(classes)
    weight = np.exp(epsilon * every[:, list(labels)].sum(axis=1)) * (every.sum(axis=1) == width)
    return weight / weight.sum()


def law(mechanism, labels, classes):
    """The law of the set that is reported for one cluster with these labels, (2^K,)."""
    every = sets(classes)
    match mechanism:
        case ClusterSubsets(epsilon, width):
            return subset_law(labels, classes, epsilon, width)
        case ExampleSubsets(epsilon, width):
            powers = 1 << np.arange(classes)[::-1]
            total = np.eye(1, len(every))[0]
            for label in labels:
                one, joined = subset_law([label], classes, epsilon, width), np.zeros(len(every))
                for (i, p), (j, q) in itertools.product(enumerate(total), enumerate(one)):
                    joined[(every[i] | every[j]) @ powers] += p * q
                total = joined
            return total
        case NoisyHistogram(epsilon, threshold):
            gap = threshold - np.isin(np.arange(classes), labels)
            tail = 0.5 * np.exp(-0.5 * epsilon * np.abs(gap))
            above = np.where(gap >= 0.0, tail, 1.0 - tail)
            return np.prod(np.where(every, above, 1.0 - above), axis=1)


MECHANISMS = [ExampleSubsets(1.2), ExampleSubsets(1.2, 2), ClusterSubsets(1.2, 1), ClusterSubsets(1.2, 2),
              ClusterSubsets(1.2, 3), NoisyHistogram(1.2, 0.4), NoisyHistogram(1.2, 1.5)]  # fmt: skip


def neighbours(classes, size):
    """Pairs of clusters with distinct labels that differ in one example's."""
    for labels in itertools.permutations(range(classes), size):
        for other in set(range(classes)) - set(labels):
            yield labels, (other, *labels[1:])


def worst_ratio(mechanism, classes, size):
    """The largest log-ratio over neighbours and reported sets."""
    worst = 0.0
    for first, second in neighbours(classes, size):
        p, q = law(mechanism, first, classes), law(mechanism, second, classes)
        assert np.array_equal(p > 0, q > 0)
        worst = max(worst, float(np.log(p[p > 0] / q[p > 0]).max()))
    return worst


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_epsilon_by_enumeration(mechanism):
    found = worst_ratio(mechanism, 4, 2)
    assert found <= 1.2 + 1e-12
    if not isinstance(
        mechanism, NoisyHistogram
    ):  # attained by subsets; a thresholded histogram reveals less than its noise
        assert found == pytest.approx(1.2) or isinstance(mechanism, ExampleSubsets)


def test_half_the_noise_is_seen_to_cost_more():
    """Planted: Laplace noise of scale 1/ε, as if one changed label moved one count."""
    assert worst_ratio(NoisyHistogram(2.0 * 1.2, 0.4), 4, 2) > 1.3


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_chances_and_samples_follow_the_enumerated_law(mechanism):
    """Hoeffding for each of 16 sets: an error of .02 in the law of a set is seen; another mechanism is."""
    labels, classes = (1, 3), 4
    every, exact = sets(classes), law(mechanism, labels, classes)
    held, other = mechanism.chances(classes, 2)
    assert every[:, 1] @ exact == pytest.approx(held)
    assert every[:, 0] @ exact == pytest.approx(other)
    trials = 30_000
    reported = mechanism.report(np.tile(labels, (trials, 1)), classes, np.random.default_rng(1))
    shares = np.bincount(reported @ (1 << np.arange(classes)[::-1]), minlength=len(every)) / trials
    allowed = math.sqrt(math.log(2 * len(every) / FALSE_ALARM) / (2 * trials))
    assert np.abs(shares - exact).max() < allowed < 0.021
    wrong = law(ClusterSubsets(1.2, 2 if mechanism != ClusterSubsets(1.2, 2) else 3), labels, classes)
    assert np.abs(shares - wrong).max() > allowed


@pytest.mark.parametrize(("classes", "size"), [(3, 1), (4, 2), (5, 2)])
@pytest.mark.parametrize("epsilon", [0.4, 1.5])
@pytest.mark.slow_where(lambda classes: classes == 5)
def test_no_private_mechanism_does_better(classes, size, epsilon):
    """A linear program over every mechanism for one cluster: the most true pairs at a budget of reports."""
    data = list(itertools.permutations(range(classes), size))
    every = sets(classes)
    outputs, index = len(every), {labels: i for i, labels in enumerate(data)}
    variables = len(data) * outputs + 1  # Pr[S | labels], and the guaranteed number of true pairs
    ratio = []
    for labels in data:
        for place, other in itertools.product(range(size), sorted(set(range(classes)) - set(labels))):
            neighbour = (*labels[:place], other, *labels[place + 1 :])
            for s in range(outputs):
                row = np.zeros(variables)
                row[index[labels] * outputs + s] = 1.0
                row[index[neighbour] * outputs + s] = -math.exp(epsilon)
                ratio.append(row)
    true, total, one = (np.zeros((len(data), variables)) for _ in range(3))
    for i, labels in enumerate(data):
        block = slice(i * outputs, (i + 1) * outputs)
        true[i, block], true[i, -1] = -every[:, list(labels)].sum(axis=1), 1.0
        total[i, block] = every.sum(axis=1)
        one[i, block] = 1.0
    limits = np.vstack([*ratio, true, total])
    widths = np.arange(classes + 1)
    means = [0.0, *(size * ClusterSubsets(epsilon, w).chances(classes, size)[0] for w in widths[1:].tolist())]
    for budget in (0.5, 1.0, 1.7, 2.0, classes - 0.6):
        right = np.concatenate([np.zeros(len(ratio) + len(data)), np.full(len(data), budget)])
        found = linprog(-np.eye(1, variables, variables - 1)[0], limits, right, one, np.ones(len(data)), method="highs")
        assert -found.fun == pytest.approx(np.interp(budget, widths, means), abs=1e-7)


def test_largest_product_below_the_bounds_and_as_known():
    for classes, size, epsilon in itertools.product((12, 50, 400), (1, 3, 10), (0.0, 0.3, 1.0, 3.0)):
        largest, width = largest_product(classes, size, epsilon)
        assert largest <= precision_times_recall(classes, size, epsilon) + 1e-12
        assert largest <= printed_product(classes, size, epsilon)
        assert product(ClusterSubsets(epsilon, width), classes, size) == pytest.approx(largest)
    assert largest_product(10, 1, 1.0)[0] == pytest.approx(subset_selection(10, 1.0))
    for epsilon in (1.0, 3.0):
        limit = math.exp(2 * epsilon) / (4 * math.expm1(epsilon))
        assert largest_product(20_000, 4, epsilon)[0] * 20_000 / 4 == pytest.approx(limit, rel=2e-3)
    assert largest_product(1000, 4, 0.5) == (pytest.approx(4 / 1000), 1000)


@dataclass(frozen=True)
class Leak:
    """Planted: reports a cluster's true labels with probability .6, nothing otherwise: no ε at all."""

    def report(self, labels, classes, rng):
        reported = np.zeros((len(labels), classes), dtype=bool)
        np.put_along_axis(reported, labels, (rng.random(len(labels)) < 0.6)[:, None], axis=1)
        return reported


def certified_product(mechanism, clusters, size, classes, seed):
    """A lower bound on precision x recall that is wrong with probability 1e-9 at most: Hoeffding for both counts."""
    true, reported = count_pairs(mechanism, clusters, size, classes, np.random.default_rng(seed))
    slack = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * clusters))
    return max(0.0, true.mean() - size * slack) ** 2 / (size * (reported.mean() + classes * slack))


@pytest.mark.slow
def test_private_mechanisms_stay_below_the_maximum_and_leaks_do_not():
    """Certified at 1e-9: the leak exceeds the paper's curve; half the noise, below that curve, the exact maximum."""
    epsilon, size, classes, clusters = 3.0, 2, 100, 60_000
    largest, width = largest_product(classes, size, epsilon)
    honest = [ExampleSubsets(epsilon), ClusterSubsets(epsilon, width),
              best([NoisyHistogram(epsilon, t) for t in np.linspace(0, 2, 21)], classes, size)]  # fmt: skip
    for seed, mechanism in enumerate(honest):
        assert certified_product(mechanism, clusters, size, classes, seed) <= largest
    assert certified_product(ClusterSubsets(epsilon, width), clusters, size, classes, 7) > 0.7 * largest
    halved = NoisyHistogram(2.0 * epsilon, 0.8)
    assert largest < certified_product(halved, clusters, size, classes, 8) < printed_product(classes, size, epsilon)
    assert certified_product(Leak(), clusters, size, classes, 9) > printed_product(classes, size, 2.0)


def test_intervals_cover_the_exact_values():
    """400 intervals of each kind miss at most 12% of the time (95% nominal; 6.4 standard errors)."""
    mechanism, size, classes = ClusterSubsets(1.0, 6), 3, 12
    held, other = mechanism.chances(classes, size)
    precision = size * held / (size * held + (classes - size) * other)
    rng, hits = np.random.default_rng(2), np.zeros(3)
    for _ in range(400):
        found = measure(mechanism, 150, size, classes, rng)
        exact = (precision, held, precision * held)
        hits += [mean.low <= value <= mean.high for mean, value in zip(found.values(), exact, strict=True)]
    assert hits.min() / 400 > 0.88
