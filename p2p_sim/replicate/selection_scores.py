"""Private scores of models: from released labels that are held back, or from a curator's noisy count.

A curator is a trusted server with true labels.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError
from p2p_sim.learning import AccuracyEstimate, probabilities_of, validated
from p2p_sim.mechanisms import Deployment, Outcome, Predictor
from p2p_sim.network import cluster_of
from p2p_sim.population import Population
from p2p_sim.replicate.learn import evidence_of, learned_from
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.row import StatedRow
from p2p_sim.replicate.run import exchange, measure, set_up

HELD_BACK = 1.0 / 3.0
"""Share of the released labels that judge a model; the model learns from the others."""
VALUE, LOWER, UPPER, PRIVATE = "validated", "validated_lower", "validated_upper", "private_score"
"""Columns of rows: an accuracy estimated from released labels, the ends of its interval, and a share of right answers
with a curator's noise."""


@dataclass(frozen=True)
class Halves:
    """A release of m labels in two parts, which are both post-processing of the release.

    teaching: the labels from which a model learns. judging: (m,) marks the other labels, which judge the model.
    """

    teaching: Outcome
    judging: NDArray[np.bool_]


def split(case: Replicate, outcome: Outcome) -> Halves:
    """Cut a release at random: each label is held back for judging with probability 1/3, whatever its value.

    In the result, `judging` marks the labels held back, and `teaching` has the others.

    Args:
        case: the replicate, whose random stream decides. outcome: the result of its run.

    Raises:
        InputError: the mechanism releases a model or a density instead of labels.
    """
    release = outcome.labels
    judging = case.streams.generator("labels held back").random(len(release)) < HELD_BACK
    return Halves(replace(outcome, release=release.of_labels(~judging), arrival_s=None), judging)


def judged(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome) -> AccuracyEstimate:
    """The accuracy of a model learned from two thirds of a release, estimated from the other third, with an interval.

    The estimate serves to choose between learners. If users submit labels of random peers, a noisy label may be in both
    parts. The estimate then favours models that closely follow the labels of each cluster.

    Args:
        case: the replicate. people: its users. mechanism: its mechanism, with parameters fixed. outcome: the result of
        its run.

    Raises:
        InputError: the release says nothing of accuracy, the network has faults, or there are adversaries.
    """
    parts = split(case, outcome)
    evidence = evidence_of(case, people, mechanism, outcome)
    model = learned_from(case, people, mechanism, parts.teaching)
    upper = None if evidence.upper is None else evidence.upper[parts.judging]
    held = replace(evidence, user=evidence.user[parts.judging], weights=evidence.weights[parts.judging], upper=upper)
    return validated(_predictions(model, people), held, people.cluster_offsets)


def _predictions(model: Predictor, people: Population) -> NDArray[np.integer]:
    """The label (n,) that a model predicts for each user."""
    home = cluster_of(people.cluster_offsets)
    return np.asarray(probabilities_of(model, people.features, home).argmax(axis=1))


def row_judged(case: Replicate) -> StatedRow:
    """A replicate's row and terms (privacy statements without numbers), with three more columns.

    The new columns are `validated` (an estimated accuracy), and `validated_lower` and `validated_upper` (the ends of a
    95% interval). The scenario's learner makes a model of two thirds of the released labels. The other third judges
    the model. `validated` is None if the labels determine only a range. The replicate is run for this.
    """
    exchanged = exchange(case)
    row, terms = measure(case, exchanged.population, exchanged.mechanism, exchanged.outcome).stated
    estimate = judged(case, exchanged.population, exchanged.mechanism, exchanged.outcome)
    return StatedRow({**row, VALUE: estimate.value, LOWER: estimate.lower, UPPER: estimate.upper}, terms)


def row_scored(case: Replicate, noise_scale: float) -> StatedRow:
    """A replicate's row and terms (privacy statements without numbers), plus the column `private_score`.

    This column has a curator's noisy score of the model, as from `scored`. The row is one run of a private selection,
    which scores many models on the same users. So replicate 0 always gives the users, and the case's own index decides
    the other random numbers, such as the noise.

    Args:
        case: what to run. noise_scale: scale of the two-sided geometric noise on the number of users whose label
        the model predicts rightly.
    """
    people = replace(case, replicate=0).people()
    mechanism, network = set_up(case, people)
    outcome = mechanism.release_on(network, people)
    row, terms = measure(case, people, mechanism, outcome).stated
    return StatedRow({**row, PRIVATE: scored(case, people, mechanism, outcome, noise_scale)}, terms)


def scored(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome, noise_scale: float) -> float:
    """The private score of a model learned from the release: the noisy share of users whose label it predicts rightly.

    Two-sided geometric noise is added to the number of these users; the sum is divided by the number of all users.

    Args:
        case: the replicate with learner and random streams. people: its users. mechanism: the mechanism that released.
        outcome: the result of the run. noise_scale: scale of the noise on the number.
    """
    model = learned_from(case, people, mechanism, outcome)
    right = int(np.count_nonzero(_predictions(model, people) == people.labels))
    return (right + two_sided_geometric(noise_scale, case.streams.generator("private score"))) / people.num_users


def two_sided_geometric(scale: float, rng: np.random.Generator) -> int:
    """Draw Z with Pr[Z = z] = (1-t)/(1+t) t^|z|, t = e^(-1/scale), as the difference of two geometric numbers."""
    if not scale > 0.0:
        raise InputError(f"noise_scale = {scale:g}: must be above 0")
    first, second = rng.geometric(-math.expm1(-1.0 / scale), 2)
    return int(first - second)
