"""Learners with any classifier of scikit-learn, and with boosted trees on unbiased weights of noisy labels."""

import importlib
import inspect
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from p2p_sim.base import InputError
from p2p_sim.learning.learner import Floats, Learner, Loss, labelled_rows
from p2p_sim.learning.logistic_regression import FittedClassifier, constant_predictor
from p2p_sim.learning.noise_correction import UnbiasedLearner
from p2p_sim.mechanisms import Predictor, ReleaseKind, to_simplex

Parameter = bool | int | float | str


class EstimatorConfig(Learner):
    """A scikit-learn classifier with `predict_proba`, such as sklearn.ensemble.HistGradientBoostingClassifier.

    A hard label is one row. A soft label is one row for each class, with the class's share as sample weight. Negative
    weights are refused, because scikit-learn's classifiers cannot take negative weights.
    """

    kind: Literal["estimator"] = "estimator"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard", "soft")
    estimator: str = Field(default="sklearn.naive_bayes.GaussianNB", pattern=r"^sklearn\.[a-z_]+\.[A-Za-z]+$")
    """Full name of the class, sklearn.<module>.<class>."""
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    """Parameters of the class by name. If the class takes a random_state, the default is 0."""

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
        """A new classifier of the configured class with the configured parameters, not yet fitted. If the class takes a
        random_state and none is configured, 0 is used.
        """
        class_ = _classifier(self.estimator)
        accepted = inspect.signature(class_).parameters
        fixed: dict[str, Parameter] = {"random_state": 0} if "random_state" in accepted else {}
        try:
            return class_(**{**fixed, **self.parameters})
        except TypeError as error:
            raise ValueError(f"estimator = {self.estimator!r}: {str(error).splitlines()[0]}") from None

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The scikit-learn classifier fitted to m labels. A label gives one training row for each class whose weight is
        not 0, with this weight as sample weight. If all weights are 1, the classifier gets no sample weights. If only
        one class occurs, this class always gets probability 1. Without labels, all classes get the same probability.

        Args:
            features: (m, d), one row for each label. weights: (m, K), the weight of each of the K classes in each
            label, at least 0. A hard label has weight 1 for its class.
        """
        rows, labels, count = labelled_rows(features, weights)
        present = np.unique(labels)
        if present.size < 2:
            return constant_predictor(present, weights.shape[1])
        model = self._model()
        try:
            model.fit(rows, labels) if count is None else model.fit(rows, labels, sample_weight=count)
            model.predict_proba(rows[:1])  # some classifiers fail only here, such as with more neighbours than rows
        except (TypeError, ValueError) as error:
            raise InputError(f"learner.estimator = {self.estimator!r}: {str(error).splitlines()[0]}") from None
        return FittedClassifier(model, weights.shape[1])


def _classifier(name: str) -> Any:
    """The class of scikit-learn with the given full name, such as sklearn.naive_bayes.GaussianNB.

    Raises:
        ValueError: there is no such class, or it is not a classifier with predicted probabilities.
    """
    module, _, last = name.rpartition(".")
    try:
        class_ = getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError):
        raise ValueError("names no class of scikit-learn") from None
    from sklearn.base import ClassifierMixin

    if not (isinstance(class_, type) and issubclass(class_, ClassifierMixin) and hasattr(class_, "predict_proba")):
        raise ValueError("must be a classifier with predict_proba")
    return class_


class BoostedTreesConfig(UnbiasedLearner):
    """scikit-learn's histogram gradient boosting: for each class, a squared-loss regression of its unbiased weight.

    The mean of this weight over the noise is 1 for the true label and 0 for the others. So the regression estimates
    p(y|x). If each label comes from a random user of the cluster, the regression estimates the mean of p(y|x) over the
    cluster. The predicted distribution is the nearest one to the K estimates. A class may have probability 0 there, so
    only the order of the classes counts. A noise law without an inverse is refused.
    """

    kind: Literal["boosted_trees"] = "boosted_trees"
    loss: ClassVar[Loss] = "zero_one"
    depends_on_scale: ClassVar[bool] = False
    trees: int = Field(default=100, ge=1, le=10_000)
    """Trees of each class, 1 to 10,000. The number is fixed beforehand: a stop that depends on true labels would cost
    privacy.
    """
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    """Share of a tree's prediction that is added, above 0 and at most 1."""
    leaves: int = Field(default=15, ge=2, le=1_000)
    """Largest number of leaves of a tree, 2 to 1,000."""
    users_in_leaf: int = Field(default=20, ge=1)
    """Smallest number of labels in a leaf, at least 1."""

    def fit(self, features: NDArray[np.floating], weights: Floats) -> Predictor:
        """The predictor learned by a regression of each class's weight on the features. With two classes, only the
        second class's weight is regressed. The predicted probabilities are the distribution nearest to the K
        estimates. With fewer than two labels, all classes get the same probability.

        Args:
            features: (m, d). weights: (m, K) unbiased weights of the classes in each label; rows sum to 1.
        """
        from sklearn.ensemble import HistGradientBoostingRegressor

        if len(features) < 2:  # too few rows for scikit-learn's histograms
            return constant_predictor(np.zeros(0, np.int64), weights.shape[1])
        targets = weights if weights.shape[1] > 2 else weights[:, 1:]
        models = (
            HistGradientBoostingRegressor(
                max_iter=self.trees, learning_rate=self.learning_rate, max_leaf_nodes=self.leaves,
                min_samples_leaf=self.users_in_leaf, early_stopping=False, random_state=0,
            ).fit(features, target)
            for target in targets.T
        )  # fmt: skip
        return _Regressed(tuple(models))


@dataclass(frozen=True)
class _Regressed:
    """A predictor from regressions of the unbiased weights of classes; with two classes, only the second has a
    regression.
    """

    models: tuple[Any, ...]

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        numbers = np.stack([model.predict(features) for model in self.models], axis=1)
        return to_simplex(numbers if len(self.models) > 1 else np.hstack([1.0 - numbers, numbers]))
