"""Ridge regression on released numbers, and measures of squared loss. Only these measures may look at true labels."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError
from p2p_sim.learning.learner import Floats, Received, ValueLearner
from p2p_sim.measures import cluster_means
from p2p_sim.mechanisms import Predictor, ValueLaw
from p2p_sim.population import Examples, FiniteLaw, People, Population


@dataclass(frozen=True, eq=False)
class LinearValues:
    """A predictor of numbers: intercept + weights · (features - middle).

    weights: (d,). middle: (d,). grid: (K,) the values that a label can have.
    """

    weights: Floats
    middle: Floats
    intercept: float
    grid: Floats

    def numbers(self, features: NDArray[np.floating]) -> Floats:
        """Predicted numbers (n,) of the features (n, d)."""
        return np.asarray(self.intercept + (features - self.middle) @ self.weights)

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Probabilities (n, K) of the K grid values: 1 for the (first) value nearest to the predicted number."""
        nearest = np.abs(self.numbers(features)[:, None] - self.grid).argmin(axis=1)
        return np.asarray(np.eye(len(self.grid))[nearest])


class RidgeConfig(ValueLearner):
    """Ridge regression with squared loss, for labels that are numbers.

    If `l2` is absent, the model is a posterior mean under two assumptions. In both, span is the width of the public
    range. The coefficients of standardised features are normal, and together explain a variance of (span/4)². A
    released number is a linear function plus a normal error of variance (span/4)² + noise variance.
    """

    kind: Literal["ridge"] = "ridge"
    depends_on_scale: ClassVar[bool] = False
    l2: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Penalty on squared coefficients of standardised features, at least 0; absent: d (1 + noise variance / (span/4)²)
    for d features and the width span of the public range."""
    cluster_means: bool = False
    """Learn from the mean features of each cluster; for releases that carry numbers of random users of a cluster. The
    model without privacy still learns from the users' own features.
    """

    @property
    def knows_clusters(self) -> bool:
        return self.cluster_means

    def fit_values(self, features: NDArray[np.floating], numbers: Floats, grid: tuple[float, ...]) -> Predictor:
        return self._fitted(features, numbers, features.std(axis=0), np.array(grid), 0.0)

    def learn(self, received: Received) -> Predictor:
        """The linear predictor of numbers, learned by ridge regression from released numbers. If `cluster_means` is
        set, each number is related to the mean features of its cluster. Otherwise it is related to the submitting
        user's own features.

        Args:
            received: the numbers that arrived, and the features and clusters of all users. It also has the public
            probabilities of a released number given the true value.

        Raises:
            InputError: these probabilities are not public.
        """
        law = received.values
        if law is None:
            raise InputError(f"learner.kind = {self.kind!r}: needs numbers whose law the mechanism publishes")
        rows = received.rows
        if self.cluster_means:  # for each number, the mean features of all users of its cluster
            starts, sizes = received.cluster_offsets[:-1], np.diff(received.cluster_offsets)
            sums = np.add.reduceat(received.features.astype(np.float64, copy=False), starts, axis=0)
            rows = (sums / sizes[:, None])[received.cluster]
        numbers = received.release.payload.astype(np.float64, copy=False)
        return self._fitted(rows, numbers, received.features.std(axis=0), law.values, law.variance)

    def _fitted(self, rows: NDArray[np.floating], numbers: Floats, scale: Floats, grid: Floats, noise: float
                ) -> LinearValues:  # fmt: skip
        """The ridge regression learned from features and released numbers. Without any number, it predicts the middle
        of the grid.

        Args:
            rows: (m, d) the features that belong to each number. numbers: (m,) the released numbers. scale: (d,)
            standard deviation of each feature among all users, by which the feature is divided; a constant feature has
            0 and is not divided. grid: (K,) label values, ascending; its ends are those of the public range. noise:
            variance of the public noise on a number, used if no penalty is configured.
        """
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
"""Columns that a result row has in addition if labels are numbers."""


def squared_risks(people: People, law: FiniteLaw, numbers: list[Floats]) -> tuple[list[float], float, float]:
    """The exact expected squared losses under a known law on P points. The first result is the list of the given
    predictors' losses. The second is the loss of the best affine function of the features, and the third the loss of
    the best constant.

    Args:
        people: users whose labels are numbers, with the grid of label values. law: law of features and labels, on P
        points (feature vectors). numbers: for each predictor, its predictions (P,) at these points.
    """
    # f(x) = E[y|x] at every point, and the mean variance of a label around it
    values = np.array(people.values)
    mean = law.label_distribution @ values
    residual = float(law.mass @ (law.label_distribution @ values**2 - mean**2))
    best = affine(law.points, mean, law.mass)
    constant = np.full(len(mean), law.mass @ mean)
    excess = [float(law.mass @ (guess - mean) ** 2) for guess in (*numbers, best, constant)]
    return [each + residual for each in excess[:-2]], excess[-2] + residual, excess[-1] + residual


def value_figures(people: People, numbers: list[Floats]) -> dict[str, float | None]:
    """Columns of a result row for labels that are numbers. Three are squared errors: squared_error of the private
    model, nonprivate_squared_error of the model without privacy, and constant_squared_error of a constant. Under a
    known law the errors are expectations, and the constant is the best one. Otherwise they are means over the held-out
    rows, and the constant is the users' mean label. The fourth column, value_spread, is the result of `spread`.

    Args:
        people: users whose labels are numbers. numbers: predictions at the law's points or for the held-out rows, of
        the private model and then of the model without privacy. Without the second model, nonprivate_squared_error is
        None.
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
    """Standard deviation within clusters of E[y|x], the mean label given the features x, for labels that are numbers.
    The result is exact if p(y|x) is known. Otherwise it is the standard deviation of the labels within clusters; its
    square estimates an upper bound of the exact square without bias. The result is not private; it is for the
    experimenter only.
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
    return math.sqrt(float(mass @ (mean - cluster_means(mass, mean, cluster)) ** 2))


def value_floor(people: People, law: ValueLaw | None) -> float | None:
    """The exact excess squared loss that remains after infinitely many exchanged numbers. A user submits the number of
    a random user of her cluster, but the learner relates this number to her own features. So the learner finds the
    affine function that fits best to the clusters' mean numbers, not to the users' own numbers. The result is None if
    released numbers are the users' own. It is also None if the law of the data or its clusters are not known.

    Args:
        people: users whose labels are numbers. law: public probabilities of released numbers given true values; None:
        they are not known, and the result is None.
    """
    if law is None or law.source != "cluster" or people.law is None or not people.law_clusters:
        return None
    finite = people.law
    numbers = cluster_means(finite.mass, finite.label_distribution @ law.means, finite.cluster)
    (risk,), best, _ = squared_risks(people, finite, [affine(finite.points, numbers, finite.mass)])
    return max(0.0, risk - best)


def affine(points: Floats, target: Floats, mass: Floats) -> Floats:
    """The values (P,) of the affine function that fits best to a target at P points, by weighted least squares.

    Args:
        points: (P, d). target: (P,) the number to fit at each point. mass: (P,) the point's weight, such as its
        probability.
    """
    X, root = np.column_stack([np.ones(len(points)), points]), np.sqrt(mass)
    return np.asarray(X @ np.linalg.lstsq(X * root[:, None], target * root, rcond=None)[0])
