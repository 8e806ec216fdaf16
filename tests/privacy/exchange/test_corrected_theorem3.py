"""The closed-form flip probability against the accountant, and the steps of its proof one by one."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from p2p_sim.privacy import LabelExchange, local_epsilon, sufficient_flip_prob
from p2p_sim.privacy.claims.paper_against_exact import closed_form_epsilon

SIZES, RATES, EPSILONS = (10, 30, 100, 1_000, 10_000, 100_000), (0.01, 0.1, 1.0), (0.01, 0.1, 0.3, 1.0, 3.0)
DELTAS = (0.1, 1e-3, 1e-6, 1e-9, 1e-12)
GRID = [(n, r, e, d) for n in SIZES for r in RATES for e in EPSILONS for d in DELTAS]


def local(epsilon: float) -> float:
    return 1.0 / (1.0 + math.exp(epsilon))


def nontrivial(every: int) -> list[tuple[int, float, float, float]]:
    """Targets at which the theorem says more than randomised response, thinned where the accountant is slow."""
    cases = [c for c in GRID if 0.0 < sufficient_flip_prob(*c) < 0.999 * local(c[2])]
    slow = [c for c in cases if c[0] == 1_000 and c[1] < 1.0]
    return [c for c in cases if c not in slow][::every] + slow[:: 8 * every]


@pytest.mark.parametrize(("every", "least"), [(12, 10), pytest.param(2, 60, marks=pytest.mark.slow)])
def test_the_accountant_agrees_over_a_wide_grid(every, least):
    cases = nontrivial(every)
    assert len(cases) > least
    for n, rate, epsilon, delta in cases:
        flip_prob = sufficient_flip_prob(n, rate, epsilon, delta)
        assert LabelExchange(n, flip_prob, rate).satisfies(epsilon, delta), (n, rate, epsilon, delta)


@pytest.mark.parametrize("setting", [(10_000, 0.01, 0.1, 1e-9), (1000, 0.05, 1.0, 1e-6), (300, 0.1, 0.5, 1e-5)])
def test_the_epsilon_of_a_flip_probability_is_the_least_at_which_it_suffices(setting):
    n, flip_prob, rate, delta = setting
    epsilon = closed_form_epsilon(*setting)
    assert sufficient_flip_prob(n, rate, epsilon, delta) <= flip_prob
    assert sufficient_flip_prob(n, rate, epsilon * (1.0 - 1e-5), delta) > flip_prob


def test_elsewhere_it_is_local_or_nothing():
    for n, rate, epsilon, delta in GRID:
        flip_prob = sufficient_flip_prob(n, rate, epsilon, delta)
        if delta >= rate:
            assert flip_prob == 0.0
        else:
            assert 0.0 < flip_prob <= 0.5
            assert local_epsilon(flip_prob) <= epsilon or flip_prob < 0.999 * local(epsilon)
    assert LabelExchange(1_000, 0.0, 0.01).satisfies(0.1, 0.01)


def conditions(n: int, theta: float, epsilon: float, delta: float, alpha: float) -> dict[str, bool]:
    """The theorem's, as `docs/theorem.md` prints them."""
    inverse, s = math.log(1.0 / delta), math.log(1.0 + epsilon / theta)
    gamma, eta = (theta + epsilon) * s - epsilon, epsilon - 1.0 + math.exp(-epsilon)
    b = theta * epsilon / (theta + epsilon)
    q, r = alpha * math.exp(epsilon), alpha * math.exp(-epsilon)
    f = n * q * math.exp(-s * q) * eta
    g = n * alpha * (1.0 - math.exp(-b) - b * math.exp(-epsilon))
    c = 2.0 * (inverse + epsilon) / (n * gamma)
    x = (1.0 - c - r - 1.0 / n) * epsilon

    def k(j: float) -> float:
        return j * (1.0 - j / n) * gamma

    few = x > 1.0 or (x > theta and n * (x * math.log(x / theta) - x + theta) >= inverse + epsilon)
    return {
        "U0": n * q * (1.0 - q) * gamma + f >= inverse + gamma + 2.0 * epsilon,
        "U1": k((n + 1) * (1.0 + q) / 2.0 - 2.0) + f * (1.0 - s * (1.0 - q)) / 2.0 >= inverse + 2.0 * epsilon,
        "D0": k(n * r + 1.0) + g >= inverse + epsilon,
        "D1": k((n + 1) * (1.0 + r) / 2.0) + g / 2.0 >= inverse + epsilon,
        "S": c <= 0.5 and k((n + 1) * (1.0 + r) / 2.0) >= inverse + epsilon and few,
    }


def roots(n: int, theta: float, epsilon: float, delta: float) -> tuple[float, float]:
    """α_U and α_D of the closed form, as the page prints them; infinite where there is none."""
    inverse, s = math.log(1.0 / delta), math.log(1.0 + epsilon / theta)
    gamma, eta = (theta + epsilon) * s - epsilon, epsilon - 1.0 + math.exp(-epsilon)
    b = theta * epsilon / (theta + epsilon)
    found = []
    for x, y, z in (
        (gamma + eta, gamma + s * eta, inverse + gamma + 2.0 * epsilon),
        ((1.0 - 1.0 / n) * math.exp(-epsilon) * gamma + 1.0 - math.exp(-b) - b * math.exp(-epsilon),
         math.exp(-epsilon) * gamma, inverse + epsilon),
    ):  # fmt: skip
        square = x * x - 4.0 * y * z / n
        found.append(2.0 * z / n / (x + math.sqrt(square)) if square >= 0.0 else math.inf)
    return found[0] * math.exp(-epsilon), found[1]


def test_it_is_the_printed_theorem_and_every_condition_decides_somewhere():
    decided = dict.fromkeys(("U1", "D0", "D1", "S"), 0)
    sizes, deltas = (4, 10, 20, 50, 200, 1000, 100_000), (1e-2, 1e-3, 1e-5, 1e-9, 1e-15)
    for case in itertools.product(sizes, (0.01, 0.05, 0.3, 0.6, 1.0), (0.01, 0.1, 0.3, 1.0, 2.0, 3.0, 8.0), deltas):
        up, down = roots(*case)
        expected = local(case[2])
        for alpha in (max(up, down), up):
            if case[3] < case[1] and alpha < local(case[2]):
                held = conditions(*case, alpha * (1.0 + 2e-9))  # rounded up by as much at most
                met = held["U0"] and held["U1"] and ((held["D0"] and held["D1"]) or held["S"])
                expected = alpha if met else expected
                for name in decided:
                    other = held | {name: not held[name]}
                    decided[name] += met != (other["U1"] and ((other["D0"] and other["D1"]) or other["S"]))
        if case[3] < case[1]:
            assert sufficient_flip_prob(*case) == pytest.approx(expected, rel=1e-8), case
    assert min(decided.values()) > 3, decided


def test_it_is_within_the_stated_factor():
    """Control as well: a third of α* is refuted, so the comparison with the accountant can fail."""
    cases = [c for c in nontrivial(3) if c[3] <= 1e-9 and c[0] >= 100 and not 0.7 <= c[2] / c[1] <= 1.5]
    assert len(cases) > 15
    for n, rate, epsilon, delta in cases:
        flip_prob = sufficient_flip_prob(n, rate, epsilon, delta) / 3.0
        assert LabelExchange(n, flip_prob, rate).delta(epsilon).lower > delta, (n, rate, epsilon, delta)


def test_it_has_the_gaussian_order():
    n, rate, epsilon, delta = 10**9, 0.5, 1e-3, 1e-30
    gaussian = 2.0 * math.log(1.0 / delta) * rate / ((1.0 + rate) * n * epsilon**2)
    assert sufficient_flip_prob(n, rate, epsilon, delta) == pytest.approx(gaussian, rel=0.2)


@pytest.mark.parametrize(
    "bad",
    [
        (0, 0.5, 1.0, 0.1),
        (9, 0.0, 1.0, 0.1),
        (9, 1.1, 1.0, 0.1),
        (9, 0.5, 0.0, 0.1),
        (9, 0.5, 1.0, 1.0),
        (9, 0.5, 1.0, 0),
    ],
)
def test_nonsense_is_refused(bad):
    with pytest.raises(ValueError, match="need"):
        sufficient_flip_prob(*bad)


@pytest.mark.parametrize(("n", "known"), [(7, 0), (9, 1), (12, 5), (25, 0), (25, 11)])
@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_likelihood_ratio_posterior_mean_and_events(n, known, alpha):
    """Steps 2 to 4, for every view of small clusters."""
    users = n - known
    x = np.arange(users + 1)
    prior, others = binom.pmf(x, users, alpha), binom.pmf(x, users - 1, alpha)
    o, nu = alpha / (1 - alpha), users * alpha
    for t in range(1, n + 1):
        for k in range(t + 1):
            p0 = prior * binom.pmf(k, t, (known + x) / n)
            if p0.sum() < 1e-200:
                continue
            mean = float(p0 @ x / p0.sum())
            one = float(np.append(0.0, others[:-1]) @ binom.pmf(k, t, (known + x) / n))
            zero = float(others @ binom.pmf(k, t, (known + x) / n))
            ratio = (alpha * zero + (1 - alpha) * one) / p0.sum()
            assert ratio == pytest.approx(1 + (1 - 2 * alpha) * (mean - nu) / ((1 - alpha) * nu), rel=1e-6, abs=1e-9)
            w, u = mean + known, users - mean
            if w > 1 and u > 1e-9:
                psi = mean * (1 - 1 / w) ** k * (1 + 1 / u) ** (t - k)
                assert psi <= o * u * (1 + 1e-9)
            if u > 1 and w > 1e-9:
                assert o * u * (1 - 1 / u) ** (t - k) * (1 + 1 / w) ** k <= mean * (1 + 1e-9)
            for epsilon in (0.1, 0.5, 1.0, 1.5):
                high, low = nu * math.exp(epsilon), nu * math.exp(-epsilon)
                if mean >= high and high + known > 1:
                    j = high + known - 1
                    assert k - j / n * t >= j * (1 - j / n) * epsilon - 1e-9
                if mean <= low and users - low > 1:
                    j = low + known + 1
                    assert k - j / n * t <= -j * (1 - j / n) * epsilon + 1e-9


def test_the_event_would_see_a_missing_shift():
    """Control: with J too large the inclusion of step 4 fails (t = k = 1, where the mean is ν e^ε)."""
    n, alpha = 20, 0.1
    x = np.arange(n + 1)
    weights = binom.pmf(x, n, alpha) * x
    mean = float(weights @ x / weights.sum())
    epsilon, j = math.log(mean / (n * alpha)), mean + 1
    assert not 1 - j / n >= j * (1 - j / n) * epsilon
    assert 1 - (mean - 1) / n >= (mean - 1) * (1 - (mean - 1) / n) * epsilon


def test_bennetts_inequality():
    for p in np.linspace(0.001, 0.999, 101):
        for s in (0.01, 0.3, 1.0, 3.0, 6.0):
            bound = 1 + p * (1 - p) * (math.exp(s) - 1 - s)
            for sign in (s, -s):
                assert p * math.exp(sign * (1 - p)) + (1 - p) * math.exp(-sign * p) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.4, 1.0])
def test_bounds_of_step_five_hold_for_every_number_of_known_ones(rate):
    n, alpha = 60, 0.08
    t = np.arange(n + 1)[:, None, None]
    k = np.arange(n + 1)[None, :, None]
    for known in (0, 1, 7, 29):
        users = n - known
        x = np.arange(users + 1)
        kernel = binom.pmf(t, n, rate) * binom.pmf(k, t, (known + x) / n)
        zero = kernel @ binom.pmf(x, users - 1, alpha)
        one = kernel @ np.append(0.0, binom.pmf(x, users - 1, alpha)[:-1])
        p0, p1 = (1 - alpha) * zero + alpha * one, alpha * zero + (1 - alpha) * one
        for epsilon in (0.2, 0.5, 1.0, 2.0):
            up, down = exponents(n, known, alpha, rate, epsilon)
            assert np.maximum(p1 - math.exp(epsilon) * p0, 0).sum() <= math.exp(-up) + 1e-12
            assert np.maximum(p0 - math.exp(epsilon) * p1, 0).sum() <= math.exp(-down) + 1e-12


def exponents(n: int, known: int, alpha: float, rate: float, epsilon: float) -> tuple[float, float]:
    s = math.log1p(epsilon / rate)
    gamma = (rate + epsilon) * s - epsilon
    nu = (n - known) * alpha
    j = nu * math.exp(epsilon) + known - 1
    flips = nu * math.exp(-s * j / n) * (1 - math.exp(epsilon) + epsilon * math.exp(epsilon))
    up = j * (1 - j / n) * gamma + flips - 2 * epsilon
    j, b = nu * math.exp(-epsilon) + known + 1, rate * epsilon / (rate + epsilon)
    down = j * (1 - j / n) * gamma + nu * (1 - math.exp(-b) - b * math.exp(-epsilon)) - epsilon
    return up, down
