"""Private semi-supervised learning: few labelled examples suffice where many unlabelled ones teach the density."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.histograms.cell_estimator import check_labels, check_parameters, check_points
from p2p_sim.histograms.concepts import Concepts, HalfSpaces
from p2p_sim.histograms.densities import PCDE
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.rivals.histograms import choice_epsilon, disjoint

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class SemiSupervised(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Private learner of a class of finite VC dimension (Theorem 4.11).

    PCDE of the unlabelled examples, (ε, δ), yields points; these cut the class down to a finite net, and the
    exponential mechanism chooses from it with probability proportional to exp(-ε errors / 2) on the labelled ones, ε.
    If nobody is in both samples, an example of either is (ε, δ)-protected; if somebody may be, (2ε, δ).

    Args:
        concepts: the class. epsilon: ε of each step, above 0. delta: δ of the density, by default n^-2 for n
        unlabelled. net_points: drawn from the density, at least 1; `Intervals` has about half their square of
        classifiers. random_state: seed of all noise.
    """

    concepts: Concepts = HalfSpaces()  # noqa: RUF009  (frozen)
    epsilon: float = 1.0
    delta: float | None = None
    net_points: int = 2000
    random_state: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, unlabelled: ArrayLike) -> Self:
        """Learn from labelled examples (m, d), (m,) and unlabelled points (n, d) of other people.

        Raises:
            InputError: shapes, labels or parameters are out of range.
        """
        check_parameters(self)
        if self.net_points < 1:
            raise InputError(f"net_points = {self.net_points}: must be at least 1")
        points, others = check_points(X), check_points(unlabelled)
        if np.shares_memory(others, points) or np.array_equal(others, points):
            raise InputError("unlabelled: are the labelled points; they must come from other people, else ε adds up")
        return self.fit_disjoint(points, check_labels(y, len(points)), others)

    def fit_disjoint(self, points: Floats, labels: NDArray[np.uint8], others: Floats) -> Self:
        """The same of samples with nobody in common, even if they hold equal rows: a refusal would tell of the rows."""
        if others.shape[1] != points.shape[1]:
            raise InputError(f"unlabelled has {others.shape[1]} features, X has {points.shape[1]}")
        streams = Streams(self.random_state, 0)
        self.density_ = PCDE(self.epsilon, self.delta, random_state=self.random_state).fit(others)
        drawn = np.zeros((0, points.shape[1]))  # no cell passed: all points are in one class, and none is refused
        if len(self.density_.masses_):
            drawn = self.density_.sample(self.net_points, streams.generator("histogram net"))
        self.net_ = self.concepts.net(drawn)
        errors = self.net_.errors(points, labels)
        self.chosen_ = int(choose(errors, self.epsilon, streams.generator("histogram choice")))
        self.classes_, self.n_features_in_ = np.array([0, 1]), points.shape[1]
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """What the chosen classifier says of the points (n, d)."""
        return self.net_.predict(self.chosen_, check_points(X, self.n_features_in_)).astype(np.int64)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The same as 0 and 1, (n, 2): the classes hold no probabilities."""
        said = self.predict(X).astype(np.float64)
        return np.column_stack([1.0 - said, said])

    def privacy(self) -> PrivacyBound:
        """What density and classifier say of one example, if nobody is in both samples."""
        return disjoint([self.density_.privacy(), choice_epsilon(self.epsilon)])


def choice_law(errors: NDArray[np.integer], epsilon: float) -> Floats:
    """Probability of each hypothesis under the exponential mechanism: proportional to exp(-ε errors / 2), (H,)."""
    weight = np.exp(-0.5 * epsilon * (errors - errors.min()))
    return np.asarray(weight / weight.sum())


def choose(errors: NDArray[np.integer], epsilon: float, rng: np.random.Generator) -> np.int64:
    """Index of one hypothesis drawn from `choice_law`."""
    return np.int64(rng.choice(len(errors), p=choice_law(errors, epsilon)))
