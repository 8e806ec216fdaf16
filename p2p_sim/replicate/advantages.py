"""How much more often somebody guesses a user's label right because she took part, and how often without her."""

from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from p2p_sim.learning.learner import one_hot
from p2p_sim.learning.logistic_regression import LogisticRegressionConfig
from p2p_sim.mechanisms.deployment import Accounted, Deployment
from p2p_sim.mechanisms.outcome import Outcome, Predictor, Tally
from p2p_sim.population.population import Examples, People, Population
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.dominating_law import LossLaw
from p2p_sim.privacy.guessing_advantage import advantages, local_advantage
from p2p_sim.replicate.replicate import Replicate

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
GUESSES = (
    "advantage_uniform", "advantage_cluster", "advantage_cluster_worst", "advantage_model", "advantage_model_worst",
    "advantage_local", "advantage_times", "advantage_coalition", "guess_uniform", "guess_cluster", "guess_model",
)  # fmt: skip
"""Columns of a row, in their order."""
LARGEST_PUBLIC = 2_000
"""Most held-out rows from which the public model learns."""
_UP, _BLOCK = 1.0 + 1e-12, 2**16
"""Factor above all rounding of a mean, so that it stays an upper bound; users whose priors are in memory at a time."""


class Priors(NamedTuple):
    """What somebody believes of users' labels before she sees the release.

    probabilities: (m, K) of each label. users: (m,) how many users each row is of. accuracy: share of the labels that
    are guessed right by the likeliest; None: the mean of the rows' largest probabilities.
    """

    probabilities: Floats
    users: Floats
    accuracy: float | None = None


def advantage_columns(
    case: Replicate, people: People, mechanism: Deployment, outcome: Outcome, accounted: Accounted
) -> dict[str, Any]:
    """The columns of `GUESSES`; None where there is no such observer or no such prior.

    Args:
        case, people: what was run, and with whom. mechanism, outcome, accounted: how, what came of it, and its account.
    """
    learner, classes = cast(PrivacyBound, accounted.statements["epsilon_upper"]), people.num_classes
    law = mechanism.learner_law(outcome, people.cluster_sizes, case.scenario.situation(classes), learner)
    # whoever sees a user's own message, if she sends one: as its law says, else as ε₀ does
    message, local = accounted.statements.get("epsilon_local"), None
    if isinstance(message, PrivacyBound) and (local := mechanism.local_advantage(classes)) is None:
        local = local_advantage(1.0, message.epsilon_upper, classes)
    uniform = float(advantages(law, np.full((1, classes), 1.0 / classes))[0])
    alone = uniform if local is None else min(uniform, local)
    row: dict[str, Any] = dict.fromkeys(GUESSES) | {
        "advantage_uniform": alone,
        "advantage_local": local,
        "guess_uniform": 1.0 / classes,
    }
    for column, most in mechanism.network_advantages(outcome, classes).items():
        row[column] = max(most, alone)  # the learner is one of the coalition
    if isinstance(timed := accounted.statements.get("epsilon_times_upper"), PrivacyBound):
        row["advantage_times"] = alone if timed.epsilon_upper <= learner.epsilon_upper else local
    for name, priors in (("cluster", cluster_counts(people, outcome)), ("model", _model(case, people, outcome))):
        if priors is not None:
            row |= _averaged(name, law, priors)
    return row


def _averaged(name: str, law: LossLaw, priors: Priors) -> dict[str, float]:
    """Mean and largest advantage over users who have these priors, and the share guessed right without the release."""
    before, users = priors.probabilities, priors.users
    each = np.concatenate([advantages(law, before[i : i + _BLOCK]) for i in range(0, len(before), _BLOCK)])
    total = users.sum()
    return {
        f"advantage_{name}": min(float(users @ each / total) * _UP, float(each.max())),
        f"advantage_{name}_worst": float(each.max()),
        f"guess_{name}": (float(users @ before.max(axis=1) / total) if priors.accuracy is None else priors.accuracy),
    }


def cluster_counts(people: People, outcome: Outcome) -> Priors | None:
    """The share of each label in each cluster that has users, as somebody knows it who knows how many hold which label.

    None of users who are drawn shard by shard if their true labels were not counted.
    """
    classes = people.num_classes
    if isinstance(people, Population):
        cluster = np.repeat(np.arange(len(people.cluster_sizes)), people.cluster_sizes)
        cell = cluster * classes + people.labels
        counts = np.bincount(cell, minlength=len(people.cluster_sizes) * classes).reshape(-1, classes)
    elif people.law is not None and outcome.truth is not None:
        counts = np.zeros((int(people.law.cluster.max()) + 1, classes), dtype=np.int64)
        np.add.at(counts, people.law.cluster, outcome.truth.counts)
    else:
        return None
    users = counts.sum(axis=1)
    return Priors(counts[users > 0] / users[users > 0, None], users[users > 0].astype(np.float64))


def _model(case: Replicate, people: People, outcome: Outcome) -> Priors | None:
    """Beliefs about users' labels of somebody who knows the law, or learned from held-out rows; None if there is
    neither.
    """
    if people.law is not None:
        points = len(people.law.points)
        # users of a law have points, and of those drawn shard by shard the true labels are counted
        if isinstance(people, Population):
            users = np.bincount(cast(Integers, people.point), minlength=points)
        else:
            users = cast(Tally, outcome.truth).counts.sum(axis=1)
        return Priors(people.law.label_distribution[users > 0], users[users > 0].astype(np.float64))
    people = cast(Population, people)  # users are drawn shard by shard from a law alone
    if people.holdout is None or not len(people.holdout.labels):
        return None
    parts = range(0, people.num_users, _BLOCK)
    model = _public_model(case, people, people.holdout)
    priors = np.concatenate([model.probabilities(people.features[i : i + _BLOCK]) for i in parts])
    priors /= priors.sum(axis=1, keepdims=True)
    return Priors(priors, np.ones(len(priors)), float(np.mean(priors.argmax(axis=1) == people.labels)))


@cached(LRUCache(8), key=lambda case, people, holdout: case.people_key, lock=Lock())
def _public_model(case: Replicate, people: Population, holdout: Examples) -> Predictor:
    """A logistic regression of the first held-out rows, none of which is a user whose label is to be guessed."""
    rows = slice(0, LARGEST_PUBLIC)
    labels = one_hot(holdout.labels[rows], people.num_classes)
    return LogisticRegressionConfig().fit(holdout.features[rows], labels)
