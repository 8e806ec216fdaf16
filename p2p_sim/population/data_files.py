"""Finds, reads and checks data files in the standard formats."""

import gzip
import hashlib
import os
import struct
import tempfile
import zlib
from itertools import product
from pathlib import Path
from threading import Lock

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from p2p_sim.base import InputError, no_file


def is_file(path: Path) -> bool:
    """Whether a path is an existing file; False for names that the system does not allow."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


FRAME = "frame-"
"""The beginning of the name of each file that holds a data frame; a hash of the content follows."""


def frames() -> Path:
    """The directory for files with data frames, created if absent.

    A data frame that serves as a population is kept in such a file. The directory lies in the system's temporary
    directory. Each process that keeps data frames has a subdirectory there.

    Raises:
        InputError: the directory belongs to another user of the system.
    """
    directory = Path(tempfile.gettempdir()) / f"p2p-sim-frames-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise InputError(f"{directory}: belongs to another user; remove it")
    return directory


def find_named(path: str, places: tuple[Path, ...], key: str) -> Path:
    """The path of a file that a scenario names, in the first directory that has the file.

    Args:
        path: the file's name or path, as written in the scenario. places: directories in which the file is looked for,
        in this order. The working directory comes next. The directories of data frames come last, if the name begins
        with `FRAME`. key: the scenario's key that has the path, for the message.

    Raises:
        InputError: no directory has the file.
    """
    of_a_frame = path.startswith(FRAME)
    frame_directories = list(frames().iterdir()) if of_a_frame else []
    for directory in (*places, Path(), *frame_directories):
        if is_file(directory / path):
            return directory / path
    hint = "; this file exists until the process that called p2p_sim.table ends: call table again" if of_a_frame else ""
    nowhere = (no_file(directory / path) for directory in (*places, Path()))
    raise InputError(f"{key} = {path!r}: {min(nowhere)}{hint}")  # `min` prefers "is a directory" to "no such file"


def find_file(kind: str, places: tuple[Path, ...], folder: str, names: tuple[str, ...]) -> Path:
    """The path of a data set's file: the first of `names` (plain or .gz) in a directory or its subfolder `folder`.

    Each directory is searched for all names before the next directory. For each name, `folder` comes first.

    Args:
        kind: the population's kind, for messages. places: the directories, in order. folder: subfolder of these
        directories that may have the files. names: names that the file may have, without .gz.

    Raises:
        InputError: there is no such file.
    """
    for directory, name, inner, suffix in product(places, names, (folder, ""), ("", ".gz")):
        path = directory / inner / f"{name}{suffix}"
        if is_file(path):
            return path
    where = ", ".join(str(directory / folder) for directory in places) or "no data directory was named"
    raise InputError(
        f"population.kind = {kind!r}: no file {' or '.join(names)} (or .gz) found ({where}); "
        f"name the directory with --data-dir or P2P_SIM_DATA (`p2p-sim data where {folder}` says what goes where)"
    )


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if the name ends in .gz. Raises InputError if the file cannot be read."""
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as a whole ({error}); is the file truncated?") from None


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an IDX file, the format of MNIST. Raises InputError if the file is damaged."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise InputError(f"{path}: not an IDX file of unsigned bytes")
    rank = content[3]
    if len(content) < 4 + 4 * rank:
        raise InputError(f"{path}: the file is truncated")
    shape = struct.unpack(f">{rank}I", content[4 : 4 + 4 * rank])
    expected = 4 + 4 * rank + int(np.prod(shape))
    if len(content) != expected:
        raise InputError(f"{path}: {len(content)} bytes where the header promises {expected}; is it truncated?")
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank).reshape(shape)


State = tuple[int, int]
"""A file's time of last change (ns) and size (bytes). Cached content is valid as long as both stay the same."""


def state(path: Path) -> State:
    """The time of last change (ns) and the size (bytes) of a file. Raises OSError if there is no such file."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@cached(LRUCache(64), key=lambda path: (path, state(path)), lock=Lock())
def checksum(path: Path) -> str:
    """The SHA-256 of a file's bytes in hexadecimal digits; cached until the file changes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
