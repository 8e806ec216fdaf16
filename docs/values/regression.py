"""Regression labels through two randomizers, alone and through the exchange."""

import pandas as pd

from analysis.regression.__main__ import CONSTANT, DELTA, NONPRIVATE, ON_DIABETES, ON_LAW, ON_SPREAD
from analysis.regression.methods import BINS, DEBIASED, EXCHANGED, KNOWING, METHODS, PAID, UNBIASED
from docs.values.forms import published

SOURCE = ("python -m analysis.regression", "analysis/test_regression_study.py::test_the_study_of_regression_labels")

_losses, _points, _paired = published("regression", "losses.csv"), published("regression"), published(
    "regression", "differences.csv"
)  # fmt: skip
_error = _losses[_losses["prior"] == "uniform"].pivot(index="randomizer", columns="epsilon", values="error")


def _head(wide: pd.DataFrame) -> list[str]:
    return [f"{value:g}" for value in wide]


RANDOMIZERS = (BINS, "unbiased", "k-ary response, debiased", "Laplace noise", "two outputs, unbiased")
losses = [_head(_error), *([f"{value:.3g}" for value in _error.loc[name]] for name in RANDOMIZERS)]
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


law = [_head(_law), *([_thousandths(value) for value in _law.loc[name]] for name in ROWS)]
spread = [_head(_spread), *([_thousandths(value) for value in _spread.loc[name]] for name in ROWS)]
diabetes = [_head(_diabetes), *([f"{value:.1f}" for value in _diabetes.loc[name]] for name in ROWS)]
_floors = _points[_points["method"] == EXCHANGED + UNBIASED].set_index(["panel", "heterogeneity"])["floor"]
floors = {h: 1000.0 * float(_floors[ON_SPREAD, h]) for h in (0.05, 0.1, 0.15, 0.2)}
_rows = published("regression", "rows.parquet")
_variance = _rows[_rows["panel"] == ON_SPREAD].groupby("heterogeneity")["label_variance"].mean()
_variance_of_diabetes = _rows[_rows["panel"] == ON_DIABETES]["label_variance"].mean()
deviation = {h: float(_variance[h]) ** 0.5 for h in (0.0, 0.1, 0.2)}
deviation_of_diabetes = _variance_of_diabetes**0.5
louder = _points[(_points["method"] == EXCHANGED + DEBIASED) & (_points["epsilon"] == 1.0)].set_index("panel")
local_on_law, local_on_diabetes = (float(louder["epsilon_local"][[p]].iloc[0]) for p in (ON_LAW, ON_DIABETES))
deltas = DELTA


def _gaps(panel: str, first: str, second: str) -> pd.DataFrame:
    """First minus second with intervals, by ε, on the law at different h by h."""
    found = _paired[(_paired["panel"] == panel) & (_paired["first"] == first) & (_paired["second"] == second)]
    return found.set_index("heterogeneity" if panel == ON_SPREAD else "epsilon")[["difference", "low", "high"]]


def _said(panel: str, first: str, second: str, at: float) -> str:
    """A difference with its interval; on the law in thousandths."""
    scale, digits = (1.0, 1) if panel == ON_DIABETES else (1000.0, 2)
    mean, low, high = (f"{scale * value:+.{digits}f}" for value in _gaps(panel, first, second).loc[at])
    return f"{mean} [{low}, {high}]"


_KNOWS = EXCHANGED + UNBIASED + KNOWING
even = _said(ON_SPREAD, EXCHANGED + UNBIASED, UNBIASED, 0.0)
assert _gaps(ON_SPREAD, EXCHANGED + UNBIASED, UNBIASED)["high"][0.0] < 0.0
helped = _said(ON_LAW, _KNOWS, EXCHANGED + UNBIASED, 1.0)
assert (_gaps(ON_SPREAD, _KNOWS, EXCHANGED + UNBIASED).loc[[0.1, 0.15, 0.2], "high"] < 0.0).all()
assert _gaps(ON_SPREAD, _KNOWS, EXCHANGED + UNBIASED)["low"][0.0] > 0.0
behind = _said(ON_LAW, _KNOWS, UNBIASED, 1.0)
assert (_gaps(ON_LAW, _KNOWS, UNBIASED)["low"] > 0.0).all()
assert _law.loc[[*METHODS]].idxmin().isin([DEBIASED, UNBIASED, UNBIASED + PAID]).all()
_better, _own = _gaps(ON_LAW, UNBIASED, BINS), _gaps(ON_DIABETES, UNBIASED, BINS)
assert (_better["high"] < 0.0).all()
assert _own.index[_own["low"] > 0.0].tolist() == [0.25, 4.0]
assert _own.index[_own["high"] < 0.0].tolist() == [1.0]
assert (_gaps(ON_LAW, BINS + PAID, BINS)["low"] > 0.0).all()
_unchanged = pd.concat([_gaps(panel, UNBIASED + PAID, UNBIASED) for panel in (ON_LAW, ON_DIABETES)])
assert ((_unchanged["low"] <= 0.0) & (_unchanged["high"] >= 0.0)).all()
_bins_lead = _gaps(ON_LAW, UNBIASED, DEBIASED)
assert _bins_lead["low"][0.25] > 0.0
assert _bins_lead["low"][0.5] < 0.0 < _bins_lead["high"][0.5]
assert (_bins_lead.loc[1.0:, "high"] < 0.0).all()
_ends = _points[(_points["panel"] == ON_DIABETES) & (_points["epsilon"] == 0.25)].set_index("method")
assert (_ends["value_high"][[*METHODS]] > _ends["value"][CONSTANT]).all()
small = (
    _said(ON_DIABETES, EXCHANGED + DEBIASED, DEBIASED, 0.25),
    _said(ON_DIABETES, EXCHANGED + DEBIASED, DEBIASED, 0.5),
)
large = _said(ON_DIABETES, EXCHANGED + DEBIASED, DEBIASED, 2.0), _said(ON_DIABETES, EXCHANGED + DEBIASED, DEBIASED, 4.0)
constant = float(_diabetes.loc[CONSTANT].max())
