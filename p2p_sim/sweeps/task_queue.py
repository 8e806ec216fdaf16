"""The tasks that wait for a worker: lost tasks first, one by one, then new batches."""

from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice

from p2p_sim.sweeps.tasks import Batch, Done, Task


class TaskQueue:
    """Batches that wait for a worker, and batches whose worker died.

    If the worker of a batch dies, any task of the batch may be the cause, so its tasks are sent again one by one. If a
    task is the only task of a worker that dies, the task is the cause; after `attempts` such deaths it fails.
    """

    def __init__(self, batches: Iterator[Batch], attempts: int) -> None:
        self._batches, self._attempts = batches, attempts
        self._drawn: deque[Batch] = deque()
        self._suspects: deque[Batch] = deque()
        self._deaths: Counter[Task] = Counter()
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether no batch is known to wait."""
        return self._ended and not self._drawn and not self._suspects

    def draw(self, most: int) -> int:
        """Draw up to `most` batches ahead and return their number."""
        self._drawn.extend(islice(self._batches, most))
        self._ended = len(self._drawn) < most
        return len(self._drawn)

    def suspect(self) -> Batch | None:
        """The next task that was with a worker when it died, or None."""
        return self._suspects.popleft() if self._suspects else None

    def fresh(self) -> Batch | None:
        """The next batch that was never lost, or None."""
        if self._drawn:
            return self._drawn.popleft()
        batch = None if self._ended else next(self._batches, None)
        self._ended = batch is None
        return batch

    def back(self, batch: Batch) -> None:
        """Take back a batch that no worker began."""
        self._drawn.appendleft(batch)

    def lost(self, batch: Batch, alone: bool, wall_s: float, error: str) -> list[Done]:
        """Take back a batch whose worker died: its tasks are sent again, or a single task fails and its result is
        returned.

        Args:
            batch: what the worker had begun.
            alone: whether only a task of this batch can be the cause.
            wall_s: seconds since the batch was sent.
            error: the reason for a failed task, in one line.
        """
        if alone and len(batch) == 1:
            self._deaths[batch[0]] += 1
            if self._deaths[batch[0]] >= self._attempts:
                return [Done(batch[0], None, error, wall_s)]
        self._suspects.extend((task,) for task in batch)
        return []
