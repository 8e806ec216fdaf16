"""The flat row that a replicate leaves behind."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from analysis.privacy.statement.bound import PrivacyBound, together
from analysis.privacy.statement.domain import Situation, Stated
from p2p_sim.base.errors import InputError
from p2p_sim.learning.metrics import Risk, population_heterogeneity
from p2p_sim.mechanisms.exchange_privacy import ClusterPrivacy
from p2p_sim.mechanisms.interface import PARAMETERS, STATEMENTS, LabelRelease, Mechanism, MechanismBase, Outcome
from p2p_sim.population.population import Population
from p2p_sim.protocol.traffic import Traffic
from p2p_sim.scenario import Scenario

Row = dict[str, Any]
T = TypeVar("T")
Statements = dict[str, PrivacyBound | Stated]
"""By the column of a row that holds ε."""


def setting(scenario: Scenario, population: Population, mechanism: Mechanism) -> Row:
    """What was asked for and what the population turned out to be."""
    phi, basis = population_heterogeneity(population)
    parameters = _known(scenario.mechanism.kind, mechanism.parameters, PARAMETERS)
    return {
        "population": scenario.population.kind,
        "mechanism": scenario.mechanism.kind,
        "mechanism_kind": scenario.mechanism.kind,  # a sweep over mechanisms names them as it likes
        "learner": scenario.learner.kind,
        "trust": mechanism.trust,
        "oracle": scenario.mechanism.asks_oracle,
        **dict.fromkeys(PARAMETERS),
        **parameters,
        "num_users": population.num_users,
        "num_clusters": len(population.cluster_sizes),
        "min_cluster_size": int(population.cluster_sizes.min()),
        "max_cluster_size": int(population.cluster_sizes.max()),
        "heterogeneity": phi,
        "heterogeneity_basis": basis,
    }


def _known(kind: str, figures: dict[str, T], known: Sequence[str]) -> dict[str, T]:
    """A mechanism's figures, if rows have columns for them: a plug-in must not write into others."""
    for name in figures:
        if name not in known:
            raise InputError(f"mechanism.kind = {kind!r}: states {name!r}, not one of {', '.join(known)}")
    return figures


def statements(
    config: MechanismBase,
    mechanism: Mechanism,
    situation: Situation,
    sizes: NDArray[np.int64],
    bounds: Sequence[PrivacyBound],
    clusters: Sequence[ClusterPrivacy] | None,
) -> Statements:
    """What a row states about its users, whichever her cluster, by the column that holds ε.

    Args:
        config, mechanism: the same mechanism, as configured and with its parameters fixed.
        situation: what the papers' bounds are asked about. sizes: distinct cluster sizes.
        bounds: the learner's, one a distinct size or one a cluster.
        clusters: figures of the realised network, where there are any.
    """
    learner = together(bounds)
    if not learner.conditions:  # a plug-in may say them of itself alone
        learner = replace(learner, conditions=config.conditions)
    figures = _known(config.kind, mechanism.statements(sizes, learner.delta), STATEMENTS)
    papers = _known(config.kind, mechanism.papers(situation, sizes, learner.delta), STATEMENTS)
    local, found = figures.get("epsilon_local"), Statements(epsilon_upper=learner)
    if local is not None:
        basis, conditions = "pure: a user's own message", mechanism.local_conditions
        found["epsilon_local"] = PrivacyBound(0.0, local, learner.delta, "eavesdropper", "label", basis, conditions)
    if clusters:
        found["epsilon_others_upper"] = together([c.others for c in clusters])
        found["epsilon_times_upper"] = together([c.timed for c in clusters])
        if any(c.watched for c in clusters):
            found["epsilon_coalition_upper"] = together([c.coalition for c in clusters])
        unmet = [c.unmet for c in clusters if c.unmet is not None]
        if unmet:
            found["epsilon_unmet_upper"] = together(unmet)
    return found | papers


def privacy(stated: Statements, bounds: Sequence[PrivacyBound]) -> Row:
    """The learner's figures in the worst cluster, and what is stated beside them."""
    learner = stated["epsilon_upper"]
    assert isinstance(learner, PrivacyBound)
    return {
        "observer": learner.observer,
        "adjacency": learner.adjacency,
        "delta": learner.delta,
        "epsilon_lower": learner.epsilon_lower,
        "epsilon_upper": learner.epsilon_upper,
        "epsilon_best_cluster": min(bound.epsilon_upper for bound in bounds),
        "basis": learner.basis,
        **{name: _figure(stated, name) for name in STATEMENTS},
    }


def _figure(stated: Statements, column: str) -> float | None:
    """ε of a statement; None where there is none."""
    found = stated.get(column)
    return found.epsilon_upper if isinstance(found, PrivacyBound) else None if found is None else found.epsilon


def submissions(population: Population, outcome: Outcome) -> Row:
    """How many users' labels reached the learner; None where a model was released."""
    arrived = len(outcome.release) if isinstance(outcome.release, LabelRelease) else None
    share = None if arrived is None else arrived / population.num_users
    return {"submissions": arrived, "effective_sampling_rate": share}


def realised_privacy(outcome: Outcome, clusters: Sequence[ClusterPrivacy] | None, stated: Statements) -> Row:
    """Figures of the network as it turned out; None where nothing could fail and nobody looks on."""
    names = ("epsilon_others_upper", "epsilon_times_upper", "epsilon_coalition_upper", "epsilon_unmet_upper")
    if outcome.realised is None or clusters is None:
        return dict.fromkeys((*names, "coalition_meets", "own_labels", "coalition_members", "probed_users"))
    facts = outcome.realised
    meets = [c.meets for c in clusters if c.meets is not None]
    return {
        **{name: _figure(stated, name) for name in names},
        "coalition_meets": max(meets) if meets else None,
        "own_labels": sum(int(np.count_nonzero(shard.own)) for shard in facts),
        "coalition_members": sum(int(np.count_nonzero(shard.member)) for shard in facts),
        "probed_users": sum(int(np.count_nonzero(shard.probed)) for shard in facts),
    }


def network(population: Population, outcome: Outcome) -> Row:
    """What happened on the network; None where no messages were simulated."""
    overlay, times = outcome.overlay, outcome.arrival_s
    facts = outcome.organisations
    nodes = population.cluster_offsets if facts is None else np.array([0, len(facts.epsilon)])
    counts = asdict(outcome.traffic) if outcome.traffic else dict.fromkeys(Traffic.__dataclass_fields__)
    arrived = times is not None and times.size > 0
    shares = {f"arrival_p{share}_s": share / 100 for share in (50, 90, 99)}
    return {
        **counts,
        **{name: float(np.quantile(times, q)) if arrived and times is not None else None for name, q in shares.items()},
        "isolated_users": overlay.isolated if overlay else 0,
        "disconnected_clusters": overlay.disconnected_clusters(nodes) if overlay else 0,
        "dropped_edges": overlay.dropped_edges if overlay else 0,
    }


def organisations(outcome: Outcome) -> Row:
    """What organisations that exchange models have spent and got; lists are text, "organisation:value" each."""
    facts = outcome.organisations
    if facts is None:
        return dict.fromkeys(("epsilon_by_organisation", "shown_by_organisation", "arrived_by_organisation",
                              "models_arrived", "organisations_offline"))  # fmt: skip
    return {
        "epsilon_by_organisation": " ".join(f"{k}:{epsilon:.6g}" for k, epsilon in enumerate(facts.epsilon)),
        "shown_by_organisation": " ".join(
            f"{k}:{','.join(map(str, others))}" for k, others in enumerate(facts.shown_to)
        ),
        "arrived_by_organisation": " ".join(f"{k}:{models}" for k, models in enumerate(facts.arrived)),
        "models_arrived": sum(facts.arrived),
        "organisations_offline": " ".join(str(k) for k, away in enumerate(facts.offline) if away),
    }


def damage(risk: Risk, honest: Risk | None) -> Row:
    """What adversaries cost the learner: the same replicate without them, and the difference."""
    if honest is None:
        return dict.fromkeys(("honest_error_rate", "damage_error_rate", "honest_excess_risk", "damage_excess_risk"))
    exact = risk.excess_risk is not None and honest.excess_risk is not None
    return {
        "honest_error_rate": honest.error_rate,
        "damage_error_rate": risk.error_rate - honest.error_rate,
        "honest_excess_risk": honest.excess_risk,
        "damage_excess_risk": (risk.excess_risk or 0.0) - (honest.excess_risk or 0.0) if exact else None,
    }
