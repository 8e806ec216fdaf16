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

    def __init__(self, dtype: np.dtype[Any], expected: int) -> None:
        self._array: NDArray[Any] = np.empty(expected, dtype)
        self._count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Add values (m,), converted to the array's type."""
        end = self._count + len(values)
        if end > len(self._array):
            self._array.resize(max(end, len(self._array) * 9 // 8), refcheck=False)
        self._array[self._count : end] = values
        self._count = end

    def values(self) -> NDArray[Any]:
        """All values; nothing may be appended afterwards."""
        self._array.resize(self._count, refcheck=False)
        return self._array
