"""The page "A sweep while it runs", which shows the progress of a results directory."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from p2p_sim.base import LONGEST_LINE, InputError
from p2p_sim.explorer.directories import ReadableDirectory, is_running, promised_rows, swept_keys
from p2p_sim.explorer.page_results import Tail, row_in, shown_cell
from p2p_sim.figures import pairs, short
from p2p_sim.report import read_failures
from p2p_sim.results import ROWS, TABLE, read_manifest

State = Literal["running", "finished", "stopped"]
LAST = 30
"""Largest number of rows, and largest number of failures, that are shown."""
WINDOW_S = 60.0
"""Length in seconds of the latest period. The speed during this period gives the time to the end."""
FIGURES = ("accuracy", "error_rate", "excess_risk", "epsilon_upper")


@dataclass
class _RowsRead:
    """The rows of a directory that have been read so far.

    lines: reads the added lines. count: number of rows. last: lines of the last rows. speed: pairs of a time in seconds
    and the number of rows then, during the last minute. These pairs give the time to the end.
    """

    lines: Tail = field(default_factory=Tail)
    count: int = 0
    last: deque[bytes] = field(default_factory=lambda: deque(maxlen=LAST))
    speed: deque[tuple[float, int]] = field(default_factory=deque)

    def read_on(self, path: Path) -> None:
        """Read the lines that were added to the file of results at `path` since the last call, one line for each row.
        All rows are counted; the last 30 lines are kept. If the file was written anew, the count starts again.
        """
        for line in self.lines.added(path):
            if self.lines.first:
                self.count = 0
                self.last.clear()
            self.last.append(line)
            self.count += 1


class Watch:
    """Reads the progress of results directories again and again, but each row only once."""

    def __init__(self) -> None:
        self._rows: dict[Path, _RowsRead] = {}

    def look(self, directory: ReadableDirectory, now: float | None = None) -> dict[str, Any]:
        """The progress of a sweep for the page, by name.

        "state" is "running", "finished" or "stopped". "points", "replicates" (per point) and "total" (rows) describe
        the finished sweep. "done" is the number of rows so far; "failed" is the number of failed replicates. "left_s"
        is the time to the end in seconds; None: unknown. "rows" are the last rows as texts, newest first, with the
        headings "columns". "failures" has a line for each of the last failures.

        Args:
            directory: the directory with the sweep's results. now: seconds on a steady clock; None: this machine's
            clock.

        Raises:
            InputError: the directory cannot be read, or is damaged.
        """
        manifest, rows = read_manifest(directory.path), self._rows.setdefault(directory.path, _RowsRead())
        try:
            rows.read_on(directory.path / ROWS)
        except OSError as error:
            raise InputError(f"{directory.path / ROWS}: cannot be read ({error.strerror})") from None
        failures = read_failures(directory.path)
        # published results have no file of rows, only a table
        count = rows.count if (directory.path / ROWS).exists() else table_rows(directory.path / TABLE)
        promised = promised_rows(manifest)
        total = max(promised.total, count)
        running = is_running(directory.path)
        state: State = "running" if running else "finished" if count + len(failures) >= total else "stopped"
        keys, now = swept_keys(manifest), time.monotonic() if now is None else now
        return {
            "name": str(manifest.get("name", directory.name)),
            "state": state,
            "points": promised.points,
            "replicates": promised.replicates,
            "total": total,
            "done": count,
            "failed": len(failures),
            "left_s": _seconds_left(rows, count, total - len(failures), now, running),
            "columns": [short(name) for name in ("replicate", *keys, *FIGURES)],
            "rows": [_cells(line, keys) for line in reversed(rows.last)],
            "failures": [_failure(failure, keys) for failure in failures[-LAST:][::-1]],
        }


def table_rows(path: Path) -> int:
    """The number of rows of a table in Parquet; 0 if there is no such file."""
    from pyarrow import ArrowInvalid, parquet

    try:
        return int(parquet.read_metadata(path).num_rows) if path.exists() else 0
    except (OSError, ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _seconds_left(rows: _RowsRead, count: int, total: int, now: float, running: bool) -> float | None:
    """Seconds until all rows are there, at the speed of the last minute. None: unknown, or the sweep does not run.

    Args:
        rows: records `count` and the numbers of rows during the last minute. count: number of rows so far. total:
        number of rows at the end, without failed replicates. now: seconds on a steady clock. running: whether the sweep
        runs.
    """
    if not running:
        rows.speed.clear()
        return None
    rows.speed.append((now, count))
    while len(rows.speed) > 2 and now - rows.speed[1][0] > WINDOW_S:
        rows.speed.popleft()
    begin, before = rows.speed[0]
    return (total - count) * (now - begin) / (count - before) if now > begin and count > before else None


def _cells(line: bytes, keys: list[str]) -> list[str]:
    """One result row's cells on the page, as texts. First come the replicate's number and the values of the swept keys.
    Then come accuracy, error rate, excess risk, and the learner's ε (upper bound). A missing cell is an empty text.

    Args:
        line: the row as a line of JSON. A damaged line gives the single cell "damaged". keys: the swept keys.
    """
    row = row_in(line)
    if row is None:
        return ["damaged"]
    if isinstance(row.get("error_rate"), float):
        row["accuracy"] = 1.0 - row["error_rate"]
    return ["" if row.get(name) is None else shown_cell(name, row[name]) for name in ("replicate", *keys, *FIGURES)]


def _failure(record: Mapping[str, Any], keys: list[str]) -> str:
    """One line on a failed replicate: the values of the swept keys, the replicate's index and the error. record: the
    failure as it was noted. keys: the swept keys.
    """
    swept = [key for key in keys if key in record]
    where = ", ".join([pairs(swept, [record[key] for key in swept]), f"replicate {record.get('replicate')}"])
    return " ".join(f"{where.removeprefix(', ')}: {record.get('error')}".split())[:LONGEST_LINE]
