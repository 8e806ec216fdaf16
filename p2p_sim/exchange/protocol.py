"""What a protocol is: what a user does from her start on, and how she answers. No true label is in reach of it."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any
from typing import Protocol as Interface

import numpy as np
import simpy
from numpy.typing import NDArray

from p2p_sim.exchange.asking import ONE_PEER, Asking
from p2p_sim.network.event_queue import Clock

Steps = Generator[simpy.Event, Any, None]
"""A user's process: it yields what it waits for."""


@dataclass(frozen=True)
class Reply:
    """A noisy label that a user got for her request.

    label: as it arrived. source: whose it is, numbered from the shard's first user. own: nobody replied in time, and
    the network's `on_timeout` has her fall back on her own noisy label.
    """

    label: int
    source: int
    own: bool = False


@dataclass(frozen=True)
class Request:
    """What comes to a user unasked.

    sender: numbered from the shard's first user. payload: a label or number that was sent to her; None: she is asked
    for her label.
    """

    sender: int
    payload: float | None = None


class Protocol(ABC):
    """The behaviour of all users; what belongs to one of them is in `me` and in her process."""

    @abstractmethod
    def user(self, me: "Me") -> Steps:
        """Her process, a generator in SimPy's style, from the moment she starts.

        >>> class Once(Protocol):
        ...     def user(self, me):
        ...         reply = yield me.ask()
        ...         if reply is not None:
        ...             me.submit(reply)
        """

    def answer(self, me: "Me", request: Request) -> int | None:
        """What she replies to a request: a noisy label, or None for no reply. What is sent to her gets no reply."""
        return me.noisy_label if request.payload is None else None


class Surroundings(Interface):
    """What carries out what users do; each method is `Me`'s of that name, for the user of a number."""

    clock: Clock

    def neighbours(self, user: int) -> NDArray[np.int32]: ...
    def random_peer(self, user: int) -> int | None: ...
    def coin(self, user: int, name: str, probability: float) -> bool: ...
    def wait(self, seconds: float) -> simpy.Event: ...
    def online(self, user: int) -> simpy.Event: ...
    def ask(self, user: int) -> simpy.Event: ...
    def send(self, user: int, peer: int, payload: float) -> None: ...
    def submit(self, user: int, reply: Reply | int) -> None: ...


class Me:
    """A user as her own process sees her: her noisy label, her clock, her neighbours.

    number: from 0, the shard's first user. noisy_label: drawn once, before the run.
    """

    __slots__ = ("_exchange", "noisy_label", "number")

    def __init__(self, number: int, noisy_label: int, exchange: Surroundings) -> None:
        self.number, self.noisy_label, self._exchange = number, noisy_label, exchange

    @property
    def now(self) -> float:
        """The time, seconds."""
        return float(self._exchange.clock.now)

    @property
    def neighbours(self) -> NDArray[np.int32]:
        """Whom she may ask, ascending: neighbours on the overlay, else all users of her cluster, herself included."""
        return self._exchange.neighbours(self.number)

    def random_peer(self) -> int | None:
        """A random one of whom she may ask, drawn anew; None if there is nobody."""
        return self._exchange.random_peer(self.number)

    def coin(self, name: str, probability: float) -> bool:
        """Whether a coin shows heads, drawn anew at each toss; coins of different names are independent."""
        return self._exchange.coin(self.number, name, probability)

    def wait(self, seconds: float) -> simpy.Event:
        """An event some seconds from now, after all else that happens then."""
        return self._exchange.wait(seconds)

    def online(self) -> simpy.Event:
        """An event at once if she is online, else when she comes back, if ever."""
        return self._exchange.online(self.number)

    def ask(self) -> simpy.Event:
        """Ask a random peer for her label; the event's value is a `Reply`, or None where none comes in time.

        Each attempt draws a peer anew, unless `on_timeout` says otherwise; how often she tries again, and whether she
        falls back on her own label, is the network's `on_timeout`, too.
        """
        return self._exchange.ask(self.number)

    def send(self, peer: int, payload: float) -> None:
        """Send a label or a number to a peer, whose `answer` receives it."""
        self._exchange.send(self.number, peer, payload)

    def submit(self, reply: Reply | int) -> None:
        """Pass a label on to the learner."""
        self._exchange.submit(self.number, reply)


@dataclass(frozen=True)
class LabelExchangeProtocol(Protocol):
    """Algorithm 2 of the clustering paper, with one peer or several. sampling_rate: θ. asking: how many peers."""

    sampling_rate: float
    asking: Asking = ONE_PEER

    def user(self, me: Me) -> Steps:
        """Ask k random users of the cluster, perhaps oneself; with probability θ pass on what most of them replied."""
        number = next(k for k, share in self.asking.coins if share >= 1.0 or me.coin("peers", share))
        asks, replies = [me.ask() for _ in range(number)], list[Reply]()
        for ask in asks:  # all of them are under way
            if (reply := (yield ask)) is not None:
                replies.append(reply)
        if not replies or (len(replies) < number and not self.asking.answered):
            return
        if len(replies) < number:
            yield me.online()
        if me.coin("submit", self.sampling_rate):
            # of labels that came equally often, the one that was asked for first: a fair coin
            [(label, _)] = Counter(reply.label for reply in replies).most_common(1)
            first = next(reply for reply in replies if reply.label == label)
            me.submit(replace(first, own=any(reply.own for reply in replies)))
