"""One input at a time: what it ends in, how long it takes, and whether anything is left that should not be."""

import contextlib
import faulthandler
import io
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from p2p_sim.base.errors import InputError, RunFailed

LONGEST_MESSAGE = 600
"""Characters of the longest message that is still one clear line."""
Attempt = Callable[[random.Random, Path], None]
Content = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Target:
    """Something that reads input.

    attempt: makes an input from a seeded source, in a folder of its own, and reads it; what it leaves must be whole.
    share: of all inputs; limit_s: longest time for one, seconds.
    """

    name: str
    attempt: Attempt
    share: float
    limit_s: float = 20.0


class TooLong(BaseException):
    """The time is up; not an `Exception`, so that no reader takes it for a fault of the file."""


@dataclass(frozen=True)
class Fault:
    """An input that found a mistake, and what it showed."""

    target: str
    number: int
    what: str


@dataclass
class Tally:
    """What became of the inputs of one target."""

    inputs: int = 0
    taken: int = 0
    refused: int = 0
    wall_s: float = 0.0
    slowest_s: float = 0.0
    slowest: int = 0
    faults: list[Fault] = field(default_factory=list)


def contents(folder: Path) -> Content:
    """Size and time of the last change of every file."""
    files = ((path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (state.st_size, state.st_mtime_ns) for path, state in files}


@contextlib.contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Whoever reads leaves the files as they were, whatever happens."""
    before = contents(folder)
    try:
        yield
    finally:
        after = contents(folder)
        if after != before:
            differing = sorted(set(after.items()) ^ set(before.items()))
            raise AssertionError(f"a reader changed {differing[0][0]}")


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooLong when the time is up; ends the process where even that does not help."""

    def ring(*_: object) -> None:
        raise TooLong(f"took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + 60.0, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def source(seed: int, target: str, number: int) -> random.Random:
    """The random source of one input, so that it can be made again alone."""
    return random.Random(f"{seed} {target} {number}")


def unclear(message: str) -> str | None:
    """Why a message is not one clear line."""
    if not message.strip():
        return "an empty message"
    if "\n" in message:
        return f"a message of several lines: {message!r}"
    return f"a message of {len(message)} characters: {message[:200]}" if len(message) > LONGEST_MESSAGE else None


def one(target: Target, seed: int, number: int, folder: Path) -> tuple[str | None, str | None]:
    """The message of a refusal, if there is one, and what went wrong, if anything did."""
    message = None
    try:
        with time_limit(target.limit_s), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            target.attempt(source(seed, target.name, number), folder)
    except (InputError, RunFailed) as error:
        message = str(error)
        if fault := unclear(message):
            return message, fault
    except TooLong as error:
        return None, str(error)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:200]
        return None, f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {text}"
    partial = [name for name in contents(folder) if ".partial" in name]
    return message, f"left {partial[0]}" if partial else None


def fuzz(targets: Sequence[Target], inputs: int, seed: int, base: Path, number: int | None = None) -> dict[str, Tally]:
    """Give the targets their shares of the inputs, at least one each, and count what became of them.

    Args:
        inputs: in all. seed: of everything. base: an empty folder. number: try this input of each target alone.
    """
    whole = sum(target.share for target in targets)
    tallies = {target.name: Tally() for target in targets}
    for target in targets:
        count = max(1, round(inputs * target.share / whole))
        for each in range(count) if number is None else (number,):
            attempt(target, seed, each, base, tallies[target.name])
    return tallies


def attempt(target: Target, seed: int, number: int, base: Path, tally: Tally) -> None:
    """One input, counted."""
    folder = base / f"{target.name}-{number}"
    folder.mkdir()
    begin = time.perf_counter()
    message, fault = one(target, seed, number, folder)
    wall_s = time.perf_counter() - begin
    shutil.rmtree(folder)
    tally.inputs += 1
    tally.wall_s += wall_s
    if wall_s > tally.slowest_s:
        tally.slowest_s, tally.slowest = wall_s, number
    if fault is not None:
        tally.faults.append(Fault(target.name, number, fault))
    elif message is not None:
        tally.refused += 1
    else:
        tally.taken += 1
