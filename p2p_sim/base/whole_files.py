"""Writes files whole or not at all, and JSON lines that a full disk or a killed run cannot spoil."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import InputError, RunFailed


def no_file(path: Path) -> str:
    """The reason why a path names no file: it is a directory, or does not exist. Call this only for such a path."""
    try:
        directory = path.is_dir()
    except (OSError, ValueError):  # no file can have such a name
        directory = False
    return "is a directory, not a file" if directory else "no such file"


def no_directory(path: Path) -> str:
    """The reason why a path names no directory: it is a file, or does not exist. Call this only for such a path."""
    return "is a file, not a directory" if path.exists() else "there is no such directory"


def check_new(option: str, path: Path) -> None:
    """Raise InputError if a file exists already, or if its folder does not exist. option: the command's option that
    named the path, such as "--out", for the message.
    """
    if path.exists():
        raise InputError(f"{option} {path}: exists already; choose another name")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no directory {path.parent}")


@contextmanager
def writing(where: Path) -> Iterator[None]:
    """A context that turns an OSError, such as a full disk, into a RunFailed of one line with the path `where`."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise RunFailed(f"{where}: cannot be written ({why})") from None


@contextmanager
def directory_made(directory: Path) -> Iterator[None]:
    """A context that makes a directory and its missing parents. If the work fails, the empty new directories are
    removed.

    Raises:
        OSError: the directory cannot be made.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # a directory is not empty
            for path in missing:
                path.rmdir()
        raise


def partial_of(path: Path) -> Path:
    """The temporary path at which a file is written before it replaces `path`. A killed run may leave this file."""
    return path.with_name(f".{path.stem}.partial{path.suffix}")


@contextmanager
def in_place_of(path: Path) -> Iterator[Path]:
    """A context with a temporary path. If the work succeeds, the file at this path replaces `path`. Otherwise this file
    is removed.
    """
    partial = partial_of(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, and return when it is on disk."""
    with in_place_of(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def append_jsonl(path: Path, records: Sequence[Mapping[str, Any]], sync: bool = True) -> None:
    """Append records to a file of JSON lines, each record whole or not at all. With `sync`, wait for the disk. A
    missing file is made.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(record) + "\n" for record in records))
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        repair_jsonl(path)
        raise


def repair_jsonl(path: Path) -> None:
    """Remove a half-written last line, which a killed run may leave, from a file of JSON lines. Such a line has no line
    break at the end. A missing file is no error.
    """
    if not path.exists():
        return
    with path.open("r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
