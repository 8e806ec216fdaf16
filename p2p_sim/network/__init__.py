"""The network between users: overlays, travel times, periods online, faults of messages, and a simulation's clock."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
