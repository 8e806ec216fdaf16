"""The flat row that a replicate leaves behind."""

from dataclasses import asdict
from decimal import ROUND_CEILING, Context
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from p2p_sim.base.checked_values import require
from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import maker_of, method_of
from p2p_sim.exchange.traffic import Arrivals, Traffic
from p2p_sim.learning.metrics import Risk, population_heterogeneity
from p2p_sim.mechanisms.deployment import STATEMENTS, Accounted, Deployment
from p2p_sim.mechanisms.outcome import DensityRelease, ModelRelease, OrganisationFacts, Outcome
from p2p_sim.population.population import People
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.statement_record import Terms
from p2p_sim.privacy.where_bounds_hold import Stated
from p2p_sim.replicate.learn import LearnedModel
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.scenario import MODEL_VERSION, OWN_COLUMNS, Scenario

Row = dict[str, Any]


class StatedRow(NamedTuple):
    """A replicate's row, and the statements of its columns of ε."""

    row: Row
    terms: Terms


UP = Context(prec=6, rounding=ROUND_CEILING)
"""Six digits of an upper bound, never below it."""
T = TypeVar("T")
Statements = dict[str, PrivacyBound | Stated]
"""Statements about ε, each under the name of the row's column that holds its ε."""
OBSERVED = ("epsilon_others_upper", "epsilon_times_upper", "epsilon_coalition_upper", "epsilon_unmet_upper")
"""Columns of ε besides the learner's about all users: the learner's about users who submitted no label of their own,
that of a learner who sees times, and a coalition's."""
SAMPLED = ("epsilon_sample_upper",)
"""Figures of a sample of the users; only rows of large overlays have them."""
FACTS = ("coalition_meets", "own_labels", "coalition_members", "probed_users")
"""Columns with facts about the realised network: how likely a coalition met a label, and counts of users."""


def row_of(
    case: Replicate,
    ready: tuple[People, Deployment],
    outcome: Outcome,
    *,
    accounted: Accounted,
    learned: LearnedModel,
    guesses: Row,
    statement: str,
) -> Row:
    """The row of a finished case.

    Args:
        case: what was run. ready: its users and its mechanism. outcome: what the run left behind.
        accounted, learned: what is known of its privacy and of its use. guesses: how much more often labels are
        guessed right. statement: identifier of its terms.
    """
    (population, mechanism), scenario = ready, case.scenario
    # how many users' labels reached the learner; None where a model or a density was released
    arrived = None if isinstance(outcome.release, ModelRelease | DensityRelease) else len(outcome.release)
    row = {
        "scenario": case.identity[:16],
        "model_version": MODEL_VERSION,
        "replicate": case.replicate,
        "engine": scenario.engine,
        **setting(scenario, population, mechanism),
        **privacy(scenario.mechanism.kind, accounted),
        **guesses,
        "submissions": arrived,
        "effective_sampling_rate": None if arrived is None else arrived / population.num_users,
        **asdict(learned.risk),
        "excess_risk_floor": learned.floor,
        **damage(learned.risk, learned.honest),
        **learned.values,
        **learned.groups,
        **network(population, outcome),
        **(organisations(outcome.organisations) if outcome.organisations is not None else {}),
        "statement": statement,
    }
    for name in mechanism.parameters.keys() - OWN_COLUMNS.keys():
        method = method_of(maker_of(mechanism), mechanism, "columns")
        key = f"mechanism.kind = {scenario.mechanism.kind!r}"
        require(method, name not in row, f"{key}: its column {name!r} has another meaning in a row")
        row[name] = mechanism.parameters[name]
    return row


def setting(scenario: Scenario, population: People, mechanism: Deployment) -> Row:
    """The columns of a row that say what the scenario asks for and what its population turned out to be."""
    phi, basis = population_heterogeneity(population)
    return {
        "population": scenario.population.kind,
        "mechanism": scenario.mechanism.kind,
        "mechanism_kind": scenario.mechanism.kind,  # a sweep over mechanisms names them as it likes
        "learner": None if scenario.mechanism.releases == "density" else scenario.learner.kind,
        "trust": mechanism.trust,
        "oracle": scenario.mechanism.asks_oracle,
        **{name: mechanism.parameters.get(name) for name in OWN_COLUMNS},
        "num_users": population.num_users,
        "num_clusters": len(population.cluster_sizes),
        "min_cluster_size": int(population.cluster_sizes.min()),
        "max_cluster_size": int(population.cluster_sizes.max()),
        "heterogeneity": phi,
        "heterogeneity_basis": basis,
    }


def privacy(kind: str, accounted: Accounted) -> Row:
    """The columns of a row about privacy: every ε of the worst cluster, and facts about the network as it turned out.

    A column is None if it does not apply to the run; one of a sample of users is then left out.

    Args:
        kind: of the mechanism. accounted: its account of the run.
    """
    statements = accounted.statements
    learner = cast(PrivacyBound, statements["epsilon_upper"])
    # a plug-in must not write into columns of other meaning
    epsilon_columns = ("epsilon_upper", *STATEMENTS, *OBSERVED, *SAMPLED)
    for names, columns in ((tuple(statements), epsilon_columns), (tuple(accounted.facts), FACTS)):
        for name in names:
            if name not in columns:
                raise InputError(f"mechanism.kind = {kind!r}: states {name!r}, not one of {', '.join(columns)}")
    epsilons = {
        name: stated.epsilon_upper if isinstance(stated, PrivacyBound) else stated.epsilon
        for name, stated in statements.items()
    }
    return {
        "observer": learner.observer,
        "adjacency": learner.adjacency,
        "delta": learner.delta,
        "epsilon_lower": learner.epsilon_lower,
        "epsilon_upper": learner.epsilon_upper,
        "epsilon_best_cluster": min(bound.epsilon_upper for bound in accounted.learner),
        "basis": learner.basis,
        **{name: epsilons.get(name) for name in (*STATEMENTS, *OBSERVED)},
        **{name: epsilons[name] for name in SAMPLED if name in epsilons},
        **dict.fromkeys(FACTS),
        **accounted.facts,
    }


def network(population: People, outcome: Outcome) -> Row:
    """The columns of a row about the network: messages, arrival times, faults.

    Counts and times are None if no messages were simulated; the three columns about an overlay are 0 if there is none.
    """
    overlay, arrivals = outcome.overlay, outcome.arrivals
    if arrivals is None:
        arrivals = Arrivals([] if outcome.arrival_s is None else [outcome.arrival_s])
    facts = outcome.organisations
    nodes = population.cluster_offsets if facts is None else np.array([0, len(facts.epsilon)])
    counts = asdict(outcome.traffic) if outcome.traffic else dict.fromkeys(Traffic.__dataclass_fields__)
    return {
        **counts,
        **{f"arrival_p{share}_s": arrivals.quantile(share / 100) for share in (50, 90, 99)},
        "isolated_users": overlay.isolated if overlay else 0,
        "disconnected_clusters": overlay.disconnected_clusters(nodes) if overlay else 0,
        "dropped_edges": overlay.dropped_edges if overlay else 0,
    }


def organisations(facts: OrganisationFacts) -> Row:
    """The columns of a row about organisations that exchange models: what each has spent and got, who was offline, and
    how many models arrived.
    """
    spent = [float(UP.create_decimal_from_float(epsilon)) for epsilon in facts.epsilon]
    return {
        "epsilon_by_organisation": " ".join(f"{k}:{epsilon:.6g}" for k, epsilon in enumerate(spent)),
        "shown_by_organisation": " ".join(
            f"{k}:{','.join(map(str, others))}" for k, others in enumerate(facts.shown_to)
        ),
        "arrived_by_organisation": " ".join(f"{k}:{models}" for k, models in enumerate(facts.arrived)),
        "models_arrived": sum(facts.arrived),
        "organisations_offline": " ".join(str(k) for k, away in enumerate(facts.offline) if away),
    }


def damage(risk: Risk, honest: Risk | None) -> Row:
    """The columns of a row about what adversaries cost the learner: figures of the replicate without them, and
    differences.
    """
    if honest is None or risk.error_rate is None or honest.error_rate is None:
        return dict.fromkeys(("honest_error_rate", "damage_error_rate", "honest_excess_risk", "damage_excess_risk"))
    exact = risk.excess_risk is not None and honest.excess_risk is not None
    return {
        "honest_error_rate": honest.error_rate,
        "damage_error_rate": risk.error_rate - honest.error_rate,
        "honest_excess_risk": honest.excess_risk,
        "damage_excess_risk": (risk.excess_risk or 0.0) - (honest.excess_risk or 0.0) if exact else None,
    }
