"""Gossip averaging, a negative case: users average noisy labels among themselves, and there is no learner.

The first number that a user sends is her noisy label, so a peer attains ε₀. Later numbers are averages of noisy labels
that are not rounded, from which all of them can often be computed. Nothing is amplified by there being no server.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import Field

from p2p_sim.base.errors import InputError
from p2p_sim.exchange.protocol import Me, Protocol, Request
from p2p_sim.mechanisms.protocol_mechanism import ProtocolConfig


@dataclass
class GossipAveraging(Protocol):
    """Protocol: each user repeatedly sends her average to a random peer, who replaces her own by the mean of both.

    rounds: numbers that each user sends. every_s: seconds between two of them. averages: current average by user.
    """

    rounds: int
    every_s: float
    averages: dict[int, float] = field(default_factory=dict)

    def user(self, me: Me) -> Any:
        for _ in range(self.rounds):
            peer = me.random_peer()
            if peer is not None:
                me.send(peer, self.averages.get(me.number, float(me.noisy_label)))
            yield me.wait(self.every_s)

    def answer(self, me: Me, request: Request) -> int | None:
        if request.payload is not None:
            own = self.averages.get(me.number, float(me.noisy_label))
            self.averages[me.number] = 0.5 * (own + request.payload)
        return None


class GossipAveragingConfig(ProtocolConfig):
    """Users average their noisy labels among themselves; nothing is submitted to a learner."""

    kind: Literal["gossip_averaging"] = "gossip_averaging"
    described: ClassVar[str] = "gossip averaging among users, without a learner"
    rounds: int = Field(default=10, ge=1, le=1000)
    """Numbers that each user sends, 1 to 1,000."""
    every_s: float = Field(default=0.5, gt=0, le=1e9)
    """Time between two of them, seconds, above 0 and at most 1e9."""

    def check(self, num_classes: int) -> None:
        super().check(num_classes)
        if num_classes != 2:
            raise InputError(f"mechanism.kind = 'gossip_averaging': averages labels of two classes, not {num_classes}")

    def protocol(self) -> GossipAveraging:
        return GossipAveraging(self.rounds, self.every_s)
