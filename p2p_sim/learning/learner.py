"""What every learner is: from a release, or from true labels for comparison, to a predictor."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.noise_law import NoiseLaw, ValueLaw
from p2p_sim.mechanisms.outcome import LabelRelease, Predictor, ReleaseKind
from p2p_sim.population.population import FiniteLaw

Loss = Literal["log", "zero_one", "squared"]


@dataclass(frozen=True, eq=False)
class Received:
    """What a learner learns from.

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
        return self.features[self.release.user]

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

    points: (P, d). counts: (P, K) labels of each class. cluster: (P,) of each point.
    """

    points: NDArray[np.float64]
    counts: NDArray[np.int64]
    cluster: NDArray[np.int64]

    @property
    def num_classes(self) -> int:
        """K."""
        return int(self.counts.shape[1])

    @staticmethod
    def of(law: FiniteLaw, counts: NDArray[np.int64]) -> "Counted":
        """Counts (P, K) at the points of a law; points without labels are left out."""
        seen = counts.any(axis=1)
        return Counted(law.points[seen], counts[seen], law.cluster[seen])

    @property
    def lines(self) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
        """Each point with each of its labels: features (m, d), labels (m,) and how many there are (m,)."""
        point, label = np.nonzero(self.counts)
        return self.points[point], label, self.counts[point, label].astype(np.float64)


class Learner(Config):
    """The base of all learners; `accepts`: releases that it can learn from; `loss`: the loss of its excess risk.

    takes_counts: whether it learns hard labels at the points of a known law from their counts (`Counted`).
    uses_noise_law: whether `learned` needs the public law of the labels' noise in `Received.noise`.
    """

    kind: str
    takes_counts: ClassVar[bool] = False
    uses_noise_law: ClassVar[bool] = False
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard",)
    loss: ClassVar[Loss] = "log"

    @property
    def has_reference(self) -> bool:
        """Whether the learner also learns from the true labels, for the columns without privacy."""
        return True

    @property
    def depends_on_scale(self) -> bool:
        """Whether what is learned depends on the scales of the features; taken for granted if nothing else is said."""
        return True

    @property
    def knows_clusters(self) -> bool:
        """Whether a learner of numbers learns from clusters as such, and does not take their labels for users' own."""
        return False

    def check_installed(self) -> None:
        """Refuse the run if a library is missing; by default no additional library is needed."""

    def seeded(self, streams: Streams) -> Self:
        """The learner with a replicate's random numbers, if it needs any; they do not depend on the mechanism."""
        return self

    @abstractmethod
    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""

    def fit_counts(self, true: Counted) -> Predictor:
        """Learn from true labels without privacy, counted; of learners with `takes_counts`."""
        raise NotImplementedError(self.kind)

    def fit_values(self, features: NDArray[np.floating], labels: NDArray[np.float64], values: tuple[float, ...]
                   ) -> Predictor:  # fmt: skip
        """Learn from true labels (m,) that are numbers without privacy; of learners with the squared loss.

        values: (K,) the public grid.
        """
        raise NotImplementedError(self.kind)

    def learned_counts(self, received: Counted) -> Predictor:
        """Learn from a release of hard labels, counted; of learners with `takes_counts`."""
        return self.fit_counts(received)

    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""
        r = received
        return self.fit_release(r.features, r.release, r.num_classes, r.cluster_offsets)

    @abstractmethod
    def fit_release(
        self,
        features: NDArray[np.floating],
        release: LabelRelease,
        num_classes: int,
        cluster_offsets: NDArray[np.int64],
    ) -> Predictor:
        """Learn from the parts of a `Received`: what a plug-in defines.

        Args:
            features: (n, d) public features of all users. release: what arrived. num_classes: K.
            cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
        """


class OwnLearner(Learner):
    """The base of the simulator's own learners, which take a `Received` whole."""

    @abstractmethod
    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""

    def fit_release(
        self,
        features: NDArray[np.floating],
        release: LabelRelease,
        num_classes: int,
        cluster_offsets: NDArray[np.int64] | None = None,
    ) -> Predictor:
        """Learn from the parts of a `Received`; without clusters all users are one."""
        offsets = np.array([0, len(features)]) if cluster_offsets is None else cluster_offsets
        return self.learned(Received(features, release, num_classes, offsets))
