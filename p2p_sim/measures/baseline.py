"""The baseline of learning: always predicting one class, which needs no features and no user's label."""

from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from p2p_sim.measures.intervals import Mean, mean_interval

MAJORITY = "majority_error_rate"
LEARNED = (
    ("error_rate", "what is learned", "; smaller clusters mix fewer labels, and a larger ε takes less noise"),
    ("nonprivate_error_rate", "even without privacy, what is learned", "; look at the features and their scales"),
)
"""Columns of error rates, the models' names in messages, and the messages' advice."""
ENOUGH, FEW = 5, "; with so few replicates hardly anything is clear: run more"
"""Replicates from which a missing gain is evidence about the data, and the advice for fewer."""
RISKS = ("excess_risk", "nonprivate_excess_risk")
CONSTANT_RISK = "constant_excess_risk"
"""Columns of excess risks where the law is known: of both models, and of the best constant."""
CONSTANT, SQUARED = "constant_squared_error", ("squared_error", "nonprivate_squared_error")
"""Columns of squared errors: of a constant, and of both models."""


@dataclass(frozen=True)
class Gain:
    """How much more accurate a model is than always predicting the majority class, as a mean over replicates.

    column: of the model's error rate; accuracy, majority: mean accuracies; gain: mean of paired differences.
    """

    column: str
    accuracy: float
    majority: float
    gain: Mean

    @property
    def clear(self) -> bool:
        """Whether the gain is above 0, with its whole 95% interval if there is one."""
        return (self.gain.low if self.gain.replicates > 1 else self.gain.value) > 0


def gains(rows: pd.DataFrame) -> list[Gain]:
    """Gains of the private and the non-private model over the majority class, from the result rows of one scenario.

    Empty if columns are missing, or if the law is known and nothing can be more accurate than the majority class.
    """
    if MAJORITY not in rows or rows[MAJORITY].isna().any():
        return []
    majority = rows[MAJORITY].astype(float)
    if "bayes_error_rate" in rows and (rows["bayes_error_rate"].astype(float) >= majority - 1e-12).any():
        return []
    return [
        Gain(column, 1.0 - float(errors.mean()), 1.0 - float(majority.mean()), mean_interval(majority - errors))
        for column, _, _ in LEARNED
        if column in rows and rows[column].notna().all()
        for errors in [rows[column].astype(float)]
    ]


def warnings_of(rows: pd.DataFrame) -> list[str]:
    """Warning lines about the models of one scenario that are not clearly better than a rule without features."""
    lines = []
    for column, who, more in LEARNED:
        for gain in gains(rows):
            if gain.column == column and not gain.clear:
                advice = FEW if 1 < gain.gain.replicates < ENOUGH else more
                lines.append(
                    f"{who} has accuracy {gain.accuracy:.4f}, not clearly above the {gain.majority:.4f} of always "
                    f"saying the majority class (difference {gain.gain}){advice}"
                )
    return [*lines, *_riskier_than_a_constant(rows), *_no_better_than_a_constant(rows)]


def _riskier_than_a_constant(rows: pd.DataFrame) -> list[str]:
    """Warning lines about models with a larger excess risk than the best constant, if none can beat the majority."""
    if gains(rows):
        return []
    lines = []
    for (column, who, _), risk in zip(LEARNED, RISKS, strict=True):
        names = (column, MAJORITY, risk, CONSTANT_RISK)
        if any(name not in rows or rows[name].isna().any() for name in names):
            continue
        errors, majority, excess, constant = (rows[name].astype(float) for name in names)
        # not clearly more accurate, and on average riskier: differences of the same replicates
        gain, less = mean_interval(majority - errors), mean_interval(excess - constant)
        if (gain.low if gain.replicates > 1 else gain.value) > 0 or not less.value > 0:
            continue
        lines.append(
            f"{who} has accuracy {1.0 - errors.mean():.4f}, not clearly above the {1.0 - majority.mean():.4f} of "
            f"always saying the majority class, and nothing can be; the best constant has the smaller excess risk, "
            f"{constant.mean():.4g} against {excess.mean():.4g} (difference {less})"
        )
    return lines


def _no_better_than_a_constant(rows: pd.DataFrame) -> list[str]:
    """Warning lines about models of numbers whose squared error is not clearly below that of the best constant."""
    lines = []
    for column, (_, who, more) in zip(SQUARED, LEARNED, strict=True):
        if column not in rows or rows[column].isna().any():
            continue
        constant, errors = rows[CONSTANT].astype(float), rows[column].astype(float)
        gain = mean_interval(constant - errors)
        if (gain.low if gain.replicates > 1 else gain.value) <= 0:
            advice = FEW if 1 < gain.replicates < ENOUGH else more
            lines.append(
                f"{who} has squared error {errors.mean():.4g}, not clearly below the {constant.mean():.4g} of "
                f"a constant{advice}"
            )
    return lines


class PointsNotAbove(NamedTuple):
    """How many scenarios are not clearly more accurate than the majority class, and how many are comparable with it."""

    not_above: int
    comparable: int


def points_not_above(rows: pd.DataFrame) -> PointsNotAbove:
    """Counts the scenarios whose first model is not clearly more accurate than the majority class."""
    compared = [of_point[0] for _, part in rows.groupby("scenario", sort=False) if (of_point := gains(part))]
    return PointsNotAbove(sum(not gain.clear for gain in compared), len(compared))
