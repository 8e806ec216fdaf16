"""Files that are there whole or not at all, and files of lines that a full disk or a killed run cannot spoil."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import RunFailed


def no_file(path: Path) -> str:
    """Why a path names no file: it is a directory, or nothing is there."""
    try:
        directory = path.is_dir()
    except (OSError, ValueError):  # a name that nothing can have
        directory = False
    return "is a directory, not a file" if directory else "no such file"


def no_directory(path: Path) -> str:
    """Why a path names no directory: it is a file, or nothing is there."""
    return "is a file, not a directory" if path.exists() else "there is no such directory"


@contextmanager
def writing(where: Path) -> Iterator[None]:
    """A context in which a failure to write, such as a full disk, ends the run in one line.

    Raises:
        RunFailed: in place of an OSError; it names `where`.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise RunFailed(f"{where}: cannot be written ({why})") from None


@contextmanager
def directory_made(directory: Path) -> Iterator[None]:
    """A context in which a directory exists, with its parents; if the work fails, those made for it that are empty are
    removed.

    Raises:
        OSError: it cannot be made.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # somebody else's file is in it
            for path in missing:
                path.rmdir()
        raise


def partial_of(path: Path) -> Path:
    """Where a file is written before it takes its place; a killed run may leave it."""
    return path.with_name(f".{path.stem}.partial{path.suffix}")


@contextmanager
def in_place_of(path: Path) -> Iterator[Path]:
    """A context with a temporary path that replaces `path` when the work succeeds, and is removed when it fails."""
    partial = partial_of(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, and on disk when this returns."""
    with in_place_of(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def append_jsonl(path: Path, records: Sequence[Mapping[str, Any]], sync: bool = True) -> None:
    """Append lines, all or none, and, with `sync`, wait until they are on disk."""
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
    """Cut a half-written last line, which a killed run may leave."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        whole = end
        while whole > 0:  # back to the last end of a line
            begin = max(0, whole - 65_536)
            file.seek(begin)
            newline = file.read(whole - begin).rfind(b"\n")
            whole = begin + newline + 1 if newline >= 0 else begin
            if newline >= 0:
                break
        if whole < end:
            file.truncate(whole)
