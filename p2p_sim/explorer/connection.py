"""Connections of the explorer's server, which nobody can exhaust without the token."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS, BACKLOG = 128, 64
"""Connections that are open at once, and those that are taken from the system in one go: together below the 256 open
files that some systems allow a process."""
HEADERS_S = 5.0
"""Seconds within which a request must be there with all its headers."""


class Connection(H11Protocol):
    """A connection that ends if no whole request comes in time, or if newer ones need its room while it is idle."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._late: asyncio.TimerHandle | None = None
        self._since = 0.0

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; where there are too many, the oldest idle one ends, which may be this one."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._expect()
        connections = [
            one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()
        ]
        if len(connections) > MOST_CONNECTIONS:
            idle = [one for one in connections if one._idle]
            min(idle, key=lambda one: one._since).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; until its headers are whole, more bytes gain it no time."""
        super().data_received(data)
        if self._idle:
            self._expect()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEADERS_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = None
