"""What a scenario says of organisations that exchange private models: private stacking and hypothesis transfer.

Each cluster of the population is one organisation, which owns its rows; features are private too (adjacency "example").
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from p2p_sim.analysis.privacy.others.objective_perturbation import OBJECTIVE_PERTURBATION_CONDITIONS
from p2p_sim.analysis.privacy.statement.bound import Adjacency
from p2p_sim.analysis.privacy.statement.conditions import MODEL_EXCHANGE_CONDITIONS
from p2p_sim.base.config import differing
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.interface import OwnMechanism, Setup
from p2p_sim.mechanisms.outcome import ReleaseKind
from p2p_sim.network.config import NetworkConfig
from p2p_sim.population.clustering import ClustersConfig
from p2p_sim.protocol.roles import AdversariesConfig
from p2p_sim.stacking.rows import FeatureGroups, check_public

if TYPE_CHECKING:
    from p2p_sim.mechanisms.organisations import Organisations

UNDERSTOOD = (
    *("overlay", "latency", "distance_s", "loss", "duplication", "reordering", "bandwidth_bps", "header_bytes"),
    *("availability", "start_window_s", "request_timeout_s", "on_timeout", "deadline_s"),
)
"""Keys of the network that mean something to models; any other that is set is refused."""


class OrganisationsConfig(OwnMechanism):
    """What both ways to use the models of others share."""

    described: ClassVar[str] = "organisations that exchange private models"
    conditions: ClassVar[tuple[str, ...]] = (*OBJECTIVE_PERTURBATION_CONDITIONS, *MODEL_EXCHANGE_CONDITIONS)
    epsilon: float = Field(gt=0, le=100)
    """Largest ε of the rows of each organisation, for all its releases together; above 0 and at most 100, δ = 0."""
    l2: float = Field(default=0.01, ge=1e-9, le=1e6)
    """λ: weight of the penalty of each model against the mean loss, 1e-9 to 1e6."""
    norm_bound: float = Field(default=1.0, ge=1e-9, le=1e9)
    """Public norm at which each row (of a group) is clipped, 1e-9 to 1e9."""
    groups: tuple[tuple[int, ...], ...] | None = Field(default=None, min_length=1)
    """Disjoint groups of feature indices with a model each, which share ε by importance; absent: one of all."""
    importance: tuple[float, ...] | None = None
    """q: importance of each group, above 0 and of sum 1; absent: uniform."""
    importance_is_public: bool = False
    """Must be true if importance is given: importance must not come from the data, which no program can check."""
    combiner: Literal["mean", "stacked"] = "mean"
    """How an organisation combines its models. "mean": the mean of their probabilities, weighted by importance and by
    numbers of rows; "stacked": a private model of further rows of its own."""
    low_share: float = Field(default=0.5, gt=0, lt=1)
    """Share of the rows for an organisation's own model where combiner = "stacked", between 0 and 1; the rest is for
    the combination."""
    tight: bool = False
    """Calibrate by the sharper proof, with less noise; false: as in the paper."""
    target: int | None = Field(default=None, ge=0)
    """The one organisation that learns from others, from 0; absent: all of them."""
    releases: ClassVar[ReleaseKind] = "model"
    adjacency: ClassVar[Adjacency] = "example"

    @model_validator(mode="after")
    def _feature_groups(self) -> "OrganisationsConfig":
        if self.importance is not None and self.groups is None:
            raise ValueError("importance needs groups")
        check_public(self.importance, self.importance_is_public)
        if self.groups is not None:
            features = 1 + max((i for group in self.groups for i in group), default=0)
            FeatureGroups.of(features, 1, self.groups, self.importance, self.norm_bound)
        return self

    def check(self, num_classes: int) -> None:
        """Refuse other than two classes."""
        if num_classes != 2:
            raise InputError(f"mechanism.kind = {self.kind!r}: is for 2 classes, not {num_classes}")

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Refuse keys without a meaning."""
        if clusters.kind == "one":
            raise InputError(f"clusters.kind = 'one': mechanism.kind = {self.kind!r} needs several organisations")
        changed = differing("network", network, NetworkConfig())
        beyond = [*adversaries.active, *(key for key in changed if key.split(".")[1] not in UNDERSTOOD)]
        if network.on_timeout.retry == "redraw":
            beyond.append("network.on_timeout.retry = 'redraw'")
        if network.on_timeout.fallback != "skip":
            beyond.append("network.on_timeout.fallback")
        if beyond:
            raise InputError(f"mechanism.kind = {self.kind!r}: {beyond[0]} has no meaning for models; leave it out")

    @abstractmethod
    def roles(self, organisations: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Organisations whose models others ask for, and those that learn from others."""

    def built(self, setup: Setup) -> "Organisations":
        """The mechanism for organisations of these sizes, in their order; δ does not matter."""
        from p2p_sim.mechanisms.organisations import Organisations, Plan

        self.check(setup.num_classes)
        for key, value in (("target", self.target), ("source", getattr(self, "source", None))):
            if value is not None and value >= len(setup.sizes):
                raise InputError(f"mechanism.{key} = {value}: must be an organisation, 0 to {len(setup.sizes) - 1}")
        senders, learners = self.roles(len(setup.sizes))
        if not learners:
            raise InputError(f"mechanism.kind = {self.kind!r}: needs an organisation besides the source")
        plan = Plan(
            *(self.epsilon, self.l2, self.norm_bound, self.groups, self.importance, self.low_share, self.tight),
            stacks=self.combiner == "stacked",
            transfers=self.kind == "hypothesis_transfer",
        )
        return Organisations(plan, tuple(setup.sizes.tolist()), senders, learners, setup.engine)


class PrivateStackingConfig(OrganisationsConfig):
    """Every organisation trains a private model and asks the others for theirs.

    This is the stacking paper's Algorithm 2 with organisations as the parts; each combines the models that it received.
    """

    kind: Literal["private_stacking"] = "private_stacking"

    def roles(self, organisations: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All send; all learn, or the target."""
        everybody = tuple(range(organisations))
        return everybody, everybody if self.target is None else (self.target,)


class HypothesisTransferConfig(OrganisationsConfig):
    """One organisation releases its models once; the others' models are drawn towards the models that they receive.

    This is the stacking paper's Algorithm 4, corrected: the source pays ε for all groups together, and once for all.
    """

    kind: Literal["hypothesis_transfer"] = "hypothesis_transfer"
    source: int = Field(default=0, ge=0)
    """The organisation whose models the others start from, from 0."""

    @model_validator(mode="after")
    def _not_itself(self) -> "HypothesisTransferConfig":
        if self.source == self.target:
            raise ValueError(f"source = {self.source} is the target too; name another organisation")
        return self

    def roles(self, organisations: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The source sends; all others learn, or the target."""
        others = tuple(k for k in range(organisations) if k != self.source)
        return (self.source,), others if self.target is None else (self.target,)
