"""Sweeps: plans from files, drivers that resume, extend and survive failures, replicates split by shards."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.measures.point_means import derived
from p2p_sim.results.rows import FAILURES, ROWS, TABLE, open_store
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.plan import SweepPlan, load_sweep
from p2p_sim.sweeps.run_sweep import Progress, run_sweep, sweep
from p2p_sim.sweeps.split_replicate import SplitShards
from p2p_sim.sweeps.tasks import Batch, Done, Serial, perform
from tests.conftest import ROOT

BASE = """
name = "tiny"
engine = "vectorised"
replicates = 2
[population]
kind = "synthetic"
users = 60
num_clusters = 2
[mechanism]
kind = "label_exchange"
flip_prob = 0.2
"""
FLIPS = '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.1]\n'
AXES = '[[axes]]\nkey = "mechanism.sampling_rate"\nvalues = [0.5, 1.0]\n'


def plan(tmp_path: Path, axes: str = AXES, head: str = "", overrides: tuple[str, ...] = ()) -> SweepPlan:
    (tmp_path / "tiny.toml").write_text(BASE)
    (tmp_path / "sweep.toml").write_text(f'name = "tiny-sweep"\nbase = "tiny.toml"\n{head}\n{axes}')
    return load_sweep(tmp_path / "sweep.toml", overrides)


def stand_in(batch: Batch) -> list[Done]:
    """Rows that cost nothing."""
    rows = []
    for task in batch:
        alpha = json.loads(task.scenario)["mechanism"]["flip_prob"]
        row = {"scenario": task.point, "replicate": task.replicate, "value": alpha * (task.replicate + 1)}
        rows.append(Done(task, row, None, 1e-5))
    return rows


def test_axes_multiply_and_keys_of_one_axis_change_together(tmp_path):
    axes = (
        '[[axes]]\nkeys = ["mechanism.flip_prob", "population.users"]\nvalues = [[0.1, 60], [0.2, 80], [0.3, 90]]\n'
        '[[axes]]\nkey = "mechanism.sampling_rate"\nlinear = [0.2, 1.0, 5]\n'
    )
    found = plan(tmp_path, axes)
    points = list(found.points())
    assert len(points) == found.size == 15
    assert points[6].columns == {
        "mechanism.flip_prob": 0.2, "population.users": 80, "mechanism.sampling_rate": pytest.approx(0.4)
    }  # fmt: skip
    scenario = found.scenario(points[6])
    assert (scenario.mechanism.flip_prob, scenario.population.users) == (0.2, 80)


def test_a_logarithmic_axis_over_a_whole_number_gives_whole_numbers(tmp_path):
    found = plan(tmp_path, '[[axes]]\nkey = "population.users"\nlog = [40, 4000, 3]\n')
    assert [point.settings["population.users"] for point in found.points()] == [40, 400, 4000]
    rounded = plan(tmp_path, '[[axes]]\nkey = "population.users"\nlinear = [40, 45, 4]\n')
    assert [point.settings["population.users"] for point in rounded.points()] == [40, 42, 43, 45]


def test_a_listed_value_is_not_rounded(tmp_path):
    listed = '[[axes]]\nkey = "population.users"\nvalues = [40.0, {}]\n'
    assert [point.settings["population.users"] for point in plan(tmp_path, listed.format(80)).points()] == [40, 80]
    with pytest.raises(InputError, match=r"population\.users = 80\.4"):
        plan(tmp_path, listed.format(80.4))


def test_a_target_takes_the_place_of_the_flip_probability(tmp_path):
    found = plan(tmp_path, '[[axes]]\nkey = "mechanism.target_epsilon"\nvalues = [0.5, 1.0]\n')
    mechanisms = [found.scenario(point).mechanism for point in found.points()]
    assert [(m.flip_prob, m.target_epsilon) for m in mechanisms] == [(None, 0.5), (None, 1.0)]


def test_tables_along_an_axis_are_named(tmp_path):
    overlays = 'values = [{ kind = "complete" }, { kind = "regular", degree = 4 }]\n'
    text = '[[axes]]\nkey = "network.overlay"\n' + overlays
    found = plan(tmp_path, text, '[set]\nengine = "events"\n')
    assert [p.columns["network.overlay"] for p in found.points()] == ["complete", "regular (degree=4)"]
    named = plan(tmp_path, text + 'labels = ["all", "four"]\n', '[set]\nengine = "events"\n')
    assert [p.columns["network.overlay"] for p in named.points()] == ["all", "four"]


def test_overrides_change_the_base_and_the_count(tmp_path):
    found = plan(tmp_path, overrides=("replicates=7", "mechanism.flip_prob=0.3"))
    assert found.replicates == 7
    assert {found.scenario(p).mechanism.flip_prob for p in found.points()} == {0.3}


@pytest.mark.parametrize(
    ("axes", "head", "message"),
    [
        ('[[axes]]\nkey = "mechanism.flip_prop"\nvalues = [0.1]\n', "", "flip_prop: unknown key; did you mean mech"),
        ('[[axes]]\nkey = "mechanism.flip_prob"\nvalues = []\n', "", r"axes.0.values = \[\]: .*at least 1"),
        ('[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.1, "x"]\n', "", 'flip_prob = "x": should be'),
        ('[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.9]\n', "", "mechanism.flip_prob = 0.9: .*at most 0.5"),
        ('[[axes]]\nkey = "mechanism.flip_prob"\nlog = [0.0, 0.5, 3]\n', "", "for log, first and last must be above 0"),
        ('[[axes]]\nkey = "mechanism.flip_prob"\n', "", "give one of values, linear and log"),
        ('[[axes]]\nvalues = [1]\n', "", "give either key or keys"),
        ('[[axes]]\nkeys = ["a", "b"]\nvalues = [[1, 2], [3]]\n', "", "each must be a list of 2 values"),
        (AXES + AXES, "", "mechanism.sampling_rate is swept twice"),
        (f'{FLIPS}[[axes]]\nkey = "mechanism.target_epsilon"\nvalues = [1.0]\n',
         "", "axes: mechanism.target_epsilon: does not go with mechanism.flip_prob; a scenario has one of the two"),
        ('[[axes]]\nkey = "replicates"\nvalues = [1]\n', "", "replicates changes no result"),
        ('[[axes]]\nkey = "seed"\nvalues = [1, 2]\nlabels = ["a"]\n', "", "labels: 1 for 2 values"),
        ("", "", "axes: is missing"),
        (AXES, "replicate = 3", "replicate: unknown key; did you mean replicates"),
        (AXES, '[set]\n"mechanism.flip_prob" = 0.7\n', "mechanism.flip_prob = 0.7: must be at most 0.5"),
    ],
)  # fmt: skip
def test_mistakes_in_a_sweep_file_are_one_line(tmp_path, axes, head, message):
    with pytest.raises(InputError, match=message) as caught:
        plan(tmp_path, axes, head)
    assert "\n" not in str(caught.value)
    assert "sweep.toml" in str(caught.value)


def test_two_equal_points_are_a_mistake(tmp_path):
    with pytest.raises(InputError, match=r"the point mechanism.flip_prob = 0.1 occurs twice"):
        run_sweep(plan(tmp_path, '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.1, 0.1]\n'), tmp_path / "a")


def test_a_sweep_resumes_extends_and_equals_an_undisturbed_run(tmp_path):
    """More replicates, then more values, then a half-written line: byte for byte what one run gives."""
    few = '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.1, 0.3]\n'
    many = '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.1, 0.2, 0.3]\n'
    grown, once = tmp_path / "grown", tmp_path / "once"
    run_sweep(plan(tmp_path, few, overrides=("replicates=1",)), grown)
    run_sweep(plan(tmp_path, few), grown)
    with (grown / ROWS).open("ab") as file:
        file.write(b'{"scenario": "12')
    ran = []
    run_sweep(plan(tmp_path, many), grown, report=ran.append)
    run_sweep(plan(tmp_path, many), once)
    assert (grown / ROWS).read_bytes() == (once / ROWS).read_bytes()
    pd.testing.assert_frame_equal(pd.read_parquet(grown / TABLE), pd.read_parquet(once / TABLE))
    assert (grown / "manifest.json").read_bytes() == (once / "manifest.json").read_bytes()
    rows = p2p_sim.load_results(grown)
    assert rows["mechanism.flip_prob"].tolist() == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3]
    assert rows["replicate"].tolist() == [0, 1] * 3


def test_points_of_a_sweep_are_the_scenarios_they_name(tmp_path):
    """Common random numbers: a point's row is that of its scenario run alone, but for the swept columns."""
    found = plan(tmp_path)
    rows = run_sweep(found, tmp_path / "a").rows
    alone = p2p_sim.run(found.scenario(next(found.points())), 1).row
    row = derived(rows).iloc[1].to_dict()
    assert {key: row[key] for key, value in alone.items() if value is not None} == {
        key: value for key, value in alone.items() if value is not None
    }


def test_a_changed_base_or_another_sweep_is_refused(tmp_path):
    run_sweep(plan(tmp_path), tmp_path / "a")
    with pytest.raises(InputError, match="already holds another scenario's results"):
        run_sweep(plan(tmp_path, overrides=("mechanism.flip_prob=0.3",)), tmp_path / "a")
    with pytest.raises(InputError, match="already holds another scenario's results"):
        p2p_sim.run_all(plan(tmp_path).base, tmp_path / "a")


def test_a_second_driver_is_refused(tmp_path):
    found = plan(tmp_path)
    held = open_store(tmp_path / "a", found.sweep_identity, lambda row: None)
    with held, pytest.raises(InputError, match="another run is writing there"):
        run_sweep(found, tmp_path / "a")


def test_a_failing_point_is_recorded_and_tried_again(tmp_path):
    """A cluster that is too small for its overlay file, say: here, one replicate of one point fails the first time."""
    found = plan(tmp_path)

    def failing(batch: Batch) -> list[Done]:
        done = perform(batch)
        return [Done(d.task, None, "ValueError: no luck", d.wall_s) if d.task.replicate == 1 else d for d in done]

    result = run_sweep(found, tmp_path / "a", work=failing)
    assert (len(result.rows), result.failed) == (2, 2)
    record = json.loads((tmp_path / "a" / FAILURES).read_text().splitlines()[0])
    assert (record["replicate"], record["error"], record["mechanism.sampling_rate"]) == (1, "ValueError: no luck", 0.5)
    again = run_sweep(found, tmp_path / "a")
    assert (len(again.rows), again.failed) == (4, 0)
    assert not (tmp_path / "a" / FAILURES).exists()


def test_errors_of_a_scenario_do_not_stop_the_others(tmp_path):
    """One value is a scenario that cannot be run: more users are wanted in a cluster than there are."""
    axes = '[[axes]]\nkey = "clusters.min_size"\nvalues = [2, 1000]\n'
    found = plan(tmp_path, axes, '[set]\nclusters = { kind = "given", min_size = 2 }\n')
    result = run_sweep(found, tmp_path / "a", work=_fail_large)
    assert result.rows["clusters.min_size"].unique().tolist() == [2]
    assert result.failed == 2


def _fail_large(batch: Batch) -> list[Done]:
    found = []
    for task in batch:
        if json.loads(task.scenario)["clusters"]["min_size"] > 500:
            found.append(Done(task, None, "InputError: too few users", 0.0))
        else:
            found += perform((task,))
    return found


def test_progress_knows_what_is_left(tmp_path):
    states: list[tuple[int, int]] = []
    run_sweep(plan(tmp_path), tmp_path / "a", report=lambda p: states.append((p.finished, p.replicates)), work=stand_in)
    assert states[0] == (0, 4)
    assert states[-1] == (4, 4)
    assert Progress(2, 10, 4, failed=1, task_s=2.0, workers=2).remaining_s == 5.0


@pytest.mark.parametrize(("first_s", "said"), [(3.0, [None, None, 0.1]), (30.0, [None, 30.0, 15.05])])
def test_the_time_to_go_is_not_that_of_loading_libraries(tmp_path, first_s, said):
    times, states = iter([first_s, 0.1, 0.1, 0.1]), []

    def timed(batch: Batch) -> list[Done]:
        return [replace(done, wall_s=next(times)) for done in stand_in(batch)]

    run_sweep(plan(tmp_path), tmp_path / "a", report=lambda p: states.append(p.task_s), work=timed)
    assert states[:3] == said


@pytest.mark.parametrize("users", [3000, pytest.param(300_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_a_replicate_split_by_shards_is_the_same(tmp_path, engine, users, monkeypatch):
    """Five shards in two parts, against one piece: the same bytes. Few users have smaller shards."""
    if users == 3000:
        monkeypatch.setattr("p2p_sim.population.population.BLOCK", 700)
    head = f'[set]\nengine = "{engine}"\n"population.users" = {users}\n"population.num_clusters" = 30\n'
    axes = '[[axes]]\nkey = "mechanism.sampling_rate"\nvalues = [0.3]\n'
    found = plan(tmp_path, axes, head, ("replicates=1",))
    run_sweep(found, tmp_path / "whole")
    run_sweep(found, tmp_path / "split", SplitShards(Serial()))
    assert (tmp_path / "whole" / ROWS).read_bytes() == (tmp_path / "split" / ROWS).read_bytes()


@pytest.mark.parametrize("kind", ["label_exchange", "randomized_response", "shuffled_response"])
def test_more_parts_than_shards_change_nothing(tmp_path, kind):
    """60 users in one shard, in 2 parts, one of which is empty."""
    head = f'[set]\nengine = "events"\nmechanism = {{ kind = "{kind}", flip_prob = 0.1 }}\n'
    found = plan(tmp_path, '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.2]\n', head, ("replicates=1",))
    run_sweep(found, tmp_path / "whole")
    run_sweep(found, tmp_path / "split", SplitShards(Serial()))
    assert (tmp_path / "whole" / ROWS).read_bytes() == (tmp_path / "split" / ROWS).read_bytes()


def test_a_point_whose_clusters_share_a_link_is_not_split(tmp_path):
    """The base can be split, its point cannot."""
    axes = '[[axes]]\nkey = "network.learner_bandwidth_bps"\nvalues = [1e6]\n'
    found = plan(tmp_path, axes, '[set]\nengine = "events"\n', ("replicates=1",))
    with pytest.raises(InputError, match="no replicate could be run"):
        run_sweep(found, tmp_path / "a", SplitShards(Serial()))
    assert "all clusters share this link" in (tmp_path / "a" / FAILURES).read_text()


def test_sweeps_from_python_use_the_same_store(tmp_path):
    base = Scenario.from_tree(
        {"name": "tiny", "engine": "vectorised", "population": {"kind": "synthetic", "users": 60, "num_clusters": 2},
         "mechanism": {"flip_prob": 0.2}}
    )  # fmt: skip
    rows = sweep(base, {"mechanism.flip_prob": [0.1, 0.2]}, replicates=2, out=tmp_path / "a")
    assert len(rows) == 4
    pd.testing.assert_frame_equal(p2p_sim.load_results(tmp_path / "a"), rows)


SHIPPED = {
    path.relative_to(ROOT / "scenarios" / "sweeps").as_posix(): path
    for path in sorted((ROOT / "scenarios" / "sweeps").rglob("*.toml"))
}
SLOW = {
    "vector/exchange.toml",
    "comparison/digits.toml",
    "comparison/mnist.toml",
    "curators/mnist.toml",
    "vector/exchange-kmeans.toml",
    "learners/digits.toml",
    "learners/mnist.toml",
    "curators/pixels.toml",
}
"""Sweeps of many classes whose like runs beside them: `make validate` runs their first point too."""


@pytest.mark.parametrize("name", SHIPPED)
def test_every_sweep_that_is_shipped_is_a_plan(name):
    found = load_sweep(SHIPPED[name])
    if not name.startswith("clustering-choices/") and name != "curators/pixels.toml":  # studies' checks of few settings
        assert found.size >= 6
        assert found.plots


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in SHIPPED])
def test_the_first_point_of_every_sweep_runs(name):
    found = load_sweep(SHIPPED[name])
    scenario = found.scenario(next(found.points()))
    kind = scenario.population.kind
    small = {
        "synthetic": {"population.users": 400, "population.num_clusters": 2},
        "circle": {"population.users": 400, "population.holdout": 100},
        "linear": {"population.users": 400},
        "unit_cube": {"population.users": 400},
        "real_line": {"population.users": 400},
        "digits": {"clusters.count": 100, "clusters.min_size": 5} if scenario.clusters.kind == "kmeans" else {},
    }
    changes = small.get(kind, {})
    known = (*small, "branches", "real_line", "diabetes")
    if scenario.mechanism.adjacency == "example" and kind not in known:  # needs no data file
        changes = {"population": {"kind": "branches", "sizes": [300]}}
    elif kind not in known:
        task = getattr(scenario.population, "task", "even-odd")  # Adult has one task only
        changes = {"population.kind": "digits", "population.task": task, "clusters.count": 20}
    if scenario.learner.kind == "convolutional":  # needs no PyTorch
        changes["learner.kind"] = "knn"
    rows = derived(pd.DataFrame([p2p_sim.run(scenario.replace(**changes)).row]))
    assert all(plot.y in rows for plot in found.plots)


def test_a_key_of_set_without_quotes_is_explained(tmp_path):
    file = tmp_path / "s.toml"
    axes = '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.1, 0.2]\n'
    file.write_text(f'name = "s"\nbase = "quickstart"\n[set]\nmechanism.sampling_rate = 1.0\n{axes}')
    with pytest.raises(InputError, match=r'write a single key in quotes, "mechanism\.sampling_rate"$'):
        load_sweep(file)
    file.write_text(f'name = "s"\nbase = "quickstart"\n[set]\n"mechanism.sampling_rate" = 1.0\n{axes}')
    assert load_sweep(file).base.mechanism.sampling_rate == 1.0
