"""Organisations that train private models of their rows, exchange them over the network, and predict with what came."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.others.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.analysis.privacy.statement.bound import PrivacyBound
from p2p_sim.analysis.privacy.statement.conditions import MODEL_EXCHANGE_CONDITIONS, Condition
from p2p_sim.analysis.privacy.statement.domain import MODELS, Situation, first_failure
from p2p_sim.analysis.privacy.statement.ledger import WHOLE, ReleaseLedger
from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.interface import Mechanism
from p2p_sim.mechanisms.outcome import ByCluster, ModelRelease, OrganisationFacts, Outcome
from p2p_sim.network.network import Network
from p2p_sim.population.population import Population
from p2p_sim.protocol.engines import EngineName
from p2p_sim.protocol.model_exchange import exchange_models, neighbours
from p2p_sim.stacking.plr import train
from p2p_sim.stacking.pst import GroupModels, meta_features, train_groups
from p2p_sim.stacking.rows import FeatureGroups

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """How models are trained and combined; the keys of the scenario.

    stacks: an organisation that learns holds rows back for a private model that combines.
    transfers: models are drawn towards those that came, instead of being combined with them.
    """

    epsilon: float
    l2: float
    norm_bound: float
    groups: tuple[tuple[int, ...], ...] | None
    importance: tuple[float, ...] | None
    low_share: float
    tight: bool
    stacks: bool = False
    transfers: bool = False

    @property
    def shares(self) -> tuple[float, ...]:
        """Importance of the groups (K,)."""
        count = len(self.groups or ((),))
        return self.importance or (1.0 / count,) * count


class Stage(NamedTuple):
    """One release of an organisation: of which part of its rows, how many these are, and its noise."""

    part: str
    rows: int
    noise: ObjectivePerturbation


@dataclass(frozen=True)
class Combination:
    """What an organisation predicts with.

    models: its own and those of others. weights: (M,) of the models of all groups, of sum 1.
    high: (M,) private weights of their probabilities, or None for the mean.
    """

    models: tuple[GroupModels, ...]
    weights: Floats
    high: Floats | None = None

    def margins(self, rows: NDArray[np.floating]) -> Floats:
        """Scores (n, M) of rows (n, d)."""
        return np.concatenate([model.margins(np.asarray(rows, dtype=np.float64)) for model in self.models], axis=1)

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Class probabilities (n, 2) of the features (n, d)."""
        balance = np.tanh(0.5 * self.margins(features)) @ self.weights
        if self.high is not None:
            balance = np.tanh(0.5 * (meta_features(self.margins(features)) @ self.high))
        return np.stack([0.5 * (1.0 - balance), 0.5 * (1.0 + balance)], axis=1)


@dataclass(frozen=True)
class Organisations(Mechanism):
    """The mechanism for organisations of given sizes (N,), in the order of the clusters.

    senders: whose models others may ask for. learners: who asks, and predicts at the end.
    """

    trust = "organisation"  # the one that holds the row

    plan: Plan
    sizes: tuple[int, ...]
    senders: tuple[int, ...]
    learners: tuple[int, ...]
    engine: EngineName = "events"

    def __post_init__(self) -> None:
        _ = self.stages  # refuses organisations with too few rows

    @property
    def parameters(self) -> dict[str, float]:
        """None that rows have columns for."""
        return {}

    @cached_property
    def stages(self) -> tuple[tuple[Stage, ...], ...]:
        """What each organisation releases, which sizes alone decide: nothing that happens on the network does."""
        return tuple(
            self._stages(n, self.plan.stacks and k in self.learners) if k in (*self.senders, *self.learners) else ()
            for k, n in enumerate(self.sizes)
        )

    def _stages(self, size: int, stacks: bool) -> tuple[Stage, ...]:
        plan, shares = self.plan, self.plan.shares
        low = round(plan.low_share * size) if stacks else size
        if not 1 <= low <= size - stacks:
            raise InputError(f"mechanism.low_share = {plan.low_share:g}: leaves one of two models none of {size} rows")
        own = calibrate_perturbation(plan.epsilon, low, [plan.l2 * q * q for q in shares], shares, plan.tight)
        if not stacks:
            return (Stage(WHOLE, size, own),)
        high = calibrate_perturbation(plan.epsilon, size - low, [plan.l2], tight=plan.tight)
        return Stage("low", low, own), Stage("high", size - low, high)

    def spends(self, organisation: int) -> float:
        """ε of an organisation: that of its costliest part, as parts are disjoint."""
        return max((stage.noise.epsilon_upper for stage in self.stages[organisation]), default=0.0)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """ε of the worst organisation of each size, at δ = 0, against whoever sees all models and predictors."""
        basis = "objective perturbation, all models of an organisation together, against whoever sees all models"
        bound = replace(next(filter(None, self.stages))[0].noise.privacy(), basis=basis)
        bound = replace(bound, conditions=(*bound.conditions, *MODEL_EXCHANGE_CONDITIONS))
        spent = [self.spends(k) for k in range(len(self.sizes))]
        worst = [max(e for e, n in zip(spent, self.sizes, strict=True) if n == size) for size in sizes.tolist()]
        return [replace(bound, epsilon_upper=epsilon) for epsilon in worst]

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        return {}

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition that fails: faults of the network are none, since they change no model's noise."""
        return first_failure(MODELS, situation)

    def models_sent(self, population: Population, streams: Streams) -> dict[int, GroupModels]:
        """The models that the senders pass on, by organisation, as a run with these streams trains them."""
        run = _Run(self, population, streams)
        return {k: run.train(k, None) for k in self.senders}

    def nodes(self, population: Population) -> Population:
        """The organisations, as one cluster without labels."""
        count = len(population.cluster_sizes)
        return Population(np.zeros((count, 0)), np.zeros(count, np.uint8), np.array([0, count]), 2)

    def release_on(
        self,
        opened: Network,
        population: Population,
        record: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Outcome:
        """The same on a network that has been opened for the organisations.

        Raises:
            InputError: a part of the shards is asked for, or features are named that do not exist.
            RunFailed: the ledger is not what `privacy` says.
        """
        if part is not None:
            raise InputError("mechanism: organisations need each other's models and cannot be split by shards")
        count, law = len(self.sizes), population.law
        if law is not None and law.cluster.max() >= count:
            raise InputError("population: an organisation of the law has no rows; take more users")
        run = _Run(self, population, opened.streams)
        sent = {k: run.train(k, None) for k in self.senders}
        asker, owner = neighbours(opened, count)
        wanted = np.isin(asker, self.learners) & np.isin(owner, self.senders)
        sizes = np.array([8 * sum(w.size for w in sent[k].coefficients) if k in sent else 0 for k in range(count)])
        done = exchange_models(opened, asker[wanted], owner[wanted], sizes, record)
        for k, o in zip(done.asker[done.shown].tolist(), done.owner[done.shown].tolist(), strict=True):
            run.ledger.show(fingerprint(sent[o].coefficients), k)
        predictors = {}
        for k in self.learners:
            predictors[k] = run.combine(k, {o: sent[o] for o in done.owner[done.used & (done.asker == k)].tolist()})
        spent = tuple(run.ledger.spent(k) for k in range(count))
        if any(abs(paid - self.spends(k)) > 1e-9 for k, paid in enumerate(spent)):
            raise RunFailed(f"the ledger of what organisations spent says {spent}, which is not what is stated")
        facts = OrganisationFacts(
            spent,
            tuple(tuple(sorted(run.ledger.shown_to(k))) for k in range(count)),
            tuple(np.bincount(done.asker[done.used], minlength=count).tolist()),
            tuple(done.offline.tolist()),
        )
        release, times = ModelRelease(ByCluster(predictors)), np.sort(done.arrival_s[done.used])
        if self.engine == "vectorised":  # a network without faults, on which everything arrives
            return Outcome(release, overlay=opened.overlay, organisations=facts)
        return Outcome(release, done.traffic, done.transcript, times, None, opened.overlay, facts)


class _Run:
    """One run: rows by organisation, their random streams, and the ledger of what they pay."""

    def __init__(self, mechanism: Organisations, population: Population, streams: Streams) -> None:
        self.mechanism, self.plan, self.streams = mechanism, mechanism.plan, streams
        cuts, plan = population.cluster_offsets[1:-1], mechanism.plan
        self.rows = np.split(np.asarray(population.features, dtype=np.float64), cuts)
        self.signs = np.split(np.where(population.labels == 1, 1.0, -1.0), cuts)
        try:
            features = population.features.shape[1]
            self.groups = FeatureGroups.of(features, 1, plan.groups, plan.importance, plan.norm_bound)
        except ValueError as error:
            raise InputError(f"mechanism.{error}") from None
        self.ledger = ReleaseLedger(len(self.rows))
        self.own: dict[int, GroupModels] = {}

    def train(self, k: int, source: GroupModels | None) -> GroupModels:
        """An organisation's own models, paid for; it trains them once, and whoever asks gets these."""
        plan, stage = self.plan, self.mechanism.stages[k][0]
        rows = self._order(k)[: stage.rows]
        nothing = tuple(np.zeros(len(members)) for members in self.groups.members)
        priors, rng = nothing if source is None else source.coefficients, self.streams.generator("models-own", k)
        self.own[k], noise = train_groups(
            *(self.rows[k][rows], self.signs[k][rows], self.groups, priors, plan.epsilon, plan.l2, plan.tight, rng)
        )
        self.ledger.pay(k, fingerprint(self.own[k].coefficients), noise.epsilon_upper, stage.part)
        return self.own[k]

    def combine(self, k: int, received: dict[int, GroupModels]) -> Combination:
        """What an organisation predicts with, given the models of others that it had in time, by their owner."""
        stages, shares = self.mechanism.stages, np.asarray(self.plan.shares)
        if self.plan.transfers:
            models, behind = [self.train(k, next(iter(received.values()), None))], np.ones(1)
        else:
            models = [self.own[k], *received.values()]
            behind = np.array([float(stages[owner][0].rows) for owner in (k, *received)])
        made = Combination(tuple(models), np.outer(behind / behind.sum(), shares).ravel())
        if not self.plan.stacks:
            return made
        low, high = stages[k]
        rest, rng = self._order(k)[low.rows :], self.streams.generator("models-high", k)
        meta = meta_features(made.margins(self.rows[k][rest]))
        learned = train(meta, self.signs[k][rest], high.noise, rng, np.zeros(meta.shape[1]))
        self.ledger.pay(k, fingerprint((learned,)), high.noise.epsilon_upper, high.part)
        return replace(made, high=learned)

    def _order(self, k: int) -> NDArray[np.intp]:
        return order_of(self.streams, k, len(self.signs[k]))


def order_of(streams: Streams, organisation: int, rows: int) -> NDArray[np.intp]:
    """An organisation's rows (n,) in the order in which they are parted, drawn without looking at them."""
    return streams.generator("models-parts", organisation).permutation(rows)


def fingerprint(coefficients: Sequence[Floats]) -> bytes:
    """What tells a release from every other one: a hash of its weights."""
    return hashlib.sha256(b"".join(w.tobytes() for w in coefficients)).digest()
