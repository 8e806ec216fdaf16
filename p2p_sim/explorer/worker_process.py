"""Answers questions in processes beside the server: one at a time of each kind, and only the newest to its end."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from anyio import BrokenWorkerProcess, CancelScope, CapacityLimiter, current_time, to_process

from p2p_sim.base import InputError, RunFailed, finite

LONGEST_S = 300.0
"""Seconds after which an answer is given up."""
PATIENCE_S = 0.4
"""Seconds that an older question of the same kind still gets when a newer one arrives."""


class Superseded(Exception):  # noqa: N818
    """A newer question of the same kind came before this one was answered."""


class Asker(Protocol):
    """The interface of an object that answers questions of one kind."""

    async def ask(self, task: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """The answer of a task, such as "curve", to the fields of a browser; InputError if there is none."""


class Lane:
    """Questions of one kind: each in a process, one at a time; a newer question replaces an older one."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._newest: CancelScope | None = None

    async def warm(self) -> None:
        """Start a process and load large libraries, so that the first question does not wait for them."""
        async with self._turn:
            await to_process.run_sync(_load, cancellable=True)

    async def ask(self, task: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """The answer of a task, such as "curve", to the fields of a browser, from a process beside the server.

        Raises:
            InputError: the question cannot be answered, in one line.
            Superseded: a newer question came.
        """
        # an older question gets little more time; this one waits for its turn, unless a newer one comes meanwhile
        if self._newest is not None:
            self._newest.deadline = min(self._newest.deadline, current_time() + PATIENCE_S)
        with CancelScope() as mine:
            self._newest = mine
            async with self._turn:
                if mine is not self._newest:
                    raise Superseded
                mine.deadline = current_time() + LONGEST_S
                try:
                    return await to_process.run_sync(
                        answered, task, dict(fields), cancellable=True, limiter=CapacityLimiter(1)
                    )
                except BrokenWorkerProcess:
                    raise InputError(
                        "the answer was lost: not enough memory, or a fault; ask on the command line"
                    ) from None
        if mine is not self._newest:
            raise Superseded
        raise InputError(f"there is no answer after {LONGEST_S:g} s; ask on the command line")


def _load() -> None:
    """Load a large library that the privacy answers need."""
    import scipy.special  # noqa: F401


def answered(task: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a browser's fields: ε or δ ("told"), a trade-off curve ("curve"), α ("needed") or a film ("film").

    Raises:
        InputError: the question cannot be answered, in one line.
    """
    try:
        if task == "film":
            from p2p_sim.explorer.film_page import film

            return film(fields)
        from p2p_sim.explorer import privacy_page

        tasks = {"told": privacy_page.privacy_answer, "curve": privacy_page.curve, "needed": privacy_page.needed}
        answer: dict[str, Any] = finite(tasks[task](fields))
    except RunFailed as error:
        raise InputError(str(error)) from None
    except MemoryError:
        raise InputError("not enough memory") from None
    return answer
