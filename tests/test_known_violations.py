"""Cases in which a privacy figure once lay on the wrong side of the truth, or was none; each against the true value.

Truths are exact rationals or come from `mpmath` with 60 digits.
"""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from analysis.privacy import LabelExchange, local_epsilon
from analysis.privacy.alibi import laplace_delta, laplace_epsilon, laplace_variation
from analysis.privacy.fetch import FetchDistribution
from analysis.privacy.kary import KaryExchange
from analysis.privacy.local import local_delta
from analysis.privacy.observers import Eavesdropper, Peer
from analysis.privacy.vector import vector_delta
from p2p_sim.statements import Question, answer


def exact(x: float) -> mp.mpf:
    """A float as it is."""
    return mp.mpf(x)


def local(alpha: float, epsilon: float) -> mp.mpf:
    """max(0, 1-α-αe^ε)."""
    with mp.workdps(700):
        return max(mp.mpf(0), 1 - mp.mpf(alpha) - mp.exp(mp.mpf(epsilon)) * mp.mpf(alpha))


@pytest.mark.parametrize(
    ("alpha", "epsilon"),
    [(1e-306, 703.0), (1e-306, 704.2), (2e-308, 707.0), (5e-310, 709.0), (1e-320, 720.0), (5e-324, 744.0)],
)
def test_local_noise_beyond_700(alpha, epsilon):
    """δ was 0 above ε = 700."""
    truth = local(alpha, epsilon)
    assert 0.1 < truth < 1.0
    for found, part in ((Eavesdropper(alpha).delta(epsilon), 1), (Peer(7, alpha).delta(epsilon), 7)):
        assert found.lower <= truth / part <= found.upper
        assert found.upper == pytest.approx(float(truth / part), rel=1e-12)


@pytest.mark.parametrize("observer", ["eavesdropper", "peer"])
def test_epsilon_of_local_noise_beyond_700(observer):
    """The command said at most 700; true are 704.581 and, for a peer in a cluster of two, 704.571."""
    delta = 0.01 if observer == "eavesdropper" else 0.005
    found = answer(Question(2, 1e-306, 1.0, observer, None, 1, False, 2), delta, None).bound
    with mp.workdps(60):
        truth = mp.log((1 - mp.mpf(1e-306) - mp.mpf(0.01)) / mp.mpf(1e-306))
    assert found.epsilon_lower <= truth <= found.epsilon_upper < 704.59


def test_local_epsilon_of_the_smallest_numbers():
    """It overflowed below 5.6e-309."""
    for alpha in (5e-324, 1e-310, 1e-308):
        with mp.workdps(400):
            truth = mp.log((1 - mp.mpf(alpha)) / mp.mpf(alpha))
            assert truth <= local_epsilon(alpha) <= truth * (1 + 1e-14)


@pytest.mark.parametrize("rate", [1.0, 1e-3])
def test_who_asks_herself_has_the_local_figure(rate):
    """Everybody submits her own noisy label, if anything: above ε = 700 δ was too small."""
    fetch = FetchDistribution(np.eye(3), 1e-306, rate)
    for epsilon in (701.0, 703.9, 704.5):
        assert fetch.delta(epsilon).upper >= exact(rate) * local(1e-306, epsilon) > 0


def test_an_overlay_with_next_to_no_noise():
    """A product of e^ε₀ overflowed, and what came of it was not a number."""
    weights = np.array([[0.4297901912330084, 0.0, 0.5702098087669916], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    fetch = FetchDistribution(weights, 5.073220566443e-312, np.array([1.0, 0.4472451802935742, 0.9287786288937862]))
    for epsilon in (0.0, 500.0, 712.0):  # user 2 asks user 0 and nobody else
        assert fetch.delta(epsilon).upper >= exact(0.9287786288937862) * local(5.073220566443e-312, epsilon)


@pytest.mark.parametrize("rate", [1e-17, 1e-20, 1e-100])
def test_who_asks_herself_seldom_is_seen_that_often(rate):
    """1 - (1 - θ) was 0."""
    truth = exact(rate) * local(0.1, 1.0)
    for fetch in (FetchDistribution(np.eye(3), 0.1, rate), FetchDistribution(np.full((2, 2), 0.5), 1e-12, rate)):
        found = fetch.delta(1.0).upper
        assert found >= truth * (1 if fetch.flip_prob == 0.1 else 0.5)
        assert found <= 3 * rate


@pytest.mark.parametrize(
    ("n", "alpha", "rate", "epsilon"),
    [
        (2, 0.001, 1e-300, 1.0),
        (2, 0.499999999999999, 1e-300, 1e-20),
        (9, 0.499999999999999, 1e-300, 1e-20),
        (9, 0.4999999999999972, 5.233914915700917e-300, 1.3439371791400492e-16),
    ],
)
def test_learners_at_the_smallest_sampling_rates(n, alpha, rate, epsilon):
    """Rounding was charged by the step, whatever the magnitudes; δ below 1e-308 has few digits."""
    truth = smallest_rate(n, alpha, rate, epsilon)
    found = LabelExchange(n, alpha, rate).delta(epsilon)
    assert found.lower <= truth <= found.upper


def smallest_rate(n: int, alpha: float, rate: float, epsilon: float) -> mp.mpf:
    """δ(ε), the largest over m, of one submission with probability nθ; two have θ² times as much."""
    with mp.workdps(60):
        a, grow, worst = mp.mpf(alpha), mp.exp(mp.mpf(epsilon)), mp.mpf(0)
        for m in range(n):
            share = (m * (1 - a) + (n - 1 - m) * a) / n
            zero, one = share + a / n, share + (1 - a) / n  # a submitted label is 1
            for p, q in ((zero, one), (one, zero)):
                worst = max(worst, max(0, p - grow * q) + max(0, 1 - p - grow * (1 - q)))
        return worst * n * mp.mpf(rate)


@pytest.mark.parametrize(("alpha", "classes"), [(2 / 3 - 1e-10, 3), (0.75 - 1e-12, 4), (0.9 - 1e-9, 10)])
def test_many_classes_of_which_nearly_nothing_is_left(alpha, classes):
    """1-α-α/(K-1) cancelled: δ(0) and ε₀ were off by one part in a million."""
    gap = 1 - Fraction(alpha) * classes / (classes - 1)
    found = local_delta(alpha, 0.0, classes)
    assert Fraction(found.lower) <= gap <= Fraction(found.upper)
    with mp.workdps(60):
        ratio = (1 - Fraction(alpha)) * (classes - 1) / Fraction(alpha)
        assert local_epsilon(alpha, classes) >= mp.log(mp.mpf(ratio.numerator) / mp.mpf(ratio.denominator))


def test_a_float_beyond_the_end_of_the_range():
    """K = 5: 0.8 lies above 4/5 by u, and δ(0) is as much, not 0."""
    exact_gap = Fraction(0.8) * 5 / 4 - 1
    assert Fraction(local_delta(0.8, 0.0, 5).upper) >= exact_gap > 0
    assert local_epsilon(0.8, 5) >= exact_gap / Fraction(0.8)
    assert KaryExchange(30, 0.8, 1.0, 5).delta(0.0).upper > 0.0


@pytest.mark.parametrize(("p", "epsilon"), [(1e-170, 780.0), (1e-160, 733.0), (1e-306, 1405.0)])
def test_vectors_beyond_700(p, epsilon):
    """p² underflowed, and e^ε stood still at 700."""
    with mp.workdps(900):
        truth = (1 - mp.mpf(p)) ** 2 - mp.exp(mp.mpf(epsilon)) * mp.mpf(p) ** 2
    found = vector_delta(p, epsilon)
    assert 0 < truth < 1
    assert found.lower <= truth <= found.upper
    assert found.lower >= 0.9 * truth


def test_alibi_just_below_its_pure_epsilon():
    """1 - e^(ε - 2/b) cancelled; at the smallest b the total variation was not a number, and counted as 0."""
    pure = laplace_epsilon(2.0)
    for epsilon in (pure - 3e-16, pure - 1e-14):
        with mp.workdps(60):
            attained = (1 - mp.exp(mp.mpf(epsilon) - 1)) / 4
            allowed = 1 - mp.exp(mp.mpf(epsilon) - mp.mpf(pure))
        found = laplace_delta(2.0, epsilon)
        assert found.lower <= max(attained, 0)
        assert found.upper >= allowed
    assert laplace_variation(1e-310) == 1.0


@pytest.mark.parametrize("alpha", [1e-306, 1e-301, 5e-324])
def test_what_is_not_derived_is_refused(alpha):
    with pytest.raises(ValueError, match=r"flip_prob = .*: must be 0, or lie in \[1e-300, 0.5\]"):
        LabelExchange(10, alpha, 0.5)
    with pytest.raises(ValueError, match=r"sampling_rate = .*: must lie in \[1e-300, 1\]"):
        LabelExchange(10, 0.1, alpha)


def test_without_noise_the_figure_is_the_exposure():
    """α = 0: whether somebody submits the target's label, at every ε."""
    n, theta = 50, 0.25
    truth = 1 - (1 - Fraction(theta) / n) ** n
    for epsilon in (0.0, 3.0, 1e3, math.inf):
        found = LabelExchange(n, 0.0, theta).delta(epsilon)
        assert Fraction(found.lower) <= truth <= Fraction(found.upper) <= truth * Fraction(1 + 1e-12)
