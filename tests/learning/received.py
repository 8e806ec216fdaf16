"""What a learner receives, for tests."""

import numpy as np

from p2p_sim.learning.learner import Received


def received(features, release, num_classes, cluster_offsets=None) -> Received:
    """A release with its features; without clusters all users are one."""
    offsets = np.array([0, len(features)]) if cluster_offsets is None else cluster_offsets
    return Received(features, release, num_classes, offsets)
