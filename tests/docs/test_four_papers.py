"""The page on the four papers: each command on it runs, at reduced size, and is of the section's paper.

One is left out, as the page says: it trains networks.
"""

import os
import re
import shlex
from pathlib import Path

import pytest

from p2p_sim.base.shipped_files import find_scenario
from p2p_sim.base.toml import read_toml
from p2p_sim.results.rows import stored_rows
from p2p_sim.sweeps.catalogue import DATA_SET, DEEP, catalogue, is_here
from tests.commands import command
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "four-papers.md").read_text(encoding="utf-8")
KEYS = re.findall(r"`p2p-sim scenarios --paper (\w+\d+\w+)`", PAGE)
COMMANDS = sorted(set(re.findall(r"`p2p-sim ((?:run|sweep) [^`]+)`", PAGE)))
USERS = 1000
TRAINS_NETWORKS = "sweep vector/mnist"


def smaller(verb: str, name: str) -> list[str]:
    """Options with which a shipped scenario or sweep runs in a moment."""
    path = find_scenario(Path(name), verb == "sweep")
    tree = read_toml(path)
    base = read_toml(find_scenario(tree["base"], folder=path.parent)) if "base" in tree else tree
    small = ["replicates=1"]
    if name == "clustering-figure1/mnist":
        small += ["population.users=500", "clusters.count=5", "learner.max_iterations=5"]
    if "users" in base["population"] and not any("population.users" in str(axis) for axis in tree.get("axes", ())):
        small.append(f"population.users={min(USERS, base['population']['users'])}")
    if "sizes" in base["population"]:
        small.append(f"population.sizes={[USERS] * min(3, len(base['population']['sizes']))}")
    return [option for value in small for option in ("--set", value)]


def test_every_paper_has_a_section():
    assert KEYS == [
        "esfandiari2022clustering", "zhao2025vector", "yao2019stacking", "bousquet2022consistency",
    ]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_the_commands_of_a_section_are_of_its_paper(key):
    section = next(part for part in PAGE.split("\n## ") if f"--paper {key}`" in part)
    named = {shlex.split(line)[1] for line in re.findall(r"`p2p-sim ((?:run|sweep) [^`]+)`", section)}
    assert named
    assert named <= {entry.name for entry in catalogue(key)} | {"dp-sgd", "comparison"}


@pytest.mark.parametrize("key", KEYS)
def test_the_list_of_a_paper_has_its_scenarios(key):
    status, out, err = command("scenarios", "--paper", key)
    assert (status, err) == (0, "")
    assert all(f"\n{entry.name} " in out for entry in catalogue(key))


OWN_SWEEPS = {
    "curator-released": ("mechanism.noise_scale", [0.5, 2.0]),
    "consistency/pcl2b": ("mechanism.target_epsilon", [1.0, 10.0]),
    "consistency/semi-supervised": ("mechanism.target_epsilon", [1.0, 10.0]),
    "consistency/histogram": ("mechanism.target_epsilon", [1.0, 10.0]),
    "models/pst-h-uniform": ("mechanism.epsilon", [1.0, 4.0]),
    "models/pst-h-weighted": ("mechanism.epsilon", [1.0, 4.0]),
    "models/pphtl": ("mechanism.pull", [0.01, 0.1]),
}
"""A key to sweep of each system that no shipped sweep has."""


@pytest.mark.parametrize(("name", "axis"), OWN_SWEEPS.items())
def test_a_system_without_a_shipped_sweep_can_be_swept(name, axis, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = find_scenario(Path(name))
    text = f'name = "own"\nbase = "{base}"\n\n[[axes]]\nkey = "{axis[0]}"\nvalues = {axis[1]}\n'
    Path("own.toml").write_text(text, encoding="utf-8")
    status, _, err = command("sweep", "own.toml", *smaller("run", name), "--out", "out")
    assert status == 0, err
    assert stored_rows("out")[axis[0]].tolist() == axis[1]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line != TRAINS_NETWORKS])
def test_a_command_of_the_page_runs(line, tmp_path, monkeypatch):
    verb, name, *options = shlex.split(line)
    entry = next(entry for entry in catalogue() if (entry.name, entry.sweep) == (name, verb == "sweep"))
    for need in entry.needs:
        if is_here(need) is False and (need.startswith(DATA_SET) or need == DEEP):
            pytest.skip(f"needs {need}")
    if "news20" in name and not os.environ.get("P2P_SIM_DATA"):
        pytest.skip("needs the documents of NEWS20")
    monkeypatch.chdir(tmp_path)
    status, _, err = command(verb, name, *smaller(verb, name), *options, "--out", "out")
    assert status == 0, err
    rows = stored_rows("out")
    assert len(rows) >= 1
    assert (rows["replicate"] == 0).all()
