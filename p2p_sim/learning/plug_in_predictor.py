"""The predictor of a plug-in: what it answers is looked at before anything is measured with it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.checked_values import described, is_array, misfit, require
from p2p_sim.base.plugins import Offer, method_of
from p2p_sim.learning.ridge import LinearValues
from p2p_sim.mechanisms.outcome import ByCluster, Predictor

_OFF = 1e-3
"""By how much probabilities may differ from a sum of 1: rounding in single precision."""


@dataclass(frozen=True)
class CheckedPredictor:
    """A predictor whose every answer must be probabilities.

    offer: whose it is. num_classes: K.
    """

    predictor: Predictor
    offer: Offer
    num_classes: int

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of the features (n, d).

        Raises:
            InputError: the predictor gives something else.
        """
        found: Any = self.predictor.probabilities(features)
        method, shape = method_of(self.offer, self.predictor, "probabilities"), (len(features), self.num_classes)
        numbers = f"must give an array of floating-point numbers {shape}, not {described(found)}"
        require(method, is_array(found, "f", shape), numbers)
        right = np.isfinite(found).all() and (found >= -_OFF).all() and (np.abs(found.sum(axis=1) - 1) <= _OFF).all()
        require(method, bool(right), "must give probabilities: finite, at least 0, each row with the sum 1")
        return found  # type: ignore[no-any-return]


def checked_predictor(predictor: Any, offer: Offer | None, learned: tuple[object, str], num_classes: int) -> Predictor:
    """A predictor of a plug-in, checked whenever it is asked; one of the simulator's own kinds as it is.

    Args:
        predictor: what was learned. offer: whose kind learned it; None: the simulator's own. learned: the object whose
            method gave it, and the name of the method. num_classes: K.

    Raises:
        InputError: it is no predictor.
    """
    if offer is None:
        return predictor  # type: ignore[no-any-return]
    if isinstance(predictor, ByCluster):
        parts = predictor.predictors.items()
        return ByCluster({c: checked_predictor(part, offer, learned, num_classes) for c, part in parts})
    if isinstance(predictor, LinearValues):
        finite = bool(np.isfinite(predictor.weights).all() and np.isfinite(predictor.intercept))
        require(method_of(offer, *learned), finite, "must give finite weights")
        return predictor
    wanted = f"must give a predictor with a method probabilities, not {type(predictor).__name__}"
    require(method_of(offer, *learned), callable(getattr(predictor, "probabilities", None)), wanted)
    wrong = misfit(type(predictor), Predictor)
    require(method_of(offer, *learned), not wrong, f"{type(predictor).__name__}.{wrong}")
    return CheckedPredictor(predictor, offer, num_classes)
