"""Fetching data sets from their public sources with pooch, checked before they take their place."""

import tarfile
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import InputError, RunFailed, needs
from p2p_sim.population.data_sets import DataFile, DataSet, check

LONGEST = 400
"""Characters of a reason that are shown; it is cut between two words."""


def fetch(one: DataSet, directory: Path) -> list[Path]:
    """Fetch the files of a data set that are missing; return those that are new. Others stay as they are.

    A file takes its place only if it has the check figure of a known version.

    Args:
        directory: of data files; the files go to its folder named as the data set.

    Raises:
        InputError: the data set has no address, or pooch is not installed. RunFailed: the source cannot be reached, or
            sends something else.
    """
    if one.source is None:
        raise InputError(f"{one.kind}: has no public address to fetch it from; {one.get}")
    missing = [held.file for held in check(one, (directory,), read=False) if held.path is None]
    if not missing:
        return []
    pooch, folder = _pooch(), directory / one.kind
    _open(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
        if one.archive is None:
            fetched = [_retrieved(pooch, f"{one.source}{file.fetch}", Path(scratch)) for file in missing]
        else:
            archive = _retrieved(pooch, f"{one.source}{one.archive}", Path(scratch))
            fetched = [_member(archive, file, Path(scratch)) for file in missing]
        for file, path in zip(missing, fetched, strict=True):
            if file.version(path) is None:
                raise RunFailed(f"{one.source}: sends another {path.name} than the one published; nothing is kept")
        return [path.replace(folder / path.name) for path in fetched]


def _open(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from None


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise InputError(
            f"fetching {needs('pooch', 'data')}; or put the files in place yourself (`p2p-sim data where` says where)"
        ) from None
    pooch.get_logger().setLevel("ERROR")
    return pooch


def _retrieved(pooch: Any, address: str, scratch: Path) -> Path:
    with _reachable(address):
        return Path(pooch.retrieve(address, known_hash=None, fname=address.rsplit("/", 1)[-1], path=scratch))


def _member(archive: Path, file: DataFile, scratch: Path) -> Path:
    """One file of an archive, written under its own name."""
    with _reachable(archive.name), tarfile.open(archive) as members:
        content = members.extractfile(str(file.fetch))
        if content is None:
            raise KeyError(f"{file.fetch} is no file")
        path = scratch / file.name
        path.write_bytes(content.read())
    return path


@contextmanager
def _reachable(what: str) -> Iterator[None]:
    """A source that cannot be reached, or an archive that is none, in one line."""
    try:
        yield
    except (OSError, ValueError, KeyError, EOFError, tarfile.TarError) as error:
        why = textwrap.shorten(str(error), LONGEST, placeholder=" (and more)")
        raise RunFailed(f"{what}: cannot be fetched ({why}); nothing is kept") from None
