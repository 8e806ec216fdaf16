"""The label exchange with one SimPy event per message, from the same draws as the windowed engine."""

from dataclasses import dataclass, field

import simpy

from p2p_sim.network.config import NetworkConfig
from p2p_sim.population.shards import Shard
from p2p_sim.protocol.draws import all_choices
from p2p_sim.protocol.label_exchange import Timing
from p2p_sim.protocol.transcript import LEARNER, REPLY, REQUEST, SUBMISSION
from p2p_sim.streams import Streams


@dataclass
class PlainRun:
    """What happened: submissions (user, fetched label), and messages (time, kind, sender, receiver, label, late)."""

    submitted: dict[int, int] = field(default_factory=dict)
    messages: list[tuple[float, int, int, int, int, bool]] = field(default_factory=list)
    events: int = 0
    late: int = 0


def run(shard: Shard, payload, sampling_rate: float, network: NetworkConfig, streams: Streams) -> PlainRun:
    """Run one shard to its end."""
    env, done = simpy.Environment(), PlainRun()
    choices, timing = all_choices(shard, streams, sampling_rate), Timing.draw(network, shard, streams)

    def later(delay: float, action) -> None:
        env.timeout(delay).callbacks.append(lambda event: action())

    def start(user: int) -> None:
        done.events += 1
        later(timing.request[user], lambda: on_request(user))

    def on_request(user: int) -> None:
        done.events += 1
        peer = int(choices.peer[user])
        done.messages.append((env.now, REQUEST, shard.start + user, shard.start + peer, -1, False))
        later(timing.reply[user], lambda: on_reply(user, peer, int(payload[peer])))

    def on_reply(user: int, peer: int, label: int) -> None:
        done.events += 1
        late = bool(env.now > timing.start[user] + timing.timeout)
        done.messages.append((env.now, REPLY, shard.start + peer, shard.start + user, label, late))
        if late:
            done.late += 1
        elif choices.keep[user]:
            later(timing.submission[user], lambda: on_submission(user, label))

    def on_submission(user: int, label: int) -> None:
        done.events += 1
        done.messages.append((env.now, SUBMISSION, shard.start + user, LEARNER, label, False))
        done.submitted[shard.start + user] = label

    for user in range(shard.size):
        later(timing.start[user], lambda user=user: start(user))
    env.run()
    return done
