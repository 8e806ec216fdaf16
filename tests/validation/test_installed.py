"""From the wheel alone, installed into an empty environment outside the checkout: what the first pages lead to."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.make_tutorial_figure import PAGE, PLOT, TERMINAL, steps
from p2p_sim.base.shipped_files import shipped
from tests.conftest import ROOT
from tests.wheels import built, copied

SCRIPT = """
import p2p_sim

scenario = p2p_sim.load_scenario("quickstart").replace(engine="vectorised")
rows = p2p_sim.sweep(scenario, {"mechanism.flip_prob": [0.1, 0.3]}, replicates=2, out="results/script", workers=2)
print(len(rows), "rows")
"""
NO_INDEX = re.compile(r"No matching distribution|Could not find a version|ConnectionError|Temporary failure|HTTPError")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The folder of an empty virtual environment with the wheel and what it depends on."""
    place = tmp_path_factory.mktemp("installed")
    wheel = built(copied(place / "tree"), "build_wheel", place / "wheel")
    subprocess.run([sys.executable, "-m", "venv", place / "env"], check=True)
    before = {path.name for path in packages(place / "env").iterdir()}
    call = [place / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    limits = ["--constraint", ROOT / "constraints.txt"]
    done = subprocess.run([*call, *limits, wheel], cwd=place, env=clean(), capture_output=True, text=True, check=False)
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    [info] = packages(place / "env").glob("p2p_sim-*.dist-info")
    recorded = {line.split("/")[0] for line in (info / "RECORD").read_text().splitlines() if not line.startswith("..")}
    assert "p2p_sim" not in before
    assert recorded == {"p2p_sim", info.name}
    return place / "env"


def packages(environment: Path) -> Path:
    """Where an environment's packages are."""
    [found] = environment.glob("lib/python*/site-packages")
    return found


def clean() -> dict[str, str]:
    """The environment variables without those that could lead to the checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "P2P_SIM_DATA")}


def shell(environment: Path, commands: str, folder: Path) -> str:
    """What commands print in a folder, with the programs of an environment; a failure shows what they printed."""
    path = os.pathsep.join([str(environment / "bin"), os.environ.get("PATH", "")])
    variables = {**clean(), "PATH": path, **TERMINAL, "VIRTUAL_ENV": str(environment)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=variables, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{commands}\n--- printed\n{done.stdout}"
    return done.stdout


@pytest.mark.slow
def test_the_installation_is_whole(environment, tmp_path):
    found = shell(environment, "python -c 'import p2p_sim; print(p2p_sim.__file__)'", tmp_path)
    assert Path(found.strip()).is_relative_to(environment)
    assert "ModuleNotFoundError" in shell(environment, "! python -c 'import analysis'", tmp_path)
    listed = shell(environment, "p2p-sim scenarios", tmp_path).splitlines()
    assert len(listed) == len(shipped()) + 5


@pytest.mark.slow
def test_the_tutorial(environment, tmp_path):
    missing = []
    for commands, shown in steps(PAGE.read_text(encoding="utf-8")):
        printed = shell(environment, commands, tmp_path)
        missing += [f"{line}\n--- of ---\n{printed}" for line in shown if line not in printed.splitlines()]
    assert missing == []
    assert (tmp_path / PLOT).is_file()


@pytest.mark.slow
def test_quickstart_a_sweep_from_a_script_and_a_report(environment, tmp_path):
    printed = shell(environment, "p2p-sim run quickstart --set replicates=3 --out results/first", tmp_path)
    assert "│ clusters of users " in printed
    (tmp_path / "script.py").write_text(SCRIPT)
    assert shell(environment, "python script.py", tmp_path).splitlines()[-1] == "4 rows"
    for name in ("first", "script"):
        assert shell(environment, f"p2p-sim report results/{name}", tmp_path).strip() == f"results/{name}/report.html"
        assert (tmp_path / "results" / name / "report.html").stat().st_size > 10_000


@pytest.mark.slow
def test_the_example_of_a_plug_in_is_copied_installed_and_run(environment, tmp_path):
    said = shell(environment, "p2p-sim run own_mechanism/own || true", tmp_path)
    assert "needs the plug-in own-mechanism: `p2p-sim scenarios --copy-example DIR` copies it" in said
    shell(environment, "p2p-sim scenarios --copy-example mine", tmp_path)
    shell(environment, "python -m pip install --quiet --disable-pip-version-check --editable mine", tmp_path)
    for name in ("own", "star", "jammed"):
        printed = shell(environment, f"p2p-sim run own_mechanism/{name} --set replicates=2", tmp_path)
        assert f"{name}: 2 replicates" in printed
    own = shell(environment, "cd mine && p2p-sim run own --set replicates=2 --out ../results/again", tmp_path)
    assert "comes with p2p-sim" not in own
