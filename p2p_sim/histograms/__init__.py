"""Histogram classifiers and density estimates that are private and consistent for every law (Bousquet et al. 2022)."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
