"""Temporary."""

import math
from dataclasses import dataclass

from analysis.privacy.bound import PrivacyBound


@dataclass(frozen=True)
class ClusterResampling:
    cluster_size: int
    num_classes: int
    resampling_prob: float
    noise_scale: float
    threshold: float
    released: bool

    @property
    def pure_epsilon(self) -> float:
        lam, tau = self.resampling_prob, self.threshold
        second = 0.0 if lam == 1.0 else math.inf if lam * tau == 0.0 else math.log1p((1 - lam) / (lam * tau))
        return 2.0 / self.noise_scale + second

    @property
    def epsilon_paper(self) -> float:
        return self.pure_epsilon - 1.0 / self.noise_scale

    def epsilon(self, delta: float) -> PrivacyBound:
        return PrivacyBound(0.0, self.pure_epsilon, delta, "learner", "label", "pure", ())
