"""Rules of Private Bayes consistency from a scenario: what they release, what they state, what they never refuse."""

import math

import numpy as np
import pytest

from p2p_sim import Scenario, run
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.histograms.classifiers import PCL, PCL2
from p2p_sim.histograms.partitions import Cubes
from p2p_sim.measures.exact_laws import StepLaw
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.private_histogram import PrivateHistogramConfig
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.population import Population
from p2p_sim.privacy.rivals.histograms import NoisyVotes
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

RULES = ("pcl", "pcl2", "pcl2b", "semi_supervised")


def scenario(rule: str = "pcl", users: int = 2_000, **more: object) -> Scenario:
    tree = {
        "name": "rule",
        "population": {"kind": "unit_cube", "users": users},
        "mechanism": {"kind": "private_histogram", "rule": rule, **more},
        "learner": {"kind": "histogram"},
    }
    return Scenario.from_tree(tree)


@pytest.mark.parametrize("rule", RULES)
def test_a_row_has_what_the_rule_states(rule):
    row = run(scenario(rule)).row
    assert (row["adjacency"], row["trust"], row["submissions"]) == ("example", "curator", None)
    assert row["epsilon_upper"] <= 1.0
    assert row["error_rate"] >= row["bayes_error_rate"] > 0.24
    assert row["excess_risk"] == pytest.approx(row["error_rate"] - row["bayes_error_rate"])


def test_the_rule_of_a_scenario_is_the_estimator():
    case = Replicate(scenario(users=500))
    ready = prepare(case)
    rule = ready.mechanism.run(ready.population, NetworkConfig(), case.streams).release.predictor
    own = PCL(1.0, None, case.streams.integer_seed("private-histogram"))
    own.fit(ready.population.features, ready.population.labels)
    grid = np.linspace(0.0, 1.0, 101)[:, None]
    assert np.array_equal(rule.probabilities(grid), own.predict_proba(grid))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "labels", [np.zeros(40, dtype=np.uint8), np.ones(40, dtype=np.uint8), np.arange(40, dtype=np.uint8) % 2]
)
@pytest.mark.parametrize("where", [0.5, -7.0, 1e9])
def test_no_rows_are_refused(rule, labels, where):
    """One class, one place, and far outside: with whole rows private, a refusal would tell something of them."""
    points = np.full((40, 1), where)
    mechanism = PrivateHistogramConfig(rule=rule).deployed(Setup(np.array([40]), 2, 1e-5))
    people = Population(points, labels, np.array([0, 40]), 2)
    released = mechanism.run(people, NetworkConfig(), Streams(1, 0)).release
    said = released.predictor.probabilities(np.array([[0.1], [where]]))
    assert said.shape == (2, 2)
    assert np.allclose(said.sum(axis=1), 1.0)


@pytest.mark.parametrize("rule", RULES)
def test_no_row_is_refused_where_scaling_overflows(rule):
    mechanism = PrivateHistogramConfig(rule=rule, high=1e-200).deployed(Setup(np.array([40]), 2, 1e-5))
    people = Population(np.full((40, 1), 1e150), np.zeros(40, dtype=np.uint8), np.array([0, 40]), 2)
    said = mechanism.run(people, NetworkConfig(), Streams(1, 0)).release.predictor.probabilities(
        np.array([[0.1], [1e150]])
    )
    assert np.allclose(said.sum(axis=1), 1.0)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_runs_on_the_synthetic_law(rule):
    chosen = scenario(rule, low=-3.0, high=3.0).replace(population={"kind": "synthetic", "users": 2_000})
    if rule == "semi_supervised":  # the law has three features, whoever the users are
        with pytest.raises(InputError, match="needs one or two features, not 3"):
            run(chosen)
        return
    row = run(chosen).row
    assert row["epsilon_upper"] <= 1.0
    assert row["error_rate"] >= row["bayes_error_rate"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("features", [["age"], ["age", "weight"]])
def test_every_rule_runs_on_a_table(tmp_path, rule, features):
    rng = np.random.default_rng(1)
    age, weight = rng.integers(20, 80, 900), rng.normal(70.0, 10.0, 900).round(1)
    ill = (rng.random(900) < np.where(age > 50, 0.9, 0.1)).astype(int)
    lines = [f"{a},{w},{i}" for a, w, i in zip(age, weight, ill, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,weight,ill", *lines]) + "\n")
    table = {"kind": "table", "path": str(tmp_path / "rows.csv"), "label": "ill", "classes": [0, 1]}
    chosen = scenario(rule, low=0.0, high=100.0, target_epsilon=20.0)
    chosen = chosen.replace(population={**table, "features": features}, clusters={"kind": "random", "count": 1})
    row = run(chosen).row
    assert (row["population"], row["adjacency"]) == ("table", "example")
    assert row["epsilon_upper"] <= 20.0
    if (rule, len(features)) in (("pcl", 1), ("pcl2", 1), ("pcl2b", 1)):
        assert row["error_rate"] < 0.4 < row["majority_error_rate"]


def test_public_constants_move_features_to_the_unit_cube():
    mechanism = PrivateHistogramConfig(low=-10.0, high=30.0, side=0.25).deployed(Setup(np.array([400]), 2, 1e-5))
    x = np.random.default_rng(1).uniform(-10.0, 30.0, (400, 1))
    people = Population(x, (x[:, 0] > 10.0).astype(np.uint8), np.array([0, 400]), 2)
    said = mechanism.run(people, NetworkConfig(), Streams(1, 0)).release.predictor.probabilities(
        np.array([[0.0], [20.0]])
    )
    assert said.argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("radius", [0.1, 0.27, 0.3, 0.4, 0.7, 0.99, 3.0])
def test_the_middle_packing_is_a_maximal_packing(radius):
    """Centres lie in the space, r apart, every point is nearer than r to one, and cells are the nearest centres'."""
    cubes = PCL2(radius=radius, centred=True)._partition(np.zeros((10, 1)))
    assert isinstance(cubes, Cubes)
    centres = radius * (np.arange(cubes.per_axis) + 0.5)
    centres = np.minimum(centres, 1.0)  # one cell alone
    points = np.linspace(0.0, 1.0, 1001)[:, None]
    distance = np.abs(points - centres)
    assert (distance.min(axis=1) < radius).all()
    cell = cubes.cells(points)[:, 0]
    assert np.allclose(distance[np.arange(1001), cell], distance.min(axis=1))


def test_two_packings_are_two_rules():
    rows = [run(scenario("pcl2", packing=packing)).row["error_rate"] for packing in ("corner", "middle")]
    assert rows[0] != rows[1]


def test_statements_at_other_deltas_claim_no_more():
    """Of counts nothing is known below the δ that they were made for."""
    for rule, least in (("pcl", 0.0), ("pcl2b", 1e-5), ("semi_supervised", 1e-5)):
        mechanism = PrivateHistogramConfig(rule=rule).deployed(Setup(np.array([400]), 2, 1e-5))
        for delta in (1e-8, 1e-5, 1e-2):
            [bound] = mechanism.privacy(np.array([400]), delta)
            assert bound.adjacency == "example"
            assert math.isinf(bound.epsilon_upper) == (delta < least)


def test_an_example_costs_votes_what_a_label_costs():
    assert NoisyVotes(1.0, "example").delta(0.3) == NoisyVotes(1.0).delta(0.3)
    bound = NoisyVotes(1.0, "example").epsilon(1e-5)
    assert "replaced-example" in bound.condition_ids
    assert "replaced-example" not in NoisyVotes(1.0).epsilon(1e-5).condition_ids


def test_a_step_has_its_integrals():
    x = np.linspace(0.0, 1.0, 201)
    above, below = StepLaw().parts(x)
    fine = np.linspace(0.0, 1.0, 200_001)
    value = StepLaw().value(0.5 * (fine[1:] + fine[:-1])) / 200_000
    assert above[-1] == pytest.approx(np.maximum(value, 0.0).sum())
    assert below[-1] == pytest.approx(np.maximum(-value, 0.0).sum())
    assert above[50] == 0.0
    assert below[50] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": {"kind": "kmeans", "count": 3}}, "clusters.kind = 'kmeans': looks at features"),
        ({"population.cells": True}, "population.cells: looks at all rows"),
        ({"mechanism.packing": "middle"}, "packing: pcl has no packing"),
        ({"mechanism.target_epsilon": 0.0}, "mechanism.target_epsilon = 0"),
        ({"mechanism.labelled": 5}, "labelled: pcl uses the labels of all users"),
        ({"mechanism.rule": "semi_supervised", "mechanism.side": 0.1}, "side: semi_supervised has the side"),
        ({"mechanism.low": 1.0}, "low = 1: must be below high = 1"),
        ({"mechanism.low": 2.0}, "low = 2: must be below high = 1"),
        ({"population.dimensions": 2, "population.per_axis": 5_000}, "per_axis = 5000"),
        ({"population": {"kind": "circle"}}, "looks at all rows"),
    ],
)
def test_bad_keys_get_one_line(change, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")) as caught:
        scenario().replace(**change)
    assert "\n" not in str(caught.value)


def test_what_only_the_users_show_is_refused_when_it_runs():
    with pytest.raises(InputError, match="labelled = 1999: must leave 2 of 2000 users"):
        run(scenario("semi_supervised", labelled=1_999))
    with pytest.raises(InputError, match="needs one or two features, not 3"):
        run(scenario("semi_supervised").replace(**{"population.dimensions": 3}))


def test_the_histogram_learner_is_the_rule_without_noise():
    """Against the estimator without privacy, on the same rows."""
    from p2p_sim.histograms.classifiers import HistogramClassifier
    from p2p_sim.learning.histogram import HistogramConfig

    rng = np.random.default_rng(3)
    x, y = rng.random((3_000, 2)), rng.integers(0, 2, 3_000).astype(np.uint8)
    ours, theirs = HistogramConfig().fit(x, np.eye(2)[y]), HistogramClassifier().fit(x, y)
    grid = rng.random((5_000, 2))
    assert np.array_equal(ours.probabilities(grid).argmax(axis=1), theirs.predict(grid))
