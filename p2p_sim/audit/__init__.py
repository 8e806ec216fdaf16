"""Audits: attacks on label exchanges, local mechanisms, models and curators, which test the certified ε and δ."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
