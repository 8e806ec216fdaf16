"""The flat row of results of one replicate, including numbers on how often labels are guessed right."""

from dataclasses import asdict
from decimal import ROUND_CEILING, Context
from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from p2p_sim.base import InputError, maker_of, method_of, require
from p2p_sim.exchange import Arrivals, Traffic
from p2p_sim.learning import LogisticRegressionConfig, Risk, one_hot, population_heterogeneity
from p2p_sim.mechanisms import (
    STATEMENTS,
    Accounted,
    Deployment,
    LabelRelease,
    OrganisationFacts,
    Outcome,
    Predictor,
    Tally,
)
from p2p_sim.population import Examples, People, Population
from p2p_sim.privacy import LossLaw, PrivacyBound, Terms, advantages, local_advantage
from p2p_sim.replicate.learn import LearnedModel
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.scenario import MODEL_VERSION, OWN_COLUMNS, Scenario

Row = dict[str, Any]
Floats = NDArray[np.float64]


class StatedRow(NamedTuple):
    """A replicate's row, and the row's terms: the privacy statement behind each column of ε, without the numbers."""

    row: Row
    terms: Terms


UP = Context(prec=6, rounding=ROUND_CEILING)
"""Rounds an upper bound up to six significant digits."""
OBSERVED = ("epsilon_others_upper", "epsilon_times_upper", "epsilon_coalition_upper", "epsilon_unmet_upper")
"""Columns of ε besides the learner's ε about all users. In order: for the learner about users who submitted no label
of their own; for a learner who sees times; for a coalition; for a coalition about users whose labels no member
fetched."""
SAMPLED = ("epsilon_sample_upper",)
"""Columns of ε about a sample of the users. Only rows of large overlays (who may ask whom) have these columns."""
FACTS = ("coalition_meets", "own_labels", "coalition_members", "probed_users")
"""Columns about what happened on the network: the largest probability that a coalition fetched a label, and counts of
users."""
GUESSES = (
    "advantage_uniform", "advantage_cluster", "advantage_cluster_worst", "advantage_model", "advantage_model_worst",
    "advantage_local", "advantage_times", "advantage_coalition", "guess_uniform", "guess_cluster", "guess_model",
)  # fmt: skip
"""Columns of guessing advantages, and of shares of labels guessed right, in the order of the row. A guessing advantage
is an upper bound of what a release adds to an observer's share of right guesses."""
LARGEST_PUBLIC = 2_000
"""Largest number of held-out rows for learning the model that stands for an observer's prior knowledge."""
_UP, _BLOCK = 1.0 + 1e-12, 2**16
"""`_UP`: the factor by which a computed mean is multiplied, so that it stays an upper bound despite rounding errors.
`_BLOCK`: the number of users whose label probabilities are in memory at a time."""


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
    """The row of results of a finished replicate, as a flat dict by column.

    The columns are about the setting, privacy bounds, guessing advantages, errors of the learned model, the network and
    the mechanism's parameters.

    Args:
        case: the replicate. ready: users and mechanism. outcome: the result of the run. accounted: the privacy
        bounds. learned: what was learned from the outcome. guesses: the columns of guessing advantages. statement: the
        hash under which another file holds the conditions of the bounds.

    Raises:
        InputError: a mechanism's own column has the name of another column.
    """
    (population, mechanism), scenario, release = ready, case.scenario, outcome.release
    # the number of labels that reached the learner; None if a model or a density of features was released
    arrived = None
    if isinstance(release, LabelRelease):
        arrived = len(release.user)
    elif isinstance(release, Tally):
        arrived = int(release.counts.sum())
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
    """The columns of a row about the setting: the users, the mechanism and the learner.

    population, mechanism, mechanism_kind, learner: their kinds. learner is None if a density is released. trust: who
    must be trusted. oracle: whether a parameter was computed from true labels. Each name in `OWN_COLUMNS`: a parameter
    of the mechanism, None if the mechanism lacks it. num_users, num_clusters: numbers of users and of clusters.
    min_cluster_size, max_cluster_size: sizes of the smallest and the largest cluster. heterogeneity: φ, the mean L1
    distance of a user's label distribution from her cluster's. heterogeneity_basis: whether the value is exact, or an
    estimate of an upper bound of φ.

    Args:
        scenario: what was run. population: the users. mechanism: the mechanism, with parameters fixed for these users.
    """
    phi, basis = population_heterogeneity(population)
    return {
        "population": scenario.population.kind,
        "mechanism": scenario.mechanism.kind,
        "mechanism_kind": scenario.mechanism.kind,  # a sweep may replace `mechanism` by names of its own
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
    """The columns of a row about privacy.

    Some have the observer, adjacency, δ and bounds of ε for the learner in the worst cluster. Others have the learner's
    ε in the best cluster, the ε of other observers and of papers, and facts about this replicate's network. A column is
    None if it does not apply to the run. A column about a sample of users is left out instead.

    Args:
        kind: the mechanism's kind. accounted: the privacy bounds of the run.

    Raises:
        InputError: the mechanism states a value under a name that is none of these columns.
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
    """The columns of a row about the network.

    Three columns are the times, in seconds, by which 50, 90 and 99% of submissions had arrived. Counts and times are
    None if no messages were simulated. The numbers about the overlay (who may ask whom) are 0 if there is no overlay.
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
    """The columns of a row about organisations that exchange models.

    Three columns are texts with an entry "organisation:value" for each organisation. The values are the ε spent, the
    organisations that saw the organisation's models, and the number of models that the organisation got in time.
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
    """The columns of a row about adversaries: errors without adversaries, and their increase through adversaries.

    Excess risk (the expected loss minus the loss of the family's best model) is None if the law of the data is unknown.

    Args:
        risk: the errors of the model learned with adversaries. honest: the errors of the model learned without
        adversaries; None if there are no adversaries. If it is None, or an error rate is None, all columns are None.
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


class Priors(NamedTuple):
    """Probabilities of users' labels, which an observer assigns before she sees the release.

    probabilities: (m, K) the probabilities of K labels in each of m rows. users: (m,) how many users have each row.
    accuracy: share of users whose label has the largest probability in their row; None: the mean over users of the
    largest probability is used instead.
    """

    probabilities: Floats
    users: Floats
    accuracy: float | None = None


def advantage_columns(
    case: Replicate, people: People, mechanism: Deployment, outcome: Outcome, accounted: Accounted
) -> Row:
    """The columns about how often labels are guessed right.

    The learner has advantages with three priors: a uniform one; the shares of labels in each cluster; and the law of
    labels or, if unknown, a model learned from held-out rows. For the last two priors, columns have the mean and the
    largest advantage over users. Further advantages are for an observer of a user's own noisy label, for a learner who
    sees times, and for a coalition. For each prior, a column has the share of labels guessed right without a release. A
    column is None if the run has no such observer or prior.

    Args:
        case, people, mechanism: the replicate, its users and the mechanism. outcome: the result of the run.
        accounted: the privacy bounds.
    """
    learner, classes = cast(PrivacyBound, accounted.statements["epsilon_upper"]), people.num_classes
    law = mechanism.learner_law(outcome, people.cluster_sizes, case.scenario.situation(classes), learner)
    # an observer of a user's own message has an advantage that follows from the message's law or, if unknown, from ε₀
    message, local = accounted.statements.get("epsilon_local"), None
    if isinstance(message, PrivacyBound) and (local := mechanism.local_advantage(classes)) is None:
        local = local_advantage(1.0, message.epsilon_upper, classes)
    uniform = float(advantages(law, np.full((1, classes), 1.0 / classes))[0])
    alone = uniform if local is None else min(uniform, local)
    row: Row = dict.fromkeys(GUESSES) | {
        "advantage_uniform": alone,
        "advantage_local": local,
        "guess_uniform": 1.0 / classes,
    }
    for column, most in mechanism.network_advantages(outcome, classes).items():
        row[column] = max(most, alone)  # the learner belongs to the coalition
    if isinstance(timed := accounted.statements.get("epsilon_times_upper"), PrivacyBound):
        row["advantage_times"] = alone if timed.epsilon_upper <= learner.epsilon_upper else local
    for name, priors in (("cluster", cluster_counts(people, outcome)), ("model", _model(case, people, outcome))):
        if priors is not None:
            row |= _averaged(name, law, priors)
    return row


def _averaged(name: str, law: LossLaw, priors: Priors) -> dict[str, float]:
    """Three columns for one kind of prior: upper bounds of the mean and largest guessing advantage of users, and the
    share of labels guessed right without a release.

    Args:
        name: the prior's name in the columns ("cluster" or "model"). law: a law of the privacy loss that dominates the
        learner's true law, so that advantages are upper bounds. priors: probabilities of users' labels, and how many
        users have each.
    """
    before, users = priors.probabilities, priors.users
    each = np.concatenate([advantages(law, before[i : i + _BLOCK]) for i in range(0, len(before), _BLOCK)])
    total = users.sum()
    return {
        f"advantage_{name}": min(float(users @ each / total) * _UP, float(each.max())),
        f"advantage_{name}_worst": float(each.max()),
        f"guess_{name}": (float(users @ before.max(axis=1) / total) if priors.accuracy is None else priors.accuracy),
    }


def cluster_counts(people: People, outcome: Outcome) -> Priors | None:
    """The share of each label in each cluster that has users: the prior of an observer who knows the cluster's counts.

    None: users are drawn shard by shard (a shard is a group of clusters), and true labels were not counted.
    """
    classes = people.num_classes
    if isinstance(people, Population):
        cell = np.repeat(np.arange(len(people.cluster_sizes)), people.cluster_sizes) * classes + people.labels
        counts = np.bincount(cell, minlength=len(people.cluster_sizes) * classes).reshape(-1, classes)
    elif people.law is not None and outcome.truth is not None:
        counts = np.zeros((int(people.law.cluster.max()) + 1, classes), dtype=np.int64)
        np.add.at(counts, people.law.cluster, outcome.truth.counts)
    else:
        return None
    users = counts.sum(axis=1)
    return Priors(counts[users > 0] / users[users > 0, None], users[users > 0].astype(np.float64))


def _model(case: Replicate, people: People, outcome: Outcome) -> Priors | None:
    """The prior of an observer who knows the law of labels or, if unknown, a model learned from held-out rows.

    None: there is neither a law nor a held-out row.
    """
    if people.law is not None:
        points = len(people.law.points)
        # users in memory have points of the law; for users drawn shard by shard, true labels are counted
        if isinstance(people, Population):
            users = np.bincount(cast(NDArray[np.int32], people.point), minlength=points)
        else:
            users = cast(Tally, outcome.truth).counts.sum(axis=1)
        return Priors(people.law.label_distribution[users > 0], users[users > 0].astype(np.float64))
    people = cast(Population, people)  # users without a law are never drawn shard by shard
    if people.holdout is None or not len(people.holdout.labels):
        return None
    parts = range(0, people.num_users, _BLOCK)
    model = _public_model(case, people, people.holdout)
    priors = np.concatenate([model.probabilities(people.features[i : i + _BLOCK]) for i in parts])
    priors /= priors.sum(axis=1, keepdims=True)
    return Priors(priors, np.ones(len(priors)), float(np.mean(priors.argmax(axis=1) == people.labels)))


@cached(LRUCache(8), key=lambda case, people, holdout: case.people_key, lock=Lock())
def _public_model(case: Replicate, people: Population, holdout: Examples) -> Predictor:
    """A logistic regression fitted to the first 2,000 held-out rows, which belong to no user.

    The model stands for what an observer may know before the release. Its probabilities are the priors of users'
    labels.

    Args:
        case: the replicate; the last few models are kept, one for each set of users. people: the users, for the number
        of classes. holdout: the held-out rows with their labels.
    """
    rows = slice(0, LARGEST_PUBLIC)
    labels = one_hot(holdout.labels[rows], people.num_classes)
    return LogisticRegressionConfig().fit(holdout.features[rows], labels)
