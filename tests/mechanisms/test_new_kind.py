"""A mechanism of p2p-sim's own is added by three files: its own, its accountant's and its test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

ACCOUNTANT = '''
"""Half-hidden labels: with probability p a label is told, else a user stays silent."""

from dataclasses import dataclass

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.where_bounds_hold import ANYWHERE


@dataclass(frozen=True)
class HalfHidden(Accountant):
    """delta(epsilon) = p, whatever epsilon: a told label gives itself away."""

    requires = ANYWHERE
    told: float

    @property
    def conditions(self) -> tuple[str, ...]:
        return ("whether a label is told depends on no label",)

    def delta(self, epsilon: float) -> Bracket:
        return Bracket(self.told, self.told)
'''
MECHANISM = '''
"""Half-hidden labels."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from p2p_sim.base.streams import bernoulli
from p2p_sim.mechanisms.mechanism import Column, Mechanism
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.privacy.rivals.half_hidden import HalfHidden


class HalfHiddenConfig(Mechanism):
    """A label is told with probability p."""

    kind: Literal["half_hidden"] = "half_hidden"
    columns: ClassVar[tuple[Column, ...]] = (Column("told", "probability that a label is told"),)
    told: float = Field(ge=0, le=1)
    """p: probability that a label is told, 0 to 1."""

    def release(self, labels, features, clusters, streams):
        users = np.flatnonzero(bernoulli(streams.generator("flip"), self.told, labels.size)).astype(np.int32)
        return LabelRelease(users, labels[users])

    def accountant(self, setup, size):
        return HalfHidden(self.told)
'''
TEST = """
import p2p_sim
from p2p_sim.scenario import Scenario


def scenario(told):
    return Scenario.from_tree({
        "name": "hidden", "population": {"kind": "synthetic", "users": 400, "num_clusters": 2},
        "mechanism": {"kind": "half_hidden", "told": told}, "learner": {"kind": "table"},
        "privacy": {"delta": 0.1},
    })


def test_epsilon_is_nothing_or_infinite():
    assert p2p_sim.run(scenario(0.05)).row["epsilon_upper"] == 0.0
    row = p2p_sim.run(scenario(0.5)).row
    assert row["epsilon_upper"] == float("inf")
    assert (row["told"], row["trust"]) == (0.5, "nobody")
    assert 150 < row["submissions"] < 250


def test_the_schema_has_it_between_its_neighbours():
    kinds = list(Scenario.model_json_schema()["properties"]["mechanism"]["discriminator"]["mapping"])
    assert kinds == sorted(kinds) and "half_hidden" in kinds
"""
FILES = {
    "p2p_sim/privacy/rivals/half_hidden.py": ACCOUNTANT,
    "p2p_sim/mechanisms/half_hidden.py": MECHANISM,
    "test_half_hidden.py": TEST,
}


def passes(copy: Path) -> bool:
    """Whether the new mechanism's test passes in a copy of the product."""
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "test_half_hidden.py"]
    setting = {**os.environ, "PYTHONPATH": str(copy), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=copy, env=setting, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("lacking", [None, "p2p_sim/mechanisms/half_hidden.py"])
def test_a_new_mechanism_takes_its_own_file_its_accountants_and_its_test(tmp_path, lacking):
    """The control: without its own file the kind is not known."""
    shutil.copytree(ROOT / "p2p_sim", tmp_path / "p2p_sim", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        if name != lacking:
            (tmp_path / name).write_text(text.lstrip())
    assert passes(tmp_path) is (lacking is None)
    assert len(FILES) == 3
