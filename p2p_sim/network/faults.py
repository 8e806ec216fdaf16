"""Faults of messages in transit: the interface, and three faults with keys of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from p2p_sim.base import FAULTS, Config, Uniforms, described, method_of, offer_of, require
from p2p_sim.network.latency import LatencyLaw

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[Any]
Ends = tuple[Integers, Integers]
LEARNER = -1


@dataclass(frozen=True, eq=False)
class InTransit:
    """Messages in transit of the same kind: with the same leg, attempt, copy and hop.

    Each user who asks has at most one of these messages. Where organisations exchange models, each pair of asker and
    owner has at most one.

    leg: "request", "reply" or "submission"; "push" if a user of a protocol sends a number unasked; "probe" (question)
    and "confession" (answer) if an adversary asks every user. attempt: number of the request that a user sends, from 0.
    copy: an odd number for a duplicate that the network makes. hop: the step of a request that walks from user to user,
    from 0.
    user: (m,) the user who asks, pushes or submits, numbered from the first user of the shard (a group of whole
    clusters). For organisations, this is the number of the pair. sent_s: (m,) times at which the messages were sent, in
    seconds.
    ends: sender and receiver of each message; None for a submission, or if no fault or distance depends on the two.
    draw: gives the random numbers of the messages for a named purpose. law: the law of travel times.
    """

    leg: str
    attempt: int
    copy: int
    hop: int
    user: Integers
    sent_s: Floats
    ends: Ends | None
    draw: Callable[[str], Uniforms]
    law: LatencyLaw

    @property
    def sender(self) -> Integers:
        """The user (m,) at whom each message starts, numbered from the shard's first user."""
        return self.user if self.leg == "submission" else cast(Ends, self.ends)[0]

    @property
    def receiver(self) -> Integers:
        """The receiver (m,) of each message. -1: the learner, or nobody because the sender has no neighbour."""
        return np.full(self.user.size, LEARNER) if self.leg == "submission" else cast(Ends, self.ends)[1]

    def uniform(self, purpose: str) -> Floats:
        """One random number in [0, 1) for each message, (m,).

        Args:
            purpose: a name for what the numbers decide, such as "loss". The same name gives the same numbers again;
            different names give independent numbers.
        """
        return self.draw(purpose).at(self.user)

    def travel_s(self, purpose: str) -> Floats:
        """A travel time (m,) of each message, in seconds, drawn from the network's law of latency.

        Args:
            purpose: a name for the random numbers, such as "latency". The same name gives the same times again.
        """
        return self.law.quantile(self.uniform(purpose))

    def only(self, rows: Bools | slice | None) -> "InTransit":
        """The messages of the chosen rows, given as m booleans or as a slice; None: all messages."""
        if rows is None:
            return self
        ends = None if self.ends is None else (self.ends[0][rows], self.ends[1][rows])
        return InTransit(
            leg=self.leg, attempt=self.attempt, copy=self.copy, hop=self.hop,
            user=self.user[rows], sent_s=self.sent_s[rows], ends=ends, draw=self.draw, law=self.law,
        )  # fmt: skip

    def named(self, prefix: str) -> "InTransit":
        """These messages, with `prefix` before the name of each purpose for which random numbers are drawn.

        So two faults that use the same name get independent numbers. An empty prefix changes nothing.
        """
        draw = self.draw
        return replace(self, draw=lambda purpose: draw(prefix + purpose)) if prefix else self


class NetworkFault(Config):
    """Base of faults of messages in transit.

    A fault defines one or more of the methods `lost`, `delay_s`, `duplicated` and `corrupted`. Each method must be a
    function of the messages alone, row by row. The same message may be passed to a method again, among other messages;
    the result must then be the same. Random numbers come from `messages.uniform`. No method sees a true label.
    """

    kind: str

    @model_validator(mode="after")
    def _does_something(self) -> "NetworkFault":
        if not any(self.defines(effect) for effect in EFFECTS):
            offer = offer_of(FAULTS, self.kind)
            maker = "" if offer is None else f" of plug-in {offer}"
            raise ValueError(f"kind = {self.kind!r}{maker} defines none of {', '.join(EFFECTS)}")
        return self

    def defines(self, effect: str) -> bool:
        """Whether this fault overrides the method with the name `effect`.

        Args:
            effect: "lost", "delay_s", "duplicated" or "corrupted".
        """
        return getattr(type(self), effect) is not getattr(NetworkFault, effect)

    def lost(self, messages: InTransit) -> Bools:
        """Whether each message is lost, (m,) booleans; by default all False."""
        return np.zeros(messages.user.size, dtype=np.bool_)

    def delay_s(self, messages: InTransit) -> Floats:
        """Delays (m,), in seconds, that are added to the travel times: at least 0 and finite. By default 0.

        Users go online and offline only up to a fixed time. By this time, nearly all messages without such a delay have
        arrived. Afterwards each user stays online or offline, so messages with long delays meet users who no longer
        switch.
        """
        return np.zeros(messages.user.size)

    def duplicated(self, messages: InTransit) -> Bools:
        """Whether each message is delivered twice, (m,) booleans; by default all False.

        If a request walks from user to user, only the first message of the walk can be delivered twice. The copy has a
        travel time of its own. `messages.copy` is the odd number that the copy gets.
        """
        return np.zeros(messages.user.size, dtype=np.bool_)

    def corrupted(self, messages: InTransit, payload: NDArray[Any], num_classes: int) -> NDArray[Any]:
        """The payloads (m, ...) on arrival, with the type and shape of `payload`; by default `payload` itself.

        Args:
            messages: replies and submissions. payload: (m, ...) what was sent; a noisy label that is a whole number is
            below K. num_classes: K.
        """
        return payload


EFFECTS = ("lost", "delay_s", "duplicated", "corrupted")


class Loss(NetworkFault):
    """The key `network.loss`: each message is lost with the same probability, independently."""

    kind: Literal["loss"] = "loss"
    share: float

    def lost(self, messages: InTransit) -> Bools:
        """Whether each message is lost, (m,): independently with probability `share`."""
        return messages.uniform("loss") < self.share


class Duplication(NetworkFault):
    """The key `network.duplication`: each message is delivered twice with the same probability, independently."""

    kind: Literal["duplication"] = "duplication"
    share: float

    def duplicated(self, messages: InTransit) -> Bools:
        """Whether each message is delivered twice, (m,): independently with probability `share`."""
        return messages.uniform("duplicate") < self.share


class Reordering(NetworkFault):
    """The key `network.reordering`: each message has the same probability to be held back by one more travel time."""

    kind: Literal["reordering"] = "reordering"
    share: float

    def delay_s(self, messages: InTransit) -> Floats:
        """Delays (m,), in seconds: one more travel time with probability `share`, else 0."""
        held, delay = messages.uniform("held") < self.share, np.zeros(messages.user.size)
        delay[held] = messages.law.quantile(messages.draw("held-for").at(messages.user[held]))
        return delay


class Faults:
    """All faults of a network together.

    Args:
        faults: pairs (prefix, fault). The prefix is put before the name of each purpose for which the fault draws
        random numbers. An empty prefix marks a fault of the simulator itself, whose results are not checked.
    """

    def __init__(self, faults: Sequence[tuple[str, NetworkFault]]) -> None:
        self._of = {effect: [pair for pair in faults if pair[1].defines(effect)] for effect in EFFECTS}
        self.effects = frozenset(effect for effect, of in self._of.items() if of)
        """The names in `EFFECTS` for which at least one of the faults has a method."""
        self.ask_ends = any(prefix for prefix, _ in faults)
        """Whether a fault may depend on senders and receivers."""

    def survives(self, messages: InTransit) -> Bools | None:
        """Whether each message survives all faults, (m,) booleans; None: no fault can lose a message."""
        return ~self._any("lost", messages) if "lost" in self.effects else None

    def duplicated(self, messages: InTransit) -> Bools:
        """Whether at least one fault delivers each message twice, (m,) booleans."""
        return self._any("duplicated", messages)

    def delay(self, times: Floats, messages: InTransit) -> None:
        """Add the delays of all faults to the travel times (m,), in seconds, in place."""
        for prefix, fault in self._of["delay_s"]:
            late = _answer(fault, "delay_s", messages, prefix)
            if prefix:
                right = bool((np.isfinite(late) & (late >= 0)).all())
                require(_name(fault, "delay_s"), right, ": delay_s must give finite seconds of at least 0")
            times += late

    def corrupted(self, messages: InTransit, payload: NDArray[Any], num_classes: int) -> NDArray[Any]:
        """The payload (m, ...) on arrival, after all faults that change payloads."""
        for prefix, fault in self._of["corrupted"]:
            arriving = _answer(fault, "corrupted", messages, prefix, payload=payload, num_classes=num_classes)
            name = _name(fault, "corrupted")
            if arriving.ndim == 1 and arriving.dtype == np.uint8 and arriving.size:
                most = arriving.max()
                require(name, bool(most < num_classes), f": corrupted must give labels below {num_classes}, not {most}")
            finite = arriving.dtype.kind != "f" or bool(np.isfinite(arriving).all())
            require(name, finite, ": corrupted must give finite numbers")
            payload = arriving
        return payload

    def _any(self, effect: str, messages: InTransit) -> Bools:
        """Whether at least one fault hits each message, (m,) booleans; `effect` is "lost" or "duplicated"."""
        hits = np.zeros(messages.user.size, dtype=np.bool_)
        for prefix, fault in self._of[effect]:
            hits |= _answer(fault, effect, messages, prefix)
        return hits


def _answer(
    fault: NetworkFault, effect: str, messages: InTransit, prefix: str, *, payload: NDArray[Any] | None = None,
    num_classes: int = 0,
) -> NDArray[Any]:  # fmt: skip
    """What the method `effect` of a fault returns for m messages: an array with an entry for each message.

    A plug-in's answer is checked. It must have the right shape and type. It must also stay the same if the messages are
    given in reverse order. Otherwise the simulator's engines would differ.

    Args:
        effect: name of the method. prefix: put before the name of each purpose for which random numbers are drawn; an
        empty prefix marks the simulator's own fault. payload: (m, ...), what was sent, and num_classes: K; both only
        for "corrupted".

    Raises:
        InputError: the answer of a plug-in is wrong.
    """
    method = getattr(fault, effect)
    sent = () if payload is None else (payload.copy(), num_classes)
    answer: NDArray[Any] = method(messages.named(prefix), *sent)
    if prefix:
        # the type and shape that the answer must have
        kind: type[np.generic] = np.floating if effect == "delay_s" else np.bool_
        shape: tuple[int, ...] = (messages.user.size,)
        if payload is not None:
            kind, shape = payload.dtype.type, payload.shape
        right = isinstance(answer, np.ndarray) and answer.shape == shape and np.issubdtype(answer.dtype, kind)
        wanted = f": {effect} must give an array of {kind.__name__} {shape}, not {described(answer)}"
        require(_name(fault, effect), right, wanted)
        sent = () if payload is None else (payload[::-1].copy(), num_classes)
        again = method(messages.only(slice(None, None, -1)).named(prefix), *sent)
        wanted = f": {effect} must give a message the same answer each time, and draw only from messages.uniform"
        require(_name(fault, effect), np.array_equal(answer[::-1], again, equal_nan=True), wanted)
    return answer


def _name(fault: NetworkFault, effect: str) -> str:
    """The beginning of an error message: the plug-in, the method `effect`, and the fault's key and kind."""
    return f"{method_of(offer_of(FAULTS, fault.kind), fault, effect)}network.in_transit.kind = {fault.kind!r}"
