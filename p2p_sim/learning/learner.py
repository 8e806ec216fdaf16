"""The base of all learners. A learner makes a predictor from released labels, or from true labels for comparison."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Config, InputError, Streams
from p2p_sim.mechanisms import ByCluster, LabelRelease, NoiseLaw, Predictor, ReleaseKind, ValueLaw
from p2p_sim.population import FiniteLaw

Loss = Literal["log", "zero_one", "squared"]
Floats = NDArray[np.float64]
VECTORS: tuple[ReleaseKind, ...] = ("bits", "hard", "soft")
"""Kinds of labels that can be used as vectors in [0, 1]^K: K bits, a class (hard), or class probabilities (soft)."""
SUMS: tuple[ReleaseKind, ...] = ("hard", "soft", "signed")
"""Kinds of labels in which the weights of the classes sum to 1. Signed weights may be negative."""


def one_hot(labels: NDArray[np.integer], num_classes: int) -> Floats:
    """Labels (m,) as weights (m, K): 1 for a row's label, 0 for all other classes."""
    return np.asarray(np.eye(num_classes)[labels])


def labels_in(weights: Floats) -> Floats:
    """The number of labels in each row of weights (m, K), as (m,). The weights of one label sum to 1, so the number is
    the rounded sum of the row.
    """
    return np.asarray(np.rint(weights.sum(axis=1)))


def labelled_rows(
    features: NDArray[np.floating], weights: Floats
) -> tuple[NDArray[np.floating], NDArray[np.uint8], Floats | None]:
    """A training set in which each row has one class: features (r, d), classes (r,), and weights (r,). If all weights
    are 1, None replaces the weights.

    A row of features is repeated for each class whose weight is not 0. The rows keep their order; the classes of a row
    ascend.

    Args:
        features: (m, d). weights: (m, K) weight of each class in each row, at least 0.
    """
    row, label = np.nonzero(weights)
    count = weights[row, label]
    once = len(row) == len(features) and bool((np.diff(row) == 1).all())
    return features if once else features[row], label.astype(np.uint8), None if (count == 1.0).all() else count


def normalised(scores: NDArray[np.floating]) -> Floats:
    """Scores (n, K), at least 0, divided by their row sums; a row of zeros becomes equal shares 1/K."""
    total = scores.sum(axis=1, keepdims=True, dtype=np.float64)
    even = np.full(scores.shape, 1.0 / scores.shape[1])
    return np.asarray(np.divide(scores, total, out=even, where=total > 0))


def probabilities_of(predictor: Predictor, features: NDArray[np.floating], cluster: NDArray[np.int64] | None) -> Floats:
    """Predicted class probabilities (m, K) of the features (m, d).

    Args:
        predictor: one for all rows, or one for each cluster (`ByCluster`). features: (m, d). cluster: (m,) cluster of
        each row; the cluster's predictor is used. None: not known; the mean of all clusters' predictors is used.
    """
    if isinstance(predictor, ByCluster) and cluster is not None:
        return predictor.within(features, cluster)
    return predictor.probabilities(features)


@dataclass(frozen=True, eq=False)
class Received:
    """What a learner has: the released labels that arrived, and the public features.

    features: (n, d) of all users. release: the labels that arrived. num_classes: K. cluster_offsets: (C+1,); cluster c
    holds users cluster_offsets[c]..cluster_offsets[c+1]-1. noise: public probabilities of each released hard label
    given the true label, for learners with `uses_noise_law`. values: public probabilities of each released number given
    the true number.
    """

    features: NDArray[np.floating]
    release: LabelRelease
    num_classes: int
    cluster_offsets: NDArray[np.int64]
    noise: NoiseLaw | None = None
    values: ValueLaw | None = None

    @property
    def rows(self) -> NDArray[np.floating]:
        """Features (m, d) of the users whose labels arrived, in the order of the labels."""
        user = self.release.user
        return self.features if len(user) == len(self.features) else self.features[user]

    @property
    def weights(self) -> Floats:
        """Weights (m, K) of the K classes in each of m released labels. A hard label gives weight 1 to its class and 0
        to the others. A label of K noisy bits gives weight 1 to each class whose bit is 1. The K entries of a soft or
        signed label are the weights themselves.
        """
        payload = self.release.payload
        if self.release.kind == "hard":
            return one_hot(payload.astype(np.uint8), self.num_classes)
        if self.release.kind == "bits":
            payload = np.unpackbits(payload.astype(np.uint8), axis=1, count=self.num_classes)
        return payload.astype(np.float64)

    @property
    def cluster(self) -> NDArray[np.int64]:
        """The cluster, numbered from 0, of the user under whose name each of m released labels arrived, (m,)."""
        return np.searchsorted(self.cluster_offsets, self.release.user, side="right") - 1

    def law(self, learner: str) -> NoiseLaw:
        """The public probabilities of each released hard label given the true label. A learner can use these
        probabilities to correct for the noise. The probabilities are K x K matrices, with a row for each true label and
        a column for each released label. All labels have one such matrix, or each group of labels has its own. The
        law also says whose label is released: the user's own, or the label of a random user of her cluster.

        Args:
            learner: kind of the learner, for the error message only.

        Raises:
            InputError: the mechanism publishes no such probabilities.
        """
        if self.noise is None:
            raise InputError(
                f"learner.kind = {learner!r}: needs hard labels whose noise law is public, which the mechanism does "
                "not release; 'logistic_regression' needs no law"
            )
        return self.noise


@dataclass(frozen=True, eq=False)
class Counted:
    """The number of hard labels of each class at each of P points of a known law of features and labels.

    rows: (P, d) features of the points. counts: (P, K) number of labels of each class. cluster: (P,) cluster of each
    point.
    """

    rows: Floats
    counts: NDArray[np.int64]
    cluster: NDArray[np.int64]

    @property
    def weights(self) -> Floats:
        """The counts (P, K) as floating-point weights for a fit."""
        return self.counts.astype(np.float64)

    @staticmethod
    def of(law: FiniteLaw, counts: NDArray[np.int64]) -> "Counted":
        """The numbers of labels, `counts` (P, K), at a law's P points. Points without labels are left out."""
        occupied = counts.any(axis=1)
        return Counted(law.points[occupied], counts[occupied], law.cluster[occupied])


class Learner(Config):
    """The base of all learners; a learner must define only `fit`.

    accepts: kinds of labels that the learner can use. loss: the loss that measures the learner's excess risk.
    takes_counts: whether one row of weights may stand for several labels; then the labels at each point of a known law
    can be counted and given as one row. uses_noise_law: whether `learn` needs the public law of the labels' noise.
    has_reference: whether the learner also learns from the true labels, for the results without privacy.
    """

    kind: str
    takes_counts: ClassVar[bool] = False
    uses_noise_law: ClassVar[bool] = False
    has_reference: ClassVar[bool] = True
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard",)
    loss: ClassVar[Loss] = "log"

    @property
    def depends_on_scale(self) -> bool:
        """Whether the predictor depends on the scales of the features; True by default."""
        return True

    def check_installed(self) -> None:
        """Raise InputError if a library that the learner needs is missing. By default a learner needs none."""

    def seeded(self, streams: Streams) -> Self:
        """The learner itself, or a copy with a seed if the learner needs a seed and has none. The learner of the base
        class needs none.

        Args:
            streams: the random numbers of the replicate (one repetition of a scenario), from which the seed is drawn.
        """
        return self

    @abstractmethod
    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from features and labels. The results without privacy come from a call with the true
        labels.

        Args:
            features: (m, d). weights: (m, K) weights of the K classes in each label; a hard label has weight 1 for its
            class.
        """

    def learn(self, received: Received) -> Predictor:
        """The predictor learned from a release. Learners that need more than features and weights override `learn`."""
        return self.fit(received.rows, received.weights)

    def learn_counts(self, received: Counted) -> Predictor:
        """The predictor learned from the number of released hard labels of each class at finitely many points. Runs
        that are too large to keep single labels call this method instead of `learn`. Only learners with takes_counts
        support it.

        Args:
            received: features (P, d) of P points, and counts (P, K) of the K classes there.
        """
        return self.fit(received.rows, received.weights)


class ValueLearner(Learner):
    """The base of learners for labels that are numbers, with squared loss."""

    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("values",)
    loss: ClassVar[Loss] = "squared"

    @property
    def knows_clusters(self) -> bool:
        """Whether the learner treats a released number as the number of a random user of the cluster. Such a learner
        relates the number to the mean features of the cluster's users. Otherwise it uses the features of the user who
        submitted the number. False by default.
        """
        return False

    @abstractmethod
    def fit_values(self, features: NDArray[np.floating], numbers: Floats, grid: tuple[float, ...]
                   ) -> Predictor:  # fmt: skip
        """The predictor learned from true numbers, without privacy.

        Args:
            features: (m, d). numbers: (m,) the true numbers; each number is a value in `grid`, not an index. grid: the
            K public values that a label can have, ascending.
        """

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned from weights (m, K) of classes. The classes count as the numbers 0 to K-1."""
        grid = tuple(map(float, range(weights.shape[1])))
        return self.fit_values(features, weights @ np.array(grid), grid)
