"""What the paid comparison says: accuracies by way of choosing, prices, and who leads."""

from analysis.comparison.__main__ import PANELS
from analysis.comparison_paid import (
    CHOOSING,
    CURATED,
    DEFAULT,
    EPSILON,
    EPSILONS,
    FREE,
    MEAN_RUNS,
    NAME,
    PAID,
    RELEASED,
    USERS,
    way,
)
from docs.values.forms import interval, only, published, short, word

SOURCE = (
    "python -m analysis.comparison_paid --data-dir DIR",
    "analysis/test_comparison_paid.py::test_every_mechanism_with_its_choices_paid_for",
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


_prices = published(NAME, "prices.csv").set_index("mechanism")
joint = 2 * len(_prices)


def price(mechanism: str) -> str:
    """What the paid choice costs against the free one, over all panels and ε, with its joint interval."""
    line = _prices.loc[mechanism]
    return interval(line["price"], line["price_low"], line["price_high"])


def gain(mechanism: str) -> str:
    """What the paid choice gains over none."""
    line = _prices.loc[mechanism]
    return interval(line["gain"], line["gain_low"], line["gain_high"])


def prices() -> list[list[str]]:
    """A line for each mechanism: price and gain."""
    return [[way(name), price(name), gain(name)] for name in _prices.index]


def table(epsilon: float) -> list[list[str]]:
    """Accuracy with no, free and paid choice of each mechanism, a cell for each panel."""
    found = _wide.xs(epsilon, level=EPSILON)
    return [
        [" / ".join(short(found.loc[(panel, name), choice], 3) for choice in (DEFAULT, FREE, PAID)) for panel in PANELS]
        for name in _prices.index
    ]


def _mean(kind: str, column: str) -> float:
    return float(_prices[_prices["way"] == kind][column].mean())


def mean(kind: str, column: str) -> str:
    """The mean of a column over the mechanisms that choose in a way."""
    return short(_mean({"released": RELEASED, "curated": CURATED}[kind], column))


largest = short(float(_paid["price"].max()))
dearest = _paid["price"].idxmax()
worse = int(
    (_wide[_wide.index.get_level_values("mechanism").map(way) == CURATED].eval(f"`{PAID}` < `{DEFAULT}`")).sum()
)
curated = int((_wide.index.get_level_values("mechanism").map(way) == CURATED).sum())
changed = [word(places - same), word(places)]
_leads = {choice: [leader(p, e, choice) for p, e in _cells] for choice in (FREE, PAID)}
led = [word(_leads[choice].count("DP-SGD")) for choice in (FREE, PAID)]
assert _leads[PAID].count("DP-SGD") == 0
assert settled == 0
assert asked == (_all["choice"] != FREE).sum() == 2 * cells
assert all(_mean(kind, "gain") < 0.0 for kind in (CURATED,))
