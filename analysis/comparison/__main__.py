"""The accuracy of every mechanism at equal (ε, δ), grouped by whom users must trust: the README's first figure.

Run as `python -m analysis.comparison --data-dir DIR`; the same command continues a stopped run.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from analysis.study import Frame, command, curves
from p2p_sim import Scenario
from p2p_sim.base import Streams
from p2p_sim.figures import Panel, plot_by_trust
from p2p_sim.histograms import LabelPrivateHistogram
from p2p_sim.measures import points
from p2p_sim.mechanisms import Scaling
from p2p_sim.population import Examples, Population
from p2p_sim.replicate import Replicate
from p2p_sim.stacking import PrivateLogisticRegression, SampleStacking

Floats = NDArray[np.float64]
Transform = Callable[[NDArray[np.floating]], NDArray[np.floating]]
PLR, STACKING, HISTOGRAM = "private logistic regression", "private stacking, 5 parts", "private histogram"
LONGEST = 1.5 * 2**0.5
"""The largest norm of a user's row of features; longer rows are shortened to this norm. Rows are first centred, scaled
to a root mean square norm of 1, and given a constant feature 1."""
PENALTY = 1e-3
"""λ, the weight of the L2 penalty, of every logistic model."""
Task = tuple[dict[str, Any], list[float], int, Path | None]
"""In this order: a scenario as a nested mapping, the values of pure ε, the replicate, and the folder of data files.
Only the scenario's users and seed are used."""


def model_rows(task: Task, histogram: bool) -> list[dict[str, float | str]]:
    """The accuracy of models that a curator or organisations train privately, in one replicate. There is a row for each
    model and ε; its key error_rate has 1 minus the accuracy. The models are private logistic regression, private
    stacking with the users in 5 parts and, if asked for, a private histogram rule. All have pure ε (δ = 0), which
    protects labels alone. Features are public: they may be scaled by their own values.

    Args:
        task: the scenario, the values of ε, the replicate, and the folder of data files; `Task` has details. histogram:
        whether the private histogram is among the models.
    """
    tree, epsilons, replicate, data_dir = task
    scenario, rows = Scenario.from_tree(tree), list[dict[str, float | str]]()
    people = Replicate(scenario, replicate, data_dir).people()
    scaling, streams = Scaling.of(people.features, 1.0), Streams(scenario.seed, replicate)
    # the histogram's cells divide [0, 1]^d; features are mapped to this cube by public ranges
    low, high = people.features.min(axis=0), people.features.max(axis=0)
    span = np.where(high > low, high - low, 1.0)

    def cube(features: NDArray[np.floating]) -> Floats:
        return np.asarray(np.clip((features - low) / span, 0.0, 1.0))

    for epsilon in epsilons:
        rng, seed = streams.generator(f"models at {epsilon:g}"), streams.integer_seed(f"votes at {epsilon:g}")
        settings: dict[str, Any] = {"l2": PENALTY, "norm_bound": LONGEST, "tight": True, "random_state": rng}
        models: dict[str, tuple[ClassifierMixin, Transform]] = {
            PLR: (PrivateLogisticRegression(epsilon, **settings), scaling.apply),
            STACKING: (SampleStacking(epsilon, 5, **settings), scaling.apply),
        }
        if histogram:
            models[HISTOGRAM] = (LabelPrivateHistogram(epsilon, random_state=seed), cube)
        # rows have the columns of a sweep's results; all models have pure ε
        for name, (model, transform) in models.items():
            model.fit(transform(people.features), people.labels)
            rows.append(
                {
                    "scenario": f"{name} at {epsilon:g}",
                    "mechanism": name,
                    "mechanism.target_epsilon": epsilon,
                    "replicate": replicate,
                    "error_rate": 1.0 - _accuracy(people, model, transform),
                    "epsilon_upper": epsilon,
                    "delta": 0.0,
                    "trust": "organisation" if name == STACKING else "curator",
                }
            )
    return rows


def _accuracy(people: Population, model: ClassifierMixin, transform: Transform) -> float:
    """The share of right predictions. It is exact if the users' distribution is known. Otherwise it is measured on
    held-out users.

    transform: prepares features for the model.
    """
    if people.law is not None:
        guess = model.predict(transform(people.law.points)).astype(int)
        return float(people.law.mass @ people.law.label_distribution[np.arange(len(guess)), guess])
    holdout = cast(Examples, people.holdout)  # without a known law, some rows of the data set are held out
    return float(np.mean(model.predict(transform(holdout.features)) == holdout.labels))


NAME = "comparison"
EPSILON = "mechanism.target_epsilon"
PANELS = {
    "digits": "digits, ten classes",
    "mnist": "MNIST, ten classes",
    "even-odd": "MNIST, even against odd",
    "adult": "Adult, income above 50,000",
    "synthetic": "a known law, φ = 0.2",
}
TRUST = {
    "trust nobody": (
        "label exchange",
        "randomised response",
        "vector approximation",
        "RRWithPrior, two stages",
        "ALIBI",
    ),
    "trust a shuffler": ("randomised response, shuffled",),
    "trust one's own organisation": (STACKING,),
    "trust a curator with all labels": ("DP-SGD", "ClusterRR", PLR, HISTOGRAM),
}
"""Mechanisms, grouped by the party that users must trust, if any. This party sees true labels, or noisy labels with
their owners."""
TWO_CLASSES = ("even-odd", "adult", "synthetic")
REDUCED = {
    "digits": ("replicates=2", "clusters.count=4"),
    "synthetic": ("replicates=2", "population.users=2000"),
}
"""The panels (data sets) of a reduced study, each with changed settings of its scenario."""
MEASURES = ("relative_accuracy", "accuracy", "nonprivate_accuracy")


def main(frame: Frame) -> list[Path]:
    """Compares the mechanisms on all data sets. Writes a figure and a table, and returns both files."""
    tables = {name: _panel(name, frame) for name in (REDUCED if frame.small else PANELS)}
    lines = [
        Panel("target ε", "accuracy relative to no privacy", lines, log_y=False, title=PANELS[name])
        for name, table in tables.items()
        if (lines := curves(table, EPSILON, "relative_accuracy", "mechanism"))
    ]
    written = frame.points(tables, ("mechanism", EPSILON, "epsilon_upper", "delta", "trust"), MEASURES)
    counts = ", ".join(f"{table['replicates'].min()} ({name})" for name, table in tables.items())
    note = (
        f"Bands: 95% intervals; replicates a point: {counts}. One-vs-rest logistic regression learns from every "
        "release of labels. δ = 1e-6 for exchange, shuffler and DP-SGD, pure ε elsewhere; label adjacency throughout. "
        "ε is for what the learner sees. In the exchange a peer, or someone on the wire, sees a noisy label with its "
        "owner; against these observers a larger ε₀ holds."
    )
    title = "What each mechanism is worth, and who must be trusted"
    return [frame.figure(plot_by_trust, lines, "comparison.png", TRUST, title, note), written]


def _panel(name: str, frame: Frame) -> pd.DataFrame:
    """The points of one data set, one for each mechanism and ε. The data set's sweep gives these points. With two
    classes there are also points of the privately trained models. name: the data set's key in `PANELS`.
    """
    swept = frame.swept(f"{NAME}/{name}.toml", REDUCED.get(name, ()))
    table = swept.points
    if name not in TWO_CLASSES:
        return table
    once = swept.rows.drop_duplicates("replicate").set_index("replicate")["nonprivate_error_rate"]
    tree = swept.plan.base.model_dump(mode="json")
    tasks = [(tree, sorted(table[EPSILON].unique()), replicate, frame.data_dir) for replicate in once.index]
    rows = pd.DataFrame(chain(*frame.each(partial(model_rows, histogram=name == "synthetic"), tasks)))
    rows["nonprivate_error_rate"] = rows["replicate"].map(once)
    rows.to_parquet(frame.out / name / "models.parquet", index=False)
    return pd.concat([table, points(rows, ("mechanism", EPSILON))], ignore_index=True)


if __name__ == "__main__":
    command(NAME, main)
