"""The last few values that were made, so that points of a sweep which share them make them once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
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

    def get(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The value of a key, made if it is not there; `size` says how many bytes it takes."""
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key][0]
        value = make()
        self.kept[key] = (value, size(value))
        while sum(bytes_ for _, bytes_ in self.kept.values()) > self.budget:
            self.kept.popitem(last=False)
        return value
