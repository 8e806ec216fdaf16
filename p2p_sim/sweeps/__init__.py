"""Many experiments: points from the axes of a sweep, parallel runs, and rows that are kept at once."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
