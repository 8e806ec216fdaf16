"""Sends and delivers messages between users' processes; each message is an event of its own."""

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
"""For each kind of message in the simulation, the kind that an observer sees."""


class SingleMessages(ExchangeRun):
    """A run of one shard (a group of whole clusters). Messages are sent and delivered one by one.

    Args:
        shard, network, streams, roles, sampling_rate, payload_bytes, record: as in `ExchangeRun`. label_type: NumPy's
        type of a label. num_classes: number of classes.
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
        """Send one message. On arrival, `arrive` is called with the payload, unless the network loses the message or
        the receiver is then offline. Faults of the network may change the payload.

        Args:
            leg: kind of message: "request", "reply", "submission", "push" (sent unasked), "probe" or "confession". An
            adversary who asks everybody sends probes; a confession answers a probe. sender: a user. receiver: a user;
            None: the learner. arrive: handles the payload on arrival. owner: the user to whose request or submission
            the message belongs. Her random numbers decide on loss and travel time. earlier: how many indices of random
            numbers the owner reserved before this question. For a message sent unasked, it is 1 plus the message's
            number. The message uses index `earlier` + `attempt`. attempt: number of the request for a question, from 0.
            For a submission, it is the submission's number; for a message sent unasked, -1. copy: number of the copy.
            An odd copy with hop 0 is a duplicate, which is sent only if the network duplicates. hop: number of the step
            of a request's random walk, from 0. payload: the label or number carried; -1: none.
        """
        # the batched engine's functions for loss and travel time take arrays; here each array has one message
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
        """Count one message that is delivered now. If messages are kept, note the message, too.

        Args:
            kind: 1 request, push or probe; 2 reply or confession; 3 submission. sender: index of a user in the shard.
            receiver: index of a user in the shard; None: the learner. label: the label or number carried; -1: none.
            late: whether the message is a reply after the time-out of its request. The receiver drops a late reply.
        """
        to = None if receiver is None else single(receiver)
        labels = None if label < 0 else np.array([label])
        now = np.array([self.clock.now])
        self.ledger.delivered(kind, now, single(sender), to, label=labels, late=np.array([late]))

    def is_online(self, user: int) -> bool:
        """Whether a user (her index in the shard) is online at the present time of the simulation."""
        online = self.journey.online(single(user), np.array([self.clock.now]))
        return online is None or bool(online[0])


def single(user: int) -> NDArray[np.int32]:
    """An array (1,) with the number of one user, for functions that take arrays of users."""
    return np.array([user], dtype=np.int32)
