"""Compares models with baselines that use no features: always predicting one class, or one number."""

from typing import NamedTuple

import pandas as pd

from p2p_sim.measures.intervals import Mean, mean_interval


class _Model(NamedTuple):
    """One of the two models of a replicate: the private one, or the one that learns without privacy.

    prefix: the beginning of the names of its columns. name: in messages. advice: the end of a message.
    """

    prefix: str
    name: str
    advice: str


MODELS = (
    _Model("", "what is learned", "; smaller clusters mix fewer labels, and a larger ε takes less noise"),
    _Model("nonprivate_", "even without privacy, what is learned", "; look at the features and their scales"),
)
MAJORITY, CONSTANT_RISK, CONSTANT = "majority_error_rate", "constant_excess_risk", "constant_squared_error"
"""Columns of baselines: error rate of the majority class, and excess risk and squared error of the best constant."""
ENOUGH, FEW = 5, "; with so few replicates hardly anything is clear: run more"
"""Number of replicates from which a missing gain is evidence about the data, and the advice for fewer replicates."""


class Gain(NamedTuple):
    """The gain in accuracy of a model over always predicting the majority class, as a mean over replicates.

    accuracy, majority: mean accuracies of the model and of the majority class. gain: mean of paired differences.
    """

    model: _Model
    accuracy: float
    majority: float
    gain: Mean


def gains(rows: pd.DataFrame) -> list[Gain]:
    """Gains of the private and the non-private model over the majority class, from the result rows of one scenario.

    Empty if columns are missing, or if the law is known and nothing can be more accurate than the majority class.
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
    """Warnings, a line each, about the models of one scenario that are not clearly better than a baseline."""
    compared = gains(rows)
    lines = [
        f"{model.name} has accuracy {accuracy:.4f}, not clearly above the {majority:.4f} of always saying the majority "
        f"class (difference {gain}){_advice(model, gain, rows)}"
        for model, accuracy, majority, gain in compared
        if not gain.above_zero
    ]
    return [*lines, *([] if compared else _riskier_than_a_constant(rows)), *_no_better_than_a_constant(rows)]


def _advice(model: _Model, gain: Mean, rows: pd.DataFrame) -> str:
    """The end of a message about a model's gain that is not clearly above 0: advice, for few runs to run more.

    rows: of the scenario.
    """
    if not model.prefix and "fetches" in rows and rows["answered"].sum() < rows["fetches"].sum() / 2:
        return "; few requests were answered: look at the network"
    return FEW if 1 < gain.replicates < ENOUGH else model.advice


def _riskier_than_a_constant(rows: pd.DataFrame) -> list[str]:
    """Warnings about models with a larger excess risk than the best constant, where no model can beat the majority."""
    lines = []
    for model in MODELS:
        names = f"{model.prefix}error_rate", MAJORITY, f"{model.prefix}excess_risk", CONSTANT_RISK
        if numbers := _numbers(rows, *names):
            errors, majority, excess, constant = numbers
            # not clearly more accurate, and on average riskier: differences of the same replicates
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
    """Warnings about models of numeric labels whose squared error is not clearly below that of the best constant."""
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
    """Numbers of scenarios: not clearly more accurate than the majority class, and with a known gain over it.

    rows: result rows of several scenarios, which the column "scenario" names.
    The gain is that of the private model if it is known, else that of the model without privacy.
    """
    compared = [each[0] for _, part in rows.groupby("scenario", sort=False) if (each := gains(part))]
    return sum(not first.gain.above_zero for first in compared), len(compared)
