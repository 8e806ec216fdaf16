"""One replicate of a scenario as one value: what to run, which repetition, where its files are."""

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

from cachetools import LRUCache, cached

from p2p_sim.base.errors import InputError, is_a
from p2p_sim.base.streams import Streams
from p2p_sim.population.build import build_population
from p2p_sim.population.data_files import checksum
from p2p_sim.population.population import Population
from p2p_sim.scenario import Scenario, load_scenario

KEPT = 2**27
"""Bytes of the users that are kept for the next cases."""


@dataclass(frozen=True)
class Replicate:
    """One replicate of a scenario.

    Args:
        scenario: what to run.
        replicate: its index; the same index gives the same numbers on every machine with the same libraries.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
    """

    scenario: Scenario
    replicate: int = 0
    data_dir: Path | None = None

    @cached_property
    def places(self) -> tuple[Path, ...]:
        """Directories in which the files of the scenario are looked for."""
        return self.scenario.places(data_directory(self.data_dir))

    @cached_property
    def streams(self) -> Streams:
        """The random streams of the replicate."""
        return Streams(self.scenario.seed, self.replicate, self.scenario.noise_salt)

    @cached_property
    def checksums(self) -> tuple[str, ...]:
        """SHA-256 of each file that the scenario names."""
        files = (*self.scenario.population.files(self.places), *self.scenario.network.files(self.places))
        return tuple(checksum(path) for path in files)

    @cached_property
    def identity(self) -> str:
        """The scenario's content hash, the checksums of its files included; the same for every replicate."""
        return self.scenario.content_hash(self.checksums)

    @property
    def people_key(self) -> tuple[Hashable, ...]:
        """Everything that the users of the replicate depend on."""
        scenario = self.scenario
        states = ((path, path.stat()) for path in scenario.population.files(self.places))
        files = tuple((path, state.st_mtime_ns, state.st_size) for path, state in states)
        source = type(scenario.population), scenario.population.model_dump_json()  # an edited class is another one
        people = source, scenario.clusters.model_dump_json()
        return *people, *scenario.groups, files, scenario.seed, self.replicate

    @cached(LRUCache(KEPT, lambda people: people.features.nbytes), key=lambda case: case.people_key, lock=Lock())
    def people(self) -> Population:
        """The users of the replicate; the last ones drawn are kept, since other mechanisms meet them as well."""
        scenario = self.scenario
        return build_population(scenario.population, scenario.clusters, self.places, self.streams, scenario.groups)


def scenario_of(source: Scenario | str | Path) -> Scenario:
    """A scenario, or the one that a file holds.

    Raises:
        InputError: it is neither, or the file cannot be read.
    """
    if isinstance(source, Scenario):
        return source
    if isinstance(source, str | os.PathLike):
        return load_scenario(source)
    hint = "; Scenario.from_tree makes one of it" if isinstance(source, Mapping) else ""
    raise InputError(f"scenario {is_a(source)}: must be a Scenario or the path of a scenario file{hint}")


def identity(scenario: Scenario, data_dir: Path | None = None) -> str:
    """The content hash of a scenario, the checksums of its files included."""
    return Replicate(scenario, data_dir=data_dir).identity


def default_directory(name: str, hash_: str) -> Path:
    """Where results go if nothing else is said: results/<name>-<first 8 digits of the hash>."""
    return Path("results") / f"{name}-{hash_[:8]}"


def directory_of(scenario: Scenario, data_dir: Path | None = None) -> Path:
    """Where the results of a scenario go if nothing else is said."""
    return default_directory(scenario.name, identity(scenario, data_dir))


def data_directory(data_dir: Path | None = None) -> Path | None:
    """The directory of data files: the argument, else the environment variable P2P_SIM_DATA, else none."""
    if data_dir is not None:
        return data_dir
    named = os.environ.get("P2P_SIM_DATA")
    return Path(named) if named else None
