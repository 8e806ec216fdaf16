"""A one-run audit of organisations that release private models. Each organisation that learns has one target.

The target is the first row from which an organisation learns its own model. A coin chooses between two whole rows
(features and label) for the target. One row is long. The other row has the norm bound, the largest norm allowed, as its
norm. The two rows have opposite features in odd runs, and opposite labels in even runs. Write a row as features times
label ±1. If each row is clipped alone, the two rows become z and -z.

The attacker knows all other rows and sees all models. The weights of a model determine the noise in training: b₀ if the
target's row is -z, and b₁ if it is z. The Hessian of the objective is the same for both rows. So the exact
log-likelihood ratio is the sum of (|b₀| - |b₁|)/scale over the models of all feature groups. Here scale is the scale of
the noise. Replacing z by -z moves the noise as far as changing the row's label does. So the audit compares δ with the δ
certified for a label (`RowLabel`). The audit compares ε with the bound stated for whole rows, which is more than twice
the ε of a label.

A second test looks at steps before any noise, such as the scaling of a column. The test replaces one row of the table,
and no other row may change.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from p2p_sim.audit.one_run import (
    Account,
    Floats,
    OneRunAudit,
    RepeatedTargets,
    Scope,
    ScoredTargets,
    claim_of,
    perform_audit,
)
from p2p_sim.base import RunFailed, Streams
from p2p_sim.mechanisms import ByCluster, Combination, ModelRelease, OrganisationFacts, Organisations, order_of
from p2p_sim.population import Population, TableConfig
from p2p_sim.privacy import PrivacyBound
from p2p_sim.privacy.rivals import ObjectivePerturbation, RowLabel
from p2p_sim.replicate import Replicate
from p2p_sim.stacking import GroupModels, PerturbedObjective, draw_noise

DRAWS = 50_000
"""Number of draws of the noise from which the audit's power is estimated."""
LONG = 100.0
"""Norm of a target's longer row, in units of the norm bound. Without clipping, the models reveal this row."""


def audit_organisations(case: Replicate, trials: int, mechanism: Organisations | None = None) -> OneRunAudit:
    """Attacks the private models that organisations release. Each organisation learns from the rows of its own users,
    with features clipped to a bounded norm. In every organisation that learns, one row is the target. A coin chooses
    between two whole rows for the target, and the attack guesses the coin from the models. The result has the lower
    bounds of ε and δ that the right guesses prove. It also has the certified values.

    Args:
        case: the scenario; its first replicate has the rows. trials: the least number of targets. mechanism: the
        mechanism that is attacked; None: the mechanism that the scenario claims.

    Raises:
        InputError: the mechanism releases no models of organisations.
        RunFailed: replacing a row changes other rows before any noise is added.
    """
    claimed, people = claim_of(case, "there are no organisations", Organisations)
    source = case.scenario.population
    if isinstance(source, TableConfig) and source.one_row_moves_others(case.places, Streams(case.scenario.seed, 0)):
        raise RunFailed(
            "population: the row of one user changes the features of others before any noise is added; ε of whole rows "
            "says nothing here"
        )
    # A target has the noise of her own organisation. The stated bound is the bound of the worst organisation.
    groups = claimed.plan.grouped(people.features.shape[1], Streams(case.scenario.seed, 0)).members
    noises = tuple(claimed.stages[k][0].noise for k in claimed.learners)
    [worst] = claimed.privacy(people.cluster_sizes[[max(claimed.learners, key=claimed.spends)]], 0.0)
    account = OppositeRows(claimed, people.cluster_sizes, worst, noises, tuple(len(group) for group in groups))
    targets = OrganisationTargets(claimed, mechanism or claimed, case, people)
    return perform_audit(case.scenario, targets, account, trials=trials)


@dataclass(frozen=True)
class OrganisationTargets(RepeatedTargets):
    """One target in each organisation that learns. A coin chooses one of two rows for each target. Runs are repeated
    until there are enough targets.

    claimed: the mechanism with the noise that the score assumes. mechanism: the mechanism that is attacked.
    """

    claimed: Organisations
    mechanism: Organisations
    case: Replicate
    people: Population

    exact = (True, False)
    scope = Scope(
        ("the likelihood ratio of the models", "how much noise the models would need"),
        looks_for="rows that are not clipped on their own; a row that moves others before any noise",
        overlooks="how rows of different directions change the Hessian",
        target="row",
    )

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        by_features = number % 2 == 1  # True: the two rows have opposite features; False: opposite labels
        people, first = self.people, self.people.cluster_offsets[:-1]
        coins = streams.generator("audit-coin").random(len(first)) < 0.5
        target = first + [int(order_of(streams, k, n)[0]) for k, n in enumerate(people.cluster_sizes.tolist())]
        # Coin 0: the target's row is long. Coin 1: the row has the norm bound as its norm, and the opposite features or
        # label.
        features, labels = people.features.astype(np.float64), people.labels.copy()
        long, short = LONG * self._row(streams), (-1.0 if by_features else 1.0) * self._row(streams)
        features[target] = np.where(coins[:, None], short, long)
        labels[target] = 0 if by_features else coins
        drawn = replace(people, features=features, labels=labels)
        outcome = self.mechanism.run(drawn, self.case.scenario.network, streams, places=self.case.places)
        # An organisation's own models, and the models of others towards which its penalty pulled.
        predictors = cast(ByCluster, cast(ModelRelease, outcome.release).predictor).predictors
        came = cast(OrganisationFacts, outcome.organisations).came
        sent = self.mechanism.models_sent(drawn, streams) if self.claimed.plan.source_weights else {}
        scores = list[Floats]()
        for k in self.claimed.learners:
            priors = self.claimed.start({s: sent[s] for s in came[k] if s in sent})
            scores.append(self._score(drawn, streams, k, cast(Combination, predictors[k]).models[0], priors))
        return ScoredTargets(coins[list(self.claimed.learners)], np.array(scores).T, people.num_users)

    def _row(self, streams: Streams) -> Floats:
        """Features (d,) of a row with the norm bound as its norm in each feature group. The first feature of each group
        has this value, and all other features are 0. A target's two possible rows are multiples of this row.
        """
        row = np.zeros(self.people.features.shape[1])
        groups = self.claimed.plan.grouped(len(row), streams).members
        row[[group[0] for group in groups]] = self.claimed.plan.norm_bound
        return row

    def _score(
        self, people: Population, streams: Streams, k: int, models: GroupModels, priors: tuple[Floats, ...] | None
    ) -> Floats:
        """The two scores (2,) by which the attack guesses the row of organisation k's target. After clipping and
        scaling, and multiplied by the label ±1, the two possible rows are -z and z. The released weights of each
        feature group's model determine the noise vector: b₀ for -z, and b₁ for z.

        The first score is the log-likelihood ratio Σ (|b₀| - |b₁|)/scale over the groups. Norms are Euclidean, and
        scale is the scale of the noise. The second score is -Σ (|b₀| + |b₁|). This sum grows if the target's row has
        changed other users' rows. Rows change each other if they are clipped together.

        Args:
            people: the rows of all users, with which the organisation learned. streams: random streams of the run. k:
            number of the organisation. models: its released models, one for each feature group. priors: for each group,
            weights made from other organisations' models, to which the penalty pulled the organisation's own weights;
            None: the penalty pulled to 0.
        """
        noise, start = self.claimed.stages[k][0].noise, int(people.cluster_offsets[k])
        rows = start + order_of(streams, k, int(people.cluster_sizes[k]))[: noise.num_rows]
        signs = np.where(people.labels[rows] == 1, 1.0, -1.0)[:, None]
        ratio, needed, target = 0.0, 0.0, models.groups.scaled(self._row(streams)[None, :])
        for j, part in enumerate(models.groups.scaled(people.features[rows].astype(np.float64))):
            weights = models.coefficients[j]
            prior = np.zeros_like(weights) if priors is None else priors[j]
            # The norm of the noise that must have led to these weights, first for the row -z, then for z.
            lengths = list[float]()
            signed = part * signs
            for sign in (-1.0, 1.0):
                signed[0] = sign * target[j][0]
                objective = PerturbedObjective(signed, noise.l2[j], noise.extra_l2[j], prior)
                lengths.append(float(np.linalg.norm(objective.gradient(weights, np.zeros_like(weights)))))
            ratio += (lengths[0] - lengths[1]) * noise.num_rows / noise.noise_scale
            needed += sum(lengths)
        return np.array([ratio, -needed])


@dataclass(frozen=True)
class OppositeRows(Account):
    """What is certified for a target that has the row z or -z (features times label ±1).

    stated: the bound stated for whole rows. noises: for each target, the noise of her organisation's own models.
    features: number of features of each group.
    """

    mechanism: Organisations
    stated: PrivacyBound
    noises: tuple[ObjectivePerturbation, ...]
    features: tuple[int, ...]

    shares = (0.0, 0.2, 0.4, 0.7, 0.95)
    pure = "ε of these rows"

    @property
    def largest(self) -> float:
        """The largest pure ε of a target among the organisations, for the test of her row z against her row -z. The
        audit tests δ at shares 0 to 0.95 of this ε. If this ε is above 8, the audit takes shares of 8 instead.
        """
        return max(noise.label_epsilon for noise in self.noises)

    @property
    def parameters(self) -> dict[str, float]:
        return {"target_epsilon": self.mechanism.plan.epsilon}

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        kinds = Counter(self.noises)
        deltas = [[b.upper for b in RowLabel(noise, self.features).profile(epsilons)] for noise in kinds]
        return np.asarray(np.average(deltas, axis=0, weights=list(kinds.values())))

    def bound(self, delta: float) -> PrivacyBound:
        """The stated bound of ε for one whole row (features and label) of the organisation with the largest bound. The
        observer sees all models. The ε is pure and holds at every δ, so `delta` is not used.
        """
        return self.stated

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """Approximate values of δ (J,) for the first organisation's target at J values of ε. The scale of the noise is
        divided by `rise`; a `rise` above 1 describes a leak. The target's row is z or -z, with the largest norm
        allowed. Each δ is an average over 50,000 simulated noise vectors. The audit computes how likely it would detect
        this leak.
        """
        noise, rng = self.noises[0], Streams(0, 0).generator("audit-noise")
        losses, scale = np.zeros(DRAWS), noise.noise_scale / rise
        for q, dimension in zip(noise.norms, self.features, strict=True):
            drawn = draw_noise(dimension, scale, rng, DRAWS)
            before = np.linalg.norm(drawn, axis=1)
            drawn[:, 0] += q
            losses += (np.linalg.norm(drawn, axis=1) - before) / scale
        return np.array([float(np.maximum(-np.expm1(epsilon - losses), 0.0).mean()) for epsilon in epsilons])
