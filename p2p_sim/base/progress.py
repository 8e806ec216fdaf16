"""Output on a terminal: a console that follows NO_COLOR, and bars or lines that show the progress of long work."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console


def console(stderr: bool = False) -> "Console":
    """A Rich console on standard output or standard error, without colours and styles if NO_COLOR is set."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(stderr=stderr, color_system=None if plain else "auto", markup=False, highlight=False)


PLAIN_EVERY_S = 10.0
"""Least number of seconds between two plain lines of progress, where no bar can be drawn."""
COUNT = len("9,999,999 of 9,999,999")
"""Number of characters reserved beside a bar for the two counts."""
_silent = False


class Show(Protocol):
    """The type of a function that long work calls to show its progress."""

    def __call__(self, finished: int, total: int, more: str = "", news: bool = False) -> None:
        """Show that `finished` of `total` things are done, followed by the text `more`. A plain line is printed at
        most every ten seconds, or at once if `news` is true.
        """


def silence() -> None:
    """Draw no more bars in this process, because its parent process draws on the terminal."""
    global _silent
    _silent = True


@contextmanager
def progress_shown(name: str, unit: str, total: int, *, estimate: bool = True, quiet: bool = False) -> Iterator[Show]:
    """A context that shows the progress of some work, and yields the function that the work calls to report progress.

    On a terminal, only the first process draws bars. If standard error is no terminal, every process prints lines.

    Args:
        name: what the work is called. unit: plural noun of the things counted. total: number of things, as known at the
        start. estimate: show the remaining time beside a bar. quiet: show nothing.
    """
    import multiprocessing  # imported late, because this import is slow

    errors = console(stderr=True)
    if quiet or (errors.is_interactive and (_silent or multiprocessing.parent_process() is not None)):
        yield lambda finished, total, more="", news=False: None
    elif not errors.is_interactive:
        yield _plain_lines(name, unit)
    else:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        # on a narrow terminal, the name and the last text are cut, but never the count
        columns = (
            TextColumn(
                "{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", min_width=8, max_width=24)
            ),
            BarColumn(bar_width=12, table_column=Column(min_width=12)),
            TextColumn("{task.completed:,} of {task.total:,}", table_column=Column(no_wrap=True, min_width=COUNT)),
            TextColumn("{task.fields[more]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        )
        clock = (TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=7)),) if estimate else ()
        with Progress(*columns, *clock, console=errors, transient=True) as bars:
            task = bars.add_task(name, total=total, more=unit)

            def show(finished: int, total: int, more: str = "", news: bool = False) -> None:
                bars.update(task, completed=finished, total=total, more=unit + more)

            yield show


def _plain_lines(name: str, unit: str) -> Show:
    """A function that prints progress on standard error, as lines such as "NAME: 3 of 8 points". A line is printed
    at most every ten seconds, or at once if the argument `news` is true.

    Args:
        name: what the work is called. unit: plural noun of the things counted.
    """
    last = time.monotonic()

    def show(finished: int, total: int, more: str = "", news: bool = False) -> None:
        nonlocal last
        if news or time.monotonic() - last >= PLAIN_EVERY_S:
            last = time.monotonic()
            print(f"{name}: {finished:,} of {total:,} {unit}{more}", file=sys.stderr, flush=True)

    return show
