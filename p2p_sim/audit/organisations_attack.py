"""An audit in one run of organisations that release private models: one target in each organisation.

The target is the first row of an organisation's own model. A coin decides which of two whole rows it is: a long one, or
one at the norm bound that points the other way, by its features in every other run, by its label in the others. Clipped
on their own, they are z and -z. The attacker knows all other rows and sees all models. A model's weights w fix the
noise b that must have led to them, for either row; the Hessian is the same for both. So the exact logarithm of the
likelihood ratio is (|b₀| - |b₁|)/scale, summed over the models of the feature groups. Rows z and -z move b by the norm
of a row, as two labels of one row do; so δ is held against the law of the label (`RowLabel`), and ε against that of
whole rows, which is more than twice as large. What a whole row moves before any noise is added, such as the scale of a
column, is tested by replacing one row of the table, too: no other row may change.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import Account, OneRunAudit, RepeatedTargets, Scope, ScoredTargets, audited
from p2p_sim.base import InputError, RunFailed, Streams
from p2p_sim.mechanisms import ByCluster, Combination, ModelRelease, OrganisationFacts, Organisations, order_of
from p2p_sim.population import Population, TableConfig
from p2p_sim.privacy import PrivacyBound
from p2p_sim.privacy.rivals import ObjectivePerturbation, RowLabel
from p2p_sim.replicate import Replicate, prepare
from p2p_sim.stacking import GroupModels, PerturbedObjective, draw_noise

Floats = NDArray[np.float64]
DRAWS = 50_000
"""Draws of the noise from which the power is estimated."""
LONG = 100.0
"""Length of the longer row of a target, in units of the norm bound: clipping is tested too."""


def audit_organisations(case: Replicate, trials: int, mechanism: Organisations | None = None) -> OneRunAudit:
    """Attack the models that organisations release.

    Args:
        case: the scenario, whose first replicate has the rows. trials: targets, at least.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism releases no models of organisations.
        RunFailed: a whole row that is replaced changes what the organisations learn from the rows of others.
    """
    ready = prepare(case)
    claimed, people = ready.mechanism, ready.population
    if not isinstance(claimed, Organisations):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: there are no organisations")
    source = case.scenario.population
    if isinstance(source, TableConfig) and source.one_row_moves_others(case.places, Streams(case.scenario.seed, 0)):
        raise RunFailed(
            "population: the row of one user changes the features of others before any noise is added; ε of whole rows "
            "says nothing here"
        )
    # Each target has the noise of her own organisation; the statement is that of the worst one.
    groups = claimed.plan.grouped(people.features.shape[1], Streams(case.scenario.seed, 0)).members
    noises = tuple(claimed.stages[k][0].noise for k in claimed.learners)
    [worst] = claimed.privacy(people.cluster_sizes[[np.argmax([claimed.spends(k) for k in claimed.learners])]], 0.0)
    account = OppositeRows(claimed, people.cluster_sizes, worst, noises, tuple(len(group) for group in groups))
    targets = OrganisationTargets(claimed, mechanism or claimed, case, people)
    return audited(case.scenario, targets, account, trials=trials)


@dataclass(frozen=True)
class OrganisationTargets(RepeatedTargets):
    """One target in each organisation that learns: which of two whole rows is in it is a coin; run again until there
    are enough.

    claimed: gives the noise that the score assumes. mechanism: what is attacked.
    """

    claimed: Organisations
    mechanism: Organisations
    case: Replicate
    people: Population

    exact = (True, False)
    scope = Scope(
        ("the likelihood ratio of the models", "how much noise the models would need"),
        looks_for="rows that are not clipped on their own; a row that moves others before any noise",
        overlooks="what rows of different directions move the Hessian",
        target="row",
    )

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        by_features = number % 2 == 1  # rows differ in these, or in the label
        people, first = self.people, self.people.cluster_offsets[:-1]
        coins = streams.generator("audit-coin").random(len(first)) < 0.5
        target = first + [int(order_of(streams, k, n)[0]) for k, n in enumerate(people.cluster_sizes.tolist())]
        # The target's row is a long one, or one at the norm bound: with other features, or with another label.
        features, labels = people.features.astype(np.float64), people.labels.copy()
        long, short = LONG * self._row(streams), (-1.0 if by_features else 1.0) * self._row(streams)
        features[target] = np.where(coins[:, None], short, long)
        labels[target] = 0 if by_features else coins
        drawn = replace(people, features=features, labels=labels)
        outcome = self.mechanism.run(drawn, self.case.scenario.network, streams, places=self.case.places)
        # Each organisation's own models, given the models that it drew them towards.
        predictors = cast(ByCluster, cast(ModelRelease, outcome.release).predictor).predictors
        came = cast(OrganisationFacts, outcome.organisations).came
        sent = self.mechanism.models_sent(drawn, streams) if self.claimed.plan.source_weights else {}
        scores = list[Floats]()
        for k in self.claimed.learners:
            priors = self.claimed.start({s: sent[s] for s in came[k] if s in sent})
            scores.append(self._score(drawn, streams, k, cast(Combination, predictors[k]).models[0], priors))
        return ScoredTargets(coins[list(self.claimed.learners)], np.array(scores).T, people.num_users)

    def _row(self, streams: Streams) -> Floats:
        """Features of a target at the norm bounds: in each group the first feature is as large, and all others
        are 0.
        """
        row = np.zeros(self.people.features.shape[1])
        groups = self.claimed.plan.grouped(len(row), streams).members
        row[[group[0] for group in groups]] = self.claimed.plan.norm_bound
        return row

    def _score(
        self, people: Population, streams: Streams, k: int, models: GroupModels, priors: tuple[Floats, ...] | None
    ) -> Floats:
        """How much the models of organisation k speak for one of the target's two rows: Σ over feature groups of (|b₀|
        - |b₁|)/scale.

        b₀ and b₁ are the noise that the models need for either row; priors: what the models are drawn towards, else 0.
        Rows that one row has moved need more noise.
        """
        noise, start = self.claimed.stages[k][0].noise, int(people.cluster_offsets[k])
        rows = start + order_of(streams, k, int(people.cluster_sizes[k]))[: noise.num_rows]
        signs = np.where(people.labels[rows] == 1, 1.0, -1.0)[:, None]
        ratio, needed, target = 0.0, 0.0, models.groups.scaled(self._row(streams)[None, :])
        for j, part in enumerate(models.groups.scaled(people.features[rows].astype(np.float64))):
            weights = models.coefficients[j]
            prior = np.zeros_like(weights) if priors is None else priors[j]
            # The noise that must have led to these weights, if the target's row is -z and if it is z.
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
    """What is certified of a target whose row is z or -z.

    stated: the statement for whole rows. noises: of each target's own models. features: of each group.
    """

    mechanism: Organisations
    stated: PrivacyBound
    noises: tuple[ObjectivePerturbation, ...]
    features: tuple[int, ...]

    shares = (0.0, 0.2, 0.4, 0.7, 0.95)
    pure = "ε of these rows"

    @property
    def largest(self) -> float:
        """ε of the worst target."""
        return max(noise.label_epsilon for noise in self.noises)

    @property
    def parameters(self) -> dict[str, float]:
        return {"target_epsilon": self.mechanism.plan.epsilon}

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        kinds = Counter(self.noises)
        deltas = [[b.upper for b in RowLabel(noise, self.features).profile(epsilons)] for noise in kinds]
        return np.asarray(np.average(deltas, axis=0, weights=list(kinds.values())))

    def bound(self, delta: float) -> PrivacyBound:
        """The statement about rows against organisations that learn; it is of pure ε, so that it holds for each δ."""
        return self.stated

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each ε with noise divided by `rise`, if the row has the largest norm, from draws for the first
        target.
        """
        noise, rng = self.noises[0], Streams(0, 0).generator("audit-noise")
        losses, scale = np.zeros(DRAWS), noise.noise_scale / rise
        for q, dimension in zip(noise.norms, self.features, strict=True):
            drawn = draw_noise(dimension, scale, rng, DRAWS)
            before = np.linalg.norm(drawn, axis=1)
            drawn[:, 0] += q
            losses += (np.linalg.norm(drawn, axis=1) - before) / scale
        return np.array([float(np.maximum(-np.expm1(epsilon - losses), 0.0).mean()) for epsilon in epsilons])
