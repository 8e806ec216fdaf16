"""Private histogram classifiers and density estimates, consistent for every law of the data (Bousquet et al. 2022)."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
