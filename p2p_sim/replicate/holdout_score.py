"""How good a predictor is by the released labels of one case alone."""

from collections.abc import Sequence

import numpy as np

from p2p_sim.base.errors import InputError
from p2p_sim.exchange.adversaries import NOBODY
from p2p_sim.learning.learner import probabilities_of
from p2p_sim.learning.released_accuracy import AccuracyEstimate, validated
from p2p_sim.mechanisms.deployment import Deployment
from p2p_sim.mechanisms.evidence import Evidence
from p2p_sim.mechanisms.outcome import Outcome, Predictor
from p2p_sim.population.population import Population
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.scenario import Scenario


def validate(
    case: Replicate,
    people: Population,
    release: tuple[Deployment, Outcome],
    predictor: Predictor,
    *,
    clusters: Sequence[int] | None = None,
    confidence: float = 0.95,
) -> AccuracyEstimate:
    """The estimated accuracy of a predictor among the users of a case; for the arguments, see `Result.validated`.

    Args:
        release: the mechanism, and the result of its run. Only features and clusters of `people` are looked at.
    """
    offsets = people.cluster_offsets
    evidence = evidence_of(case, people, *release)
    home = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    predicted = probabilities_of(predictor, people.features, home).argmax(axis=1)
    if clusters is None:
        return validated(predicted, evidence, offsets, confidence)
    chosen = np.unique(np.asarray(clusters, dtype=np.int64))
    if not chosen.size or chosen[0] < 0 or chosen[-1] >= len(offsets) - 1:
        raise InputError(f"clusters: must be numbers from 0 to {len(offsets) - 2}, at least one")
    sizes = np.concatenate([[0], np.cumsum(np.diff(offsets)[chosen])])
    return validated(predicted[np.isin(home, chosen)], evidence.within(chosen, offsets), sizes, confidence)


def check_law_known(scenario: Scenario, purpose: str) -> None:
    """Raise InputError if a network with faults or an adversary comes between labels and release."""
    if not scenario.network.ideal or scenario.adversaries != NOBODY:
        beyond = (*scenario.network.faults, "adversaries")[0]
        raise InputError(f"{purpose}: needs released labels whose law is known; leave out {beyond}")


def evidence_of(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome) -> Evidence:
    """What the released labels of a case say of true ones.

    Raises:
        InputError: they say nothing, or a network with faults or an adversary comes between labels and release.
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
