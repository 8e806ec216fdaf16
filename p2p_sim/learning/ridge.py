"""Ridge regression on released numbers, and its squared loss. Metrics alone may look at true labels."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError
from p2p_sim.learning.learner import Received, ValueLearner
from p2p_sim.mechanisms import Predictor, ValueLaw
from p2p_sim.population import Examples, FiniteLaw, People, Population

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


class RidgeConfig(ValueLearner):
    """Ridge regression with squared loss, for labels that are numbers.

    Unless `l2` is given, the model is the posterior mean if coefficients of standardised features are normal and
    explain a variance of (span/4)² together, and numbers have the variance (span/4)² and that of the public noise
    around them; span is the width of the public range.
    """

    kind: Literal["ridge"] = "ridge"
    depends_on_scale: ClassVar[bool] = False
    l2: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Penalty on squared coefficients of standardised features, at least 0; absent: d (1 + noise variance / (span/4)²)
    for d features."""
    cluster_means: bool = False
    """Learn from the mean features of each cluster, for releases whose numbers are those of random users of a
    cluster; without privacy the users' own features are learned from."""

    @property
    def knows_clusters(self) -> bool:
        return self.cluster_means

    def fit_values(self, features: NDArray[np.floating], numbers: Floats, grid: tuple[float, ...]) -> Predictor:
        return self._fitted(features, numbers, features.std(axis=0), np.array(grid), 0.0)

    def learn(self, received: Received) -> Predictor:
        """Learn from released numbers whose law is public."""
        law = received.values
        if law is None:
            raise InputError(f"learner.kind = {self.kind!r}: needs numbers whose law the mechanism publishes")
        rows = received.rows
        if self.cluster_means:  # of those whose submissions arrived
            starts, sizes = received.cluster_offsets[:-1], np.diff(received.cluster_offsets)
            sums = np.add.reduceat(received.features.astype(np.float64, copy=False), starts, axis=0)
            rows = (sums / sizes[:, None])[received.cluster]
        numbers = received.release.payload.astype(np.float64, copy=False)
        return self._fitted(rows, numbers, received.features.std(axis=0), law.values, law.variance)

    def _fitted(self, rows: NDArray[np.floating], numbers: Floats, scale: Floats, grid: Floats, noise: float
                ) -> LinearValues:  # fmt: skip
        """The model of rows (m, d) and numbers (m,); scale: (d,) of the features; noise: variance of a number."""
        quarter, d = (grid[-1] - grid[0]) / 4.0, rows.shape[1]
        if not len(numbers):
            return LinearValues(np.zeros(d), np.zeros(d), float(grid[0] + grid[-1]) / 2.0, grid)
        scale = np.where(scale > 0, scale, 1.0)
        middle = rows.mean(axis=0, dtype=np.float64)
        X, y = (rows - middle) / scale, numbers - numbers.mean()
        penalty = d * (1.0 + noise / quarter**2) if self.l2 is None else self.l2
        weights = np.linalg.lstsq(X.T @ X + penalty * np.eye(d), X.T @ y, rcond=None)[0]
        return LinearValues(weights / scale, middle, float(numbers.mean()), grid)


FIGURES = ("squared_error", "nonprivate_squared_error", "constant_squared_error", "value_spread")
"""Columns of a row that labels which are numbers add."""


def squared_risks(people: People, law: FiniteLaw, numbers: list[Floats]) -> tuple[list[float], float, float]:
    """Expected squared loss under the law: of predictions (P,) each, of the best affine function, of the best constant.

    Args:
        people: with labels that are numbers. law: of these. numbers: (P,) predictions at the points of the law.
    """
    mean, residual = means_of(people, law)
    best = affine(law.points, mean, law.mass)
    constant = np.full(len(mean), law.mass @ mean)
    excess = [float(law.mass @ (guess - mean) ** 2) for guess in (*numbers, best, constant)]
    return [each + residual for each in excess[:-2]], excess[-2] + residual, excess[-1] + residual


def value_figures(people: People, numbers: list[Floats]) -> dict[str, float | None]:
    """Squared errors and the spread of labels that are numbers, by their columns in a row.

    Args:
        people: with labels that are numbers. numbers: predictions at the points of the law, or of the rows held out; of
            the learned model, and of the one without privacy if there is one.
    """
    if people.law is not None:
        errors, _, constant = squared_risks(people, people.law, numbers)
    else:
        users, values = cast(Population, people), np.array(people.values)
        held = cast(Examples, users.holdout)  # rows are held out where no law is known
        target = values[held.labels] if held.target is None else held.target
        middle = np.full(len(target), values[users.labels].mean())
        *errors, constant = (float(np.mean((guess - target) ** 2)) for guess in (*numbers, middle))
    return dict(
        zip(FIGURES, (errors[0], errors[1] if len(errors) > 1 else None, constant, spread(people)), strict=True)
    )


def spread(people: People) -> float:
    """Standard deviation of a label's mean f(x) within clusters: the heterogeneity of labels that are numbers.

    Exact where p(y|x) is known. Elsewhere it is that of labels within clusters, whose square is an unbiased estimate of
    a number that is at least the square of the former: it is for the experimenter, and not private.
    """
    values, law = np.array(people.values), people.law
    if law is not None and people.law_clusters:
        mean, mass, cluster = law.label_distribution @ values, law.mass, law.cluster
    else:
        users = cast(Population, people)
        cluster = np.repeat(np.arange(len(users.cluster_sizes)), users.cluster_sizes)
        mass = np.full(users.num_users, 1.0 / users.num_users)
        if law is not None and users.point is not None:
            mean = law.label_distribution[users.point] @ values
        else:
            mean, sizes = values[users.labels], users.cluster_sizes[cluster]
            mass = mass * sizes / np.maximum(sizes - 1, 1)  # the unbiased variance within a cluster
    # standard deviation around each cluster's weighted mean
    weight = np.bincount(cluster, weights=mass)
    centre = np.bincount(cluster, weights=mass * mean) / np.where(weight > 0, weight, 1.0)
    return math.sqrt(float(mass @ (mean - centre[cluster]) ** 2))


def value_floor(people: People, law: ValueLaw | None) -> float | None:
    """Excess risk of the best affine function of a user's features for the mean numbers of her cluster, exactly.

    It is what infinitely many exchanged numbers leave to a learner who takes those of a cluster for the user's own;
    None if no law is known, or if numbers are the users' own.
    """
    if law is None or law.source != "cluster" or people.law is None or not people.law_clusters:
        return None
    finite = people.law
    numbers = finite.label_distribution @ law.means
    weight = np.bincount(finite.cluster, weights=finite.mass)
    centre = np.bincount(finite.cluster, weights=finite.mass * numbers) / np.where(weight > 0, weight, 1.0)
    reached = affine(finite.points, centre[finite.cluster], finite.mass)
    (risk,), best, _ = squared_risks(people, finite, [reached])
    return max(0.0, risk - best)


def means_of(people: People, law: FiniteLaw) -> tuple[Floats, float]:
    """f(x) = E[y|x] at every point (P,), and the mean variance of a label around it."""
    values = np.array(people.values)
    mean = law.label_distribution @ values
    return mean, float(law.mass @ (law.label_distribution @ values**2 - mean**2))


def affine(points: Floats, target: Floats, mass: Floats) -> Floats:
    """Values (P,) of the affine function of the points (P, d) that is nearest to the target (P,), weighted by mass."""
    X, root = np.column_stack([np.ones(len(points)), points]), np.sqrt(mass)
    weights = np.linalg.lstsq(X * root[:, None], target * root, rcond=None)[0]
    return np.asarray(X @ weights)
