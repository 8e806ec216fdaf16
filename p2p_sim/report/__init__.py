"""The report: rows, a manifest and failures as one HTML page that needs nothing else."""

from p2p_sim.base.late_names import late

__getattr__, __dir__, __all__ = late(__name__, __file__)
