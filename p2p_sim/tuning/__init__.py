"""Searching the settings of a scenario for the best one that meets a goal."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
