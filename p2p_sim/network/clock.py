"""SimPy's clock with events at absolute times, and timers that come after everything else at their instant."""

import heapq
from collections.abc import Callable

import simpy

SOON, LAST = 1, 2
"""Order of events at the same time: what happens, then timers. A reply exactly at its deadline counts."""


class Moment(simpy.Event):
    """Something that happens at an absolute time."""

    def __init__(self, clock: "Clock", time: float, order: int) -> None:
        super().__init__(clock)
        self._ok, self._value = True, None
        clock.enter(self, time, order)


class Clock(simpy.Environment):
    """SimPy's environment; a delay would not do, since now + (time - now) is not always `time` to the last bit."""

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
