"""A cache on disk for results of accountants, such as brackets (lower and upper bounds) of ε at δ.

A result depends only on its arguments and on the code that computes it. So its key is the name of the function, the
arguments and `version()`, a digest of the code and its libraries.

The environment variable `P2P_SIM_CACHE` names the cache's folder. The value "off" turns the cache off. The default is
the folder `p2p-sim` in the account's directory of caches. Without the package platformdirs there is no default. A
damaged file never stops a computation: a result that cannot be read and checked is computed anew.
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
from typing import Any, TypeVar, cast

from p2p_sim.privacy.bound import Bracket

VARIABLE, OFF = "P2P_SIM_CACHE", "off"
NAME = "accountant.sqlite3"
LARGEST = 256 * 2**20
"""Largest size of the cache's file, in bytes. A larger file is deleted and begun anew."""
IN_MEMORY = 65_536
LIBRARIES = ("numpy", "scipy", "dp-accounting")
"""The libraries with which accountants compute."""
_IMPORTED = time.time()
_WAIT_S = 2.0

Result = TypeVar("Result", Bracket, bool)


def disk_cached(function: Callable[..., Result]) -> Callable[..., Result]:
    """A decorator that keeps results in memory and on disk, for a pure function of numbers and frozen data classes.

    All arguments are given by position. The function returns a `Bracket` or a truth value. Nothing is kept on disk
    if `folder` or `version` gives None.
    """

    @lru_cache(maxsize=IN_MEMORY)
    def read_or_computed(*arguments: Any) -> Result:
        directory = folder(os.environ.get(VARIABLE))
        if directory is None or (code := version()) is None:
            return function(*arguments)
        key = f"{function.__module__}.{function.__qualname__}{as_text(arguments)} by {code}"
        with contextlib.suppress(OSError, sqlite3.Error, ValueError), _file(directory) as connection:
            row = connection.execute("SELECT value, digest FROM kept WHERE key = ?", (key,)).fetchone()
            if row and row[1] == _digest(key, row[0]):
                return cast(Result, _from_text(row[0]))
        computed = function(*arguments)
        with contextlib.suppress(OSError, sqlite3.Error), _file(directory) as connection:
            value = as_text(computed)
            connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (key, value, _digest(key, value)))
            connection.commit()
        return computed

    return wraps(function)(lambda *arguments: read_or_computed(*arguments))


@cache
def folder(named: str | None) -> Path | None:
    """The cache's folder; None if nothing is to be kept.

    named: the value of the environment variable `P2P_SIM_CACHE`: a folder, or "off" for None. If the variable is not
    set (None), the folder is the account's default. Without the package platformdirs there is no default.
    """
    if named:
        return None if named == OFF else Path(named)
    try:
        from platformdirs import user_cache_path
    except ModuleNotFoundError:  # accountants need NumPy and SciPy only
        return None
    return user_cache_path("p2p-sim")


def sources() -> dict[str, Path]:
    """The files with the code on which kept results depend, by path relative to the package.

    The files are the accountants (p2p_sim/privacy), their helpers (p2p_sim/base), and the package itself. The
    `__init__.pyi` files are included, because packages look up their names there.
    """
    package = Path(__file__).parent.parent
    files = [*package.glob("__init__.py*"), *(package / "privacy").rglob("*.py*"), *(package / "base").glob("*.py*")]
    files = [path for path in files if path.suffix in (".py", ".pyi")]
    return {os.path.relpath(path, package): path for path in sorted(files)}


@cache
def version() -> str | None:
    """A digest of all that a kept result depends on besides its arguments: code and versions.

    The code is this package's accountants and their helpers. The versions are those of Python, numpy, scipy and
    dp-accounting. None: a file of the code was edited after this module was imported. The code that runs may then
    differ from the file.
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
    """A value as text, without rounding. The value is None, a bool, an int, a float, a string, or a tuple or data class
    of such values.

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
    """The bracket or truth value from which `as_text` made a text.

    Raises:
        ValueError: the text is neither a bracket nor a truth value.
    """
    if text in ("True", "False"):
        return text == "True"
    name, _, ends = text.removesuffix(")").partition("(")
    lower, upper = map(float.fromhex, ends.split(", "))
    if name != "Bracket" or not 0.0 <= lower <= upper:
        raise ValueError(f"{text}: is no bracket")
    return Bracket(lower, upper)


def _digest(key: str, value: str) -> str:
    return hashlib.sha256(f"{key} = {value}".encode()).hexdigest()


@contextlib.contextmanager
def _file(directory: Path) -> Iterator[sqlite3.Connection]:
    """The cache's open database, as a context manager.

    The file is opened for each access, because an open database must not pass from a process to its children. A too
    large file is begun anew.

    Raises:
        OSError: others could write to the file or folder, or the folder cannot be made.
        sqlite3.Error: the database is locked or damaged; a damaged file is deleted, and the next access begins anew.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / NAME
    with contextlib.suppress(FileNotFoundError):
        if not _own(directory) or not _own(path):
            raise OSError(f"{path}: belongs to somebody else, or others may write to it")
        if path.stat().st_size > LARGEST:
            path.unlink()
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_WAIT_S)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # the digest shows what a crash damaged
            connection.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT, digest TEXT)")
            yield connection
    except sqlite3.OperationalError:  # locked, or the disk is full
        raise
    except sqlite3.DatabaseError:
        path.unlink(missing_ok=True)
        raise


def _own(path: Path) -> bool:
    """Whether only the account that runs this process can write to the file or folder."""
    state = path.stat()
    return not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and (
        not hasattr(os, "getuid") or state.st_uid == os.getuid()
    )
