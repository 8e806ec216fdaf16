"""The wheel alone, without the checkout: unpacked elsewhere, it holds one package and does what the first pages show.

`make validate` does more, with a real installation (tests/validation/test_installed.py).
"""

import os
import subprocess
import sys
import sysconfig

import pytest

from p2p_sim.base.shipped_files import shipped
from tests.conftest import ROOT
from tests.plug_ins import install_example
from tests.wheels import built, copied, names, unpacked

SCRIPT = """
import contextlib, importlib.util, io, pathlib, sys
import p2p_sim
from p2p_sim.cli.main import main

def p2p(*arguments):
    sys.argv, status = ["p2p-sim", *arguments], 0
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    assert status == 0, arguments
    return out.getvalue()

if __name__ == "__main__":
    site = pathlib.Path(sys.argv[1])
    assert pathlib.Path(p2p_sim.__file__).is_relative_to(site)
    assert importlib.util.find_spec("analysis") is None
    print(p2p("--version").split(",")[0], len(p2p("scenarios").splitlines()), "lines")
    fast = ("--engine", "vectorised", "--set", "replicates=1")
    p2p("run", "quickstart", *fast)
    p2p("run", "network/availability-trace", "--set", "replicates=1", "--set", "population.users=90")
    p2p("run", "own_mechanism/own", "--set", "replicates=1", "--set", "population.users=400")
    p2p("sweep", "privacy-utility", "--dry-run")
    wine = p2p_sim.load_scenario("wine").replace(engine="vectorised")
    rows = p2p_sim.sweep(wine, {"mechanism.flip_prob": [0.1, 0.2]}, replicates=1, out="results/sweep")
    print(p2p("report", "results/sweep").strip(), len(rows), "rows")
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what the wheel is made of."""
    return copied(tmp_path_factory.mktemp("source") / "tree")


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """The wheel, built from the checkout's files."""
    return built(source, "build_wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_adds_one_package_with_all_that_is_shipped(wheel):
    files = names(wheel)
    tops = {name.split("/")[0] for name in files}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"p2p_sim"}
    here = {path.relative_to(ROOT).as_posix() for path in shipped().values()}
    modules = {path.relative_to(ROOT / "p2p_sim").as_posix() for path in (ROOT / "p2p_sim").rglob("*.py")}
    others = {"scenarios/network/friends.edges", "examples/own_mechanism/pyproject.toml", "population/data_sets.toml"}
    assert [name for name in sorted(here | modules | others) if f"p2p_sim/{name}" not in files] == []


def test_an_editable_installation_reads_the_checkout(source, tmp_path):
    files = names(built(source, "build_editable", tmp_path))
    assert [name for name in files if name.startswith(("p2p_sim/", "scenarios/", "examples/"))] == []
    script = "from p2p_sim.base.shipped_files import EXAMPLES, SCENARIOS; print(SCENARIOS, EXAMPLES, sep='\\n')"
    call = [sys.executable, "-S", "-c", script]
    done = subprocess.run(call, cwd=source, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(source / "scenarios"), str(source / "examples")]


def test_folders_beside_the_package_are_read_only_if_they_are_of_this_project(source, tmp_path):
    """Where a package of another project stands beside p2p_sim, as in site-packages."""
    (tmp_path / "p2p_sim").symlink_to(source / "p2p_sim")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "another"\n')
    script = "from p2p_sim.base.shipped_files import SCENARIOS; print(SCENARIOS)"
    call = [sys.executable, "-S", "-c", script]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "p2p_sim" / "scenarios")


@pytest.mark.slow
def test_a_source_distribution_leads_to_the_same_wheel(source, wheel, tmp_path):
    tree = unpacked(built(source, "build_sdist", tmp_path / "sdist"), tmp_path / "tree")
    assert names(built(tree, "build_wheel", tmp_path / "again")) == names(wheel)


@pytest.mark.slow
def test_the_unpacked_wheel_does_without_the_checkout(wheel, tmp_path):
    site, plug_in, here = unpacked(wheel, tmp_path / "site"), tmp_path / "plug-in", tmp_path / "here"
    plug_in.mkdir()
    here.mkdir()
    install_example(plug_in)
    (here / "script.py").write_text(SCRIPT)
    path = os.pathsep.join(map(str, (site, plug_in, sysconfig.get_path("purelib"))))
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "P2P_SIM_DATA")}
    call = [sys.executable, "-S", "script.py", str(site)]  # -S: no .pth file leads back to the checkout
    done = subprocess.run(
        call, cwd=here, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"p2p-sim {site_version(site)} {len(shipped()) + 5} lines", "results/sweep/report.html 2 rows",
    ]  # fmt: skip
    assert (here / "results" / "sweep" / "report.html").stat().st_size > 10_000
    assert {path.name.rpartition("-")[0] or path.name for path in (here / "results").iterdir()} == {
        "quickstart", "availability-trace", "own", "sweep",
    }  # fmt: skip


def site_version(site) -> str:
    """The version that the wheel's metadata name."""
    [info] = site.glob("p2p_sim-*.dist-info")
    return info.name.removeprefix("p2p_sim-").removesuffix(".dist-info")
