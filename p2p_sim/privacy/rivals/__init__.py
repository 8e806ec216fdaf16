"""Accountants of all mechanisms other than the label exchange, and bounds of exchanges that use these accountants."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
