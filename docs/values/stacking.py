"""Organisations that exchange models."""

import numpy as np
import pandas as pd
from scipy.special import expit

from analysis.stacking.estimators import METHODS, OVERSPENT, TRANSFER
from docs.values.forms import bold, published, short, signed, up
from tests.audit.test_stacking_audit import PROVEN
from tests.privacy.test_objective_perturbation import ATTAINED

SOURCE = ("python -m analysis.stacking", "analysis/test_stacking_study.py::test_the_study_on_stand_ins")
_PERTURBATION = "privacy/test_objective_perturbation.py"
_COMMAND = f"pytest tests/{_PERTURBATION}"
SOURCES = {
    "moves": (_COMMAND, f"{_PERTURBATION}::test_in_one_dimension_the_noise_covers_twice_what_moves"),
    "attained": (_COMMAND, f"{_PERTURBATION}::test_without_a_prior_most_of_the_bound_is_attained"),
    "proven": (
        "pytest tests/audit/test_stacking_audit.py",
        "audit/test_stacking_audit.py::test_plr_with_transfer_shows_nearly_all_that_is_allowed",
    ),
}
_w, _z = np.meshgrid(np.linspace(0.0, 40.0, 4001), np.linspace(-1.0, 1.0, 401), indexing="ij")
moves = up(float(np.ptp(_z * expit(-_w * _z), axis=1).max()), 2)
attained, proven = ATTAINED, PROVEN

_means, _paired = published("stacking"), published("stacking", "differences.csv")
_news = _means[_means["data"] == "NEWS20"]


def differences(study: str, first: str, second: str) -> pd.DataFrame:
    """First minus second with intervals; the table may have it the other way round."""
    found = _paired[(_paired["study"] == study) & (_paired["first"] == first) & (_paired["second"] == second)]
    if len(found):
        return found
    found = differences(study, second, first)
    return found.assign(difference=-found["difference"], low=-found["high"], high=-found["low"])


def difference(first: str, second: str) -> str:
    """First minus second on NEWS20 at ε = 1."""
    found = differences("epsilon", first, second).set_index(["data", "epsilon"]).loc[("NEWS20", 1.0)]
    low, high = found["low"], found["high"]
    return f"{signed(found['difference'])} [{short(low)}, {short(high) if low > 0.0 else signed(high)}]"


_auc = _news[_news["study"] == "epsilon"].pivot(index="method", columns="epsilon", values="auc")
_columns = [
    [*bold(_auc[epsilon][list(METHODS[:-1])]), short(_auc[epsilon][OVERSPENT])] for epsilon in (0.5, 1.0, 2.0, 8.0)
]
benchmarks = list(zip(*_columns, strict=True))
splits = _means[_means["study"] == "epsilon"]["replicates"].unique().item()
_gap = differences("epsilon", "PLR", "PST-S")
_open = _gap[(_gap["data"] == "NEWS20") & (_gap["low"] <= 0.0)]["epsilon"]
undecided_below = min(set(_gap["epsilon"]) - set(_open))
weighted = differences("epsilon", "PST-F(W)", "PST-F(U)")
better_from = min(e for e in weighted["epsilon"] if (weighted[weighted["epsilon"] >= e]["low"] > 0.0).all())
[(reversed_at, reversed_on)] = weighted.loc[weighted["high"] < 0.0, ["epsilon", "data"]].to_numpy()
assert (differences("epsilon", "PST-F(U)", "PLR")["low"] <= 0.0).all()
plain = differences("epsilon", "PLR(W)", "PST-F(W)")["low"] > 0.0

_points = _news[_news["study"] == "combiner"].set_index(["method", "combiner"])["auc"]
combiners = [
    bold([_points[method].filter(like="group").max(), *_points[method][["majority", "weighted", "mean", "stacked"]]])
    for method in ("PST-F(U)", "PST-F(W)")
]
_groups = _news[(_news["study"] == "groups") & (_news["method"] == "PST-F(W)")].set_index("groups")["auc"]
best_count = _groups.idxmax()
falls_at = min(count for count in _groups.index if count > best_count)

means = _means[_means["study"] == "transfer"].groupby(["data", "method"])["auc"].mean()
transfer = list(zip(*(bold(means[data][list(TRANSFER)]) for data in ("branches", "heart")), strict=True))
gain = means["branches", "PST-H(W)"] - means["branches", "PLR (target)"]


def wins(first: str, second: str, data: str) -> pd.Series:
    """In how many targets the first is above the second, below, undecided, and of how many."""
    found = differences("transfer", first, second)
    found = found[found["data"] == data]
    above, below = (found["low"] > 0.0).sum(), (found["high"] < 0.0).sum()
    return pd.Series({"above": above, "below": below, "open": len(found) - above - below, "all": len(found)})


stacked, hospitals = (wins("PST-H(W)", "PLR (target)", data) for data in ("branches", "heart"))
never = "sometimes" if stacked["below"] else "never"
uniform = wins("PST-H(U)", "PLR (target)", "branches")
pphtl, pphtl_hospitals = (wins("PPHTL", "PLR (target)", data) for data in ("branches", "heart"))
honest = wins("PLR-HTL", "PST-H(W)", "branches")
honest_weighted = wins("PLR-HTL(W)", "PST-H(W), no high level", "branches")
sizes = published("stacking", "rows.parquet").query("data == 'heart'")["rows"]
