"""Base classes of mechanisms. A mechanism is a configuration that releases labels and has an accountant.

A mechanism that sends no messages is a subclass of `Mechanism`. The subclass has the mechanism's keys as fields, and
the methods `release` and `accountant`. Other class attributes and methods have defaults.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import PrivateAttr, model_validator

from p2p_sim.base import Config, InputError, Streams, maker_of, method_of, require
from p2p_sim.exchange import NOBODY, AdversariesConfig
from p2p_sim.mechanisms.deployment import Deployment, Setup, Trust
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, Release, ReleaseKind
from p2p_sim.mechanisms.plug_in_results import check_accountant, check_bounds, check_columns, check_release
from p2p_sim.network import Network, NetworkConfig
from p2p_sim.population import ClustersConfig, People, Shard
from p2p_sim.privacy import Accountant, Adjacency, OnePoint, PrivacyBound, Situation, WorstOf, epsilons


@dataclass(frozen=True)
class Column:
    """A column of the results that holds a parameter of a mechanism.

    name: name of the column, and of the mechanism's attribute with the value. text: description with the symbol.
    unit: empty for a plain number.
    """

    name: str
    text: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.unit})" if self.unit else self.text


NOISE_SCALE = Column("noise_scale", "noise scale σ")
THRESHOLD = Column("threshold", "threshold τ")
NOISE_MULTIPLIER = Column("noise_multiplier", "noise multiplier")
SAMPLING_RATE = Column("sampling_rate", "sampling rate θ")


class MechanismBase(Config):
    """Base of all configurations of a mechanism.

    described: the mechanism's name in a report, after the words "Labels are privatised by"; empty: `kind` is used.
    conditions: the conditions of the learner's ε, as texts for a report.
    adjacency: what neighbouring data sets differ in: one user's label, or her whole row ("example").
    sends: whether users send each other messages over the network.
    by_shard: whether users may be drawn shard by shard (`People`), if the scenario has no adversaries.
    columns: the columns of results that hold parameters of the mechanism.
    one_of: two keys; a scenario must give exactly one of them (a subclass may override `_one_noise`). Empty: no rule.
    """

    kind: str
    sends: ClassVar[bool] = False
    by_shard: ClassVar[bool] = False
    described: ClassVar[str] = ""
    conditions: ClassVar[tuple[str, ...]] = ()
    adjacency: ClassVar[Adjacency] = "label"
    columns: ClassVar[tuple[Column, ...]] = ()
    one_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _one_noise(self) -> Self:
        if self.one_of and sum(getattr(self, key) is not None for key in self.one_of) != 1:
            raise ValueError(f"give either {' or '.join(self.one_of)}")
        return self

    @property
    def releases(self) -> ReleaseKind:
        """What the learner gets: by default noisy classes ("hard").

        Other labels are K bits ("bits"), K class probabilities ("soft"), K signed weights ("signed") or numbers
        ("values"). Other releases are a predictor ("model") or a density estimate of the features ("density").
        """
        return "hard"

    @property
    def asks_oracle(self) -> bool:
        """Whether a parameter is computed from private data, and so is not private; by default false."""
        return False

    def with_oracle_values(self, heterogeneity: float) -> Self:
        """This configuration, with values for parameters that are computed from private data; by default unchanged.

        Args:
            heterogeneity: φ, the mean of Σ_y |p(y|x) - p(y|c)| over users. Here p(y|x) is the probability of label y
            given a user's features x. The probability of label y in her cluster c is p(y|c).
        """
        return self

    def beside(self, learner: Config) -> Self:
        """This configuration, with absent keys filled in from the scenario's learner. By default nothing is filled in.

        Args:
            learner: the configuration of the scenario's learner.
        """
        return self

    def check(self, num_classes: int) -> None:
        """Raise InputError if a parameter does not fit the number of classes. By default nothing is checked."""

    def check_surroundings(
        self, clusters: ClustersConfig, network: NetworkConfig, adversaries: AdversariesConfig
    ) -> None:
        """Raise InputError if the mechanism cannot run with the scenario's clusters, network or adversaries. Keys
        without effect on this mechanism are refused, too. By default every network fault and every adversary is
        refused, because no messages are simulated.

        Args:
            clusters: how users are grouped. network: the network with its faults. adversaries: which users break the
            protocol.
        """
        if not network.ideal or adversaries != NOBODY:
            beyond = (*network.faults, "adversaries")[0]
            raise InputError(f"mechanism.kind = {self.kind!r}: no messages of it are simulated; leave out {beyond}")

    @abstractmethod
    def deployed(self, setup: Setup) -> Deployment:
        """The mechanism for given users, with all parameters fixed. The result makes labels private and states ε.

        If the configuration gives a target ε instead of the noise, the noise is computed here.

        Args:
            setup: facts of the scenario, such as cluster sizes, the number of classes K, δ, and the grid of numeric
            labels.
        """


class Mechanism(MechanismBase, Deployment):
    """Base of mechanisms that send no messages.

    trust: the party that users must trust for the learner's ε to hold.
    whole: true: `release` gets all users at once; false, and no model or density is released: those of one shard.
    """

    trust: ClassVar[Trust] = "nobody"
    whole: ClassVar[bool] = False
    _setup: Setup = PrivateAttr()

    @abstractmethod
    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> Release:
        """Makes the labels of some users private, and returns what the learner gets. Users are numbered from 0.

        Args:
            labels: (n,) true labels of all users, or of the users of one shard (a part of the clusters). features: (n,
            d), public unless the mechanism protects whole rows; d = 0 if users are drawn shard by shard. clusters:
            (C+1,); cluster c holds users clusters[c]..clusters[c+1]-1. streams: random numbers of the shard, or of the
            run.
        """

    @abstractmethod
    def accountant(self, setup: Setup, size: int) -> Accountant:
        """The learner's accountant: an object that bounds ε at each δ, and δ at each ε. The bounds are for the label
        of a user in a cluster of `size` users, or for her whole row if the mechanism protects rows.

        Args:
            setup: facts of the scenario, such as cluster sizes, the number of classes K, δ, and the grid of numeric
            labels. size: number of users of her cluster.
        """

    def calibrated(self, setup: Setup) -> Self:
        """This configuration with a number for every parameter, such as the least noise that meets a target ε. By
        default no parameter is open.

        Args:
            setup: facts of the scenario, such as cluster sizes, the number of classes K, and δ.
        """
        return self

    def deployed(self, setup: Setup) -> Self:
        self.check(setup.num_classes)
        calibrated = self.calibrated(setup)
        if (offer := maker_of(self)) is not None:
            same = isinstance(calibrated, type(self))
            require(method_of(offer, self, "calibrated"), same, f"must give the same class, not {calibrated!r}")
            check_columns(method_of(offer, self, "columns"), calibrated)
        fixed = calibrated.model_copy()
        fixed._setup = setup
        return fixed

    @property
    def setup(self) -> Setup:
        """Cluster sizes, δ and other facts of the scenario; AttributeError unless `deployed` returned this object."""
        return self._setup

    @property
    def parameters(self) -> dict[str, float]:
        return {column.name: getattr(self, column.name) for column in self.columns}

    def release_on(
        self, opened: Network, population: People, record: bool = False, part: tuple[int, int] | None = None
    ) -> Outcome:
        whole = self.whole or self.releases in ("model", "density")
        if whole and part is not None:
            raise InputError("mechanism: works on all users at once and cannot be split by shards")
        everybody = Shard(0, 0, population.num_users, population.cluster_offsets)
        nobody = Shard(0, 0, 0, np.zeros(1, dtype=np.int64))  # for a part without shards
        chosen = (everybody,) if whole else population.shards[slice(*(part or (None,)))] or (nobody,)
        offer, classes, parts = maker_of(self), self.setup.num_classes, list[LabelRelease]()
        for shard in chosen:
            labels, features = population.labels_of(shard), population.features_of(shard)
            release = self.release(labels, features, shard.offsets, opened.streams.within(shard.index))
            if offer is not None:
                check_release(method_of(offer, self, "release"), release, self.releases, shard.size, classes)
            if not isinstance(release, LabelRelease):
                return Outcome(release)
            parts.append(replace(release, user=release.user + shard.start))
        return Outcome(LabelRelease.join(parts))

    def accountants(self, cluster_sizes: NDArray[np.integer]) -> tuple[Accountant, ...]:
        """The learner's accountants for the distinct cluster sizes, in ascending order. If all accountants are equal,
        only one is returned.

        Args:
            cluster_sizes: number of users of each cluster, in any order.
        """
        models = tuple(self.accountant(self.setup, size) for size in np.unique(cluster_sizes).tolist())
        if (offer := maker_of(self)) is not None:
            for model in models:
                check_accountant(method_of(offer, self, "accountant"), model)
        return models[:1] if all(model == models[0] for model in models) else models

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        models = self.accountants(sizes)
        bounds = epsilons(models, delta)
        if (offer := maker_of(self)) is not None:
            check_bounds(method_of(offer, self, "accountant"), bounds, len(models), delta)
        return bounds * len(sizes) if len(models) == 1 else bounds

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        models = self.accountants(cluster_sizes)
        if isinstance(models[0], OnePoint):
            return None
        return models[0] if len(models) == 1 else WorstOf(models)
