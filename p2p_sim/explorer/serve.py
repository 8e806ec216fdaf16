"""Serves the explorer on 127.0.0.1 and opens a browser. A client without the token cannot use up the connections."""

import asyncio
import contextlib
import importlib
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from p2p_sim.base import InputError
from p2p_sim.explorer.app import LANES, application
from p2p_sim.explorer.directories import ReadableDirectories
from p2p_sim.explorer.worker_process import Lane

MOST_CONNECTIONS, BACKLOG = 128, 64
"""Largest number of open connections, and largest number of connections that wait in the system to be accepted.
Together they are below the 256 open files that some systems allow a process."""
HEADERS_S = 5.0
"""Seconds within which all headers of a request must arrive."""


class Connection(H11Protocol):
    """A connection that ends if a request's headers come too late. The oldest idle connection ends if there are too
    many.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._late: asyncio.TimerHandle | None = None
        self._since = 0.0

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection. If there are too many, the oldest idle connection ends. This may be the new one."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._expect()
        connections = [
            each for each in self.connections if isinstance(each, Connection) and not each.transport.is_closing()
        ]
        if len(connections) > MOST_CONNECTIONS:
            min((each for each in connections if each._idle), key=lambda each: each._since).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request. More bytes do not restart the time limit for the request's headers."""
        super().data_received(data)
        if self._idle:
            self._expect()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect(self) -> None:
        """Start a countdown of 5 seconds, unless one is running already. At the end, the connection is closed if the
        next request's headers are incomplete. So a client cannot hold a connection open with slow headers.
        """
        if self._late is None:
            self._late = self.loop.call_later(HEADERS_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        """Cancel the countdown that would close the connection, if one is running."""
        if self._late is not None:
            self._late.cancel()
        self._late = None


ADDRESS = "127.0.0.1"
"""The only address at which the explorer answers; other machines cannot reach it."""
LONGEST_HEADERS = 131_072
"""Largest number of bytes of a request without its body. A film's address is long because it contains the scenario's
text."""
FORWARD = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0; url={0}"><title>p2p-sim explorer</title><a href="{0}">The explorer</a>\n'
)
"""HTML of a page that leads the browser to an address. The address replaces {0}."""


def serve(roots: tuple[Path, ...], port: int, open_: bool, say: Callable[[str], None]) -> None:
    """Run the explorer's server until the process is interrupted.

    Args:
        roots: results directories, or directories that contain results directories. port: number of the port; 0 for a
        free one. open_: whether to open the browser. say: function that gets the explorer's address, with the token,
        once the explorer answers.

    Raises:
        InputError: a directory is not there, or the port cannot be used.
    """
    directories, lanes = ReadableDirectories(roots), {name: Lane() for name in LANES}
    token = secrets.token_urlsafe(24)
    with contextlib.ExitStack() as held, socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((ADDRESS, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "must be from 0 to 65535"
            raise InputError(f"--port {port}: cannot be used ({reason}); leave it out for a free one") from None
        host = f"{ADDRESS}:{listening.getsockname()[1]}"
        address = f"http://{host}/{token}/"

        async def started() -> None:
            say(address)
            if open_:
                page = held.enter_context(forwarding(address)).as_uri()
                threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
            await lanes["told"].warm()
            asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "p2p_sim.explorer.results_page")

        app = application(directories, lanes, token, host, started)
        settings = uvicorn.Config(
            app,
            loop="asyncio",
            http=Connection,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=LONGEST_HEADERS,
            timeout_keep_alive=5,  # seconds; limit_concurrency is not set because it would count idle connections
            log_level="error",
            log_config=None,
            access_log=False,
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        listening.listen(BACKLOG)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listening])


@contextlib.contextmanager
def forwarding(address: str) -> Iterator[Path]:
    """A context with the path of an HTML file that leads the browser to an address. No other user can read the file.
    The file is deleted when the context ends.

    The browser does not get the address itself, because every user could see it in the list of processes.
    """
    with TemporaryDirectory(prefix="p2p-sim-") as folder:
        path = Path(folder) / "explorer.html"
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(FORWARD.format(address))
        yield path
