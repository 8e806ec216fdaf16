"""A release by other people's tools: the crate library and a validator, the list of packages, all of `build/release`.

`make validate` sets the tools up; without them these tests are skipped.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import p2p_sim
from p2p_sim.report.ro_crate import CRATE, write_crate
from p2p_sim.tuning.goal import Goal
from p2p_sim.tuning.run_search import make_tuning, tune
from tests.conftest import ROOT

TOOLS = Path(os.environ.get("P2P_SIM_RELEASE_TOOLS", ROOT / "build" / "release")) / "bin"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TOOLS / "rocrate-validator").exists(), reason="`make build/release/.done` sets them up"),
]
TREE = {
    "name": "tiny", "engine": "vectorised", "population": {"kind": "synthetic", "users": 60, "num_clusters": 2},
    "mechanism": {"kind": "label_exchange", "flip_prob": 0.2}, "replicates": 2,
}  # fmt: skip
UNKNOWN = {"author", "publisher", "URL"}
"""Recommended, and not known to the program: who ran it, who publishes the results, where the project is."""


def judged(directory: Path) -> dict:
    """The files that the library lists and what the validator says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [TOOLS / "python", ROOT / "tests" / "validation" / "crate_check.py", directory]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Results of a run, of a sweep and of a search."""
    base, folder = p2p_sim.Scenario.from_tree(TREE), tmp_path_factory.mktemp("results")
    p2p_sim.run_all(base, folder / "run")
    p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1, 0.2]}, 1, folder / "sweep")
    tune(make_tuning(base, Goal("accuracy", epsilon=0.9), None), 3, folder / "tune")
    for kind in ("run", "sweep", "tune"):
        write_crate(folder / kind)
    return folder


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("run", {"privacy-utility.png"}),
        ("sweep", set()),
        ("tune", {"found.toml", "trials.csv", "trials.parquet", "tune.png"}),
    ],
)
def test_the_crate_library_reads_a_crate_and_the_validator_takes_it(kind, files, places):
    found = judged(places / kind)
    assert set(found["issues"]) <= {"RECOMMENDED"}
    told = found["issues"].get("RECOMMENDED", [])
    assert [line for line in told if not any(word in line for word in UNKNOWN)] == []
    assert {"manifest.json", "rows.jsonl", "rows.parquet", *files} <= set(found["files"])


@pytest.mark.parametrize("lost", ["datePublished", "rows.jsonl"])
def test_the_validator_sees_a_planted_fault(lost, places, tmp_path):
    shutil.copytree(places / "run", tmp_path / "run")
    if lost == "rows.jsonl":
        (tmp_path / "run" / lost).unlink()
    else:
        path = tmp_path / "run" / CRATE
        content = json.loads(path.read_text(encoding="utf-8"))
        for entity in content["@graph"]:
            entity.pop(lost, None)
        path.write_text(json.dumps(content), encoding="utf-8")
    assert "REQUIRED" in judged(tmp_path / "run")["issues"]


def test_the_list_of_packages_is_valid_and_complete(tmp_path):
    out = tmp_path / "sbom.json"
    call = [
        TOOLS / "cyclonedx-py", "requirements", "constraints.txt", "--pyproject", "pyproject.toml", "--validate",
        "--output-reproducible", "--output-format", "JSON", "--output-file", out,
    ]  # fmt: skip
    subprocess.run(call, cwd=ROOT, check=True, capture_output=True)
    listed = {(one["name"], one["version"]) for one in json.loads(out.read_text(encoding="utf-8"))["components"]}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert listed == {tuple(line.split(";")[0].strip().split("==")) for line in lines if "==" in line}
