"""What an audit of an exchange is held against: certified δ of one user of each cluster, in the network as it was."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.network_record import Capped, NetworkRecord
from p2p_sim.mechanisms.exchange_accounting import _Cluster, _clusters, _model
from p2p_sim.mechanisms.faulty_networks import NoiseAlone
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.overlays.realised_network import CappedFetch

Floats = NDArray[np.float64]


def target_deltas(shards: Sequence[NetworkRecord], noise: RandomizedResponse, epsilons: Sequence[float]) -> Floats:
    """Certified δ at each ε, cluster by cluster (C, J), of each cluster's first user; an audit is held against it."""
    return np.array([_target_deltas(cluster, noise, epsilons) for cluster in _clusters(shards)])


def _target_deltas(cluster: _Cluster, noise: RandomizedResponse, epsilons: Sequence[float]) -> list[float]:
    """δ at each ε of a cluster's first user; what bounds her is worked out once for all of them."""
    if cluster.constant[0]:
        return [0.0] * len(epsilons)
    if cluster.own[0]:
        return [NoiseAlone(noise, "").delta(epsilon).upper for epsilon in epsilons]
    if not (cluster.answers[0] or cluster.anything):
        return [0.0] * len(epsilons)
    if isinstance(cluster.law, Capped) and cluster.fetched.any():  # few distinct cases, at some loss
        caps = cluster.caps[cluster.fetched]
        case = (len(caps), float(caps.max()), int(cluster.known.sum()), noise.flip_prob)
        return [_capped_delta(*case, epsilon) for epsilon in epsilons]
    model = _model(cluster, noise)
    return [_kept_delta(model, epsilon) if model.cacheable else model.user_delta(0, epsilon) for epsilon in epsilons]


@lru_cache(maxsize=65_536)
def _kept_delta(model: Accountant, epsilon: float) -> float:
    return model.user_delta(0, epsilon)


@lru_cache(maxsize=65_536)
def _capped_delta(submissions: int, cap: float, known: int, flip_prob: float, epsilon: float) -> float:
    return CappedFetch(np.full(submissions, cap), flip_prob, min(1.0, known * cap)).delta(epsilon).upper
