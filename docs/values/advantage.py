"""What every mechanism tells of a label, at equal ε."""

import pandas as pd

from analysis.advantage.__main__ import ADVANTAGE, ALONE
from analysis.comparison.__main__ import EPSILON, PANELS, TRUST
from docs.values.forms import published
from p2p_sim.privacy.wording import of_hundred

SOURCE = (
    "python -m analysis.advantage",
    "analysis/test_published.py::test_the_comparison_by_what_is_learned_of_a_label",
)

_points = published("advantage").assign(more=lambda rows: 100.0 * rows[ADVANTAGE])
more = _points.pivot(index=["panel", EPSILON], columns="mechanism", values="more")
"""Right guesses in 100 that are added, a row for each panel and ε, a column for each mechanism."""
exchange, response, model = more["label exchange"], more["randomised response"], more["DP-SGD"]
less = (response / exchange).xs(1.0, level=EPSILON)
"""How many times less the exchange tells than randomised response, by panel."""
stated = 100.0 * _points[_points["mechanism"] == "label exchange"].set_index(["panel", EPSILON])[ALONE]
"""What (ε, δ) alone would allow for the exchange."""


def table(epsilon: float) -> list[list[str]]:
    """The rows at an ε."""
    values = [[more[name].get((panel, epsilon)) for panel in PANELS] for names in TRUST.values() for name in names]
    return [["" if pd.isna(value) else of_hundred(value / 100.0, True) for value in row] for row in values]
