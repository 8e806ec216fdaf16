"""The utility theorems term by term: the simulated laws against enumeration, the bounds against what is measured."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from analysis.excess_risk import (
    LARGE,
    Simulation,
    Term,
    all_terms,
    bias,
    classes_count,
    cost_excess,
    fitted,
    squared_excess,
)
from p2p_sim.measures.risk import heterogeneity
from p2p_sim.privacy.rivals.noisy_share import released_distribution

FALSE_ALARM = 1e-9
TINY = np.array([[[0.7, 0.3], [0.2, 0.8]]])
SINGLE = np.array([[[0.5, 0.3, 0.2]]])


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


def algorithm1_law(law: np.ndarray, size: int, lam: float, beta: float, tau: float) -> Counter:
    """Every data set and every resampling of one cluster, without noise: probability of each table."""
    _, points, classes = law.shape
    found: Counter = Counter()
    people = list(itertools.product(range(points), range(classes)))
    for data in itertools.product(people, repeat=size):
        chance = math.prod(law[0, x, y] / points for x, y in data)
        share = np.bincount([y for _, y in data], minlength=classes) / size
        q = released_distribution(share, np.zeros(classes), tau)
        mixed = [(1 - beta) * np.eye(classes)[y] + beta * q for y in range(classes)]
        inverse = np.linalg.inv(np.array(mixed).T)
        for labels in itertools.product(range(classes), repeat=size):
            kept = math.prod((1 - lam) * (y == new) + lam * q[new] for (_, y), new in zip(data, labels, strict=True))
            rows = [(x, inverse[:, new]) for (x, _), new in zip(data, labels, strict=True)]
            found[table(rows, points, classes)] += chance * kept
    return found


def exchange_law(law: np.ndarray, size: int, alpha: float, theta: float) -> Counter:
    """Every data set, flip, choice of a peer and subsample of one cluster: probability of each table."""
    _, points, classes = law.shape
    found: Counter = Counter()
    for xs, noisy in itertools.product(
        itertools.product(range(points), repeat=size), itertools.product(range(classes), repeat=size)
    ):
        flipped = [law[0, x] * (1 - alpha) for x in xs]
        flipped = [f + (1 - law[0, x]) * alpha / (classes - 1)
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


@pytest.mark.parametrize(("law", "size"), [(TINY, 3), (SINGLE, 3)])
@pytest.mark.parametrize("parameters", [(0.6, 0.3, 0.1), (0.4, 0.0, 0.0)], ids=str)
def test_algorithm1_by_counts_has_the_law_of_user_by_user(law, size, parameters):
    """Hoeffding for all tables: a change of .02 in the probability of one is seen; another λ is (control)."""
    lam, beta, tau = parameters
    exact = algorithm1_law(law, size, *parameters)
    assert sum(exact.values()) == pytest.approx(1.0)
    study = Simulation(60_000, 1, np.random.default_rng(1))
    sampled = shares(study.centralised(law, size, lam=lam, beta=beta, tau=tau))
    allowed = deviation(60_000, len(exact))
    assert largest_gap(sampled, exact) < allowed < 0.02
    assert largest_gap(sampled, algorithm1_law(law, size, 0.95, beta, tau)) > allowed


@pytest.mark.parametrize(("law", "size"), [(TINY, 3), (SINGLE, 3)])
def test_exchange_by_counts_has_the_law_of_user_by_user(law, size):
    """As above; the control is another α."""
    exact = exchange_law(law, size, 0.2, 0.7)
    assert sum(exact.values()) == pytest.approx(1.0)
    sampled = shares(Simulation(60_000, 1, np.random.default_rng(2)).exchanged(law, size, 0.2, 0.7))
    allowed = deviation(60_000, len(exact))
    assert largest_gap(sampled, exact) < allowed < 0.02
    assert largest_gap(sampled, exchange_law(law, size, 0.35, 0.7)) > allowed


def test_excess_by_hand():
    law, study = np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]]), Simulation(1, 1, np.random.default_rng(0))
    wrong = np.array([[[[0.2, 0.5, 0.3], [0.0, 0.0, 1.0]]]])
    assert study.named_excess(law, wrong) == pytest.approx([0.2 / 2])
    assert study.named_excess(law, wrong, named=2) == pytest.approx([(0.8 - 0.5) / 2])
    assert squared_excess(law, wrong) == pytest.approx([(0.09 + 0.04 + 0.01 + 0.01 + 0.01 + 0.04) / 2])
    binary = np.array([[[0.9, 0.1], [0.6, 0.4]]])
    assert cost_excess(binary, np.array([[[[0.7, 0.3], [0.7, 0.3]]]]), 0.25) == pytest.approx([0.15 / 2])


def term(shape: np.ndarray, risks: np.ndarray) -> Term:
    return Term("x", "", shape, shape, powers={"series": 1}, risks=risks[:, None])


def test_a_constant_and_its_interval():
    """Exact on exact data; 300 intervals for a known constant miss at most 14% (95% nominal; 7 standard errors)."""
    shape = np.array([1.0, 2.0, 4.0])
    [*_, misfit] = fitted([term(shape**2, np.outer(shape, np.ones(3)))], np.random.default_rng(0))["misfit"]
    assert misfit > 0.3
    rng = np.random.default_rng(1)
    terms = [term(shape, 3.0 * shape[:, None] * (1.0 + 0.1 * rng.normal(size=(3, 30)))) for _ in range(300)]
    fits = fitted(terms, rng)
    assert ((fits["constant_low"] <= 3.0) & (fits["constant_high"] >= 3.0)).mean() > 0.86


def test_what_is_left_at_large_n_is_below_the_bound_without_k():
    """|κ| (φ + 2Kτ + 2√2 Kσ/s), at 30 random laws and settings, K to 5. Hoeffding at 1e-9 over all excesses, at most 1.

    Clusters are so large that only the noise on their shares is left. The control is a tenth of the bound, which the
    study's own worst laws break.
    """
    study = Simulation(10_000, 1, np.random.default_rng(3))
    rng, slack = study.rng, math.sqrt(math.log(30 * 4 / FALSE_ALARM) / (2 * study.replicates))
    assert slack < 0.04
    for _ in range(30):
        classes = int(rng.integers(2, 6))
        law = rng.dirichlet(np.full(classes, 0.5 + 3.0 * rng.random()), size=(1, 4))
        lam, beta, tau, noise = (
            rng.random(),
            0.9 * rng.random(),
            0.3 * rng.random() / classes,
            10 ** rng.uniform(-4, -1),
        )
        phi = heterogeneity(np.full(4, 0.25), law[0], np.zeros(4, dtype=int))
        bound = abs((lam - beta) / (1.0 - beta)) * (phi + 2 * classes * (tau + math.sqrt(2.0) * noise))
        estimate = study.centralised(law, LARGE, lam=lam, beta=beta, share_noise=noise, tau=tau)
        for named in range(1, classes):
            assert study.named_excess(law, estimate, named).mean() - slack <= bound
    worst = bias(Simulation(3, 4, rng), np.array([0.1 / 0.3])).series
    bound = 0.375 * 0.5 * 0.1 / 0.3
    for label in ("0-1 loss, β < λ", "0-1 loss, β > λ"):
        assert 0.1 * bound < worst[label].min() <= worst[label].max() <= bound


def test_noise_on_the_shares_has_the_scale_of_the_mechanism():
    """K = 2, λ = 1: the error is (z₁ - z₂)/2 in each share, squared 2(σ/s)² in all; 6.2 standard errors."""
    scale, law = 0.001, np.full((50, 1, 2), 0.5)
    estimate = Simulation(400, 50, np.random.default_rng(6)).centralised(law, LARGE, share_noise=scale)
    risk = squared_excess(law, estimate)
    error = 6.2 * risk.std(ddof=1) / math.sqrt(risk.size)
    assert abs(risk.mean() - 2.0 * scale**2) < error + 0.01 * scale**2 < 0.5 * scale**2


def test_terms_have_the_slopes_of_the_bounds_and_constants_known_in_closed_form():
    """Slopes and constants within 8 of their standard errors plus the shape's own deviation."""
    study = Simulation(20, 20, np.random.default_rng(4))
    fits = fitted(all_terms(study, 4), study.rng).set_index("term")
    assert set(fits.index) == {"n", "θ", "φ", "α", "1/(1-β)", "|κ|", "σ/s", "K", "τ"}
    for name, slope in {"n": -0.5, "θ": -0.5, "φ": 1.0, "1/(1-β)": 1.0, "|κ|": 1.0, "τ": 1.0}.items():
        for line, power in zip(fits.loc[name].dropna().to_dict("records"), itertools.cycle((1, 2)), strict=False):
            assert abs(line["slope"] - power * slope) < 0.05 + 4 * (line["slope_high"] - line["slope_low"]), line
    first = fits.groupby(level=0).first()["constant"]
    assert first["φ"] == pytest.approx(0.5, rel=0.05)
    assert first["|κ|"] == pytest.approx(0.45, rel=1e-6)
    assert first["τ"] == pytest.approx(0.45, rel=1e-6)
    assert first["1/(1-β)"] == pytest.approx(0.170, rel=0.1)  # max of m Pr[N > m]
    assert fits.loc["φ"].iloc[1]["misfit"] < 1e-3


def test_k_shows_where_a_loss_adds_labels_up_and_not_where_it_takes_one():
    study = Simulation(40, 20, np.random.default_rng(5))
    half, single, squared, clean = fitted([classes_count(study, np.array([4, 16, 64]))], study.rng)["slope"]
    assert abs(half - 1.0) < 0.15
    assert single < 0.6
    assert abs(squared - 1.0) < 0.2
    assert abs(clean) < 0.1
