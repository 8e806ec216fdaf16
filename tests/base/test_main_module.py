"""Workers for whoever has no importable main module: a script without a guard, standard input, a notebook."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from p2p_sim.sweeps.local_workers import LocalProcesses
from tests import stand_ins
from tests.conftest import ROOT

QUICK = """
print("executed")
from p2p_sim.sweeps.local_workers import LocalProcesses
from tests import stand_ins
done = stand_ins.collect(LocalProcesses(2, imports="tests.stand_ins"), stand_ins.tasks(8), stand_ins.square, 1)
print(len(done), "came back")
"""
SWEEP = """
print("executed")
import p2p_sim
base = p2p_sim.Scenario.from_tree({
    "name": "small", "engine": "vectorised",
    "population": {"kind": "synthetic", "users": 300}, "mechanism": {"flip_prob": 0.1},
    "learner": {"kind": "table"},
})
rows = p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1, 0.2]}, replicates=4, workers=2, out="results")
print(len(rows), "came back")
"""
COMES = "executed\n8 came back\n"


def output(script: str, how: str, folder: Path) -> str:
    """What Python prints for a script, from a file, on standard input or as an argument, in this folder."""
    (folder / "script.py").write_text(script)
    arguments = {"file": ["script.py"], "stdin": ["-"], "argument": ["-c", script]}[how]
    given = script if how == "stdin" else ""
    done = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("how", ["file", "stdin", "argument"])
def test_a_script_runs_once_and_needs_no_guard(tmp_path, how):
    assert output(QUICK, how, tmp_path) == COMES


@pytest.mark.slow
@pytest.mark.parametrize("how", ["file", "stdin"])
def test_a_sweep_in_a_script_runs_once(tmp_path, how):
    assert output(SWEEP, how, tmp_path) == COMES


def cells(source: str, folder: Path) -> str:
    """What a notebook with one cell prints, executed by a kernel of its own."""
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    client.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(folder)}}).execute(env=_environment())
    return "".join(found["text"] for found in book.cells[0].outputs if found["output_type"] == "stream")


@pytest.mark.slow
def test_a_notebook_has_workers(tmp_path):
    assert cells(QUICK, tmp_path) == COMES


@pytest.mark.slow
def test_a_sweep_in_a_notebook(tmp_path):
    assert cells(SWEEP, tmp_path) == COMES


def test_a_worker_sees_the_import_path_of_its_driver(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("from tests.stand_ins import square\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here  # type: ignore[import-not-found]

    executor = LocalProcesses(1, imports="only_here")
    assert len(stand_ins.collect(executor, stand_ins.tasks(2), only_here.square)) == 2
