"""Brackets that were computed before, kept on disk.

A bracket of ε(δ) depends on nothing but its arguments and the code that computes it. So a figure is kept under the name
of its function, its arguments and `version()`, which changes with every change of that code and of the libraries that
it uses.

The environment variable `P2P_SIM_CACHE` names the folder; "off" keeps nothing. The default is the user's cache folder.
What is wrong with the file never stops a computation, and what cannot be checked is computed anew.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from p2p_sim.privacy.bound import Bracket

VARIABLE, OFF = "P2P_SIM_CACHE", "off"
NAME = "accountant.sqlite3"
LARGEST = 256 * 2**20
"""Bytes of a file that is begun anew."""
IN_MEMORY = 65_536
LIBRARIES = ("numpy", "scipy", "dp-accounting")
"""What the accountant computes with."""
_IMPORTED = time.time()
_WAIT_S = 2.0

Result = TypeVar("Result", Bracket, bool)


def disk_cached(function: Callable[..., Result]) -> Callable[..., Result]:
    """A decorator for a pure function of numbers and frozen data classes: its results are kept, in memory and
    on disk.
    """

    @lru_cache(maxsize=IN_MEMORY)
    def read_or_computed(*arguments: Any) -> Result:
        directory = folder(os.environ.get(VARIABLE))
        if directory is None or (code := version()) is None:
            return function(*arguments)
        key = f"{function.__module__}.{function.__qualname__}{as_text(arguments)} by {code}"
        with contextlib.suppress(OSError, sqlite3.Error, ValueError):
            value: Result | None = _read(directory, key)
            if value is not None:
                return value
        computed = function(*arguments)
        with contextlib.suppress(OSError, sqlite3.Error):
            _write(directory, key, as_text(computed))
        return computed

    return wraps(function)(lambda *arguments: read_or_computed(*arguments))


@cache
def folder(named: str | None) -> Path | None:
    """The directory in which computed figures are kept; None if they are not kept.

    Args:
        named: what the environment variable names.
    """
    if named == OFF:
        return None
    if named:
        return Path(named)
    try:
        from platformdirs import user_cache_path
    except ModuleNotFoundError:  # NumPy and SciPy are all that figures need
        return None
    return user_cache_path("p2p-sim")


def sources() -> dict[str, Path]:
    """The Python files that a kept figure may depend on, by their relative names: the accountants, and `base` below
    them.
    """
    package = Path(__file__).parent.parent
    files = [package / "__init__.py", *(package / "privacy").rglob("*.py"), *(package / "base").glob("*.py")]
    return {os.path.relpath(path, package): path for path in sorted(files)}


@cache
def version() -> str | None:
    """A digest of all that a figure depends on besides its arguments: the code of `sources`, Python, and `LIBRARIES`.

    None where a file was edited after this process began to import: what runs may not be what is on disk.
    """
    digest = hashlib.sha256(f"Python {platform.python_version()}".encode())
    for name in LIBRARIES:
        installed = ""
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed = importlib.metadata.version(name)
        digest.update(f" {name} {installed}".encode())
    for name, path in sources().items():
        state, code = path.stat(), path.read_bytes()
        if max(state.st_mtime, state.st_ctime) > _IMPORTED:
            return None
        digest.update(f"\0{Path(name).as_posix()} {len(code)}\0".encode() + code)
    return digest.hexdigest()


def as_text(value: object) -> str:
    """A value as text, without rounding.

    >>> as_text((3, 0.1, Bracket(0.0, 2.5)))
    '(3, 0x1.999999999999ap-4, Bracket(0x0.0p+0, 0x1.4000000000000p+1))'
    """
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(as_text, value))})"
    return f"{type(value).__name__}({', '.join(as_text(getattr(value, field.name)) for field in fields(value))})"  # type: ignore[arg-type]


def _from_text(text: str) -> Any:
    """The value of which `as_text` made this text: a bracket or a truth value.

    Raises:
        ValueError: the text is of neither.
    """
    if text in ("True", "False"):
        return text == "True"
    name, _, ends = text.removesuffix(")").partition("(")
    lower, upper = map(float.fromhex, ends.split(", "))
    if name != "Bracket" or not 0.0 <= lower <= upper:
        raise ValueError(f"{text}: is no bracket")
    return Bracket(lower, upper)


def _read(directory: Path, key: str) -> Any:
    with _file(directory) as connection:
        row = connection.execute("SELECT value, digest FROM kept WHERE key = ?", (key,)).fetchone()
    return _from_text(row[0]) if row and row[1] == _digest(key, row[0]) else None


def _write(directory: Path, key: str, value: str) -> None:
    with _file(directory) as connection:
        connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (key, value, _digest(key, value)))
        connection.commit()


def _digest(key: str, value: str) -> str:
    return hashlib.sha256(f"{key} = {value}".encode()).hexdigest()


@contextlib.contextmanager
def _file(directory: Path) -> Iterator[sqlite3.Connection]:
    """The open database of kept figures, as a context.

    A file that somebody else could have written is not used, and one that is damaged or full is begun anew. It is
    opened for each question: an open file must not pass from a process to its children.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / NAME
    with contextlib.suppress(FileNotFoundError):
        if not _own(directory) or not _own(path):
            raise OSError(f"{path}: belongs to somebody else, or others may write to it")
        if path.stat().st_size > LARGEST:
            path.unlink()
    try:
        with contextlib.closing(_connected(path)) as connection:
            yield connection
    except sqlite3.OperationalError:  # locked, or the disk is full
        raise
    except sqlite3.DatabaseError:
        path.unlink(missing_ok=True)
        raise


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_S)
    connection.execute("PRAGMA synchronous = OFF")  # what a crash damages is found by its digest
    connection.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT, digest TEXT)")
    return connection


def _own(path: Path) -> bool:
    """Whether nobody but the user who runs this process can have written there."""
    state = path.stat()
    mine = not hasattr(os, "getuid") or state.st_uid == os.getuid()
    return mine and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
