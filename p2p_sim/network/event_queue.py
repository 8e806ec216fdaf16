"""The event engine's clocks: SimPy's with events at absolute times, and a delivery queue in arrays.

The queue knows no labels and no protocol. One SimPy event advances the clock by a *window* that holds some thousands of
messages. The messages of a window are handed to their handlers in causal rounds: first those already queued, then the
ones these gave rise to within the same window, and so on until none is left. Every message carries its own exact time,
so the partition into windows shows in no result, as long as a handler's effect on one message does not depend on
another message of the same window.

Scripted actors, few, may run beside as SimPy processes that post messages.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence

import numpy as np
import simpy
from numpy.typing import NDArray

SOON, LAST = 1, 2
"""Order of events at the same time: what happens, then timers. A reply exactly at its deadline counts."""


class Moment(simpy.Event):
    """An event of SimPy that happens at an absolute time, seconds."""

    def __init__(self, clock: "Clock", time: float, order: int) -> None:
        super().__init__(clock)
        self._ok, self._value = True, None
        clock.enter(self, time, order)


class Clock(simpy.Environment):
    """SimPy's environment with events at absolute times, since now + (time - now) is not always `time` to the
    last bit.
    """

    def enter(self, event: simpy.Event, time: float, order: int) -> None:
        """Queue an event that has its value already."""
        heapq.heappush(self._queue, (time, order, next(self._eid), event))  # type: ignore[misc]

    def until(self, time: float) -> Moment:
        """An event for a process to wait for; not before now."""
        return Moment(self, time, SOON)

    def at(self, time: float, action: Callable[[], object], timer: bool = False) -> None:
        """Do something at a time; as a timer: after all else that happens then."""

        def act(_: simpy.Event) -> None:
            action()

        Moment(self, time, LAST if timer else SOON).callbacks.append(act)


Users = NDArray[np.int32]
Times = NDArray[np.float64]
Handler = Callable[[int, Users, Times], None]
Actor = Callable[[simpy.Environment], Generator[simpy.Event, None, None]]
Batches = defaultdict[int, list[tuple[Users, Times]]]

SLOTS = 64
"""Windows that are queued by time; what lies beyond them is under this number, unsorted until the clock comes near."""
SLICE = 16_384
"""Most messages handed to a handler at once, which bounds the memory of temporaries."""


class Engine:
    """Delivers messages, each a (kind, user, time), to a handler.

    Args:
        handler: called with a kind, and users (m,) and times (m,), seconds, of messages of that kind.
        window_messages: messages that a window should hold; its width in seconds follows the load.
    """

    def __init__(self, handler: Handler, window_messages: int = 8192) -> None:
        self._handler = handler
        self._target = window_messages
        self._ring: list[Batches] = [defaultdict(list) for _ in range(SLOTS + 1)]
        self._origin, self._width = 0.0, 0.0
        self._next = 0  # the window that is delivered next, or now
        self._environment = simpy.Environment()
        self._advancing = False
        self.delivered = 0
        self.windows = 0

    def post(self, kind: int, users: Users, times: Times) -> None:
        """Queue messages for delivery at the given times, which must not lie before the current message's."""
        if users.size == 0:
            return
        if not self._advancing:
            self._advancing = True
            self._environment.process(self._advance())
        if self._width == 0.0:
            self._ring[SLOTS][kind].append((users, times))
            return
        position = times - self._origin
        position /= self._width
        np.clip(position, self._next, SLOTS, out=position)  # an actor may post before the next window
        slot = position.astype(np.int16)
        lowest, highest = int(slot.min()), int(slot.max())
        if lowest == highest:
            self._ring[lowest][kind].append((users, times))
            return
        order = np.argsort(slot, kind="stable")  # a radix sort for 16-bit keys
        users, times = users[order], times[order]
        ends = np.cumsum(np.bincount(slot))
        for index in range(lowest, highest + 1):
            begin, end = (int(ends[index - 1]) if index else 0), int(ends[index])
            if end > begin:
                self._ring[index][kind].append((users[begin:end], times[begin:end]))

    def run(self, actors: Sequence[Actor] = ()) -> float:
        """Deliver until nothing is queued and every actor is done; returns when the last window ended, seconds.

        An engine runs once: it lets go of its handler at the end.
        """
        for actor in actors:
            self._environment.process(actor(self._environment))
        try:
            self._environment.run()
        finally:  # the handler's owner holds the engine too: a circle would keep both until a collection
            self._handler = _closed
        return float(self._environment.now)

    def _advance(self) -> Generator[simpy.Event, None, None]:
        """The process that moves the clock from window to window and delivers each, until nothing is queued."""
        while self._ring[SLOTS]:
            self._refill()
            for index in range(SLOTS):
                if self._ring[index]:
                    self._next = index
                    end = self._origin + (index + 1) * self._width
                    yield self._environment.timeout(max(end - self._environment.now, 0.0))
                    self._deliver(index)
                    self.windows += 1
                    self._next = index + 1
        self._width, self._advancing = 0.0, False

    def _deliver(self, index: int) -> None:
        """Deliver the messages of one window, and those that they give rise to within it, round by round."""
        while self._ring[index]:
            batches, self._ring[index] = self._ring[index], defaultdict(list)
            for kind in sorted(batches):
                batch = batches.pop(kind)
                if len(batch) > 1:
                    batch = [(np.concatenate([who for who, _ in batch]), np.concatenate([when for _, when in batch]))]
                users, times = batch[0]
                self.delivered += users.size
                for start in range(0, users.size, SLICE):
                    part = slice(start, start + SLICE)
                    self._handler(kind, users[part], times[part])

    def _refill(self) -> None:
        """Choose the window's width from the load and queue what lies beyond the last window."""
        waiting, self._ring[SLOTS] = self._ring[SLOTS], defaultdict(list)
        times = np.concatenate([t for batch in waiting.values() for _, t in batch])
        windows = min(max(times.size // self._target, 1), SLOTS)
        near = np.partition(times, min(windows * self._target, times.size) - 1)
        self._origin = float(near.min())
        reach = float(near[min(windows * self._target, times.size) - 1]) - self._origin
        smallest = 1e-9 * max(1.0, abs(self._origin))
        self._width = max(reach / windows, smallest) * (1.0 + 1e-9)
        self._next = 0
        del times, near
        for kind in sorted(waiting):
            for users, moments in waiting.pop(kind):
                self.post(kind, users, moments)


def _closed(kind: int, users: Users, times: Times) -> None:
    raise RuntimeError("the engine has run")
