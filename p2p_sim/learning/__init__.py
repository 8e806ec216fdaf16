"""Learners: how a predictor is learned from a release, and how it is judged."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
