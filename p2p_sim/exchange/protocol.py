"""Protocols: what a user does after her start, and how she answers requests. A protocol never gets a true label."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from typing import Protocol as Interface

import numpy as np
import simpy
from numpy.typing import NDArray

from p2p_sim.base import InputError, is_number, is_whole, maker_of, method_of, shortened
from p2p_sim.exchange.peers import ONE_PEER, Asking
from p2p_sim.network import Clock
from p2p_sim.privacy.rivals import SubmissionLaw

Steps = Generator[simpy.Event, Any, None]
"""A user's process: a generator of the events for which it waits."""


@dataclass(frozen=True)
class Reply:
    """A noisy label that a user got for her request.

    label: the label as it arrived. source: the user whose label it is, numbered from the first user of her shard (a
    group of whole clusters). own: whether this is the own noisy label of the user who asked, taken in place of a
    missing reply. The network's `on_timeout` allows this.
    """

    label: int
    source: int
    own: bool = False


@dataclass(frozen=True)
class Request:
    """A message that comes to a user unasked: a question for her label, or a label or number.

    sender: who sent it, numbered from the shard's first user. payload: the label or number; None: a question for her
    label.
    """

    sender: int
    payload: float | None = None


@dataclass
class PendingRequest:
    """A request of a user whose process waits, or waited, for the reply.

    user: who asks, numbered from the shard's first user. earlier: how many numbers of requests she has reserved before
    this question. A request has the number `earlier` + `attempt`, which decides its random draws. attempt: number of
    the request within this question, from 0. begin_s, deadline_s: when the request was sent, and until when a reply
    counts, seconds. reply: the event for which her process waits. answered_s: when the first reply in time came,
    seconds; infinity: no reply came in time.
    """

    user: int
    earlier: int
    attempt: int
    begin_s: float
    deadline_s: float
    reply: simpy.Event
    answered_s: float = math.inf


class Protocol(ABC):
    """The behaviour of all users; the state of a single user is in `me` and in her process.

    symmetric: whether the protocol claims symmetry, on any network where users are alike and nothing fails. Symmetry: a
    permutation of a cluster's noisy labels does not change the distribution of what the learner sees of the cluster.
    """

    symmetric: ClassVar[bool] = False

    @abstractmethod
    def user(self, me: "Me") -> Steps:
        """A user's process, a generator in SimPy's style, from the moment she starts.

        >>> class Once(Protocol):
        ...     def user(self, me):
        ...         reply = yield me.ask()
        ...         if reply is not None:
        ...             me.submit(reply)
        """

    def answer(self, me: "Me", request: Request) -> int | None:
        """The noisy label with which a user replies to a question; None: she does not reply. A label or number that is
        sent to her gets no reply.
        """
        return me.noisy_label if request.payload is None else None

    def law(self) -> SubmissionLaw | None:
        """The law (distribution) of a user's submission that the protocol claims, for labels of two classes. The law
        has the probability that she submits, and the probability that her submission is a one. This second probability
        is a function of the share of ones among the noisy labels of her cluster. None: the protocol claims no law. A
        true claim allows a smaller ε than the noise alone.
        """
        return None


class Surroundings(Interface):
    """The simulation around users. Each method does, for a user, what the method of the same name in the class `Me`
    does.
    """

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

    number: her number, from 0 for the shard's first user. noisy_label: her noisy label, drawn once, before the run; if
    she lies, her false answer.
    """

    __slots__ = ("_exchange", "noisy_label", "number")

    def __init__(self, number: int, noisy_label: int, exchange: Surroundings) -> None:
        self.number, self.noisy_label, self._exchange = number, noisy_label, exchange

    @property
    def now(self) -> float:
        """The present time of the simulation, seconds from its start."""
        return float(self._exchange.clock.now)

    @property
    def neighbours(self) -> NDArray[np.int32]:
        """The users whom she may ask, ascending. With an overlay, these are her neighbours. Without an overlay, these
        are all users of her cluster, herself included.
        """
        return self._exchange.neighbours(self.number)

    def random_peer(self) -> int | None:
        """A random user whom she may ask, drawn anew; None: there is nobody to ask."""
        return self._exchange.random_peer(self.number)

    def coin(self, name: str, probability: float) -> bool:
        """Whether a coin shows heads, with the given probability at each new toss. Coins of different names are
        independent.
        """
        return self._exchange.coin(self.number, name, probability)

    def wait(self, seconds: float) -> simpy.Event:
        """An event that happens some seconds from now, after all other events of that moment."""
        return self._exchange.wait(seconds)

    def online(self) -> simpy.Event:
        """An event that happens now if she is online. Otherwise the event happens when she comes back, if ever."""
        return self._exchange.online(self.number)

    def ask(self) -> simpy.Event:
        """Ask a random peer for her label. The event's value is a `Reply`; None: no reply comes in time.

        The network's setting `on_timeout` says how often she tries again, and whether each attempt draws a peer anew.
        The setting also says whether she takes her own label if no reply comes.
        """
        return self._exchange.ask(self.number)

    def send(self, peer: int, payload: float) -> None:
        """Send a label or a number to a peer. On arrival, the protocol's method `answer` is called for this peer."""
        self._exchange.send(self.number, peer, payload)

    def submit(self, reply: Reply | int) -> None:
        """Pass a label on to the learner, who combines the label with the features of this user."""
        self._exchange.submit(self.number, reply)


@dataclass(frozen=True)
class LabelExchangeProtocol(Protocol):
    """Algorithm 2 of the paper "Label differential privacy via clustering", with one peer or several. sampling_rate: θ,
    the probability that a user submits. asking: how many peers a user asks.
    """

    sampling_rate: float
    asking: Asking = ONE_PEER

    def user(self, me: Me) -> Steps:
        """A user's process, a generator that yields the events for which it waits. She asks k random users of her
        cluster, perhaps herself; k may be random too. With probability θ she then submits the commonest label among the
        replies. me: the user as her own process sees her, with her noisy label.
        """
        # her k, if it is random: the first number whose coin shows heads
        number = next(k for k, share in self.asking.coins if share >= 1.0 or me.coin("peers", share))
        # all requests are under way at once; a reply that never comes is left out
        replies, asks = list[Reply](), [me.ask() for _ in range(number)]
        for ask in asks:
            if (reply := (yield ask)) is not None:
                replies.append(reply)
        if not replies or (len(replies) < number and not self.asking.answered):
            return
        if len(replies) < number:
            yield me.online()  # she may be offline when she gives up waiting
        # with probability θ she passes on the commonest label among the replies
        if me.coin("submit", self.sampling_rate):
            me.submit(majority(replies))


def majority(replies: list[Reply]) -> Reply:
    """The reply that a user submits if she asked several peers: the first of `replies` with the commonest label. If any
    reply is marked as `own`, the result is marked as `own` too. Such a reply is her own label in place of a missing
    reply.

    Peers are independent draws from one distribution. So the first of equally common labels is a fair choice.
    """
    [(label, _)] = Counter(reply.label for reply in replies).most_common(1)
    first = next(reply for reply in replies if reply.label == label)
    return replace(first, own=any(reply.own for reply in replies))


class CheckedProtocol(Protocol):
    """A protocol with checks of every step. A wrong step raises an InputError of one line. If a plug-in defines the
    protocol, the error names the package and the method.

    protocol: the checked protocol. A copy is used, because a protocol may keep facts about the users of one run.
    num_classes: number of classes. users: number of users of the shard.

    Raises:
        InputError: the protocol did something wrong; every method may raise it.
    """

    def __init__(self, protocol: Protocol, num_classes: int, users: int) -> None:
        self.protocol, self._num_classes, self._users = deepcopy(protocol), num_classes, users
        self._maker, self._method = maker_of(protocol), "user"

    def user(self, me: Me) -> Steps:
        sent: Any = None
        try:
            steps = self.protocol.user(me)
            self._require(isinstance(steps, Generator), "must be a generator, with a yield", steps)
            while True:
                event = steps.send(sent)
                self._require(isinstance(event, simpy.Event), "must yield what me.ask() or me.wait() gives", event)
                sent = yield event
        except StopIteration:
            return
        except AttributeError as fault:
            self._require(not isinstance(fault.obj, simpy.Event), "must write yield before me.ask()", fault.obj)
            raise

    def answer(self, me: Me, request: Request) -> int | None:
        self._method = "answer"
        label = self.protocol.answer(me, request)
        if label is not None:
            self._require(request.payload is None, "what was sent unasked gets no reply; must give None", label)
            self._require(is_whole(label, self._num_classes), f"must give None or {self._labels}", label)
        self._method = "user"
        return label

    def check_submitted(self, reply: Reply) -> None:
        """Raise InputError if the label of a submission is no class, or its source is no user of the shard."""
        self._require(is_whole(reply.label, self._num_classes), f"me.submit: must be {self._labels}", reply.label)
        source = f"me.submit: the source must be 0 to {self._users - 1}"
        self._require(is_whole(reply.source, self._users), source, reply.source)

    def check_sent(self, peer: int, payload: float) -> None:
        """Raise InputError if a payload is no finite number, or the peer to whom it is sent is no user of the shard."""
        self._require(is_whole(peer, self._users), f"me.send: peer must be 0 to {self._users - 1}", peer)
        self._require(is_number(payload), "me.send: payload must be a label or a finite number", payload)

    def check_coin(self, name: str, probability: float) -> None:
        """Raise InputError if the name of a coin is no text, or its probability is not a number from 0 to 1."""
        self._require(isinstance(name, str), "me.coin: name must be a text", name)
        right = is_number(probability) and 0 <= probability <= 1
        self._require(right, "me.coin: probability must be 0 to 1", probability)

    def check_wait(self, seconds: float) -> None:
        """Raise InputError unless the time to wait is a number of seconds, at least 0."""
        self._require(is_number(seconds) and seconds >= 0, "me.wait: seconds must be at least 0", seconds)

    @property
    def _labels(self) -> str:
        return f"a label, 0 to {self._num_classes - 1}"

    def _require(self, right: bool, wanted: str, value: object) -> None:
        if not right:
            at_fault = method_of(self._maker, self.protocol, self._method)
            raise InputError(f"{at_fault}{wanted}, not {shortened(repr(value))}")
