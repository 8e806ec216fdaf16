"""How often the true accuracy lies in the interval that is estimated from released labels.

Run as `python -m analysis.validation` or by `make published`; it takes a few CPU minutes. Users, true labels and
predictions are fixed, so that only noise and the choice of peers are random.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from analysis.study import Frame, command
from p2p_sim.base import Streams
from p2p_sim.learning import AccuracyEstimate, validated
from p2p_sim.mechanisms import Deployment, Evidence, Setup
from p2p_sim.network import NetworkConfig
from p2p_sim.population import Population
from p2p_sim.scenario import Scenario

BLOCK = 500
"""Number of releases that are computed together, as one task."""
SIZES = np.tile([10, 30, 50], 8)
"""Number of users of each cluster."""
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
EXCHANGE = {"kind": "label_exchange", "flip_prob": 0.2, "sampling_rate": 0.8}
MESSAGES = {"kind": "label_exchange", "sampling_rate": 0.8}
RR = {"kind": "randomized_response", "flip_prob": 0.25}
CLUSTER_RR = {"kind": "cluster_rr", "noise_scale": 0.5, "threshold": 0.0}
MECHANISMS: dict[str, dict[str, Any]] = {
    "randomised response": RR,
    "signed": {**RR, "debias": True},
    "vectors": {"kind": "vector_approximation", "target_epsilon": 2.0},
    "ALIBI": {"kind": "alibi", "target_epsilon": 2.0},
    "one prior": {"kind": "rr_with_prior", "target_epsilon": 1.5, "stages": 1},
    "two stages": {"kind": "rr_with_prior", "target_epsilon": 1.5, "stages": 2, "neighbours": 40},
    "exchange": EXCHANGE,
    "signed exchange": {**EXCHANGE, "debias": True},
    "exchanged vectors": {**MESSAGES, "randomizer": {"kind": "vector_approximation", "epsilon": 2.0}},
    "exchanged ALIBI": {**MESSAGES, "randomizer": {"kind": "alibi", "epsilon": 3.0}},
    "exchanged prior": {**MESSAGES, "randomizer": {"kind": "rr_with_prior", "epsilon": 1.5}},
    "shuffled": {"kind": "shuffled_response", "flip_prob": 0.25},
    "ClusterRR": {**CLUSTER_RR, "resampling_prob": 0.5},
    "signed ClusterRR": {**CLUSTER_RR, "resampling_prob": 0.5, "bias_correction": 0.3},
    "ClusterRR, all drawn anew": {**CLUSTER_RR, "resampling_prob": 1.0},
}
"""For the name of each mechanism, the mechanism's table in a scenario."""
OWN = ("randomised response", "signed", "vectors", "ALIBI", "one prior", "signed ClusterRR")
"""Mechanisms that release each user's own label with noise of a known law."""
BOUNDS = ("two stages", "ClusterRR")
"""Mechanisms whose released labels give no unbiased estimate of whether a user has a class, but two biased estimates.
One is too small on average, the other too large (`Evidence.upper`)."""
CLUSTERS = tuple(name for name in MECHANISMS if name not in (*OWN, *BOUNDS))
"""Mechanisms that release labels of random users of a cluster, or labels drawn from the cluster's noisy distribution.
These labels show the share of each class in the cluster."""
DRIFTING = "ClusterRR, all drawn anew"
"""A mechanism of `CLUSTERS` in which one random error is common to all labels of a cluster."""
UNBIASED = (
    *itertools.product(OWN, ("constant", "mixed")),
    *((name, "constant") for name in CLUSTERS if name != DRIFTING),
)
"""Pairs of a mechanism and a predictor for which the accuracy has an unbiased estimate."""
RANGES = tuple(itertools.product((*BOUNDS, *CLUSTERS), ("best", "worst")))
"""Pairs of a mechanism and a predictor for which only a range of the accuracy is estimated: all accuracies that the
shares of classes in the clusters allow. The true accuracy is an end of this range."""


@dataclass(frozen=True)
class Judged:
    """Users with their true labels, and the label that a predictor gives to each user."""

    people: Population
    predicted: NDArray[np.int64]

    @property
    def accuracy(self) -> float:
        """The share of users for whom the predictor is right."""
        return float((self.people.labels == self.predicted).mean())


@lru_cache
def judged(kind: str, classes: int = 3) -> Judged:
    """Users in the study's 24 clusters with different shares of the classes, and a prediction for each user. The same
    arguments always give the same users.

    kind: kind of predictor. "constant" predicts one label in each cluster; all other kinds predict two. "mixed" assigns
    the two labels to users at random. "best" assigns the labels so that as many predictions as possible are right.
    "worst" assigns the labels so that as few as possible are right. classes: number of classes.
    """
    rng = np.random.default_rng(7)
    labels, predicted = [], []
    for number, size in enumerate(SIZES.tolist()):
        shares = np.full(classes, 0.3 / (classes - 1))
        shares[number % classes] = 0.7
        truth = np.sort(rng.choice(classes, size, p=shares))
        guess = np.full(size, number % classes)
        if kind != "constant":
            guess[: size // 3] = (number + 1) % classes
        if kind in ("best", "worst"):
            guess = placed(truth, guess, kind == "best")
        labels.append(truth)
        predicted.append(guess if kind != "mixed" else rng.permutation(guess))
    every = np.concatenate(labels).astype(np.uint8)
    features = (every[:, None] + rng.normal(size=(len(every), 2))).astype(np.float64)
    return Judged(Population(features, every, OFFSETS, classes), np.concatenate(predicted))


def placed(truth: NDArray[np.int64], guess: NDArray[np.int64], right: bool) -> NDArray[np.int64]:
    """The guesses of a cluster, assigned to the cluster's users.

    truth: the users' labels. guess: equally many guesses. right: True for as many right guesses as possible, False for
    as few as possible.
    """
    from scipy.optimize import linear_sum_assignment

    return np.asarray(guess[linear_sum_assignment(truth[:, None] == guess[None, :], maximize=right)[1]])


def mechanism_of(name: str, classes: int = 3) -> Deployment:
    """A mechanism with the study's settings, deployed on the study's 24 clusters of 10, 30 or 50 users.

    name: the mechanism's name in the study's table, such as "randomised response" or "signed exchange". classes: number
    of classes of labels.
    """
    tree = {
        "name": "x",
        "engine": "vectorised",
        "population": {"kind": "synthetic"},
        "mechanism": MECHANISMS[name],
        "learner": {"kind": "one_vs_rest" if "vectors" in name else "soft_logistic_regression"},
    }
    return Scenario.from_tree(tree).mechanism.deployed(Setup(SIZES, classes, 1e-6, "vectorised"))


def estimates(mechanism: Deployment, users: Judged, runs: Iterable[int], seed: int = 0) -> list[AccuracyEstimate]:
    """For each run, the estimate of the accuracy from labels that the mechanism releases.

    runs: numbers that, together with the seed, give each run its own random draws.
    """
    intervals = []
    for run in runs:
        outcome = mechanism.run(users.people, NetworkConfig(), Streams(seed, run))
        evidence = cast(Evidence, mechanism.evidence(outcome, OFFSETS))  # all of MECHANISMS release labels
        intervals.append(validated(users.predicted, evidence, OFFSETS))
    return intervals


def coverage(intervals: list[AccuracyEstimate], truth: float) -> float:
    """The share of intervals in which the true accuracy lies; both ends belong to an interval."""
    return float(np.mean([interval.lower <= truth <= interval.upper for interval in intervals]))


def main(frame: Frame, replicates: int = 10_000) -> list[Path]:
    """Measures how often intervals from released labels cover the true accuracy. Returns the table's file.

    Args:
        frame: where the study runs and writes. replicates: number of releases for each mechanism and predictor.
    """
    lines = []
    for name, kind in (*UNBIASED, *RANGES):
        blocks = [(start, min(start + BLOCK, replicates)) for start in range(0, replicates, BLOCK)]
        intervals = list(itertools.chain(*frame.each(partial(_block, name, kind), blocks)))
        truth = judged(kind).accuracy
        ends = np.array([(interval.lower, interval.upper) for interval in intervals]).mean(axis=0)
        lines.append(
            {"mechanism": name, "predictor": kind, "unbiased": intervals[0].identified, "replicates": len(intervals),
             "accuracy": truth, "coverage": coverage(intervals, truth), "lower": ends[0], "upper": ends[1]}
        )  # fmt: skip
    return [frame.table("table.csv", lines)]


def _block(name: str, kind: str, runs: tuple[int, int]) -> list[AccuracyEstimate]:
    """The estimates of a predictor's accuracy from a block of releases of a mechanism, one estimate for each release.

    Args:
        name: the mechanism's name, such as "exchange". kind: kind of predictor, as in `judged`. runs: the first number
        of a release, and the number after the last.
    """
    return estimates(mechanism_of(name), judged(kind), range(*runs), seed=1)


if __name__ == "__main__":
    command("validation", main)
