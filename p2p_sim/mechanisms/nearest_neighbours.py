"""Means over the nearest neighbours in feature space."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUERIES = 4_096
"""Rows that are looked up at a time, so that memory does not grow with their number."""


@dataclass(frozen=True)
class NeighbourMeans:
    """For any point, the mean of the vectors that its k nearest rows carry (Euclidean distance).

    Args:
        features: (m, d), m at least 1.
        vectors: (m, K) numbers, float32.
        neighbours: k, at least 1; all rows where there are fewer.
    """

    features: NDArray[np.floating]
    vectors: NDArray[np.float32]
    neighbours: int

    @cached_property
    def _index(self) -> Any:
        from sklearn.neighbors import NearestNeighbors

        return NearestNeighbors(n_neighbors=min(self.neighbours, len(self.features))).fit(self.features)

    def at(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Mean vectors (n, K) at points (n, d)."""
        from scipy.sparse import csr_array

        out = np.empty((len(points), self.vectors.shape[1]))
        for start in range(0, len(points), QUERIES):
            near = self._index.kneighbors(points[start : start + QUERIES], return_distance=False)
            rows, k = near.shape
            ends = np.arange(0, rows * k + 1, k)
            sums = csr_array((np.ones(rows * k, np.float32), near.ravel(), ends), shape=(rows, len(self.features)))
            out[start : start + rows] = (sums @ self.vectors) / k
        return out
