"""A network fault of one's own, for p2p-sim."""

from typing import Any, Literal

from pydantic import Field

from p2p_sim import extend


class JammedConfig(extend.NetworkFault):
    """Somebody jams the network for a while: of the messages sent in that time, a share is lost."""

    kind: Literal["jammed"] = "jammed"
    from_s: float = Field(ge=0)
    """When the time begins, seconds, at least 0."""
    for_s: float = Field(gt=0)
    """How long it lasts, seconds, above 0."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Probability that a message sent in that time is lost, above 0 and at most 1."""

    def lost(self, messages: extend.InTransit) -> Any:
        since = messages.sent_s - self.from_s
        return (since >= 0) & (since < self.for_s) & (messages.uniform("jammed") < self.share)
