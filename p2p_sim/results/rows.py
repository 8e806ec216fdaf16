"""Rows of results on disk. Rows are appended during a run; at the end they are also written as one tidy table."""

import importlib.metadata
import json
import math
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

import pandas as pd

from p2p_sim.base import (
    InputError,
    append_jsonl,
    in_place_of,
    no_directory,
    partial_of,
    path_of,
    repair_jsonl,
    version,
    write_whole,
    writing,
)
from p2p_sim.privacy import PrivacyBound, Terms, identifier, statement_of
from p2p_sim.replicate import Row
from p2p_sim.results.lock import LOCK, locked
from p2p_sim.results.statements import STATEMENTS, read_terms, write_terms
from p2p_sim.scenario import MODEL_VERSION, Scenario

ROWS, TABLE, TIMINGS, MANIFEST = "rows.jsonl", "rows.parquet", "timings.jsonl", "manifest.json"
FAILURES = "failures.jsonl"
NETWORK = "network"  # the directory of `p2p-sim network`; it has no rows
CHUNK = 5_000
"""The table is made in parts; this is the largest number of rows of a part."""
LARGEST = 1e150
"""Largest absolute value of a finite float in a row. The square of this number is still finite."""
_EARLY = {LOCK, partial_of(Path(MANIFEST)).name, NETWORK, FAILURES}
"""Names allowed in a results directory without a manifest. A run without rows, or `p2p-sim network`, leaves them."""
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "simpy", "pandas", "pyarrow")
Key = tuple[str, int]
"""A pair (point, index of the replicate). A point is named by the first 16 digits of its scenario's hash."""


class Line(NamedTuple):
    """One complete line of a file of rows: offset and length of the line in bytes, and the row."""

    offset: int
    length: int
    row: Row


class Store:
    """The results in one directory. Use `open_store` to get a store. Only the keys of the rows are held in memory."""

    def __init__(self, directory: Path, check: Callable[[Row], None]) -> None:
        self.directory, self._check = directory, check
        self.stored: defaultdict[str, set[int]] = defaultdict(set)
        """Indices of the replicates on disk, by point."""
        self._terms = set(read_terms(directory))
        for row in read_rows(directory):
            check(row)
            self.stored[row["scenario"]].add(row["replicate"])

    def has(self, point: str, replicate: int) -> bool:
        """Whether the row of one replicate is on disk.

        Args:
            point: the first 16 hexadecimal digits of the hash of the point's scenario. replicate: the index, from 0.
        """
        return replicate in self.stored.get(point, ())

    @property
    def size(self) -> int:
        """How many rows are on disk."""
        return sum(map(len, self.stored.values()))

    @property
    def replicates(self) -> int:
        """The largest index of a replicate on disk, plus 1. The value is 0 if no rows are on disk."""
        return max((index + 1 for indices in self.stored.values() for index in indices), default=0)

    def append(self, rows: Sequence[Row], wall_s: Sequence[float], terms: Sequence[Terms | None] = ()) -> None:
        """Write the rows of finished replicates to disk. Running times are written to another file.

        Args:
            rows: a row for each replicate. Column "scenario" has the point, column "replicate" the index.
            wall_s: the time of each replicate in seconds. terms: for each row, the privacy statements of the row
            without numbers, or None. Equal terms are written once.
        """
        if not rows:
            return
        for row in rows:
            self._check(row)
        times = [
            {"scenario": row["scenario"], "replicate": row["replicate"], "wall_s": round(wall, 6)}
            for row, wall in zip(rows, wall_s, strict=True)
        ]
        columns = {identifier(each): each for each in terms if each is not None}
        fresh = {name: each for name, each in columns.items() if name not in self._terms}
        with writing(self.directory):
            if fresh:  # written before the rows, which refer to these terms
                lines = [{"statement": name, "columns": each} for name, each in fresh.items()]
                append_jsonl(self.directory / STATEMENTS, lines)
                self._terms |= fresh.keys()
            append_jsonl(self.directory / TIMINGS, times, sync=False)
            append_jsonl(self.directory / ROWS, rows)
        for row in rows:
            self.stored[row["scenario"]].add(row["replicate"])

    def fail(self, record: Row) -> None:
        """Write down a replicate that could not be run.

        Args:
            record: the point, the replicate's index ("replicate"), the error, and the values of swept keys.
        """
        with writing(self.directory):
            append_jsonl(self.directory / FAILURES, [record])

    def finish(self, order: Callable[[Row], Any], wanted: Callable[[Row], bool]) -> pd.DataFrame:
        """Sort the lines of rows on disk, and write all rows as a Parquet table. Return the wanted rows.

        Args:
            order: gives the sort key of a row; rows with equal keys are sorted by replicate. wanted: whether a row is
            returned.
        """
        path = self.directory / ROWS
        with writing(self.directory):
            # only positions in the file are sorted, so memory holds one line at a time
            with path.open("ab+") as file:
                positions = [
                    (order(line.row), line.row["replicate"], line.offset, line.length) for line in _lines(file, path)
                ]
                positions.sort(key=lambda position: position[:2])
                with in_place_of(path) as partial, partial.open("wb") as out:
                    for *_, offset, length in positions:
                        file.seek(offset)
                        out.write(file.read(length))
                    out.flush()
                    os.fsync(out.fileno())
            frame = _frame(self.directory)
            write_terms(self.directory, frame)
            with in_place_of(self.directory / TABLE) as partial, partial.open("wb") as out:
                frame.to_parquet(out, index=False)
        return frame if all(map(wanted, read_rows(self.directory))) else _frame(self.directory, wanted)


@contextmanager
def open_store(directory: Path, identity: str, check: Callable[[Row], None]) -> Iterator[Store]:
    """Open the store of a results directory. Meanwhile no other process can write to the directory.

    Args:
        directory: the results directory. identity: hash of the run, sweep or search. check: raises an InputError for a
        row of other work.

    If the work fails while no replicate is on disk, the store's files are removed, except the file of failures.

    Raises:
        InputError: the directory holds something else, or another process writes to it; nothing is changed then. Or a
        file is damaged, or has a row of other work.
    """
    _check_directory(directory, identity)
    with locked(directory):
        _check_directory(directory, identity)  # the directory may have changed before the lock
        for name in (ROWS, TIMINGS, STATEMENTS):
            repair_jsonl(directory / name)
        (directory / FAILURES).unlink(missing_ok=True)  # failed replicates are tried again
        store = Store(directory, check)
        try:
            yield store
        except BaseException:
            if not store.stored:
                for name in (ROWS, TIMINGS, STATEMENTS, MANIFEST, LOCK):
                    (directory / name).unlink(missing_ok=True)
            raise


def held_replicates(directory: Path, identity: str) -> set[Key]:
    """The points and replicates whose rows are in a directory. The result is empty if the directory is missing.

    Args:
        directory: the results directory. identity: hash of the run, sweep or search to which the results must belong.

    Raises:
        InputError: the directory holds anything but results with this hash.
    """
    if not directory.exists():
        return set()
    _check_directory(directory, identity)
    return {(row["scenario"], row["replicate"]) for row in read_rows(directory)}


def _check_directory(directory: Path, identity: str) -> None:
    """Raise an InputError if a directory holds anything but results of one run, sweep or search.

    Args:
        directory: the results directory, which may be missing. identity: the hash that the manifest must have.
    """
    if (directory / MANIFEST).exists():
        existing = str(read_manifest(directory).get("identity", ""))
        if existing != identity:
            raise InputError(
                f"--out {directory}: already holds another scenario's results (hash {existing[:8]}, this one is "
                f"{identity[:8]}); choose another directory"
            )
        if (directory / TABLE).exists() and not (directory / ROWS).exists():
            raise InputError(f"--out {directory}: holds a published table without its rows; choose another directory")
    elif directory.exists() and not (directory.is_dir() and {path.name for path in directory.iterdir()} <= _EARLY):
        raise InputError(f"--out {directory}: exists and holds no results of p2p-sim; choose another directory")
    for name in (ROWS, TABLE, TIMINGS, FAILURES, STATEMENTS):
        if (directory / name).exists() and not (directory / name).is_file():
            raise InputError(f"{directory / name}: is not a file")


def stored_rows(directory: str | Path) -> pd.DataFrame:
    """The rows in a results directory as a tidy data frame, one line for each point and replicate.

    The points of a finished sweep are in the sweep's order. The points of an unfinished sweep are in the order of
    their first rows on disk. The replicates of each point are in ascending order.

    Raises:
        InputError: the directory holds no results of a run or a sweep.
    """
    directory = path_of("directory", directory)
    if not (directory / MANIFEST).is_file():
        why = f" ({no_directory(directory)})" * (not directory.is_dir())
        raise InputError(f"{directory}: holds no results of p2p-sim{why}")
    frame = _frame(directory) if (directory / ROWS).exists() else _table(directory)
    if frame.empty:
        return frame
    if not {"scenario", "replicate"} <= set(frame):
        raise InputError(
            f"{directory}: holds a study that is no run and no sweep; the tables (*.csv) there have the results"
        )
    first = pd.factorize(frame["scenario"])[0]
    frame = frame.assign(_first=first).drop_duplicates(["scenario", "replicate"], keep="last")
    return frame.sort_values(["_first", "replicate"], kind="stable").drop(columns="_first").reset_index(drop=True)


def _table(directory: Path) -> pd.DataFrame:
    """The rows of a directory with only the table, such as a published study. Without a table the result is empty."""
    path = directory / TABLE
    try:
        return pd.read_parquet(path) if path.exists() else pd.DataFrame()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _frame(directory: Path, wanted: Callable[[Row], bool] = lambda row: True) -> pd.DataFrame:
    """A data frame of the rows for which `wanted` is true, in the order of the lines."""
    rows = filter(wanted, read_rows(directory))
    pieces = [pd.DataFrame(chunk) for chunk in iter(lambda: list(islice(rows, CHUNK)), [])]
    if len(pieces) < 2:
        return pieces[0] if pieces else pd.DataFrame([])
    columns = list(dict.fromkeys(name for piece in pieces for name in piece.columns))
    # an empty column of a piece is dropped; it would change the type of the whole column
    filled = [piece.dropna(axis="columns", how="all") for piece in pieces]
    return pd.concat(filled, ignore_index=True).reindex(columns=columns)


def write_manifest(
    directory: Path, base: Scenario, *, name: str, identity: str, replicates: int, packages: Mapping[str, str],
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Write the manifest, which states what was run. It has the whole scenario, the hash, the seed and the versions.

    Args:
        directory: the results directory. base: the scenario. name: name of the results. identity: hash of the run,
        sweep or search. replicates: number of replicates of each point. packages: versions of the plug-ins that are
        used. extra: further entries of a sweep or search, such as axes. The entry "kind" replaces "run".
    """
    # kind, axes and plots are for the run of one scenario; a sweep or a search replaces these entries
    content = {
        "identity": identity,
        "model_version": MODEL_VERSION,
        "name": name,
        "kind": "run",
        "seed": base.seed,
        "replicates": replicates,
        "scenario": base.model_dump(mode="json"),
        "axes": [],
        "plots": [],
        **extra,
        "versions": {
            "p2p-sim": version(),
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _LIBRARIES},
            **packages,
        },
    }
    with writing(directory):
        write_whole(directory / MANIFEST, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a results directory as a tree of keys. A manifest that cannot be read raises an InputError."""
    try:
        content = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{directory / MANIFEST}: cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{directory / MANIFEST}: is not a manifest")
    return content


def load_statements(directory: str | Path) -> list[dict[str, PrivacyBound]]:
    """The complete privacy statements of all rows, in the order of `load_results`. A statement is a bound of ε with δ
    and conditions. Each row has a dict from column to statement. The dict is empty for a row without statements.

    directory: the results directory.

    Raises:
        InputError: the directory holds no results, or the results are damaged.
    """
    rows, terms_of = stored_rows(directory), read_terms(Path(directory))
    statements = []
    for cells in rows.to_dict("records"):
        row = {str(name): cell for name, cell in cells.items()}
        terms = terms_of.get(str(row.get("statement")), {})
        statements.append(
            {column: bound for column in terms if (bound := statement_of(row, terms, column)) is not None}
        )
    return statements


def read_rows(directory: Path) -> Iterator[Row]:
    """Yields all rows of a directory. A half-written last line is left out."""
    path = directory / ROWS
    if path.exists():
        try:
            with path.open("rb") as file:
                yield from (line.row for line in _lines(file, path))
        except OSError as error:
            raise InputError(f"{path}: damaged ({error})") from None


def _lines(file: IO[bytes], path: Path) -> Iterator[Line]:
    """Yields offset and length in bytes, and the row, of every line of an open file of rows. A half-written last line
    is left out. A damaged line raises an InputError, which names the file by `path`.
    """
    offset = 0
    file.seek(0)
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            return
        try:
            row = json.loads(line)
            if not _is_row(row):
                raise ValueError(f"line {number} is no row")
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: damaged ({error})") from None
        yield Line(offset, len(line), row)
        offset += len(line)


def _is_row(row: object) -> bool:
    """Whether a value is a row: a mapping with a text "scenario" (the point) and a whole number "replicate" from 0
    to 2**31 - 1. No cell may be a list or a mapping. No finite float may be above 1e150 in size.
    """
    if not isinstance(row, dict) or type(row.get("scenario")) is not str or type(row.get("replicate")) is not int:
        return False
    simple = not any(isinstance(cell, dict | list) for cell in row.values())
    small = not any(LARGEST < abs(cell) < math.inf for cell in row.values() if type(cell) is float)
    return 0 <= row["replicate"] < 2**31 and simple and small
