"""How far a long training is: a bar on a terminal, elsewhere a plain line now and then, both on standard error."""

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLAIN_EVERY_S = 10.0
Show = Callable[[int, float], None]
"""Called with the number of a finished epoch, from 1, and its mean loss."""


@contextmanager
def epochs_shown(total: int, done: int) -> Iterator[Show]:
    """Yield what to call after every epoch; worker processes leave the terminal to whoever started them.

    Args:
        total: epochs in all. done: those that an earlier run has finished.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines(total)
    elif multiprocessing.parent_process() is not None:
        yield lambda epoch, loss: None
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs, {task.fields[loss]}"))
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
            task = bars.add_task("training", total=total, completed=done, loss="")
            yield lambda epoch, loss: bars.update(task, completed=epoch, loss=f"loss {loss:.4f}")


def _plain_lines(total: int) -> Show:
    last = time.monotonic()

    def show(epoch: int, loss: float) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_EVERY_S:
            last = time.monotonic()
            print(f"training: {epoch} of {total} epochs, loss {loss:.4f}", file=sys.stderr, flush=True)

    return show
