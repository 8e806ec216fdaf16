"""Figures that are kept on disk: equal with a cold, a warm and no file, and never believed unchecked."""

import ast
import importlib.metadata
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import p2p_sim
from p2p_sim.privacy import LabelExchange
from p2p_sim.privacy import disk_cache as room
from p2p_sim.privacy.bound import Bracket
from p2p_sim.results.rows import ROWS
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.sweeps.plan import make_plan
from p2p_sim.sweeps.run_sweep import run_sweep
from p2p_sim.sweeps.sweep_file import Axis
from tests.conftest import ROOT

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

    return room.disk_cached(bracket), calls


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


def imported(root: Path, modules: Iterable[str]) -> dict[str, Path]:
    """The project's modules that some modules import, wherever and however deep, and the packages around them."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        folder = root.joinpath(*name.split("."))
        path = folder / "__init__.py" if (folder / "__init__.py").is_file() else folder.with_suffix(".py")
        if name in found or not path.is_file():
            continue
        found[name] = path
        waiting.append(name.rpartition(".")[0])
        if name != "p2p_sim":  # which imports its public names only for whoever asks for one
            waiting += [each for each in names_imported(path) if each.partition(".")[0] == "p2p_sim"]
    return found


def names_imported(path: Path) -> Iterator[str]:
    """What a file imports at any place but for type checkers: modules, and names in them, which may be modules too."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from (str(node.module), *(f"{node.module}.{each.name}" for each in node.names))
        waiting += ast.iter_child_nodes(node)


def with_figures(root: Path) -> list[str]:
    """The modules with a function whose results are kept."""
    decorated = re.compile(r"^ *@disk_cached$", re.MULTILINE)
    paths = [path for path in (root / "p2p_sim" / "privacy").rglob("*.py") if decorated.search(path.read_text())]
    return [".".join(path.relative_to(root).with_suffix("").parts) for path in paths]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the accountants and of what they stand on, as if it were what runs."""
    for name in ("privacy", "base"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "p2p_sim" / name, tmp_path / "p2p_sim" / name, ignore=ignored)
    shutil.copy(ROOT / "p2p_sim" / "__init__.py", tmp_path / "p2p_sim")
    monkeypatch.setattr(room, "__file__", str(tmp_path / "p2p_sim/privacy/disk_cache.py"))
    monkeypatch.setattr(room, "_IMPORTED", float("inf"))
    monkeypatch.setattr(room, "version", room.version.__wrapped__)
    return tmp_path


def test_every_module_that_a_kept_figure_imports_is_part_of_its_key(copied, place):
    names = with_figures(ROOT)
    assert len(names) == 6
    modules = {name: copied / path.relative_to(ROOT) for name, path in imported(ROOT, names).items()}
    assert len(modules) > 30
    before = room.version()
    unnoticed = []
    for name, path in modules.items():
        text = path.read_bytes()
        path.write_bytes(text + b"\n# edited\n")
        if room.version() == before:
            unnoticed.append(name)
        path.write_bytes(text)
    assert unnoticed == []
    assert room.version() == before
    asked()[0](Setting(3, 0.5), 1e-5)
    function, calls = asked()
    function(Setting(3, 0.5), 1e-5)
    assert calls == []
    modules[names[0]].write_text("")
    function(Setting(3, 0.5), 1e-6)
    function, calls = asked()
    function(Setting(3, 0.5), 1e-5)
    assert len(calls) == 1


def test_a_module_outside_that_a_figure_imports_would_be_seen_to_be_missing(copied):
    """The control: a function of the accountant that imports something of the simulator."""
    (copied / "p2p_sim" / "network").mkdir()
    (copied / "p2p_sim" / "network" / "__init__.py").write_text("")
    (copied / "p2p_sim" / "network" / "rounding.py").write_text("UP = 1.0\n")
    path = copied / "p2p_sim" / "privacy" / "bound.py"
    path.write_text(
        path.read_text() + "\ndef rounded():\n    from p2p_sim.network import rounding\n    return rounding\n"
    )
    modules, covered = imported(copied, with_figures(copied)), set(room.sources().values())
    assert {name for name, path in modules.items() if path not in covered} == {
        "p2p_sim.network",
        "p2p_sim.network.rounding",
    }


def test_modules_that_are_added_moved_or_removed_make_another_version(copied):
    before = room.version()
    file = copied / "p2p_sim" / "privacy" / "rivals" / "rounding.py"
    file.write_text("UP = 1.0\n")
    added = room.version()
    file.rename(file.parent.parent / "exchange" / "rounding.py")
    moved = room.version()
    (file.parent.parent / "exchange" / "rounding.py").unlink()
    assert room.version() == before
    assert len({before, added, moved}) == 3


@pytest.mark.parametrize("library", ["numpy", "scipy", "dp-accounting"])
def test_another_version_of_a_library_is_another_version(copied, monkeypatch, library):
    before, whole = room.version(), importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0" if name == library else whole(name))
    assert room.version() != before

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert room.version() != before


def test_libraries_that_the_accountant_imports_are_those_of_the_key():
    """What comes from elsewhere and computes; the others keep and find figures."""
    known = {"numpy": "numpy", "scipy": "scipy", "dp_accounting": "dp-accounting"}
    names = set()
    for path in imported(ROOT, with_figures(ROOT)).values():
        names |= {name.partition(".")[0] for name in names_imported(path)}
    others = names - sys.stdlib_module_names - {"p2p_sim", "platformdirs"}
    assert {known[name] for name in others} <= set(room.LIBRARIES)


def test_what_was_edited_since_it_was_imported_is_not_kept(copied, place, monkeypatch):
    """A process that imported the accountant before an edit must not leave its figures under the edited code's key."""
    monkeypatch.setattr(room, "_IMPORTED", time.time() + 1.0)
    assert room.version() is not None
    late = copied / "p2p_sim" / "privacy" / "bound.py"
    os.utime(late, (time.time() + 10.0,) * 2)
    assert room.version() is None
    for _ in range(2):
        function, calls = asked()
        assert function(Setting(3, 0.5), 1e-5) == TOLD
        assert len(calls) == 1
    assert not place.exists()


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
        "import sys; from p2p_sim.privacy import LabelExchange\n"
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
    plan = make_plan("made", scenario, [Axis(key="mechanism.flip_prob", values=(0.1, 0.2))], 2)
    for name in ("cold", "warm", "workers"):
        run_sweep(plan, tmp_path / name, LocalProcesses(2) if name == "workers" else None)
    monkeypatch.setenv(room.VARIABLE, room.OFF)
    run_sweep(plan, tmp_path / "none")
    rows = {name: (tmp_path / name / ROWS).read_bytes() for name in ("cold", "warm", "workers", "none")}
    assert rows["cold"]
    assert set(rows.values()) == {rows["cold"]}
    assert place.exists()
