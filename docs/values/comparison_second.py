"""Every mechanism with the best of its learners, and which of them leads where."""

import pandas as pd

from analysis.comparison_second import (
    ALL,
    BEHIND,
    CHOOSING,
    EPSILON,
    EPSILONS,
    LEADS,
    MECHANISMS,
    NAME,
    PANELS,
    TRUST,
    USERS,
)
from docs.values.forms import only, published, short

SOURCE = (
    "python -m analysis.comparison_second --data-dir DIR",
    "analysis/test_comparison_second.py::test_every_mechanism_with_the_best_of_its_learners",
)

points = published(NAME).set_index(["panel", EPSILON, "mechanism"]).sort_index()
_lines = published(NAME, "leaders.csv")
_groups = _lines.set_index(["panel", EPSILON, "group"]).sort_index()
asked, reported, choosing, users = only(_lines["comparisons"]), only(points["replicates"]), CHOOSING, USERS
digits_users = published(NAME, "rows.parquet").query("panel == 'digits'")["num_users"].max()
mechanisms = len(MECHANISMS)
NOBODY, CURATOR = "trust nobody", "trust a curator with all labels"
EXCHANGE, RESPONSE = "label exchange", "randomised response"
assert BEHIND not in set(_lines["verdict"])


def leader(panel: str, epsilon: float, group: str = ALL) -> str:
    """Who is named as the leader."""
    return str(only(_groups.loc[(panel, epsilon, group)]["leader"]))


def settled(panel: str, epsilon: float, group: str = ALL) -> tuple[int, int]:
    """How many rivals the leader is settled to be ahead of, and of how many."""
    verdicts = _groups.loc[(panel, epsilon, group)]["verdict"]
    return int((verdicts == LEADS).sum()), len(verdicts)


def leaders() -> list[list[str]]:
    """Rows of the table of leaders: a line for each panel and ε, two cells for each group."""
    found = []
    for panel in PANELS:
        for epsilon in EPSILONS:
            row = []
            for group in (ALL, NOBODY, CURATOR):
                ahead, rivals = settled(panel, epsilon, group)
                row += [leader(panel, epsilon, group), f"{ahead} of {rivals}"]
            found.append(row)
    return found


def accuracies(epsilon: float) -> list[list[str]]:
    """Accuracy of each mechanism, a cell for each panel; empty where it was not run."""
    wide = points["accuracy"].unstack("panel").xs(epsilon)
    names = [name for group in TRUST.values() for name in group]
    return [["" if pd.isna(wide[panel][name]) else short(wide[panel][name]) for panel in PANELS] for name in names]


def accuracy(panel: str, epsilon: float, mechanism: str) -> str:
    """A mean accuracy."""
    return short(points.loc[panel, epsilon, mechanism]["accuracy"])


def gain(panel: str, epsilon: float, mechanism: str) -> str:
    """What the chosen learner gains over the plain one, with its own 95% interval."""
    line = points.loc[panel, epsilon, mechanism]
    return f"{short(line['gain'])} [{short(line['gain_low'])}, {short(line['gain_high'])}]"


def whole(group: str = ALL) -> int:
    """At how many of the panels and ε the leader is settled to be ahead of all its rivals."""
    return sum(ahead == rivals for ahead, rivals in (settled(p, e, group) for p in PANELS for e in EPSILONS))


places = len(PANELS) * len(EPSILONS)
best_exchange = _lines.query("leader == @EXCHANGE")
assert set(best_exchange["panel"]) == {"mnist"}
assert set(best_exchange[EPSILON]) == {0.5}
assert set(best_exchange["group"]) == {NOBODY}
for _epsilon in EPSILONS[1:]:
    assert leader("even-odd", _epsilon) == RESPONSE
    assert settled("even-odd", _epsilon) == (13, 13)
    assert points.loc["even-odd", _epsilon, RESPONSE]["learner"] == "boosted trees"
assert leader("digits", 0.5, NOBODY) == "noise shares"
assert all(leader("mnist", _epsilon) == "DP-SGD" for _epsilon in EPSILONS[:3])
assert leader("mnist", 4.0) == RESPONSE
assert leader("adult", 4.0) == RESPONSE
