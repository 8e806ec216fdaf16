"""Ridge regression on released numbers: the squared loss, and a penalty that public numbers decide."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base.errors import InputError
from p2p_sim.learning.class_weights import check_accepts
from p2p_sim.learning.learner import Loss, OwnLearner, Received
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearValues:
    """A linear function of the features, for labels that are numbers on a grid.

    weights: (d,). middle: (d,) subtracted from the features. intercept: its value there. grid: (K,).
    """

    weights: Floats
    middle: Floats
    intercept: float
    grid: Floats

    def numbers(self, features: NDArray[np.floating]) -> Floats:
        """Predicted numbers (n,) of the features (n, d)."""
        return np.asarray(self.intercept + (features - self.middle) @ self.weights)

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """(n, K): 1 for the value of the grid that is nearest to the predicted number."""
        nearest = np.abs(self.numbers(features)[:, None] - self.grid).argmin(axis=1)
        return np.asarray(np.eye(len(self.grid))[nearest])


class RidgeConfig(OwnLearner):
    """Ridge regression with squared loss, for labels that are numbers.

    Unless `l2` is given, the model is the posterior mean if coefficients of standardised features are normal and
    explain a variance of (span/4)² together, and numbers have the variance (span/4)² and that of the public noise
    around them; span is the width of the public range.
    """

    kind: Literal["ridge"] = "ridge"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("values",)
    loss: ClassVar[Loss] = "squared"
    l2: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Penalty on squared coefficients of standardised features, at least 0; absent: d (1 + noise variance / (span/4)²)
    for d features."""
    cluster_means: bool = False
    """Learn from the mean features of each cluster, for releases whose numbers are those of random users of a
    cluster; without privacy the users' own features are learned from."""

    @property
    def depends_on_scale(self) -> bool:
        return False

    @property
    def knows_clusters(self) -> bool:
        return self.cluster_means

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from true labels whose numbers are their places in the grid."""
        return self.fit_values(features, labels.astype(np.float64), tuple(map(float, range(num_classes))))

    def fit_values(
        self, features: NDArray[np.floating], labels: NDArray[np.float64], values: tuple[float, ...]
    ) -> Predictor:
        return self._fitted(features, labels, features.std(axis=0), np.array(values), 0.0)

    def learned(self, received: Received) -> Predictor:
        """Learn from released numbers whose law is public."""
        check_accepts(received.release, self.kind, self.accepts)
        law = received.values
        if law is None:
            raise InputError(f"learner.kind = {self.kind!r}: needs numbers whose law the mechanism publishes")
        rows = self._cluster_means(received) if self.cluster_means else received.rows
        told = received.release.payload.astype(np.float64, copy=False)
        return self._fitted(rows, told, received.features.std(axis=0), law.values, law.variance)

    def _cluster_means(self, received: Received) -> Floats:
        """(m, d) mean features of the clusters of those whose submissions arrived."""
        starts, sizes = received.cluster_offsets[:-1], np.diff(received.cluster_offsets)
        sums = np.add.reduceat(received.features.astype(np.float64, copy=False), starts, axis=0)
        return np.asarray((sums / sizes[:, None])[received.cluster])

    def _fitted(self, rows: NDArray[np.floating], told: Floats, scale: Floats, grid: Floats, noise: float
                ) -> LinearValues:  # fmt: skip
        """The model of rows (m, d) and numbers (m,); scale: (d,) of the features; noise: variance of a number."""
        quarter, d = (grid[-1] - grid[0]) / 4.0, rows.shape[1]
        if not len(told):
            return LinearValues(np.zeros(d), np.zeros(d), float(grid[0] + grid[-1]) / 2.0, grid)
        scale = np.where(scale > 0, scale, 1.0)
        middle = rows.mean(axis=0, dtype=np.float64)
        X, y = (rows - middle) / scale, told - told.mean()
        penalty = d * (1.0 + noise / quarter**2) if self.l2 is None else self.l2
        weights = np.linalg.lstsq(X.T @ X + penalty * np.eye(d), X.T @ y, rcond=None)[0]
        return LinearValues(weights / scale, middle, float(told.mean()), grid)
