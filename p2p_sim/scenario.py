"""The scenario: a frozen object with all settings of one experiment."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator

from p2p_sim.base import (
    FAULTS,
    LEARNERS,
    MECHANISMS,
    OVERLAYS,
    POPULATIONS,
    Config,
    Extended,
    InputError,
    OneLine,
    PlugIns,
    card,
    find_scenario,
    is_a,
    kinds_within,
    lacking,
    offer_of,
    parse_overrides,
    path_of,
    read_toml,
    refusal,
    set_key,
)
from p2p_sim.exchange import NOBODY, AdversariesConfig, EngineName
from p2p_sim.learning import LearnerConfig, LogisticRegressionConfig, check_fit
from p2p_sim.mechanisms import Column, MechanismBase, ProtocolConfig
from p2p_sim.network import NetworkConfig
from p2p_sim.population import (
    ClustersConfig,
    DigitsConfig,
    GivenClusters,
    KMeansClusters,
    PopulationConfig,
    Source,
    check_kinds,
)
from p2p_sim.privacy import Situation

MechanismConfig = Annotated[MechanismBase, PlugIns(MECHANISMS, MechanismBase, "p2p_sim.mechanisms")]
"""Any mechanism of a plug-in or of the package `p2p_sim.mechanisms`."""
OWN_MECHANISMS: dict[str, type[MechanismBase]] = kinds_within("p2p_sim.mechanisms", MechanismBase)
OWN_COLUMNS: dict[str, Column] = {
    column.name: column for mechanism in OWN_MECHANISMS.values() for column in mechanism.columns
}
"""By name, the columns of a row with parameters of the mechanisms in `p2p_sim.mechanisms`."""
MODEL_VERSION = 8
"""The version of the simulation. The number rises when the same scenario would give different rows."""


def default_clusters(population: Source | None) -> GivenClusters | KMeansClusters:
    """The clustering of a scenario without the key `clusters`: "given" if the population comes with clusters, otherwise
    k-means.

    Args:
        population: the scenario's population. None means a faulty population.
    """
    return GivenClusters() if population is not None and population.clustered else KMeansClusters(count=20, min_size=36)


class PrivacyConfig(Config):
    """The privacy statement for which ε is computed."""

    delta: float = Field(default=1e-5, gt=0, lt=1)
    """δ of the (ε, δ) statement, between 0 and 1."""


class Scenario(Extended, metaclass=OneLine):
    """One experiment: users, clusters, mechanism, network, learner and the privacy statement."""

    name: str = Field(default="scenario", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Names the output directory; letters, digits, dots, dashes and underscores."""
    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    """Root seed of all random streams, 0 to 2**63 - 1."""
    noise_salt: int = Field(default=0, ge=0, le=2**32 - 1)
    """0 to 2**32 - 1. A different number keeps users, clusters, overlay and adversaries. All other random draws change.
    Scenarios whose releases are composed need different numbers."""
    replicates: int = Field(default=10, ge=1)
    """Independent repetitions, at least 1; a larger number extends a finished run."""
    engine: EngineName = "events"
    """"events": messages over the simulated network. "processes": the same, but slower, with one SimPy process for each
    user; protocols of plug-ins need it. "vectorised": one draw from the same law, without messages."""
    later: ClassVar[tuple[str, ...]] = ("groups", "noise_salt")
    groups: tuple[str, ...] = ()
    """Groups of users whose errors are measured too. "class": by label. "cluster_size": small, middle, large (thirds of
    the users by size of cluster; equal sizes stay together). Columns of the population are allowed too, such as "sex"
    of "adult", or any column of "table". Absent: no groups."""
    population: PopulationConfig = DigitsConfig()
    """Where the users come from. kind = "synthetic", "circle", "unit_cube", "real_line", "branches", "digits", "mnist",
    "fashion-mnist", "cifar-10", "adult", "uci-heart", "breast-cancer", "wine" or "table". For labels that are
    numbers: "linear" or "diabetes"."""
    clusters: ClustersConfig = Field(default_factory=lambda data: default_clusters(data.get("population")))
    """How users are grouped by their features. kind = "given", "random", "kmeans", "grid", "agglomerative",
    "hdbscan" or "balanced". Absent: "given" if the population comes with clusters, else k-means into 20 clusters of
    at least 36 users."""
    mechanism: MechanismConfig
    """How labels are privatised. Absent kind: "label_exchange"."""
    network: NetworkConfig = NetworkConfig()
    """Who may ask whom, how messages travel, who is online, what happens when a fetch fails."""
    adversaries: AdversariesConfig = NOBODY
    """Users who break the protocol or share what they see. Not with engine = "vectorised"."""
    learner: LearnerConfig = LogisticRegressionConfig()
    """What is learned from the release. kind = "logistic_regression", "soft_logistic_regression" (any weights),
    "estimator" (any classifier of scikit-learn), "table" (the majority of each distinct row of features), "histogram"
    (the majority in each cube), "trimmed_clusters", "knn", "one_vs_rest" or "convolutional". Learners that know the
    noise: "forward_correction", "backward_correction", "cluster_and_features" or "boosted_trees". For class shares of
    bags: "label_proportions". For released numbers: "ridge"."""
    privacy: PrivacyConfig = PrivacyConfig()
    """The (ε, δ) statement."""

    _folder: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _mechanism_fits(self) -> Self:
        """Refuse a mechanism that does not fit clusters, network, adversaries, population or number of classes."""
        try:
            self.mechanism.check_surroundings(self.clusters, self.network, self.adversaries)
            if self.mechanism.adjacency != "label":
                self._check_private_rows()
            if (classes := self.population.known_classes) is not None:
                self.mechanism.check(classes)
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def _check_private_rows(self) -> None:
        """Raise ValueError if the clustering or the population uses the features of all rows. This check is for
        mechanisms that protect whole rows. No ε would count such a use of private features.
        """
        whole = f"a whole row is private with mechanism.kind = {self.mechanism.kind!r}"
        if not self.clusters.blind:
            raise ValueError(
                f"clusters.kind = {self.clusters.kind!r}: looks at features, but {whole}; 'given' and 'random' do not"
            )
        if (looks := self.population.looks_at_all_rows) is not None:
            own = "; population.scale and population.classes take public constants" if self.population.own else ""
            raise ValueError(f"{looks}: looks at all rows, but {whole}{own}")

    @model_validator(mode="after")
    def _learnable(self) -> Self:
        """Refuse unknown groups, groups if no label is predicted, and a learner that cannot learn from the release."""
        check_kinds(self.groups, self.population.group_columns)
        if self.groups and self.mechanism.releases == "density":
            raise ValueError(f"groups: mechanism.kind = {self.mechanism.kind!r} predicts no labels; leave groups out")
        check_fit(self.population, (self.mechanism.kind, self.mechanism.releases), self.learner)
        return self

    @model_validator(mode="after")
    def _engine_fits(self) -> Self:
        """Refuse an engine that cannot simulate the mechanism, the network or the adversaries."""
        beyond, kind = [*self.network.faults, *self.adversaries.active], self.mechanism.kind
        if isinstance(self.mechanism, ProtocolConfig) and self.engine != "processes":
            raise ValueError(f"engine = {self.engine!r}: mechanism.kind = {kind!r} is a protocol; it needs 'processes'")
        if self.engine == "processes" and self.mechanism.sends and self.mechanism.releases not in ("hard", "signed"):
            raise ValueError(f"engine = 'processes': carries only labels; mechanism.kind = {kind!r} sends other data")
        if self.engine == "vectorised" and beyond:
            raise ValueError(f"engine = 'vectorised' draws from a network without faults: {beyond[0]} needs 'events'")
        return self

    def __repr__(self) -> str:
        """The name and the settings of `_summary`, in one line."""
        return f"Scenario({', '.join([repr(self.name), *(f'{key} = {text}' for key, text in self._summary())])})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The scenario as a small table, for notebooks."""
        return card(f"Scenario {self.name}", self._summary())

    def _summary(self) -> list[tuple[str, str]]:
        """Pairs (key, text): the kinds of population, clusters, mechanism and learner; engine, replicates and seed.

        The mechanism's text also has its changed numbers. `model_dump()` has all settings.
        """
        changed = self.mechanism.model_dump(mode="json", exclude_defaults=True).items()
        numbers = ", ".join(f"{key} {value}" for key, value in changed if isinstance(value, int | float))
        return [
            ("population", self.population.kind),
            ("clusters", self.clusters.kind),
            ("mechanism", f"{self.mechanism.kind} ({numbers})" if numbers else self.mechanism.kind),
            ("learner", self.learner.kind),
            ("engine", self.engine),
            ("replicates", str(self.replicates)),
            ("seed", str(self.seed)),
        ]

    @property
    def folder(self) -> Path:
        """The directory of the scenario file. Files that the scenario names are first looked for there."""
        return self._folder

    def places(self, data_dir: Path | None) -> tuple[Path, ...]:
        """The directories of data files: first the scenario file's directory, then `data_dir` if given."""
        return (self._folder,) if data_dir is None else (self._folder, data_dir)

    def replace(self, **changes: Any) -> Self:
        """A copy with other values of dotted keys, such as `replace(**{"mechanism.flip_prob": 0.2})`."""
        tree = self.model_dump(mode="json")
        for key, value in changes.items():
            set_key(tree, key, value.model_dump(mode="json") if isinstance(value, BaseModel) else value)
        return type(self).from_tree(tree, self._folder)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any], folder: Path = Path()) -> Self:
        """The scenario that a nested mapping of keys to values describes. A value may also be a configuration object,
        such as the population that `p2p_sim.table` makes of a data frame.

        Args:
            tree: the mapping. folder: where files that the scenario names are first looked for.

        Raises:
            InputError: the mapping has a fault. The message names the first fault.
        """
        if not isinstance(tree, Mapping):
            raise InputError(f"tree {is_a(tree)}: must be a mapping of keys to values; load_scenario reads files")
        mechanism = tree.get("mechanism")
        if isinstance(mechanism, dict) and "kind" not in mechanism:
            tree = {**tree, "mechanism": {"kind": "label_exchange", **mechanism}}
        try:  # through JSON: strict mode accepts a list for a tuple only there
            scenario = cls.model_validate_json(json.dumps(tree, default=_plain))
        except ValidationError as error:
            raise refusal(error, cls) from None
        scenario._folder = folder
        return scenario

    def situation(self, num_classes: int) -> Situation:
        """The facts of the scenario on which the conditions of a privacy bound depend. These are the number of classes,
        the faults of the network, and the roles of adversaries. The last fact is whether the mechanism takes a
        parameter from true labels.

        Args:
            num_classes: K, the number of classes of the population.
        """
        return Situation(
            num_classes,
            faults=self.network.faults,
            roles=self.adversaries.active,
            oracle=self.mechanism.asks_oracle,
        )

    def canonical(self) -> dict[str, Any]:
        """A tree of the keys on which the results depend, with the code of the plug-ins in use.

        The name, the number of replicates and paths of files are left out.
        """
        tree = self.model_copy(update={"mechanism": self.mechanism.beside(self.learner)}).model_dump(
            mode="json", exclude={"name", "replicates"}
        )
        for part in (tree["population"], *(tree["network"][name] for name in ("overlay", "latency", "availability"))):
            part.pop("path", None)
        network, in_transit = tree["network"], tree["network"].get("in_transit", ())
        parts = (tree["population"], tree["mechanism"], network["overlay"], tree["learner"], *in_transit)
        for part, (config, group) in zip(parts, self._with_kinds(), strict=True):
            if (offer := offer_of(group, config.kind)) is not None:
                part |= {"plug-in": str(offer), "plug-in code": offer.code_of(type(config))}
        return tree

    @property
    def mechanism_claimed_by(self) -> str:
        """The plug-in package that claims the mechanism's ε; empty for the simulator's own mechanisms."""
        return str(offer_of(MECHANISMS, self.mechanism.kind) or "")

    @property
    def packages(self) -> dict[str, str]:
        """The plug-in packages that the scenario uses: their versions by name."""
        offers = [offer_of(group, config.kind) for config, group in self._with_kinds()]
        return {offer.package: offer.version for offer in offers if offer is not None}

    def _with_kinds(self) -> tuple[tuple[Any, str], ...]:
        """The parts of the scenario that may come from a plug-in, each as a pair (configuration, name). The name is the
        group of Python entry points under which packages offer such parts.
        """
        return (
            (self.population, POPULATIONS),
            (self.mechanism, MECHANISMS),
            (self.network.overlay, OVERLAYS),
            (self.learner, LEARNERS),
            *((fault, FAULTS) for fault in self.network.in_transit),
        )

    def content_hash(self, checksums: Iterable[str] = ()) -> str:
        """SHA-256 of everything on which the results depend: settings, code of plug-ins, contents of data files and
        version of the simulation. Excluded are the name, the number of replicates and paths of files. The order of keys
        has no effect.

        Args:
            checksums: the checksums of the data files that the scenario reads.
        """
        identity = {"scenario": self.canonical(), "data": list(checksums), "model": MODEL_VERSION}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def load_scenario(path: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario file, apply the overrides and return the scenario.

    Args:
        path: the path of the file, or the name of a shipped scenario, such as quickstart or network/loss.
        overrides: changes "dotted.key=value", with the value in TOML syntax.

    Raises:
        InputError: one line that names the file or key, the value and what is allowed.
    """
    path = find_scenario(path_of("path", path))
    if isinstance(overrides, str) or not isinstance(overrides, Iterable):
        raise InputError(f"overrides {is_a(overrides)}: must be a list, such as ['seed=2']")
    tree = read_toml(path)
    if "axes" in tree and "base" in tree:
        raise InputError(f"{path}: this is a sweep, not a scenario: p2p-sim sweep {path}")
    for key, value in parse_overrides(overrides):
        set_key(tree, key, value)
    try:
        return Scenario.from_tree(tree, path.parent)
    except InputError as error:
        why = lacking(path)
        raise (InputError(f"{path}: {why}") if why else error.within(path)) from None


def _plain(value: object) -> Any:
    """A value in a form that JSON can hold. A configuration becomes a mapping, and a NumPy number a Python number. Any
    other value, such as a date, becomes a list of one text. Validation refuses this list in place of a single value.
    """
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value.item() if isinstance(value, np.generic) else [str(value)]
