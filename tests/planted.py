"""Exchanges with planted leaks, which an audit must catch, and honest ones of several rounds, which it must pass."""

from dataclasses import dataclass, replace

import numpy as np

from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.protocol.shard_exchange import ShardExchange


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


@dataclass(frozen=True)
class Rounds:
    """R exchanges in the same clusters, with noisy labels drawn once (memoised), or planted: afresh for each round."""

    alpha: float
    theta: float
    rounds: int
    fresh: bool = False

    def release(self, population, network, streams: Streams, record: bool = False, study: bool = False) -> Outcome:
        alpha, held = self.alpha, population
        if not self.fresh:
            noisy = RandomizedResponse(alpha).randomize(population.labels, streams.generator("memoised"))
            alpha, held = 0.0, replace(population, labels=noisy)
        releases = [
            exchange(alpha, self.theta)
            .release(held, network, Streams(streams.seed + 1, streams.replicate * self.rounds + i))
            .release
            for i in range(self.rounds)
        ]
        payload = np.concatenate([r.payload for r in releases])
        return Outcome(LabelRelease(np.concatenate([r.user for r in releases]), payload))


class FreshNoise(ShardExchange):
    """Planted: the payload is the true label, and every answer flips it afresh (α = 0.2)."""

    def submissions(self):
        users, fetched = super().submissions()
        return users, fetched ^ (np.random.default_rng(int(fetched.sum())).random(fetched.size) < 0.2)


class OwnLabel(ShardExchange):
    """Planted: who gets no reply in time submits her own noisy label, although she should submit nothing."""

    def _on_timeout(self, users, times, attempt):
        super()._on_timeout(users, times, attempt)
        self._submit(users, times, users)
