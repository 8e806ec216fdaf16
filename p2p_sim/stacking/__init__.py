"""Organisations that exchange models: private stacking and hypothesis transfer, as scikit-learn estimators."""

from typing import TYPE_CHECKING

from p2p_sim.base.packages import late

if TYPE_CHECKING:  # what type checkers and editors read
    from p2p_sim.stacking.plr import PrivateLogisticRegression
    from p2p_sim.stacking.pst import FeatureStacking, SampleStacking, TransferStacking, pphtl

__all__ = ["FeatureStacking", "PrivateLogisticRegression", "SampleStacking", "TransferStacking", "pphtl"]

__getattr__ = late(
    "p2p_sim.stacking",
    {"PrivateLogisticRegression": "plr"}
    | dict.fromkeys(("FeatureStacking", "SampleStacking", "TransferStacking", "pphtl"), "pst"),
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
