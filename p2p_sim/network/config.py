"""What the network between the users is like."""

from pydantic import Field

from p2p_sim.config import Config
from p2p_sim.network.latency import Latency, Lognormal


class NetworkConfig(Config):
    """When users begin and how long their messages travel; every message travels independently of the others."""

    latency: Latency = Lognormal()
    """Travel time of one message: kind = "constant", "exponential" or "lognormal"."""
    start_window_s: float = Field(default=0.0, ge=0, le=1e9)
    """Users begin at independent uniform times in [0, start_window_s], seconds, 0 to 1e9; 0: all at once."""
    request_timeout_s: float | None = Field(default=None, gt=0, le=1e9)
    """A reply that arrives later than this after its request was sent is counted and dropped, seconds; absent: no
    limit. Needs the event engine."""
