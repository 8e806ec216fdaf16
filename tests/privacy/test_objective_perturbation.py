"""The cost of objective perturbation, against exact densities of the released weights."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import kstest

from p2p_sim.privacy.rivals.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.stacking.plr import PerturbedObjective, draw_noise

ATTAINED = 0.9
"""Share of ε = 1 that a search over neighbours attains, at least; docs/stacking.md says so."""


def log_density(weights, signed_rows, setting, prior=None, group=0):
    """Of the released weights (m, d), up to the noise's constant, by change of variables."""
    n, d = signed_rows.shape
    prior = np.zeros(d) if prior is None else prior
    sigma = 1.0 / (1.0 + np.exp(np.clip(weights @ signed_rows.T, -700.0, 700.0)))
    l2, extra = setting.l2[group], setting.extra_l2[group]
    noise = sigma @ signed_rows - n * (extra * weights + l2 * (weights - prior))
    curvature = np.einsum("mi,ij,ik->mjk", sigma * (1.0 - sigma), signed_rows, signed_rows)
    curvature += n * (l2 + extra) * np.eye(d)
    return -np.linalg.norm(noise, axis=1) / setting.noise_scale + np.linalg.slogdet(curvature)[1]


def largest_ratio(setting, rng, dimension, row_norm=1.0, prior_norm=0.0, tries=300):
    """Largest log-ratio found of the densities of neighbours, over random rows and weights."""
    n, worst = setting.num_rows, 0.0
    for _ in range(tries):
        rows = rng.standard_normal((n + 1, dimension))
        rows *= row_norm * setting.norms[0] / np.linalg.norm(rows, axis=1, keepdims=True)
        prior = prior_norm * draw_noise(dimension, 1.0, rng)[0]
        if rng.random() < 0.5:
            rows[n] = -rows[n - 1] + (0.3 * rng.random() * prior / prior_norm if prior_norm else 0.0)
            rows[n] *= row_norm * setting.norms[0] / np.linalg.norm(rows[n])
        rows[n] *= rng.choice([0.0, 1.0, rng.random()])
        weights = prior + draw_noise(dimension, float(10 ** rng.uniform(-1, 1.5)), rng, 200)
        one, other = (log_density(weights, part, setting, prior) for part in (rows[:n], np.delete(rows, n - 1, axis=0)))
        worst = max(worst, float(np.abs(one - other).max()))
    return worst


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(
    ("num_rows", "l2", "norms"),
    [
        (1000, [0.01], [1.0]),
        (3, [0.2], [1.0]),
        (50, [0.01, 0.02, 1e-4], [0.7, 0.2, 0.1]),
        (10, [1e-3, 5.0], [0.5, 0.5]),
    ],
)
def test_the_cost_is_at_most_what_was_asked(epsilon, num_rows, l2, norms, tight):
    setting = calibrate_perturbation(epsilon, num_rows, l2, norms, tight)
    assert 0.3 * epsilon < setting.epsilon_upper <= epsilon * (1 + 1e-12)
    assert min(setting.extra_l2) >= 0.0
    if tight and len(norms) == 1:
        assert setting.epsilon_upper == pytest.approx(epsilon, rel=1e-12)
        assert setting.noise_epsilon >= epsilon / 2.0


def test_the_printed_formulas():
    setting = calibrate_perturbation(1.0, 100, [0.05])
    assert setting.noise_epsilon == pytest.approx(1.0 - math.log(1.0 + 1 / 10.0 + 1 / 400.0))
    short = calibrate_perturbation(0.1, 100, [0.01])
    assert short.noise_epsilon == 0.05
    assert short.extra_l2[0] == pytest.approx(1.0 / (400.0 * (math.exp(0.025) - 1.0)) - 0.01)
    bound = short.privacy()
    assert (bound.adjacency, bound.delta) == ("example", 0.0)


def test_the_printed_source_of_transfer_costs_k_epsilon():
    one = calibrate_perturbation(1.0, 10**6, [0.1])
    printed = ObjectivePerturbation(10**6, (1.0,) * 5, (0.1,) * 5, one.noise_epsilon, (0.0,) * 5)
    assert printed.epsilon_upper == pytest.approx(5.0, rel=1e-4)
    corrected = calibrate_perturbation(1.0, 10**6, [0.1 / 25] * 5, [0.2] * 5)
    assert corrected.epsilon_upper <= 1.0


def test_the_density_is_that_of_the_released_weights():
    """Kolmogorov-Smirnov at 1e-9, by quadrature of the density; without the determinant it fails."""
    rng = np.random.default_rng(1)
    rows = np.array([[1.0], [0.8], [-0.3]])
    setting = calibrate_perturbation(1.0, 3, [0.05], tight=True)
    objective = PerturbedObjective(rows, setting.l2[0], setting.extra_l2[0], np.zeros(1))
    drawn = np.array([objective.minimise(noise)[0] for noise in draw_noise(1, setting.noise_scale, rng, 2500)])
    grid = np.linspace(-90.0, 90.0, 40_001)

    def distribution(values):
        density = np.exp(values) / (2.0 * setting.noise_scale)
        steps = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)]) * (grid[1] - grid[0])
        return steps

    exact = distribution(log_density(grid[:, None], rows, setting))
    assert exact[-1] == pytest.approx(1.0, abs=1e-3)
    assert kstest(drawn, lambda w: np.interp(w, grid, exact)).pvalue > 1e-9
    n_penalty = 3 * (setting.l2[0] + setting.extra_l2[0])
    flat = distribution(-np.abs((1 / (1 + np.exp(grid[:, None] @ rows.T))) @ rows[:, 0] - n_penalty * grid)
                        / setting.noise_scale + math.log(n_penalty))  # fmt: skip
    assert kstest(drawn, lambda w: np.interp(w, grid, flat)).pvalue < 1e-9


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("prior_norm", [0.0, 30.0])
@pytest.mark.parametrize(("num_rows", "l2", "epsilon"), [(1, 2.0, 1.0), (3, 0.3, 1.0), (2, 0.02, 0.5), (4, 5.0, 3.0)])
def test_no_density_ratio_exceeds_the_bound(num_rows, l2, epsilon, dimension, prior_norm):
    setting = calibrate_perturbation(epsilon, num_rows, [l2], tight=True)
    found = largest_ratio(setting, np.random.default_rng(7), dimension, prior_norm=prior_norm, tries=60)
    assert 0.25 * epsilon < found <= setting.epsilon_upper + 1e-9


def test_planted_mistakes_exceed_the_bound():
    rng = np.random.default_rng(3)
    setting = calibrate_perturbation(1.0, 2, [5.0], tight=True)
    assert largest_ratio(setting, rng, 2, row_norm=4.0, prior_norm=30.0, tries=60) > 1.5  # not clipped
    half = ObjectivePerturbation(2, (1.0,), (5.0,), 2.0 * setting.noise_epsilon, (0.0,))  # half the noise
    assert largest_ratio(half, rng, 2, prior_norm=30.0, tries=60) > 1.5
    free = ObjectivePerturbation(1, (1.0,), (0.02,), 1.0, (0.0,))  # the determinant forgotten
    assert largest_ratio(free, rng, 1, tries=60) > 1.5


def test_the_bound_is_attained_by_a_long_prior():
    """Rows at obtuse angles to u: the weights are u - (b - z)/(nλ), and z moves by 2."""
    setting = calibrate_perturbation(1.0, 1, [100.0], tight=True)
    prior, lean = np.array([1e6, 0.0]), 1e-3
    ahead, behind = (np.array([[-lean, sign * math.sqrt(1.0 - lean**2)]]) for sign in (1.0, -1.0))
    weights = prior + np.array([[0.0, 1.0]])
    ratio = log_density(weights, ahead, setting, prior) - log_density(weights, behind, setting, prior)
    assert float(ratio[0]) == pytest.approx(setting.noise_epsilon, rel=1e-5)


def test_without_a_prior_most_of_the_bound_is_attained():
    """A search over two neighbours' rows, one row that all others share, and the weights, in two dimensions."""
    setting, turn = calibrate_perturbation(1.0, 1000, [0.005], tight=True), np.random.default_rng(0)

    def ratio(p):
        rows = 1.0 / (1.0 + np.exp(-p[5:, None])) * np.stack([np.cos(p[2:5]), np.sin(p[2:5])], axis=1)
        worlds = [np.vstack([rows[[k]], np.repeat(rows[[2]], 999, axis=0)]) for k in (0, 1)]
        return float(np.subtract(*(log_density(p[None, :2], world, setting) for world in worlds))[0])

    starts = [np.concatenate([10.0 * turn.normal(size=2), turn.uniform(0.0, 6.3, 3), [3.0] * 3]) for _ in range(3)]
    found = [minimize(lambda p: -ratio(p), x, method="Nelder-Mead", options={"maxfev": 1200}) for x in starts]
    assert ATTAINED < max(-one.fun for one in found) <= setting.epsilon_upper


def test_in_one_dimension_the_noise_covers_twice_what_moves():
    """z σ(-wz) - z' σ(-wz') is at most 1.06 for |z|, |z'| <= 1; in two dimensions it comes near 2."""
    w, z = np.meshgrid(np.linspace(0.0, 40.0, 4001), np.linspace(-1.0, 1.0, 401), indexing="ij")
    pull = z / (1.0 + np.exp(w * z))
    assert 1.0 < float(np.ptp(pull, axis=1).max()) < 1.06


def test_neighbours_in_the_tails_of_one_dimension():
    """The probability of w > t, by quadrature of the noise, has a log-ratio of ε'/2 between rows 1 and -1."""
    setting = calibrate_perturbation(1.0, 1, [5.0], tight=True)
    laplace = lambda b: math.exp(-abs(b) / setting.noise_scale) / (2.0 * setting.noise_scale)  # noqa: E731
    ends = [
        PerturbedObjective(np.array([[z]]), 5.0, 0.0, np.zeros(1)).gradient(np.array([1.0]), np.zeros(1))[0]
        for z in (1.0, -1.0)
    ]
    chances = [quad(laplace, -200.0, -end)[0] for end in ends]
    assert math.log(chances[0] / chances[1]) == pytest.approx(setting.noise_epsilon / 2.0, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((0.0, 10, [1.0]), "epsilon = 0.0: must be above 0"),
        ((math.nan, 10, [1.0]), "epsilon = nan"),
        ((1.0, 0, [1.0]), "num_rows = 0"),
        ((1.0, 10, [0.0]), "l2 = \\[0.0\\]"),
        ((1.0, 10, [1.0, 1.0], [0.5, 0.6]), "must sum to 1"),
        ((1.0, 10, [1.0], [0.5, 0.5]), "a value for each of the 2 groups"),
        ((1.0, 10, [1.0, 1.0], [1.0, 0.0]), "importance"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(arguments, line):
    with pytest.raises(ValueError, match=line) as caught:
        calibrate_perturbation(*arguments)
    assert "\n" not in str(caught.value)
