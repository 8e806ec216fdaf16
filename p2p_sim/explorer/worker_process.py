"""Answers questions from the browser in worker processes, one question of each kind at a time. A newer question
replaces an older one of the same kind.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from anyio import BrokenWorkerProcess, CancelScope, CapacityLimiter, current_time, to_process

from p2p_sim.base import InputError, RunFailed, finite

LONGEST_S = 300.0
"""Seconds after which the computation of an answer is given up."""
PATIENCE_S = 0.4
"""Seconds that an older question still gets when a newer one of the same kind arrives."""


class Superseded(Exception):  # noqa: N818
    """A newer question of the same kind came before this one was answered."""


class Asker(Protocol):
    """The interface of an object that answers questions of one kind."""

    async def ask(self, task: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a question from the browser, as a dictionary for JSON. The keys depend on the task.

        Args:
            task: "told" asks for ε at a δ, or δ at an ε. "curve" asks for a trade-off curve. "needed" asks for the
            smallest flip probability α for a target ε. "film" asks for an animation of an exchange. fields: the page's
            form fields by name, as texts, such as cluster_size and flip_prob, or the film's scenario.

        Raises:
            InputError: there is no answer.
        """


class Lane:
    """Answers the questions of one kind in worker processes, one at a time. A newer question replaces an older one."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._newest: CancelScope | None = None

    async def warm(self) -> None:
        """Start a worker process and load large libraries there. So the first question need not wait for this."""
        async with self._turn:
            await to_process.run_sync(_load, cancellable=True)

    async def ask(self, task: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a question from the browser, computed in a worker process. A new question waits for an older
        one of this kind. The older question then gets at most 0.4 seconds more.

        Args:
            task, fields: as in `Asker.ask`.

        Raises:
            InputError: the question cannot be answered, or not within 300 seconds; the message says why in one line.
            Superseded: a newer question of this kind came before the answer.
        """
        # an older question gets little more time; then this question has its turn, unless a newer one has come
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
    """Import SciPy's special functions, which the privacy answers need and which take long to load."""
    import scipy.special  # noqa: F401


def answered(task: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a question from the browser, as a dictionary that can be written as JSON.

    Args:
        task, fields: as in `Asker.ask`.

    Raises:
        InputError: the question cannot be answered; the message says why in one line.
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
