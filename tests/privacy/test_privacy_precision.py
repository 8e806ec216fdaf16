"""The accountant's digits: against 40-digit arithmetic up to 300 users, and dp-accounting on the same tables."""

import functools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import binom

from p2p_sim.privacy import LabelExchange, local_epsilon, tradeoff
from p2p_sim.privacy.binomial_windows import UNIT, SubmissionCounts
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator
from p2p_sim.privacy.exchange.direct_sum import DirectViews, OtherUsers
from p2p_sim.privacy.exchange.tail_difference import BETAINC_ERROR, CutOffViews, upper_tail
from p2p_sim.privacy.randomized_response import Coefficients


@functools.lru_cache
def exact_view(n: int, alpha: float, ones: int, t: int) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """A(k) and B(k), k = 0..t, in 40 digits, by recurrences."""
    with mp.workdps(40):
        a = mp.mpf(alpha)
        first = [mp.binomial(ones, x) * (1 - a) ** x * a ** (ones - x) for x in range(ones + 1)]
        rest = n - 1 - ones
        second = [mp.binomial(rest, x) * a**x * (1 - a) ** (rest - x) for x in range(rest + 1)]
        law = [mp.mpf(0)] * n
        for i, p in enumerate(first):
            for j, q in enumerate(second):
                law[i + j] += p * q
        rows = [_binomial_row(t, mp.mpf(j) / n) for j in range(n + 1)]
        zero = [mp.fsum(p * rows[x][k] for x, p in enumerate(law)) for k in range(t + 1)]
        one = [mp.fsum(p * rows[x + 1][k] for x, p in enumerate(law)) for k in range(t + 1)]
        return zero, one


def _binomial_row(t: int, p: mp.mpf) -> list[mp.mpf]:
    if p == 0 or p == 1:
        return [mp.mpf(int(k == (t if p == 1 else 0))) for k in range(t + 1)]
    row = [(1 - p) ** t]
    for k in range(t):
        row.append(row[-1] * (t - k) / (k + 1) * p / (1 - p))
    return row


def exact_delta(n: int, alpha: float, ones: int, epsilon: float) -> mp.mpf:
    """δ(ε) of one data set at θ = 1, the larger direction."""
    zero, one = exact_view(n, alpha, ones, n)
    with mp.workdps(40):
        a, grow = mp.mpf(alpha), mp.exp(mp.mpf(epsilon))
        p = [(1 - a) * x + a * y for x, y in zip(zero, one, strict=True)]
        q = [a * x + (1 - a) * y for x, y in zip(zero, one, strict=True)]
        return max(
            mp.fsum(max(x - grow * y, 0) for x, y in zip(p, q, strict=True)),
            mp.fsum(max(y - grow * x, 0) for x, y in zip(p, q, strict=True)),
        )


def test_the_unit_of_rounding_is_the_largest_error_of_one_operation():
    """1 + u lies halfway between two numbers, so that the sum is off by u of itself."""
    exact = 1 + Fraction(UNIT)
    assert Fraction(1.0 + UNIT) == 1
    assert abs((exact - 1) / exact) == pytest.approx(UNIT, rel=1e-9)
    assert 1.0 + math.nextafter(UNIT, 1.0) > 1.0


@pytest.mark.parametrize(
    ("n", "alpha", "ones"),
    [(20, 0.3, 4), (100, 0.05, 0), (100, 0.1, 37), pytest.param(300, 0.1, 0, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("method", ["direct", "cut-off"])
def test_relative_error_against_forty_digits(n, alpha, ones, method, monkeypatch):
    """Both ways of summing, wherever δ > 1e-40; a figure with t ~ Bin(n, θ) is an average of such."""
    if method == "cut-off":
        monkeypatch.setattr("p2p_sim.privacy.exchange.delta_evaluator.LARGEST_TABLE", 0)
    setting = LabelExchange(n, alpha, 1.0).setting
    checked = 0
    for share in np.linspace(0.02, 0.98, 13):
        epsilon = float(share) * local_epsilon(alpha)
        truth = exact_delta(n, alpha, ones, epsilon)
        if truth < mp.mpf(10) ** -40:
            continue
        bracket = DeltaEvaluator(setting, float(mp.log(truth)) - 30.0).at(ones, epsilon)
        assert bracket.lower <= truth <= bracket.upper
        if method == "direct":
            middle = 0.5 * (bracket.lower + bracket.upper)
            assert abs(middle / truth - 1) <= 1e-10
        assert abs(bracket.upper / truth - 1) <= 1e-6
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize(("n", "alpha", "theta", "ones"), [(12, 0.1, 0.5, 0), (20, 0.2, 1.0, 5)])
def test_dp_accounting_on_the_same_tables_brackets_ours(n, alpha, theta, ones):
    from dp_accounting.pld import privacy_loss_distribution as pld

    exchange = LabelExchange(n, alpha, theta)
    zero, one = exchange.privacy_loss_pmfs(ones)
    assert sum(zero.values()) == pytest.approx(1.0, abs=1e-12)
    logs = [{key: float(np.log(p)) for key, p in table.items() if p > 0} for table in (zero, one)]
    for epsilon in (0.1, 0.5, 1.0):
        ours = DeltaEvaluator(exchange.setting, -40.0).at(ones, epsilon)
        found = {}
        for pessimistic in (True, False):
            both = [
                pld.from_two_probability_mass_functions(
                    lower, upper, pessimistic_estimate=pessimistic, value_discretization_interval=1e-5, symmetric=False
                )
                for lower, upper in (logs, logs[::-1])
            ]
            found[pessimistic] = max(table.get_delta_for_epsilon(epsilon) for table in both)
        assert found[False] - 1e-14 <= ours.lower <= ours.upper <= found[True] + 1e-14
        assert found[True] - found[False] < 1e-3


def test_the_symmetric_default_looks_at_one_direction_only():
    """n = 50, α = .05, θ = 1: with symmetric=True the other direction is lost, and with it most of δ."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    exchange = LabelExchange(50, 0.05, 1.0)
    zero, one = exchange.privacy_loss_pmfs(0)
    logs = [{key: float(np.log(p)) for key, p in table.items() if p > 0} for table in (zero, one)]
    ours = exchange.delta(0.8).lower
    one_way = [
        pld.from_two_probability_mass_functions(a, b, value_discretization_interval=1e-4).get_delta_for_epsilon(0.8)
        for a, b in (logs, logs[::-1])
    ]
    assert max(one_way) >= 0.9 * ours
    assert min(one_way) < 0.5 * ours


def test_tradeoff_curve_lies_below_every_test_and_close():
    exchange = LabelExchange(30, 0.1, 1.0)
    zero, one = exchange.privacy_loss_pmfs(0)
    order = sorted(zero, key=lambda key: one[key] / max(zero[key], 1e-300), reverse=True)
    first = np.minimum(np.cumsum([zero[key] for key in order]), 1.0)
    second = 1.0 - np.cumsum([one[key] for key in order])
    curve = tradeoff(exchange, first)
    assert np.all(curve <= second + 1e-12)
    assert np.max(second - curve) < 0.04  # other data sets and the other direction cost a little
    with pytest.raises(ValueError, match="type_one"):
        tradeoff(exchange, [1.5])


@pytest.mark.parametrize(("trials", "rate"), [(40, 0.9), (300, 0.97), (1000, 0.3), (2000, 0.01)])
def test_blocks_of_submissions_bracket_every_step(trials, rate):
    """What does not decrease in t is a sum of steps 1{t >= x}: each is bracketed, those in the far tail too."""
    log_tail = -60.0
    blocks = SubmissionCounts.of(trials, rate, trials, log_tail=log_tail, log_delta=-14.0)
    at = np.array(blocks.counts)
    assert np.any(np.diff(at) > 1)  # control: some values of t do share a block
    for x in range(trials + 1):
        truth = float(binom.sf(x - 1, trials, rate))
        lower, upper = float(blocks.lower[at >= x].sum()), float(blocks.upper[at >= x].sum()) + blocks.lost
        assert lower <= truth * (1.0 + 1e-9)
        assert upper >= truth * (1.0 - 1e-9)


def test_rounding_is_charged_for_the_most_submissions():
    """Rows of few submissions beside those of many must not make the charge smaller."""
    world = OtherUsers(30, 20, 9, 0.1)
    many = SubmissionCounts((30,), np.ones(1), np.ones(1), 0.0, -60.0)
    both = SubmissionCounts((1, 30), np.full(2, 0.5), np.full(2, 0.5), 0.0, -60.0)
    few = SubmissionCounts((1,), np.ones(1), np.ones(1), 0.0, -60.0)
    charged = {s.counts: DirectViews.of([world], s).slack for s in (many, both, few)}
    assert charged[1, 30] >= charged[(30,)] > charged[(1,)]


def test_both_ways_of_summing_have_one_shape_and_one_value():
    world, blocks = OtherUsers(40, 27, 12, 0.1), SubmissionCounts.of(40, 0.5, 40, log_tail=-60.0, log_delta=-14.0)
    found = [views.deltas(Coefficients(0.7, 0.9, 1e-15)) for views in (DirectViews.of([world], blocks),
                                                         CutOffViews.of(world, blocks))]  # fmt: skip
    for bounds in found:
        assert [bound.shape for bound in bounds] == [(1, 2), (1, 2)]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-8)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-8)


def exact_upper_tail(t: int, least: int, ones: int, sources: int) -> mp.mpf:
    """Pr[Bin(t, ones/sources) >= least] in 40 digits, for `least` above the mean."""
    p = mp.mpf(ones) / sources
    term = mp.exp(mp.loggamma(t + 1) - mp.loggamma(least + 1) - mp.loggamma(t - least + 1)) * p**least
    term *= (1 - p) ** (t - least)
    total, k = term, least
    while k < t and term > total * mp.mpf(10) ** -30:
        term *= mp.mpf(t - k) / (k + 1) * p / (1 - p)
        total, k = total + term, k + 1
    return total


def test_the_rounding_of_rare_ones_and_zeros_is_within_the_charge_of_a_tail():
    """A tail of zeros was computed from 1-p, whose rounding is large beside p: off by up to seven times the charge."""
    rng, late = np.random.default_rng(3), 0
    for _ in range(60):
        sources = int(rng.choice([1_003, 100_003, 1_000_003]))
        rare = max(1, int(sources * 10 ** rng.uniform(-5, -0.31)))
        share, rest = np.array([rare / sources]), np.array([(sources - rare) / sources])
        for ones in (True, False):
            p = rare / sources if ones else 1 - rare / sources
            least = math.ceil(sources * p + rng.uniform(1, 20) * math.sqrt(sources * p * (1 - p)))
            if least > sources:
                continue
            with mp.workdps(40):
                exact = exact_upper_tail(sources, least, rare if ones else sources - rare, sources)
                if exact < 1e-300:
                    continue
                charge = BETAINC_ERROR + 40.0 * math.sqrt(sources) * UNIT
                chances = (share, rest) if ones else (rest, share)
                assert abs(upper_tail(sources, least, *chances)[0] - exact) <= charge * exact
                late += abs(betainc(float(least), sources - least + 1.0, chances[0][0]) - exact) > charge * exact
    assert late, "the former way would not be noticed"
