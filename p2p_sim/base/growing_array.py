"""An array that is filled piece by piece without being held twice."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Growing:
    """Collects values of one type; grows in place where the expected number is exceeded.

    >>> collected = Growing(np.dtype(np.int32), expected=2)
    >>> collected.append(np.arange(5))
    >>> collected.values().tolist()
    [0, 1, 2, 3, 4]
    """

    def __init__(self, dtype: np.dtype[Any], expected: int, row: tuple[int, ...] = ()) -> None:
        self._array: NDArray[Any] = np.empty((expected, *row), dtype)
        self._count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Add values (m, ...), rows of the shape asked for, converted to the array's type."""
        end = self._count + len(values)
        if end > len(self._array):
            self._resize(max(end, len(self._array) * 9 // 8))
        self._array[self._count : end] = values
        self._count = end

    def values(self) -> NDArray[Any]:
        """All values; nothing may be appended afterwards."""
        self._resize(self._count)
        return self._array

    def _resize(self, rows: int) -> None:
        self._array.resize((rows, *self._array.shape[1:]), refcheck=False)
