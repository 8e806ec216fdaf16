"""Audits: attacks on the simulated exchange, small and at full size, on local mechanisms, models and a curator."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
