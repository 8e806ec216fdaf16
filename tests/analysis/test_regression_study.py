"""The study of regression labels at reduced size, and the parts it is made of."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from analysis.regression import __main__ as regression
from analysis.regression.methods import (
    BINS,
    DEBIASED,
    DIABETES_RANGE,
    EXCHANGED,
    GRID,
    KNOWING,
    METHODS,
    PAID,
    UNBIASED,
    Diabetes,
    LabelLaw,
    Released,
    learned,
    release,
    ridge,
    risk,
    without_privacy,
)
from p2p_sim.base.streams import Streams
from p2p_sim.exchange.engines import Exchange
from p2p_sim.mechanisms.label_values import RrOnBins, UnbiasedValues
from p2p_sim.network.network_config import Network, NetworkConfig


@pytest.mark.slow
def test_the_study_of_regression_labels(frame):
    *tables, figure = regression.main(frame)
    assert figure.stat().st_size > 20_000
    losses, table, differences = (pd.read_csv(path) for path in tables)
    asked = table[~table["method"].isin([regression.NONPRIVATE, regression.CONSTANT])]
    assert (asked["epsilon_upper"] <= asked["epsilon"] * (1 + 1e-9)).all()
    sent = asked[asked["method"].str.startswith(EXCHANGED)]
    assert (sent["epsilon_local"] > sent["epsilon_upper"]).all()
    wide = losses.pivot(index=["prior", "epsilon"], columns="randomizer", values="error")
    others = wide.drop(columns=[BINS])
    assert (wide[BINS] <= others.min(axis=1) * (1 + 1e-9)).all()
    unbiased = wide[["two outputs, unbiased", "Laplace noise", "k-ary response, debiased"]].min(axis=1)
    assert (wide["unbiased"] <= unbiased * (1 + 1e-6)).all()
    assert set(differences["panel"]) == {"law", "heterogeneity", "diabetes"}
    assert {"rows.parquet", "manifest.json"} <= {path.name for path in frame.out.iterdir()}


# -- the law and the data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.0, 0.1, 0.2])
def test_heterogeneity_and_residual_are_exact(h):
    law = LabelLaw(h)
    within = law.mean.reshape(-1, 4)
    assert float(np.mean(within.var(axis=1))) == pytest.approx(h**2)
    assert law.mean.min() > 0.0
    assert law.mean.max() < 1.0
    table, values = binom.pmf(np.arange(GRID), GRID - 1, law.mean[:, None]), np.linspace(0.0, 1.0, GRID)
    assert np.allclose(table.sum(axis=1), 1.0)
    assert np.allclose(table @ values, law.mean)
    assert float(np.mean(table @ values**2 - (table @ values) ** 2)) == pytest.approx(law.residual)


def test_drawn_labels_follow_the_law():
    """Means over 50 draws of 10,000 users: within six standard errors (2e-9); h = 0.15 would be 100 away."""
    law = LabelLaw(0.1)
    expected = law.residual + law.heterogeneity**2
    found = [law.draw(Streams(3, replicate)).label_variance * 200 / 199 for replicate in range(50)]
    error = np.std(found, ddof=1) / math.sqrt(50)
    assert abs(np.mean(found) - expected) < 6 * error
    assert abs(np.mean(found) - law.residual - 0.15**2) > 60 * error


def test_diabetes_is_binned_in_its_public_range_and_clustered_by_features():
    people = Diabetes().draw(Streams(1, 0))
    assert people.population.num_users + len(people.target) == 442
    assert people.population.cluster_sizes.min() >= 40
    assert DIABETES_RANGE[0] <= people.target.min()
    assert people.target.max() <= DIABETES_RANGE[1]
    assert people.population.labels.max() < GRID
    again = Diabetes().draw(Streams(1, 0))
    assert np.array_equal(again.population.features, people.population.features)
    assert not np.array_equal(Diabetes().draw(Streams(1, 1)).target, people.target)


# -- learners --------------------------------------------------------------------------------------------------------


def test_ridge_recovers_a_line_and_the_penalty_follows_the_noise():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 3)) * np.array([1.0, 5.0, 0.1])
    y = 0.5 + X @ np.array([0.1, -0.02, 1.0])
    spread = X.std(axis=0)
    found = ridge(X, y, 0.0, 1.0, spread)(np.eye(3))
    assert found == pytest.approx(0.5 + np.array([0.1, -0.02, 1.0]), abs=0.01)
    shrunk = ridge(X, y, 1e6, 1.0, spread)(X)
    assert np.std(shrunk) < 1e-3 * np.std(y)


def test_cluster_means_recover_what_own_features_lose():
    """Without noise: every user has her cluster's mean label. Half of h² lies along t, where clusters differ."""
    law = LabelLaw(0.15)
    people = law.draw(Streams(5, 0))
    truth = people.values[people.population.labels]
    means = np.bincount(people.cluster, weights=truth) / 200
    told = Released(np.arange(len(truth)), means[people.cluster], 0.0, math.inf, math.inf)
    own = risk(learned(EXCHANGED + UNBIASED, people, told), people)
    knowing = risk(learned(EXCHANGED + UNBIASED + KNOWING, people, told), people)
    floor = regression.floor_of(law)
    assert own == pytest.approx(floor, rel=0.25)
    assert floor > law.heterogeneity**2 / 2
    assert knowing < 0.5 * own
    assert risk(without_privacy(people), people) < 0.01 * floor


def test_the_floor_is_zero_without_heterogeneity():
    assert regression.floor_of(LabelLaw(0.0)) == pytest.approx(0.0, abs=1e-20)


SLOW = ("exchanged RR-on-Bins", "exchanged unbiased", "exchanged unbiased, cluster means")


@pytest.mark.parametrize("method", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in METHODS])
def test_every_method_releases_within_its_epsilon(method):
    people = LabelLaw(0.1, clusters=5).draw(Streams(2, 0))
    found = release(method, people, 1.0, 1e-5, Streams(2, 0))
    assert found.epsilon <= 1.0
    assert np.all(np.isfinite(found.value))
    exchanged = method.startswith(EXCHANGED)
    assert (found.epsilon_local > 1.0) == exchanged
    payers = people.population.num_users - len(found.user)
    assert (payers > 0) == method.endswith(PAID)
    if method in (DEBIASED, UNBIASED):
        spread = math.sqrt(found.noise / len(found.value)) + 0.3 / math.sqrt(len(found.value))
        truth = people.values[people.population.labels].mean()
        assert abs(found.value.mean() - truth) < 6.5 * spread + (0.05 if method == DEBIASED else 0.0)


@pytest.mark.parametrize("noise", [RrOnBins(2.0, tuple(np.linspace(0, 1, GRID).tolist())),
                                   UnbiasedValues(2.0, tuple(np.linspace(0, 1, GRID).tolist()))])  # fmt: skip
def test_both_engines_carry_the_payloads_of_the_cluster(noise):
    """What is submitted in a cluster was answered there, under both engines, and by the same noise."""
    people = LabelLaw(0.1, clusters=4, size=30).draw(Streams(4, 0))
    told = noise.randomize(people.population.labels, Streams(4, 0).generator("flip", 0))
    for engine in ("events", "vectorised"):
        opened = Network.open(NetworkConfig(), people.population, Streams(4, 0))
        done = Exchange(noise, 1.0, engine).run(people.population, opened, False, None)
        assert len(done.user) == 120
        for cluster in range(4):
            mine = people.cluster[done.user] == cluster
            assert set(done.payload[mine].tolist()) <= set(told[people.cluster == cluster].tolist())
