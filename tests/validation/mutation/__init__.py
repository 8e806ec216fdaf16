"""Mutation testing of the privacy code and of the protocol: does some test fail when one line is wrong?

A seeded, uniform sample of small changes is drawn; each is judged by the tests that ran the changed line, in a process
of its own. `python -m tests.validation.mutation --help`.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("p2p_sim/privacy", "p2p_sim/exchange")
"""What is mutated, below `ROOT`."""
