"""A protocol of one's own, for p2p-sim."""

from typing import Any, ClassVar, Literal

from p2p_sim import extend


class SecondOpinion(extend.Protocol):
    """Ask two random peers, and submit their label if they agree."""

    def user(self, me: extend.Me) -> Any:
        first = yield me.ask()
        second = yield me.ask()
        if first is not None and second is not None and first.label == second.label:
            me.submit(first)


class SecondOpinionConfig(extend.ProtocolConfig):
    """Submit a label that two peers share."""

    kind: Literal["second_opinion"] = "second_opinion"
    described: ClassVar[str] = "an exchange in which two peers must agree"

    def protocol(self) -> SecondOpinion:
        return SecondOpinion()
