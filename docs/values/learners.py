"""Learners that know the noise."""

import pandas as pd

from analysis.learners import EPSILON, EXCHANGE, LOCAL, PANELS
from docs.values.forms import interval, published, short

SOURCE = ("python -m analysis.learners", "analysis/test_published.py::test_what_learners_gain_that_know_the_noise")

means = published("learners").set_index(["panel", EPSILON, "learner", "mechanism"])["accuracy"]
gaps = published("learners", "gaps.csv").set_index(["panel", "learner", EPSILON])
NAMES = {
    "plain": "plain",
    "forward correction": "forward",
    "backward correction": "backward",
    "clusters and features": "clusters and features",
    "boosted trees": "boosted trees",
}
users = pd.concat([published(f"learners/{panel}", "rows.parquet")["num_users"] for panel in PANELS]).agg(["min", "max"])
replicates = published("learners")["replicates"].min()
COMBINED = "clusters and features"


def gap(panel: str, learner: str, epsilon: float, of: str = "to_plain") -> str:
    """A difference of accuracy with its interval."""
    line = gaps.loc[panel, learner, epsilon]
    return interval(line[of], line[f"{of}_low"], line[f"{of}_high"])


def ahead(panel: str, epsilon: float) -> str:
    """How far the exchange is ahead with the combined learner on both sides."""
    line = -gaps.loc[panel, COMBINED, epsilon][["to_same", "to_same_high", "to_same_low"]]
    return interval(*line)


def table(epsilon: float) -> list[list[str]]:
    """The rows at an ε: accuracy on the exchange and on randomised response, a pair for each panel."""
    return [
        [short(means[panel, epsilon, learner, mechanism]) for panel in PANELS for mechanism in (EXCHANGE, LOCAL)]
        for learner in NAMES.values()
    ]


def closed(panel: str, epsilon: float, of: str) -> float:
    """The share of the plain gap that the combined learner closes, percent."""
    plain = gaps.loc[panel, "plain", epsilon]["to_plain"]
    return float(100.0 * (1.0 - gaps.loc[panel, COMBINED, epsilon][of] / plain))
