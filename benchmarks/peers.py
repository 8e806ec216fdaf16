"""The label exchange in other simulators: a process per user in SimPy, a component per user in salabim.

Both are as lean as such a program can be: all random numbers are drawn beforehand by NumPy, and a user's process waits
four times, for her start, her request, the reply and her submission, and looks the noisy label up when her request
arrives. No mailbox, no process of the one who answers, no trace. They release what the event engine releases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import simpy

from p2p_sim.exchange.peers import Peers
from p2p_sim.extend import Population, RandomizedResponse, Streams, shards

Released = dict[int, int]
"""The label that each user submitted."""
SIGMA = 0.5


@dataclass(frozen=True)
class Plan:
    """All random numbers of a run, as Python lists: a user's peer, noisy label, whether she submits, her delays."""

    peer: list[int]
    noisy: list[int]
    keep: list[bool]
    start: list[float]
    travel: list[list[float]]


def plan(users: Population, flip_prob: float, sampling_rate: float, median_s: float, window_s: float) -> Plan:
    """Draw a run; peer, label and submission from the streams of the event engine."""
    streams, rng = Streams(1, 0), np.random.default_rng(1)
    peer, noisy, keep = [], [], []
    for shard in shards(users.cluster_offsets):
        labels = users.labels[shard.start : shard.stop]
        noisy += RandomizedResponse(flip_prob).randomize(labels, streams.generator("flip", shard.index)).tolist()
        for block in Peers(shard, streams, None).choices(sampling_rate):
            peer += (block.peer + shard.start).tolist()
            keep += block.keep.tolist()
    travel = rng.lognormal(np.log(median_s), SIGMA, (users.num_users, 3))
    return Plan(peer, noisy, keep, (window_s * rng.random(users.num_users)).tolist(), travel.tolist())


def with_simpy(drawn: Plan) -> Released:
    """A SimPy process per user."""
    environment, released = simpy.Environment(), {}

    def user(number: int, start: float, travel: list[float]):
        yield environment.timeout(start)
        yield environment.timeout(travel[0])
        label = drawn.noisy[drawn.peer[number]]
        yield environment.timeout(travel[1])
        if drawn.keep[number]:
            yield environment.timeout(travel[2])
            released[number] = label

    for number, (start, travel) in enumerate(zip(drawn.start, drawn.travel, strict=True)):
        environment.process(user(number, start, travel))
    environment.run()
    return released


def salabim_module() -> ModuleType | None:
    """salabim, if it is installed."""
    if find_spec("salabim") is None:
        return None
    import salabim

    return salabim


def with_salabim(salabim: ModuleType) -> Callable[[Plan], Released]:
    """A salabim component per user, as a generator: without greenlets, trace and animation."""

    class User(salabim.Component):  # type: ignore[misc, name-defined]
        def setup(self, number: int, travel: list[float], drawn: Plan, released: Released) -> None:
            self.number, self.travel, self.drawn, self.released = number, travel, drawn, released

        def process(self):
            yield self.hold(self.travel[0])
            label = self.drawn.noisy[self.drawn.peer[self.number]]
            yield self.hold(self.travel[1])
            if self.drawn.keep[self.number]:
                yield self.hold(self.travel[2])
                self.released[self.number] = label

    def run(drawn: Plan) -> Released:
        environment = salabim.Environment(trace=False, yieldless=False, random_seed="*")
        environment.suppress_trace_standby(True)
        released: Released = {}
        for number, (start, travel) in enumerate(zip(drawn.start, drawn.travel, strict=True)):
            settings = {"number": number, "travel": travel, "drawn": drawn, "released": released}
            User(at=start, env=environment, suppress_trace=True, skip_standby=True, name="user", **settings)
        environment.run()
        return released

    return run
