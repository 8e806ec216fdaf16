"""Worker processes on this machine, any of which may be killed at any moment.

A worker never imports the main module of the process that started it. `multiprocessing` would import it: a script
without `if __name__ == "__main__"` would run again in every worker, and a script on standard input cannot be imported.
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
"""The program of a worker. It ignores Ctrl-C, which reaches every process of a terminal; only the driver, the process
that started the worker, reacts to it."""


@dataclass(frozen=True)
class Worker:
    """A worker process, as its driver, the process that started it, sees it.

    pipe: takes batches and gives results; it closes when the worker ends.
    life: a pipe on which nothing is sent; it closes when the driver ends, and then the worker ends too.
    """

    process: "subprocess.Popen[bytes]"
    pipe: Connection
    life: Connection

    def ended(self) -> int:
        """Wait until the process ends, close the pipes, and return its exit status, such as -9 if signal 9 ended it."""
        status = self.process.wait()
        self.pipe.close()
        self.life.close()
        return status


def start(imports: str, perform: Perform) -> Worker:
    """Start a worker process, with the interpreter, its options, the import path and the directory of this process.

    Args:
        imports: name of the module that the worker imports before anything else. perform: takes a batch of tasks and
        returns a list with a result for each; the worker calls it for every batch.
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
    for end in (there, watched):  # now only the worker has these ends, so its death closes the pipes
        end.close()
    with suppress(OSError):  # the worker died at once; `_bury` will handle that
        here.send((imports, perform))
    return Worker(process, here, life)


def serve(pipe: int, life: int) -> None:
    """The work of a worker process: perform batch after batch and send the results, until the driver (the process that
    started it) closes the pipe. An empty first message reports that the worker is ready.

    Args:
        pipe: file descriptor of the worker's end of the pipe on which batches come and results go. life: file
        descriptor of its end of a pipe on which nothing is sent, and which closes when the driver ends.
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
    """End this worker process as soon as the driver, the process that started it, has ended for any reason. A thread of
    the worker waits here; without it the worker would finish its batch first.

    life: the worker's end of a pipe on which nothing is sent, and which closes when the driver ends.
    """
    wait([life])
    os._exit(1)


ALONE_S = 3.0
"""Seconds that a run may take before it starts workers. A worker needs this time to load modules and compute an ε, so
that workers would not make a shorter run faster."""
_STILLBORN = 5
"""Largest number of workers that may die one after another before they are ready."""


@dataclass(frozen=True)
class LocalProcesses:
    """Runs batches in processes of this machine, one batch at a time in each.

    Each worker has a pipe of its own, so the death of one does not affect the others. It is known which batch a dead
    worker had: the tasks of this batch are sent again one by one. Workers compute with one thread, and end when this
    process ends. They do not import the main module, so that a script needs no `if __name__ == "__main__"`.

    workers: number of processes, at least 1.
    attempts: a task is given up once this number of workers have died while it was their only task.
    imports: module that each worker imports at its start, so that no task waits for the import.
    alone_s: if above 0, this process runs batches itself at first. Workers start after this number of seconds. This
        process stops running batches when one worker is ready. A shorter run starts no worker.
    """

    workers: int
    attempts: int = 3
    imports: str = "p2p_sim.replicate.run"
    alone_s: float = 0.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"workers {self.workers}: must be at least 1")

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Yields the results of each batch when it has ended; every task has exactly one result.

        Args:
            batches: groups of tasks that a worker gets together. perform: takes a batch and returns a result for each
            task, a row or an error.

        Raises:
            RunFailed: workers cannot even start.
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
    """The executor that runs `workers` replicates at a time: this process if `workers` is 1, else worker processes."""
    return LocalProcesses(workers, alone_s=ALONE_S) if workers > 1 else Serial()


@dataclass
class _Hired:
    """A worker process, and the batch that it works on; `batch` is None once the results have come."""

    worker: Worker
    ready: bool = False
    batch: Batch | None = None
    since: float = 0.0


class _Crew:
    """The worker processes of one run, and which batch each of them has."""

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
        """Start a worker process, which gets batches once it reports that it is ready.

        Args:
            at_once: whether the worker is sent a first batch without waiting for the report.
        """
        started = start(self._plan.imports, self._perform)
        self.workers[started.pipe] = hired = _Hired(started)
        if at_once:
            self._give(hired)

    def alone(self, seconds: float) -> Iterator[list[Done]]:
        """Yields the results of batches that this process runs itself, until a worker is ready. A run that is shorter
        than `seconds` starts no worker at all, since a worker needs some seconds to load modules.

        Args:
            seconds: time after which workers are started.
        """

        def hire_others() -> None:
            """Start one worker less than the run may have, since this process works too while the workers start. Each
            worker gets a batch now, and begins it as soon as it is ready.
            """
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
        """The batch of tasks that this process runs itself next, while the worker processes are still starting. It is a
        batch that nobody has begun. If there is none, it is the batch of a worker that has not reported that it is
        ready; this worker is ended. None if a worker has reported or has died, or if no batch is left.
        """
        with self._lock:
            if wait(list(self.workers), 0):
                return None
            if batch := self._queue.fresh():
                return batch
            # no new batch: take that of a worker that is not ready, and end this worker
            for pipe, hired in self.workers.items():
                if not hired.ready and hired.batch is not None:
                    del self.workers[pipe]
                    hired.worker.process.kill()
                    hired.worker.ended()
                    return hired.batch
        return None

    def results(self) -> list[list[Done]]:
        """Wait for at least one worker, give free workers a batch, and return the results of each batch that ended."""
        ready = set(wait(list(self.workers)))
        news = [self._news(hired) for pipe, hired in list(self.workers.items()) if pipe in ready]
        for hired in self.workers.values():
            if hired.ready and hired.batch is None:
                self._give(hired)
        return [results for results in news if results]

    def _news(self, hired: _Hired) -> list[Done]:
        """The results that came from a worker: those of its batch, or none if it only reports that it is ready. If the
        worker has died, the tasks of its batch are queued again, except for a task with which too many workers have
        died: this task is given up, and its failed result is returned.

        hired: the worker, with the batch that it has.
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
        """Send a free worker the next batch, if there is one."""
        batch = self._queue.suspect() or self._queue.fresh()
        if batch is None:
            return
        try:
            hired.worker.pipe.send(batch)
        except OSError:  # it died while idle; `_bury` will handle that
            self._queue.back(batch)
            return
        hired.batch, hired.since = batch, time.perf_counter()

    def _bury(self, hired: _Hired) -> list[Done]:
        """Take back a dead worker's batch, start another worker if there is work, and return results of tasks given up.

        Raises:
            RunFailed: too many workers died one after another before they were ready.
        """
        del self.workers[hired.worker.pipe]
        status = hired.worker.ended()
        if not hired.ready:
            self._stillborn += 1
            if hired.batch is not None:  # it never began this batch
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
        """End all workers at once; what they compute is not needed any more."""
        for hired in self.workers.values():
            hired.worker.process.kill()
        for hired in self.workers.values():
            hired.worker.ended()
