"""Times and losses of a shard's messages, as functions of the user, her attempt, and any peer whom she might ask.

A shard is a group of whole clusters. A leg is a kind of message, such as "request" or "reply". Each time, loss and
choice has a random number with an address of its own. The address has the leg, the user, and the numbers of the
attempt, the copy and the step (hop) of a random walk. So neither the order of events nor a fault of other messages
changes these numbers.

The event engine delivers messages according to these functions. The computation of privacy also evaluates the functions
for peers whom a user did not ask.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Streams, Uniforms
from p2p_sim.exchange.adversaries import Roles
from p2p_sim.exchange.peers import Choices, Peers
from p2p_sim.network import Ends, GossipView, InTransit, Network
from p2p_sim.population import Shard

Users = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NEVER = np.inf
LEGS = ("request", "reply", "submission")


class FirstReply(NamedTuple):
    """The first valid reply to each of m requests. time_s: (m,) when this reply comes back, seconds; NEVER: no reply
    comes. copy: (m,) the number of the reply's copy.
    """

    time_s: Floats
    copy: NDArray[np.int8]


class Trip(NamedTuple):
    """The times of the requests of m users and of one copy of each reply, in seconds. NEVER: the message does not come.

    copy: number of the reply's copy. answered_s: (m,) when the request reaches the peer who answers. back_s: (m,) when
    the reply comes back; NEVER also if the reply comes too late.
    """

    copy: int
    answered_s: Floats
    back_s: Floats


class MessageTiming:
    """When one shard's users are online, when their messages travel, and which messages are lost.

    Args:
        shard: the users, a group of whole clusters; all methods number users from 0. network: the network, already
        drawn for all users. streams: the replicate's random streams. roles: who does not follow the protocol, and how.
        sampling_rate: θ. payload_bytes: size of a reply or submission, without header.
    """

    def __init__(
        self, shard: Shard, network: Network, streams: Streams, roles: Roles, *,
        sampling_rate: float, payload_bytes: int = 1,
    ) -> None:  # fmt: skip
        config, overlay, availability = network.config, network.shard_overlay(shard), network.shard_availability(shard)
        self.config, self.hops, self.faults = config, config.hops, config.transit()
        self.shard, self.roles, self.overlay, self.availability = shard, roles, overlay, availability
        self._streams, self._law = streams, network.latency
        self._uniforms: dict[tuple[str, int], Uniforms] = {}
        everybody = np.arange(shard.size, dtype=np.int32)
        # when each user starts, seconds: at a random time or, if she is offline then, when she is next online
        self.start = streams.generator("start", shard.index).random(shard.size)
        self.start *= config.start_window_s
        if availability is not None:
            self.start = availability.next_online(everybody, self.start)
        # whom each user asks first, and whether she submits; in a gossip view, a list of peers that changes in time,
        # the peer depends on the time
        view = config.peers if isinstance(config.peers, GossipView) else None
        self._peers = Peers(shard, streams, overlay, self.hops, view)
        blocks = list(self._peers.choices(sampling_rate))
        self.choices = Choices(0, np.concatenate([b.peer for b in blocks]), np.concatenate([b.keep for b in blocks]))
        if view is not None:
            self.choices.peer[:] = self._peers.again(everybody, 0, np.where(np.isfinite(self.start), self.start, 0.0))
        generators = {leg: streams.generator(f"latency-{leg}", shard.index) for leg in LEGS}
        self.first_times = {leg: network.latency.sample(rng, shard.size) for leg, rng in generators.items()}
        """By leg: (m,) the latencies of all users' first messages, in seconds, without other delays."""
        request, reply = config.header_bytes, config.header_bytes + payload_bytes
        self.bytes = {
            "request": request, "probe": request,
            "reply": reply, "submission": reply, "confession": reply, "push": reply,
        }  # fmt: skip
        """By leg: the size of a message in bytes, header included."""
        self.copies = 2 if "duplicated" in self.faults.effects else 1
        """Largest number of copies of a message: 2 if the network may duplicate it, else 1."""
        self._silent = bool(roles.silent.any())
        limited, isolated = config.request_timeout_s is not None, overlay is not None and bool(overlay.isolated)
        lost, churns = "lost" in self.faults.effects, availability is not None
        self.certain = not any((lost, limited, churns, self._silent, isolated))
        """Whether every request is answered."""
        self.matters = any((self._silent, churns, overlay is not None, self.copies > 1, self.faults.ask_ends))
        """Whether it matters which peer a request reaches: a peer may be silent, offline or far, or answer twice."""

    # -- choices -----------------------------------------------------------------------------------------------------

    def path(self, users: Users, attempt: int) -> list[Users]:
        """The users whom each user's request reaches: a list with an array (m,) for each step of the request's random
        walk. The users of the last array answer. Without walks there is one step. -1: there is nobody to ask.

        Args:
            users: (m,) who ask. attempt: number of the user's request, from 0. If requests are repeated to the same
            peer, all repetitions have the path of the first.
        """
        if self.config.on_timeout.retry == "same_peer":
            attempt -= self.in_question(attempt)
        return self.drawn_path(users, attempt, self.sent(users, attempt))

    def drawn_path(self, users: Users, draw: int, times: Floats) -> list[Users]:
        """The users whom each user's request reaches in a given random draw. The list has an array (m,) for each step
        of the request's random walk. The users of the last array answer. -1: there is nobody to ask.

        Args:
            users: (m,) who ask. draw: number of the draw, from 0. The same draw gives the same peers, except in gossip
            views. times: (m,) when the request is sent, seconds.
        """
        if self.hops > 1:
            return self._peers.path(users, draw)
        return [self.choices.peer[users]] if draw == 0 else [self._peers.again(users, draw, times)]

    def serves(self, users: Users) -> Bools | None:
        """Which of the users (m,) answer and forward requests; None: all users."""
        return ~self.roles.silent[users] if self._silent else None

    # -- the timetable -----------------------------------------------------------------------------------------------

    def in_question(self, attempt: int) -> int:
        """A request's number within a question: a user's attempt to get the label of one peer. The first request has
        the number 0; repetitions after time-outs have numbers above 0. attempt: number of the user's request, from 0.
        """
        return attempt % self.config.on_timeout.attempts

    def timeout_s(self, attempt: int) -> float:
        """How long a request waits for a reply, seconds; infinity: no time-out. attempt: request number, from 0."""
        return self.config.timeout_s(self.in_question(attempt))

    def sent(self, users: Users, attempt: int) -> Floats:
        """When each of m users sends a given request, in seconds, if earlier requests for the same question have
        expired. A user sends a first request when she starts. She sends a repetition when she is online after the last
        time-out. Infinity: she never comes online again.

        Args:
            users: (m,) numbered from the shard's first. attempt: number of the user's request, from 0.
        """
        times = self.start[users]
        for earlier in range(self.in_question(attempt)):
            times = self.next_online(users, times + self.config.timeout_s(earlier))
        return times

    def next_online(self, users: Users, times: Floats) -> Floats:
        """When each of m users is next online, (m,), in seconds. This is the given time if she is online then, and
        otherwise the time at which she comes back. Infinity: she never comes back. times: (m,) the given times,
        seconds.
        """
        return times if self.availability is None else self.availability.next_online(users, times)

    def online(self, users: Users, times: Floats) -> Bools | None:
        """Which of m users are online at given times, (m,); None: all users. times: (m,) seconds."""
        return None if self.availability is None else self.availability.online(users, times)

    # -- messages ----------------------------------------------------------------------------------------------------

    def message(
        self, leg: str, users: Users, sent: Floats, attempt: int, *,
        copy: int = 0, hop: int = 0, ends: Ends | None = None,
    ) -> InTransit:  # fmt: skip
        """The messages that m users send at given times, as one object from which losses and travel times can be
        computed. Nothing is sent.

        Args:
            leg: kind of message: "request", "reply", "submission" or "push" (sent unasked). An adversary who asks
            everybody sends a "probe"; the answer is a "confession". users: (m,) the user to whose request or submission
            each message belongs. sent: (m,) times of sending, seconds. attempt: number of the user's request, from 0.
            copy: number of the copy. A request has 0, and its duplicate by the network 1. A reply to the request has 0,
            and the reply's duplicate 1. A reply to the request's duplicate has 2, and the reply's duplicate 3. hop:
            number of the step of a request's random walk, from 0. ends: sender and receiver of each message, (m,) each;
            None: neither loss nor delay depends on sender and receiver.
        """
        draw = partial(self._draw, f"{leg}-{copy}-{hop}", attempt)
        return InTransit(
            leg=leg, attempt=attempt, copy=copy, hop=hop, user=users, sent_s=sent, ends=ends, draw=draw, law=self._law
        )

    def travel(self, messages: InTransit) -> Floats:
        """Travel times (m,), in seconds: the latency plus the delays by faults, by the sender's bandwidth and by
        distance. A lost message has a travel time too.
        """
        m = messages
        if m.attempt == m.copy == m.hop == 0 and m.leg in LEGS:
            times = self.first_times[m.leg][m.user]
        else:
            times = m.travel_s("latency")
        self.faults.delay(times, m)
        if self.config.bandwidth_bps:
            times += 8.0 * self.bytes[m.leg] / self.config.bandwidth_bps
        if self.config.distance_s and self.overlay is not None and m.ends is not None:
            times += self.config.distance_s * self.overlay.distances(*m.ends)
        return times

    def exists(self, messages: InTransit) -> Bools:
        """Which of m possible duplicates the network really made, (m,). messages: the possible duplicates, which have
        odd copy numbers and are at the first step of a walk.
        """
        m = messages
        return self.faults.duplicated(replace(m, draw=partial(self._draw, f"{m.leg}-{m.copy}", m.attempt)))

    def answered(self, users: Users, attempt: int, path: list[Users]) -> FirstReply:
        """The first valid reply to each of m users' requests: the time in seconds at which the reply is back, and the
        number of its copy, 0 to 3. A reply is valid if it comes by the request's time-out. Infinity: no valid reply
        comes.

        No user's messages depend on another user's messages. So random numbers alone give both results, without a
        simulation.

        Args:
            users: (m,) who ask. attempt: number of the user's request, from 0. path: whom the request reaches, an array
            (m,) for each step of its walk. This may be another path than the drawn path.
        """
        first = FirstReply(np.full(users.size, NEVER), np.zeros(users.size, dtype=np.int8))
        for trip in self.trips(users, attempt, path):
            earlier = trip.back_s < first.time_s
            first.time_s[earlier], first.copy[earlier] = trip.back_s[earlier], trip.copy
        return first

    def trips(self, users: Users, attempt: int, path: list[Users] | None) -> Iterator[Trip]:
        """Yields a `Trip`, with times in seconds, for each possible copy of the replies to m users' requests. A time is
        infinite if the message does not come, or if the reply comes after the time-out.

        Args:
            users: (m,) who ask. attempt: number of the user's request, from 0. path: whom the request reaches, an array
            (m,) for each step of its random walk. None: every peer counts as online, as answering, and as at distance
            0.
        """
        sent = self.sent(users, attempt)
        limit = sent + self.timeout_s(attempt)
        for copy in range(self.copies):
            reached = self._reached(users, attempt, copy, path, sent)
            ends = None if path is None else (path[-1], users)
            for duplicate in range(self.copies):
                number = 2 * copy + duplicate
                back = self._arrival(self.message("reply", users, reached, attempt, copy=number, ends=ends))
                _drop(back, self.online(users, back))
                back[back > limit] = NEVER
                yield Trip(number, reached, back)

    def _reached(self, users: Users, attempt: int, copy: int, path: list[Users] | None, sent: Floats) -> Floats:
        """When each of m requests reaches the last user of its path, (m,), in seconds. Infinity: the request is lost, a
        user on the path is offline or silent, or there is nobody to ask.

        Args:
            users: (m,) who ask. attempt: number of the user's request, from 0. copy: 0, or 1 for the duplicate that the
            network made. path: whom the request reaches, an array (m,) for each step of its random walk; None: no peer
            fails. sent: (m,) times of sending, seconds.
        """
        times, sender = sent, users
        for hop in range(self.hops):
            node = None if path is None else path[hop]
            ends = None if node is None else (sender, node)
            times = self._arrival(self.message("request", users, times, attempt, copy=copy, hop=hop, ends=ends))
            if node is not None:
                _drop(times, self.online(node, times))
                _drop(times, self.serves(node))
                _drop(times, node >= 0)
                sender = node
        return times

    def arrives(self, users: Users, times: Floats, late: Bools | None = None) -> Bools:
        """Which of m users' submissions would arrive, (m,), if each user sent a submission. A submission must arrive by
        the deadline. If a user's submission was late in the run, it must be late here too. Without a deadline, or in a
        batch at the deadline, any arrival counts. A queue at the learner's network connection is left out here.

        Args:
            users: (m,) numbered from the shard's first. times: (m,) when each user has the label that she submits,
            seconds. late: for every user of the shard, whether her submission came after the deadline in the run; None:
            no submission was late.
        """
        c = self.config
        batch_s = c.batch_time_s
        if batch_s is not None:
            ready, sent = times <= batch_s, np.full(users.size, batch_s)
            _drop(sent, ready)
            _drop(sent, self.online(users, sent))
        else:
            sent = times
        first = np.full(users.size, NEVER)
        for copy in range(self.copies):
            np.minimum(first, self._arrival(self.message("submission", users, sent, 0, copy=copy)), out=first)
        arrived: Bools = np.isfinite(first)
        if c.deadline_s is not None and batch_s is None:
            arrived &= (first <= c.deadline_s) != (False if late is None else late[users])
        return arrived

    def _arrival(self, messages: InTransit) -> Floats:
        """When messages arrive, in seconds. Infinity: the message is lost or never sent, or the network did not make
        this copy.
        """
        times = messages.sent_s + self.travel(messages)
        if messages.copy % 2 and messages.hop == 0:
            _drop(times, self.exists(messages))
        _drop(times, self.faults.survives(messages))
        return times

    def _draw(self, address: str, attempt: int, purpose: str) -> Uniforms:
        """The random numbers of messages for one purpose, by user. The same arguments always give the same numbers.

        Args:
            address: which messages, such as "request-0-0": leg, number of the copy, step of the walk. attempt: number
            of the user's request, from 0. purpose: what the numbers decide, such as "latency" or "loss".
        """
        key = (f"{purpose}-{address}", attempt)
        if key not in self._uniforms:
            self._uniforms[key] = self._streams.uniforms(key[0], self.shard.index, attempt)
        return self._uniforms[key]


def _drop(times: Floats, keep: Bools | None) -> None:
    """Set times (m,), in place, to infinity for messages that do not get through. keep: (m,) which messages get
    through; None: all.
    """
    if keep is not None:
        times[~keep] = NEVER
