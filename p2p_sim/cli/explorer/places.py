"""Results directories that the explorer may read: those named at its start, those below them, published studies."""

import csv
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from p2p_sim.base.errors import InputError
from p2p_sim.base.shipped import PACKAGE
from p2p_sim.storage.lock import LOCK

PUBLISHED = PACKAGE.parent / "results" / "published"
"""Results of the published studies, where p2p-sim runs from a checkout."""
DEEPEST, MOST = 4, 2_000
"""Levels below a directory named at the start, and results directories, that are looked at."""

LEFT_OUT = {
    True: "Their tables do not say whom an ε is against (no columns observer and adjacency)",
    False: "They have no table of measured values beside an ε",
}
"""Why a published study is not offered, by whether it has a table with a certified ε and with intervals."""


@dataclass(frozen=True)
class Place:
    """A results directory. key: what a browser calls it; name: what people read; published: of a published study."""

    key: str
    name: str
    path: Path
    published: bool = False


class Places:
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
                raise InputError(f"{root}: there is no such directory")
        self._roots = [(root, root.resolve(), False) for root in roots]
        self._published = published
        if published is not None and published.is_dir():
            self._roots.append((published, published.resolve(), True))

    def all(self) -> list[Place]:
        """Every results directory there is now, in the order of the roots and then of the names."""
        found: dict[Path, Place] = {}
        for given, root, published in self._roots:
            for path in _results(root, root, 0):
                if path not in found and len(found) < MOST:
                    below = path.relative_to(root).as_posix()
                    name = (given.name or given.as_posix()) if below == "." else below
                    key = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
                    found[path] = Place(key, name, path, published)
        return list(found.values())

    def left_out(self) -> dict[str, list[str]]:
        """Published studies without rows of scenarios, by the reason for which they are not offered."""
        if self._published is None or not self._published.is_dir():
            return {}
        offered = {place.name.split("/")[0] for place in self.all() if place.published}
        found: dict[str, list[str]] = {}
        for path in sorted(self._published.iterdir()):
            if path.is_dir() and path.name not in offered:
                found.setdefault(LEFT_OUT[_has_epsilon(path)], []).append(path.name)
        return found

    def of(self, *keys: str) -> list[Place]:
        """The directories with these keys, each once.

        Raises:
            InputError: one is not among those that may be read.
        """
        by_key = {place.key: place for place in self.all()}
        if not set(keys) <= set(by_key):
            raise InputError("results: there is no such results directory among those named at the start")
        return [by_key[key] for key in dict.fromkeys(keys)]


def _results(path: Path, root: Path, depth: int) -> Iterator[Path]:
    """Directories with a manifest; links that lead outside, and directories whose files do, are left out."""
    from p2p_sim.storage.rows import MANIFEST

    try:
        if not path.resolve().is_relative_to(root):
            return
        if (path / MANIFEST).is_file():
            if all(file.resolve().is_relative_to(root) for file in path.iterdir()) and _of_scenarios(path):
                yield path
            return
        inner = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError:
        return
    if depth < DEEPEST:
        for entry in inner:
            yield from _results(entry, root, depth + 1)


def _has_epsilon(path: Path) -> bool:
    """Whether a study has a table with a certified ε and a measured value with its interval."""
    for table in path.glob("*.csv"):
        with table.open(encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file), [])
        measured = [name for name in columns if f"{name}_low" in columns and name != "epsilon_upper"]
        if "epsilon_upper" in columns and measured:
            return True
    return False


def _of_scenarios(path: Path) -> bool:
    """Whether a directory holds rows of scenarios; some published studies hold rows of their own kind."""
    from p2p_sim.storage.rows import MANIFEST

    status = (path / MANIFEST).stat()
    return _names_scenario(path, status.st_mtime_ns, status.st_size)


@lru_cache(MOST)
def _names_scenario(path: Path, changed: int, size: int) -> bool:
    """Whether a manifest names a scenario; it is read again when it has changed."""
    from p2p_sim.storage.rows import read_manifest  # late: loads pandas

    try:
        return isinstance(read_manifest(path).get("scenario"), dict)
    except InputError:
        return False


def is_running(place: Place) -> bool:
    """Whether a process writes to a results directory, by the system's list: to try the lock could stop a new run."""
    try:
        inode = (place.path / LOCK).stat().st_ino
        held = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    return any(line.split()[1] == "FLOCK" and f":{inode} " in line for line in held.splitlines() if "->" not in line)
