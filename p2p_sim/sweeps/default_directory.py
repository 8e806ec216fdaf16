"""Where results go if nothing else is said."""

from pathlib import Path

from p2p_sim.replicate.replicate import identity
from p2p_sim.scenario import Scenario


def default_directory(name: str, hash_: str) -> Path:
    """results/<name>-<first 8 digits of the hash>, below the current directory."""
    return Path("results") / f"{name}-{hash_[:8]}"


def directory_of(scenario: Scenario, data_dir: Path | None = None) -> Path:
    """Where the results of a scenario go if nothing else is said."""
    return default_directory(scenario.name, identity(scenario, data_dir))
