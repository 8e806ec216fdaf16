"""Compares models with two baselines that use no features: always predicting one class, or always one number."""

from typing import NamedTuple

import pandas as pd

from p2p_sim.measures.intervals import Mean, mean_interval


class _Model(NamedTuple):
    """One of the two models of a replicate: the private one, or the one that learns without privacy.

    prefix: the beginning of the names of its columns. name: its name in messages. advice: the end of a message about
    it.
    """

    prefix: str
    name: str
    advice: str


MODELS = (
    _Model("", "what is learned", "; smaller clusters mix fewer labels, and a larger ε takes less noise"),
    _Model("nonprivate_", "even without privacy, what is learned", "; look at the features and their scales"),
)
MAJORITY, CONSTANT_RISK, CONSTANT = "majority_error_rate", "constant_excess_risk", "constant_squared_error"
"""Columns about baselines: the error rate of the majority class, the excess risk of the best constant, and the squared
error of a constant. This last constant is the best one under a known law, and otherwise the users' mean label.
"""
ENOUGH, FEW = 5, "; with so few replicates hardly anything is clear: run more"
"""ENOUGH: with at least so many replicates, a gain that is not clearly above 0 says something about the data. FEW: the
advice for fewer replicates, from two on.
"""


class Gain(NamedTuple):
    """The gain in accuracy of a model over always predicting the majority class.

    model: which of the two models. accuracy, majority: mean accuracies over the replicates of the model and of the
    majority class. gain: mean difference of the two within replicates, with its 95% interval.
    """

    model: _Model
    accuracy: float
    majority: float
    gain: Mean


def gains(rows: pd.DataFrame) -> list[Gain]:
    """The gains in accuracy of the private, then of the non-private model over always predicting the majority class. A
    model is left out if a row lacks its error rate or the error rate of the majority class. The list is empty if the
    law is known and, in some row, no classifier can be more accurate than the majority class.

    Args:
        rows: result rows of one scenario, one for each replicate.
    """
    by_model = list[Gain]()
    for model in MODELS:
        if numbers := _numbers(rows, MAJORITY, f"{model.prefix}error_rate"):
            majority, errors = numbers
            if "bayes_error_rate" in rows and (rows["bayes_error_rate"].astype(float) >= majority - 1e-12).any():
                return []
            accuracies = 1.0 - float(errors.mean()), 1.0 - float(majority.mean())
            by_model.append(Gain(model, *accuracies, mean_interval(majority - errors)))
    return by_model


def _numbers(rows: pd.DataFrame, *names: str) -> list[pd.Series]:
    """Columns of result rows as numbers; empty if a column is missing or lacks a value."""
    if any(name not in rows or rows[name].isna().any() for name in names):
        return []
    return [rows[name].astype(float) for name in names]


def warnings_of(rows: pd.DataFrame) -> list[str]:
    """Warnings, one line each, about models of one scenario that are not clearly better than a baseline. The
    baseline is always predicting the majority class, or a constant. The list is empty if there is nothing to warn of.

    Args:
        rows: result rows of the scenario, one for each replicate.
    """
    compared = gains(rows)
    lines = [
        f"{model.name} has accuracy {accuracy:.4f}, not clearly above the {majority:.4f} of always saying the majority "
        f"class (difference {gain}){_advice(model, gain, rows)}"
        for model, accuracy, majority, gain in compared
        if not gain.above_zero
    ]
    return [*lines, *([] if compared else _riskier_than_a_constant(rows)), *_no_better_than_a_constant(rows)]


def _advice(model: _Model, gain: Mean, rows: pd.DataFrame) -> str:
    """The end of a message about a model that is not clearly better than a baseline: what to do. The private model has
    a special case: fewer than half of the requests were answered. Then the advice is to look at the network. Otherwise,
    with two to four replicates, the advice is to run more. In all other cases, the result is `model.advice`.

    Args:
        model: the private model or the one without privacy. gain: its gain over the baseline. rows: result rows of the
        scenario.
    """
    if not model.prefix and "fetches" in rows and rows["answered"].sum() < rows["fetches"].sum() / 2:
        return "; few requests were answered: look at the network"
    return FEW if 1 < gain.replicates < ENOUGH else model.advice


def _riskier_than_a_constant(rows: pd.DataFrame) -> list[str]:
    """Warnings about models with a larger mean excess risk than the best constant. A model clearly more accurate than
    the majority class gets no warning. A model is judged by this if, in some row, no model can be more accurate
    under the law than the majority class.
    """
    lines = []
    for model in MODELS:
        names = f"{model.prefix}error_rate", MAJORITY, f"{model.prefix}excess_risk", CONSTANT_RISK
        if numbers := _numbers(rows, *names):
            errors, majority, excess, constant = numbers
            # warn if the model is on average riskier, and not clearly more accurate (differences within replicates)
            riskier = mean_interval(excess - constant)
            if riskier.value > 0 and not mean_interval(majority - errors).above_zero:
                lines.append(
                    f"{model.name} has accuracy {1.0 - errors.mean():.4f}, not clearly above the "
                    f"{1.0 - majority.mean():.4f} of always saying the majority class (no model can be); the best "
                    f"constant has the smaller excess risk, {constant.mean():.4g} against {excess.mean():.4g} "
                    f"(difference {riskier})"
                )
    return lines


def _no_better_than_a_constant(rows: pd.DataFrame) -> list[str]:
    """Warnings about models of numeric labels with a squared error that is not clearly below the squared error of a
    constant.
    """
    lines = []
    for model in MODELS:
        if numbers := _numbers(rows, f"{model.prefix}squared_error", CONSTANT):
            errors, constant = numbers
            gain = mean_interval(constant - errors)
            if not gain.above_zero:
                lines.append(
                    f"{model.name} has squared error {errors.mean():.4g}, not clearly below the {constant.mean():.4g} "
                    f"of a constant{_advice(model, gain, rows)}"
                )
    return lines


def points_not_above(rows: pd.DataFrame) -> tuple[int, int]:
    """Two numbers of scenarios. The first counts scenarios whose model is not clearly more accurate than the majority
    class. The second counts all scenarios that can be judged: both accuracies are known, and no known law rules out a
    model that is more accurate than the majority class.

    The model is the private one if its accuracy is known, else the one without privacy. "Clearly" means that the 95%
    interval of the mean gain in accuracy lies above 0. With a single replicate, the gain itself must be above 0.

    Args:
        rows: result rows of several scenarios; the column "scenario" names each row's scenario.
    """
    compared = [each[0] for _, part in rows.groupby("scenario", sort=False) if (each := gains(part))]
    return sum(not first.gain.above_zero for first in compared), len(compared)
