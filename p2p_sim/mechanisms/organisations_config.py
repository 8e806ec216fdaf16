"""Configurations of organisations that exchange private models: private stacking and hypothesis transfer.

Each cluster of the population is one organisation, which owns its rows. Features are private too (adjacency "example").
If there is only one cluster, it is the single owner of rows in Algorithms 1 to 3 of the stacking paper.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from p2p_sim.base import Extended, InputError, defaults, differing
from p2p_sim.exchange import AdversariesConfig
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.mechanism import MechanismBase
from p2p_sim.mechanisms.outcome import ReleaseKind
from p2p_sim.network import NetworkConfig
from p2p_sim.population import ClustersConfig
from p2p_sim.privacy import MODEL_EXCHANGE_CONDITIONS, Adjacency
from p2p_sim.privacy.rivals import OBJECTIVE_PERTURBATION_CONDITIONS
from p2p_sim.stacking import FeatureGroups, check_public

if TYPE_CHECKING:
    from p2p_sim.mechanisms.organisations import Organisations


def _check_budget(epsilon: object) -> object:
    """Returns ε if it is "inf" or a number in (0, 100]. Otherwise raises ValueError."""
    if epsilon == "inf" or (type(epsilon) in (int, float) and 0.0 < epsilon <= 100.0):  # type: ignore[operator]
        return epsilon
    raise ValueError('must be above 0 and at most 100, or "inf" for no noise')


def _check_norms(norms: object) -> object:
    """Returns the bound on the norm of a row's features, or a tuple of such bounds, one for each feature group.

    Raises:
        ValueError: a bound is not a number from 1e-9 to 1e9, or the tuple is empty.
    """
    several = tuple(norms) if isinstance(norms, list | tuple) else (norms,)
    if several and all(isinstance(norm, int | float) and 1e-9 <= norm <= 1e9 for norm in several):
        return several if isinstance(norms, list | tuple) else norms
    raise ValueError("must be 1e-9 to 1e9, or a list of such numbers, one for each group")


Budget = Annotated[float | Literal["inf"], BeforeValidator(_check_budget)]
Norms = Annotated[float | tuple[float, ...], BeforeValidator(_check_norms)]
NEW_KEYS = ("num_groups", "shuffle_features", "only_group")
"""The hash that identifies a scenario ignores these keys if they have their default values."""
UNDERSTOOD = (
    *("overlay", "latency", "distance_s", "loss", "duplication", "reordering", "bandwidth_bps", "header_bytes"),
    *("availability", "start_window_s", "request_timeout_s", "on_timeout", "deadline_s"),
)
"""Network keys that affect the exchange of models; any other key that is set is refused."""


class ModelRoles(NamedTuple):
    """Indices of organisations, from 0: senders release models, and learners learn from received models."""

    senders: tuple[int, ...]
    learners: tuple[int, ...]


class OrganisationsConfig(MechanismBase, Extended):
    """Base of the two mechanisms by which organisations learn from others' private models: stacking and transfer."""

    sends: ClassVar[bool] = True
    described: ClassVar[str] = "organisations that exchange private models"
    later: ClassVar[tuple[str, ...]] = NEW_KEYS
    conditions: ClassVar[tuple[str, ...]] = (*OBJECTIVE_PERTURBATION_CONDITIONS, *MODEL_EXCHANGE_CONDITIONS)
    epsilon: Budget
    """ε of all releases of an organisation together, for each of its rows, at δ = 0; above 0 and at most 100. Or "inf":
    no noise, and nothing is private."""
    l2: float = Field(default=0.01, ge=1e-9, le=1e6)
    """λ: weight of each model's penalty against the mean loss, times q² in a group of importance q; 1e-9 to 1e6."""
    norm_bound: Norms = 1.0
    """Public norm at which each row's features are clipped in each group, 1e-9 to 1e9; or a norm for each group."""
    groups: tuple[tuple[int, ...], ...] | None = Field(default=None, min_length=1)
    """Disjoint groups of feature indices, each with its own model; the models share ε by importance. Absent:
    `num_groups` groups, or one group of all features."""
    num_groups: int | None = Field(default=None, ge=1, le=10_000)
    """Instead of `groups`: number of groups of consecutive features, about equal in size, 1 to 10,000."""
    shuffle_features: bool = False
    """Deal the features to the `num_groups` groups at random, for all organisations alike, without looking at rows."""
    importance: tuple[float, ...] | None = None
    """q: importance of each group, above 0, with sum 1; absent: uniform."""
    importance_is_public: bool = False
    """Must be true if importance is given: importance must not come from the data, and no program can check this."""
    only_group: int | None = Field(default=None, ge=0)
    """Number of the only group whose models predict, from 0; ε still covers all groups. Absent: all groups predict."""
    combiner: Literal["mean", "majority", "weighted", "stacked"] = "mean"
    """How an organisation combines its own and received models. "mean": the mean of their probabilities, weighted by
    importance and by numbers of rows; "weighted": the mean of their votes with the same weights; "majority": the mean
    of their votes with equal weights; "stacked": a private model trained on further rows of its own."""
    low_share: float = Field(default=0.5, gt=0, lt=1)
    """Share of an organisation's rows on which its own models are trained if combiner = "stacked", between 0 and 1; the
    combining model is trained on the rest."""
    tight: bool = False
    """Calibrate the noise by a sharper proof, which needs less noise; false: by the paper's proof."""
    target: int | None = Field(default=None, ge=0)
    """Number of the only organisation that learns from others, from 0; absent: all learn, except sources."""
    releases: ClassVar[ReleaseKind] = "model"
    adjacency: ClassVar[Adjacency] = "example"

    @model_validator(mode="after")
    def _feature_groups(self) -> "OrganisationsConfig":
        if self.groups is not None and self.num_groups is not None:
            raise ValueError("num_groups: groups are given; leave one of them out")
        if self.shuffle_features and self.num_groups is None:
            raise ValueError("shuffle_features needs num_groups")
        count = self.num_groups or len(self.groups or ((),))
        if self.importance is not None and count == 1:
            raise ValueError("importance needs groups or num_groups")
        check_public(self.importance, self.importance_is_public)
        features = 1 + max((i for group in self.groups for i in group), default=0) if self.groups else count
        FeatureGroups.of(features, count, self.groups, self.importance, self.norm_bound)
        if self.only_group is not None and (self.only_group >= count or self.combiner == "stacked"):
            raise ValueError(
                f"only_group = {self.only_group}: must be one of {count} groups, from 0, and combiner not 'stacked'"
            )
        return self

    @property
    def budget(self) -> float:
        """ε of each organisation as a number, infinite for "inf"."""
        return float(self.epsilon)

    def check(self, num_classes: int) -> None:
        """Raise InputError unless there are two classes."""
        if num_classes != 2:
            raise InputError(f"mechanism.kind = {self.kind!r}: is for 2 classes, not {num_classes}")

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Raise InputError if a key of the network or the adversaries is set that has no effect on the exchange of
        models. Examples are keys of an adversary, of the choice of a peer, and of what replaces a failed request.
        Delays, losses, bandwidth, times offline, deadlines and repeated requests are allowed.

        Args:
            clusters: not used. network: the network with its faults. adversaries: which participants break the
            protocol.
        """
        changed = differing("network", network.model_dump(), defaults(NetworkConfig))
        beyond = [*adversaries.active, *(key for key in changed if key.split(".")[1] not in UNDERSTOOD)]
        if network.on_timeout.retry == "redraw":
            beyond.append("network.on_timeout.retry = 'redraw'")
        if network.on_timeout.fallback != "skip":
            beyond.append("network.on_timeout.fallback")
        if beyond:
            raise InputError(f"mechanism.kind = {self.kind!r}: {beyond[0]} has no meaning for models; leave it out")

    @abstractmethod
    def roles(self, organisations: int) -> ModelRoles:
        """The numbers of the organisations that send models, and of the organisations that learn from received models.
        An organisation may do both.

        Args:
            organisations: how many organisations there are.
        """

    def deployed(self, setup: Setup) -> "Organisations":
        """The mechanism for organisations of the sizes that `setup` lists, in this order. δ is not used."""
        from p2p_sim.mechanisms.organisations import Organisations, OrganisationsPlan

        self.check(setup.num_classes)
        for key, value in self.named.items():
            if value is not None and value >= len(setup.sizes):
                raise InputError(f"mechanism.{key} = {value}: must be an organisation, 0 to {len(setup.sizes) - 1}")
        # a source does not learn; if all organisations are sources, there is no learner
        senders, learners = self.roles(len(setup.sizes))
        if not learners:
            raise InputError(f"mechanism.kind = {self.kind!r}: needs an organisation besides the source")
        plan = OrganisationsPlan(
            epsilon=self.budget,
            l2=self.l2,
            norm_bound=self.norm_bound,
            groups=self.groups,
            importance=self.importance,
            low_share=self.low_share,
            tight=self.tight,
            num_groups=self.num_groups or len(self.groups or ((),)),
            shuffles=self.shuffle_features,
            only_group=self.only_group,
            combiner=self.combiner,
            **self.own_keys,
        )
        return Organisations(plan, tuple(setup.sizes.tolist()), senders, learners, setup.engine)

    @property
    def named(self) -> dict[str, int | None]:
        """For each key that holds organisation numbers, such as "target", the largest number given. None: the key is
        absent. The numbers are checked against the number of organisations.
        """
        return {"target": self.target}

    @property
    def own_keys(self) -> dict[str, Any]:
        """Values of fields of `OrganisationsPlan` that only this kind of configuration sets; by default none."""
        return {}


class PrivateStackingConfig(OrganisationsConfig):
    """Every organisation trains a private model, requests the other organisations' models, and combines all of them.

    This is the stacking paper's Algorithm 2, in which the organisations are the parts.
    """

    kind: Literal["private_stacking"] = "private_stacking"
    later: ClassVar[tuple[str, ...]] = (*NEW_KEYS, "parts")
    parts: int = Field(default=1, ge=1, le=10_000)
    """K: number of disjoint random parts of an organisation's rows, each with its own model, 1 to 10,000. An
    organisation spends the ε of one part, not the sum."""

    def roles(self, organisations: int) -> ModelRoles:
        """All organisations send models; all learn, or only the target."""
        everybody = tuple(range(organisations))
        return ModelRoles(everybody, everybody if self.target is None else (self.target,))

    @property
    def own_keys(self) -> dict[str, Any]:
        return {"parts": self.parts}


class HypothesisTransferConfig(OrganisationsConfig):
    """Source organisations release their models; a penalty draws the learners' models towards the released ones.

    This is the stacking paper's Algorithm 4, corrected: a source pays ε once, for the models of all groups together.
    """

    kind: Literal["hypothesis_transfer"] = "hypothesis_transfer"
    later: ClassVar[tuple[str, ...]] = (*NEW_KEYS, "source_weights", "source_weights_are_public", "pull")
    source: int | tuple[int, ...] = 0
    """Number of the organisation that releases its models, from 0. If several are given, their models are averaged."""
    source_weights: tuple[float, ...] | None = None
    """Weight of each source in the average, above 0, with sum 1; absent: equal."""
    source_weights_are_public: bool = False
    """Must be true if source_weights are given: ε does not cover weights that come from private rows."""
    pull: float | None = Field(default=None, gt=0, le=1e6)
    """η: weight of a second penalty (η/2)|w - w_src|² beside (l2/2)|w|², above 0 and at most 1e6 (PPHTL, equation 5).
    Absent: the only penalty is (l2/2)|w - w_src|²."""

    @model_validator(mode="after")
    def _sources(self) -> "HypothesisTransferConfig":
        # the sources are distinct organisations, and the target is not a source
        for source in self.sources:
            if source < 0:
                raise ValueError(f"source = {source}: must be an organisation, from 0")
            if source == self.target:
                raise ValueError(f"source = {source} is the target too; name another organisation")
        if len(set(self.sources)) < max(len(self.sources), 1):
            raise ValueError(f"source = {list(self.sources)}: must name at least one organisation, each once")
        # weights make a mean of the sources' models; weights computed from private rows would cost further ε
        weights = self.source_weights
        if weights is not None and (
            len(weights) != len(self.sources) or min(weights) <= 0.0 or abs(sum(weights) - 1.0) > 1e-9
        ):
            raise ValueError(f"source_weights = {list(weights)}: needs a value above 0 for each source, of sum 1")
        if weights is not None and not self.source_weights_are_public:
            raise ValueError(
                "source_weights: must come from outside the data, else ε fails; set source_weights_are_public = true "
                "if they do"
            )
        return self

    @property
    def sources(self) -> tuple[int, ...]:
        """Numbers of the organisations that release their models."""
        return self.source if isinstance(self.source, tuple) else (self.source,)

    @property
    def named(self) -> dict[str, int | None]:
        return {"target": self.target, "source": max(self.sources)}

    def roles(self, organisations: int) -> ModelRoles:
        """The sources send models; all other organisations learn, or only the target."""
        others = tuple(k for k in range(organisations) if k not in self.sources)
        return ModelRoles(self.sources, others if self.target is None else (self.target,))

    @property
    def own_keys(self) -> dict[str, Any]:
        weights = self.source_weights or (1.0 / len(self.sources),) * len(self.sources)
        return {"source_weights": dict(zip(self.sources, weights, strict=True)), "pull": self.pull or 0.0}
