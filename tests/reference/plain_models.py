"""Models on their way, one SimPy process a pair and one event a message: slow and obvious.

Only the random numbers are shared with the fast code: each is looked up by its address.
"""

from collections import Counter

import numpy as np
import simpy

from p2p_sim.network.network_config import Network
from p2p_sim.population.population import Shard

REQUEST, REPLY = 1, 2


class PlainModels:
    """Run at once; then `arrival` (by pair), `shown`, `offline` and `counts` say what happened."""

    def __init__(self, network: Network, organisations: int, pairs: list[tuple[int, int]], payload_bytes: list[int]):
        self.network, self.config, self.count = network, network.config, organisations
        self.payload, self.pairs = payload_bytes, pairs
        self.online_at = network.shard_availability(Shard(0, 0, organisations, np.array([0, organisations])))
        self.arrival, self.shown, self.offline, self.counts = {}, set(), set(), Counter()
        self.environment = simpy.Environment()
        starts = network.streams.generator("start").random(organisations) * self.config.start_window_s
        for organisation in range(organisations):
            if self.back(organisation, float(starts[organisation])) == np.inf:
                self.offline.add(organisation)
        for pair in pairs:
            self.environment.process(self.asks(pair, float(starts[pair[0]])))
        self.environment.run()

    def draw(self, purpose: str, attempt: int, pair: tuple[int, int]) -> float:
        numbers = self.network.streams.uniforms(f"models-{purpose}", 0, attempt)
        return float(numbers.at(np.array([pair[0] * self.count + pair[1]]))[0])

    def back(self, organisation: int, time: float) -> float:
        if self.online_at is None:
            return time
        return float(self.online_at.next_online(np.array([organisation]), np.array([time]))[0])

    def asks(self, pair, start):
        time = self.back(pair[0], start)
        for attempt in range(self.config.on_timeout.attempts):
            if time == np.inf or (self.config.deadline_s is not None and time > self.config.deadline_s):
                return
            yield self.environment.timeout(time - self.environment.now)
            self.counts["fetches"] += 1
            limit = time + self.config.timeout_s(attempt)
            self.send(REQUEST, pair, attempt, 0, limit)
            if limit == np.inf:
                return
            yield self.environment.timeout(limit - self.environment.now + 1e-9)  # a reply on the stroke is in time
            if pair in self.arrival:
                return
            self.counts["expired"] += 1
            time = self.back(pair[0], limit)
            time = max(time, self.environment.now) if time < np.inf else time

    def send(self, kind, pair, attempt, number, limit):
        """A message, and perhaps the network's copy of it."""
        self.counts["messages_sent"] += 1
        self.counts["bytes_sent"] += self.size(kind, pair)
        self.environment.process(self.travels(kind, pair, attempt, number, limit))
        if self.draw(f"duplicate-{kind}-{number + 1}", attempt, pair) < self.config.duplication:
            self.counts["messages_duplicated"] += 1
            self.environment.process(self.travels(kind, pair, attempt, number + 1, limit))

    def size(self, kind, pair):
        return self.config.header_bytes + (self.payload[pair[1]] if kind == REPLY else 0)

    def travels(self, kind, pair, attempt, number, limit):
        leg = f"{kind}-{number}"

        def latency(purpose):
            return float(self.network.latency.quantile(np.array([self.draw(f"{purpose}-{leg}", attempt, pair)]))[0])

        time = latency("latency")
        if self.draw(f"held-{leg}", attempt, pair) < self.config.reordering:
            time += latency("held-for")
        if self.config.bandwidth_bps:
            time += 8.0 * self.size(kind, pair) / self.config.bandwidth_bps
        if self.config.distance_s:
            one, other = self.network.overlay.position[list(pair)]
            time += self.config.distance_s * float(np.hypot(*(one - other)))
        yield self.environment.timeout(time)
        receiver = pair[1] if kind == REQUEST else pair[0]
        if self.draw(f"loss-{leg}", attempt, pair) < self.config.loss:
            self.counts["messages_lost"] += 1
        elif self.back(receiver, self.environment.now) > self.environment.now:
            self.counts["messages_undelivered"] += 1
            self.offline.add(receiver)
        elif kind == REQUEST:
            self.counts["messages_delivered"] += 1
            self.send(REPLY, pair, attempt, 2 * number, limit)
        else:
            self.counts["messages_delivered"] += 1
            self.shown.add(pair)
            if self.environment.now > limit:
                self.counts["late_replies"] += 1
            else:
                self.arrival.setdefault(pair, self.environment.now)
