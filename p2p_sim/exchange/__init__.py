"""The exchange of labels among peers, as messages and as one draw."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
