"""Organisations that train private models on their rows, exchange the models, and use received models to predict."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, RunFailed, Streams
from p2p_sim.exchange import EngineName, exchange_models, neighbours
from p2p_sim.mechanisms.deployment import Deployment
from p2p_sim.mechanisms.outcome import ByCluster, Floats, ModelRelease, OrganisationFacts, Outcome
from p2p_sim.network import Network
from p2p_sim.population import Population
from p2p_sim.privacy import (
    MODEL_EXCHANGE_CONDITIONS,
    MODELS,
    WHOLE,
    Condition,
    PrivacyBound,
    ReleaseLedger,
    Situation,
    first_failure,
)
from p2p_sim.privacy.rivals import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.stacking import FeatureGroups

if TYPE_CHECKING:
    from p2p_sim.stacking import Combiner, GroupModels

Models = tuple["GroupModels", ...]
"""The models that one organisation passes on. Each part of its rows has a model for each feature group."""


@dataclass(frozen=True)
class OrganisationsPlan:
    """How organisations train and combine models. Fields without a description here are keys of `OrganisationsConfig`.

    num_groups: K, number of feature groups; each group has its own model. shuffles: whether features are divided among
    the groups at random. parts: number of disjoint parts of an organisation's rows; each part has its own models.
    source_weights: weights of the source organisations, by organisation number. If given, a penalty draws learners'
    models towards the weighted mean of the sources' models. Empty: learners combine received models with their own.
    pull: η, weight of a second penalty, which draws models towards the sources' models. If η = 0, the penalty of weight
    λ (the field l2) draws the models there.
    """

    epsilon: float
    l2: float
    norm_bound: float | tuple[float, ...]
    groups: tuple[tuple[int, ...], ...] | None
    importance: tuple[float, ...] | None
    low_share: float
    tight: bool
    num_groups: int = 1
    shuffles: bool = False
    only_group: int | None = None
    combiner: "Combiner" = "mean"
    parts: int = 1
    source_weights: Mapping[int, float] = field(default_factory=dict)
    pull: float = 0.0

    @property
    def shares(self) -> tuple[float, ...]:
        """Importance (K,) of each feature group: the configured one, or 1/K for each. The sum is 1."""
        return self.importance or (1.0 / self.num_groups,) * self.num_groups

    def grouped(self, features: int, streams: Streams) -> FeatureGroups:
        """The feature indices, the importance and the norm bound of each of K feature groups. Each group gets its own
        model. The groups are the same for all organisations and do not depend on rows. If no groups are configured,
        the features are divided evenly, in their own order or in random order (`shuffles`).

        Args:
            features: number of features. streams: draw the order of the features if `shuffles` is true.

        Raises:
            ValueError: a feature of a group does not exist, or there are fewer features than groups.
        """
        groups = self.groups
        if self.num_groups > features:
            raise ValueError(f"num_groups = {self.num_groups}: there are only {features} features")
        if self.shuffles:
            order = streams.generator("models-groups").permutation(features)
            groups = tuple(tuple(part.tolist()) for part in np.array_split(order, self.num_groups))
        return FeatureGroups.of(features, self.num_groups, groups, self.shares, self.norm_bound)


class Stage(NamedTuple):
    """One private release: the name of the part of the rows that is used, and the noise for its number of rows."""

    part: str
    noise: ObjectivePerturbation


@dataclass(frozen=True)
class Combination:
    """The predictor of one organisation, a combination of M models.

    models: the organisation's own models and, except in hypothesis transfer, the received models. weights: (M,), sum 1.
    high: weights of a private model that combines the M scores; None: the weighted mean is used. votes: whether the
    mean is over votes (±1); false: over probabilities.
    """

    models: Models
    weights: Floats
    high: Floats | None = None
    votes: bool = False

    def margins(self, rows: NDArray[np.floating]) -> Floats:
        """The scores (n, M) that M models give to n rows. The probability of class 1 under a model is
        1/(1 + e^-score). Each model belongs to one organisation, one part of its rows and one feature group.

        Args:
            rows: (n, d) features.
        """
        return np.concatenate([model.margins(np.asarray(rows, dtype=np.float64)) for model in self.models], axis=1)

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, 2) for the features (n, d). The probability of class 1 is a weighted mean
        of the models' probabilities or votes. If `high` is given, a private model of the M scores is used instead.
        """
        from p2p_sim.stacking import meta_features

        margins = self.margins(features)
        balance = (np.sign(margins) if self.votes else np.tanh(0.5 * margins)) @ self.weights
        if self.high is not None:
            balance = np.tanh(0.5 * (meta_features(margins) @ self.high))
        return np.stack([0.5 * (1.0 - balance), 0.5 * (1.0 + balance)], axis=1)


@dataclass(frozen=True)
class Organisations(Deployment):
    """The exchange of private models among organisations. Each cluster of the population is one organisation's rows.

    plan: how organisations train and combine models. sizes: (N,) number of rows of each of N organisations.
    senders: organisations that offer their models. learners: organisations that request models and predict.
    """

    trust = "organisation"  # users trust the organisation that holds their row
    parameters: ClassVar[dict[str, float]] = {}

    plan: OrganisationsPlan
    sizes: tuple[int, ...]
    senders: tuple[int, ...]
    learners: tuple[int, ...]
    engine: EngineName = "events"

    def __post_init__(self) -> None:
        _ = self.stages  # refuses organisations with too few rows

    @cached_property
    def stages(self) -> tuple[tuple[Stage, ...], ...]:
        """The private releases of each of N organisations. For each release there is the part of the rows that is used,
        and noise calibrated to the number of these rows. The parts of an organisation have no row in common. An
        organisation that neither sends nor learns has an empty entry.
        """
        return tuple(
            self._stages(k, n) if k in (*self.senders, *self.learners) else () for k, n in enumerate(self.sizes)
        )

    def _stages(self, organisation: int, size: int) -> tuple[Stage, ...]:
        plan, shares, stacks = self.plan, self.plan.shares, self.stacks(organisation)
        low = round(plan.low_share * size) if stacks else size
        if not 1 <= low <= size - stacks:
            raise InputError(f"mechanism.low_share = {plan.low_share:g}: leaves a model without any of the {size} rows")
        if low < plan.parts:
            raise InputError(f"mechanism.parts = {plan.parts}: an organisation has {low} rows for them")
        l2 = [self.own_l2(organisation) * q * q for q in shares]
        # no row is in two parts (the combining model's rows, "high", are a part too), so no row pays for two releases
        sizes = [len(part) for part in np.array_split(np.arange(low), plan.parts)]
        names = [f"part {i}" for i in range(plan.parts)] if plan.parts > 1 else ["low" if stacks else WHOLE]
        stages = [
            Stage(name, calibrate_perturbation(plan.epsilon, rows, l2, shares, plan.tight))
            for name, rows in zip(names, sizes, strict=True)
        ]
        if stacks:
            stages.append(Stage("high", calibrate_perturbation(plan.epsilon, size - low, [plan.l2], tight=plan.tight)))
        return tuple(stages)

    def stacks(self, organisation: int) -> bool:
        """Whether this organisation also trains a private model that combines the scores of all models. If the combiner
        is "stacked", every learner trains such a model on rows that it keeps for this purpose.
        """
        return self.plan.combiner == "stacked" and organisation in self.learners

    def own_l2(self, organisation: int) -> float:
        """Weight of the L2 penalty in the training of this organisation's own models: λ, or λ + η for a learner. Here η
        is the weight of a second penalty towards the received models (0: there is none).
        """
        return self.plan.l2 + (self.plan.pull if organisation in self.learners else 0.0)

    def spends(self, organisation: int) -> float:
        """The total ε of this organisation: the largest ε of its releases, because all releases use disjoint rows."""
        return max((stage.noise.epsilon_upper for stage in self.stages[organisation]), default=0.0)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """For each number of rows in `sizes`, the bound of ε of the worst organisation of this size. The observer sees
        all models. The bound is pure: δ = 0.
        """
        bound = next(filter(None, self.stages))[0].noise.privacy()
        bound = replace(
            bound,
            basis="objective perturbation, all models of an organisation together, against whoever sees all models",
            conditions=(*bound.conditions, *MODEL_EXCHANGE_CONDITIONS),
        )
        return [
            replace(bound, epsilon_upper=max(self.spends(k) for k, n in enumerate(self.sizes) if n == size))
            for size in sizes.tolist()
        ]

    def applies(self, situation: Situation) -> Condition | None:
        """The first condition of the stated ε that fails in a situation; None if all conditions hold. There
        must be two classes and one round. All participants must follow the protocol and pass on nothing else. No
        parameter may depend on labels. Network faults violate no condition: a model's noise does not change.

        Args:
            situation: network faults, participants who break the protocol, number of classes and rounds, and who
            observes.
        """
        return first_failure(MODELS, situation)

    def models_sent(self, population: Population, streams: Streams) -> dict[int, Models]:
        """The models that each sending organisation would release in a run, by the organisation's number. Nothing is
        exchanged. An attack that tests ε needs these models.

        Args:
            population: the rows of all organisations, one cluster each. streams: random numbers of the run.
        """
        run = _OrganisationsRun(self, population, streams)
        return {k: run.train(k) for k in self.senders}

    def start(self, received: Mapping[int, Models]) -> tuple[Floats, ...] | None:
        """For each of K feature groups, the coefficients towards which the penalty draws a learner's own models: the
        weighted mean of the received models. If no model arrived, the result is None: the penalty draws towards 0.

        There may be two penalties: one of weight λ towards 0, and one of weight η towards the mean. Both together are a
        penalty of weight λ+η towards η/(λ+η) times the mean. Then this point is returned.

        Args:
            received: for each source organisation whose models arrived in time, its number and its models.
        """
        if not received:
            return None
        plan, weights = self.plan, self.plan.source_weights
        factor = (plan.pull / (plan.l2 + plan.pull) if plan.pull else 1.0) / sum(weights[s] for s in received)
        return tuple(
            np.asarray(sum(weights[s] * factor * models[0].coefficients[j] for s, models in received.items()))
            for j in range(plan.num_groups)
        )

    def nodes(self, population: Population) -> Population:
        """The organisations, as a population of one cluster without features or labels. Messages travel between
        organisations, not between users.

        Args:
            population: the rows of all organisations, one cluster each.
        """
        count = len(population.cluster_sizes)
        return Population(np.zeros((count, 0)), np.zeros(count, np.uint8), np.array([0, count]), 2)

    def release_on(
        self, opened: Network, population: Population, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        """Run the exchange. The release is a predictor for each learning organisation.

        Each sending organisation trains private models on its rows. The models travel over the network to the
        organisations that request them. Each learning organisation makes a predictor from its own and the received
        models. A ledger records the ε that each organisation spends, and who received its models.

        Args:
            opened: the network among organisations, and the random numbers of this run. population: the rows of all
            organisations, one cluster each. record: whether to keep a transcript of all messages. part: must be None,
            because organisations need each other's models.

        Raises:
            InputError: `part` is given, the feature groups do not fit the features, or an organisation has no rows.
            RunFailed: the ledger disagrees with the ε that `privacy` states.
        """
        if part is not None:
            raise InputError("mechanism: organisations need each other's models and cannot be split by shards")
        count, law = len(self.sizes), population.law
        if law is not None and law.cluster.max() >= count:
            raise InputError("population: an organisation has no rows; take more users")
        run = _OrganisationsRun(self, population, opened.streams)
        sent = {k: run.train(k) for k in self.senders}
        asker, owner = neighbours(opened, count)
        wanted = np.isin(asker, self.learners) & np.isin(owner, self.senders)
        sizes = np.array([8 * sum(w.size for m in sent.get(k, ()) for w in m.coefficients) for k in range(count)])
        trade = exchange_models(opened, asker[wanted], owner[wanted], sizes, record)
        for k, o in zip(trade.asker[trade.received].tolist(), trade.owner[trade.received].tolist(), strict=True):
            for model in sent[o]:
                run.ledger.show(fingerprint(model.coefficients), k)
        came = tuple(tuple(trade.owner[trade.used & (trade.asker == k)].tolist()) for k in range(count))
        predictors = {k: run.combine(k, {owner: sent[owner] for owner in came[k]}) for k in self.learners}
        spent = tuple(run.ledger.spent(k) for k in range(count))
        if any(abs(paid - self.spends(k)) > 1e-9 for k, paid in enumerate(spent)):
            raise RunFailed(f"the ledger says that organisations spent ε = {spent}, which is not the stated ε")
        shown_to = (tuple(sorted(run.ledger.shown_to(k))) for k in range(count))
        facts = OrganisationFacts(spent, tuple(shown_to), came, tuple(trade.offline.tolist()))
        release, times = ModelRelease(ByCluster(predictors)), np.sort(trade.arrival_s[trade.used])
        if self.engine == "vectorised":  # a network without faults: everything arrives
            return Outcome(release, overlay=opened.overlay, organisations=facts)
        return Outcome(release, trade.traffic, trade.transcript, times, overlay=opened.overlay, organisations=facts)


class _OrganisationsRun:
    """One run of the model exchange: the rows of each organisation, and the ledger of the ε spent on releases."""

    def __init__(self, mechanism: Organisations, population: Population, streams: Streams) -> None:
        self.mechanism, self.plan, self.streams = mechanism, mechanism.plan, streams
        cuts = population.cluster_offsets[1:-1]
        self.rows = np.split(np.asarray(population.features, dtype=np.float64), cuts)
        self.signs = np.split(np.where(population.labels == 1, 1.0, -1.0), cuts)
        try:
            self.groups = self.plan.grouped(population.features.shape[1], streams)
        except ValueError as error:
            raise InputError(f"mechanism.{error}") from None
        self.ledger = ReleaseLedger(len(self.rows))
        self.own: dict[int, Models] = {}

    def train(self, k: int, priors: tuple[Floats, ...] | None = None) -> Models:
        """Trains the private models of organisation k and returns them. For each disjoint part of the rows there is one
        model for each feature group. Each release is entered in the ledger of spent ε.

        Args:
            k: number of the organisation. priors: for each feature group, the coefficients towards which the penalty
            draws the group's model; None: towards 0.
        """
        from p2p_sim.stacking import train_groups

        plan, order = self.plan, order_of(self.streams, k, len(self.signs[k]))
        rng, models = self.streams.generator("models-own", k), list["GroupModels"]()
        priors = priors or tuple(np.zeros(len(members)) for members in self.groups.members)
        # parts have no row in common, so an organisation pays the ε of one part, not the sum
        for stage in self.mechanism.stages[k][: plan.parts]:
            rows, order = np.split(order, [stage.noise.num_rows])
            group_models = train_groups(
                self.rows[k][rows],
                self.signs[k][rows],
                self.groups,
                priors=priors,
                epsilon=plan.epsilon,
                l2=self.mechanism.own_l2(k),
                tight=plan.tight,
                rng=rng,
            )
            self.ledger.pay(
                k, fingerprint(group_models.coefficients), group_models.perturbation.epsilon_upper, stage.part
            )
            models.append(group_models)
        self.own[k] = tuple(models)
        return self.own[k]

    def combine(self, k: int, received: dict[int, Models]) -> Combination:
        """The predictor of organisation k. In hypothesis transfer, the organisation first trains new models that are
        drawn towards the received models. It combines only the new models. Otherwise it combines its own and the
        received models. The combination is a weighted mean of probabilities, a mean of votes, or a private model.

        Args:
            k: number of the organisation. received: for each other organisation whose models arrived in time, its
            number and its models.
        """
        from p2p_sim.stacking import meta_features, train

        plan, stages = self.plan, self.mechanism.stages
        transferred = bool(plan.source_weights)
        owned = {k: self.train(k, self.mechanism.start(received))} if transferred else {k: self.own[k], **received}
        models = tuple(model for group in owned.values() for model in group)
        # a model's weight is its number of training rows times its group's importance; a majority uses equal weights
        behind = np.array([float(stage.noise.num_rows) for owner in owned for stage in stages[owner][: plan.parts]])
        group = plan.shares if plan.only_group is None else np.eye(plan.num_groups)[plan.only_group]
        weights = np.outer(behind / behind.sum(), group).ravel()
        if plan.combiner == "majority":
            weights = (weights > 0.0) / np.count_nonzero(weights)
        combination = Combination(models, weights, votes=plan.combiner in ("majority", "weighted"))
        if not self.mechanism.stacks(k):
            return combination
        part, noise = stages[k][-1]
        rest = order_of(self.streams, k, len(self.signs[k]))[-noise.num_rows :]
        meta, rng = meta_features(combination.margins(self.rows[k][rest])), self.streams.generator("models-high", k)
        learned = train(meta, self.signs[k][rest], noise, rng=rng, prior=np.zeros(meta.shape[1]))
        self.ledger.pay(k, fingerprint((learned,)), noise.epsilon_upper, part)
        return replace(combination, high=learned)


def order_of(streams: Streams, organisation: int, rows: int) -> NDArray[np.intp]:
    """A random order (n,) of an organisation's n rows, by which the rows are divided into parts. The order does not
    depend on what the rows contain.

    Args:
        streams: random numbers of the run. organisation: its number. rows: n.
    """
    return streams.generator("models-parts", organisation).permutation(rows)


def fingerprint(coefficients: Sequence[Floats]) -> bytes:
    """A hash of the coefficients of released models. The ledger of spent ε recognises a release by this hash. So a
    release that several others receive is counted once.

    Args:
        coefficients: the vectors of coefficients that are released together.
    """
    return hashlib.sha256(b"".join(w.tobytes() for w in coefficients)).digest()
