"""The ranges that every bound shares, each refused in one line."""

import math

from p2p_sim.privacy.binomial_windows import LEAST

LARGEST_CLUSTER = 10_000_000
LARGEST_EPSILON = 700.0
"""Above ε₀ of every α of at least 1e-300."""


def check_cluster_size(cluster_size: int, least: int = 2, largest: int = LARGEST_CLUSTER) -> None:
    """Raise unless n is a whole number in this range."""
    if not isinstance(cluster_size, int) or not least <= cluster_size <= largest:
        raise ValueError(f"cluster_size = {cluster_size}: must be a whole number from {least} to {largest:,}")


def check_flip_prob(flip_prob: float, num_classes: int = 2, least: float = 0.0) -> None:
    """Raise unless α is 0 or lies in [least, (K-1)/K]."""
    largest = (num_classes - 1) / num_classes
    if flip_prob == 0.0 or least <= flip_prob <= largest:
        return
    span = f"lie in [0, {largest:g}]" if least == 0.0 else f"be 0, or lie in [{least:g}, {largest:g}]"
    raise ValueError(f"flip_prob = {flip_prob}: must {span}")


def check_sampling_rate(sampling_rate: float) -> None:
    """Raise unless θ lies in [1e-300, 1]."""
    if not LEAST <= sampling_rate <= 1.0:
        raise ValueError(f"sampling_rate = {sampling_rate}: must lie in [{LEAST:g}, 1]")


def check_epsilon(epsilon: float) -> None:
    """Raise unless ε is a number of at least 0."""
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon = {epsilon}: must be at least 0")


def check_positive_epsilon(epsilon: float) -> None:
    """Raise unless ε, of a noise scale or a target, is above 0 and finite."""
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon = {epsilon}: must be above 0 and finite")


def check_delta(delta: float) -> None:
    """Raise unless δ lies strictly between 0 and 1."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta = {delta}: must lie in (0, 1)")
