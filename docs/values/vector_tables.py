"""Noisy vectors against scalars, each on its own and through the exchange."""

import math

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.vector import ALIBI, RESPONSE, TWO_STAGES, VECTOR
from docs.values import vector
from docs.values.forms import published, short, up, word

SOURCE = (
    "python -m analysis.vector_tables",
    "analysis/test_published.py::test_the_tables_of_the_guide_to_label_mechanisms",
)
SOURCES = {"bayes": vector.SOURCE}
EPSILON, CLASSES = "mechanism.target_epsilon", "population.num_classes"
EXCHANGED, ALONE = ("exchanged vectors", "exchanged ALIBI", "exchanged labels"), ("vectors", "ALIBI", "labels")

bayes = vector.bayes
_found = published("vector-tables")
_found["error"] = (_found["accuracy_high"] - _found["accuracy"]) / stdtrit(_found["replicates"] - 1, 0.975)
vectors, exchange, kmeans = (_found[_found["panel"] == name] for name in ("vectors", "exchange", "exchange-kmeans"))
_by = vectors.set_index([CLASSES, "mechanism"])
synthetic = [
    [f"{_by['accuracy'][k, name]:.3f} ± {short(_by['error'][k, name])}"
     for name in (VECTOR, RESPONSE, TWO_STAGES, ALIBI)]
    for k in (3, 5, 10, 20, 30)
]  # fmt: skip
_means = _by["accuracy"].unstack()
behind = up(100 * (_means[VECTOR] - _means[ALIBI]).max(), 1)
kept = math.e / (math.e + 29.0)
"""How often randomised response keeps one of 30 labels at ε = 1."""


def sent(points: pd.DataFrame, names: tuple[str, ...], digits: int) -> list[list[str]]:
    """The table of one sweep through the exchange."""
    wide = points.pivot(index="mechanism", columns=EPSILON, values="accuracy")
    return [[f"{e:g}" for e in wide], *([f"{value:.{digits}f}" for value in wide.loc[name]] for name in names)]


def error(points: pd.DataFrame) -> str:
    """The largest standard error, rounded up."""
    return short(up(points["error"].max(), 2), 2)


_wide = exchange.pivot(index="mechanism", columns=EPSILON, values="accuracy")


def _worth(epsilon: float) -> int:
    """How many times ε the best local message needs to be as good as the best exchanged one, linear in log ε."""
    local = _wide.loc[list(ALONE)].max()
    reached = _wide.loc[list(EXCHANGED), epsilon].max()
    return round(math.exp(np.interp(reached, local, np.log(local.index))) / epsilon)


worth = " or ".join(word(factor) for factor in sorted({_worth(0.1), _worth(0.2)}))
local = exchange.set_index(["mechanism", EPSILON])["epsilon_local"]
sizes = published("vector-tables/exchange", "rows.parquet")
_high = kmeans.groupby(EPSILON)["accuracy_high"].max()
_low = exchange.query("mechanism in @ALONE").groupby(EPSILON)["accuracy_low"].max()
wins_above = _high.index[_low <= _high].max()
