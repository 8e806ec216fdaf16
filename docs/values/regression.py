"""Regression labels through two randomizers, alone and through the exchange."""

import pandas as pd

from docs.values.forms import published, short, signed
from studies.regression import CONSTANT, DELTA, NONPRIVATE, ON_DIABETES, ON_LAW, ON_SPREAD
from studies.regression_methods import BINS, DEBIASED, EXCHANGED, KNOWING, METHODS, PAID, UNBIASED

SOURCE = ("python -m studies.regression", "test_regression_study.py::test_the_study_of_regression_labels")

_losses, _points, _paired = published("regression", "losses.csv"), published("regression"), published(
    "regression", "differences.csv"
)  # fmt: skip
_error = _losses[_losses["prior"] == "uniform"].pivot(index="randomizer", columns="epsilon", values="error")
RANDOMIZERS = (BINS, "unbiased", "k-ary response, debiased", "Laplace noise", "two outputs, unbiased")
losses = [[f"{value:.3g}" for value in _error.loc[name]] for name in RANDOMIZERS]
_bins = _losses[_losses["prior"] == "uniform"].groupby("epsilon")["bins"].first()
fewest, most = _bins.min(), _bins.max()
replicates = _points["replicates"].unique().item()


def _wide(panel: str, columns: str) -> pd.DataFrame:
    return _points[_points["panel"] == panel].pivot(index="method", columns=columns, values="value")


ROWS = (BINS, DEBIASED, UNBIASED, BINS + PAID, UNBIASED + PAID, EXCHANGED + BINS, EXCHANGED + DEBIASED,
        EXCHANGED + DEBIASED + KNOWING, EXCHANGED + UNBIASED, EXCHANGED + UNBIASED + KNOWING,
        CONSTANT, NONPRIVATE)  # fmt: skip
assert set(ROWS) == {*METHODS, CONSTANT, NONPRIVATE}
_law, _spread, _diabetes = _wide(ON_LAW, "epsilon"), _wide(ON_SPREAD, "heterogeneity"), _wide(ON_DIABETES, "epsilon")


def _thousandths(value: float) -> str:
    return f"{1000.0 * value:.2f}" if value >= 1e-5 else f"{1000.0 * value:.4f}"


law = [[_thousandths(value) for value in _law.loc[name]] for name in ROWS]
spread = [[_thousandths(value) for value in _spread.loc[name]] for name in ROWS]
diabetes = [[f"{value:.1f}" for value in _diabetes.loc[name]] for name in ROWS]
_floors = _points[_points["method"] == EXCHANGED + UNBIASED].set_index(["panel", "heterogeneity"])["floor"]
floors = {h: 1000.0 * float(_floors[ON_SPREAD, h]) for h in (0.05, 0.1, 0.15, 0.2)}
_variance = _points[_points["panel"] == ON_SPREAD].groupby("heterogeneity")["label_variance"].max()
_variance_of_diabetes = _points[_points["panel"] == ON_DIABETES]["label_variance"].max()
deviation = {h: float(_variance[h]) ** 0.5 for h in (0.0, 0.1, 0.2)}
deviation_of_diabetes = _variance_of_diabetes**0.5
louder = _points[(_points["method"] == EXCHANGED + DEBIASED) & (_points["epsilon"] == 1.0)].set_index("panel")
local_on_law, local_on_diabetes = (float(louder["epsilon_local"][[p]].iloc[0]) for p in (ON_LAW, ON_DIABETES))
deltas = DELTA


def gap(panel: str, first: str, second: str, epsilon: float, h: float | None = None) -> pd.Series:
    """First minus second with its interval."""
    found = _paired[(_paired["panel"] == panel) & (_paired["first"] == first) & (_paired["second"] == second)]
    found = found[found["epsilon"] == epsilon]
    [(_, line)] = (found if h is None else found[found["heterogeneity"] == h]).iterrows()
    return line


def said(line: pd.Series, scale: float = 1.0, digits: int = 2) -> str:
    """A difference with its interval."""
    values = (signed(scale * line[end]) if digits == 3 else f"{scale * line[end]:+.{digits}f}" for end in
              ("difference", "low", "high"))  # fmt: skip
    mean, low, high = values
    return f"{mean} [{low}, {high}]"


no_spread = gap(ON_SPREAD, EXCHANGED + UNBIASED + KNOWING, UNBIASED, 1.0, 0.0)
shorter = short
