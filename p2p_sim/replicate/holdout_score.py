"""The evidence of accuracy in released labels, and whether their law is known."""

from p2p_sim.base import InputError
from p2p_sim.exchange import NOBODY
from p2p_sim.mechanisms import Deployment, Evidence, Outcome
from p2p_sim.population import Population
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.scenario import Scenario


def check_law_known(scenario: Scenario, purpose: str) -> None:
    """Raise InputError if faults of the network or an adversary stand between labels and release."""
    if not scenario.network.ideal or scenario.adversaries != NOBODY:
        beyond = (*scenario.network.faults, "adversaries")[0]
        raise InputError(f"{purpose}: needs released labels whose law is known; leave out {beyond}")


def evidence_of(case: Replicate, people: Population, mechanism: Deployment, outcome: Outcome) -> Evidence:
    """The class scores of released labels, from which accuracy is estimated without true labels.

    Raises:
        InputError: there are none, or a network with faults or an adversary comes between labels and release.
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
