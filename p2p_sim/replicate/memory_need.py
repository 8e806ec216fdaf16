"""Whether a replicate can fit into this machine's memory, asked before anything is drawn."""

import os
import sys
from pathlib import Path

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import BLOCK
from p2p_sim.exchange.adversaries import NOBODY
from p2p_sim.exchange.peers import ONE_PEER
from p2p_sim.population.clustering import GivenClusters
from p2p_sim.population.measured_groups import CLUSTER_SIZE
from p2p_sim.population.synthetic import SyntheticConfig
from p2p_sim.scenario import Scenario

BYTES_A_USER = 78
"""Memory of a replicate for each user: the least that was measured, so that no run is refused that would fit.

Measured as the rise of the peak of the process (`ru_maxrss`) over that after the imports, with the synthetic law of 20
clusters and logistic regression. Label exchange, vectorised: 84 bytes with 1,000,000 users, 78 with 4,000,000; as
events: 112 with 500,000, 88 with 2,000,000. Randomised response: 99 with 3,000,000.
"""
SHARD_BYTES_A_USER = {"vectorised": 25, "events": 110, "processes": 3_900}
"""Memory for each user of the largest shard, where users are drawn shard by shard; with all users in one cluster:
26 bytes with 2,000,000 and 4,000,000 users, as events 120, or 112 to 114 with loss and retries; as processes 3,900 to
4,100 with 20,000 and 60,000."""
REQUEST_BYTES = {"vectorised": 0, "events": 45, "processes": 3_000}
"""Memory of a user's shard for each further request of hers; as events 43 to 62, asking 3, 5 and 9 peers with 400,000
and 1,000,000 users, and as processes 3,000 to 3,500 with 10,000 and 30,000. The vectorised engine has one at a time."""
BYTES_A_POINT = 110
"""Memory for each point of the law where users are drawn shard by shard, before anything is learned; 112 with 1,000,000
points."""
ASKED_FROM = 1_000_000
"""Users from which on anybody asks."""


def streams(scenario: Scenario) -> bool:
    """Whether a row of the scenario can be had without holding its users: they are drawn shard by shard.

    The population must be the synthetic law in its own clusters, labels hard and sent shard by shard over the complete
    overlay by users who are always online and follow the protocol, and the learner one that learns from counts. Errors
    by cluster size are not asked for.
    """
    mechanism, network = scenario.mechanism, scenario.network
    return (
        isinstance(scenario.population, SyntheticConfig)
        and isinstance(scenario.clusters, GivenClusters)
        and mechanism.by_shard
        and mechanism.releases == "hard"
        and network.by_shard
        and scenario.adversaries == NOBODY
        and scenario.learner.takes_counts
        and CLUSTER_SIZE not in scenario.groups
    )


def check_memory(scenario: Scenario, rows_alone: bool = False) -> None:
    """Refuse more users than the free memory can hold.

    Args:
        scenario: what is to be run. rows_alone: users are drawn shard by shard, so that only the largest shard is held.

    Raises:
        InputError: names the number of users, the memory that they need and the memory that is free.
    """
    population = scenario.population
    users, fixed, clusters, each = getattr(population, "users", None), 0, 1, BYTES_A_USER
    if not isinstance(users, int) or users < ASKED_FROM:
        return
    hint = "; p2p-sim run, which keeps only rows, needs less" if streams(scenario) else ""
    if rows_alone and isinstance(population, SyntheticConfig):
        # one shard at a time: a cluster's users, and the counts at all points
        clusters, asking = population.num_clusters, getattr(scenario.mechanism, "asking", ONE_PEER)
        each = SHARD_BYTES_A_USER[scenario.engine] + round((asking.requests - 1) * REQUEST_BYTES[scenario.engine])
        fixed, hint = clusters * population.points_per_cluster * BYTES_A_POINT, ", or smaller clusters"
    free, needed = free_memory(), fixed + max(users // clusters, BLOCK) * each
    if free is not None and needed > free:
        most = max(free - fixed, 0) // each * clusters
        raise InputError(
            f"population.users = {users}: a replicate needs at least {_size(needed)} of memory, and "
            f"{_size(free)} are free here; take at most about {_two_digits(most):,} users{hint}"
        )


def replicates_that_fit(scenario: Scenario) -> int:
    """How many replicates fit into the free memory at a time, at least 1, if each takes twice the least."""
    users, free = getattr(scenario.population, "users", None), free_memory()
    if not isinstance(users, int) or users < ASKED_FROM or free is None:
        return sys.maxsize
    return max(int(free // (2 * users * BYTES_A_USER)), 1)


def free_memory(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that this process may still take: of the machine and, in a container, of its limit; None if not known."""
    limits = [*_available(meminfo), *_unused_of_limit(group)]
    if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        # all memory of the machine, where the system does not state what is free
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return min(limits, default=None)


def _available(meminfo: Path) -> list[int]:
    """Bytes that the machine has free; nothing where the system has no such file."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return [int(lines["MemAvailable"].split()[0]) * 1024]
    except (OSError, ValueError, KeyError):
        return []


def _unused_of_limit(group: Path) -> list[int]:
    """Bytes that a container may take until it reaches its limit; nothing where it has none."""
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
