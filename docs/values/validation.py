"""Accuracy estimated from released labels."""

from analysis.validation import MECHANISMS, OFFSETS, RANGES, UNBIASED
from docs.values.forms import only, published, short

SOURCE = ("python -m analysis.validation", "learning/test_released_accuracy.py::test_the_study_of_coverage")

_found = published("validation").set_index(["mechanism", "predictor"])
users = OFFSETS[-1]
replicates = only(_found["replicates"])
_unbiased, _ranges = _found[_found["unbiased"]], _found[~_found["unbiased"]]
assert set(_unbiased.index) == set(UNBIASED)
assert set(_ranges.index) == set(RANGES)
least, most, range_least = _unbiased["coverage"].min(), _unbiased["coverage"].max(), _ranges["coverage"].min()


def accuracy(kind: str) -> float:
    """Of a predictor of the study, whatever the mechanism."""
    return float(only(_found.xs(kind, level="predictor")["accuracy"]))


def _cells(name: str, kind: str) -> list[str]:
    row = _found.loc[name, kind]
    return [f"[{short(row['lower'])}, {short(row['upper'])}]", f"{100.0 * row['coverage']:.1f}%"]


unbiased = [_cells(name, "constant") for name in MECHANISMS if (name, "constant") in UNBIASED]
ranges = [_cells(name, "worst") + _cells(name, "best") for name in MECHANISMS if (name, "best") in RANGES]
