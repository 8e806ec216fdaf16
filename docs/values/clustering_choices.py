"""Debiased labels beside those as they are, and the guess of φ."""

import pandas as pd

from docs.values.clustering_figure1 import EPSILON, RESPONSE, points
from docs.values.forms import interval, published, short

SOURCE = (
    "python -m analysis.clustering_choices",
    "analysis/test_published.py::test_choices_of_the_clustering_guide_on_digits",
)
GUESS = "mechanism.heterogeneity"

_found = published("clustering-choices")


def _accuracy(point: pd.Series) -> str:
    return interval(*point[["accuracy", "accuracy_low", "accuracy_high"]])


debiased, plain = (
    _accuracy(_found[_found["panel"] == "debiased"].iloc[0]),
    _accuracy(points.loc["mnist", RESPONSE, 1.0]),
)
guess = _found[_found["panel"] == "guess"]
tried = [f"{phi:g}" for phi in sorted(guess[GUESS].unique())]
_means = guess.set_index(["population", EPSILON, GUESS])["relative_accuracy"]
_kept = _means[_means.index.get_level_values(GUESS) < 0.5].groupby(level=["population", EPSILON])
moves = (_kept.max() - _kept.min()).map(lambda move: short(move, 2))
assert moves["mnist", 1.0] == moves["mnist", 2.0]
loses = short(_means["mnist", 1.0, 0.2] - _means["mnist", 1.0, 0.5], 2)
