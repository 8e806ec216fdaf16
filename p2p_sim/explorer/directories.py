"""Results directories: their state on disk, and those that the explorer may read."""

import csv
import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeVar

from p2p_sim.base.errors import InputError
from p2p_sim.base.shipped_files import PACKAGE
from p2p_sim.base.whole_files import no_directory
from p2p_sim.results.lock import LOCK

Standing = Literal["running", "finished", "incomplete", "damaged"]
DEEPEST = 4
"""Levels below a directory named at the start that are looked at."""
LARGEST_READ = 64_000_000
"""Bytes of rows that are read to list a directory, some seconds' work; larger ones are read when they are chosen."""
LineT = TypeVar("LineT")
Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of change of a directory's files: equal ones hold the same."""


@dataclass(frozen=True)
class Listed:
    """One line of the list of results. reason: why it is not simply finished, in words; empty where it is."""

    path: Path
    state: Standing
    reason: str = ""


class Directories:
    """Looks through directories for results; what was read of one is kept until its files change."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[Stamp, Listed]] = {}

    def below(self, root: Path) -> Iterator[Listed]:
        """Yields every results directory at or below a directory, in the order of the names; never raises.

        Links are not followed. Left out are directories with a file that a link leads out of `root`, and those whose
        manifest is of no run and no sweep.

        Args:
            root: without links in it.
        """
        yield from self._below(root, root, 0)

    def _below(self, path: Path, root: Path, depth: int) -> Iterator[Listed]:
        from p2p_sim.results.rows import MANIFEST  # late: loads pandas

        try:
            if not path.resolve().is_relative_to(root):
                return
            entries = sorted(path.iterdir())
        except (OSError, RuntimeError) as error:  # Python below 3.13 has the latter for a link to itself
            yield _damaged(path, f"cannot be read ({getattr(error, 'strerror', None) or error})")
            return
        if path / MANIFEST in entries:
            yield from self._listed(path, root, entries)
            return
        for entry in entries:
            if os.path.islink(entry):  # never raises, as Path.is_symlink may
                if _leads_to_itself(entry):
                    yield _damaged(entry, "a link to itself")
            elif os.path.isdir(entry) and depth < DEEPEST:
                yield from self._below(entry, root, depth + 1)

    def _listed(self, path: Path, root: Path, entries: list[Path]) -> list[Listed]:
        """The line of a directory that has a manifest; none where the directory is left out."""

        def looked() -> Listed | None:
            for entry in entries:
                if entry.is_symlink() and not _leads_to_itself(entry) and not entry.resolve().is_relative_to(root):
                    return None
            return self._state(path, entries)

        line = _or_damaged(path, looked)
        return [] if line is None else [line]

    def _state(self, path: Path, entries: list[Path]) -> Listed | None:
        """The line of a directory whose files all lie below the root; None if its manifest is of no run and no sweep.

        Raises:
            Exception: the directory is damaged.
        """
        from p2p_sim.results.results_directory import described
        from p2p_sim.results.rows import read_manifest

        # a directory whose files have not changed since it was read keeps its line, unless somebody writes to it now
        _check_files(path)
        stamp = _stamp(entries)
        before, listed = self._read.get(path, ((), None))
        if listed is not None and before == stamp and not is_running(path):
            return listed
        manifest = read_manifest(path)
        if manifest and not {"scenario", "identity"} & manifest.keys():
            return None
        # raises where a key has the wrong type, or a text cannot be written as UTF-8
        described(path, manifest)
        json.dumps(manifest, ensure_ascii=False).encode()
        if is_running(path):
            return Listed(path, "running", "running")
        listed = _or_damaged(path, lambda: _finished(path, manifest))
        self._read[path] = stamp, listed
        return listed


def _check_files(path: Path) -> None:
    """Refuse a results directory in which something else has the name of a file: reading a pipe would never end.

    Raises:
        InputError: names it.
    """
    from p2p_sim.results.rows import FAILURES, MANIFEST, ROWS, TABLE
    from p2p_sim.results.statements import STATEMENTS

    for name in (MANIFEST, ROWS, TABLE, FAILURES, STATEMENTS):
        file = path / name
        if os.path.lexists(file) and not file.is_file():
            raise InputError(f"{name}: is {'a link to itself' if _leads_to_itself(file) else 'not a file'}")


class PromisedRows(NamedTuple):
    """How many points a sweep has, and how many replicates each point gets."""

    points: int
    replicates: int

    @property
    def total(self) -> int:
        """Rows of the finished sweep."""
        return self.points * self.replicates


def promised_rows(manifest: Mapping[str, Any]) -> PromisedRows:
    """The points and replicates of a manifest that `p2p_sim.results.results_directory.described` has checked."""
    points = math.prod(len(axis["values"]) for axis in manifest.get("axes") or [])
    return PromisedRows(points, manifest.get("replicates") or 1)


def swept_keys(manifest: Mapping[str, Any]) -> list[str]:
    """The keys along the axes of a sweep; none of a run."""
    return [str(key) for axis in manifest.get("axes") or [] for key in axis["keys"]]


def is_running(path: Path) -> bool:
    """Whether a process writes to a results directory, by the system's list: to try the lock could stop a new run."""
    try:
        inode = (path / LOCK).stat().st_ino
        held = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    return any(line.split()[1] == "FLOCK" and f":{inode} " in line for line in held.splitlines() if "->" not in line)


def _finished(path: Path, manifest: Mapping[str, Any]) -> Listed:
    """The line of a directory that nothing writes to, by all that it holds.

    Raises:
        Exception: the directory is damaged.
    """
    from p2p_sim.report.results_report import read_failures
    from p2p_sim.results.results_directory import check_cells, read_results
    from p2p_sim.results.rows import ROWS, TABLE

    failed, written = len(read_failures(path)), 0
    rows = path / ROWS
    # lines of a large file are counted, and read only when somebody chooses the directory
    if rows.exists() and rows.stat().st_size > LARGEST_READ:
        with rows.open("rb") as file:
            written = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    elif rows.exists():
        written = check_cells(path, swept_keys(manifest))
    elif (path / TABLE).exists():
        written = len(read_results(path).rows)
    promised = promised_rows(manifest).total
    if written + failed < promised:
        return Listed(path, "incomplete", f"incomplete: {written:,} of {promised:,} rows")
    return Listed(path, "finished")


def _or_damaged(path: Path, look: Callable[[], LineT]) -> LineT | Listed:
    """What `look` returns; where it raises, the line of a damaged directory, with the reason."""
    try:
        return look()
    except InputError as error:
        return _damaged(path, str(error).replace(str(InputError(f"{path}/")), ""))
    except UnicodeEncodeError as error:  # a lone surrogate
        half = ascii(error.object[error.start])[1:-1]
        return _damaged(path, f"holds half a character, {half}, which no page and no file can hold")
    except Exception as error:  # whatever a damaged file does to a reader
        return _damaged(path, f"{type(error).__name__}: {error}")


def _damaged(path: Path, why: str) -> Listed:
    return Listed(path, "damaged", str(InputError(f"damaged: {why}")))


def _leads_to_itself(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _stamp(entries: list[Path]) -> Stamp:
    stats = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries if entry.name != LOCK]
    return tuple((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in stats)


PUBLISHED = PACKAGE.parent / "results" / "published"
"""Results of the published studies, where p2p-sim runs from a checkout."""
MOST = 2_000
"""Results directories that are listed."""
LEFT_OUT = {
    True: "Their tables do not say whom an ε is against (no columns observer and adjacency)",
    False: "They have no table of measured values beside an ε",
}
"""The reason for which a published study is not offered, by whether it has a table with a certified ε and intervals."""


@dataclass(frozen=True)
class ReadableDirectory:
    """A results directory that the explorer may read.

    key: its name in requests. name: its name on pages. published: whether it is of a published study. state: whether it
    is running, finished, incomplete or damaged. reason: why it is not simply finished, in words; else empty.
    """

    key: str
    name: str
    path: Path
    published: bool = False
    state: Standing = "finished"
    reason: str = ""

    @property
    def label(self) -> str:
        """Its line in the list of results, the same on every page."""
        return f"{self.name} ({self.reason})" if self.reason else self.name


class ReadableDirectories:
    """All results directories that may be read; a browser names them by keys alone, never by paths.

    Args:
        roots: directories named at the start; each holds results, or directories of results.
        published: directory of the published studies; None: there is none.

    Raises:
        InputError: one of the roots is no directory.
    """

    def __init__(self, roots: tuple[Path, ...], published: Path | None = PUBLISHED) -> None:
        for root in roots:
            if not root.is_dir():
                raise InputError(f"{root}: {no_directory(root)}")
        self._roots = [(root, root.resolve(), False) for root in roots]
        self._published, self._directories, self._lock = published, Directories(), Lock()
        if published is not None and published.is_dir():
            self._roots.append((published, published.resolve(), True))

    def all(self) -> list[ReadableDirectory]:
        """Every results directory there is now, in the order of the roots and then of the names; damaged ones last."""
        directories: dict[Path, ReadableDirectory] = {}
        with self._lock:
            for unresolved, root, published in self._roots:
                for listed in self._directories.below(root):
                    if listed.path not in directories and len(directories) < MOST:
                        below = listed.path.relative_to(root).as_posix()
                        name = unresolved.name or unresolved.as_posix() if below == "." else below
                        directories[listed.path] = _readable(listed, name, published)
        return sorted(directories.values(), key=lambda directory: directory.state == "damaged")

    def left_out(self) -> dict[str, list[str]]:
        """Published studies without rows of scenarios, by the reason for which they are not offered."""
        if self._published is None or not self._published.is_dir():
            return {}
        offered = {directory.name.split("/")[0] for directory in self.all() if directory.published}
        studies: dict[str, list[str]] = {}
        for path in sorted(self._published.iterdir()):
            if path.is_dir() and path.name not in offered:
                studies.setdefault(LEFT_OUT[_has_epsilon(path)], []).append(path.name)
        return studies

    def of(self, *keys: str) -> list[ReadableDirectory]:
        """The directories with these keys, each once.

        Raises:
            InputError: one is not among those that may be read, or it is damaged.
        """
        by_key = {directory.key: directory for directory in self.all()}
        if not set(keys) <= set(by_key):
            raise InputError("results: there is no such results directory among those named at the start")
        directories = [by_key[key] for key in dict.fromkeys(keys)]
        for directory in directories:
            if directory.state == "damaged":
                raise InputError(f"{directory.name}: {directory.reason}")
        return directories


def _readable(listed: Listed, name: str, published: bool) -> ReadableDirectory:
    """A listed directory under a key that does not show its path, and a name that is printable UTF-8."""
    key = hashlib.sha256(os.fsencode(listed.path)).hexdigest()[:16]
    # bytes that are no UTF-8, and letters that would break the line, are escaped
    text = os.fsencode(name).decode(errors="backslashreplace")
    reason = listed.reason or "its name is not UTF-8" * (text != name)
    printable = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return ReadableDirectory(key, printable, listed.path, published, state=listed.state, reason=reason)


def _has_epsilon(path: Path) -> bool:
    """Whether a study has a table with a certified ε and a measured value with its interval."""
    for table in filter(Path.is_file, path.glob("*.csv")):
        with table.open(encoding="utf-8", errors="replace", newline="") as file:
            columns = next(csv.reader([file.readline()]), [])
        measured = [name for name in columns if f"{name}_low" in columns and name != "epsilon_upper"]
        if "epsilon_upper" in columns and measured:
            return True
    return False
