"""Measures of how useful a release is: heterogeneity, risks and intervals."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
