"""Two clocks of a simulation: SimPy's clock with absolute times, and an engine that delivers messages in arrays.

The engine gives the messages to a function, the *handler*. The engine knows no labels and no protocol. Its clock
advances by a *window*: a span of time with some thousands of messages. The messages of a window are delivered in
rounds. The first round has the messages that are queued for the window. Each further round has the messages that the
handler posted for this window in the round before. The window ends when no message is left. Every message carries its
exact time. If the handler treats the messages of a window independently, the results do not depend on the windows.

Beside the messages, SimPy processes may run as *actors*, which post messages too.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

SOON, LAST = 1, 2
"""Order of events at the same time. Timers come last, so a reply exactly at its deadline counts."""


class Clock(simpy.Environment):
    """SimPy's environment, extended by events at absolute times.

    SimPy itself takes delays, and now + (time - now) may differ from `time` in the last bit.
    """

    def until(self, time: float, order: int = SOON) -> simpy.Event:
        """An event at a time (in seconds, not before now); a process can wait for the event.

        order: `SOON`, or `LAST` for an event after all others at the same time.
        """
        event = simpy.Event(self)
        event._ok, event._value = True, None
        heapq.heappush(self._queue, (time, order, next(self._eid), event))  # type: ignore[misc]
        return event

    def at(self, time: float, action: Callable[[], Any], timer: bool = False) -> None:
        """Call an action at a time, in seconds. A timer's action comes after all other events of this time."""
        self.until(time, LAST if timer else SOON).callbacks.append(lambda _: action())


Users = NDArray[np.int32]
Times = NDArray[np.float64]
Handler = Callable[[int, Users, Times], None]
Actor = Callable[[simpy.Environment], Generator[simpy.Event, None, None]]
Batches = defaultdict[int, list[tuple[Users, Times]]]

SLOTS = 64
"""Number of windows in which messages are queued by time; messages for later times wait unsorted."""
SLICE = 16_384
"""Largest number of messages given to a handler at once; this limits the memory of temporary arrays."""


class Engine:
    """Delivers messages, each a (kind, user, time), to a handler.

    Args:
        handler: called with the kind, the users (m,) and the times (m,), in seconds, of m messages of this kind.
        window_messages: wanted number of messages in a window; the window's width in seconds follows from this number.
    """

    def __init__(self, handler: Handler, window_messages: int = 8192) -> None:
        self._handler = handler
        self._target = window_messages
        self._ring: list[Batches] = [defaultdict(list) for _ in range(SLOTS + 1)]
        self._origin, self._width = 0.0, 0.0
        self._next = 0  # the window that is delivered now; between two windows, the next window
        self._environment = simpy.Environment()
        self._advancing = False

    def post(self, kind: int, users: Users, times: Times) -> None:
        """Queue a message for each of the users (m,), for delivery at the times (m,), in seconds.

        Args:
            kind: a number that the handler chose for a kind of message, such as a request. users: number of each
            message's user. times: of delivery. A handler must not post for a time before the message that it handles.
        """
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
        np.clip(position, self._next, SLOTS, out=position)  # an actor may post for a time before the window `_next`
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

    def run(self, actors: Sequence[Actor] = ()) -> None:
        """Deliver messages until no message is queued and every actor is done. An engine runs only once.

        Args:
            actors: functions of the SimPy environment. Each returns a generator, which runs as a SimPy process and may
            post messages. An actor is done when the generator ends.
        """
        for actor in actors:
            self._environment.process(actor(self._environment))
        try:
            self._environment.run()
        finally:  # the handler's owner refers to the engine: a cycle would keep both in memory for longer
            self._handler = _closed

    def _advance(self) -> Generator[simpy.Event, None, None]:
        """The SimPy process that moves the clock on, window by window, and delivers messages until none is queued."""
        while self._ring[SLOTS]:
            self._refill()
            for index in range(SLOTS):
                if self._ring[index]:
                    self._next = index
                    end = self._origin + (index + 1) * self._width
                    yield self._environment.timeout(max(end - self._environment.now, 0.0))
                    self._deliver(index)
                    self._next = index + 1
        self._width, self._advancing = 0.0, False

    def _deliver(self, index: int) -> None:
        """Deliver all messages of window number `index`, in rounds, until the window has no message.

        After the first round, a round has the messages that the handler posted for this window in the round before.
        """
        while self._ring[index]:
            batches, self._ring[index] = self._ring[index], defaultdict(list)
            for kind in sorted(batches):
                batch = batches.pop(kind)
                if len(batch) > 1:
                    batch = [(np.concatenate([who for who, _ in batch]), np.concatenate([when for _, when in batch]))]
                users, times = batch[0]
                for start in range(0, users.size, SLICE):
                    part = slice(start, start + SLICE)
                    self._handler(kind, users[part], times[part])

    def _refill(self) -> None:
        """Sort waiting messages into at most 64 windows of equal width, on average with about the wanted number each.

        Messages for times after the last window stay in the queue of waiting messages.
        """
        waiting, self._ring[SLOTS] = self._ring[SLOTS], defaultdict(list)
        times = np.concatenate([t for batch in waiting.values() for _, t in batch])
        windows = min(max(times.size // self._target, 1), SLOTS)
        near = np.partition(times, min(windows * self._target, times.size) - 1)
        self._origin = float(near.min())
        reach = float(near[min(windows * self._target, times.size) - 1]) - self._origin
        self._width = max(reach / windows, 1e-9 * max(1.0, abs(self._origin))) * (1.0 + 1e-9)
        self._next = 0
        del times, near
        for kind in sorted(waiting):
            for users, moments in waiting.pop(kind):
                self.post(kind, users, moments)


def _closed(kind: int, users: Users, times: Times) -> None:
    """The handler of an engine that has run: raises RuntimeError. The engine's own handler can then be freed."""
    raise RuntimeError("the engine has run")
