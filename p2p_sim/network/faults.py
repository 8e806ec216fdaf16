"""Faults of messages in transit: their interface, and three faults with keys of their own (loss, duplication,
reordering).
"""

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
    """Messages in transit of the same kind (leg, attempt, copy and hop), at most one for each user who asks (or, where
    organisations exchange models, for each pair of asker and owner).

    leg: "request", "reply" or "submission"; "push" if a user of a protocol sends a number unasked; "probe" (question)
    and "confession" (answer) if an adversary asks every user. attempt: number of the request that a user sends, from 0.
    copy: an odd number for a duplicate that the network makes. hop: if a request walks from user to user, the step of
    the walk, from 0.
    user: (m,) the user who asks, pushes or submits, numbered from the first user of the shard, a group of whole
    clusters; for organisations, the number of the pair. sent_s: (m,) when the messages were sent, seconds.
    ends: sender and receiver, if both are users and a fault or distance may depend on them. draw: gives the random
    numbers of the messages for a named purpose. law: the law of travel times.
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
        """The user who sends each message, (m,), numbered from the shard's first user. For a submission it is the user
        who submits; for a request or reply it is the user at whom the message starts.
        """
        return self.user if self.leg == "submission" else cast(Ends, self.ends)[0]

    @property
    def receiver(self) -> Integers:
        """The receiver of each message, (m,); -1: the learner, or nobody because the sender has no neighbour."""
        return np.full(self.user.size, LEARNER) if self.leg == "submission" else cast(Ends, self.ends)[1]

    def uniform(self, purpose: str) -> Floats:
        """One random number in [0, 1) for each message, (m,).

        Args:
            purpose: a name for what the numbers decide, such as "loss". The same name gives the same numbers again;
            different names give independent numbers.
        """
        return self.draw(purpose).at(self.user)

    def travel_s(self, purpose: str) -> Floats:
        """A travel time of each message, (m,), seconds, drawn from the network's law of latency.

        Args:
            purpose: a name, such as "latency", that selects the random numbers; the same name gives the same times
            again.
        """
        return self.law.quantile(self.uniform(purpose))

    def only(self, rows: Bools | slice | None) -> "InTransit":
        """The messages of the chosen rows, given as m booleans or as a slice; None: all of them."""
        if rows is None:
            return self
        ends = None if self.ends is None else (self.ends[0][rows], self.ends[1][rows])
        return InTransit(
            leg=self.leg, attempt=self.attempt, copy=self.copy, hop=self.hop,
            user=self.user[rows], sent_s=self.sent_s[rows], ends=ends, draw=self.draw, law=self.law,
        )  # fmt: skip

    def named(self, prefix: str) -> "InTransit":
        """These messages, but with random numbers of their own: `prefix` is put before the name of each purpose for
        which numbers are drawn. So two faults that use the same name get independent numbers. An empty prefix changes
        nothing.
        """
        draw = self.draw
        return replace(self, draw=lambda purpose: draw(prefix + purpose)) if prefix else self


class NetworkFault(Config):
    """The base of faults of messages in transit. A fault defines one or more of the methods `lost`, `delay_s`,
    `duplicated` and `corrupted`.

    Each method must be a function of the messages alone, row by row. A message may be passed to it more than once,
    together with different other messages, and must get the same result each time. Random numbers come from
    `messages.uniform`. No method sees a true label.
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
        """Whether this fault has the given effect on messages, that is, overrides the method of this name.

        Args:
            effect: "lost", "delay_s", "duplicated" or "corrupted".
        """
        return getattr(type(self), effect) is not getattr(NetworkFault, effect)

    def lost(self, messages: InTransit) -> Bools:
        """Which messages are lost, (m,)."""
        return np.zeros(messages.user.size, dtype=np.bool_)

    def delay_s(self, messages: InTransit) -> Floats:
        """Delays (m,), seconds, at least 0 and finite, that are added to the messages' travel times. By default 0.

        Users go online and offline only up to a fixed time. This time is chosen so that nearly all messages without
        such a delay have arrived by then. After this time each user stays online or offline, so messages with long
        delays meet users who no longer switch.
        """
        return np.zeros(messages.user.size)

    def duplicated(self, messages: InTransit) -> Bools:
        """Which messages are delivered twice, (m,).

        If a request walks from user to user over several messages, only the first message can be delivered twice. The
        copy has a travel time of its own. `messages.copy` is the number that the copy gets: an odd number.
        """
        return np.zeros(messages.user.size, dtype=np.bool_)

    def corrupted(self, messages: InTransit, payload: NDArray[Any], num_classes: int) -> NDArray[Any]:
        """The payloads with which the messages arrive, (m, ...), of the type and shape of `payload`.

        Args:
            messages: replies and submissions. payload: (m, ...) what was sent; if noisy labels are whole numbers, they
            are below K. num_classes: K.
        """
        return payload


EFFECTS = ("lost", "delay_s", "duplicated", "corrupted")


class Loss(NetworkFault):
    """The key `network.loss`: each message is lost with the same probability, independently."""

    kind: Literal["loss"] = "loss"
    share: float

    def lost(self, messages: InTransit) -> Bools:
        """Which messages are lost, (m,): each with probability `share`, independently."""
        return messages.uniform("loss") < self.share


class Duplication(NetworkFault):
    """The key `network.duplication`: each message is delivered twice with the same probability, independently."""

    kind: Literal["duplication"] = "duplication"
    share: float

    def duplicated(self, messages: InTransit) -> Bools:
        """Which messages are delivered twice, (m,): each with probability `share`, independently."""
        return messages.uniform("duplicate") < self.share


class Reordering(NetworkFault):
    """The key `network.reordering`: each message has the same probability to be held back by one more travel time."""

    kind: Literal["reordering"] = "reordering"
    share: float

    def delay_s(self, messages: InTransit) -> Floats:
        """Delays (m,), seconds: one more travel time with probability `share`, else 0."""
        held, delay = messages.uniform("held") < self.share, np.zeros(messages.user.size)
        delay[held] = messages.law.quantile(messages.draw("held-for").at(messages.user[held]))
        return delay


class Faults:
    """All faults of a network together.

    Args:
        faults: pairs (prefix, fault); the prefix is put before the name of each purpose for which the fault draws
            random numbers. An empty prefix marks a fault of the simulator itself, whose results are not checked.
    """

    def __init__(self, faults: Sequence[tuple[str, NetworkFault]]) -> None:
        self._of = {effect: [pair for pair in faults if pair[1].defines(effect)] for effect in EFFECTS}
        self.effects = frozenset(effect for effect, of in self._of.items() if of)
        """The names in `EFFECTS` for which at least one of the faults has a method."""
        self.ask_ends = any(prefix for prefix, _ in faults)
        """Whether a fault may depend on who sends and who receives."""

    def survives(self, messages: InTransit) -> Bools | None:
        """Which messages are lost by no fault, (m,); None: no message is lost."""
        return ~self._any("lost", messages) if "lost" in self.effects else None

    def duplicated(self, messages: InTransit) -> Bools:
        """Which messages some fault delivers twice, (m,)."""
        return self._any("duplicated", messages)

    def delay(self, times: Floats, messages: InTransit) -> None:
        """Add the delays of all faults to travel times (m,) in place, seconds."""
        for prefix, fault in self._of["delay_s"]:
            late = _answer(fault, "delay_s", messages, prefix)
            if prefix:
                right = bool((np.isfinite(late) & (late >= 0)).all())
                require(_name(fault, "delay_s"), right, ": delay_s must give finite seconds of at least 0")
            times += late

    def corrupted(self, messages: InTransit, payload: NDArray[Any], num_classes: int) -> NDArray[Any]:
        """The payload (m, ...) as it arrives, after all faults that change payloads have changed it."""
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
        """Which messages are hit by at least one fault, (m,).

        Args:
            effect: "lost" or "duplicated", the name of the method that each fault is asked for. messages: m messages.
        """
        hits = np.zeros(messages.user.size, dtype=np.bool_)
        for prefix, fault in self._of[effect]:
            hits |= _answer(fault, effect, messages, prefix)
        return hits


def _answer(
    fault: NetworkFault, effect: str, messages: InTransit, prefix: str, *, payload: NDArray[Any] | None = None,
    num_classes: int = 0,
) -> NDArray[Any]:  # fmt: skip
    """What one method of a fault returns for m messages: an array with an entry for each message.

    If the fault comes from a plug-in, its answer is checked. It must have the right shape and type. It must also be the
    same when the messages are given in reverse order: an answer that depends on other messages, or on random numbers of
    the plug-in's own, would differ between the simulator's engines.

    Args:
        effect: name of the method: "lost", "delay_s", "duplicated" or "corrupted". prefix: put before the name of each
        purpose for which random numbers are drawn; empty: the fault is the simulator's own. payload: (m, ...), what was
        sent, and num_classes: K; both only for "corrupted".

    Raises:
        InputError: the answer of a plug-in is not as it must be.
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
        wanted = f": {effect} must give a message the same each time, with random numbers of messages.uniform alone"
        require(_name(fault, effect), np.array_equal(answer[::-1], again, equal_nan=True), wanted)
    return answer


def _name(fault: NetworkFault, effect: str) -> str:
    """The beginning of an error message about a fault of a plug-in. It names the plug-in and its method, and has the
    scenario's key `network.in_transit.kind` with the fault's kind.

    Args:
        effect: name of the method.
    """
    return f"{method_of(offer_of(FAULTS, fault.kind), fault, effect)}network.in_transit.kind = {fault.kind!r}"
