"""A run or sweep that cannot go on: how many of its replicates are kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from p2p_sim.base.errors import RunFailed


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with one line that says what is kept."""


@contextmanager
def counted(standing: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Whatever stops the work within says how many replicates are kept.

    Args:
        standing: replicates on disk, and replicates wanted.

    Raises:
        RunFailed, Interrupted: in place of a RunFailed, of a KeyboardInterrupt.
    """
    try:
        yield
    except RunFailed as error:
        raise RunFailed(f"{error}; {kept(*standing())}") from None
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {kept(*standing())}") from None


def kept(done: int, wanted: int) -> str:
    """How many replicates are on disk.

    >>> kept(3, 20), kept(0, 20)
    ('3 of 20 replicates are finished and kept: run the same again to go on', 'none of 20 replicates is finished')
    """
    if not done:
        return f"none of {wanted:,} replicates is finished"
    return f"{done:,} of {wanted:,} replicates are finished and kept: run the same again to go on"
