"""The last few values that were made, so that points of a sweep which share them make them once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class Recent(Generic[Value]):
    """Keeps values by key up to a number of bytes in all; what was not asked for longest goes first.

    >>> squares = Recent(budget=16)
    >>> [squares.get(n, lambda n=n: n * n, lambda value: 8) for n in (3, 4, 3)], len(squares.kept)
    ([9, 16, 9], 2)
    """

    budget: int
    kept: OrderedDict[Hashable, tuple[Value, int]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The value of a key, made if it is not there; `size` says how many bytes it takes.

        Threads may share it; two that miss the same value at the same time both make it.
        """
        with self._lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key][0]
        value = make()
        taken = size(value)
        with self._lock:
            self.kept[key] = (value, taken)
            while sum(bytes_ for _, bytes_ in self.kept.values()) > self.budget:
                self.kept.popitem(last=False)
        return value
