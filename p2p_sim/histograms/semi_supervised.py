"""Private semi-supervised learning. Unlabelled examples give a density estimate, and labelled examples choose a
classifier from a finite net. A net is a finite list of classifiers that stands for a whole class of classifiers.
"""

import math
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from p2p_sim.base import InputError, Streams
from p2p_sim.histograms.cell_estimator import check_labels, check_parameters, check_points
from p2p_sim.histograms.densities import PCDE
from p2p_sim.histograms.partitions import Floats
from p2p_sim.privacy import PrivacyBound
from p2p_sim.privacy.rivals import choice_epsilon, disjoint


class Net(Protocol):
    """A finite list of classifiers."""

    def errors(self, points: Floats, labels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The number of examples that each classifier of the list gets wrong, as a vector.

        Args:
            points: (n, d). labels: (n,) 0 or 1.
        """
        ...

    def predict(self, chosen: int, points: Floats) -> NDArray[np.bool_]:
        """The label (n,) that classifier `chosen` (its index) gives to each of the points (n, d)."""
        ...


class Concepts(Protocol):
    """A class of classifiers, possibly infinite."""

    def net(self, points: Floats) -> Net:
        """A finite list of classifiers of this class. Every labelling of the points (m, d) that the class can produce
        is also produced by a classifier in the list. Only the labelling of all points with 0 may be missing.
        """
        ...


@dataclass(frozen=True)
class HalfSpaces:
    """Half-spaces {x: u·x >= t}. For d = 1 these are thresholds {x >= t}; for d = 2 the directions u are equally
    spaced.

    Args:
        directions: number of directions, 1 for d = 1, and at least 2 for d = 2. The first direction is the first axis.
    """

    directions: int = 1

    def net(self, points: Floats) -> "HalfSpaceNet":
        """A finite list of half-spaces {x: u·x >= t}. For each direction u, the list has at least one half-space for
        each way in which a threshold t splits the points.

        Args:
            points: (m, d), d = 1 or 2.

        Raises:
            InputError: d is above 2, or does not fit the number of directions.
        """
        if points.shape[1] > 2 or (points.shape[1] == 1) != (self.directions == 1):
            raise InputError(
                f"directions = {self.directions} with d = {points.shape[1]}: must be 1 if d = 1, more if d = 2"
            )
        angle = 2.0 * math.pi * np.arange(self.directions) / self.directions
        normals = np.stack([np.cos(angle), np.sin(angle)])[: points.shape[1]]
        return HalfSpaceNet(normals, _cuts(points @ normals))


@dataclass(frozen=True)
class HalfSpaceNet:
    """A finite net of half-spaces. Classifier i has the threshold in row i // D of `cuts` and the direction i % D.

    normals: (d, D) unit vectors, one for each of D directions. cuts: (C, D) C thresholds for each direction, ascending.
    """

    normals: Floats
    cuts: Floats

    def errors(self, points: Floats, labels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The number of points that each half-space of the net gets wrong, (C·D,). A half-space labels the points
        inside with 1 and all others with 0. Entry c·D + j belongs to threshold c in direction j.

        Args:
            points: (n, d). labels: (n,) 0 or 1.
        """
        at, signed = points @ self.normals, 1 - 2 * labels.astype(np.int64)
        columns = [_wrong_from(at[:, j], signed, self.cuts[:, j]) for j in range(at.shape[1])]
        return np.stack(columns, axis=1).ravel() + int(labels.sum())

    def predict(self, chosen: int, points: Floats) -> NDArray[np.bool_]:
        """Whether each of the points (n, d) lies in half-space `chosen` (its index)."""
        cut, direction = divmod(chosen, self.normals.shape[1])
        return np.asarray(points @ self.normals[:, direction] >= self.cuts[cut, direction])


@dataclass(frozen=True)
class Intervals:
    """Intervals {x: a <= x < b} on a line."""

    def net(self, points: Floats) -> "IntervalNet":
        """The net of the m(m+1)/2 intervals between any two of m + 1 cuts. The cuts are midway between neighbouring
        points (m, 1), and at -inf and inf. Without points there is one interval, the whole line.

        Raises:
            InputError: the points do not lie on a line (d is not 1).
        """
        if points.shape[1] != 1:
            raise InputError(f"intervals need points on a line, not in d = {points.shape[1]} dimensions")
        cuts = _cuts(points)[:, 0]
        return IntervalNet(cuts, *np.triu_indices(len(cuts), 1))


@dataclass(frozen=True)
class IntervalNet:
    """A finite net of intervals between cuts on a line.

    cuts: (C,) ascending. low, high: (C(C-1)/2,) indices of each interval's two cuts.
    """

    cuts: Floats
    low: NDArray[np.intp]
    high: NDArray[np.intp]

    def errors(self, points: Floats, labels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The number of points that each interval of the net gets wrong, (C(C-1)/2,) for C cuts. An interval labels the
        points inside with 1 and all others with 0. points: (n, 1) on the line. labels: (n,) 0 or 1.
        """
        beyond = _wrong_from(points[:, 0], 1 - 2 * labels.astype(np.int64), self.cuts)
        return np.asarray(beyond[self.low] - beyond[self.high] + int(labels.sum()))

    def predict(self, chosen: int, points: Floats) -> NDArray[np.bool_]:
        """Whether each of the points (n, 1) lies in interval `chosen` (its index)."""
        low, high = self.cuts[self.low[chosen]], self.cuts[self.high[chosen]]
        return np.asarray((points[:, 0] >= low) & (points[:, 0] < high))


def _cuts(at: Floats) -> Floats:
    """The midpoints between neighbouring values in each column of `at`, with -inf and inf at the ends: (m + 1, D). For
    m = 0 there are only the ends, (2, D).

    Args:
        at: (m, D); column j has the positions u·x of m points x along the j-th of D directions u.
    """
    ordered = np.sort(at, axis=0)
    ends = np.full((1, at.shape[1]), np.inf)
    return np.concatenate([-ends, 0.5 * (ordered[1:] + ordered[:-1]), ends])


def _wrong_from(at: Floats, signed: NDArray[np.int64], cuts: Floats) -> NDArray[np.int64]:
    """For each cut, the sum of `signed` over the examples whose value in `at` is at least the cut, (C,).

    Consider the classifier that gives label 1 to examples at or above the cut. If `signed` is 1 for label 0 and -1 for
    label 1, the classifier's errors are this sum plus the number of labels 1.

    Args:
        at: (n,) the value of each of n examples. signed: (n,) their signs. cuts: (C,).
    """
    order = np.argsort(at, kind="stable")
    running = np.concatenate([[0], np.cumsum(signed[order])])
    return np.asarray(running[-1] - running[np.searchsorted(at[order], cuts, side="left")])


@dataclass(eq=False, repr=False)
class SemiSupervised(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Private learner of a class of classifiers of finite VC dimension, from few labelled and many unlabelled examples
    (Bousquet et al. 2022, Theorem 4.11).

    First step: a private density (PCDE) is estimated from the unlabelled examples, at (ε, δ). Points drawn from the
    density reduce the class to a finite net. Second step: the exponential mechanism chooses from the net, at ε. A
    classifier's probability is proportional to exp(-ε errors / 2), where `errors` counts its errors on the labelled
    examples. Each example is (ε, δ)-protected if nobody is in both samples. Otherwise each example is (2ε,
    δ)-protected.

    Args:
        concepts: the class. epsilon: ε of each step, above 0. delta: δ of the density; None: n^-2 for n unlabelled
        examples. net_points: number m of points drawn from the density, at least 1; a net of `Intervals` has
        approximately m²/2 classifiers. random_state: seed of all noise.
    """

    concepts: Concepts = HalfSpaces()
    epsilon: float = 1.0
    delta: float | None = None
    net_points: int = 2000
    random_state: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, unlabelled: ArrayLike) -> Self:
        """Learn from labelled examples and from unlabelled points of other people, and return this object. Two equal
        samples are refused. For a person in both samples, the ε of both steps would add up.

        Args:
            X: (m, d) features of the labelled examples. y: (m,) labels of these examples, 0 or 1. unlabelled: (n, d)
            points.

        Raises:
            InputError: shapes, labels or parameters are out of range, or `unlabelled` equals X.
        """
        check_parameters(self)
        if self.net_points < 1:
            raise InputError(f"net_points = {self.net_points}: must be at least 1")
        points, others = check_points(X), check_points(unlabelled)
        if np.shares_memory(others, points) or np.array_equal(others, points):
            raise InputError("unlabelled: equals X; these points must come from other people, else ε adds up")
        return self.fit_disjoint(points, check_labels(y, len(points)), others)

    def fit_disjoint(self, points: Floats, labels: NDArray[np.uint8], others: Floats) -> Self:
        """Learn from two samples, and return this object. The caller must know that no person is in both samples; the
        samples may still contain equal rows.

        Unlike `fit`, this method does not refuse equal samples, because a refusal would reveal something about the
        rows.

        Args:
            points: (m, d) labelled examples. labels: (m,) their labels. others: (n, d) unlabelled points.
        """
        # a private density of the unlabelled points, and points drawn from it
        if others.shape[1] != points.shape[1]:
            raise InputError(f"unlabelled has {others.shape[1]} features, X has {points.shape[1]}")
        streams = Streams(self.random_state, 0)
        self.density_ = PCDE(self.epsilon, self.delta, random_state=self.random_state).fit(others)
        drawn = np.zeros((0, points.shape[1]))  # the net is made without points if no cell was released
        if len(self.density_.masses_):
            drawn = self.density_.sample(self.net_points, streams.generator("histogram net"))
        # a finite net with every labelling of the drawn points, and a private choice from this net
        self.net_ = self.concepts.net(drawn)
        errors = self.net_.errors(points, labels)
        law, rng = choice_law(errors, self.epsilon), streams.generator("histogram choice")
        self.chosen_ = int(rng.choice(len(errors), p=law))
        self.classes_, self.n_features_in_ = np.array([0, 1]), points.shape[1]
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """The class that the chosen classifier gives to each of the points X (n, d), as (n,)."""
        return self.net_.predict(self.chosen_, check_points(X, self.n_features_in_)).astype(np.int64)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The class probabilities of the points X (n, d), as (n, 2): 1 for the predicted class and 0 for the other."""
        label = self.predict(X).astype(np.float64)
        return np.column_stack([1.0 - label, label])

    def privacy(self) -> PrivacyBound:
        """The bound for density and classifier together. It holds if one example is replaced and nobody is in both
        samples.
        """
        return disjoint([self.density_.privacy(), choice_epsilon(self.epsilon)])


def choice_law(errors: NDArray[np.integer], epsilon: float) -> Floats:
    """The probability of each of H classifiers in the exponential mechanism, (H,), proportional to exp(-ε errors / 2).

    Args:
        errors: (H,) number of examples that each classifier gets wrong. epsilon: ε.
    """
    weight = np.exp(-0.5 * epsilon * (errors - errors.min()))
    return np.asarray(weight / weight.sum())
