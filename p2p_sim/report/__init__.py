"""The report: results of a run or a sweep as one HTML page that needs no other file."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
