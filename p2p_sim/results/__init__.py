"""Results on disk: rows, manifests, figures and exports."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
