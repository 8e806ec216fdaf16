"""Learning from the release of one replicate, and the errors of the learned model."""

import pickle
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, cast

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from p2p_sim.base import (
    LEARNERS,
    MECHANISMS,
    InputError,
    Offer,
    described,
    is_array,
    maker_of,
    method_of,
    misfit,
    offer_of,
    require,
)
from p2p_sim.exchange import NOBODY
from p2p_sim.learning import (
    Counted,
    Learner,
    LinearValues,
    Predicted,
    Received,
    Risk,
    ValueLearner,
    by_group,
    density_figures,
    exchange_floor,
    measured,
    one_hot,
    predict,
    value_figures,
    value_floor,
)
from p2p_sim.mechanisms import (
    ByCluster,
    DensityRelease,
    Deployment,
    Evidence,
    LabelRelease,
    ModelRelease,
    NoiseLaw,
    Outcome,
    Predictor,
    ProtocolMechanism,
    Tally,
)
from p2p_sim.population import People, Population
from p2p_sim.replicate.replicate import KEPT, Replicate
from p2p_sim.scenario import Scenario

_OFF = 1e-3
"""Rounding in single precision may move a sum of probabilities this far from 1, or a probability this far below 0."""


@dataclass(frozen=True)
class LearnedModel:
    """Errors and other measured values of the model that was learned from a release.

    risk: the errors of the learned model. honest: the errors of the model that is learned from the same replicate
        without adversaries; None if there are no adversaries. floor: excess risk that infinitely many exchanged labels
        would leave; None if unknown.
    groups: by column of the row of results, share and error rates of the groups that the scenario asks for.
    values: by column of the row, values for numeric labels, a density or a rule of cells; otherwise empty.
    """

    risk: Risk
    honest: Risk | None
    floor: float | None
    groups: dict[str, float | None]
    values: dict[str, float | None] = field(default_factory=dict)


def learn(case: Replicate, people: People, mechanism: Deployment, outcome: Outcome) -> LearnedModel:
    """Learn a model from a replicate's release, and measure the model's errors.

    If there are adversaries, the replicate is also run without adversaries, and a second model is learned. A released
    density is only measured. If users follow a plug-in's protocol and no label reached the learner, all values are
    None.

    Args:
        case: the replicate. people: its users. mechanism: its mechanism, with parameters fixed for these users.
        outcome: the result of its run.
    """
    scenario, honest = case.scenario, None
    if isinstance(outcome.release, DensityRelease):
        # if densities are released, users are held in arrays
        figures = density_figures(cast(Population, people), outcome.release)
        return LearnedModel(Risk(None, None), honest=None, floor=None, groups={}, values=figures)
    if isinstance(mechanism, ProtocolMechanism) and not len(outcome.labels):
        return LearnedModel(Risk(None, None), None, None, {})  # no label reached the learner
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
    """The class probabilities that the private model and, if the learner has one, the reference model predict.

    The private model is learned from the release, the reference from true labels. Both predict for the points of the
    known law or, if no law is known, for the held-out rows.

    Args:
        case: the replicate. people: its users. mechanism: its mechanism, with parameters fixed. outcome: the result of
        its run.
    """
    learner = case.scenario.learner.seeded(case.streams)
    private = learned_from(case, people, mechanism, outcome)
    reference = None
    if learner.has_reference:
        reference = _nonprivate(case, people, outcome.truth)
        if (offer := offer_of(LEARNERS, learner.kind)) is not None:
            reference = checked_predictor(reference, offer, (learner, "fit"), people.num_classes)
    return predict(people, private, reference)


def learned_from(case: Replicate, people: People, mechanism: Deployment, outcome: Outcome) -> Predictor:
    """The model that a replicate's learner makes of a release, without looking at true labels.

    Raises:
        InputError: the release is a density, from which no model is learned.
    """
    learner, release = case.scenario.learner.seeded(case.streams), outcome.release
    classes, offer = people.num_classes, offer_of(LEARNERS, learner.kind)
    if isinstance(release, DensityRelease):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: a density predicts no labels")
    # a learner may learn from the counts of labels at the points (possible feature vectors) of a known law
    tally = release if isinstance(release, Tally) else None
    learned: tuple[object, str]
    if people.law is not None and isinstance(release, LabelRelease) and learner.takes_counts and release.kind == "hard":
        tally = _counted(people, release.user, release.payload)
    if isinstance(release, ModelRelease):
        offer = offer_of(MECHANISMS, case.scenario.mechanism.kind)
        learned = mechanism, "release"
        predictor = release.predictor
    elif people.law is not None and tally is not None:
        predictor, learned = learner.learn_counts(Counted.of(people.law, tally.counts)), (learner, "learn_counts")
    else:
        people, release = cast(Population, people), cast(LabelRelease, release)
        public = people.features, release, classes, people.cluster_offsets
        law = _noise_law(mechanism, outcome, classes) if learner.uses_noise_law and release.kind == "hard" else None
        predictor, learned = learner.learn(Received(*public, law, mechanism.value_law(outcome))), (learner, "learn")
        if type(learner).learn is Learner.learn:
            learned = learner, "fit"
    return predictor if offer is None else checked_predictor(predictor, offer, learned, classes)


def _noise_law(mechanism: Deployment, outcome: Outcome, classes: int) -> NoiseLaw | None:
    """The probabilities of released hard labels given true labels; None if not stated by the mechanism.

    A plug-in's probabilities must be for K classes. If they differ between groups of labels, each released label must
    have a group. Otherwise an error is raised.

    Args:
        mechanism: the mechanism. outcome: the result of its run. classes: K.
    """
    law: Any = mechanism.noise_law(outcome)
    if (maker := maker_of(mechanism)) is not None and law is not None:
        count = len(outcome.labels)
        right = isinstance(law, NoiseLaw) and law.num_classes == classes and len(law.groups(count)) == count
        wanted = f"must give None or a NoiseLaw of {classes} classes, with a group for each label if it has groups"
        require(method_of(maker, mechanism, "noise_law"), right, wanted)
    return law  # type: ignore[no-any-return]


def _counted(people: People, user: NDArray[np.integer] | slice, labels: NDArray[np.generic]) -> Tally | None:
    """Counts (P, K) of some users' labels: P points of the known law (its possible feature vectors), K classes.

    None: the users are not held in memory, the population has no known law, or its clusters differ from the law's.

    Args:
        people: the users. user: indices of the users whose labels are counted, or a slice. labels: (m,) the label of
        each of these users, true or noisy.
    """
    if not isinstance(people, Population) or people.law is None or people.point is None or not people.law_clusters:
        return None
    return Tally.of(people.point[user], labels, people.law.label_distribution.shape)


# the key has all on which the model depends; a model takes as many bytes of the cache as its pickle has
@cached(
    LRUCache(KEPT, lambda model: len(pickle.dumps(model))),
    key=lambda case, people, truth=None: (
        *case.people_key, type(case.scenario.learner), case.scenario.learner.model_dump_json()
    ),
    lock=Lock(),
)  # fmt: skip
def _nonprivate(case: Replicate, people: People, truth: Tally | None = None) -> Predictor:
    """The model that a replicate's learner makes of true labels, for comparison with the private model.

    The last few models are kept for replicates that differ only in the mechanism.

    Args:
        case: the replicate. people: its users. truth: number of true labels of each class at each point of the known
        law; None: the labels of users in memory are counted here.
    """
    learner = case.scenario.learner.seeded(case.streams)
    if people.law is not None and learner.takes_counts:
        if truth is None and isinstance(people, Population):
            truth = _counted(people, slice(None), people.labels)
        if truth is not None:
            counted = Counted.of(people.law, truth.counts)
            return learner.fit(counted.rows, counted.weights)
    people = cast(Population, people)  # users drawn in parts have counts, for which the function has returned above
    if isinstance(learner, ValueLearner) and people.values is not None:
        return learner.fit_values(people.features, np.array(people.values)[people.labels], people.values)
    return learner.fit(people.features, one_hot(people.labels, people.num_classes))


@dataclass(frozen=True)
class CheckedPredictor:
    """A predictor of a plug-in. Each answer must be probabilities, which is checked.

    offer: the plug-in's entry, which error messages name. num_classes: K.
    """

    predictor: Predictor
    offer: Offer
    num_classes: int

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of the features (n, d).

        Raises:
            InputError: the predictor's answer is no array of this shape, or is not probabilities.
        """
        answer: Any = self.predictor.probabilities(features)
        method, shape = method_of(self.offer, self.predictor, "probabilities"), (len(features), self.num_classes)
        numbers = f"must give an array of floating-point numbers {shape}, not {described(answer)}"
        require(method, is_array(answer, "f", shape), numbers)
        right = np.isfinite(answer).all() and (answer >= -_OFF).all() and (np.abs(answer.sum(axis=1) - 1) <= _OFF).all()
        require(method, bool(right), "must give probabilities: finite, at least 0, each row with the sum 1")
        return answer  # type: ignore[no-any-return]


def checked_predictor(predictor: Any, offer: Offer, learned: tuple[object, str], num_classes: int) -> Predictor:
    """The predictor that a plug-in's method gave, wrapped so that its probabilities are checked at every call.

    A linear predictor of numbers is checked now and not wrapped. If each cluster has a predictor, each of these is
    checked or wrapped.

    Args:
        predictor: what the plug-in's method gave. offer: the plug-in's entry, with the package that error messages
        name. learned: the object that has the method, and the method's name. num_classes: K.

    Raises:
        InputError: the method gave no predictor, or a linear predictor with weights that are not finite.
    """
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


def check_law_known(scenario: Scenario, purpose: str) -> None:
    """Raise an InputError if faults of the network or adversaries make the law of released labels unknown.

    Args:
        scenario: what is to be run. purpose: what needs the law, such as "validation". The error message begins with
        this word.
    """
    if not scenario.network.ideal or scenario.adversaries != NOBODY:
        beyond = (*scenario.network.faults, "adversaries")[0]
        raise InputError(f"{purpose}: needs released labels whose law is known; leave out {beyond}")


def evidence_of(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome) -> Evidence:
    """For each of m released labels, a score of each of K classes, (m, K). The mean of the scores is the true label's
    one-hot vector; `Evidence` explains exceptions.

    The scores serve to estimate the accuracy of a predictor without true labels.

    Args:
        case: the replicate. people: its users. mechanism: its mechanism, with parameters fixed. outcome: the result of
        its run.

    Raises:
        InputError: the mechanism gives no scores, the network has faults, or there are adversaries.
    """
    scenario = case.scenario
    check_law_known(scenario, "validation")
    evidence = mechanism.evidence(outcome, people.cluster_offsets)
    if evidence is None:
        raise InputError(
            f"validation: mechanism.kind = {scenario.mechanism.kind!r} releases nothing here that says how accurate "
            "a predictor is; 'randomized_response' does"
        )
    return evidence
