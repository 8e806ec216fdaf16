"""How the processes of users send and receive messages, each message an event of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Streams
from p2p_sim.exchange.adversaries import Roles
from p2p_sim.exchange.exchange_run import ExchangeRun
from p2p_sim.exchange.transcript import REPLY, REQUEST, SUBMISSION
from p2p_sim.network import Clock, Network
from p2p_sim.population import Shard

SEEN_AS = {
    "request": REQUEST, "push": REQUEST, "probe": REQUEST, "reply": REPLY, "confession": REPLY,
    "submission": SUBMISSION,
}  # fmt: skip
"""The kind of a message on a leg, as an observer sees it."""


class SingleMessages(ExchangeRun):
    """A shard's run whose messages are sent and delivered one by one, at their times on a clock.

    Args:
        shard, network, streams, roles, sampling_rate, payload_bytes, record: as in `ExchangeRun`.
        label_type: the type of a label in an array. num_classes: K.
    """

    def __init__(
        self, shard: Shard, network: Network, streams: Streams, label_type: np.dtype[Any], *, roles: Roles | None,
        sampling_rate: float, payload_bytes: int, record: bool, num_classes: int,
    ) -> None:  # fmt: skip
        super().__init__(
            shard, network, streams, roles=roles, sampling_rate=sampling_rate, payload_bytes=payload_bytes,
            record=record,
        )  # fmt: skip
        self.clock, self.label_type, self._num_classes = Clock(), label_type, num_classes

    def send_message(
        self, leg: str, sender: int, receiver: int | None, arrive: Callable[[float], None], *, owner: int,
        earlier: int = 0, attempt: int = 0, copy: int = 0, hop: int = 0, payload: float = -1,
    ) -> None:  # fmt: skip
        """Send one message, unless the network loses it: at its time of arrival `arrive` is called with its payload, if
        the receiver is online.

        Args:
            leg: kind of message: "request", "reply", "submission", "push" (sent unasked), or an adversary's "probe"
            and the answer to it, "confession". sender: a user. receiver: a user; None: the learner. arrive: handles
            the payload. owner: the user whose request or submission the message belongs to. earlier: how many
            numbers the owner's earlier requests have used; `earlier` + `attempt` is the number of the message's
            random draws. attempt: number of the request, from 0; of a submission, its number; -1: sent unasked.
            copy: number of the copy; odd at hop 0: a duplicate by the network, which exists in some cases only.
            hop: step of a request's random walk, from 0. payload: the label or number carried; -1: none.
        """
        # loss and travel time come from the functions that the batched engine uses, called for one message
        j, counts, first = self.journey, self.ledger.counts, not (copy % 2 and hop == 0)
        now, ends = np.array([self.clock.now]), None if receiver is None else (single(sender), single(receiver))
        message = j.message(leg, single(owner), now, earlier + attempt, copy=copy, hop=hop, ends=ends)
        message = message.only(None if first else j.exists(message))
        if not message.user.size:
            return
        counts["messages_sent" if first else "messages_duplicated"] += 1
        counts["bytes_sent"] += j.bytes[leg] * first
        goes = j.faults.survives(message)
        arriving = message.only(goes)
        arrives = arriving.sent_s + j.travel(arriving)
        if self.ledger.records:
            self.ledger.sent(SEEN_AS[leg], replace(message, attempt=attempt), goes, arrives, self.source)
        if not arrives.size:
            counts["messages_lost"] += 1
            return
        if isinstance(payload, int) and payload >= 0 and "corrupted" in j.faults.effects:
            label = np.array([payload], dtype=self.label_type)
            payload = int(j.faults.corrupted(message, label, self._num_classes)[0])

        def meet() -> None:
            if receiver is None or self.is_online(receiver):
                arrive(payload)
            else:
                counts["messages_undelivered"] += 1

        self.clock.at(float(arrives[0]), meet)

    def deliver(self, kind: int, sender: int, receiver: int | None, label: float = -1, late: bool = False) -> None:
        """Count one delivered message and, if messages are kept, note it, at the present time of the simulation.

        Args:
            kind: 1 request, 2 reply, 3 submission. sender: a user, numbered from the shard's first. receiver: a
            user; None: the learner. label: what it carries; -1: nothing. late: whether it is a reply that came
            after its request's time-out, which the receiver drops.
        """
        to = None if receiver is None else single(receiver)
        labels = None if label < 0 else np.array([label])
        now = np.array([self.clock.now])
        self.ledger.delivered(kind, now, single(sender), to, label=labels, late=np.array([late]))

    def is_online(self, user: int) -> bool:
        """Whether a user is online at the clock's time."""
        online = self.journey.online(single(user), np.array([self.clock.now]))
        return online is None or bool(online[0])


def single(user: int) -> NDArray[np.int32]:
    """An array (1,) of one user, as `MessageTiming` takes users."""
    return np.array([user], dtype=np.int32)
