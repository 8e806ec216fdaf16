"""Worker processes on this machine. Any worker may be killed at any moment.

The *driver* is the process that starts the workers. Workers of `multiprocessing` may import the driver's main module;
the workers here never do. So a script needs no `if __name__ == "__main__"`, and may come from standard input.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait

from p2p_sim.base import InputError, RunFailed, progress
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Perform, Serial, TaskQueue, sent

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import json, sys; "
    "sys.path[:] = json.loads(sys.argv[1]); from p2p_sim.sweeps.local_workers import serve; "
    "serve(*map(int, sys.argv[2:]))"
)
"""The program of a worker. Ctrl-C reaches every process of a terminal. Workers ignore Ctrl-C; the driver reacts."""


@dataclass(frozen=True)
class Worker:
    """A worker process, as the driver sees it.

    pipe: takes batches and gives results. The pipe closes when the worker ends.
    life: a pipe without messages. The pipe closes when the driver ends; then the worker ends too.
    """

    process: "subprocess.Popen[bytes]"
    pipe: Connection
    life: Connection

    def ended(self) -> int:
        """Wait for the end of the process, close the pipes, and return the exit status, such as -9 for signal 9."""
        status = self.process.wait()
        self.pipe.close()
        self.life.close()
        return status


def start(imports: str, perform: Perform) -> Worker:
    """Start a worker process with the Python, the options, the import path and the directory of this process.

    Args:
        imports: name of a module that the worker imports first. perform: takes a batch of tasks and returns a result
        for each task; the worker calls this function for every batch.
    """
    here, there = Pipe()
    watched, life = Pipe(duplex=False)
    handles = there.fileno(), watched.fileno()
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    import_path = json.dumps([str(folder) for folder in sys.path])
    process = subprocess.Popen(
        [sys.executable, *options, "-c", _START, import_path, *map(str, handles)],
        stdin=subprocess.DEVNULL,
        pass_fds=handles,
        env={**os.environ, **dict.fromkeys(_THREADS, "1")},
    )
    for end in (there, watched):  # now only the worker has these ends, so the worker's death closes the pipes
        end.close()
    with suppress(OSError):  # the worker is dead already; `_bury` will handle this death
        here.send((imports, perform))
    return Worker(process, here, life)


def serve(pipe: int, life: int) -> None:
    """Perform batch after batch and send the results, until the driver closes the pipe. This is the work of a worker.
    An empty first message reports that the worker is ready.

    Args:
        pipe: file descriptor of the pipe for batches and results. life: file descriptor of the pipe without messages,
        which closes when the driver ends.
    """
    threading.Thread(target=_end_with_driver, args=(Connection(life, writable=False),), daemon=True).start()
    connection = Connection(pipe)
    progress.silence()
    with suppress(EOFError, BrokenPipeError):
        imports, perform = connection.recv()
        importlib.import_module(imports)
        message: list[Done] = []
        while True:
            connection.send(message)
            message = [sent(result) for result in perform(connection.recv())]


def _end_with_driver(life: Connection) -> None:
    """End this worker process as soon as the driver has ended. A thread of the worker waits here for `life`, the pipe
    that closes with the driver.
    """
    wait([life])
    os._exit(1)


ALONE_S = 3.0
"""A run starts workers after this number of seconds. Loading modules takes a worker about this long, so workers would
not make a shorter run faster."""
_STILLBORN = 5
"""Largest number of workers that may die one after another before they are ready."""


@dataclass(frozen=True)
class LocalProcesses:
    """Runs batches in processes of this machine, one batch at a time in each.

    The death of a worker does not affect other workers. The tasks of the dead worker's batch are sent again one by one.
    Every worker computes with one thread, and ends when this process ends.

    workers: number of processes, at least 1.
    attempts: a task is given up after this number of workers died while working on this task alone.
    imports: a module that each worker imports at the start, so that no task waits for the import.
    alone_s: if above 0, this process runs batches itself at first, and workers start after this number of seconds. This
        process stops running batches when a worker is ready. A shorter run starts no worker.
    """

    workers: int
    attempts: int = 3
    imports: str = "p2p_sim.replicate.run"
    alone_s: float = 0.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"workers {self.workers}: must be at least 1")

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Yields the results of each batch when the batch has ended. Every task has exactly one result.

        Args:
            batches: groups of tasks; a worker gets a whole group. perform: takes a batch and returns a result for each
            task, a row or an error.

        Raises:
            RunFailed: workers end before they are ready.
        """
        queue = TaskQueue(batches, self.attempts)
        crew = _Crew(self, queue, perform)
        try:
            if self.alone_s:
                yield from crew.alone(self.alone_s)
            for _ in range(queue.draw(self.workers - len(crew.workers))):
                crew.hire()
            while crew.busy or not queue.over:
                yield from crew.results()
        finally:
            crew.dismiss()


def at_a_time(workers: int) -> Executor:
    """An executor for `workers` replicates at a time. If `workers` is 1, all replicates run in this process."""
    return LocalProcesses(workers, alone_s=ALONE_S) if workers > 1 else Serial()


@dataclass
class _Hired:
    """A worker process and its present batch. `batch` is None if the worker has no batch."""

    worker: Worker
    ready: bool = False
    batch: Batch | None = None
    since: float = 0.0


class _Crew:
    """The worker processes of one run, and the batch of each worker."""

    def __init__(self, plan: LocalProcesses, queue: TaskQueue, perform: Perform) -> None:
        self._plan, self._queue, self._perform = plan, queue, perform
        self.workers: dict[Connection, _Hired] = {}
        self._stillborn = 0
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether any worker has a batch."""
        return any(hired.batch for hired in self.workers.values())

    def hire(self, at_once: bool = False) -> None:
        """Start a worker process. The worker gets batches after a report that it is ready.

        Args:
            at_once: whether the worker gets a first batch before the report.
        """
        started = start(self._plan.imports, self._perform)
        self.workers[started.pipe] = hired = _Hired(started)
        if at_once:
            self._give(hired)

    def alone(self, seconds: float) -> Iterator[list[Done]]:
        """Yields the results of batches that this process runs itself. This process stops when a worker is ready or has
        died, or when no batch is left. Workers start when `seconds` have passed, so a shorter run starts no worker.
        """

        def hire_others() -> None:
            """Start one worker less than allowed, because this process still works too. Each worker gets a batch."""
            with self._lock:
                for _ in range(self._queue.draw(self._plan.workers - 1)):
                    self.hire(at_once=True)

        later = threading.Timer(seconds, hire_others)
        later.start()
        try:
            while batch := self._next_here():
                yield self._perform(batch)
        finally:
            later.cancel()
            later.join()

    def _next_here(self) -> Batch | None:
        """The next batch for this process while the worker processes are starting. A new batch comes first. Otherwise
        a worker that is not ready is ended, and its batch is taken. None if no batch is left. None also if a worker has
        become ready or has died.
        """
        with self._lock:
            if wait(list(self.workers), 0):
                return None
            if batch := self._queue.fresh():
                return batch
            # no new batch: take the batch of a worker that is not ready, and end this worker
            for pipe, hired in self.workers.items():
                if not hired.ready and hired.batch is not None:
                    del self.workers[pipe]
                    hired.worker.process.kill()
                    hired.worker.ended()
                    return hired.batch
        return None

    def results(self) -> list[list[Done]]:
        """Wait for a worker, give free workers a batch, and return the results of each batch that ended."""
        ready = set(wait(list(self.workers)))
        news = [self._news(hired) for pipe, hired in list(self.workers.items()) if pipe in ready]
        for hired in self.workers.values():
            if hired.ready and hired.batch is None:
                self._give(hired)
        return [results for results in news if results]

    def _news(self, hired: _Hired) -> list[Done]:
        """The results that came from a worker. The list is empty if the worker only reports that it is ready.

        If the worker has died, the tasks of its batch are queued again. A task with which too many workers died gets a
        failed result.
        """
        try:
            message: list[Done] = hired.worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(hired)
        if hired.ready:
            hired.batch = None
        hired.ready, self._stillborn = True, 0
        return message

    def _give(self, hired: _Hired) -> None:
        """Send the next batch, if any, to a free worker. If the worker is dead, the batch goes back to the queue."""
        batch = self._queue.suspect() or self._queue.fresh()
        if batch is None:
            return
        try:
            hired.worker.pipe.send(batch)
        except OSError:  # the worker died while idle; `_bury` will handle this death
            self._queue.back(batch)
        else:
            hired.batch, hired.since = batch, time.perf_counter()

    def _bury(self, hired: _Hired) -> list[Done]:
        """Take back a dead worker's batch, and start another worker if there is work. Return results of failed tasks.

        Raises:
            RunFailed: too many workers died one after another before they were ready.
        """
        del self.workers[hired.worker.pipe]
        status = hired.worker.ended()
        if not hired.ready:
            self._stillborn += 1
            if hired.batch is not None:  # the worker never began this batch
                self._queue.back(hired.batch)
            if self._stillborn > _STILLBORN:
                raise RunFailed(
                    f"{self._stillborn} worker processes ended while they started, with exit status {status}"
                )
        given_up = []
        if hired.ready and hired.batch:
            error = f"killed its worker {self._plan.attempts} times"
            given_up = self._queue.lost(hired.batch, True, time.perf_counter() - hired.since, error)
        if not self._queue.over:
            self.hire()
        return given_up

    def dismiss(self) -> None:
        """End all workers at once. Unfinished batches are lost."""
        for hired in self.workers.values():
            hired.worker.process.kill()
        for hired in self.workers.values():
            hired.worker.ended()
