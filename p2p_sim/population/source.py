"""What every source of users is."""

from abc import abstractmethod
from pathlib import Path

from p2p_sim.base.config import Config
from p2p_sim.base.streams import Streams
from p2p_sim.population.population import Sample


class Source(Config):
    """The base of all configurations of a population."""

    kind: str

    @property
    def known_classes(self) -> int | None:
        """K, if it is known before the data is read."""
        return None

    @property
    def clustered(self) -> bool:
        """Whether users come with clusters; a scenario without a clustering of its own then uses these."""
        return False

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Files that are read; their checksums are part of the scenario's identity. By default none.

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
