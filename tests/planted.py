"""Exchanges with planted leaks, which an audit must catch."""

from dataclasses import dataclass, replace

import numpy as np

from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse


def exchange(alpha: float, theta: float, **changes) -> LabelExchangeMechanism:
    """The exchange as it is."""
    return LabelExchangeMechanism(RandomizedResponse(alpha), theta, **changes)


@dataclass(frozen=True)
class Truthful(RandomizedResponse):
    """Planted: the first user of each cluster of `size` answers with her true label."""

    size: int = 1

    def randomize(self, labels, rng):
        noisy = super().randomize(labels, rng)
        noisy[:: self.size] = labels[:: self.size]
        return noisy


class FreshNoise(ShardExchange):
    """Planted: the payload is the true label, and every answer flips it afresh (α = 0.2)."""

    def submissions(self):
        received = super().submissions()
        fresh = np.random.default_rng(int(received.label.sum())).random(received.label.size) < 0.2
        return replace(received, label=received.label ^ fresh)


class OwnLabel(ShardExchange):
    """Planted: who gets no reply in time submits her own noisy label, although she should submit nothing."""

    def _on_timeout(self, users, times, attempt):
        super()._on_timeout(users, times, attempt)
        self._submit(users, times, users, None)
