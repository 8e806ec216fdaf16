"""Compares models with baselines that use no features: always predicting one class, or one number."""

from typing import NamedTuple

import pandas as pd

from p2p_sim.measures.intervals import Mean, mean_interval


class _Model(NamedTuple):
    """One of the two models of a replicate: the private one, or the one that learns without privacy.

    prefix: the beginning of the names of the model's columns. name: the model's name in messages. advice: the end of a
    message, which says what to do.
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
error of a constant, which is the best one under a known law and else the users' mean label."""
ENOUGH, FEW = 5, "; with so few replicates hardly anything is clear: run more"
"""Smallest number of replicates at which a gain that is not clearly above 0 says something about the data; and the
advice that is given if there are fewer replicates, but more than one.
"""


class Gain(NamedTuple):
    """The gain in accuracy of a model over always predicting the majority class.

    model: which of the two models. accuracy, majority: mean accuracies of the model and of the majority class over the
    replicates. gain: mean difference of the two accuracies within replicates, with its 95% interval.
    """

    model: _Model
    accuracy: float
    majority: float
    gain: Mean


def gains(rows: pd.DataFrame) -> list[Gain]:
    """Compares the private and the non-private model with always predicting the majority class. For each model the
    result holds its mean accuracy, the mean accuracy of the majority class, and the mean difference of the two within
    replicates, with its 95% interval.

    A model is left out if its error rate or that of the majority class is missing in a row. The list is empty if the
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
    """Warnings, one line each, about models of one scenario that are not clearly better than a baseline.

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
    """The end of a message about a model that is not clearly better than a baseline: what to do about it. For the
    private model, if fewer than half of the requests were answered, it says to look at the network. Otherwise, if there
    are two to four replicates, it says to run more. In all other cases it is the advice that belongs to the model.

    Args:
        model: the private model or the one without privacy. gain: its gain over the baseline, with the number of
        replicates. rows: result rows of the scenario.
    """
    if not model.prefix and "fetches" in rows and rows["answered"].sum() < rows["fetches"].sum() / 2:
        return "; few requests were answered: look at the network"
    return FEW if 1 < gain.replicates < ENOUGH else model.advice


def _riskier_than_a_constant(rows: pd.DataFrame) -> list[str]:
    """Warnings about models with a larger excess risk than the best constant, for laws under which no model can be more
    accurate than the majority class.
    """
    lines = []
    for model in MODELS:
        names = f"{model.prefix}error_rate", MAJORITY, f"{model.prefix}excess_risk", CONSTANT_RISK
        if numbers := _numbers(rows, *names):
            errors, majority, excess, constant = numbers
            # warn if the model is not clearly more accurate, and on average riskier; differences are taken within
            # replicates
            riskier = mean_interval(excess - constant)
            if riskier.value > 0 and not mean_interval(majority - errors).above_zero:
                lines.append(
                    f"{model.name} has accuracy {1.0 - errors.mean():.4f}, not clearly above the "
                    f"{1.0 - majority.mean():.4f} of always saying the majority class, and nothing can be; the best "
                    f"constant has the smaller excess risk, {constant.mean():.4g} against {excess.mean():.4g} "
                    f"(difference {riskier})"
                )
    return lines


def _no_better_than_a_constant(rows: pd.DataFrame) -> list[str]:
    """Warnings about models of numeric labels whose squared error is not clearly below that of a constant, the best one
    under a known law and else the users' mean label.
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
    """Counts scenarios. The first number counts those whose model is not clearly more accurate than always predicting
    the majority class. The second counts all that can be judged: both accuracies are known and, as far as the law is
    known, a classifier can be more accurate than the majority class.

    The model is the private one if its accuracy is known, else the one without privacy. It is clearly more accurate if
    the 95% interval of its mean gain in accuracy lies above 0. For a single replicate, it is clearly more accurate if
    the gain is above 0.

    Args:
        rows: result rows of several scenarios; the column "scenario" names each row's scenario.
    """
    compared = [each[0] for _, part in rows.groupby("scenario", sort=False) if (each := gains(part))]
    return sum(not first.gain.above_zero for first in compared), len(compared)
