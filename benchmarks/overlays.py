"""Runs over overlays: memory of the whole process, and processor time beside start-up, a user."""

from collections.abc import Iterator

from benchmarks.processes import measured
from benchmarks.table import Row
from benchmarks.whole_jobs import on_overlay

NAME = "overlays"
OVERLAYS = {
    "regular overlay of degree 10": {"kind": "regular", "degree": 10},
    "small world of degree 10": {"kind": "small_world", "degree": 10, "rewire_prob": 0.1},
}
SETTING = "clusters of 1,000, 1% loss, time-outs"


def rows(small: bool = False) -> Iterator[Row]:
    """All measurements; each is one run in a process of its own."""
    for users in (1000, 2000) if small else (10_000, 100_000, 1_000_000):
        for name, overlay in OVERLAYS.items():
            found = measured(on_overlay(users, 1000, overlay))
            beside = 1e6 * found.without_start / users
            memory = "bytes a user, of the whole process"
            yield Row.of(NAME, name, SETTING, memory, found.peak_bytes / users, "", users)
            yield Row.of(NAME, name, SETTING, "µs a user, without start-up", beside, "", users)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
