"""Worker processes on this machine, any of which may be killed at any moment."""

import importlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.sweeps.task_queue import TaskQueue
from p2p_sim.sweeps.work import Batch, Done, Perform

_SPAWN = multiprocessing.get_context("spawn")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_STILLBORN = 5
"""Workers that may die one after another before any becomes ready."""


@dataclass(frozen=True)
class LocalProcesses:
    """Runs batches in processes of this machine, one batch at a time in each.

    Each worker has a pipe of its own, so that the death of one costs the others nothing and it is known which batch it
    had: that one goes out again, task by task. Workers compute with one thread, and end when this process does.

    workers: processes, at least 1.
    attempts: deaths after which a task that was alone in its worker is given up.
    imports: module that each worker imports at its start, so that no task waits for it.
    """

    workers: int
    attempts: int = 3
    imports: str = "p2p_sim.replicate.run"

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"workers {self.workers}: must be at least 1")

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Results as they come; every task exactly once.

        Raises:
            RunFailed: if workers cannot even start.
        """
        queue = TaskQueue(batches, self.attempts)
        crew = _Crew(self, queue, perform)
        try:
            for _ in range(queue.draw(self.workers)):
                crew.hire()
            while crew.busy or not queue.over:
                yield from crew.results()
        finally:
            crew.dismiss()


@dataclass
class _Worker:
    """A process as the driver sees it, and the batch that it was given last, until the result is here."""

    pipe: Connection
    process: SpawnProcess
    ready: bool = False
    batch: Batch | None = None
    since: float = 0.0


class _Crew:
    """The workers of one run."""

    def __init__(self, plan: LocalProcesses, queue: TaskQueue, perform: Perform) -> None:
        self._plan, self._queue, self._perform = plan, queue, perform
        self._workers: dict[Connection, _Worker] = {}
        self._stillborn = 0

    @property
    def busy(self) -> bool:
        """Whether any worker has a batch."""
        return any(worker.batch for worker in self._workers.values())

    def hire(self) -> None:
        """Start a worker; it will say when it is ready."""
        here, there = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_serve, args=(there, self._plan.imports, self._perform), daemon=True)
        process.start()
        there.close()  # now only the worker holds that end, and its death ends the pipe
        self._workers[here] = _Worker(here, process)

    def results(self) -> list[list[Done]]:
        """Wait for news from any worker; the free ones get something to do before anybody looks at the results."""
        ready = set(wait(list(self._workers)))
        news = [self._news(worker) for pipe, worker in list(self._workers.items()) if pipe in ready]
        for worker in self._workers.values():
            if worker.ready and worker.batch is None:
                self._give(worker)
        return [done for done in news if done]

    def _news(self, worker: _Worker) -> list[Done]:
        try:
            message: list[Done] = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        if worker.ready:
            worker.batch = None
        worker.ready, self._stillborn = True, 0
        return message

    def _give(self, worker: _Worker) -> None:
        batch = self._queue.suspect() or self._queue.fresh()
        if batch is None:
            return
        try:
            worker.pipe.send(batch)
        except OSError:  # it died idle, which will be the next news of it
            self._queue.back(batch)
            return
        worker.batch, worker.since = batch, time.perf_counter()

    def _bury(self, worker: _Worker) -> list[Done]:
        """Take the batch back from a dead worker, and hire another if there is work."""
        del self._workers[worker.pipe]
        worker.pipe.close()
        worker.process.join()
        if not worker.ready:
            self._stillborn += 1
            if self._stillborn > _STILLBORN:
                status = worker.process.exitcode
                raise RunFailed(f"{_STILLBORN} worker processes ended while they started, with exit status {status}")
        error = f"killed its worker {self._plan.attempts} times"
        wall = time.perf_counter() - worker.since
        given_up = self._queue.lost(worker.batch, True, wall, error) if worker.batch else []
        if not self._queue.over:
            self.hire()
        return given_up

    def dismiss(self) -> None:
        """End all workers at once: they hold nothing worth keeping."""
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.join()
            worker.pipe.close()


def _serve(pipe: Connection, imports: str, perform: Perform) -> None:
    """The life of a worker: import, then perform batch after batch; the first message only says that it is ready."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the driver alone decides
    threading.Thread(target=_end_with_driver, daemon=True).start()
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # before NumPy is loaded
    importlib.import_module(imports)
    message: list[Done] = []
    while True:
        pipe.send(message)
        try:
            batch = pipe.recv()
        except EOFError:
            return
        message = perform(batch)


def _end_with_driver() -> None:
    """Leave at once when the driver is gone, however it went; without this its workers would finish their batch."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    wait([driver.sentinel])
    os._exit(1)
