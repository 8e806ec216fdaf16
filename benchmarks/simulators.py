"""Event engine against the same exchange by a process per user in SimPy and by a component per user in salabim."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.event_engine import (
    FLIP_PROB,
    MECHANISM,
    MEDIAN_S,
    SAMPLING_RATE,
    bare_loop,
    clean,
    exchange,
    population,
)
from benchmarks.peers import plan, salabim_module, with_salabim, with_simpy
from benchmarks.table import FASTER, Row
from benchmarks.timing import paired_ratio, seconds, spread_of

NAME, RATES = "other simulators", "events a second"
PROCESSES = replace(MECHANISM, engine="processes")


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
    yield from rates(small)


def rates(small: bool = False) -> Iterator[Row]:
    """Protocol events a second of every program, in turn within one run; of the bare loop, timeouts a second."""
    users, network, salabim = population(200 if small else 10_000, 100), clean(20 * MEDIAN_S), salabim_module()
    events = exchange(users, network)()
    programs: dict[str, Callable[[], object]] = {
        "windows of messages": exchange(users, network),
        "a process for each user": exchange(users, network, PROCESSES),
        "SimPy, bare timeout loop": lambda: bare_loop(events),
    }
    if salabim is not None:
        component = with_salabim(salabim)
        drawn = plan(users, FLIP_PROB, SAMPLING_RATE, MEDIAN_S, 20 * MEDIAN_S)
        programs["salabim, a component a user"] = lambda: component(drawn)
    turns = [{name: seconds(program) for name, program in programs.items()} for _ in range(6)][1:]  # the first warms up
    for name in programs:
        spread = spread_of([events / turn[name] for turn in turns])
        yield Row.of(RATES, name, f"{users.num_users:,} users, clusters of 100", "events a second", spread)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
