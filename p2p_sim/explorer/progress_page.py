"""The page "A sweep while it runs": how far a results directory is, from what is on disk alone."""

import json
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from p2p_sim.base.errors import LONGEST_LINE, InputError
from p2p_sim.explorer.directories import Place, is_running, promised_rows
from p2p_sim.explorer.page_results import Tail, shown_cell
from p2p_sim.figures.column_labels import pairs, short
from p2p_sim.report.results_report import read_failures
from p2p_sim.results.rows import ROWS, TABLE, read_manifest

State = Literal["running", "finished", "stopped"]
LAST = 30
"""Rows and failures that are shown."""
WINDOW_S = 60.0
"""The time left follows from the speed of this many last seconds."""
FIGURES = ("accuracy", "error_rate", "excess_risk", "epsilon_upper")


@dataclass
class _Seen:
    """What was read of a directory's rows. speed: times and counts, of which the time left follows."""

    lines: Tail = field(default_factory=Tail)
    count: int = 0
    last: deque[bytes] = field(default_factory=lambda: deque(maxlen=LAST))
    speed: deque[tuple[float, int]] = field(default_factory=deque)

    def read_on(self, path: Path) -> None:
        """Read the lines that were added."""
        for line in self.lines.added(path):
            if self.lines.first:
                self.count = 0
                self.last.clear()
            self.last.append(line)
            self.count += 1


class Watch:
    """Looks at results directories again and again; a row is read once."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def look(self, place: Place, now: float | None = None) -> dict[str, Any]:
        """Where a sweep stands.

        Args:
            place: its results directory. now: seconds of a steady clock; default: this machine's.

        Raises:
            InputError: the directory cannot be read, or is damaged.
        """
        manifest, seen = read_manifest(place.path), self._seen.setdefault(place.path, _Seen())
        try:
            seen.read_on(place.path / ROWS)
        except OSError as error:
            raise InputError(f"{place.path / ROWS}: cannot be read ({error.strerror})") from None
        failures = read_failures(place.path)
        done = seen.count if (place.path / ROWS).exists() else table_rows(place.path / TABLE)
        points, replicates = promised_rows(manifest)
        total = max(points * replicates, done)
        running = is_running(place.path)
        state: State = "running" if running else "finished" if done + len(failures) >= total else "stopped"
        keys = [str(key) for axis in manifest.get("axes") or [] for key in axis["keys"]]
        return {
            "name": str(manifest.get("name", place.name)),
            "state": state,
            "points": points,
            "replicates": replicates,
            "total": total,
            "done": done,
            "failed": len(failures),
            "left_s": _left(seen, done, total - len(failures), time.monotonic() if now is None else now, running),
            "columns": [short(name) for name in ("replicate", *keys, *FIGURES)],
            "rows": [_cells(line, keys) for line in reversed(seen.last)],
            "failures": [_failure(one, keys) for one in failures[-LAST:][::-1]],
        }


def table_rows(path: Path) -> int:
    """Rows of a published table."""
    from pyarrow import ArrowInvalid, parquet

    try:
        return int(parquet.read_metadata(path).num_rows) if path.exists() else 0
    except (OSError, ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _left(seen: _Seen, done: int, total: int, now: float, running: bool) -> float | None:
    """Seconds to the end by the speed of the last minute; None while it is not known, or nothing runs."""
    if not running:
        seen.speed.clear()
        return None
    seen.speed.append((now, done))
    while len(seen.speed) > 2 and now - seen.speed[1][0] > WINDOW_S:
        seen.speed.popleft()
    begin, before = seen.speed[0]
    if now <= begin or done <= before:
        return None
    return (total - done) * (now - begin) / (done - before)


def _cells(line: bytes, keys: list[str]) -> list[str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return ["damaged"]
    if not isinstance(row, dict):
        return ["damaged"]
    if "error_rate" in row and isinstance(row["error_rate"], float):
        row["accuracy"] = 1.0 - row["error_rate"]
    names = ("replicate", *keys, *FIGURES)
    return ["" if row.get(name) is None else shown_cell(name, row[name]) for name in names]


def _failure(record: Mapping[str, Any], keys: list[str]) -> str:
    """What failed and why, in one line."""
    shown = [key for key in keys if key in record]
    where = ", ".join([pairs(shown, [record[key] for key in shown]), f"replicate {record.get('replicate')}"])
    return " ".join(f"{where.removeprefix(', ')}: {record.get('error')}".split())[:LONGEST_LINE]
