"""Who pays: what each group loses to privacy."""

import pandas as pd

from analysis.groups import DRAWN, EPSILON, LESS, MORE, OPEN, PANELS, intervals, mechanisms_of
from docs.values.forms import interval, only, published, short

SOURCE = ("python -m analysis.groups --data-dir DIR", "measures/test_groups.py::test_who_pays_at_reduced_size")

LOSS = "excess_error_rate"
table = published("groups").astype({"group": str})
at_one = table[table[EPSILON] == DRAWN].set_index(["panel", "kind", "group", "mechanism"]).sort_index()
count = intervals(table)
replicates = only(table["replicates"])
users = {panel: only(published(f"groups/{panel}", "rows.parquet")["num_users"]) for panel in PANELS}
clusters = published("groups/mnist", "rows.parquet")["num_clusters"].max()
share = at_one["share"].groupby(level=["panel", "kind", "group"]).mean()


def loss(panel: str, kind: str, group: str) -> pd.Series:
    """Loss of a group at ε = 1, by mechanism."""
    found: pd.Series = at_one.loc[panel, kind, group][LOSS]
    return found


def extra(panel: str, kind: str, group: str, mechanism: str) -> str:
    """What a group loses beyond all others at ε = 1, with the corrected interval."""
    line = at_one.loc[panel, kind, group, mechanism]
    return interval(line["extra"], line["extra_low"], line["extra_high"])


def settled(panel: str, kind: str, group: str, verdict: str = MORE) -> int:
    """Under how many mechanisms it is settled that a group pays more, or less, at ε = 1."""
    return int((at_one.loc[panel, kind, group]["verdict"] == verdict).sum())


def ever(kind: str, group: str, verdict: str = MORE) -> int:
    """At how many points of both panels, at any ε, it is settled that a group pays more, or less."""
    found = table[(table["kind"] == kind) & (table["group"] == group)]
    return int((found["verdict"] == verdict).sum())


def cells(panel: str, columns: list[tuple[str, str]]) -> list[list[str]]:
    """A row for each mechanism: the loss of all, then of each group, in bold where it is settled that it pays more."""
    found = []
    for mechanism in mechanisms_of(panel):
        every = at_one.xs(mechanism, level="mechanism").loc[panel, "class"]
        row = [short(float((every["share"] * every[LOSS]).sum()))]
        for kind, group in columns:
            line = at_one.loc[panel, kind, group, mechanism]
            text = short(line[LOSS])
            row.append(f"**{text}**" if line["verdict"] == MORE else text)
        found.append(row)
    return found


def adult() -> list[list[str]]:
    """The rows of Adult."""
    columns = [("class", "0"), ("class", "1"), ("sex", "Female"), ("sex", "Male")]
    return cells("adult", [*columns, *(("cluster_size", size) for size in ("small", "middle", "large"))])


def mnist() -> list[list[str]]:
    """The rows of MNIST: the two digits that lose least and most, and the digits that are settled to pay more."""
    sizes = cells("mnist", [("cluster_size", size) for size in ("small", "middle", "large")])
    rows = []
    for mechanism, row in zip(mechanisms_of("mnist"), sizes, strict=True):
        digits = at_one.xs(mechanism, level="mechanism").loc["mnist", "class"]
        low, high = digits[LOSS].idxmin(), digits[LOSS].idxmax()
        more = ", ".join(digits.index[digits["verdict"] == MORE]) or "none"
        less = ", ".join(digits.index[digits["verdict"] == LESS]) or "none"
        ends = [f"{digit}: {short(digits[LOSS][digit])}" for digit in (low, high)]
        rows.append([row[0], *ends, more, less, *row[1:]])
    return rows


points = len(table[["panel", "mechanism", EPSILON]].drop_duplicates())
dp_sgd = int((table[table["mechanism"] == "DP-SGD"]["verdict"] != OPEN).sum())
