"""Mutation testing of the privacy code and of the protocol: does some test fail when one line is wrong?

A seeded, uniform sample of small changes is drawn; each is judged by the tests that ran the changed line, in a process
of its own. `python -m tests.validation.mutation --help`.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("analysis/privacy", "p2p_sim/protocol")
"""What is mutated, below `ROOT`."""


def imported(module: str) -> str:
    """The file as Python imports it: `p2p_sim/analysis` is a link to `analysis`."""
    return f"p2p_sim/{module}" if module.startswith("analysis/") else module
