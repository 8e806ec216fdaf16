"""The RO-Crate metadata of a results directory: what they say is there, and nothing older than the files."""

import hashlib
import json

import pytest

import p2p_sim
from p2p_sim.base.usage import Meter
from p2p_sim.storage import crate, rows
from p2p_sim.sweeps.point import FIGURE
from p2p_sim.sweeps.tuning import outcome, study
from tests.crates import faults, read

TREE = {
    "name": "tiny", "engine": "vectorised", "population": {"kind": "synthetic", "users": 60, "num_clusters": 2},
    "mechanism": {"kind": "label_exchange", "flip_prob": 0.2}, "replicates": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A finished run."""
    directory = tmp_path_factory.mktemp("crate") / "run"
    p2p_sim.run_all(p2p_sim.Scenario.from_tree(TREE), directory)
    return directory


def test_a_run_is_described(ran):
    found, manifest = read(ran), rows.read_manifest(ran)
    files = {path.name for path in ran.iterdir()} - {crate.CRATE, ".lock"}
    for name in files:
        content = (ran / name).read_bytes()
        assert found[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert found[name]["contentSize"] == str(len(content))
    assert found["./"]["identifier"] == manifest["identity"]
    versions = {one["name"]: one["softwareVersion"] for one in found.values() if one["@type"] == "SoftwareApplication"}
    assert versions == manifest["versions"]
    assert found[found["#run"]["instrument"]["@id"]]["name"] == "p2p-sim"
    assert found["#scenario/mechanism.flip_prob"]["value"] == 0.2
    times = [json.loads(line)["wall_s"] for line in (ran / "timings.jsonl").read_text().splitlines()]
    assert found["#usage/replicate_s"]["value"] == pytest.approx(sum(times), abs=1e-3)
    assert found["#usage/wall_s"]["value"] >= max(times)
    assert found["#usage/peak_bytes"]["value"] > 2**20


def test_the_names_of_the_files_are_those_of_the_store():
    assert set(crate.FILES) == {
        rows.MANIFEST, rows.ROWS, rows.TABLE, rows.TIMINGS, rows.FAILURES, crate.STATEMENTS, FIGURE, outcome.FIGURE,
        outcome.TRIALS_CSV, outcome.TRIALS_TABLE, outcome.SCENARIO, study.JOURNAL,
    }  # fmt: skip


def test_a_sweep_names_its_axes_and_a_stopped_one_has_no_metadata(tmp_path, monkeypatch):
    base, out = p2p_sim.Scenario.from_tree(TREE), tmp_path / "sweep"
    p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1, 0.2]}, 1, out)
    found = read(out)
    assert json.loads(found["#axis/mechanism.flip_prob"]["value"]) == [0.1, 0.2]

    def stopped(self, batches, perform):
        yield perform(next(batches))
        raise KeyboardInterrupt

    monkeypatch.setattr("p2p_sim.sweeps.work.Serial.run", stopped)
    with pytest.raises(KeyboardInterrupt):
        p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1, 0.2, 0.3, 0.4]}, 1, out)
    assert not (out / crate.CRATE).exists()
    monkeypatch.undo()
    p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1, 0.2, 0.3, 0.4]}, 1, out)
    assert len(json.loads(read(out)["#axis/mechanism.flip_prob"]["value"])) == 4


def test_data_files_are_named_with_their_checksums_but_not_where_they_lie(tmp_path):
    table = tmp_path / "private place" / "mine.csv"
    table.parent.mkdir()
    table.write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(80)))
    population = {"kind": "table", "path": "mine.csv", "label": "y"}
    tree = {**TREE, "population": population, "clusters": {"kind": "kmeans", "count": 2, "min_size": 2}}
    p2p_sim.run_all(p2p_sim.Scenario.from_tree(tree), tmp_path / "out", table.parent)
    [data] = [entity for name, entity in read(tmp_path / "out").items() if name.startswith("#data/")]
    assert (data["name"], data["sha256"]) == ("mine.csv", hashlib.sha256(table.read_bytes()).hexdigest())
    assert "private place" not in (tmp_path / "out" / crate.CRATE).read_text()


def test_damaged_times_leave_out_their_sum_and_nothing_else(ran, tmp_path):
    (tmp_path / rows.TIMINGS).write_text('["no time"]\n')
    names = [one["@id"] for one in crate.graph(tmp_path, rows.read_manifest(ran), Meter().read(), ())]
    assert "#usage/replicate_s" not in names
    assert "#usage/wall_s" in names


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("rows", "rows.jsonl: another SHA-256"),
        ("dangling", "#nowhere: is no entity"),
        ("lost", "timings.jsonl: is not"),
    ],
)
def test_the_checks_see_a_planted_fault(ran, tmp_path, fault, told):
    content = json.loads((ran / crate.CRATE).read_text(encoding="utf-8"))
    for path in ran.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if fault == "rows":
        (tmp_path / rows.ROWS).write_text("{}\n")
    elif fault == "lost":
        (tmp_path / rows.TIMINGS).unlink()
    else:
        content["@graph"].append({"@id": "#more", "@type": "CreativeWork", "about": {"@id": "#nowhere"}})
    assert told in "\n".join(faults(tmp_path, content))
