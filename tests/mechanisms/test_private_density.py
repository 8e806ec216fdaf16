"""Densities from a scenario: their population, what a curator releases, what a row says, what is never refused."""

import math

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim import Scenario, run
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.histograms.densities import PCDE, HistogramDensity
from p2p_sim.histograms.partitions import Cubes, cube_side
from p2p_sim.measures.exact_laws import LINE_LAWS, half_l1
from p2p_sim.measures.point_means import points, quality
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.outcome import DensityRelease
from p2p_sim.mechanisms.private_histogram import PrivateDensityConfig
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.build import build_population
from p2p_sim.population.clustering import GivenClusters
from p2p_sim.population.drawn_features import RealLineConfig, UnitCubeConfig
from p2p_sim.population.population import Population
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.tuning.goal import Goal
from tests.commands import command

LAWS = tuple(LINE_LAWS)
METHODS = ("histogram", "pcde")


def scenario(users: int = 5_000, law: str = "normal", **more: object) -> Scenario:
    tree = {
        "name": "density",
        "population": {"kind": "real_line", "users": users, "law": law},
        "mechanism": {"kind": "private_density", **more},
    }
    return Scenario.from_tree(tree)


@pytest.mark.parametrize("law", LAWS)
def test_users_on_the_line_follow_the_law_and_their_labels_halve_it(law):
    people = build_population(RealLineConfig(law=law, users=20_000), GivenClusters(), (), Streams(1, 0))
    x = np.sort(people.features[:, 0])
    assert np.max(np.abs(LINE_LAWS[law].cdf(x) - np.arange(20_000) / 2e4)) < 0.02  # Kolmogorov: 1e-6 of chance
    assert people.line_law is LINE_LAWS[law]
    assert people.features[people.labels == 0].max() < people.features[people.labels == 1].min()
    assert abs(people.labels.mean() - 0.5) < 0.02
    assert people.holdout is not None


def test_every_key_of_the_line_is_harmless_to_private_rows():
    assert RealLineConfig.row_by_row == set(RealLineConfig.model_fields) - {"kind"}


def test_cells_may_begin_anywhere():
    """The same cells, named from another origin."""
    cells, heights = np.array([-2, 0, 1, 5]), np.array([0.1, 0.4, 0.3, 0.2])
    for law in LINE_LAWS.values():
        moved = half_l1(law, cells + 4, 0.25, heights, origin=-1.0)
        assert moved == pytest.approx(half_l1(law, cells, 0.25, heights), rel=1e-14)
        assert moved != pytest.approx(half_l1(law, cells + 4, 0.25, heights), rel=1e-3)  # planted


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("normalise", [True, False])
def test_a_row_has_the_distances_of_the_estimators(law, normalise):
    case = Replicate(scenario(law=law, normalise=normalise, target_epsilon=5.0))
    done, people = run(case.scenario), prepare(case).population
    own = PCDE(5.0, 1e-5, normalise, None, case.streams.integer_seed("private-density")).fit(people.features)
    plain = HistogramDensity().fit(people.features)
    known = LINE_LAWS[law]
    for column, model in (("half_l1", own), ("nonprivate_half_l1", plain)):
        found = half_l1(known, model.coordinates_.ravel(), model.cubes_.side, model.heights_)
        assert done.row[column] == pytest.approx(found, rel=1e-12)
    assert (done.row["cells"], done.row["nonprivate_cells"]) == (len(own.masses_), len(plain.masses_))
    assert (done.row["count_error"], done.row["error_rate"], done.row["learner"]) == (None, None, None)
    assert "half-L1" in repr(done)


def test_a_histogram_releases_its_counts():
    done = run(scenario(method="histogram"))
    release = done.release
    assert isinstance(release, DensityRelease)
    assert release.counts is not None
    assert release.counts.min() >= done.row["threshold"] == pytest.approx(2.0 * math.log(2e5) + 1.0)
    assert np.allclose(release.masses * 5_000, release.counts)
    assert done.row["count_error"] > 0.0
    raw = run(scenario(normalise=False)).row
    assert raw["half_l1"] == done.row["half_l1"]  # the same density


@pytest.mark.parametrize("method", METHODS)
def test_a_row_has_what_the_density_states(method):
    row = run(scenario(method=method)).row
    assert (row["adjacency"], row["trust"], row["submissions"]) == ("example", "curator", None)
    assert 0.999 < row["epsilon_lower"] <= row["epsilon_upper"] == 1.0
    few = run(scenario(users=40, method=method)).row
    assert few["epsilon_lower"] == 0.0  # no two cells can pass


def test_statements_at_other_deltas_claim_no_more():
    mechanism = PrivateDensityConfig().deployed(Setup(np.array([4_000]), 2, 1e-5))
    for delta, lower, upper in ((1e-8, 0.999, math.inf), (1e-5, 0.999, 1.0), (1e-2, 0.0, 1.0)):
        [bound] = mechanism.privacy(np.array([4_000]), delta)
        assert lower <= bound.epsilon_lower <= bound.epsilon_upper == upper
        assert (bound.epsilon_lower > 0.0) == (lower > 0.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("where", [0.0, -7.0, 1e9, 1e150])
@pytest.mark.parametrize("dimensions", [1, 3])
def test_no_rows_are_refused(method, where, dimensions):
    """One place, far outside, too few, several features: with whole rows private, a refusal would tell of them."""
    labels = np.zeros(40, dtype=np.uint8)
    for high in (1.0, 1e-200):
        mechanism = PrivateDensityConfig(method=method, high=high).deployed(Setup(np.array([40]), 2, 1e-5))
        people = Population(np.full((40, dimensions), where), labels, np.array([0, 40]), 2)
        released = mechanism.run(people, NetworkConfig(), Streams(1, 0)).release
        assert released.coordinates.shape == (len(released.masses), dimensions)
        spread = Population(where + np.arange(40.0)[:, None] * np.ones(dimensions), labels, np.array([0, 40]), 2)
        nothing = mechanism.run(spread, NetworkConfig(), Streams(1, 0)).release
        if high == 1.0 and where < 1e9:
            assert len(nothing.masses) == 0
            assert nothing.coordinates.shape == (0, dimensions)


def test_public_constants_move_cells():
    """Cells of the same width that begin at the same places are the same cells."""
    one = run(scenario(side=0.25, low=-1.0, high=0.0)).row
    two = run(scenario(side=1.0 / 8.0, low=-1.0, high=1.0)).row
    three = run(scenario(side=0.25, low=-0.9, high=0.1)).row
    assert one["half_l1"] == pytest.approx(two["half_l1"], rel=1e-12)
    assert one["half_l1"] != pytest.approx(three["half_l1"], rel=1e-3)


def test_where_no_cell_passes_half_l1_is_a_half():
    row = run(scenario(users=100)).row
    assert (row["half_l1"], row["cells"]) == (pytest.approx(0.5), 0.0)


def test_elsewhere_cells_are_counted_alone():
    """Of a population whose features have no known density, of any number of features."""
    chosen = scenario().replace(population={"kind": "unit_cube", "users": 2_000, "dimensions": 2})
    row = run(chosen).row
    assert (row["half_l1"], row["nonprivate_half_l1"]) == (None, None)
    assert row["nonprivate_cells"] >= row["cells"]
    table = points(pd.DataFrame([row]))
    assert quality(table) == "cells"
    assert quality(points(pd.DataFrame([run(scenario()).row]))) == "half_l1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": {"kind": "kmeans", "count": 3}}, "clusters.kind = 'kmeans': looks at features"),
        ({"learner": {"kind": "histogram"}}, "learner.kind = 'histogram': nothing is learned from a density"),
        ({"groups": ["class"]}, "groups: mechanism.kind = 'private_density' predicts no labels"),
        ({"mechanism.target_epsilon": 0.0}, "mechanism.target_epsilon = 0"),
        ({"mechanism.low": 2.0}, "low = 2: must be below high = 1"),
        ({"mechanism.side": 0.0}, "mechanism.side = 0"),
        ({"mechanism.method": "histogram", "mechanism.normalise": True}, "normalise: 'histogram' releases counts"),
        ({"mechanism.method": "kernel"}, 'mechanism.method = "kernel": should be'),
        ({"population": {"kind": "circle"}}, "looks at all rows"),
        ({"population.law": "uniform"}, 'population.law = "uniform": should be'),
        ({"network.loss": 0.1}, "no messages of it are simulated; leave out network.loss"),
    ],
)
def test_bad_keys_get_one_line(change, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")) as caught:
        scenario().replace(**change)
    assert "\n" not in str(caught.value)


def test_what_needs_labels_says_that_there_are_none():
    done = run(scenario())
    with pytest.raises(InputError, match="releases nothing here that says how accurate"):
        done.validated(None)
    with pytest.raises(InputError, match="choose half_l1"):
        Goal(epsilon=1.0).measured(done.row)


def test_commands_show_densities(tmp_path):
    file = tmp_path / "d.toml"
    file.write_text('name = "d"\nreplicates = 2\n[population]\nkind = "real_line"\nusers = 3000\n'
                    '[mechanism]\nkind = "private_density"\nmethod = "histogram"\n')  # fmt: skip
    out = tmp_path / "out"
    status, said, _ = command("run", file, "--out", out)
    assert status == 0
    assert "half-L1 distance (exact)" in said
    assert "accuracy" not in said
    assert command("report", out)[0] == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "No model is learned" in page
    assert "Not drawn" not in page
    assert command("plot", out, "--y", "half_l1")[0] == 0
    assert "half-l1" in str(command("plot", out)[1]).lower().replace("_", "-")
    sweep = tmp_path / "s.toml"
    sweep.write_text('name = "s"\nbase = "d.toml"\n[[axes]]\nkey = "population.users"\nvalues = [500, 3000]\n')
    assert command("sweep", sweep, "--out", tmp_path / "swept")[0] == 0
    assert command("report", tmp_path / "swept")[0] == 0
    assert "Not drawn" not in (tmp_path / "swept" / "report.html").read_text(encoding="utf-8")
    assert "half_l1" in command("compare", out, tmp_path / "swept")[1]


def test_results_in_python_show_densities(tmp_path):
    rows = p2p_sim.run_all(scenario().replace(replicates=2), out=tmp_path / "out")
    assert rows["half_l1"].notna().all()
    axes = p2p_sim.plot(rows)
    assert "half-L1" in axes.get_ylabel()
    run(scenario()).plot()


def test_the_cubes_of_the_unit_cube_are_those_of_the_rule():
    """As clusters of the exchange: a label of a cluster votes where the rule counts it."""
    for users, dimensions in ((10_000, 1), (1_296, 2), (777, 1)):
        config = UnitCubeConfig(users=users, dimensions=dimensions, cells=True)
        law, cubes = config.law(), Cubes(cube_side(users, dimensions), unit_cube=True)
        theirs = np.unique(cubes.cells(law.points), axis=0, return_inverse=True)[1].reshape(-1)
        assert np.array_equal(np.unique(law.cluster, return_inverse=True)[1], theirs)
    assert UnitCubeConfig(users=16).law().cluster.max() == 0
    assert "cells" not in UnitCubeConfig().model_dump()  # older scenarios keep their identities


@pytest.mark.parametrize("features", [["age"], ["age", "weight"]])
@pytest.mark.parametrize("method", METHODS)
def test_a_table_has_a_density(tmp_path, method, features):
    """The density of a table's own features, with public constants for their range."""
    rng = np.random.default_rng(1)
    age, weight = rng.integers(20, 80, 900), rng.normal(70.0, 10.0, 900).round(1)
    lines = [f"{a},{w},{int(a > 50)}" for a, w in zip(age, weight, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,weight,ill", *lines]) + "\n")
    table = {"kind": "table", "path": str(tmp_path / "rows.csv"), "label": "ill", "classes": [0, 1]}
    chosen = scenario(method=method, low=0.0, high=100.0, target_epsilon=20.0, side=0.2)
    done = run(chosen.replace(population={**table, "features": features}, clusters={"kind": "random", "count": 1}))
    assert done.row["half_l1"] is None
    assert done.release.side == pytest.approx(20.0)
    assert set(done.release.coordinates[:, 0]) <= {1, 2, 3}  # 20 to 79 years
    assert done.release.coordinates.shape[1] == len(features)
    assert done.release.masses.sum() == pytest.approx(1.0, abs=0.05)
