"""How much more often a coalition guesses a label right, given the network as it turned out."""

from collections.abc import Sequence

import numpy as np

from p2p_sim.exchange.network_record import NetworkRecord
from p2p_sim.exchange.randomizer import Message
from p2p_sim.mechanisms.exchange_accounting import _clusters, _model
from p2p_sim.mechanisms.faulty_networks import NoiseAlone


def coalition_advantage(shards: Sequence[NetworkRecord], noise: Message, num_classes: int) -> dict[str, float]:
    """At most the coalition's advantage about any other user, if all labels are equally likely to it; by its column."""
    watched = [cluster for cluster in _clusters(shards) if cluster.member.any()]
    if not watched:
        return {}
    most, uniform, alone = 0.0, np.full(num_classes, 1.0 / num_classes), noise.advantage(num_classes)
    for cluster in watched:
        chosen = (cluster.own & ~cluster.constant).any() or (cluster.probed & ~cluster.member).any()
        model = _model(cluster, noise, members=True)
        slow = chosen or isinstance(model, NoiseAlone) or not model.cacheable
        most = max(most, alone if slow else min(alone, model.advantage(uniform).upper))
    others = alone if any((c.own & ~c.constant).any() for c in _clusters(shards)) else 0.0
    return {"advantage_coalition": max(most, others)}
