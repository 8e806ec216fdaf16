"""Event engine against the same exchange by a process per user in SimPy and by a component per user in salabim."""

from collections.abc import Iterator

from benchmarks.event_engine import FLIP_PROB, MEDIAN_S, SAMPLING_RATE, clean, exchange, population
from benchmarks.peers import plan, salabim_module, with_salabim, with_simpy
from benchmarks.table import FASTER, Row
from benchmarks.timing import paired_ratio

NAME = "other simulators"


def rows(small: bool = False) -> Iterator[Row]:
    """All measurements."""
    salabim = salabim_module()
    if salabim is None:
        print("salabim is missing, so it is left out: pip install -e '.[bench]'")
    window_s = 20 * MEDIAN_S
    for peer, count, program in (
        ("SimPy, a process a user", 50_000, with_simpy),
        ("salabim, a component a user", 10_000, with_salabim(salabim) if salabim else None),
    ):
        if program is None:
            continue
        users = population(200 if small else count, 100)

        def theirs(users=users, program=program) -> None:
            program(plan(users, FLIP_PROB, SAMPLING_RATE, MEDIAN_S, window_s))

        ratio = paired_ratio(theirs, exchange(users, clean(window_s)))
        setting = f"{users.num_users:,} users, clusters of 100, starts over 20 medians"
        yield Row.of(NAME, peer, setting, FASTER, ratio, "the same release")


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
