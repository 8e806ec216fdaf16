"""The exchange over any fetch distribution, and over a *realised network*: the network of one run, as it turned out."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
