"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
collect_ignore_glob = ["validation/mutation/*"]  # a program with libraries of its own, not tests


@pytest.fixture
def data_dir() -> Path:
    """The directory of benchmark data; without it the test is skipped."""
    named = os.environ.get("P2P_SIM_DATA")
    if not named or not Path(named).is_dir():
        pytest.skip("P2P_SIM_DATA names no directory of benchmark data")
    return Path(named)


@pytest.fixture
def scenarios() -> Path:
    """The directory of shipped scenario files."""
    return ROOT / "scenarios"
