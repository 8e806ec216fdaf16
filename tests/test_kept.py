"""Figures that are kept on disk: equal with a cold, a warm and no file, and never believed unchecked."""

import importlib.metadata
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import networkx as nx
import pytest

import p2p_sim
from p2p_sim.analysis.privacy import LabelExchange
from p2p_sim.analysis.privacy.statement import kept as room
from p2p_sim.analysis.privacy.statement.bound import Bracket
from p2p_sim.storage.rows import ROWS
from p2p_sim.sweeps.drive import run_sweep
from p2p_sim.sweeps.file import Axis
from p2p_sim.sweeps.local import LocalProcesses
from p2p_sim.sweeps.plan import make_plan
from tests.test_house import ROOT, imports, modules

TOLD = Bracket(0.1, 1.0 / 3.0)


@dataclass(frozen=True)
class Setting:
    size: int
    rate: float


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(room.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def asked(answer=TOLD):
    """A function, as a process that has just begun would see it, and the list of its calls."""
    calls = []

    def bracket(setting, delta):
        calls.append((setting, delta))
        return answer

    return room.kept(bracket), calls


def change(place, sql, *values):
    connection = sqlite3.connect(place / room.NAME)
    connection.execute(sql, values)
    connection.commit()
    connection.close()


def test_what_was_computed_is_found_by_the_next_process(place):
    for answer in (TOLD, Bracket(0.0, float("inf")), True, False):
        first, calls = asked(answer)
        setting = Setting(len(str(answer)), 0.1)
        assert first(setting, 1e-5) == first(setting, 1e-5) == answer
        assert len(calls) == 1
        again, calls = asked(None)
        assert again(setting, 1e-5) == answer
        assert calls == []
    assert asked()[0](Setting(1, 0.1), 1e-5) == TOLD
    other, calls = asked()
    other(Setting(1, 0.1 + 2**-56), 1e-5)
    other(Setting(1, 0.1), 1e-5 + 2**-68)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: change(place, "UPDATE kept SET value = 'Bracket(0x0.0p+0, 0x0.0p+0)'"),
        lambda place: change(place, "UPDATE kept SET value = 'Bracket(0x0.0p+0)'"),
        lambda place: change(place, "UPDATE kept SET value = NULL"),
        lambda place: change(place, "UPDATE kept SET digest = ''"),
        lambda place: change(place, "ALTER TABLE kept RENAME COLUMN value TO other"),
        lambda place: change(place, "DROP TABLE kept"),
        lambda place: (place / room.NAME).write_bytes(b""),
        lambda place: (place / room.NAME).write_bytes(b"something else entirely" * 400),
        lambda place: (place / room.NAME).write_bytes((place / room.NAME).read_bytes()[:5000]),
        lambda place: (place / room.NAME).chmod(0o666),
        lambda place: place.chmod(0o777),
        lambda place: ((place / room.NAME).unlink(), (place / room.NAME).mkdir()),
    ],
)
def test_what_cannot_be_checked_is_computed_anew(place, damage):
    asked()[0](Setting(3, 0.5), 1e-5)
    damage(place)
    for _ in range(2):
        function, _calls = asked(Bracket(0.5, 0.75))
        assert function(Setting(3, 0.5), 1e-5) == Bracket(0.5, 0.75)


def test_an_entry_of_another_key_or_value_is_not_believed(place):
    """Whoever copies an entry to another key, or writes what is no bracket, is not believed either."""
    asked()[0](Setting(3, 0.5), 1e-5)
    asked(Bracket(0.0, 9.0))[0](Setting(4, 0.5), 1e-5)
    change(
        place,
        "UPDATE kept SET value = (SELECT value FROM kept WHERE key LIKE '%Setting(3,%'), "
        "digest = (SELECT digest FROM kept WHERE key LIKE '%Setting(3,%') WHERE key LIKE '%Setting(4,%'",
    )
    function, calls = asked(Bracket(0.0, 9.0))
    assert function(Setting(4, 0.5), 1e-5) == Bracket(0.0, 9.0)
    assert len(calls) == 1
    connection = sqlite3.connect(place / room.NAME)
    keys = [key for (key,) in connection.execute("SELECT key FROM kept")]
    connection.close()
    for value in ("Bracket(0x1.0p+1, 0x1.0p+0)", "Bracket(nan, nan)", "Bracket(-0x1.0p+0, 0x1.0p+0)", "None", ""):
        for key in keys:
            change(place, "UPDATE kept SET value = ?, digest = ? WHERE key = ?", value, room._digest(key, value), key)
        function, calls = asked(Bracket(0.0, 9.0))
        assert function(Setting(4, 0.5), 1e-5) == Bracket(0.0, 9.0)
        assert len(calls) == 1


def test_another_version_computes_anew(place, monkeypatch):
    asked()[0](Setting(3, 0.5), 1e-5)
    monkeypatch.setattr(room, "version", lambda: "of another accountant")
    function, calls = asked()
    function(Setting(3, 0.5), 1e-5)
    assert len(calls) == 1


def behind_kept_figures() -> set[str]:
    """Every module of the project that a module with kept figures imports, and these, directly or by way of others."""
    paths, graph = modules(), nx.DiGraph()
    for name, path in paths.items():
        graph.add_edges_from((name, target) for target in imports(path.read_text(encoding="utf-8"), set(paths)))
    users = [
        name for name in graph if graph.has_edge(name, f"{room.__name__}.kept") or graph.has_edge(name, room.__name__)
    ]
    users = [name for name in users if name.startswith("p2p_sim.analysis")]
    return set(users).union(*(nx.descendants(graph, name) for name in users))


def test_every_module_behind_a_kept_figure_is_part_of_its_key(tmp_path, monkeypatch, place):
    """Each is edited, in a copy: the figure is computed anew."""
    paths, behind = modules(), behind_kept_figures()
    assert len(behind) > 40
    here = ROOT / "analysis" / "privacy"
    copy = tmp_path / "privacy"
    shutil.copytree(here, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(room, "__file__", str(copy / "statement" / "kept.py"))
    for name in sorted(behind):
        file = copy / paths[name].relative_to(here)  # refuses a module from elsewhere
        room.version.cache_clear()
        asked()[0](Setting(3, 0.5), 1e-5)
        before = file.read_bytes()
        file.write_bytes(before + b"\n# edited\n")
        room.version.cache_clear()
        function, calls = asked()
        function(Setting(3, 0.5), 1e-5)
        assert len(calls) == 1, name
        file.write_bytes(before)
        room.version.cache_clear()
        function, calls = asked()
        function(Setting(3, 0.5), 1e-5)
        assert calls == [], name
    room.version.cache_clear()


@pytest.mark.parametrize("library", ["python", *room.LIBRARIES])
def test_every_library_behind_a_kept_figure_is_part_of_its_key(library, monkeypatch):
    before, known = room.version.__wrapped__(), importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: known(name) + "+other" * (name == library))
    if library == "python":
        monkeypatch.setattr(room.platform, "python_version", lambda: "9.9.9")
    assert room.version.__wrapped__() != before


def test_nothing_is_kept_if_nothing_is_to_be_kept(place, monkeypatch):
    monkeypatch.setenv(room.VARIABLE, room.OFF)
    asked()[0](Setting(3, 0.5), 1e-5)
    assert not place.exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_no_fault(place):
    place.mkdir()
    place.chmod(0o500)
    function, calls = asked()
    assert function(Setting(3, 0.5), 1e-5) == TOLD
    assert len(calls) == 1


def test_a_full_file_is_begun_anew(place, monkeypatch):
    asked()[0](Setting(3, 0.5), 1e-5)
    monkeypatch.setattr(room, "LARGEST", 1)
    function, calls = asked()
    function(Setting(3, 0.5), 1e-5)
    assert len(calls) == 1


def test_many_processes_and_threads_write_at_once(place):
    code = (
        "import sys; from p2p_sim.analysis.privacy import LabelExchange\n"
        "print([LabelExchange(n, 0.2, 0.5).epsilon(1e-3) for n in range(2, 22)])"
    )
    environment = {**os.environ, room.VARIABLE: str(place)}
    run = lambda _: subprocess.run(  # noqa: E731
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    with ThreadPoolExecutor(3) as pool:
        outputs = {done.stdout for done in pool.map(run, range(3))}
    assert len(outputs) == 1
    connection = sqlite3.connect(place / room.NAME)
    assert connection.execute("SELECT count(*) FROM kept").fetchone() == (20,)
    connection.close()
    assert str([LabelExchange(n, 0.2, 0.5).epsilon(1e-3) for n in range(2, 22)]) + "\n" in outputs


@pytest.mark.slow
def test_a_sweep_has_the_same_rows_with_a_cold_a_warm_and_no_file(place, tmp_path, monkeypatch):
    people = {"kind": "synthetic", "users": 400, "num_clusters": 4}
    tree = {"name": "made", "population": people, "mechanism": {"flip_prob": 0.1}, "learner": {"kind": "table"}}
    scenario = p2p_sim.Scenario.from_tree(tree)
    plan = make_plan("made", scenario, [Axis(key="mechanism.flip_prob", values=(0.1, 0.2))], 2, [])
    for name in ("cold", "warm", "workers"):
        run_sweep(plan, tmp_path / name, LocalProcesses(2) if name == "workers" else None)
    monkeypatch.setenv(room.VARIABLE, room.OFF)
    run_sweep(plan, tmp_path / "none")
    rows = {name: (tmp_path / name / ROWS).read_bytes() for name in ("cold", "warm", "workers", "none")}
    assert rows["cold"]
    assert set(rows.values()) == {rows["cold"]}
    assert place.exists()
