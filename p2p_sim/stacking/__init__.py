"""Organisations that exchange models: private stacking and hypothesis transfer, as scikit-learn estimators."""

from p2p_sim.stacking.plr import PrivateLogisticRegression
from p2p_sim.stacking.pst import FeatureStacking, SampleStacking
from p2p_sim.stacking.transfer import TransferStacking, pphtl

__all__ = ["FeatureStacking", "PrivateLogisticRegression", "SampleStacking", "TransferStacking", "pphtl"]
