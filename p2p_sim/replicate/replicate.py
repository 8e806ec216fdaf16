"""One replicate of a scenario as one value (scenario, index, directory of data), and the memory that it needs."""

import os
import sys
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

from cachetools import LRUCache, cached

from p2p_sim.base import BLOCK, InputError, Streams, is_a
from p2p_sim.exchange import NOBODY, ONE_PEER
from p2p_sim.population import CLUSTER_SIZE, GivenClusters, Population, SyntheticConfig, build_population, checksum
from p2p_sim.scenario import Scenario, load_scenario

KEPT = 2**27
"""Two caches for later replicates, of users and of models without privacy, may each hold this number of bytes."""
BYTES_A_USER = 78
"""Bytes of memory for each user of a replicate: the least that was measured, so that no run is refused that would fit.

Measured as the rise of the process's peak memory (`ru_maxrss`) after the imports, with the synthetic law of 20 clusters
and logistic regression. Label exchange with the engine "vectorised": 84 bytes with 1,000,000 users, 78 with 4,000,000;
with "events": 112 with 500,000, 88 with 2,000,000. Randomised response: 99 with 3,000,000.
"""
SHARD_BYTES_A_USER = {"vectorised": 25, "events": 110, "processes": 3_900}
"""Bytes for each user of the largest shard (a group of whole clusters), by engine, if users are drawn shard by shard.
Measured with all users in one cluster. "vectorised": 26, with 2,000,000 and 4,000,000 users. "events": 120, or 112 to
114 with loss and retries. "processes": 3,900 to 4,100, with 20,000 and 60,000 users."""
REQUEST_BYTES = {"vectorised": 0, "events": 45, "processes": 3_000}
"""Bytes for each request of a user after her first, by engine. Measured with users who ask 3, 5 and 9 peers. "events":
43 to 62, with 400,000 and 1,000,000 users. "processes": 3,000 to 3,500, with 10,000 and 30,000 users. "vectorised": 0;
here requests are drawn one at a time."""
BYTES_A_POINT = 110
"""Bytes for each point (possible feature vector) of the population's law, before anything is learned. This counts if
users are drawn shard by shard. Measured: 112 with 1,000,000 points."""
ASKED_FROM = 1_000_000
"""The memory is checked if there are at least this many users."""


@dataclass(frozen=True)
class Replicate:
    """One replicate of a scenario.

    Args:
        scenario: what to run.
        replicate: index of the replicate. An index gives the same numbers on every machine with the same libraries.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
    """

    scenario: Scenario
    replicate: int = 0
    data_dir: Path | None = None

    @cached_property
    def places(self) -> tuple[Path, ...]:
        """Directories in which files are looked for: first the scenario file's, then that of data files, if any."""
        return self.scenario.places(data_directory(self.data_dir))

    @cached_property
    def streams(self) -> Streams:
        """The random streams of the replicate."""
        return Streams(self.scenario.seed, self.replicate, self.scenario.noise_salt)

    @cached_property
    def checksums(self) -> tuple[str, ...]:
        """SHA-256 of each file that the scenario names: first the population's files, then the network's."""
        files = (*self.scenario.population.files(self.places), *self.scenario.network.files(self.places))
        return tuple(checksum(path) for path in files)

    @cached_property
    def identity(self) -> str:
        """The scenario's content hash, with the checksums of its files. All replicates have the same hash."""
        return self.scenario.content_hash(self.checksums)

    @property
    def people_key(self) -> tuple[Hashable, ...]:
        """The key under which users are kept in memory: everything on which the users of the replicate depend."""
        scenario = self.scenario
        states = ((path, path.stat()) for path in scenario.population.files(self.places))
        files = tuple((path, state.st_mtime_ns, state.st_size) for path, state in states)
        source = type(scenario.population), scenario.population.model_dump_json()  # an edited class has another type
        clusters = scenario.clusters.model_dump_json()
        return source, clusters, *scenario.groups, files, scenario.seed, self.replicate

    @cached(LRUCache(KEPT, lambda people: people.features.nbytes), key=lambda case: case.people_key, lock=Lock())
    def people(self) -> Population:
        """The users of the replicate. The last few are kept for replicates that differ only in the mechanism."""
        scenario = self.scenario
        return build_population(scenario.population, scenario.clusters, self.places, self.streams, scenario.groups)


def scenario_of(source: Scenario | str | Path) -> Scenario:
    """The scenario that an argument gives: the argument itself, or the content of the file that the argument names.

    A file is named by its path, or by the name of a shipped scenario.

    Raises:
        InputError: the argument is neither, or the file cannot be read.
    """
    if isinstance(source, Scenario):
        return source
    if isinstance(source, str | os.PathLike):
        return load_scenario(source)
    hint = "; Scenario.from_tree makes one of it" if isinstance(source, Mapping) else ""
    raise InputError(f"scenario {is_a(source)}: must be a Scenario or the path of a scenario file{hint}")


def identity(scenario: Scenario, data_dir: Path | None = None) -> str:
    """The content hash of a scenario, which covers the checksums of its files."""
    return Replicate(scenario, data_dir=data_dir).identity


def default_directory(name: str, hash_: str) -> Path:
    """The directory of results if none is named: results/<name>-<first 8 digits of the hash>."""
    return Path("results") / f"{name}-{hash_[:8]}"


def directory_of(scenario: Scenario, data_dir: Path | None = None) -> Path:
    """The directory of a scenario's results if none is named."""
    return default_directory(scenario.name, identity(scenario, data_dir))


def data_directory(data_dir: Path | None = None) -> Path | None:
    """The directory of data files: `data_dir`; if None, the value of the environment variable P2P_SIM_DATA, if any."""
    if data_dir is not None:
        return data_dir
    named = os.environ.get("P2P_SIM_DATA")
    return Path(named) if named else None


def streams(scenario: Scenario) -> bool:
    """Whether a row of results can be computed without all users in memory. Users are then drawn and run shard by shard
    (a shard is a group of whole clusters), and only counts are kept.

    - The population must be the synthetic law with its own clusters.
    - The mechanism must be able to run on a shard alone, and send hard labels.
    - The overlay must be complete, users always online, the learner's bandwidth unlimited, and adversaries absent.
    - The learner must be able to learn from counts of labels at the points of the law.
    - Error rates must not be asked for by cluster size (`groups`).
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
    """Refuse more users than the free memory can hold; fewer than 1,000,000 users are never refused.

    Args:
        scenario: what is to be run. rows_alone: whether users are drawn shard by shard. Then only the largest shard is
        held in memory.

    Raises:
        InputError: there are too many users. The message has their number, the memory needed and the free memory.
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
        unit = 10 ** max(len(str(most)) - 2, 0)  # the message gives two digits of the number
        raise InputError(
            f"population.users = {users}: a replicate needs at least {needed / 1e9:.3g} GB of memory, and "
            f"{free / 1e9:.3g} GB are free here; take at most about {most // unit * unit:,} users{hint}"
        )


def replicates_that_fit(scenario: Scenario) -> int:
    """How many replicates fit into the free memory at a time, at least 1, with 2 · 78 bytes for each user.

    With fewer than 1,000,000 users, or unknown free memory, the result is the largest integer.
    """
    users, free = getattr(scenario.population, "users", None), free_memory()
    if not isinstance(users, int) or users < ASKED_FROM or free is None:
        return sys.maxsize
    return max(int(free // (2 * users * BYTES_A_USER)), 1)


def free_memory(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes of free memory: of the machine or, if fewer, of its container. If both are unknown, all memory of the
    machine; None if this is unknown, too.

    Args:
        meminfo: the system's file on memory. group: the container's directory of limits.
    """
    limits = []
    with suppress(OSError, ValueError, KeyError):
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        limits.append(int(lines["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # "max": the container has no limit
        limit, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        limits.append(max(int(limit) - int(used), 0))
    if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        # all memory of the machine, if the system does not state what is free
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return min(limits, default=None)
