"""Results directories that the explorer may read: those named at its start, those below them, published studies."""

import csv
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from p2p_sim.base.errors import InputError
from p2p_sim.base.shipped_files import PACKAGE
from p2p_sim.base.whole_files import no_directory
from p2p_sim.explorer.directories import Directories, Standing

PUBLISHED = PACKAGE.parent / "results" / "published"
"""Results of the published studies, where p2p-sim runs from a checkout."""
MOST = 2_000
"""Results directories that are listed."""
LEFT_OUT = {
    True: "Their tables do not say whom an ε is against (no columns observer and adjacency)",
    False: "They have no table of measured values beside an ε",
}
"""Why a published study is not offered, by whether it has a table with a certified ε and with intervals."""


@dataclass(frozen=True)
class Place:
    """A results directory.

    key: what a browser calls it; name: what people read; published: of a published study; state, reason: as `Listed`.
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

    def all(self) -> list[Place]:
        """Every results directory there is now, in the order of the roots and then of the names; damaged ones last."""
        places: dict[Path, Place] = {}
        with self._lock:
            for given, root, published in self._roots:
                for listed in self._directories.below(root):
                    if listed.path not in places and len(places) < MOST:
                        below = listed.path.relative_to(root).as_posix()
                        name = given.name or given.as_posix() if below == "." else below
                        key = hashlib.sha256(os.fsencode(listed.path)).hexdigest()[:16]
                        name, reason = _printable(name), listed.reason or _unreadable(name)
                        places[listed.path] = Place(key, name, listed.path, published, listed.state, reason)
        return sorted(places.values(), key=lambda place: place.state == "damaged")

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
            InputError: one is not among those that may be read, or it is damaged.
        """
        by_key = {place.key: place for place in self.all()}
        if not set(keys) <= set(by_key):
            raise InputError("results: there is no such results directory among those named at the start")
        places = [by_key[key] for key in dict.fromkeys(keys)]
        for place in places:
            if place.state == "damaged":
                raise InputError(f"{place.name}: {place.reason}")
        return places


def _unreadable(name: str) -> str:
    """Why a name is shown in another way than it is written; nothing where it is not."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return ""


def _printable(name: str) -> str:
    """A name as people read it: what is no text, or would break the line, is escaped."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _has_epsilon(path: Path) -> bool:
    """Whether a study has a table with a certified ε and a measured value with its interval."""
    for table in filter(Path.is_file, path.glob("*.csv")):
        with table.open(encoding="utf-8", errors="replace", newline="") as file:
            columns = next(csv.reader([file.readline()]), [])
        measured = [name for name in columns if f"{name}_low" in columns and name != "epsilon_upper"]
        if "epsilon_upper" in columns and measured:
            return True
    return False
