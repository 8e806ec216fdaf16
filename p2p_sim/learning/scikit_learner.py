"""Any classifier of scikit-learn as a learner."""

import importlib
import inspect
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from p2p_sim.base.errors import InputError
from p2p_sim.learning.class_weights import class_weights
from p2p_sim.learning.learner import OwnLearner, Received
from p2p_sim.learning.logistic_regression import FittedClassifier, constant_predictor
from p2p_sim.mechanisms.outcome import Predictor, ReleaseKind

Floats = NDArray[np.float64]
Parameter = bool | int | float | str


class EstimatorConfig(OwnLearner):
    """A scikit-learn classifier with `predict_proba`, such as sklearn.ensemble.HistGradientBoostingClassifier.

    A hard label is one row; a soft label is one row for each class, with the class's share as sample weight. Negative
    weights are refused: scikit-learn's classifiers cannot take them.
    """

    kind: Literal["estimator"] = "estimator"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard", "soft")
    estimator: str = Field(default="sklearn.naive_bayes.GaussianNB", pattern=r"^sklearn\.[a-z_]+\.[A-Za-z]+$")
    """Full name of the class, sklearn.<module>.<class>."""
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    """Its parameters by name; random_state, if there is one, is 0 by default."""

    @field_validator("estimator")
    @classmethod
    def _exists(cls, name: str) -> str:
        _classifier(name)
        return name

    @model_validator(mode="after")
    def _predicts(self) -> Self:
        if not hasattr(self._model(), "predict_proba"):  # such as an SVC without probability = true
            raise ValueError(f"estimator = {self.estimator!r}: has no predict_proba with these parameters")
        return self

    @property
    def depends_on_scale(self) -> bool:
        return self.estimator.split(".")[1] not in ("tree", "ensemble", "naive_bayes", "dummy")

    def _model(self) -> Any:
        """The classifier, not yet fitted."""
        class_ = _classifier(self.estimator)
        known = inspect.signature(class_).parameters
        fixed: dict[str, Parameter] = {"random_state": 0} if "random_state" in known else {}
        try:
            return class_(**{**fixed, **self.parameters})
        except TypeError as error:
            raise ValueError(f"estimator = {self.estimator!r}: {str(error).splitlines()[0]}") from None

    def fit(self, features: NDArray[np.floating], labels: NDArray[np.uint8], num_classes: int) -> Predictor:
        """Learn from features (m, d) and true labels (m,) without privacy."""
        return self._fit(features, labels, num_classes, None)

    def learned(self, received: Received) -> Predictor:
        """Learn from a release."""
        shares = class_weights(received.release, received.num_classes, self.kind, self.accepts)
        if received.release.kind == "hard":
            return self._fit(received.rows, received.release.payload.astype(np.uint8), received.num_classes, None)
        row, label = np.nonzero(shares)
        return self._fit(received.rows[row], label, received.num_classes, shares[row, label])

    def _fit(
        self, features: NDArray[np.floating], labels: NDArray[np.integer], num_classes: int, weights: Floats | None
    ) -> Predictor:
        present = np.unique(labels)
        if present.size < 2:
            return constant_predictor(present, num_classes)
        model = self._model()
        try:
            model.fit(features, labels) if weights is None else model.fit(features, labels, sample_weight=weights)
            model.predict_proba(features[:1])  # some refuse only here, such as more neighbours than rows
        except (TypeError, ValueError) as error:
            raise InputError(f"learner.estimator = {self.estimator!r}: {str(error).splitlines()[0]}") from None
        return FittedClassifier(model, num_classes)


def _classifier(name: str) -> Any:
    """The class of that name.

    Raises:
        ValueError: there is none, or it predicts no probabilities.
    """
    module, _, last = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError):
        raise ValueError("names no class of scikit-learn") from None
    from sklearn.base import ClassifierMixin

    if not (isinstance(found, type) and issubclass(found, ClassifierMixin) and hasattr(found, "predict_proba")):
        raise ValueError("must be a classifier with predict_proba")
    return found
