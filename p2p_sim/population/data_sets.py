"""The public data sets that are read from files: which files they have, whether these are here, and their sources."""

import hashlib
import tarfile
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from p2p_sim.base.errors import InputError, RunFailed, nearest, needs, shortened
from p2p_sim.population.data_files import checksum, find_file, read_bytes

TABLE = Path(__file__).with_name("data_sets.toml")
PUBLISHED = "as published"


@dataclass(frozen=True)
class DataFile:
    """One file of a public data set, by name, size and SHA-256.

    names: what it may be called, as it is or with .gz, in the order in which it is looked for.
    bytes: size of its content as published, not compressed. sha256: of the same content, by version.
    gz_sha256: of the published .gz, where nothing is known of its content.
    fetch: its address below the data set's source, or its path in the archive.
    optional: whether the data set can be read without it.
    """

    names: tuple[str, ...]
    bytes: int
    sha256: Mapping[str, str]
    gz_sha256: str | None = None
    fetch: str | None = None
    optional: bool = False

    @property
    def name(self) -> str:
        """The file's published name, without .gz."""
        return self.names[0] if self.fetch is None else PurePosixPath(self.fetch).name.removesuffix(".gz")

    def version(self, path: Path) -> str | None:
        """The version of the file at a path, recognised by its SHA-256; None if it is no known version.

        Raises:
            InputError: it cannot be read as a whole.
        """
        if self.gz_sha256 is not None and path.suffix == ".gz" and checksum(path) == self.gz_sha256:
            return PUBLISHED
        figure = hashlib.sha256(read_bytes(path)).hexdigest()
        return next((version for version, digest in self.sha256.items() if digest == figure), None)


@dataclass(frozen=True)
class DataSet:
    """A public data set that scenarios name by its kind, and its files.

    kind: of the population, and the folder of its files below the data directory. title, used, licence: in words.
    source: the address of its files or of its archive; without one, `get` says in words how to get it.
    archive: name of the archive below the source, if the files come in one.
    """

    kind: str
    title: str
    used: str
    licence: str
    files: tuple[DataFile, ...] = field(repr=False)
    source: str | None = None
    archive: str | None = None
    get: str = ""


@dataclass(frozen=True)
class Checked:
    """The result of comparing a file with its published checksum.

    path: of the file; None: it is not here. version: of the file; None: not recognised.
    fault: what is wrong with it in words; empty if nothing is.
    """

    file: DataFile
    path: Path | None
    version: str | None = None
    fault: str = ""


@cache
def data_sets() -> dict[str, DataSet]:
    """All data sets by kind, from data_sets.toml."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["data_set"]
    return {entry["kind"]: DataSet(**{**entry, "files": tuple(map(_file, entry["files"]))}) for entry in entries}


def data_set(kind: str) -> DataSet:
    """The data set of this kind.

    Raises:
        InputError: there is none.
    """
    by_kind = data_sets()
    if kind not in by_kind:
        raise InputError(f"{shortened(kind)}: no such data set; one of {', '.join(by_kind)}{nearest(kind, by_kind)}")
    return by_kind[kind]


def locate(dataset: DataSet, file: DataFile, places: tuple[Path, ...]) -> Path | None:
    """The path at which a scenario would read a file of a data set; None if the file is not there."""
    try:
        return find_file(dataset.kind, places, dataset.kind, file.names)
    except InputError:
        return None


def check(dataset: DataSet, places: tuple[Path, ...], read: bool = True) -> list[Checked]:
    """Compares every file of a data set with its published checksums, one result for each file.

    Args:
        places: directories in which files are looked for, first match wins. read: also read the files.
    """
    return [_checked(file, locate(dataset, file, places), read) for file in dataset.files]


def _checked(file: DataFile, path: Path | None, read: bool) -> Checked:
    if path is None:
        return Checked(file, None, fault="" if file.optional else "is missing")
    if not read:
        return Checked(file, path)
    try:
        version = file.version(path)
        size = 0 if version else len(read_bytes(path))
    except InputError as error:
        return Checked(file, path, fault=str(error).removeprefix(f"{path}: "))
    if version is not None:
        return Checked(file, path, version)
    difference = "other content" if size == file.bytes else f"{size:,} bytes of other content"
    return Checked(file, path, fault=f"{difference} than published ({file.bytes:,} bytes, not compressed)")


def _file(entry: Mapping[str, object]) -> DataFile:
    return DataFile(**{**entry, "names": tuple(entry["names"])})  # type: ignore[arg-type]


LONGEST = 400
"""Longest reason in a message, in characters; a longer one is cut between two words."""


def fetch(dataset: DataSet, directory: Path) -> list[Path]:
    """Downloads the missing files of a data set, and returns the paths of the new ones; others stay as they are.

    A file is kept only if it has the checksum of a known version.

    Args:
        directory: of data files; the files go to its folder named as the data set.

    Raises:
        InputError: the data set has no address, or pooch is not installed. RunFailed: the source cannot be reached, or
            sends something else.
    """
    if dataset.source is None:
        raise InputError(f"{dataset.kind}: has no public address to fetch it from; {dataset.get}")
    missing = [held.file for held in check(dataset, (directory,), read=False) if held.path is None]
    if not missing:
        return []
    pooch, folder = _pooch(), directory / dataset.kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from None
    # files are checked in a folder of the same disk, then moved all at once: a broken fetch leaves nothing
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
        if dataset.archive is None:
            fetched = [_retrieved(pooch, f"{dataset.source}{file.fetch}", Path(scratch)) for file in missing]
        else:
            archive = _retrieved(pooch, f"{dataset.source}{dataset.archive}", Path(scratch))
            fetched = [_member(archive, file, Path(scratch)) for file in missing]
        for file, path in zip(missing, fetched, strict=True):
            if file.version(path) is None:
                raise RunFailed(f"{dataset.source}: sends another {path.name} than the one published; nothing is kept")
        return [path.replace(folder / path.name) for path in fetched]


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
    """Extracts one file from an archive into `scratch` and returns its path."""
    with _reachable(archive.name), tarfile.open(archive) as members:
        content = members.extractfile(str(file.fetch))
        if content is None:
            raise KeyError(f"{file.fetch} is no file")
        path = scratch / file.name
        path.write_bytes(content.read())
    return path


@contextmanager
def _reachable(address: str) -> Iterator[None]:
    """Context that turns an error of fetching or unpacking into a RunFailed of one line with the address."""
    try:
        yield
    except (OSError, ValueError, KeyError, EOFError, tarfile.TarError) as error:
        why = textwrap.shorten(str(error), LONGEST, placeholder=" (and more)")
        raise RunFailed(f"{address}: cannot be fetched ({why}); nothing is kept") from None
