"""Describes, checks and downloads the files of public data sets."""

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

from pydantic import ConfigDict, TypeAdapter

from p2p_sim.base import InputError, RunFailed, nearest, needs, shortened
from p2p_sim.population.data_files import checksum, find_file, read_bytes

TABLE = Path(__file__).with_name("data_sets.toml")
PUBLISHED = "as published"
"""The version of a file that equals the published .gz file, recognised by the SHA-256 of the .gz file."""


@dataclass(frozen=True)
class DataFile:
    """One file of a public data set, by name, size and SHA-256.

    names: names that the file may have, plain or with .gz, in the order of search. bytes: size of the published
    content, not compressed. sha256: SHA-256 of the content of each version, under the version's name.
    gz_sha256: SHA-256 of the published .gz file; stated if the SHA-256 of the content is not known.
    fetch: the file's address below the data set's source, or the file's path in the archive.
    optional: whether the data set can be read without the file.
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
        """The name of a file's version, such as "as published" or a name in data_sets.toml; None: no known version.

        Some data sets are in use in several versions. The SHA-256 shows the version.

        Args:
            path: the file.

        Raises:
            InputError: the file cannot be read as a whole.
        """
        if self.gz_sha256 is not None and path.suffix == ".gz" and checksum(path) == self.gz_sha256:
            return PUBLISHED
        figure = hashlib.sha256(read_bytes(path)).hexdigest()
        return next((version for version, digest in self.sha256.items() if digest == figure), None)


@dataclass(frozen=True)
class DataSet:
    """A public data set and its files.

    kind: the population's kind, also the name of the files' folder in the data directory. used: what uses the data set,
    in words: a value of a key in scenarios, a study, or both. source: the address of the files or of the archive.
    Without a source, `get` says how to get the files. archive: name of the archive below the source, if there is an
    archive.
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

    path: the file's path; None: there is no such file. version: the name of the file's version; None: the file was not
    recognised, or was not compared.
    fault: a clause on what is wrong with the file; empty if nothing is wrong.
    """

    file: DataFile
    path: Path | None
    version: str | None = None
    fault: str = ""


@cache
def data_sets() -> dict[str, DataSet]:
    """All data sets, under their kinds, as described in data_sets.toml."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["data_set"]
    adapter = TypeAdapter(list[DataSet], config=ConfigDict(extra="forbid"))  # a mistyped key is an error
    return {entry.kind: entry for entry in adapter.validate_python(entries)}


def data_set(kind: str) -> DataSet:
    """The data set of a kind.

    Raises:
        InputError: no data set has the kind.
    """
    by_kind = data_sets()
    if kind not in by_kind:
        raise InputError(f"{shortened(kind)}: no such data set; one of {', '.join(by_kind)}{nearest(kind, by_kind)}")
    return by_kind[kind]


def check(dataset: DataSet, places: tuple[Path, ...], read: bool = True) -> list[Checked]:
    """Compares every file of a data set with its published checksums, and returns a result for each file.

    A result has the file's path and version, if known, and a clause on the fault, empty if nothing is wrong.

    Args:
        dataset: the data set. places: directories in which files are looked for, in this order. read: whether to
        compare the checksums; if not, only the existence of the files is checked.
    """
    return [_checked(dataset.kind, file, places, read) for file in dataset.files]


def _checked(kind: str, file: DataFile, places: tuple[Path, ...], read: bool) -> Checked:
    """Looks for a file of the data set `kind`. If `read` is true, also compares the file with its checksums.

    A missing file is a fault unless the file is optional.
    """
    try:
        path = find_file(kind, places, kind, file.names)
    except InputError:
        return Checked(file, None, fault="" if file.optional else "is missing")
    if not read:
        return Checked(file, path)
    try:
        if (version := file.version(path)) is not None:
            return Checked(file, path, version)
        size = len(read_bytes(path))
    except InputError as error:
        return Checked(file, path, fault=str(error).removeprefix(f"{path}: "))
    difference = "other content" if size == file.bytes else f"{size:,} bytes of other content"
    return Checked(file, path, fault=f"{difference} than published ({file.bytes:,} bytes, not compressed)")


LONGEST = 400
"""Largest number of characters of a reason in a message; a longer reason is cut between two words."""


def fetch(dataset: DataSet, directory: Path) -> list[Path]:
    """Downloads the missing files of a data set, and returns the paths of the new files.

    A file is kept only if it has the checksum of a known version.

    Args:
        dataset: the data set.
        directory: the data directory; new files go to its subfolder with the name of the data set's kind.

    Raises:
        InputError: the data set has no address, pooch is not installed, or the folder cannot be made.
        RunFailed: the source cannot be reached, or sends other content.
    """
    if dataset.source is None:
        raise InputError(f"{dataset.kind}: has no public address to fetch it from; {dataset.get}")
    missing = [checked.file for checked in check(dataset, (directory,), read=False) if checked.path is None]
    if not missing:
        return []
    pooch, folder = _pooch(), directory / dataset.kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from None
    # scratch is on the same disk; files are moved after all are checked, so a broken download leaves no file
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
    """The module pooch, without log messages. If pooch is not installed, an InputError says how to install it."""
    try:
        import pooch
    except ImportError:
        raise InputError(
            f"fetching {needs('pooch', 'data')}; or put the files in place yourself (`p2p-sim data where` says where)"
        ) from None
    pooch.get_logger().setLevel("ERROR")
    return pooch


def _retrieved(pooch: Any, address: str, scratch: Path) -> Path:
    """Downloads the file at an address into the folder `scratch` with the module `pooch`, and returns its path."""
    with _reachable(address):
        return Path(pooch.retrieve(address, known_hash=None, fname=address.rsplit("/", 1)[-1], path=scratch))


def _member(archive: Path, file: DataFile, scratch: Path) -> Path:
    """Extracts one file from the tar archive at a path into the folder `scratch`, and returns the file's path."""
    with _reachable(archive.name), tarfile.open(archive) as members:
        content = members.extractfile(str(file.fetch))
        if content is None:
            raise KeyError(f"{file.fetch} is no file")
        path = scratch / file.name
        path.write_bytes(content.read())
    return path


@contextmanager
def _reachable(address: str) -> Iterator[None]:
    """A context that turns an error of downloading or unpacking into a RunFailed of one line, with the address."""
    try:
        yield
    except (OSError, ValueError, KeyError, EOFError, tarfile.TarError) as error:
        why = textwrap.shorten(str(error), LONGEST, placeholder=" (and more)")
        raise RunFailed(f"{address}: cannot be fetched ({why}); nothing is kept") from None
