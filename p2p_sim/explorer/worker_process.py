"""Work beside the server: a process that answers one question at a time, and is stopped where nobody waits for it."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from p2p_sim.base.errors import InputError

COMMAND = (sys.executable, "-m", "p2p_sim.explorer.worker_main")
LONGEST_S = 300.0
"""Seconds after which an answer is given up."""
PATIENCE_S = 0.4
"""Seconds that an older question of the same kind still gets when a newer one arrives."""
LARGEST_ANSWER = 32_000_000


class Superseded(Exception):  # noqa: N818
    """A newer question of the same kind came before this one was answered."""


class Asker(Protocol):
    """What answers questions of one kind."""

    async def ask(self, task: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """The answer of a task of `p2p_sim.explorer.worker_main`."""

    async def close(self) -> None:
        """Nothing more is asked."""


class Lane:
    """One process for questions of one kind; the newest question counts. `command` starts the process."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._ended: list[asyncio.subprocess.Process] = []
        self._lock, self._newest, self._current = asyncio.Lock(), 0, 0

    async def ask(self, task: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """The answer of a task.

        Raises:
            InputError: the question cannot be answered, in one line.
            Superseded: a newer question came.
        """
        self._newest += 1
        mine = self._newest
        if self._lock.locked():
            asyncio.get_running_loop().call_later(PATIENCE_S, self._stop_if, self._current)
        async with self._lock:
            if mine != self._newest:
                raise Superseded
            self._current = mine
            try:
                found = await asyncio.wait_for(self._answered(task, fields), LONGEST_S)
            except TimeoutError:
                self._stop()
                raise InputError(f"there is no answer after {LONGEST_S:g} s; ask on the command line") from None
            finally:
                self._current = 0
        if "error" in found:
            raise InputError(str(found["error"]))
        return found

    async def warm(self) -> None:
        """Start the process, so that the first question need not wait for it."""
        async with self._lock:
            await self._started()

    async def close(self) -> None:
        """End the process, and wait for the end of all that were started."""
        self._stop()
        for process in self._ended:
            await process.wait()

    def _stop(self) -> None:
        """End the process; the next question starts another."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            self._ended = [one for one in self._ended if one.returncode is None] + [self._process]
        self._process = None

    def _stop_if(self, current: int) -> None:
        if current and self._current == current:
            self._stop()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=nowhere, limit=LARGEST_ANSWER
            )
        return self._process

    async def _answered(self, task: str, fields: Mapping[str, str]) -> dict[str, Any]:
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"task": task, "fields": dict(fields)}).encode() + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (ConnectionError, BrokenPipeError):
            line = b""
        if not line:
            if self._process is process:
                self._process = None
                raise InputError("the answer was lost: not enough memory, or a fault; ask on the command line")
            raise Superseded
        found: dict[str, Any] = json.loads(line)
        return found
