"""What the paid comparison says: accuracies by way of choosing, prices, and who leads."""

import pandas as pd

from docs.values.forms import only, published, short
from studies.comparison_paid import CHOOSING, DEFAULT, EPSILON, EPSILONS, FREE, LAW, NAME, PAID, PANELS, USERS
from studies.comparison_runs import MECHANISMS
from studies.paid_runs import CURATED, MEAN_RUNS, RELEASED, way

SOURCE = (
    "python -m studies.comparison_paid --data-dir DIR",
    "test_comparison_paid.py::test_every_mechanism_with_its_choices_paid_for",
)

_all = published(NAME)
points = _all.set_index(["panel", EPSILON, "mechanism", "choice"]).sort_index()
_wide = points["accuracy"].unstack("choice")
_paid = points.xs(PAID, level="choice")
asked, reported, choosing, users, mean_runs = (
    only(_all["comparisons"]),
    only(_all["replicates"]),
    CHOOSING,
    USERS,
    int(MEAN_RUNS),
)
_cells = [(panel, epsilon) for panel in PANELS for epsilon in EPSILONS]
places = len(_cells)
cells = len(_paid)


def leader(panel: str, epsilon: float, choice: str) -> str:
    """The mechanism with the largest mean accuracy."""
    return str(points["accuracy"].xs((panel, epsilon, choice), level=("panel", EPSILON, "choice")).idxmax())


def leaders() -> list[list[str]]:
    """A line for each panel and ε: who leads under each way to choose."""
    return [[leader(p, e, choice) for choice in (DEFAULT, FREE, PAID)] for p, e in _cells]


same = sum(leader(p, e, FREE) == leader(p, e, PAID) for p, e in _cells)
fallen = sum(leader(p, e, FREE) != leader(p, e, DEFAULT) for p, e in _cells)
_gap = _all.pivot(index=["panel", EPSILON, "mechanism"], columns="choice", values="place")
moved = int(((_gap[FREE] - _gap[PAID]).abs() >= 2).sum())
settled = int((_paid["price_low"] > 0.0).sum())


def price(mechanism: str) -> str:
    """The mean price over all panels and ε."""
    return short(float(_paid.xs(mechanism, level="mechanism")["price"].mean()))


def mean_price(kind: str) -> str:
    """The mean price of all mechanisms that choose in a way."""
    names = [name for name in MECHANISMS if way(name) == kind]
    return short(float(_paid[_paid.index.get_level_values("mechanism").isin(names)]["price"].mean()))


def gain(kind: str) -> str:
    """What a paid choice gains over none, on average."""
    names = [name for name in MECHANISMS if way(name) == kind]
    part = _wide[_wide.index.get_level_values("mechanism").isin(names)]
    return short(float((part[PAID] - part[DEFAULT]).mean()))


def table(epsilon: float) -> list[list[str]]:
    """Accuracy with no, free and paid choice of each mechanism, a cell for each panel."""
    found = _wide.xs(epsilon, level=EPSILON)
    return [
        [" / ".join(short(found.loc[(panel, name), choice], 3) for choice in (DEFAULT, FREE, PAID)) for panel in PANELS]
        for name in MECHANISMS
    ]


dearest = _paid["price"].idxmax()
largest = short(float(_paid["price"].max()))
released_names = sum(way(name) == RELEASED for name in MECHANISMS)
curated_worse = int(
    (_wide[_wide.index.get_level_values("mechanism").map(way) == CURATED].eval(f"`{PAID}` < `{DEFAULT}`")).sum()
)
curated_cells = int((_wide.index.get_level_values("mechanism").map(way) == CURATED).sum())
known_law = LAW
