"""The utility theorems term by term: the simulated laws against enumeration, the bounds against what is measured."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from p2p_sim.analysis.privacy.others.noisy_distribution import released_distribution
from p2p_sim.analysis.utility.bounds import Algorithm1, fit_constant, limiting_excess, theorem2, theorem4
from p2p_sim.analysis.utility.table_study import (
    Law,
    centralised,
    cost_excess,
    exchanged,
    squared_excess,
    subset_excess,
)
from p2p_sim.analysis.utility.theory_terms import LARGE, Series, Study, all_terms, bias, classes_count

FALSE_ALARM = 1e-9
TINY = Law(np.array([[[0.7, 0.3], [0.2, 0.8]]]))
ONE = Law(np.array([[[0.5, 0.3, 0.2]]]))


def deviation(trials: int, outcomes: int) -> float:
    """Hoeffding for the shares of all outcomes together."""
    return math.sqrt(math.log(2 * outcomes / FALSE_ALARM) / (2 * trials))


def shares(estimates: np.ndarray) -> Counter:
    """How often each table of estimates occurs."""
    rows = np.round(estimates.reshape(len(estimates), -1), 9) + 0.0
    found, counts = np.unique(rows, axis=0, return_counts=True)
    return Counter({tuple(row): count / len(rows) for row, count in zip(found.tolist(), counts.tolist(), strict=True)})


def table(rows: list[tuple[int, list[float]]], points: int, classes: int) -> tuple[float, ...]:
    """The estimates from (point, weights) of each user who arrived, by plain loops."""
    total, users = np.zeros((points, classes)), np.zeros(points)
    for point, weights in rows:
        total[point] += weights
        users[point] += 1
    mean = [total[x] / users[x] if users[x] else np.full(classes, 1 / classes) for x in range(points)]
    return tuple((np.round(np.concatenate(mean), 9) + 0.0).tolist())


def algorithm1_law(law: Law, size: int, parameters: Algorithm1) -> Counter:
    """Every data set and every resampling of one cluster, without noise: probability of each table."""
    _, points, classes = law.label_distribution.shape
    found: Counter = Counter()
    people = list(itertools.product(range(points), range(classes)))
    for data in itertools.product(people, repeat=size):
        chance = math.prod(law.label_distribution[0, x, y] / points for x, y in data)
        share = np.bincount([y for _, y in data], minlength=classes) / size
        q = released_distribution(share, np.zeros(classes), parameters.threshold)
        mixed = [(1 - parameters.bias_correction) * np.eye(classes)[y] + parameters.bias_correction * q
                 for y in range(classes)]  # fmt: skip
        inverse = np.linalg.inv(np.array(mixed).T)
        for labels in itertools.product(range(classes), repeat=size):
            kept = math.prod(
                (1 - parameters.resampling_prob) * (y == new) + parameters.resampling_prob * q[new]
                for (_, y), new in zip(data, labels, strict=True)
            )
            rows = [(x, inverse[:, new]) for (x, _), new in zip(data, labels, strict=True)]
            found[table(rows, points, classes)] += chance * kept
    return found


def exchange_law(law: Law, size: int, alpha: float, theta: float) -> Counter:
    """Every data set, flip, choice of a peer and subsample of one cluster: probability of each table."""
    _, points, classes = law.label_distribution.shape
    found: Counter = Counter()
    for xs, noisy in itertools.product(
        itertools.product(range(points), repeat=size), itertools.product(range(classes), repeat=size)
    ):
        flipped = [law.label_distribution[0, x] * (1 - alpha) for x in xs]
        flipped = [f + (1 - law.label_distribution[0, x]) * alpha / (classes - 1)
                   for f, x in zip(flipped, xs, strict=True)]  # fmt: skip
        chance = math.prod(f[y] / points for f, y in zip(flipped, noisy, strict=True))
        for peers in itertools.product(range(size), repeat=size):
            for sent in itertools.product((False, True), repeat=size):
                kept = math.prod(theta if s else 1 - theta for s in sent) / size**size
                rows = [(xs[i], np.eye(classes)[noisy[peers[i]]]) for i in range(size) if sent[i]]
                found[table(rows, points, classes)] += chance * kept
    return found


def largest_gap(one: Counter, two: Counter) -> float:
    return max(abs(one[key] - two[key]) for key in one | two)


@pytest.mark.parametrize(("law", "size"), [(TINY, 3), (ONE, 3)])
@pytest.mark.parametrize("parameters", [Algorithm1(0.6, 0.3, threshold=0.1), Algorithm1(0.4)], ids=str)
def test_algorithm1_by_counts_has_the_law_of_user_by_user(law, size, parameters):
    """Hoeffding for all tables: a change of .02 in the probability of one is seen; another λ is (control)."""
    exact = algorithm1_law(law, size, parameters)
    assert sum(exact.values()) == pytest.approx(1.0)
    sampled = shares(centralised(law, size, parameters, 60_000, np.random.default_rng(1)))
    allowed = deviation(60_000, len(exact))
    assert largest_gap(sampled, exact) < allowed < 0.02
    other = Algorithm1(0.95, parameters.bias_correction, threshold=parameters.threshold)
    assert largest_gap(sampled, algorithm1_law(law, size, other)) > allowed


@pytest.mark.parametrize(("law", "size"), [(TINY, 3), (ONE, 3)])
def test_exchange_by_counts_has_the_law_of_user_by_user(law, size):
    """As above; the control is another α."""
    exact = exchange_law(law, size, 0.2, 0.7)
    assert sum(exact.values()) == pytest.approx(1.0)
    sampled = shares(exchanged(law, size, 0.2, 0.7, 60_000, np.random.default_rng(2)))
    allowed = deviation(60_000, len(exact))
    assert largest_gap(sampled, exact) < allowed < 0.02
    assert largest_gap(sampled, exchange_law(law, size, 0.35, 0.7)) > allowed


def test_excess_by_hand():
    law, rng = Law(np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]])), np.random.default_rng(0)
    wrong = np.array([[[[0.2, 0.5, 0.3], [0.0, 0.0, 1.0]]]])
    assert subset_excess(law, wrong, rng) == pytest.approx([0.2 / 2])
    assert subset_excess(law, wrong, rng, chosen=2) == pytest.approx([(0.8 - 0.5) / 2])
    assert squared_excess(law, wrong) == pytest.approx([(0.09 + 0.04 + 0.01 + 0.01 + 0.01 + 0.04) / 2])
    binary = Law(np.array([[[0.9, 0.1], [0.6, 0.4]]]))
    assert cost_excess(binary, np.array([[[[0.7, 0.3], [0.7, 0.3]]]]), 0.25) == pytest.approx([0.15 / 2])
    assert binary.heterogeneity == pytest.approx(0.3)
    with pytest.raises(ValueError, match="a law needs"):
        Law(np.array([[[0.5, 0.6]]]))


def test_bounds_by_hand():
    parameters = Algorithm1(0.5, 0.2, noise_scale=2.0, threshold=0.01)
    assert theorem4(400.0, 0.1, 0.2, 4.0, (1.0, 2.0, 3.0)) == pytest.approx(0.1 + 0.2 + 0.6)
    distortion = 0.1 + 5 * (2.0 / 100 + 0.01)
    assert theorem2(10_000, 5, 0.1, 100, parameters, 4.0, (1.0, 2.0)) == pytest.approx(
        5 * (0.02 / 0.8 + 2 * 0.3 / 0.8 * distortion)
    )
    assert theorem2(np.inf, 5, 0.1, 100, parameters, leading_classes=False) == pytest.approx(0.375 * distortion)
    assert limiting_excess(0.1, 5, 100, parameters) == pytest.approx(0.375 * (0.1 + 0.1 + 10 * math.sqrt(2.0) * 0.02))


def test_a_constant_and_its_interval():
    """Exact on exact data; 300 intervals for a known constant miss at most 14% (95% nominal; 7 standard errors)."""
    shape = np.array([1.0, 2.0, 4.0])
    wrong = fit_constant(shape**2, np.outer(shape, np.ones(3)), np.random.default_rng(0))
    assert wrong.misfit > 0.3
    rng, hits = np.random.default_rng(1), 0
    for _ in range(300):
        values = 3.0 * shape[:, None] * (1.0 + 0.1 * rng.normal(size=(3, 30)))
        found = fit_constant(shape, values, rng).constant
        hits += found.low <= 3.0 <= found.high
    assert hits / 300 > 0.86
    with pytest.raises(ValueError, match="positive"):
        fit_constant(shape, np.zeros((3, 5)), rng)


def random_setting(rng: np.random.Generator) -> tuple[Law, Algorithm1, int]:
    """A law whose clusters are mixed, and parameters; the cluster is so large that only its shares' noise is left."""
    classes = int(rng.integers(2, 6))
    law = Law(rng.dirichlet(np.full(classes, 0.5 + 3.0 * rng.random()), size=(1, 4)))
    lam, beta, tau = rng.random(), 0.9 * rng.random(), rng.random() / classes
    return law, Algorithm1(lam, beta, noise_scale=10 ** rng.uniform(-4, -1) * LARGE, threshold=tau * 0.3), classes


def test_what_is_left_at_large_n_is_below_the_bound_without_k():
    """30 random laws and settings, K to 5. Each replicate's excess is at most 1: Hoeffding at 1e-9 over all.

    The control is a bound of a tenth, which the study's own worst laws break.
    """
    rng, replicates = np.random.default_rng(3), 10_000
    slack = math.sqrt(math.log(30 * 4 / FALSE_ALARM) / (2 * replicates))
    assert slack < 0.04
    for _ in range(30):
        law, parameters, classes = random_setting(rng)
        estimate = centralised(law, LARGE, parameters, replicates, rng)
        for chosen in range(1, classes):
            excess = subset_excess(law, estimate, rng, chosen)
            bound = limiting_excess(law.heterogeneity, classes, LARGE, parameters)
            assert excess.mean() - slack <= bound
    study = Study(3, 4, rng)
    term = bias(study, [0.1], [0.6])
    for series, parameters in ((term.series[0], Algorithm1(0.6, 0.1)), (term.series[2], Algorithm1(0.4, 0.6))):
        bound = limiting_excess(0.1875, 2, LARGE, parameters)
        assert 0.1 * bound < series.values.min() <= series.values.max() <= bound


def test_noise_on_the_shares_has_the_scale_of_the_mechanism():
    """K = 2, λ = 1: the error is (z₁ - z₂)/2 in each share, squared 2(σ/s)² in all; 6.2 standard errors."""
    scale, law = 0.001, Law(np.full((50, 1, 2), 0.5))
    estimate = centralised(law, LARGE, Algorithm1(1.0, noise_scale=scale * LARGE), 400, np.random.default_rng(6))
    found = squared_excess(law, estimate)
    error = 6.2 * found.std(ddof=1) / math.sqrt(found.size)
    assert abs(found.mean() - 2.0 * scale**2) < error + 0.01 * scale**2 < 0.5 * scale**2


def test_terms_have_the_slopes_of_the_bounds_and_constants_known_in_closed_form():
    """Slopes and constants within 8 of their standard errors plus the shape's own deviation."""
    terms = {
        term.name.split(" ")[0].rstrip(","): term for term in all_terms(Study(20, 20, np.random.default_rng(4)), 4)
    }
    assert set(terms) == {"n", "θ", "φ", "α", "1/(1-β)", "β", "σ/s", "K", "τ"}
    expected = {"n": (-0.5, -1.0), "θ": (-0.5, -1.0), "φ": (1.0, 2.0), "1/(1-β)": (1.0, 2.0), "β": (1.0, 2.0),
                "τ": (1.0, 2.0)}  # fmt: skip
    rng = np.random.default_rng(0)
    for name, (linear, square) in expected.items():
        fitted = [series for series in terms[name].series if series.shape is not None]
        for series, slope in zip(fitted, itertools.cycle((linear, square)), strict=False):
            found = series.slope()
            assert abs(found.value - slope) < 0.05 + 4 * (found.high - found.low), (name, series.label)
    constants = {name: terms[name].series[0].fit(rng).constant for name in ("φ", "β", "τ")}
    assert constants["φ"].value == pytest.approx(0.5, rel=0.05)
    assert constants["β"].value == pytest.approx(0.45, rel=1e-6)
    assert constants["τ"].value == pytest.approx(0.45, rel=1e-6)
    assert terms["1/(1-β)"].series[0].fit(rng).constant.value == pytest.approx(0.170, rel=0.1)  # max of m Pr[N > m]
    assert terms["φ"].series[1].fit(rng).misfit < 1e-3


def test_k_shows_where_a_loss_adds_labels_up_and_not_where_it_takes_one():
    series = classes_count(Study(40, 20, np.random.default_rng(5)), [4, 16, 64]).series
    half, one, squared, clean = (s.slope().value for s in series)
    assert abs(half - 1.0) < 0.15
    assert one < 0.6
    assert abs(squared - 1.0) < 0.2
    assert abs(clean) < 0.1


@pytest.mark.parametrize(("values", "message"), [((1.1, 0.0), "resampling_prob"), ((0.5, 1.0), "bias_correction")])
def test_parameters_out_of_range_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Algorithm1(*values)


def test_a_vanished_risk_has_no_slope():
    assert math.isnan(Series("gone", np.array([1.0, 2.0]), np.zeros((2, 4))).slope().value)
