"""Whole models learned from all labels of two classes, on the users that the mechanisms of the comparison meet."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from p2p_sim import Scenario
from p2p_sim.base.streams import Streams
from p2p_sim.histograms.classifiers import LabelPrivateHistogram
from p2p_sim.mechanisms.dp_sgd import Scaling
from p2p_sim.population.population import Population
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.stacking import PrivateLogisticRegression, SampleStacking

Floats = NDArray[np.float64]
Transform = Callable[[NDArray[np.floating]], NDArray[np.floating]]
PLR, STACKING, HISTOGRAM = "private logistic regression", "private stacking, 5 parts", "private histogram"
LONGEST = 1.5 * 2**0.5
"""Rows are centred and scaled to root mean square norm 1, a constant 1 is appended; longer ones than this are cut."""
PENALTY = 1e-3
"""λ of every logistic model."""


Task = tuple[dict[str, Any], list[float], int, Path | None]
"""The tree of a scenario (users and seed), pure ε of each model, the replicate, and where data files are."""


def model_rows(task: Task, histogram: bool) -> list[dict[str, float | str]]:
    """Accuracy of each private model in one replicate, a row for each ε.

    Features are public, as for all other mechanisms: they may be scaled by what is seen of them, and ε counts labels.

    Args:
        task: what is learned from. histogram: whether the features are few enough for cells.
    """
    return list(_rows(*task, histogram))


def _rows(
    tree: dict[str, Any], epsilons: list[float], replicate: int, data_dir: Path | None, histogram: bool
) -> Iterator[dict[str, float | str]]:
    scenario = Scenario.from_tree(tree)
    people = Replicate(scenario, replicate, data_dir).people()
    scaling, streams = Scaling.of(people.features, 1.0), Streams(scenario.seed, replicate)
    cube = _unit_cube(people.features)
    for epsilon in epsilons:
        rng, seed = streams.generator(f"models at {epsilon:g}"), streams.integer_seed(f"votes at {epsilon:g}")
        settings: dict[str, Any] = {"l2": PENALTY, "norm_bound": LONGEST, "tight": True, "random_state": rng}
        models = {PLR: PrivateLogisticRegression(epsilon, **settings), STACKING: SampleStacking(epsilon, 5, **settings)}
        for name, model in models.items():
            model.fit(scaling.apply(people.features), people.labels)
            yield _row(name, epsilon, replicate, _accuracy(people, model, scaling.apply))
        if histogram:
            votes = LabelPrivateHistogram(epsilon, random_state=seed).fit(cube(people.features), people.labels)
            yield _row(HISTOGRAM, epsilon, replicate, _accuracy(people, votes, cube))


def _row(name: str, epsilon: float, replicate: int, accuracy: float) -> dict[str, float | str]:
    """As a row of a sweep; all three take pure ε."""
    return {
        "scenario": f"{name} at {epsilon:g}",
        "mechanism": name,
        "mechanism.target_epsilon": epsilon,
        "replicate": replicate,
        "error_rate": 1.0 - accuracy,
        "epsilon_upper": epsilon,
        "delta": 0.0,
        "trust": "organisation" if name == STACKING else "curator",
    }


def _unit_cube(features: NDArray[np.floating]) -> Callable[[NDArray[np.floating]], Floats]:
    """What moves public features into [0, 1]^d."""
    low, high = features.min(axis=0), features.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    return lambda rows: np.clip((rows - low) / span, 0.0, 1.0)


def _accuracy(people: Population, model: ClassifierMixin, transform: Transform) -> float:
    """Share of right answers: exact where the law is known, else on the holdout."""
    if people.law is not None:
        guess = model.predict(transform(people.law.points)).astype(int)
        return float(people.law.mass @ people.law.label_distribution[np.arange(len(guess)), guess])
    assert people.holdout is not None
    return float(np.mean(model.predict(transform(people.holdout.features)) == people.holdout.labels))
