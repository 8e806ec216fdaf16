"""The attack on a curator who resamples: sound where the mechanism is, and proof that Theorem 1 prints too small an ε.

Each test fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

import dataclasses
import time

import numpy as np
import pytest

from analysis.privacy.centralised import ClusterResampling
from p2p_sim.config import InputError
from p2p_sim.curator_audit import audit_curator, best_cluster_size, plan_event
from p2p_sim.mechanisms.cluster_rr import ClusterResponse


def attacked(
    privacy: ClusterResampling, trials: int, noise_scale: float | None = None, resampling: float | None = None
):
    """The audit of a mechanism that claims to be `privacy`, with other noise if it is given."""
    response = ClusterResponse(
        privacy.resampling_prob if resampling is None else resampling,
        privacy.noise_scale if noise_scale is None else noise_scale,
        privacy.threshold,
        privacy.resampling_prob,
        privacy.num_classes,
    )
    return audit_curator(response.draw, privacy, trials, seed=5)


@pytest.mark.parametrize(
    ("size", "classes", "lam", "sigma", "tau"),
    [(4, 3, 0.9, 1.0, 0.25), (10, 3, 0.9, 2.0, 0.2), (8, 4, 0.95, 1.0, 0.125), (20, 10, 0.99, 0.5, 0.05)],
)
def test_the_true_epsilon_holds_and_the_printed_one_is_refuted(size, classes, lam, sigma, tau):
    """Detects a true ε too small by more than a tenth of 1/σ or so; the printed one is by 1/σ."""
    done = audited = attacked(ClusterResampling(size, classes, lam, sigma, tau, True), 100_000)
    assert done.passed
    assert audited.paper_refuted
    assert done.epsilon_lower_confidence == pytest.approx(done.expected, abs=0.15)
