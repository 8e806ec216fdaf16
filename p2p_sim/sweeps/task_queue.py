"""What is still to be handed out to workers: lost tasks first, one by one, then new batches."""

from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice

from p2p_sim.sweeps.work import Batch, Done, Task


class Handout:
    """Batches to hand out, and what becomes of those whose worker died.

    The death of a worker says nothing about one task of a batch: its tasks go out again one by one. A task that was
    alone with its worker when that died is to blame; after `attempts` such deaths it is given up.
    """

    def __init__(self, batches: Iterator[Batch], attempts: int) -> None:
        self._batches, self._attempts = batches, attempts
        self._drawn: deque[Batch] = deque()
        self._suspects: deque[Batch] = deque()
        self._deaths: Counter[Task] = Counter()
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether there is nothing left to hand out, so far as is known."""
        return self._ended and not self._drawn and not self._suspects

    def draw(self, most: int) -> int:
        """Draw up to `most` batches ahead; how many there were."""
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
        """Take back a batch whose worker died: its tasks go out again, unless one is given up and so has its result.

        Args:
            batch: what the worker had begun.
            alone: whether nothing else can be to blame than a task of this batch.
            wall_s: seconds since it was handed out.
            error: why a task is given up, in one line.
        """
        if alone and len(batch) == 1:
            self._deaths[batch[0]] += 1
            if self._deaths[batch[0]] >= self._attempts:
                return [Done(batch[0], None, error, wall_s)]
        self._suspects.extend((task,) for task in batch)
        return []
