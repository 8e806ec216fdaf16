"""The results directories that the explorer may read, and the state of each on disk."""

import csv
import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeVar

from p2p_sim import report, results  # their modules that load pandas are imported when a directory is read
from p2p_sim.base import InputError, no_directory
from p2p_sim.base.shipped_files import PACKAGE

Standing = Literal["running", "finished", "incomplete", "damaged"]
DEEPEST = 4
"""The number of levels of folders that are searched below each root directory."""
LARGEST_READ = 64_000_000
"""The largest size, in bytes, of a file of rows that is read for the list of results. Of a larger file only the lines
are counted."""
LineT = TypeVar("LineT")
Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of change of each file of a directory, except the lock file. The stamp changes when one of
these files changes."""


@dataclass(frozen=True)
class Listed:
    """One line of the list of results. reason: what is unfinished or wrong, in words; empty if nothing is."""

    path: Path
    state: Standing
    reason: str = ""


class _DirectoryReader:
    """A reader of results directories. What was read of a directory is kept until the directory's files change."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[Stamp, Listed]] = {}

    def below(self, path: Path, root: Path, depth: int = 0) -> Iterator[Listed]:
        """Yields an entry for every results directory at or below a directory, ordered by name. An entry has a path, a
        state (running, finished, incomplete or damaged) and a reason. What cannot be read counts as damaged.

        Links are not followed. A directory with a link that leads out of `root` is left out. A directory is also left
        out if its manifest (the description of the results) describes neither a run nor a sweep.

        Args:
            path: where to look. root: a directory at or above `path`; the path of `root` has no links. depth: number of
            levels from `root` down to `path`. At most 4 levels are searched.
        """
        try:
            if not path.resolve().is_relative_to(root):
                return
            entries = sorted(path.iterdir())
        except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself, in Python below 3.13
            yield _damaged(path, f"cannot be read ({getattr(error, 'strerror', None) or error})")
            return
        if path / results.MANIFEST in entries:
            line = _or_damaged(path, lambda: self._state(path, root, entries))
            if line is not None:
                yield line
            return
        for entry in entries:
            if os.path.islink(entry):  # never raises; Path.is_symlink may
                if _leads_to_itself(entry):
                    yield _damaged(entry, "a link to itself")
            elif os.path.isdir(entry) and depth < DEEPEST:
                yield from self.below(entry, root, depth + 1)

    def _state(self, path: Path, root: Path, entries: list[Path]) -> Listed | None:
        """The entry of a results directory in the list of results. None if a file is a link out of `root`, or if the
        directory holds neither a run nor a sweep.

        Args:
            path: the directory. root: the directory out of which no link may lead. entries: the files in `path`.

        Raises:
            Exception: the directory is damaged.
        """
        for entry in entries:
            if entry.is_symlink() and not _leads_to_itself(entry) and not entry.resolve().is_relative_to(root):
                return None
        # the earlier entry is still valid if no file has changed and no process writes now
        _check_files(path)
        stamp = _stamp(entries)
        before, listed = self._read.get(path, ((), None))
        if listed is not None and before == stamp and not is_running(path):
            return listed
        manifest = results.read_manifest(path)
        if manifest and not {"scenario", "identity"} & manifest.keys():
            return None
        # raises an error if a key has the wrong type, or a text cannot be written as UTF-8
        results.described(path, manifest)
        json.dumps(manifest, ensure_ascii=False).encode()
        if is_running(path):
            return Listed(path, "running", "running")
        listed = _or_damaged(path, lambda: _finished(path, manifest))
        self._read[path] = stamp, listed
        return listed


def _check_files(path: Path) -> None:
    """Check that the files of results in a directory are regular files. Reading a pipe would never end.

    Raises:
        InputError: a file is something else.
    """
    for name in (results.MANIFEST, results.ROWS, results.TABLE, results.FAILURES, results.STATEMENTS):
        file = path / name
        if os.path.lexists(file) and not file.is_file():
            raise InputError(f"{name}: is {'a link to itself' if _leads_to_itself(file) else 'not a file'}")


class PromisedRows(NamedTuple):
    """How many points a sweep has, and how many replicates each point gets."""

    points: int
    replicates: int

    @property
    def total(self) -> int:
        """The number of rows of the finished sweep."""
        return self.points * self.replicates


def promised_rows(manifest: Mapping[str, Any]) -> PromisedRows:
    """How many points (combinations of swept values) finished results have, and how many replicates per point.
    A run of a single scenario has one point. manifest: the description of the results, already checked.
    """
    points = math.prod(len(axis["values"]) for axis in manifest.get("axes") or [])
    return PromisedRows(points, manifest.get("replicates") or 1)


def swept_keys(manifest: Mapping[str, Any]) -> list[str]:
    """The dotted keys that a sweep varies, from its manifest; empty for a run of a single scenario."""
    return [str(key) for axis in manifest.get("axes") or [] for key in axis["keys"]]


def is_running(path: Path) -> bool:
    """Whether a process writes to a results directory, according to the system's list of locks.

    Taking the directory's lock as a test could stop a new run.
    """
    try:
        inode = (path / results.LOCK).stat().st_ino
        held = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    return any(line.split()[1] == "FLOCK" and f":{inode} " in line for line in held.splitlines() if "->" not in line)


def _finished(path: Path, manifest: Mapping[str, Any]) -> Listed:
    """The entry, in the list of results, of a directory to which no process writes. The directory is finished if it has
    a row or a failure for every replicate that the manifest promises. Otherwise it is incomplete.

    Raises:
        Exception: the directory is damaged.
    """
    failed, written = len(report.read_failures(path)), 0
    rows = path / results.ROWS
    # the lines of a large file are only counted here; they are read when somebody chooses the directory
    if rows.exists() and rows.stat().st_size > LARGEST_READ:
        with rows.open("rb") as file:
            written = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    elif rows.exists():
        written = results.check_cells(path, swept_keys(manifest))
    elif (path / results.TABLE).exists():
        written = len(results.read_results(path).rows)
    promised = promised_rows(manifest).total
    if written + failed < promised:
        return Listed(path, "incomplete", f"incomplete: {written:,} of {promised:,} rows")
    return Listed(path, "finished")


def _or_damaged(path: Path, look: Callable[[], LineT]) -> LineT | Listed:
    """The result of the function `look`, which reads the results directory `path`. If `look` raises an error, the
    result is an entry for a damaged directory, with the reason.
    """
    try:
        return look()
    except InputError as error:
        return _damaged(path, str(error).replace(str(InputError(f"{path}/")), ""))
    except UnicodeEncodeError as error:  # a lone surrogate
        surrogate = ascii(error.object[error.start])[1:-1]
        return _damaged(path, f"contains a lone surrogate, {surrogate}, which cannot be written as UTF-8")
    except Exception as error:  # a damaged file may cause any error
        return _damaged(path, f"{type(error).__name__}: {error}")


def _damaged(path: Path, why: str) -> Listed:
    """The entry of a damaged directory in the list of results; `why` says what is wrong."""
    return Listed(path, "damaged", str(InputError(f"damaged: {why}")))


def _leads_to_itself(path: Path) -> bool:
    """Whether a path is a link that leads back to itself, directly or over other links."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _stamp(entries: list[Path]) -> Stamp:
    """Name, inode, size and time of change of each file of a results directory, except the lock file. The lock file
    says nothing about results. entries: all files of the directory.
    """
    stats = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries if entry.name != results.LOCK]
    return tuple((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in stats)


PUBLISHED = PACKAGE.parent / "results" / "published"
"""The folder with results of the published studies. A checkout of p2p-sim has this folder."""
MOST = 2_000
"""The largest number of results directories that are listed."""
LEFT_OUT = {
    True: "Their tables do not say whom an ε is against (no columns observer and adjacency)",
    False: "They have no table of measured values beside an ε",
}
"""The reason why a published study is not offered. The key says whether the study has a table with a certified ε and
intervals."""


@dataclass(frozen=True)
class ReadableDirectory:
    """A results directory that the explorer may read.

    key: its name in requests. name: its name on pages. published: whether it belongs to a published study. state:
    running, finished, incomplete or damaged. reason: what is unfinished or wrong, in words; empty if nothing is.
    """

    key: str
    name: str
    path: Path
    published: bool = False
    state: Standing = "finished"
    reason: str = ""

    @property
    def label(self) -> str:
        """The directory's name on pages. If anything is unfinished or wrong, the reason follows in brackets."""
        return f"{self.name} ({self.reason})" if self.reason else self.name


class ReadableDirectories:
    """All results directories that may be read. A browser gives a directory's key, never its path.

    Args:
        roots: directories that were named when the explorer was started. Each holds results, or directories of results.
        published: directory of the published studies, or None.

    Raises:
        InputError: one of the roots is no directory.
    """

    def __init__(self, roots: tuple[Path, ...], published: Path | None = PUBLISHED) -> None:
        for root in roots:
            if not root.is_dir():
                raise InputError(f"{root}: {no_directory(root)}")
        self._roots = [(root, root.resolve(), False) for root in roots]
        self._published, self._reader, self._lock = published, _DirectoryReader(), Lock()
        if published is not None and published.is_dir():
            self._roots.append((published, published.resolve(), True))

    def all(self) -> list[ReadableDirectory]:
        """The results directories that exist now below the roots and the published studies, at most 2,000. The order
        is: roots as given, then published studies, and by name below each. Damaged directories come last.
        """
        directories: dict[Path, ReadableDirectory] = {}
        with self._lock:
            for unresolved, root, published in self._roots:
                for listed in self._reader.below(root, root):
                    if listed.path not in directories and len(directories) < MOST:
                        below = listed.path.relative_to(root).as_posix()
                        name = unresolved.name or unresolved.as_posix() if below == "." else below
                        key = hashlib.sha256(os.fsencode(listed.path)).hexdigest()[:16]  # does not show the path
                        # bytes that are not UTF-8, and characters that cannot be printed, are escaped
                        text = os.fsencode(name).decode(errors="backslashreplace")
                        reason = listed.reason or "its name is not UTF-8" * (text != name)
                        printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
                        directories[listed.path] = ReadableDirectory(
                            key, printable, listed.path, published, state=listed.state, reason=reason
                        )
        return sorted(directories.values(), key=lambda directory: directory.state == "damaged")

    @cached_property
    def left_out(self) -> dict[str, list[str]]:
        """The names of the published studies that the explorer cannot show, for each reason in words. Published studies
        are results that come with a checkout of p2p-sim. Either a study has no table of measured values beside an ε, or
        its tables do not say against whom an ε holds.
        """
        if self._published is None or not self._published.is_dir():
            return {}
        offered = {directory.name.split("/")[0] for directory in self.all() if directory.published}
        studies: dict[str, list[str]] = {}
        for path in sorted(self._published.iterdir()):
            if path.is_dir() and path.name not in offered:
                # whether a table has a certified ε and a measured value with its interval
                certified = False
                for table in filter(Path.is_file, path.glob("*.csv")):
                    with table.open(encoding="utf-8", errors="replace", newline="") as file:
                        columns = set(next(csv.reader([file.readline()]), []))
                    certified |= "epsilon_upper" in columns and any(
                        f"{name}_low" in columns for name in columns - {"epsilon_upper"}
                    )
                studies.setdefault(LEFT_OUT[certified], []).append(path.name)
        return studies

    def of(self, *keys: str) -> list[ReadableDirectory]:
        """The directories with the given keys, in the order of the keys, each once.

        Raises:
            InputError: a key belongs to no listed directory, or a directory is damaged.
        """
        by_key = {directory.key: directory for directory in self.all()}
        if not set(keys) <= set(by_key):
            raise InputError("results: there is no such results directory among those named at the start")
        directories = [by_key[key] for key in dict.fromkeys(keys)]
        for directory in directories:
            if directory.state == "damaged":
                raise InputError(f"{directory.name}: {directory.reason}")
        return directories
