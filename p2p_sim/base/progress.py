"""How far something long is: a bar on a terminal, elsewhere a plain line now and then, both on standard error."""

import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PLAIN_EVERY_S = 10.0
_silent = False


class Show(Protocol):
    """What is called as work gets done."""

    def __call__(self, done: int, total: int, more: str = "", news: bool = False) -> None:
        """Done of total; `more` follows the two; `news`: a plain line at once."""


def silence() -> None:
    """Leave the terminal to whoever started this process."""
    global _silent
    _silent = True


@contextmanager
def shown(name: str, unit: str, estimate: bool = True) -> Iterator[Show]:
    """Yield what to call; worker processes leave the terminal to whoever started them.

    Args:
        name: of the work. unit: what is counted, in the plural. estimate: show the time to go beside a bar.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines(name, unit)
    elif _silent or multiprocessing.parent_process() is not None:
        yield lambda done, total, more="", news=False: None
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
        )
        clock = (TimeRemainingColumn(),) if estimate else ()
        with Progress(*columns, *clock, console=console, transient=True) as bars:
            task = bars.add_task(name, total=None, more=unit)

            def show(done: int, total: int, more: str = "", news: bool = False) -> None:
                bars.update(task, completed=done, total=total, more=unit + more)

            yield show


def _plain_lines(name: str, unit: str) -> Show:
    last = time.monotonic()

    def show(done: int, total: int, more: str = "", news: bool = False) -> None:
        nonlocal last
        if news or time.monotonic() - last >= PLAIN_EVERY_S:
            last = time.monotonic()
            print(f"{name}: {done:,} of {total:,} {unit}{more}", file=sys.stderr, flush=True)

    return show
