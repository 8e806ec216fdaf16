"""Results directories as the explorer lists them: what is amiss in one is told beside its name, and stops no list."""

import errno
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from p2p_sim.base.errors import InputError
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
        """Every results directory at or below a directory, in the order of the names; never raises.

        Links are not followed, and a directory with a file that a link leads out of `root` is left out, as are those
        whose manifest is of no run and no sweep.

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
        if any(entry.name == MANIFEST for entry in entries):
            if (listed := self._listed(path, root, entries)) is not None:
                yield listed
            return
        for entry in entries:
            if os.path.islink(entry):  # never raises, as Path.is_symlink may
                if _leads_to_itself(entry):
                    yield _damaged(entry, "a link to itself")
            elif os.path.isdir(entry) and depth < DEEPEST:
                yield from self._below(entry, root, depth + 1)

    def _listed(self, path: Path, root: Path, entries: list[Path]) -> Listed | None:
        """The line of a directory that has a manifest; None where it is left out."""

        def looked() -> Listed | None:
            for entry in entries:
                if entry.is_symlink() and not _leads_to_itself(entry) and not entry.resolve().is_relative_to(root):
                    return None
            return self._state(path, entries)

        return _or_damaged(path, looked)

    def _state(self, path: Path, entries: list[Path]) -> Listed | None:
        """As `_listed`.

        Raises:
            Exception: the directory is damaged.
        """
        from p2p_sim.results.results_directory import described
        from p2p_sim.results.rows import read_manifest

        _check_files(path)
        stamp = _stamp(entries)
        before, listed = self._read.get(path, ((), None))
        if listed is not None and before == stamp and not is_running(path):
            return listed
        manifest = read_manifest(path)
        if manifest and not {"scenario", "identity"} & manifest.keys():
            return None
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


def promised_rows(manifest: Mapping[str, Any]) -> tuple[int, int]:
    """Points and replicates that a manifest promises, which `p2p_sim.results.results_directory.described` has taken."""
    return math.prod(len(axis["values"]) for axis in manifest.get("axes") or []), manifest.get("replicates") or 1


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

    failed, done = len(read_failures(path)), 0
    rows = path / ROWS
    if rows.exists() and rows.stat().st_size > LARGEST_READ:
        with rows.open("rb") as file:
            done = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    elif rows.exists():
        done = check_cells(path, [key for axis in manifest.get("axes") or [] for key in axis["keys"]])
    elif (path / TABLE).exists():
        done = len(read_results(path).rows)
    promised = math.prod(promised_rows(manifest))
    if done + failed < promised:
        return Listed(path, "incomplete", f"incomplete: {done:,} of {promised:,} rows")
    return Listed(path, "finished")


def _or_damaged(path: Path, look: Callable[[], LineT]) -> LineT | Listed:
    """What `look` finds, or the line that says what of a directory it could not read."""
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
