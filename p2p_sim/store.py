"""Rows on disk: appended and synced while running, one tidy table at the end, never lost, never mixed."""

import fcntl
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.config import InputError
from p2p_sim.scenario import MODEL_VERSION, Scenario

ROWS, TABLE, TIMINGS, MANIFEST, LOCK = "rows.jsonl", "rows.parquet", "timings.jsonl", "manifest.json", ".lock"
FAILURES = "failures.jsonl"
NETWORK = "network"
"""Folder of `p2p-sim network`, which keeps no rows."""
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "simpy", "pandas", "pyarrow")


class Store:
    """The results of one scenario in one directory; use `open_store` to get one."""

    def __init__(self, directory: Path, identity: str) -> None:
        self.directory, self._identity = directory, identity
        self.rows: dict[int, dict[str, Any]] = {}
        for row in read_rows(directory):
            self._check(row)
            self.rows[row["replicate"]] = row

    def _check(self, row: dict[str, Any]) -> None:
        if not self._identity.startswith(str(row["scenario"])):
            raise InputError(
                f"{self.directory / ROWS}: replicate {row['replicate']} is of another scenario or of other data "
                f"(hash {str(row['scenario'])[:8]}, not {self._identity[:8]})"
            )

    def append(self, row: dict[str, Any], wall_s: float) -> None:
        """Add a finished replicate; it is on disk when this returns. Clock times go to a file of their own."""
        self._check(row)
        append_jsonl(self.directory / TIMINGS, {"replicate": row["replicate"], "wall_s": round(wall_s, 6)})
        append_jsonl(self.directory / ROWS, row)
        self.rows[row["replicate"]] = row

    def finish(self) -> pd.DataFrame:
        """Sort the rows by replicate, write them as lines and as a Parquet table, and return them."""
        ordered = [self.rows[index] for index in sorted(self.rows)]
        write_whole(self.directory / ROWS, "".join(map(_line, ordered)).encode())
        frame = pd.DataFrame(ordered)
        partial = self.directory / (TABLE + ".partial")
        frame.to_parquet(partial, index=False)
        partial.replace(self.directory / TABLE)
        return frame


@contextmanager
def open_store(directory: Path, scenario: Scenario, identity: str) -> Iterator[Store]:
    """Open a results directory for writing, alone.

    Raises:
        InputError: it holds something else, or another process is writing to it. Nothing is changed then.
    """
    _check_directory(directory, identity)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("w")
    except OSError as error:
        raise InputError(f"--out {directory}: cannot be written ({error.strerror})") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"--out {directory}: another run is writing there; wait for it to end") from None
        _check_directory(directory, identity)  # it may have changed hands while we waited for the lock
        for name in (ROWS, TIMINGS):
            repair_jsonl(directory / name)
        store = Store(directory, identity)
        write_manifest(directory, scenario, identity, max([scenario.replicates, *(i + 1 for i in store.rows)]))
        yield store


def _check_directory(directory: Path, identity: str) -> None:
    """Refuse a directory that holds anything but this scenario's results."""
    if (directory / MANIFEST).exists():
        held = str(read_manifest(directory).get("identity", ""))
        if held != identity:
            raise InputError(
                f"--out {directory}: already holds another scenario's results (hash {held[:8]}, this one is "
                f"{identity[:8]}); choose another directory"
            )
    elif directory.exists() and not (directory.is_dir() and all(_ours(path.name) for path in directory.iterdir())):
        raise InputError(f"--out {directory}: exists and holds no results of p2p-sim; choose another directory")
    for name in (ROWS, TABLE, TIMINGS):
        if (directory / name).exists() and not (directory / name).is_file():
            raise InputError(f"{directory / name}: is not a file")


def _ours(name: str) -> bool:
    """Whether a file may be there before the manifest: left by a killed run, or the figures of one replicate."""
    return name in (LOCK, MANIFEST + ".partial", NETWORK)


def load_results(directory: str | Path) -> pd.DataFrame:
    """The rows in a results directory as a tidy data frame, one line a replicate, sorted.

    Raises:
        InputError: the directory holds no results.
    """
    directory = Path(directory)
    if not (directory / MANIFEST).is_file():
        raise InputError(f"{directory}: holds no results of p2p-sim")
    rows = {row["replicate"]: row for row in read_rows(directory)}
    return pd.DataFrame([rows[replicate] for replicate in sorted(rows)])


def write_manifest(directory: Path, scenario: Scenario, identity: str, replicates: int) -> None:
    """Say what the rows are of: the scenario in full, its hash, the seeds and the versions."""
    content = {
        "identity": identity,
        "model_version": MODEL_VERSION,
        "name": scenario.name,
        "seed": scenario.seed,
        "replicates": replicates,
        "scenario": scenario.model_dump(mode="json"),
        "versions": {
            "p2p-sim": importlib.metadata.version("p2p-sim"),
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _LIBRARIES},
        },
    }
    write_whole(directory / MANIFEST, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a results directory."""
    try:
        content = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{directory / MANIFEST}: cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{directory / MANIFEST}: is not a manifest")
    return content


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record) + "\n"


def append_jsonl(path: Path, record: dict[str, Any]) -> None:
    """Append one line and wait until it is on disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(record))
        file.flush()
        os.fsync(file.fileno())


def repair_jsonl(path: Path) -> None:
    """Cut a half-written last line, which a killed run may leave."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)


def read_rows(directory: Path) -> list[dict[str, Any]]:
    """All whole lines of a directory's rows; none where there are no rows yet."""
    path = directory / ROWS
    if not path.exists():
        return []
    rows = []
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            if not isinstance(row, dict) or type(row.get("replicate")) is not int or "scenario" not in row:
                raise ValueError(f"line {number} is no row")
            rows.append(row)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({error})") from None
    return rows


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
