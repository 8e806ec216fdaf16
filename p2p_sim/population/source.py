"""What every source of users is."""

from abc import abstractmethod
from pathlib import Path

from p2p_sim.base.config import Config
from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Sample


class Source(Config):
    """The base of what a scenario says of its population."""

    kind: str

    @property
    def known_classes(self) -> int | None:
        """K, as far as it is known before the data is read."""
        return None

    @property
    def clustered(self) -> bool:
        """Whether users come with clusters of their own, which a scenario that says nothing else then takes."""
        return False

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Files that are read, whose checksums enter the scenario's identity; none here.

        Args:
            places: directories in which they are looked for, first match wins.

        Raises:
            InputError: one is missing.
        """
        return []

    @abstractmethod
    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Draw the users of one replicate, and a holdout or the law.

        Args:
            places: directories in which files are looked for. streams: the replicate's random streams.

        Raises:
            InputError: a file is missing or damaged.
        """
