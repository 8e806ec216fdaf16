"""Commands load a library when they use it, and public names are found where they always were."""

import importlib
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SLOW = {
    *("dask", "distributed", "dp_accounting", "jinja2", "joblib", "matplotlib", "networkx", "pandas"),
    *("pyarrow", "scipy.integrate", "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats", "sklearn"),
    "torch",
}
"""Libraries that take long to load."""
LIGHT = [
    ("--version",),
    ("validate", "quickstart"),
    ("validate", "sweeps/privacy-utility"),
    ("privacy", "--cluster-size", "100", "--flip-prob", "0.1", "--sampling-rate", "0.5", "--delta", "1e-6"),
    ("calibrate", "--cluster-size", "50", "--epsilon", "0.5", "--delta", "1e-6", "--sampling-rate", "0.5"),
    ("schema",),
    ("scenarios",),
    ("new", "mine", "--from", "quickstart"),
    ("data", "list"),
    ("cite", "quickstart"),
]
QUICK = ("--version", "privacy", "new")
"""Commands that are tried at once; `make validate` tries all."""
RUN = """
import sys
from p2p_sim.cli import main
{before}
sys.argv = ["p2p-sim", *sys.argv[1:]]
try:
    main.main()
except SystemExit as stop:
    print(stop.code, *sorted(sys.modules), file=sys.stderr)
"""


def loaded(arguments, folder, before=""):
    """The modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(before=before), *arguments],
        cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, *modules = done.stderr.splitlines()[-1].split()
    assert status in ("0", "None"), done.stderr
    return set(modules)


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(one, marks=[pytest.mark.slow] * (one[0] not in QUICK), id=one[0]) for one in LIGHT],
)
def test_a_command_pays_for_no_library_that_it_does_not_use(tmp_path, arguments):
    assert loaded(arguments, tmp_path) & SLOW == set()


@pytest.mark.slow
def test_the_bar_of_a_run_stands_before_its_libraries_are_loaded(tmp_path):
    """The control: the run itself loads some of them."""
    before = """
from contextlib import contextmanager
from p2p_sim.base import progress
@contextmanager
def progress_shown(*given, **more):
    print(*sorted(sys.modules), file=open("then", "w"))
    yield lambda *_: None
progress.progress_shown = progress_shown
"""
    settings = ("--set", "replicates=1", "--out", "out", "--quiet")
    assert loaded(("run", "quickstart", *settings), tmp_path, before) >= {"matplotlib", "pandas", "pyarrow", "sklearn"}
    assert set((tmp_path / "then").read_text().split()) & SLOW == set()


@pytest.mark.parametrize("name", ["p2p_sim", "p2p_sim.privacy", "p2p_sim.stacking"])
def test_names_that_are_imported_late_are_there_and_shown(name):
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package))
    assert [key for key in package.__all__ if getattr(package, key) is None] == []
    for key in package.__all__:
        home = getattr(getattr(package, key), "__module__", name)
        assert home.startswith((name, "builtins", "typing")), key
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
