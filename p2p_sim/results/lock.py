"""The lock of a results directory: only one process at a time writes there."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from p2p_sim.base import InputError, directory_made

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """A context in which this process alone writes to a directory. A missing directory is made.

    If the work fails and has removed all files, the lock too, a directory that was made here is removed.

    Raises:
        InputError: the directory cannot be made, or another process holds the lock.
    """
    with ExitStack() as resources:
        try:
            resources.enter_context(directory_made(directory))
            lock = resources.enter_context((directory / LOCK).open("a"))
        except OSError as error:
            raise InputError(f"--out {directory}: cannot be written ({error.strerror})") from None
        try:
            _lock(lock)
        except OSError:
            raise InputError(f"--out {directory}: another run is writing there; wait for it to end") from None
        if not _is_there(lock, directory / LOCK):  # after the file was opened here, a run that failed has removed it
            raise InputError(f"--out {directory}: another run has just ended there; run the same command again")
        yield


def _lock(file: IO[str]) -> None:
    """Lock an open file for this process; raises OSError if another process has locked it."""
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_there(file: IO[str], path: Path) -> bool:
    """Whether a path still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False
