"""The exact accountant against enumeration, direct summation and the published figures."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from p2p_sim.privacy import LabelExchange, calibrate_flip_prob, lemma9_epsilon, local_epsilon, theorem3
from p2p_sim.privacy.binomial_windows import SubmissionCounts
from p2p_sim.privacy.exchange.calibration import best_sampling_rate, calibrate_each, smallest_of_three_digits
from p2p_sim.privacy.exchange.direct_sum import OtherUsers, likelihoods
from p2p_sim.privacy.exchange.kary import KaryExchange
from tests.reference import direct_sum, enumeration, high_precision


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 0.5), (0.3, 1.0), (0.02, 0.2), (0.0, 0.7), (0.5, 1.0)])
@pytest.mark.slow_where(lambda n, alpha: n == 5 and alpha in {0.0, 0.02, 0.1})
def test_equals_enumeration_of_every_flip_choice_and_subsample(n, alpha, theta):
    exchange = LabelExchange(n, alpha, theta)
    for epsilon in (0.0, 0.3, 0.8, 1.5, 2.1, 4.0):
        truth = enumeration.delta(n, alpha, theta, epsilon)
        bracket = exchange.delta(epsilon)
        assert bracket.lower <= truth + 1e-14
        assert bracket.upper >= truth - 1e-14
        assert bracket.lower == pytest.approx(truth, abs=1e-13)
        assert bracket.upper == pytest.approx(truth, abs=1e-13)


@pytest.mark.parametrize(("n", "rounds"), [(2, 3), (3, 2), (4, 2)])
def test_memoised_rounds_equal_enumeration_of_all_their_views(n, rounds):
    for epsilon in (0.0, 0.5, 1.2, 2.0):
        truth = enumeration.delta(n, 0.1, 0.6, epsilon, rounds)
        bracket = LabelExchange(n, 0.1, 0.6, rounds).delta(epsilon)
        assert bracket.lower == pytest.approx(truth, abs=1e-13)
        assert bracket.upper == pytest.approx(truth, abs=1e-13)
        assert epsilon > 1.5 or abs(truth - enumeration.delta(n, 0.1, 0.6, epsilon)) > 1e-3  # rounds are not free


def test_enumeration_would_see_the_papers_simplification():
    """Control: with t fixed at θn instead of Bin(n, θ), as in the proof of Lemma 9, the figures differ."""
    truth = enumeration.delta(4, 0.1, 0.5, 0.3)
    fixed = [enumeration_fixed_t(0.1, 0.3, ones) for ones in range(4)]
    assert abs(max(fixed) - truth) > 1e-3


def enumeration_fixed_t(alpha: float, epsilon: float, ones: int) -> float:
    [(a, b)] = likelihoods([OtherUsers(4, 3 - ones, ones, alpha)], [2])
    p, q = (1 - alpha) * a + alpha * b, alpha * a + (1 - alpha) * b
    return max(float((u - math.exp(epsilon) * v).clip(min=0).sum()) for u, v in ((p, q), (q, p)))


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 90),
    alpha=st.one_of(st.floats(1e-3, 0.5), st.sampled_from([0.0, 1e-6])),
    theta=st.floats(0.02, 1.0),
    epsilon=st.floats(0.0, 3.0),
)
def test_bracket_holds_against_direct_summation_over_all_data_sets(n, alpha, theta, epsilon):
    truth = direct_sum.delta(n, alpha, theta, epsilon) if epsilon < local_epsilon(alpha) else 0.0
    bracket = LabelExchange(n, alpha, theta).delta(epsilon)
    # the reference itself is good to some 1e-12 relative, and to nothing below 1e-15
    assert bracket.upper >= truth * (1 - 1e-9) - 1e-15
    assert bracket.lower <= truth * (1 + 1e-9) + 1e-15
    assert bracket.lower <= bracket.upper
    if n <= 64:
        assert bracket.upper == pytest.approx(truth, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize(
    ("n", "alpha", "theta", "delta", "epsilon"),
    [
        (1000, 0.05, 1.0, 1e-6, 0.420),
        (1000, 0.1, 1.0, 1e-6, 0.249),
        (1000, 0.1, 0.1, 1e-6, 0.0986),
        (3000, 0.1, 0.5, 1e-5, 0.0869),
    ],
)
def test_published_values_and_tight_brackets(n, alpha, theta, delta, epsilon):
    bound = LabelExchange(n, alpha, theta).epsilon(delta)
    assert bound.epsilon_lower <= bound.epsilon_upper <= 1.01 * bound.epsilon_lower
    assert bound.epsilon_lower == pytest.approx(epsilon, rel=3e-3)
    assert (bound.observer, bound.adjacency, bound.delta) == ("learner", "label", delta)


def test_an_interior_data_set_can_be_the_worst():
    """n = 50, α = .05, θ = 1, ε = .92: two ones among the others are worse than none or all."""
    assert LabelExchange(50, 0.05, 1.0).delta(0.92).upper == pytest.approx(6.7e-4, rel=0.01)
    bound = LabelExchange(50, 0.05, 1.0).epsilon(6.7e-4)
    assert bound.epsilon_upper >= 0.9199
    assert bound.epsilon_lower == pytest.approx(bound.epsilon_upper, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(2, 60), alpha=st.floats(0.01, 0.49), theta=st.floats(0.05, 1.0), delta=st.floats(1e-9, 0.05))
def test_epsilon_inverts_delta(n, alpha, theta, delta):
    exchange = LabelExchange(n, alpha, theta)
    bound = exchange.epsilon(delta)
    assert 0.0 <= bound.epsilon_lower <= bound.epsilon_upper <= local_epsilon(alpha)
    assert exchange.satisfies(bound.epsilon_upper * (1 + 1e-6) + 1e-9, delta)
    assert exchange.delta(bound.epsilon_upper * (1 + 1e-6) + 1e-9).lower <= delta
    if bound.epsilon_lower > 1e-3:
        assert exchange.delta(0.999 * bound.epsilon_lower).upper >= delta


def test_ends_of_the_parameter_range():
    assert LabelExchange(50, 0.5, 1.0).epsilon(1e-6).epsilon_upper == 0.0
    assert LabelExchange(5, 0.0, 1.0).epsilon(1e-6).epsilon_lower == math.inf
    assert LabelExchange(50, 0.1, 1.0).delta(local_epsilon(0.1)).upper == 0.0
    assert LabelExchange(50, 0.1, 1e-4).epsilon(0.5).epsilon_upper == 0.0


@pytest.mark.parametrize(
    ("arguments", "key"),
    [((1, 0.1, 0.5), "cluster_size"), ((9, 0.6, 0.5), "flip_prob"), ((9, math.nan, 0.5), "flip_prob"),
     ((9, 0.1, 0.0), "sampling_rate"), ((9, 0.1, 1.1), "sampling_rate")],
)  # fmt: skip
def test_bad_parameters_are_named(arguments, key):
    with pytest.raises(ValueError, match=key):
        LabelExchange(*arguments)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            LabelExchange(9, 0.1, 0.5).epsilon(delta)


def test_large_clusters_are_bracketed():
    bound = LabelExchange(20_000, 0.1, 0.5).epsilon(1e-8)
    assert 0.0 < bound.epsilon_lower < bound.epsilon_upper < 1.02 * bound.epsilon_lower
    assert "certified" in bound.basis


def test_privacy_improves_with_noise_users_and_sampling():
    def epsilon(n, alpha, theta):
        return LabelExchange(n, alpha, theta).epsilon(1e-5).epsilon_upper

    assert epsilon(50, 0.2, 0.5) < epsilon(50, 0.1, 0.5) < epsilon(50, 0.1, 1.0)
    assert epsilon(200, 0.1, 0.5) < epsilon(50, 0.1, 0.5)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_calibration_meets_its_target_and_not_by_much(epsilon):
    sizes = [36, 90]
    alpha = calibrate_flip_prob(sizes, 2, 0.5, epsilon, 1e-5)
    assert all(LabelExchange(n, alpha, 0.5).epsilon(1e-5).epsilon_upper <= epsilon for n in sizes)
    assert not LabelExchange(36, 0.985 * alpha, 0.5).satisfies(epsilon, 1e-5)


def test_calibration_needs_a_cluster():
    with pytest.raises(ValueError, match="at least one cluster size"):
        calibrate_flip_prob([], 2, 0.5, 1.0, 1e-5)


@pytest.mark.parametrize("high", [0.5, 1 / (1 + math.exp(1.5)), 0.0912345])
def test_no_number_of_three_digits_is_skipped(high):
    # also just below and just above a power of ten, where the distance of such numbers changes
    for least in (0.0912, 0.0993, 0.0999, 0.1, 0.101, 0.0102, 0.01, 0.00999, 0.25):
        below = least * (1 - 1e-6)
        assert smallest_of_three_digits(lambda value, at=below: value >= at, 0.0, high) == min(least, high)


def test_calibration_for_many_classes_beats_the_local_value():
    alpha = calibrate_flip_prob([2000], 10, 0.5, 1.0, 1e-5)
    assert KaryExchange(2000, alpha, 0.5, 10).epsilon(1e-5).epsilon_upper <= 1.0
    assert alpha < 0.5 * 9 / (9 + math.e)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_calibration_is_for_as_many_classes_as_there_are(classes):
    """The smallest α of three digits; that of another number of classes is not."""
    alpha = calibrate_flip_prob([40], classes, 0.5, 0.5, 1e-3)
    model = (lambda a: LabelExchange(40, a, 0.5)) if classes == 2 else (lambda a: KaryExchange(40, a, 0.5, classes))
    assert model(alpha).epsilon(1e-3).epsilon_upper <= 0.5
    assert model(alpha - 0.001).epsilon(1e-3).epsilon_upper > 0.5


def test_larger_clusters_need_less_noise():
    each = calibrate_each([40, 400, 40], 2, 0.5, 0.5, 1e-5)
    assert list(each) == [40, 400]
    assert each[400] < 0.5 * each[40]
    assert calibrate_flip_prob([400, 40], 2, 0.5, 0.5, 1e-5) == each[40]


def test_best_sampling_rate_weighs_noise_against_submissions():
    found = best_sampling_rate([60], 0.5, 1e-5, lambda theta, alpha: 2 / math.sqrt(60 * theta) + alpha)
    assert 0.05 < found.sampling_rate <= 1.0
    assert LabelExchange(60, found.flip_prob, found.sampling_rate).satisfies(0.5, 1e-5)
    stingy = best_sampling_rate([60], 0.5, 1e-5, lambda theta, alpha: alpha)
    assert stingy.sampling_rate == 0.01


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_impossible_targets_are_named(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        calibrate_flip_prob([50], 2, 0.5, epsilon, 1e-5)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 40), alpha=st.floats(0.01, 0.49), theta=st.floats(0.1, 1.0), rounds=st.integers(1, 4),
    epsilon=st.floats(0.0, 2.0),
)  # fmt: skip
def test_memoised_rounds_hold_against_direct_summation(n, alpha, theta, rounds, epsilon):
    truth = direct_sum.delta(n, alpha, theta, epsilon, rounds) if epsilon < local_epsilon(alpha) else 0.0
    bracket = LabelExchange(n, alpha, theta, rounds).delta(epsilon)
    assert bracket.lower <= truth * (1 + 1e-9) + 1e-15
    assert bracket.upper >= truth * (1 - 1e-9) - 1e-15
    assert bracket.upper == pytest.approx(truth, rel=1e-6, abs=1e-13)


def test_lemma9_where_it_applies_lies_above_the_exact_value():
    paper = lemma9_epsilon(1000, 0.3, 1.0, 1e-6)
    assert paper is not None
    assert paper > 4 * LabelExchange(1000, 0.3, 1.0).epsilon(1e-6).epsilon_upper


def test_lemma9_and_theorem3_say_when_they_do_not_apply():
    assert lemma9_epsilon(19, 0.1, 1.0, 0.5) is None  # s < 2/α
    assert lemma9_epsilon(40, 0.1, 0.5, 1e-5) is None  # ξ beyond its range
    assert lemma9_epsilon(1000, 0.0, 1.0, 1e-6) is None
    at_half = theorem3(100_000, 0.5)
    assert at_half is not None
    small = 1.5 / (math.e * math.sqrt(2e5 * math.log(1e5)))  # 3θ^1.5 = 1.5 √θ
    assert at_half.epsilon == pytest.approx(0.5 + small + 3.0 / 1e5**0.25, rel=1e-12)
    assert theorem3(10_900, 1.0) is None  # not applicable below about 11,000 users
    assert theorem3(1, 1.0) is None
    found = theorem3(12_000, 1.0)
    assert found is not None
    # the theorem simplifies the lemma upwards, by little
    lemma = lemma9_epsilon(12_000, found.flip_prob, 1.0, found.delta)
    assert lemma is not None
    assert lemma <= found.epsilon <= 1.25 * lemma


@pytest.mark.parametrize("alpha", [0.4999, 0.4999999, 0.499999995, 0.5 - 2**-50, 0.1, 1e-6])
@pytest.mark.parametrize(("n", "theta"), [(2, 1.0), (5, 1.0), (5, 0.3)])
def test_bounds_hold_to_the_last_digit_near_the_local_limit(n, alpha, theta):
    """Against 50-digit arithmetic, where 1-α-αe^ε cancels; double precision as reference could not see it."""
    with mpmath.workdps(50):
        assert mpmath.exp(local_epsilon(alpha)) >= (1 - mpmath.mpf(alpha)) / mpmath.mpf(alpha)
    exchange = LabelExchange(n, alpha, theta)
    for delta in (1e-3, 1e-9, 1e-20, 1e-30):
        bound = exchange.epsilon(delta)
        if math.isfinite(bound.epsilon_upper):
            assert high_precision.delta(n, alpha, theta, bound.epsilon_upper) <= delta
        if bound.epsilon_lower > 0:
            assert high_precision.delta(n, alpha, theta, bound.epsilon_lower) >= delta
    for share in (0.1, 0.5, 0.999, 1 - 1e-9):
        epsilon = share * local_epsilon(alpha)
        bracket = exchange.delta(epsilon)
        assert bracket.lower <= high_precision.delta(n, alpha, theta, epsilon) <= bracket.upper


@settings(max_examples=50, deadline=None)
@given(
    trials=st.integers(1, 600), rate=st.floats(1e-6, 1.0), tail=st.floats(-80.0, -20.0), delta=st.floats(-40.0, -2.0)
)
def test_blocks_of_submissions_bracket_every_nondecreasing_function(trials, rate, tail, delta):
    """The upper weights dominate the law of t stochastically, the lower ones are dominated by it."""
    blocks = SubmissionCounts.of(trials, rate, trials, log_tail=tail, log_delta=delta)
    for start in range(trials + 1):
        truth = float(binom.sf(start - 1, trials, rate))
        reached = np.array(blocks.counts) >= start
        assert blocks.upper[reached].sum() + blocks.lost >= truth * (1 - 1e-9) - 1e-16
        assert blocks.lower[reached].sum() <= truth * (1 + 1e-9) + 1e-16
    assert set(blocks.counts) <= set(range(trials + 1))


@pytest.mark.parametrize(
    ("n", "alpha", "theta"),
    [
        (600, 0.02, 1.0),
        (520, 0.001, 1.0),
        pytest.param(513, 0.1, 0.5, marks=pytest.mark.slow),
        pytest.param(700, 0.4, 0.1, marks=pytest.mark.slow),
    ],
)
def test_covering_bound_lies_above_every_data_set_and_close(n, alpha, theta, monkeypatch):
    """The same exchange once by covering and once by evaluating every data set."""
    setting = LabelExchange(n, alpha, theta).setting
    exact = setting.epsilon(1e-6)
    epsilon = 0.9 * exact.upper
    whole = setting.delta(epsilon)
    monkeypatch.setattr("p2p_sim.privacy.exchange.one_cluster.EXHAUSTIVE", 100)
    covered = LabelExchange(n, alpha, theta).setting.epsilon(1e-6)
    assert exact.upper <= covered.upper <= 1.01 * exact.upper
    assert covered.lower <= exact.upper
    assert covered.lower == pytest.approx(exact.lower, rel=1e-4)
    thinned = setting.delta(epsilon)
    assert thinned.lower <= whole.upper <= thinned.upper < 1.5 * whole.upper
    assert setting.satisfies(epsilon, 1.1 * thinned.upper)
    assert not setting.satisfies(epsilon, 0.9 * whole.lower)
