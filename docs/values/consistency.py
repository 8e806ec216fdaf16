"""Histograms that are consistent for every law."""

import pandas as pd

from docs.values.forms import interval, published, short

SOURCE = ("python -m analysis.consistency", "analysis/test_published.py::test_the_consistency_study")
HISTOGRAM, PCL, EXCHANGE = "histogram, not private", "PCL, (1, 0)", "label exchange in cells, (1, n^-2)"
PCDE, DIVIDED = "PCDE, (1, n^-2), normalised", "PCDE, (1, n^-2), divided by n"

_found = published("consistency")
_errors, _densities, _thresholds = (
    _found[_found["study"] == study].set_index(["law", "n", "method"]).sort_index()
    for study in ("excess error", "half-L1", "threshold")
)


def _ends(point: pd.Series) -> str:
    return interval(point["value"], point["value_low"], point["value_high"], 4)


LAWS = [f"{name}, d = {d}" for d in (1, 2) for name in ("smooth", "oscillating", "hard")]
excess_error = [
    [*(_ends(of.loc[method]) for method in (HISTOGRAM, PCL, EXCHANGE)), short(of.loc[EXCHANGE, "flip_prob"], 4)]
    for of in (_errors.loc[law, 100_000] for law in LAWS)
]
half_l1 = [
    [_ends(_densities.loc[law, n, method]) for n in (10_000, 100_000, 1_000_000)]
    for law in ("normal", "Cauchy", "spikes")
    for method in (HISTOGRAM, PCDE, DIVIDED)
]
_many = _errors.index.get_level_values("n") > 100_000
replicates, fewer = (_errors["replicates"][chosen].unique().item() for chosen in (~_many, _many))
few, many = (_errors.loc["smooth, d = 1", n]["value"] for n in (1000, 100_000))
times = many[EXCHANGE] / many[PCL]
variance = 2 / (1 - 2 * _errors.loc[("smooth, d = 1", 100_000, EXCHANGE), "flip_prob"]) ** 2
normal = _densities.loc["normal", 10_000]["value"]
threshold = _ends(_thresholds.iloc[0])
thresholds = _thresholds["replicates"].iloc[0]
