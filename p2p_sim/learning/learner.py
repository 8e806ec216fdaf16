"""What every learner is: from a release, or from true labels for comparison, to a predictor."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Config, InputError, Streams
from p2p_sim.mechanisms import ByCluster, LabelRelease, NoiseLaw, Predictor, ReleaseKind, ValueLaw
from p2p_sim.population import FiniteLaw

Loss = Literal["log", "zero_one", "squared"]
VECTORS: tuple[ReleaseKind, ...] = ("bits", "hard", "soft")
"""Kinds of labels that can be seen as vectors in [0, 1]^K."""
SUMS: tuple[ReleaseKind, ...] = ("hard", "soft", "signed")
"""Kinds of labels whose weights sum to 1."""


def one_hot(labels: NDArray[np.integer], num_classes: int) -> NDArray[np.float64]:
    """Labels (m,) as weights (m, K): 1 for a row's label, 0 for all other classes."""
    return np.asarray(np.eye(num_classes)[labels])


def labels_in(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many labels each row of weights (m, K) is the sum of, (m,); the weights of a label sum to 1."""
    return np.asarray(np.rint(weights.sum(axis=1)))


def labelled_rows(
    features: NDArray[np.floating], weights: NDArray[np.float64]
) -> tuple[NDArray[np.floating], NDArray[np.uint8], NDArray[np.float64] | None]:
    """A row of features for each class with a weight, its class (r,), and its weight (r,); None if each is 1.

    Args:
        features: (m, d). weights: (m, K), none negative.
    """
    row, label = np.nonzero(weights)
    count = weights[row, label]
    once = len(row) == len(features) and bool((np.diff(row) == 1).all())
    return features if once else features[row], label.astype(np.uint8), None if (count == 1.0).all() else count


def normalised(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Scores (n, K), none negative, over their row sums; equal shares where all are 0. The order is kept."""
    total = scores.sum(axis=1, keepdims=True, dtype=np.float64)
    even = np.full(scores.shape, 1.0 / scores.shape[1])
    return np.asarray(np.divide(scores, total, out=even, where=total > 0))


def probabilities_of(
    predictor: Predictor, features: NDArray[np.floating], cluster: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Predicted class probabilities (m, K); of predictors of clusters, each for its own rows where `cluster` (m,) says
    whose they are."""
    if isinstance(predictor, ByCluster) and cluster is not None:
        return predictor.within(features, cluster)
    return predictor.probabilities(features)


@dataclass(frozen=True, eq=False)
class Received:
    """What the learner has: the released labels that arrived, and the public features.

    features: (n, d) public features of all users. release: what arrived. num_classes: K.
    cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
    noise: public law of the released labels, for learners with `uses_noise_law`. values: that of released numbers.
    """

    features: NDArray[np.floating]
    release: LabelRelease
    num_classes: int
    cluster_offsets: NDArray[np.int64]
    noise: NoiseLaw | None = None
    values: ValueLaw | None = None

    @property
    def rows(self) -> NDArray[np.floating]:
        """(m, d) features of those whose submissions arrived."""
        user = self.release.user
        return self.features if len(user) == len(self.features) else self.features[user]

    @property
    def weights(self) -> NDArray[np.float64]:
        """(m, K) the weight of each class in each label: 1 for that of a hard label and for a bit that is set."""
        payload = self.release.payload
        if self.release.kind == "hard":
            return one_hot(payload.astype(np.uint8), self.num_classes)
        if self.release.kind == "bits":
            payload = np.unpackbits(payload.astype(np.uint8), axis=1, count=self.num_classes)
        return payload.astype(np.float64)

    @property
    def cluster(self) -> NDArray[np.int64]:
        """(m,) the cluster of those whose submissions arrived."""
        return np.searchsorted(self.cluster_offsets, self.release.user, side="right") - 1

    def law(self, learner: str) -> NoiseLaw:
        """The noise law, for a learner of that kind.

        Raises:
            InputError: the mechanism publishes none.
        """
        if self.noise is None:
            raise InputError(
                f"learner.kind = {learner!r}: needs hard labels whose noise law is public, which the mechanism does "
                "not release; 'logistic_regression' needs no law"
            )
        return self.noise


@dataclass(frozen=True, eq=False)
class Counted:
    """Hard labels at the points of a known law, counted.

    rows: (P, d) the points. counts: (P, K) labels of each class. cluster: (P,) of each point.
    """

    rows: NDArray[np.float64]
    counts: NDArray[np.int64]
    cluster: NDArray[np.int64]

    @property
    def weights(self) -> NDArray[np.float64]:
        """The counts (P, K) of labels of each class at each point, as weights of a fit."""
        return self.counts.astype(np.float64)

    @staticmethod
    def of(law: FiniteLaw, counts: NDArray[np.int64]) -> "Counted":
        """Counts (P, K) at the points of a law; points without labels are left out."""
        occupied = counts.any(axis=1)
        return Counted(law.points[occupied], counts[occupied], law.cluster[occupied])


class Learner(Config):
    """The base of all learners: `fit` is all that one must define.

    accepts: releases that it can learn from. loss: the loss of its excess risk.
    takes_counts: whether several labels may share a row of weights, so that labels at the points of a known law can be
    counted. uses_noise_law: whether `learn` needs the public law of the labels' noise. has_reference: whether the
    learner also learns from the true labels, for the columns without privacy.
    """

    kind: str
    takes_counts: ClassVar[bool] = False
    uses_noise_law: ClassVar[bool] = False
    has_reference: ClassVar[bool] = True
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard",)
    loss: ClassVar[Loss] = "log"

    @property
    def depends_on_scale(self) -> bool:
        """Whether what is learned depends on the scales of the features; True unless a learner says otherwise."""
        return True

    def check_installed(self) -> None:
        """Refuse the run if a library is missing; by default no additional library is needed."""

    def seeded(self, streams: Streams) -> Self:
        """The learner with a replicate's random numbers, if it needs any; they do not depend on the mechanism."""
        return self

    @abstractmethod
    def fit(self, features: NDArray[np.floating], weights: NDArray[np.float64]) -> Predictor:
        """Learn from features (m, d) and the weights (m, K) of the classes in each label; a hard label has a single 1.

        The columns without privacy learn so from true labels.
        """

    def learn(self, received: Received) -> Predictor:
        """Learn from a release; a learner that needs more of it than features and weights defines this, too."""
        return self.fit(received.rows, received.weights)

    def learn_counts(self, received: Counted) -> Predictor:
        """Learn from a release of hard labels, counted; of learners with `takes_counts`."""
        return self.fit(received.rows, received.weights)


class ValueLearner(Learner):
    """The base of learners of labels that are numbers, with squared loss."""

    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("values",)
    loss: ClassVar[Loss] = "squared"

    @property
    def knows_clusters(self) -> bool:
        """Whether a cluster's labels are learned as the cluster's, and not as each user's own."""
        return False

    @abstractmethod
    def fit_values(self, features: NDArray[np.floating], numbers: NDArray[np.float64], grid: tuple[float, ...]
                   ) -> Predictor:  # fmt: skip
        """Learn from features (m, d) and true numbers (m,) of the public grid (K,), without privacy."""

    def fit(self, features: NDArray[np.floating], weights: NDArray[np.float64]) -> Predictor:
        """Learn from weights (m, K) of classes, which are taken for the numbers 0 to K-1."""
        grid = tuple(map(float, range(weights.shape[1])))
        return self.fit_values(features, weights @ np.array(grid), grid)
