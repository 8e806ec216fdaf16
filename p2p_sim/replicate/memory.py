"""Whether a replicate can fit into this machine's memory, asked before anything is drawn."""

import os
import sys
from pathlib import Path

from p2p_sim.base.errors import InputError
from p2p_sim.scenario import Scenario

BYTES_A_USER = 78
"""Memory of a replicate for each user: the least that was measured, so that no run is refused that would fit.

Measured as the rise of the peak of the process (`ru_maxrss`) over that after the imports, with the synthetic law of 20
clusters and logistic regression. Label exchange, vectorised: 84 bytes with 1,000,000 users, 78 with 4,000,000; as
events: 112 with 500,000, 88 with 2,000,000. Randomised response: 99 with 3,000,000.
"""
ASKED_FROM = 1_000_000
"""Users from which on anybody asks."""


def check_memory(scenario: Scenario) -> None:
    """Refuse more users than the free memory can hold.

    Raises:
        InputError: names the number of users, the memory that they need and the memory that is free.
    """
    users = getattr(scenario.population, "users", None)
    if not isinstance(users, int) or users < ASKED_FROM:
        return
    free = free_memory()
    if free is not None and users * BYTES_A_USER > free:
        raise InputError(
            f"population.users = {users}: a replicate needs at least {_size(users * BYTES_A_USER)} of memory, and "
            f"{_size(free)} are free here; take at most about {_two_digits(free // BYTES_A_USER):,} users"
        )


def replicates_that_fit(scenario: Scenario) -> int:
    """How many replicates fit into the free memory at a time, at least 1, if each takes twice the least."""
    users, free = getattr(scenario.population, "users", None), free_memory()
    if not isinstance(users, int) or users < ASKED_FROM or free is None:
        return sys.maxsize
    return max(int(free // (2 * users * BYTES_A_USER)), 1)


def free_memory(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that this process may still take: of the machine and, in a container, of its limit; None if not known."""
    found = [*_available(meminfo), *_left(group)]
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found = [
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        ]  # all there is, where nobody says what is free
    return min(found, default=None)


def _available(meminfo: Path) -> list[int]:
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return [int(lines["MemAvailable"].split()[0]) * 1024]
    except (OSError, ValueError, KeyError):
        return []


def _left(group: Path) -> list[int]:
    try:
        limit, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        return [max(int(limit) - int(used), 0)]  # "max": no limit
    except (OSError, ValueError):
        return []


def _size(count: float) -> str:
    """Bytes in words, rounded.

    >>> _size(156e9), _size(2e8)
    ('156 GB', '0.2 GB')
    """
    return f"{count / 1e9:.3g} GB"


def _two_digits(count: int) -> int:
    """The two leading digits of a count, the rest zero.

    >>> _two_digits(308_929_089), _two_digits(7)
    (300000000, 7)
    """
    unit: int = 10 ** max(len(str(count)) - 2, 0)
    return count // unit * unit
