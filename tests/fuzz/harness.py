"""One input at a time: what it ends in, how long it takes, and whether anything is left that should not be.

Inputs are read in processes of their own. One that ran out of memory or time, died, or has grown large, is followed by
a fresh one, so that no input spoils those after it.
"""

import contextlib
import dataclasses
import faulthandler
import io
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from p2p_sim.base.errors import InputError, RunFailed

LONGEST_MESSAGE = 600
"""Characters of the longest message that is still one clear line."""
MEMORY = 8 * 2**30
"""Bytes of address space of a process, so that a header which asks for terabytes is refused rather than tried."""
LARGE = MEMORY // 4
"""Bytes that a process may have held and still go on."""
STUCK_S = 60.0
"""Seconds after which a process that does not heed the end of its time is ended."""
PATIENCE = 10.0
"""How many times its processor time an input may take on a busy machine."""
MOST_LOST = 20
"""Processes that one target may lose before it is given up."""
Attempt = Callable[[random.Random, Path], None]
Content = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Target:
    """Something that reads input.

    attempt: makes an input from a seeded source, in a folder of its own, and reads it; what it leaves must be whole.
    share: of all inputs; limit_s: longest processor time for one, seconds.
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


@dataclass(frozen=True)
class Outcome:
    """What became of one input: the message of a refusal, and what went wrong.

    spent: its process ran out of memory or time, so that what it would say of further inputs is worth nothing.
    """

    message: str | None = None
    fault: str | None = None
    spent: bool = False
    wall_s: float = 0.0


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

    def add(self, target: str, number: int, outcome: Outcome) -> None:
        """Count one input."""
        self.inputs += 1
        self.wall_s += outcome.wall_s
        if outcome.wall_s > self.slowest_s:
            self.slowest_s, self.slowest = outcome.wall_s, number
        if outcome.fault is not None:
            self.faults.append(Fault(target, number, outcome.fault))
        elif outcome.message is not None:
            self.refused += 1
        else:
            self.taken += 1


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
    """Raises TooLong after so much processor time, or `PATIENCE` times as long; ends the process where even that does
    not help."""

    def ring(*_: object) -> None:
        raise TooLong(f"took more than {seconds:g} s")

    before = {bell: signal.signal(bell, ring) for bell in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * PATIENCE)
    faulthandler.dump_traceback_later(seconds * PATIENCE + STUCK_S, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.cancel_dump_traceback_later()
        for bell, heard in before.items():
            signal.signal(bell, heard)


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


def one(target: Target, seed: int, number: int, folder: Path) -> Outcome:
    """One input, in an empty folder."""
    message = None
    try:
        with time_limit(target.limit_s), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            target.attempt(source(seed, target.name, number), folder)
    except (InputError, RunFailed) as error:
        message = str(error)
        if "not enough memory" in message:
            return Outcome(fault=message[:LONGEST_MESSAGE], spent=True)
        if fault := unclear(message):
            return Outcome(message, fault)
    except TooLong as error:
        return Outcome(fault=f"{error}, in {innermost(error)}", spent=True)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        text = " ".join(str(error).split())[:200]
        fault = f"{type(error).__name__} at {innermost(error)}: {text}"
        return Outcome(fault=fault, spent=isinstance(error, MemoryError))
    partial = [name for name in contents(folder) if ".partial" in name]
    return Outcome(message, f"left {partial[0]}" if partial else None)


def innermost(error: BaseException) -> str:
    """File and line in which an exception was raised."""
    where = traceback.extract_tb(error.__traceback__)[-2 if isinstance(error, TooLong) else -1]  # the last has the bell
    return f"{Path(where.filename).name}:{where.lineno}"


def attempt(target: Target, seed: int, number: int, base: Path) -> Outcome:
    """One input, timed, in a folder below `base` that is gone afterwards."""
    folder = base / f"{target.name}-{number}"
    folder.mkdir()
    begin = time.perf_counter()
    outcome = one(target, seed, number, folder)
    wall_s = time.perf_counter() - begin
    shutil.rmtree(folder)
    return dataclasses.replace(outcome, wall_s=wall_s)


def shares(targets: Sequence[Target], inputs: int) -> dict[str, int]:
    """How many inputs each target gets, at least one."""
    whole = sum(target.share for target in targets)
    return {target.name: max(1, round(inputs * target.share / whole)) for target in targets}


def fuzz(targets: Sequence[Target], inputs: int, seed: int, base: Path, number: int | None = None) -> dict[str, Tally]:
    """Give the targets their shares of the inputs, in this process, and count what became of them.

    Args:
        inputs: in all. seed: of everything. base: an empty folder. number: try this input of each target alone.
    """
    tallies = {target.name: Tally() for target in targets}
    counts = shares(targets, inputs)
    for target in targets:
        for each in range(counts[target.name]) if number is None else (number,):
            tallies[target.name].add(target.name, each, attempt(target, seed, each, base))
    return tallies


def fuzz_apart(target: Target, seed: int, numbers: Sequence[int], base: Path, memory: int = MEMORY) -> Tally:
    """Give a target these inputs, in processes of their own, and count what became of them.

    Args:
        target: one that can be pickled. seed: of everything. base: an empty folder. memory: bytes of address space of
            a process.
    """
    tally, rest, lost = Tally(), list(numbers), 0
    while rest and lost < MOST_LOST:
        with _process(target, seed, rest, base, memory) as (process, said):
            begin, before = time.perf_counter(), tally.inputs
            for outcome in _outcomes(said, target.limit_s * PATIENCE + 2.0 * STUCK_S):
                tally.add(target.name, rest.pop(0), outcome)
                lost += outcome.spent
                begin = time.perf_counter()
        if rest and (process.exitcode != 0 or tally.inputs == before):
            what = f"its process ended with status {process.exitcode}"
            tally.add(target.name, rest.pop(0), Outcome(fault=what, wall_s=time.perf_counter() - begin))
            lost += 1
    if rest:
        tally.faults.append(Fault(target.name, rest[0], f"not tried, nor any later one: {lost} processes were lost"))
    return tally


@contextlib.contextmanager
def _process(
    target: Target, seed: int, numbers: Sequence[int], base: Path, memory: int
) -> Iterator[tuple[SpawnProcess, Connection]]:
    """A fresh process that reads inputs, and where its outcomes arrive; it is ended afterwards, by force if need be."""
    fresh = multiprocessing.get_context("spawn")
    said, says = fresh.Pipe(duplex=False)
    folder = base / f"{target.name}-process"
    folder.mkdir()
    process = fresh.Process(target=_read, args=(target, seed, tuple(numbers), folder, memory, says))
    process.start()
    says.close()
    try:
        yield process, said
    finally:
        process.join(STUCK_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        said.close()
        shutil.rmtree(folder)


def _outcomes(said: Connection, longest_s: float) -> Iterator[Outcome]:
    """Outcomes as they arrive, until the process ends, or says nothing for too long."""
    with contextlib.suppress(EOFError, OSError):
        while said.poll(longest_s):
            yield said.recv()


def _read(target: Target, seed: int, numbers: Sequence[int], base: Path, memory: int, says: Connection) -> None:
    """What a process does: read inputs until all are read, or it is spent, or has grown large."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    tempfile.tempdir = str(base)
    for number in numbers:
        outcome = attempt(target, seed, number, base)
        says.send(outcome)
        if outcome.spent or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > LARGE:
            return
