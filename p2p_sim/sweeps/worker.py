"""A worker process: how it is started, and what it does. It never imports the main module of whoever started it.

`multiprocessing` would import it: a script without `if __name__ == "__main__"` would run again in every worker, and a
script on standard input could not be found.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait

from p2p_sim.sweeps.tasks import Done, Perform, sent

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import json, sys; "
    "sys.path[:] = json.loads(sys.argv[1]); from p2p_sim.sweeps.worker import serve; serve(*map(int, sys.argv[2:]))"
)
"""Ctrl-C reaches every process of a terminal; the driver alone decides what it means."""


@dataclass(frozen=True)
class Worker:
    """A worker process, as its driver sees it.

    process: the process. pipe: takes batches and gives results; it ends when the worker does.
    life: nothing is sent here; the worker's end of it closes when the driver ends, and then the worker ends.
    """

    process: "subprocess.Popen[bytes]"
    pipe: Connection
    life: Connection

    def ended(self) -> int:
        """Wait for the process, close the pipes, and return the exit status; -9 where signal 9 ended it."""
        status = self.process.wait()
        self.pipe.close()
        self.life.close()
        return status


def start(imports: str, perform: Perform) -> Worker:
    """Start a worker with the interpreter, its options, the import path and the directory of this process.

    Args:
        imports: module that the worker imports before anything else. perform: what it does with a batch.
    """
    here, there = Pipe()
    watched, life = Pipe(duplex=False)
    handles = there.fileno(), watched.fileno()
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    places = json.dumps([str(place) for place in sys.path])
    command = [sys.executable, *options, "-c", _START, places, *map(str, handles)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, pass_fds=handles, env={**os.environ, **dict.fromkeys(_THREADS, "1")}
    )
    for end in (there, watched):  # now only the worker holds them, and its death ends the pipe
        end.close()
    with suppress(OSError):  # it died at once, which will be the first news of it
        here.send((imports, perform))
    return Worker(process, here, life)


def serve(pipe: int, life: int) -> None:
    """Perform batch after batch until the driver closes the pipe; the first message only says that all is ready.

    Args:
        pipe, life: handles of the worker's ends, see `Worker`.
    """
    threading.Thread(target=_end_with_driver, args=(Connection(life, writable=False),), daemon=True).start()
    connection = Connection(pipe)
    from p2p_sim.base import progress

    progress.silence()
    try:
        imports, perform = connection.recv()
        importlib.import_module(imports)
        message: list[Done] = []
        while True:
            connection.send(message)
            message = [sent(done) for done in perform(connection.recv())]
    except (EOFError, BrokenPipeError):
        return


def _end_with_driver(life: Connection) -> None:
    """Leave at once when the driver is gone, however it went; without this its workers would finish their batch."""
    wait([life])
    os._exit(1)
