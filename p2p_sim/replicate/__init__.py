"""One replicate: one repetition of a scenario's simulation, which gives one row of results."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
