"""Private selection: every bound against enumeration of small cases, planted mistakes, and dp-accounting."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import linprog
from scipy.stats import chi2, norm

from p2p_sim.privacy import (
    Accountant,
    BinomialRuns,
    Bracket,
    DpSgd,
    NoisyScore,
    PoissonRuns,
    PrivacyBound,
    Selection,
    ThresholdStop,
    TruncatedNegativeBinomial,
)
from p2p_sim.privacy.composition import Composition
from p2p_sim.privacy.conversions import loss_law, renyi
from p2p_sim.privacy.randomized_response import bisect
from p2p_sim.privacy.rivals.private_selection import deltas
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.worst_of_several import WorstOf
from tests.reference import selection as reference

LAWS = [
    (TruncatedNegativeBinomial(1.0, 0.1), reference.truncated_negative_binomial(1.0, 0.1)),
    (TruncatedNegativeBinomial(0.0, 0.1), reference.truncated_negative_binomial(0.0, 0.1)),
    (TruncatedNegativeBinomial(-0.5, 0.1), reference.truncated_negative_binomial(-0.5, 0.1)),
    (TruncatedNegativeBinomial(2.0, 0.3), reference.truncated_negative_binomial(2.0, 0.3)),
    (PoissonRuns(5.0), reference.poisson(5.0)),
    (PoissonRuns(0.5), reference.poisson(0.5)),
    (BinomialRuns(6, 0.5), reference.binomial(6, 0.5)),
    (BinomialRuns(1, 0.7), reference.binomial(1, 0.7)),
]
NAMES = [str(law) for law, _ in LAWS]
EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
HALF = (0.5, 0.5)
FALSE_ALARM = 1e-9


@dataclass(frozen=True)
class Pair(Accountant):
    """One run whose outcomes have these probabilities in two worlds."""

    one: tuple[float, ...]
    other: tuple[float, ...]
    conditions = ()

    @property
    def pure_epsilon(self):
        used = [(p, q) for p, q in zip(self.one, self.other, strict=True) if p > 0.0 or q > 0.0]
        if any(min(pair) == 0.0 for pair in used):
            return math.inf
        return max(abs(math.log(p / q)) for p, q in used) * (1.0 + 1e-15)

    def delta(self, epsilon):
        found = reference.delta(self.one, self.other, epsilon)
        return Bracket(found * (1.0 - 1e-12), min(1.0, found * (1.0 + 1e-12)))

    def epsilon(self, delta):
        top = min(self.pure_epsilon, 50.0)
        if self.delta(top).upper > delta:
            upper = math.inf
        elif self.delta(0.0).upper <= delta:
            upper = 0.0
        else:
            upper = bisect(lambda epsilon: self.delta(epsilon).upper > delta, 0.0, top, 1e-10)[1]
        return PrivacyBound(0.0, upper, delta, "learner", "label", "enumerated")


def flipped(epsilon):
    """Randomised response: the candidates 0 and 1, of which the second has the better score."""
    return Pair((1.0 / (1.0 + math.exp(epsilon)), 1.0 / (1.0 + math.exp(-epsilon))), HALF), Pair(
        (1.0 / (1.0 + math.exp(epsilon)), 1.0 / (1.0 + math.exp(-epsilon))),
        (1.0 / (1.0 + math.exp(-epsilon)), 1.0 / (1.0 + math.exp(epsilon))),
    )


def pairs(count, seed=1):
    """Runs with two to four outcomes; some are possible in one world only."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        size = int(rng.integers(2, 5))
        one = rng.random(size) ** 2 + 0.01
        other = one * np.exp(rng.choice([0.2, 1.0, 2.0]) * rng.uniform(-1.0, 1.0, size))
        if number % 5 == 0:
            other[rng.integers(size)] = 0.0
        yield Pair(tuple((one / one.sum()).tolist()), tuple((other / other.sum()).tolist()))


def scorings(size):
    """Scores of the outcomes, and whether ties are settled by order: all different, and two groups of equals."""
    yield tuple(range(size)), False
    yield tuple(reversed(range(size))), False
    yield (0, 0, 1, 1)[:size], False
    yield (0, 0, 1, 1)[:size], True


def worlds(pair, masses, scores, by_order=False):
    return [reference.best_law(run, scores, masses, by_order) for run in (pair.one, pair.other)]


def test_the_enumerated_law_is_that_of_all_tuples():
    run, masses = (0.2, 0.5, 0.3), [0.1, 0.2, 0.3, 0.3, 0.1]
    for scores in ((0, 1, 2), (0, 1, 1), (1, 1, 1), (2, 0, 2)):
        found = reference.best_law(run, scores, masses)
        assert found == pytest.approx(reference.best_law_by_tuples(run, scores, masses), abs=1e-13)
        assert math.fsum(found) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("law", "masses"), LAWS, ids=NAMES)
def test_a_law_of_runs_is_that_of_its_masses(law, masses):
    assert law.mean == pytest.approx(sum(k * mass for k, mass in enumerate(masses)), rel=1e-9)
    for u in (0.0, 1e-3, 0.1, 0.5, 0.9):
        weight = sum(k * mass * (1.0 - u) ** (k - 1) for k, mass in enumerate(masses) if k)
        assert float(np.exp(law.log_weight(np.array([u])))[0]) == pytest.approx(weight, rel=1e-9)
        share = law.best_share(u)
        assert share == pytest.approx(sum(m * (1.0 - (1.0 - u) ** k) for k, m in enumerate(masses)), rel=1e-9)
        assert u * (1.0 - 1e-10) <= law.delta_of(share) <= u
    rng = np.random.default_rng(5)
    counts = np.bincount([min(law.draw(rng), 5) for _ in range(20_000)], minlength=6)
    expected = np.array([*masses[:5], 0, 0, 0, 0, 0, 0])[:5]
    expected = 20_000 * np.append(expected, 1.0 - expected.sum())
    seen = expected > 5.0
    assert counts[~seen].sum() <= 40
    statistic = float(((counts - expected)[seen] ** 2 / expected[seen]).sum())
    assert chi2.sf(statistic, seen.sum()) > FALSE_ALARM
    assert chi2.sf(float(((counts[::-1] - expected)[seen] ** 2 / expected[seen]).sum()), seen.sum()) < FALSE_ALARM


@pytest.mark.parametrize("eta", [-0.5, 0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("mean", [1.01, 3.0, 50.0])
def test_a_law_is_found_by_its_mean(eta, mean):
    assert mean * (1.0 - 1e-8) <= TruncatedNegativeBinomial.of_mean(mean, eta).mean <= mean


@pytest.mark.parametrize("count", [3, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("law", "masses"), LAWS, ids=NAMES)
def test_no_bound_is_below_the_enumeration(law, masses, count):
    least = math.inf
    for pair in pairs(count):
        selection = Selection(pair, law)
        for scores, by_order in scorings(len(pair.one)):
            one, other = worlds(pair, masses, scores, by_order)
            for epsilon in EPSILONS:
                truth = reference.delta(one, other, epsilon)
                bounds = selection._by_ratio(epsilon), selection._in_bands(epsilon), selection._by_renyi(epsilon)
                assert min(*bounds, selection.delta(epsilon).upper) >= truth - 1e-10
                if truth > 1e-6:
                    least = min(least, selection.delta(epsilon).upper / truth)
            ratios = [abs(math.log(p / q)) for p, q in zip(one, other, strict=True) if min(p, q) > 1e-6]
            assert selection.pure_epsilon >= max(ratios) - 1e-7
            for order in (1.5, 2.0, 8.0):
                if math.isfinite(renyi(selection, order)):
                    terms = [p**order * q ** (1.0 - order) for p, q in zip(one, other, strict=True) if q > 0.0]
                    assert renyi(selection, order) >= math.log(math.fsum(terms)) / (order - 1.0) - 1e-9
    assert least < 1.01  # where a bound is attained, a smaller one would have been found out


@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_a_threshold_is_never_below_the_enumeration(gamma):
    least = math.inf
    for pair in pairs(10, seed=2):
        selection = Selection(pair, ThresholdStop(gamma))
        assert selection.pure_epsilon <= 2.0 * pair.pure_epsilon * (1.0 + 1e-6)
        for reaching in itertools.product((False, True), repeat=len(pair.one)):
            one, other = (reference.first_above(run, reaching, gamma) for run in (pair.one, pair.other))
            for epsilon in EPSILONS:
                truth = reference.delta(one, other, epsilon)
                assert min(selection._by_ratio(epsilon), selection.delta(epsilon).upper) >= truth - 1e-10
                if truth > 1e-6:
                    least = min(least, selection.delta(epsilon).upper / truth)
    assert least < 1.01


def test_two_candidates_against_enumeration():
    """δ(ε) of a choice between two candidates, geometric number of runs."""
    law, masses = LAWS[0]
    for pair in flipped(1.0):
        selection = Selection(pair, law)
        for epsilon in np.linspace(0.0, 2.5, 26):
            truth = max(reference.delta(*worlds(pair, masses, scores), epsilon) for scores in ((0, 1), (1, 0), (0, 0)))
            upper = selection.delta(epsilon).upper
            assert truth <= upper
    wide = flipped(1.0)[1]
    assert Selection(wide, law).pure_epsilon == pytest.approx(
        1.0 + 2.0 * math.log((0.1 + math.e) / (1.0 + 0.1 * math.e))
    )
    one, other = worlds(wide, masses, (0, 1))
    attained = max(abs(math.log(p / q)) for p, q in zip(one[:-1], other[:-1], strict=True))
    assert attained == pytest.approx(1.7957, abs=1e-4)  # (2+η)ε is 3
    assert attained <= Selection(wide, law).pure_epsilon < 3.0


def test_planted_mistakes_are_found():
    """Each mistake states less than is true of a small case, and the bound does not."""
    law, masses = LAWS[0]
    pair = flipped(1.0)[1]
    honest = Selection(pair, law)
    uneven = Pair((0.63, 0.27, 0.1), (0.63, 0.1, 0.27))  # less likely to be beaten, and more likely by itself
    one, other = worlds(uneven, masses, (0, 1, 2))
    for epsilon in (0.7, 0.9, uneven.pure_epsilon, 1.2):  # ε counted once
        truth = reference.delta(one, other, epsilon)
        assert uneven.delta(epsilon).upper < truth <= Selection(uneven, law).delta(epsilon).upper
    # K is fixed and known: ten runs
    many = worlds(pair, reference.fixed(10), (0, 1))
    assert reference.delta(*many, honest.pure_epsilon + 0.1) > 1e-6
    # the number of runs is released with the best
    told = [
        [share for k, mass in enumerate(masses) if k for share in reference.best_law(run, (0, 1), [0.0] * k + [mass])]
        for run in (pair.one, pair.other)
    ]
    assert math.fsum(told[0]) == pytest.approx(1.0, abs=1e-9)
    assert reference.delta(*told, honest.pure_epsilon + 0.1) > 1e-3


def test_a_search_that_looks_at_true_labels_is_found():
    """The setting depends on the true label: the better of two flip probabilities if the label is 1.

    Each setting is 1-private, but the setting that was drawn is seen with the best output.
    """
    law, masses = LAWS[0]
    flip, fair = 1.0 / (1.0 + math.exp(1.0)), 0.5
    settings = {0: (flip, 1.0 - flip, 0.0, 0.0), 1: (0.0, 0.0, fair, fair)}
    drawn = [tuple(0.5 * a + 0.5 * b for a, b in zip(settings[0], settings[1], strict=True))] * 2
    peeking = [settings[0], settings[1]]
    selection = Selection(flipped(1.0)[1], law)
    epsilon = selection.pure_epsilon
    lawful = [reference.best_law(run, (0, 1, 2, 3), masses) for run in drawn]
    peeked = [reference.best_law(run, (0, 1, 2, 3), masses) for run in peeking]
    assert reference.delta(*lawful, epsilon) == 0.0
    assert reference.delta(*peeked, epsilon) > 0.99
    # it also adapts: the second run sees the first one's true result, and stops when that is good
    adaptive = [[run[0] * run[0], 1.0 - run[0] * run[0]] for run in (flipped(1.0)[1].one, flipped(1.0)[1].other)]
    once = Selection(flipped(1.0)[1], BinomialRuns(1, 0.999999))
    assert reference.delta(*adaptive, 1.0) > once.delta(1.0).upper + 1e-3


def theirs(sigma, mean, shape, delta, orders):
    accountant = RdpAccountant(orders)
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent(sigma), mean, shape))
    return accountant.get_epsilon(delta)


def theorem(sigma, mean, shape, delta, orders):
    """Theorems 2 and 6 of Papernot and Steinke (2022) for a Gaussian run, and the step from Rényi ε to ε(δ)."""
    curve = {order: order / (2.0 * sigma**2) for order in orders}
    found = []
    for order, run in curve.items():
        if math.isinf(shape):
            at = math.log1p(1.0 / (order - 1.0))
            failing = min(
                *(
                    math.exp(min(0.0, (a - 1.0) * (r - at + math.log1p(-1.0 / a)) - math.log(a)))
                    for a, r in curve.items()
                    if a > 1.01
                ),
                *(math.sqrt(-math.expm1(-r)) for r in curve.values()),
            )
            total = run + mean * failing + math.log(mean) / (order - 1.0)
        else:
            gamma = TruncatedNegativeBinomial.of_mean(mean, shape).gamma
            ratio = min((1.0 - 1.0 / a) * r + math.log(1.0 / gamma) / a for a, r in curve.items())
            total = run + (1.0 + shape) * ratio + math.log(mean) / (order - 1.0)
        found.append(total + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1.0))
    return min(found)


@pytest.mark.parametrize("sigma", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
def test_dp_accounting_agrees_on_the_theorems_and_is_never_below_ours(sigma, shape):
    orders, delta = [1.1, 1.5, *range(2, 64), 128, 256], 1e-6
    run = NoisyScore(sigma, "gaussian")
    for mean in (10.0, 100.0):
        law = PoissonRuns(mean) if math.isinf(shape) else TruncatedNegativeBinomial.of_mean(mean, shape)
        other = theirs(sigma, mean, shape, delta, orders)
        assert theorem(sigma, mean, shape, delta, orders) == pytest.approx(other, rel=1e-6)
        selection = Selection(run, law)
        ours = selection.epsilon(delta).epsilon_upper
        assert run.epsilon(delta).epsilon_upper < ours < other * 0.95
        for order in (2.0, 8.0, 32.0):
            assert renyi(run, order) < renyi(selection, order)


@pytest.mark.parametrize(("law", "masses"), LAWS[:5], ids=NAMES[:5])
def test_a_score_released_alone_is_never_below_its_exact_law(law, masses):
    """The best of K Gaussian scores has a density: δ by a sum over a fine grid."""
    sigma = 2.0
    x, step = np.linspace(-14.0 * sigma, 14.0 * sigma + 1.0, 40_001, retstep=True)
    found = []
    for mean in (0.0, 1.0):
        above = norm.sf(x, mean, sigma)
        weight = sum(k * mass * (1.0 - above) ** (k - 1) for k, mass in enumerate(masses) if k)
        found.append(norm.pdf(x, mean, sigma) * weight * step)
    selection = Selection(NoisyScore(sigma, "gaussian"), law)
    for epsilon in (0.0, 0.3, 1.0, 2.0, 3.0):
        truth = max(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in (found, tuple(reversed(found))))
        assert selection.delta(epsilon).upper >= truth * (1.0 - 1e-6)


def test_the_bands_are_filled_as_a_linear_programme_would():
    selection = Selection(NoisyScore(1.0, "gaussian"), PoissonRuns(6.0))
    bands = selection._bands
    for epsilon in (1.0, 3.0, 6.0):
        order = np.argsort(bands.log_ratios, kind="stable")
        limits = deltas(bands.law, epsilon - bands.log_ratios[order])
        rows = np.zeros((len(order), len(order)))
        for row in range(len(order)):
            rows[row, order[: row + 1]] = 1.0
        scale = 1.0 / limits.max()
        solved = linprog(
            -np.exp(bands.log_weights),
            rows,
            limits * scale,
            bounds=list(zip(0.0 * limits, bands.widths * scale, strict=True)),
        )
        assert bands.delta(epsilon) == pytest.approx(min(1.0, -solved.fun / scale), rel=1e-6)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
def test_a_noisy_score_is_exact(scale):
    z = np.arange(-400, 401)
    t = math.exp(-1.0 / scale)
    mass = (1.0 - t) / (1.0 + t) * t ** np.abs(z)
    one, other = np.append(mass, 0.0), np.insert(mass, 0, 0.0)
    x, step = np.linspace(-12.0 * scale, 12.0 * scale + 1.0, 100_001, retstep=True)
    grid = [norm.pdf(x, mean, scale) * step for mean in (0.0, 1.0)]
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        for noise, laws in (("geometric", (one, other)), ("gaussian", grid)):
            found = NoisyScore(scale, noise).delta(epsilon)
            truth = float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum())
            assert found.lower <= found.upper <= found.lower * (1.0 + 1e-9) + 1e-15
            assert found.upper == pytest.approx(truth, rel=2e-3, abs=1e-7)
    for noise in ("geometric", "gaussian"):
        bound = NoisyScore(scale, noise).epsilon(1e-5)
        assert NoisyScore(scale, noise).delta(bound.epsilon_upper).upper <= 1e-5
        assert bound.epsilon_lower <= bound.epsilon_upper <= bound.epsilon_lower * (1.0 + 1e-6) + 1e-9
    gaussian = NoisyScore(scale, "gaussian")
    assert loss_law(gaussian).delta(1.0) >= gaussian.delta(1.0).upper * (1.0 - 1e-9)


def test_training_and_score_together():
    """Held-out users pay for the score alone, others for the model; users in both pay for both."""
    steps, score = DpSgd(4.0, 0.1, 50), NoisyScore(5.0, "gaussian")
    law = TruncatedNegativeBinomial.of_mean(10.0, 0.0)
    apart, both = Selection(WorstOf((steps, score)), law), Selection(Composition((steps, score), (1, 1)), law)
    found = [selection.epsilon(1e-5) for selection in (apart, both)]
    assert WorstOf((steps, score)).epsilon(1e-5).epsilon_upper < found[0].epsilon_upper < found[1].epsilon_upper < 4.0
    assert found[0].epsilon_lower == 0.0
    assert found[0].conditions == apart.conditions
    assert "only this selection chose" in " ".join(apart.conditions)
    assert "no hyperparameter was chosen" not in " ".join(apart.conditions)
    assert len({c.identifier for c in both.conditions} & {"winner-alone", "whole-run", "public-run-law"}) == 3
    for bound, selection in zip(found, (apart, both), strict=True):
        assert selection.delta(bound.epsilon_upper).upper <= 1e-5 * (1.0 + 1e-6)
    total = Composition((apart, NoisyScore(20.0)), (1, 1)).epsilon(1e-5)
    assert found[0].epsilon_upper < total.epsilon_upper < found[0].epsilon_upper * 1.2


def test_no_figure_where_the_run_has_none():
    """At a δ that a run can tell from 0.01 on, ε of the choice is not that of a larger δ."""
    stated = OnePoint(PrivacyBound(0.0, 1.0, 0.01, "learner", "label", "stated"))
    selection = Selection(stated, TruncatedNegativeBinomial(1.0, 0.001))
    assert selection.least_delta == 0.5
    assert selection.epsilon(0.5).epsilon_upper == math.inf
    assert selection.delta(5.0).upper > 0.9
    with pytest.raises(ValueError, match="observer = peer: sees every run"):
        Selection(OnePoint(PrivacyBound(0.0, 1.0, 0.0, "peer", "label", "stated")), PoissonRuns(3.0)).epsilon(0.1)


def test_more_runs_cost_more():
    run = NoisyScore(3.0)
    each = [
        Selection(run, TruncatedNegativeBinomial.of_mean(mean, 0.0)).epsilon(1e-6) for mean in (1.1, 3.0, 30.0, 300.0)
    ]
    uppers = [bound.epsilon_upper for bound in each]
    assert uppers == sorted(uppers)
    assert run.epsilon(1e-6).epsilon_upper < uppers[0]
    assert uppers[-1] <= 2.0 / 3.0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TruncatedNegativeBinomial(-1.0, 0.1), "eta = -1.0: must be above -1"),
        (lambda: TruncatedNegativeBinomial(1.0, 0.0), "gamma = 0.0: must be at least 1e-06"),
        (lambda: TruncatedNegativeBinomial(1.0, math.nan), "gamma = nan"),
        (lambda: TruncatedNegativeBinomial.of_mean(1.0, 0.0), "mean = 1.0: must be above 1"),
        (lambda: TruncatedNegativeBinomial.of_mean(1e9, 1.0), "mean = 1000000000.0: must be above 1, and at most"),
        (lambda: PoissonRuns(0.0), "mu = 0.0: must be above 0"),
        (lambda: BinomialRuns(0, 0.5), "n = 0: must be a whole number"),
        (lambda: BinomialRuns(3, 1.0), "p = 1.0: must be above 0 and below 1"),
        (lambda: ThresholdStop(1.0), "gamma = 1.0"),
        (lambda: NoisyScore(0.0), "noise_scale = 0.0: must lie in"),
        (lambda: NoisyScore(1.0, "laplace"), "noise = 'laplace': must be geometric or gaussian"),  # type: ignore[arg-type]
        (lambda: Selection(NoisyScore(1.0), PoissonRuns(1.0)).delta(-1.0), "epsilon = -1"),
        (lambda: Selection(NoisyScore(1.0), PoissonRuns(1.0)).epsilon(0.0), "delta = 0"),
        (lambda: renyi(Selection(NoisyScore(1.0), PoissonRuns(1.0)), 1.0), "order = 1.0"),
        (lambda: Selection(DpSgd(1.0, 0.1, 1000), PoissonRuns(5.0)).epsilon(1e-12), "delta = 1e-12: must be at least"),
    ],
)
def test_mistakes_are_named(make, says):
    with pytest.raises(ValueError, match=says):
        make()
