"""What is learned from the release of one case, and how good it is."""

import pickle
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, cast

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from p2p_sim.base.checked_values import described, is_array, misfit, require
from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import LEARNERS, MECHANISMS, Offer, maker_of, method_of, offer_of
from p2p_sim.learning.histogram import density_figures
from p2p_sim.learning.learner import Counted, Received, ValueLearner, one_hot
from p2p_sim.learning.metrics import Predicted, Risk, by_group, exchange_floor, measured, predict
from p2p_sim.learning.ridge import LinearValues, value_figures, value_floor
from p2p_sim.mechanisms.deployment import Deployment
from p2p_sim.mechanisms.noise_law import NoiseLaw
from p2p_sim.mechanisms.outcome import (
    ByCluster,
    DensityRelease,
    LabelRelease,
    ModelRelease,
    Outcome,
    Predictor,
    Release,
    Tally,
)
from p2p_sim.mechanisms.protocol_mechanism import ProtocolMechanism
from p2p_sim.population.population import People, Population
from p2p_sim.replicate.replicate import KEPT, Replicate

_OFF = 1e-3
"""By how much probabilities may differ from a sum of 1: rounding in single precision."""


@dataclass(frozen=True)
class LearnedModel:
    """What was learned from a release.

    risk: of the model that learned from it. honest: of one that learned from the same replicate with everybody honest;
    None if everybody was. floor: excess risk that infinitely many exchanged labels would leave; None where unknown.
    groups: share and error rates of the groups that the scenario asks for, by column of the row.
    values: figures of labels that are numbers, or of a density or a rule of cells, by column of the row; else none.
    """

    risk: Risk
    honest: Risk | None
    floor: float | None
    groups: dict[str, float | None]
    values: dict[str, float | None] = field(default_factory=dict)


def learn(case: Replicate, people: People, mechanism: Deployment, outcome: Outcome) -> LearnedModel:
    """Learn from a release, and from that of honest users where some were not."""
    scenario, honest = case.scenario, None
    if isinstance(outcome.release, DensityRelease):
        # densities are released of users in arrays alone
        figures = density_figures(cast(Population, people), outcome.release)
        return LearnedModel(Risk(None, None), honest=None, floor=None, groups={}, values=figures)
    if isinstance(mechanism, ProtocolMechanism) and not len(outcome.labels):
        return LearnedModel(Risk(None, None), None, None, {})  # a protocol among users alone
    predicted = _predicted(case, people, mechanism, outcome)
    if (followers := mechanism.without_adversaries()) is not None:
        # with adversaries, users are held in arrays
        outcome = followers.run(cast(Population, people), scenario.network, case.streams, places=case.places)
        honest = measured(_predicted(case, people, followers, outcome), scenario.learner.loss)
    alpha = mechanism.remaining_flip_prob if honest is None else None
    floor = None if alpha is None else exchange_floor(people, alpha, scenario.learner.loss)
    if isinstance(scenario.learner, ValueLearner):
        floor = None if scenario.learner.knows_clusters else value_floor(people, mechanism.value_law(outcome))
    risk, groups = measured(predicted, scenario.learner.loss), by_group(predicted, scenario.groups)
    values = value_figures(predicted.population, predicted.numbers) if scenario.learner.loss == "squared" else {}
    if isinstance(outcome.release, ModelRelease) and outcome.release.cells is not None:
        values = {"cells": float(outcome.release.cells)}
    return LearnedModel(risk, honest, floor, groups, values)


def _predicted(case: Replicate, people: People, mechanism: Deployment, outcome: Outcome) -> Predicted:
    """What the private model predicts for the held-out rows, and what the model without privacy does if the learner has
    one.
    """
    learner = case.scenario.learner.seeded(case.streams)
    private = learned_from(case, people, mechanism, outcome)
    reference = None
    if learner.has_reference:
        reference = _nonprivate(case, people, outcome.truth)
        offer = offer_of(LEARNERS, learner.kind)
        reference = checked_predictor(reference, offer, (learner, "fit"), people.num_classes)
    return predict(people, private, reference)


def learned_from(case: Replicate, people: People, mechanism: Deployment, outcome: Outcome) -> Predictor:
    """The model that the case's learner makes of a release; of the users only features and clusters are looked at.

    Raises:
        InputError: a density is released, of which no model is made.
    """
    learner, release = case.scenario.learner.seeded(case.streams), outcome.release
    classes, offer = people.num_classes, offer_of(LEARNERS, learner.kind)
    if isinstance(release, ModelRelease):
        offer = offer_of(MECHANISMS, case.scenario.mechanism.kind)
        return checked_predictor(release.predictor, offer, (mechanism, "release"), classes)
    if isinstance(release, DensityRelease):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: a density predicts no labels")
    if people.law is not None and learner.takes_counts and (tally := _tally(people, release)) is not None:
        predictor = learner.learn_counts(Counted.of(people.law, tally.counts))
        return checked_predictor(predictor, offer, (learner, "learn_counts"), classes)
    # a tally has been learned from above: what remains are labels of users in arrays
    people, release = cast(Population, people), cast(LabelRelease, release)
    law: Any = mechanism.noise_law(outcome) if learner.uses_noise_law and release.kind == "hard" else None
    # the law that a plug-in states must fit the labels that it released
    if (maker := maker_of(mechanism)) is not None and law is not None:
        right = (
            isinstance(law, NoiseLaw) and law.num_classes == classes and len(law.groups(len(release))) == len(release)
        )
        wanted = f"must give None or a NoiseLaw of {classes} classes, with a group for each label if it has groups"
        require(method_of(maker, mechanism, "noise_law"), right, wanted)
    public = people.features, release, classes, people.cluster_offsets
    predictor = learner.learn(Received(*public, law, mechanism.value_law(outcome)))
    return checked_predictor(predictor, offer, (learner, "learn"), classes)


def _tally(people: People, release: Release | Tally) -> Tally | None:
    """Released hard labels, counted at the points of a known law whose clusters the users are in; None elsewhere."""
    if isinstance(release, Tally):
        return release
    if not isinstance(release, LabelRelease) or release.kind != "hard":
        return None
    return _counted(people, release.user, release.payload)


def _counted(people: People, user: NDArray[np.integer] | slice, labels: NDArray[np.generic]) -> Tally | None:
    """Labels of some users, counted at the points of a known law whose clusters they are in; None elsewhere."""
    if not isinstance(people, Population) or people.law is None or people.point is None or not people.law_clusters:
        return None
    return Tally.of(people.point[user], labels, people.law.label_distribution.shape)


def size_of(predictor: Predictor) -> int:
    """The size of a model in bytes, with all that it refers to: some of scikit-learn's hold all that they
    learned from.
    """
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(predictor, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


@cached(  # everything that the model depends on: the users, and the learner
    LRUCache(KEPT, size_of),
    key=lambda case, people, truth=None: (
        *case.people_key, type(case.scenario.learner), case.scenario.learner.model_dump_json()
    ),
    lock=Lock(),
)  # fmt: skip
def _nonprivate(case: Replicate, people: People, truth: Tally | None = None) -> Predictor:
    """The model that the case's learner makes of true labels.

    The last few are kept, since the runs of other mechanisms are compared with the same ones.
    """
    learner = case.scenario.learner.seeded(case.streams)
    if people.law is not None and learner.takes_counts:
        if truth is None and isinstance(people, Population):
            truth = _counted(people, slice(None), people.labels)
        if truth is not None:
            counted = Counted.of(people.law, truth.counts)
            return learner.fit(counted.rows, counted.weights)
    people = cast(Population, people)  # users drawn shard by shard have a law and counts
    if isinstance(learner, ValueLearner) and people.values is not None:
        return learner.fit_values(people.features, np.array(people.values)[people.labels], people.values)
    return learner.fit(people.features, one_hot(people.labels, people.num_classes))


@dataclass(frozen=True)
class CheckedPredictor:
    """A predictor whose every answer must be probabilities.

    offer: whose it is. num_classes: K.
    """

    predictor: Predictor
    offer: Offer
    num_classes: int

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of the features (n, d).

        Raises:
            InputError: the predictor gives something else.
        """
        answer: Any = self.predictor.probabilities(features)
        method, shape = method_of(self.offer, self.predictor, "probabilities"), (len(features), self.num_classes)
        numbers = f"must give an array of floating-point numbers {shape}, not {described(answer)}"
        require(method, is_array(answer, "f", shape), numbers)
        right = np.isfinite(answer).all() and (answer >= -_OFF).all() and (np.abs(answer.sum(axis=1) - 1) <= _OFF).all()
        require(method, bool(right), "must give probabilities: finite, at least 0, each row with the sum 1")
        return answer  # type: ignore[no-any-return]


def checked_predictor(predictor: Any, offer: Offer | None, learned: tuple[object, str], num_classes: int) -> Predictor:
    """A predictor of a plug-in, checked whenever it is asked; one of the simulator's own kinds as it is.

    Args:
        predictor: what was learned. offer: whose kind learned it; None: the simulator's own. learned: the object whose
            method gave it, and the name of the method. num_classes: K.

    Raises:
        InputError: it is no predictor.
    """
    if offer is None:
        return predictor  # type: ignore[no-any-return]
    if isinstance(predictor, ByCluster):
        parts = predictor.predictors.items()
        return ByCluster({c: checked_predictor(part, offer, learned, num_classes) for c, part in parts})
    if isinstance(predictor, LinearValues):
        finite = bool(np.isfinite(predictor.weights).all() and np.isfinite(predictor.intercept))
        require(method_of(offer, *learned), finite, "must give finite weights")
        return predictor
    wanted = f"must give a predictor with a method probabilities, not {type(predictor).__name__}"
    require(method_of(offer, *learned), callable(getattr(predictor, "probabilities", None)), wanted)
    wrong = misfit(type(predictor), Predictor)
    require(method_of(offer, *learned), not wrong, f"{type(predictor).__name__}.{wrong}")
    return CheckedPredictor(predictor, offer, num_classes)
