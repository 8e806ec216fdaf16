"""The network between users: overlays (who may ask whom), travel times, times online, message faults, and a clock."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
