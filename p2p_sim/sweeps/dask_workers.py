"""Workers of a Dask cluster, on this or other machines. Any worker may end at any moment."""

import functools
import importlib.metadata
import json
import logging
import platform
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from p2p_sim.base import InputError, RunFailed, codes, needs, version
from p2p_sim.scenario import MODEL_VERSION
from p2p_sim.sweeps.tasks import Batch, Done, Perform, TaskQueue, one_line, sent

Versions = dict[str, str]
_MUST_AGREE = ("p2p-sim", "model version")


class OtherModelError(Exception):
    """A worker has another version of the simulator."""


def versions() -> Versions:
    """The versions on which rows may depend, by name: p2p-sim, the model, Python, libraries and plug-ins.

    Each plug-in has a second entry with the first 16 digits of the hash of its code. This call also imports the
    simulator, so that no task waits for the import.
    """
    import p2p_sim.replicate.run  # noqa: F401
    from p2p_sim.base.plugins import packages

    return {
        "p2p-sim": version(),
        "model version": str(MODEL_VERSION),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "scipy")},
        **{f"plug-in {name}": version for name, version in packages().items()},
        **{f"plug-in {name} with code": digest[:16] for name, digest in codes().items()},
    }


def compare(
    where: str,
    here: Versions,
    answers: Mapping[str, Versions | BaseException],
    packages: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Compare the versions of workers and of this process. Libraries that differ cause a warning.

    Args:
        where: address of the scheduler, for messages.
        here: versions of this process.
        answers: by address, the versions of a worker, or the error that the question raised.
        packages: the plug-ins that are needed. Other plug-ins are ignored.

    Raises:
        InputError: a worker lacks the simulator or a needed plug-in, or has another version of either.
    """
    needed = {f"plug-in {name}{code}" for name in packages for code in ("", " with code")}
    here = {name: version for name, version in here.items() if not name.startswith("plug-in ") or name in needed}
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            raise InputError(
                f"dask {where}: {worker} cannot run p2p-sim ({one_line(answer)}); install the same version everywhere"
            )
        for name in [name for name in here if answer.get(name) != here[name]]:
            theirs = f"{name} {answer[name]}" if name in answer else f"no {name}"
            differs = f"dask {where}: {worker} has {theirs}, this process {here[name]}"
            if name in needed.union(_MUST_AGREE):
                raise InputError(f"{differs}; install the same version everywhere")
            warnings.warn(f"{differs}; rows may differ in their last digits", stacklevel=2)


def perform_there(perform: Perform, batch: Batch, model_version: int) -> list[Done]:
    """The results of a batch of tasks, in a form that can be sent to another process. A worker calls this function.

    Args:
        perform: takes the batch and returns a result for each task. batch: tasks; each task is one replicate of one
        setting. model_version: the version of the process that sent the batch. The worker may have joined late, so the
        version is compared here again.

    Raises:
        OtherModelError: the worker has another model version.
    """
    if model_version != MODEL_VERSION:
        raise OtherModelError(f"model version {MODEL_VERSION} instead of {model_version}")
    _one_thread()
    return [sent(result) for result in perform(batch)]


@functools.cache
def _one_thread() -> None:
    """Limit this process to one numerical thread for good.

    A replicate sets a limit too, but lifts it at the end. All threads of a worker share one limit.
    """
    from threadpoolctl import threadpool_limits

    import p2p_sim.replicate.run  # noqa: F401

    threadpool_limits(1)


_IN_FLIGHT = 2
"""Largest number of unfinished batches for each thread of the workers."""
_LOOK_S = 1.0
"""Seconds between two looks at the scheduler and the workers."""
_AGAIN_S = 0.2
"""Seconds until all workers are asked again after a worker did not answer."""
_ANSWER_S = 10.0
"""Longest time in seconds for the scheduler's list of workers, and for the transfer of a finished result."""


@dataclass
class DaskWorkers:
    """Runs batches on the workers of a Dask scheduler that somebody else started.

    If a worker dies, Dask sends the worker's batches to other workers. Dask counts the death against all these batches.
    A batch may exceed the limit of deaths, `allowed-failures` (3 by default). The tasks of such a batch run again at
    the end, one at a time and alone. A task that exceeds the limit again is given up.

    address: tcp://HOST:PORT or tls://HOST:PORT of the scheduler, or the path of a scheduler file.
    connect_s: seconds, above 0, within which the scheduler must answer and have a worker.
    patience_s: after this number of seconds without any worker, the run fails.
    packages: names and versions of plug-ins that every worker must have.
    """

    address: str
    connect_s: float = 5.0
    patience_s: float = 60.0
    packages: Mapping[str, str] = field(default_factory=dict)
    _client: Any = field(default=None, init=False, repr=False)

    @property
    def workers(self) -> int:
        """The number of threads of all workers together.

        Raises:
            InputError: there is no scheduler or no worker, or a worker lacks the simulator or has another version.
            RunFailed: the scheduler is lost.
        """
        return _threads(self._connected(), self.address)

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Yields the results of each batch when the batch has ended. Every task has exactly one result.

        Args:
            batches: groups of tasks; a worker gets a whole group. perform: takes a batch and returns a result for each
            task, a row or an error.

        Raises:
            InputError: as for `workers`.
            RunFailed: the scheduler is lost, all workers stay away, or a worker cannot work.
        """
        flight = _Flight(self, self._connected(), TaskQueue(batches, attempts=1), perform)
        try:
            while flight.fill():
                yield from flight.landed()
        finally:
            flight.abort()
            self.close()

    def close(self) -> None:
        """Leave the cluster. The cluster goes on for other clients."""
        client, self._client = self._client, None
        if client is not None:
            client.close(timeout=2)

    def _connected(self) -> Any:
        """The Dask client of the scheduler. The first call makes the client and checks the workers."""
        if self._client is None:
            self._client = _connect(self.address, self.connect_s)
            try:
                _check(self._client, self.address, self.connect_s, self.packages)
            except BaseException:
                self.close()
                raise
        return self._client


def _connect(address: str, within_s: float) -> Any:
    """A Dask client of the scheduler. An InputError is raised if Dask is missing or no scheduler can be reached.

    Args:
        address: the scheduler's address or a scheduler file. within_s: longest wait for the scheduler in seconds.
    """
    try:
        import dask
        from distributed import Client, Security
    except ImportError:
        raise InputError(f"dask {address}: " + needs("Dask's distributed", "dask")) from None
    scheduler = _scheduler(address)
    for name in ("distributed", "distributed.client"):  # errors of p2p-sim replace the messages of both loggers
        logging.getLogger(name).setLevel(logging.CRITICAL)
    dask.config.set({"distributed.comm.timeouts.connect": within_s})  # this limit also holds for a new connection
    try:
        if scheduler.startswith("tls://") and Security().get_connection_args("client")["ssl_context"] is None:
            raise InputError(f"dask {address}: needs certificates, see docs/many-machines.md")
        return Client(scheduler, timeout=within_s, set_as_default=False, direct_to_workers=False)
    except InputError:
        raise
    except Exception as fault:
        raise InputError(f"dask {address}: no scheduler can be reached there ({one_line(fault)})") from None


def _scheduler(address: str) -> str:
    """The address of the scheduler: `address` itself, or the address in the scheduler file `address`.

    Raises an InputError if `address` is neither an address (tcp:// or tls://) nor such a file.
    """
    if address.startswith(("tcp://", "tls://")):
        return address
    try:
        return str(json.loads(Path(address).read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"dask {address}: must be tcp://HOST:PORT, tls://HOST:PORT or a file that "
            "dask scheduler --scheduler-file wrote"
        ) from None


def _check(client: Any, address: str, within_s: float, packages: Mapping[str, str]) -> None:
    """Wait for a worker. Then compare the versions of all workers and the scheduler with this process. No worker, or
    another version of p2p-sim or of a needed plug-in, raises an InputError. Other libraries that differ cause warnings.

    Args:
        client: the Dask client. address: the scheduler's address, for messages. within_s: longest wait in seconds.
        packages: the plug-ins that are needed, with versions.
    """
    try:
        client.wait_for_workers(1, timeout=within_s)
    except TimeoutError:
        raise InputError(f"dask {address}: the scheduler has no workers; start some: dask worker {address}") from None
    answers, until = client.run(versions, on_error="return"), time.monotonic() + within_s
    while any(isinstance(answer, OSError) for answer in answers.values()) and time.monotonic() < until:
        time.sleep(_AGAIN_S)  # a worker ended during the question; the scheduler soon drops this worker
        answers = client.run(versions, on_error="return")
    try:
        answers["the scheduler"] = client.run_on_scheduler(versions)
    except Exception as fault:
        answers["the scheduler"] = fault
    compare(address, versions(), answers, packages)


def _threads(client: Any, address: str) -> int:
    """The number of threads of all workers. RunFailed is raised if the scheduler is lost."""
    try:
        if client.status != "running":
            raise OSError(client.status)
        return sum(client.nthreads(callback_timeout=_ANSWER_S).values())
    except Exception:
        raise _lost(address) from None


def _lost(address: str) -> RunFailed:
    """The error for a lost scheduler."""
    return RunFailed(f"dask: lost the scheduler at {address}")


class _Flight:
    """The batches of one run that the cluster has and that have not ended."""

    def __init__(self, plan: DaskWorkers, client: Any, queue: TaskQueue, perform: Perform) -> None:
        from distributed import as_completed

        self._plan, self._client, self._queue, self._perform = plan, client, queue, perform
        self._arrivals = as_completed(loop=client.loop)
        self._air: dict[Any, tuple[Batch, float]] = {}
        self._threads = _threads(client, plan.address)
        self._looked = self._inhabited = time.monotonic()  # last look; last look that found a worker
        self._alone = False

    def fill(self) -> bool:
        """Hand out batches, up to two for each thread of the workers. Return whether any batch is unfinished.

        A task that may have killed a worker runs at the end, alone.
        """
        limit = _IN_FLIGHT * max(self._threads, 1)
        while not self._alone and len(self._air) < limit and (batch := self._queue.fresh()):
            self._submit(batch)
        if not self._air:
            suspect = self._queue.suspect()
            self._alone = suspect is not None
            if suspect is not None:
                self._submit(suspect)
        return bool(self._air)

    def _submit(self, batch: Batch) -> None:
        future = self._client.submit(perform_there, self._perform, batch, MODEL_VERSION, pure=False)
        self._air[future] = batch, time.perf_counter()
        self._arrivals.add(future)

    def landed(self) -> list[list[Done]]:
        """Wait until a batch has ended, hand out new batches, and return the results of each ended batch.

        A batch that has to run again gives no results, so the list may be empty.
        """
        self._look()
        while not self._arrivals.has_ready():
            time.sleep(0.002)
            self._look()
        results = [self._results_of(future) for future in self._arrivals.next_batch(block=False)]
        self.fill()
        return [each for each in results if each]

    def _look(self) -> None:
        """Count the workers' threads, at most once a second.

        Raises:
            RunFailed: the scheduler is lost, or there has been no worker for `patience_s` seconds.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        self._threads = _threads(self._client, self._plan.address)
        if self._threads:
            self._inhabited = now
        elif now - self._inhabited > self._plan.patience_s:
            raise RunFailed(f"dask: no worker at {self._plan.address} for {self._plan.patience_s:g} s; start some")

    def _results_of(self, future: Any) -> list[Done]:
        """The results of a batch whose Dask future has ended. The list is empty if the batch has to run again.

        Dask repeats a batch itself if the worker ended before the result was fetched. If too many workers died with the
        batch, its tasks run again one by one. A task that already ran alone gets a failed result instead.

        Raises:
            RunFailed: the scheduler is lost, or a worker cannot work.
        """
        from distributed import CancelledError, KilledWorker

        batch, since = self._air.pop(future)
        if future.status in ("cancelled", "lost"):
            raise _lost(self._plan.address)
        try:
            return list(future.result(timeout=_ANSWER_S))
        except TimeoutError:  # the worker ended before the result was fetched; Dask repeats the batch
            self._air[future] = batch, since
            self._arrivals.add(future)
            return []
        except KilledWorker as fault:
            error = f"killed its worker {fault.allowed_failures + 1} times"
            return self._queue.lost(batch, self._alone, time.perf_counter() - since, error)
        except (CancelledError, OSError):
            raise _lost(self._plan.address) from None
        except Exception as fault:  # a task never raises, so the worker is at fault
            raise RunFailed(f"dask: a worker at {self._plan.address} cannot work ({one_line(fault)})") from None

    def abort(self) -> None:
        """Cancel the unfinished batches. Nobody waits for their results any more."""
        if self._air and self._client.status == "running":
            self._client.cancel(list(self._air))
