"""An audit in one run of organisations that release private models: one target in each organisation.

The target is the first row of an organisation's own model: a row of the largest norm, whose label is a fair coin. The
attacker knows all other rows and sees all models. A model's weights w fix the noise b that must have led to them, for
either label; the Hessian is the same for both. So the exact logarithm of the likelihood ratio is (|b₀| - |b₁|)/scale,
summed over the models of the feature groups. What is proved is held against the ε of the label alone, which is less
than half of the ε of whole rows (`row_label`): this tests clipping, noise and parts. What a whole row moves before any
noise is added, such as the scale of a column, is tested by replacing one row of the table: no other row may change.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.attack.one_run_plan import OneRunPlan, Seen
from p2p_sim.analysis.privacy.attack.power import ERROR
from p2p_sim.analysis.privacy.others.objective_perturbation import ObjectivePerturbation
from p2p_sim.analysis.privacy.others.row_label import RowLabel
from p2p_sim.analysis.privacy.statement.bound import PrivacyBound
from p2p_sim.analysis.privacy.statement.conditions import MODEL_EXCHANGE_CONDITIONS
from p2p_sim.attacks.one_run import TYPE_ONE, Asked, OneRunAudit, audited
from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.streams import Streams
from p2p_sim.base.threads import one_thread
from p2p_sim.mechanisms.organisations import Combination, Organisations, order_of
from p2p_sim.mechanisms.outcome import ByCluster, ModelRelease
from p2p_sim.population.population import Population
from p2p_sim.population.table import TableConfig
from p2p_sim.replicate.case import Case
from p2p_sim.replicate.run import prepare
from p2p_sim.stacking.perturbed import PerturbedObjective, draw_noise
from p2p_sim.stacking.pst import GroupModels

Floats = NDArray[np.float64]
DRAWS = 50_000
"""Of the noise, for the power."""
SHARES = (0.0, 0.2, 0.4, 0.7, 0.95)
"""Parts of ε at which δ is tested."""
LARGEST_TEST_EPSILON = 8.0
LONG = 10.0
"""Length of the targets' rows, in units of the norm bound: clipping is tested too."""


def audit_organisations(
    case: Case, trials: int, error: float = ERROR, mechanism: Organisations | None = None
) -> OneRunAudit:
    """Attack the models that organisations release.

    Args:
        case: the scenario, whose first replicate has the rows. trials: targets, at least.
        error: probability that a sound mechanism fails.
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
    groups = claimed.plan.grouped(people.features.shape[1], Streams(case.scenario.seed, 0)).members
    noises = tuple(claimed.stages[k][0].noise for k in claimed.learners)
    curve = LabelCurve(noises, tuple(len(group) for group in groups))
    with one_thread():
        targets = OrganisationTargets(claimed, mechanism or claimed, case, people)
    sizes = int(people.cluster_sizes.min()), int(people.cluster_sizes.max())
    given = {"target_epsilon": claimed.plan.epsilon}
    return audited(Asked.of(case.scenario), targets, curve, trials, error, given, sizes)


@dataclass(frozen=True)
class OrganisationTargets:
    """One target in each organisation that learns, run again with fresh coins and noise until there are enough.

    claimed: gives the noise that the score assumes. mechanism: what is attacked.
    """

    claimed: Organisations
    mechanism: Organisations
    case: Case
    people: Population
    exact: tuple[bool, ...] = (True,)

    def seen(self, trials: int, seed: int, epsilons: Sequence[float]) -> tuple[Seen, int, Floats | None]:
        """As `one_run.Targets` has it."""
        labels, scores, users = list[bool](), list[float](), 0
        for run in range(-(-trials // len(self.claimed.learners))):
            for coin, score in self._run(Streams(seed, run)):
                labels.append(coin)
                scores.append(score)
            users += self.people.num_users
        return Seen(np.array(labels), np.array(scores)[None, :]), users, None

    def _run(self, streams: Streams) -> Iterator[tuple[bool, float]]:
        """Coin and score of each organisation that learns."""
        people, first = self.people, self.people.cluster_offsets[:-1]
        coins = streams.generator("audit-coin").random(len(first)) < 0.5
        place = [int(order_of(streams, k, n)[0]) for k, n in enumerate(people.cluster_sizes.tolist())]
        target = first + place
        features, labels = people.features.astype(np.float64), people.labels.copy()
        features[target], labels[target] = self._row(streams), coins
        drawn = replace(people, features=features, labels=labels)
        outcome = self.mechanism.release(drawn, self.case.scenario.network, streams, places=self.case.places)
        assert isinstance(outcome.release, ModelRelease)
        assert isinstance(outcome.release.predictor, ByCluster)
        assert outcome.organisations is not None
        sent = self.mechanism.models_sent(drawn, streams) if self.claimed.plan.transfers else {}
        for k in self.claimed.learners:
            combined = outcome.release.predictor.predictors[k]
            assert isinstance(combined, Combination)
            came = {s: sent[s] for s in outcome.organisations.came[k] if s in sent}
            yield bool(coins[k]), self._score(drawn, streams, k, combined.models[0], self.claimed.start(came))

    def _row(self, streams: Streams) -> Floats:
        """The targets' features: the first feature of each group is large, all others are 0."""
        row = np.zeros(self.people.features.shape[1])
        groups = self.claimed.plan.grouped(len(row), streams).members
        row[[group[0] for group in groups]] = LONG * self.claimed.plan.norm_bound
        return row

    def _score(
        self, people: Population, streams: Streams, k: int, models: GroupModels, priors: tuple[Floats, ...] | None
    ) -> float:
        """The logarithm of the likelihood ratio of an organisation's own models, drawn towards the priors or 0."""
        noise, start = self.claimed.stages[k][0].noise, int(people.cluster_offsets[k])
        rows = start + order_of(streams, k, int(people.cluster_sizes[k]))[: noise.num_rows]
        signs = np.where(people.labels[rows] == 1, 1.0, -1.0)[:, None]
        found = 0.0
        for j, part in enumerate(models.groups.scaled(people.features[rows].astype(np.float64))):
            weights = models.coefficients[j]
            prior = np.zeros_like(weights) if priors is None else priors[j]
            lengths = list[float]()
            for sign in (-1.0, 1.0):
                signs[0] = sign
                objective = PerturbedObjective(part * signs, noise.l2[j], noise.extra_l2[j], prior)
                lengths.append(float(np.linalg.norm(objective.gradient(weights, np.zeros_like(weights)))))
            found += (lengths[0] - lengths[1]) * noise.num_rows / noise.noise_scale
        return found


@dataclass(frozen=True)
class LabelCurve:
    """What is certified of the label of a row. noises: of each target's own models. features: of each group."""

    noises: tuple[ObjectivePerturbation, ...]
    features: tuple[int, ...]

    def tested(self) -> list[float]:
        """Parts of the largest ε."""
        largest = min(self.bound(0.0).epsilon_upper, LARGEST_TEST_EPSILON)
        return [share * largest for share in SHARES]

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """Mean certified δ of the targets at each ε."""
        kinds = Counter(self.noises)
        found = [[b.upper for b in RowLabel(noise, self.features).profile(epsilons)] for noise in kinds]
        return np.asarray(np.average(found, axis=0, weights=list(kinds.values())))

    def bound(self, delta: float) -> PrivacyBound:
        """Of the target with the largest ε, for every δ."""
        worst = max(self.noises, key=lambda noise: noise.label_epsilon).label_privacy()
        return replace(worst, conditions=(*worst.conditions, *MODEL_EXCHANGE_CONDITIONS))

    def grown(self, epsilons: Sequence[float], rise: float, delta: float) -> Floats:
        """By as much less noise, from draws of the noise of the first target."""
        more, less = (self._reached(epsilons, factor) for factor in (rise, 1.0))
        return np.asarray(np.divide(more, less, out=np.ones_like(more), where=less > 0.0))

    def _reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ at each ε of the noise itself, divided by `rise`, if the row has the largest norm."""
        noise, rng = self.noises[0], Streams(0, 0).generator("audit-noise")
        losses, scale = np.zeros(DRAWS), noise.noise_scale / rise
        for q, dimension in zip(noise.norms, self.features, strict=True):
            drawn = draw_noise(dimension, scale, rng, DRAWS)
            before = np.linalg.norm(drawn, axis=1)
            drawn[:, 0] += q
            losses += (np.linalg.norm(drawn, axis=1) - before) / scale
        return np.array([float(np.maximum(-np.expm1(epsilon - losses), 0.0).mean()) for epsilon in epsilons])

    def curves(self) -> dict[str, Floats]:
        """The pure ε of the worst target alone."""
        kept = math.exp(min(self.bound(0.0).epsilon_upper, 700.0))
        return {"ε of the label": np.maximum(np.maximum(1.0 - kept * TYPE_ONE, (1.0 - TYPE_ONE) / kept), 0.0)}

    def refused(self, plan: OneRunPlan, certified: Floats, attacked: Floats) -> float | None:
        """Nothing is said of other parameters."""
        return None
