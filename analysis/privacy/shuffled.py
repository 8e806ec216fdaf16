"""Temporary: the bound for shuffled labels."""

from dataclasses import dataclass

from analysis.privacy.bound import Bracket, PrivacyBound
from analysis.privacy.kary import ShuffledLabels


@dataclass(frozen=True)
class ShuffledResponse:
    """Temporary."""

    cluster_size: int
    flip_prob: float
    num_classes: int = 2

    def delta(self, epsilon: float) -> Bracket:
        """Temporary."""
        return ShuffledLabels(self.cluster_size, self.flip_prob, 1.0, self.num_classes).delta(epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Temporary."""
        return ShuffledLabels(self.cluster_size, self.flip_prob, 1.0, self.num_classes).epsilon(delta)

    def satisfies(self, epsilon: float, delta: float) -> bool:
        """Temporary."""
        return self.delta(epsilon).upper <= delta
