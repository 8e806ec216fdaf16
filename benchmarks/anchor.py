"""The event engine beside C++: the same exchange from a binary heap of events, and without any queue.

`anchor.cpp` is compiled when the benchmark runs. It draws from the same law with a generator of its own, so its counts
agree with ours statistically; a test compares them.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.event_engine import MEDIAN_S, clean, exchange, lossy, population
from benchmarks.table import FASTER, Row
from benchmarks.timing import seconds, spread_of

NAME = "C++ anchor"
COMPILERS = ("g++", "c++", "clang++")
SOURCE = Path(__file__).with_name("anchor.cpp")
PROGRAMS = {"C++, binary heap": "heap", "C++, no queue": "loop"}
OURS = "our event engine"
CLUSTER_SIZE, LOSS, WINDOW_S = 100, 0.01, 20 * MEDIAN_S


@dataclass(frozen=True)
class Counted:
    """What a run of the C++ program counted.

    events: starts, messages delivered, requests that expired. squares: sum of the squares of each user's events; 0 from
    the heap. submissions: that arrived, `ones` among them. spent_s: processor seconds.
    """

    events: int
    squares: int
    submissions: int
    ones: int
    spent_s: float


Anchor = Callable[[str, int, float, int], Counted]
"""The program: "heap" or "loop", users, probability that a message is lost, seed."""


def compiler() -> str | None:
    """The first C++ compiler that is found."""
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)


@contextmanager
def compiled(with_: str) -> Iterator[Anchor]:
    """The program, compiled into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "anchor")
        subprocess.run([with_, "-O2", "-std=c++17", "-o", program, str(SOURCE)], check=True)

        def run(kind: str, users: int, loss: float, seed: int) -> Counted:
            arguments = [program, kind, str(users), str(loss), str(seed)]
            said = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.split()
            return Counted(*map(int, said[:4]), float(said[4]))

        yield run


def beside(anchor: Anchor, users: int, loss: float, pairs: int) -> Iterator[Row]:
    """Nanoseconds an event, ours and theirs, run alternately."""
    setting = f"{users:,} users, clusters of {CLUSTER_SIZE}, starts over 20 medians{', faults' if loss else ''}"
    run = exchange(population(users, CLUSTER_SIZE), lossy(WINDOW_S, loss=loss) if loss else clean(WINDOW_S))
    events = run()
    ours, theirs = list[float](), dict[str, list[float]]()
    for seed in range(pairs):
        ours.append(1e9 * seconds(run) / events)
        for name, kind in PROGRAMS.items():
            found = anchor(kind, users, loss, seed)
            theirs.setdefault(name, []).append(1e9 * found.spent_s / found.events)
    yield Row.of(NAME, OURS, setting, "ns an event", spread_of(ours))
    for name, values in theirs.items():
        yield Row.of(NAME, name, setting, "ns an event", spread_of(values))
        ratio = spread_of([their / our for their, our in zip(values, ours, strict=True)])
        yield Row.of(NAME, name, setting, FASTER, ratio, "the same events")


def rows(small: bool = False) -> Iterator[Row]:
    """All measurements; none where no compiler is found."""
    found = compiler()
    if found is None:
        print(f"the C++ anchor is left out: none of {', '.join(COMPILERS)} is found")
        return
    with compiled(found) as anchor:
        for loss in (0.0, LOSS):
            yield from beside(anchor, 20_000 if small else 1_000_000, loss, 2 if small else 5)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
