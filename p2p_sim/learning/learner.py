"""What every learner is: from a release, or from true labels for comparison, to a predictor."""

from abc import abstractmethod
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.config import Config
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.outcome import LabelRelease, Predictor, ReleaseKind

Loss = Literal["log", "zero_one"]


class Learner(Config):
    """The base of all learners; `accepts`: releases that it can learn from; `loss`: the loss of its excess risk."""

    kind: str
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard",)
    loss: ClassVar[Loss] = "log"

    @property
    def has_reference(self) -> bool:
        """Whether the learner also learns from the true labels, for the columns without privacy."""
        return True

    def check_installed(self) -> None:
        """Refuse the run if a library is missing; by default no additional library is needed."""

    def seeded(self, streams: Streams) -> Self:
        """The learner with a replicate's random numbers, if it needs any; they do not depend on the mechanism."""
        return self

    @abstractmethod
    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""

    @abstractmethod
    def fit_release(
        self,
        features: NDArray[np.floating],
        release: LabelRelease,
        num_classes: int,
        cluster_offsets: NDArray[np.int64],
    ) -> Predictor:
        """Learn from a release.

        Args:
            features: (n, d) public features of all users. release: what arrived. num_classes: K.
            cluster_offsets: (C+1,); cluster c holds users offsets[c]..offsets[c+1]-1.
        """
