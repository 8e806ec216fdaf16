"""The label exchange in one cluster: exact values, certified bounds, the paper's bounds."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
