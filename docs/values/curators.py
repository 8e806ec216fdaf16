"""LabelDP-Pro and PATE: what is claimed, what was measured, and the verdict."""

import pandas as pd

from analysis.curators import ALIBI, DP_SGD, EPSILON, EPSILONS, PATE, PRINTED, PRO, RESPONSE
from docs.values.forms import interval, published, short, signed

SOURCE = ("python -m analysis.curators", "analysis/test_published.py::test_what_curators_claim")

claims, means = published("curators", "claims.csv"), published("curators")
replicates, users = means["replicates"].min(), published("curators/mnist", "rows.parquet")["num_users"].max()
_wide = means[means["panel"] == "mnist"].pivot(index="mechanism", columns=EPSILON, values="accuracy")
accuracies = [
    [
        short(_wide.loc[name, epsilon]) + (f" ({short(PRINTED[name][at])})" if name in PRINTED else "")
        for at, epsilon in enumerate(EPSILONS)
    ]
    for name in (PRO, DP_SGD, PATE, RESPONSE, ALIBI)
]
accuracies.insert(0, [f"{epsilon:g}" for epsilon in EPSILONS])
reference = means[means["panel"] == "mnist"]["nonprivate_accuracy"].mean()


def _line(line: pd.Series) -> list[str]:
    claimed = "ahead" if pd.isna(line["claimed"]) else signed(line["claimed"])
    measured = interval(line["difference"], line["low"], line["high"])
    return [claimed, measured, line["verdict"]]


_order = claims.sort_values(["panel", "second", EPSILON], kind="stable")
table = [_line(line) for _, line in _order.iterrows()]
names = [
    f"{line['first']} against {line['second']}, {line['panel']}, ε = {line[EPSILON]:g}" for _, line in _order.iterrows()
]
lead = {
    (panel, epsilon): short(-float(found["difference"]))
    for (panel, epsilon), found in claims[claims["second"] == DP_SGD].set_index(["panel", EPSILON]).iterrows()
}
pate = {epsilon: short(_wide.loc[PATE, epsilon]) for epsilon in EPSILONS}
for _panel in ("mnist", "pixels"):
    assert (claims[(claims["panel"] == _panel) & (claims["second"] == DP_SGD)]["high"] < 0.0).all()
_local = claims[claims["second"].isin([RESPONSE, ALIBI]) & (claims["first"] == PRO)]
assert (_local[_local[EPSILON] <= 1.0]["low"] > 0.0).all()
