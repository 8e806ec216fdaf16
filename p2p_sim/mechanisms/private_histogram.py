"""A curator who holds whole rows releases noisy votes, counts or a density in cells (Private Bayes consistency)."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.mechanism import OwnMechanism, Setup
from p2p_sim.mechanisms.outcome import DensityRelease, ModelRelease, Outcome, ReleaseKind
from p2p_sim.mechanisms.without_messages import OfAllUsers
from p2p_sim.population.population import Population
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Adjacency, PrivacyBound
from p2p_sim.privacy.rivals.histograms import (
    IDEAL,
    ONE_DRAW,
    PUBLIC_CELLS,
    REPLACED,
    NoisyVotes,
    choice_epsilon,
    counts_epsilon,
    disjoint,
    stability_threshold,
)
from p2p_sim.privacy.where_bounds_hold import Situation

if TYPE_CHECKING:
    from p2p_sim.histograms.classifiers import PCL, PCL2b
    from p2p_sim.histograms.semi_supervised import SemiSupervised


Floats = NDArray[np.float64]
FARTHEST = 1e150
"""Where features that are scaled end, so that their squares are finite."""
DIRECTIONS = 64
"""Directions of half-planes for two features."""


class PrivateHistogramConfig(OwnMechanism):
    """A curator who holds all rows counts them in cells with noise, and releases the rule that follows.

    The four rules of *Private Bayes consistency* (Bousquet et al. 2022): each comes as close to the best possible rule
    as you like, whatever the law, if there are enough rows. A whole row is private, features included: cells depend on
    n and on public constants alone.
    """

    kind: Literal["private_histogram"] = "private_histogram"
    described: ClassVar[str] = "a trusted curator who releases a rule of noisy votes in cells"
    conditions: ClassVar[tuple[str, ...]] = (ONE_DRAW, IDEAL, PUBLIC_CELLS, REPLACED)
    adjacency: ClassVar[Adjacency] = "example"
    rule: Literal["pcl", "pcl2", "pcl2b", "semi_supervised"] = "pcl"
    """"pcl": noisy votes in cubes of [0, 1]^d (Algorithm 2); "pcl2": in the cells of a packing (Algorithm 4); "pcl2b":
    two noisy counts, on all of R^d (Algorithm 5); "semi_supervised": a threshold or half-plane chosen by a few labels
    among those that a private density of the others tells apart (Theorem 4.11)."""
    target_epsilon: float = Field(default=1.0, gt=0, le=100)
    """ε of the whole release at the scenario's δ, above 0 and at most 100. Votes are (ε, 0)-private; each of two counts
    gets half of ε and of δ, which is the paper's rule at ε/2."""
    side: float | None = Field(default=None, gt=0, le=1e6)
    """Side of the cells, a public constant, above 0; absent: n^(-1/(2d)) for pcl, n^(-1/(4d)) for pcl2 and pcl2b."""
    packing: Literal["corner", "middle"] | None = None
    """Of pcl2 and pcl2b: the first centre of the packing is at 0 ("corner"), so that the outermost cells are cut in
    half, or half a side from it ("middle"). Both are maximal packings, and rules from them differ. Absent: "corner"."""
    low: float = 0.0
    """Public constant: features are moved and scaled so that this becomes 0."""
    high: float = 1.0
    """Public constant above `low` that becomes 1. Of pcl and pcl2, what lies outside is moved to the boundary."""
    labelled: int | None = Field(default=None, ge=1)
    """Of semi_supervised: how many users, drawn at random, are asked for their labels; the others give features alone.
    Absent: 400, or half of the users if there are fewer than 800."""
    releases: ClassVar[ReleaseKind] = "model"

    @model_validator(mode="after")
    def _fits(self) -> "PrivateHistogramConfig":
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g}: must be below high = {self.high:g}")
        if self.packing is not None and self.rule not in ("pcl2", "pcl2b"):
            raise ValueError(f"packing: {self.rule} has no packing; 'pcl2' and 'pcl2b' have one")
        if self.rule == "semi_supervised" and self.side is not None:
            raise ValueError("side: semi_supervised has the side n^(-1/(2d)) of its density; leave it out")
        if self.rule != "semi_supervised" and self.labelled is not None:
            raise ValueError(f"labelled: {self.rule} uses the labels of all users; only 'semi_supervised' has this key")
        return self

    def check(self, num_classes: int) -> None:
        if num_classes != 2:
            raise InputError(
                f"mechanism.kind = 'private_histogram': needs two classes; the population has {num_classes}"
            )

    def built(self, setup: Setup) -> "PrivateHistogram":
        """The mechanism; sizes of clusters do not matter.

        Raises:
            InputError: there are not two classes, or fewer unlabelled users than one.
        """
        self.check(setup.num_classes)
        users = int(setup.sizes.sum())
        labelled = self.labelled or min(400, users // 2)
        if self.rule == "semi_supervised" and labelled > users - 2:
            raise InputError(
                f"mechanism.labelled = {labelled}: must leave 2 of {users} users, whose features teach the density"
            )
        return PrivateHistogram(self, setup.delta, labelled)


@dataclass(frozen=True)
class PrivateHistogram(OfAllUsers):
    """One rule over all users, no messages. delta: of the statement. labelled: users whose labels are used, of some."""

    trust = "curator"

    config: PrivateHistogramConfig
    delta: float
    labelled: int

    @property
    def parameters(self) -> dict[str, float]:
        """Scale of the Laplace noise: 1/ε of votes, 2/ε of one count at its part of ε."""
        factor = {"pcl2b": 4.0, "semi_supervised": 2.0}.get(self.config.rule, 1.0)
        return {"noise_scale": factor / self.config.target_epsilon}

    def released(self, population: Population, streams: Streams) -> ModelRelease:
        """The rule. Whatever the rows, there is one: a refusal would tell something of them."""
        points = self.scaled(population.features)
        labels, seed = population.labels, streams.integer_seed("private-histogram")
        with warnings.catch_warnings(action="ignore"):  # what they count is private
            if self.config.rule == "semi_supervised":
                few, others = self.samples(len(points), streams)
                learner = self.semi_supervised(points.shape[1], seed)
                learner.fit_disjoint(points[few], labels[few], points[others])
                return ModelRelease(CellRule(learner, self), len(learner.density_.masses_))
            rule = self.rule(seed).fit(points, labels)
            return ModelRelease(CellRule(rule, self), rule.released_cells)

    def samples(self, users: int, streams: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which users are asked for their labels, and which give features alone; drawn without looking at rows."""
        order = streams.generator("private-histogram-labelled").permutation(users)
        return order[: self.labelled], order[self.labelled :]

    def semi_supervised(self, dimensions: int, seed: int) -> "SemiSupervised":
        """The learner of a threshold or half-plane before it has seen a row."""
        from p2p_sim.histograms.semi_supervised import HalfSpaces, SemiSupervised

        if dimensions > 2:
            raise InputError(f"mechanism.rule = 'semi_supervised': needs one or two features, not {dimensions}")
        concepts = HalfSpaces(1 if dimensions == 1 else DIRECTIONS)
        return SemiSupervised(concepts, self.config.target_epsilon, self.delta, random_state=seed)

    def rule(self, seed: int) -> "PCL | PCL2b":
        """The rule of cells before it has seen a row; each parameter is a public constant or follows from n and d."""
        from p2p_sim.histograms.classifiers import PCL, PCL2, PCL2b

        asked, epsilon = self.config, self.config.target_epsilon
        if asked.rule == "pcl":
            return PCL(epsilon, asked.side, seed)
        centred = asked.packing == "middle"
        if asked.rule == "pcl2":
            return PCL2(epsilon, asked.side, seed, centred=centred)
        return PCL2b(epsilon / 2.0, self.delta / 2.0, asked.side, seed, centred=centred)

    def scaled(self, features: NDArray[np.floating]) -> Floats:
        """Features moved and scaled by the public constants; where cells end, to the boundary of [0, 1]^d."""
        with np.errstate(over="ignore"):  # an infinite number would be refused, and a refusal tell something
            points = (features.astype(np.float64) - self.config.low) / (self.config.high - self.config.low)
        farthest = (0.0, 1.0) if self.config.rule in ("pcl", "pcl2") else (-FARTHEST, FARTHEST)
        return np.clip(points, *farthest)

    @property
    def votes(self) -> NoisyVotes | None:
        """The accountant, if the rule is made of votes."""
        return NoisyVotes(self.config.target_epsilon, "example") if self.config.rule in ("pcl", "pcl2") else None

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """One figure for every user: clusters do not matter."""
        if self.votes is not None:
            return [self.votes.epsilon(delta)] * len(sizes)
        epsilon = self.config.target_epsilon
        if self.config.rule == "pcl2b":
            bound = counts_epsilon(epsilon / 2.0, self.delta / 2.0, histograms=2, num_rows=1)
        else:
            bound = disjoint([counts_epsilon(epsilon, self.delta, num_rows=1), choice_epsilon(epsilon)])
        upper = bound.epsilon_upper if delta >= bound.delta * (1.0 - 1e-12) else math.inf
        return [replace(bound, epsilon_lower=0.0, epsilon_upper=upper, delta=delta)] * len(sizes)

    def accountant_of(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation
    ) -> Accountant | None:
        return self.votes

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        return {}


@dataclass(frozen=True)
class CellRule:
    """A rule of cells as a predictor of features that were not scaled yet."""

    rule: "PCL | PCL2b | SemiSupervised"
    mechanism: PrivateHistogram

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """(n, 2) at the features (n, d)."""
        return np.asarray(self.rule.predict_proba(self.mechanism.scaled(np.asarray(features))))


class PrivateDensityConfig(OwnMechanism):
    """A curator who holds all rows counts their features in cells with noise, and releases what passes a threshold.

    Algorithms 1 and 3 of *Private Bayes consistency* (Bousquet et al. 2022). Labels are not looked at, and nothing is
    learned from the release: the scenario's learner is left out, and rows have distances from the law instead of
    errors. A whole row is private: cells depend on n and on public constants alone.
    """

    kind: Literal["private_density"] = "private_density"
    described: ClassVar[str] = "a trusted curator who releases noisy counts of the cells that pass a threshold"
    conditions: ClassVar[tuple[str, ...]] = (ONE_DRAW, IDEAL, PUBLIC_CELLS, REPLACED)
    adjacency: ClassVar[Adjacency] = "example"
    releases: ClassVar[ReleaseKind] = "density"
    method: Literal["histogram", "pcde"] = "pcde"
    """"histogram": the noisy counts of the cells that pass (Algorithm 1), of which each is a density if it is divided
    by n and by a cell's volume; "pcde": the density alone, on all of R^d (Algorithm 3)."""
    target_epsilon: float = Field(default=1.0, gt=0, le=100)
    """ε of the whole release at the scenario's δ, above 0 and at most 100: counts get Laplace noise of scale 2/ε."""
    normalise: bool | None = None
    """Of pcde: whether counts are divided by their noisy sum (Remark 4.1), and not by n. Absent: true."""
    side: float | None = Field(default=None, gt=0, le=1e6)
    """Side of the cells, a public constant, above 0; absent: n^(-1/(2d))."""
    low: float = 0.0
    """Public constant: features are moved and scaled so that this becomes 0, where a cell begins."""
    high: float = 1.0
    """Public constant above `low` that becomes 1. What lies outside is counted in cells outside."""

    @model_validator(mode="after")
    def _fits(self) -> "PrivateDensityConfig":
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g}: must be below high = {self.high:g}")
        if self.method == "histogram" and self.normalise is not None:
            raise ValueError("normalise: 'histogram' releases counts as they are; only 'pcde' has this key")
        return self

    def built(self, setup: Setup) -> "PrivateDensity":
        """The mechanism; sizes of clusters and classes do not matter."""
        return PrivateDensity(self, setup.delta, int(setup.sizes.sum()))


@dataclass(frozen=True)
class PrivateDensity(OfAllUsers):
    """One density of all users' features, no messages. delta: of the statement. users: n, which is public."""

    trust = "curator"

    config: PrivateDensityConfig
    delta: float
    users: int

    @property
    def parameters(self) -> dict[str, float]:
        """Scale of the Laplace noise on a count, and the least noisy count that is released."""
        epsilon = self.config.target_epsilon
        return {"noise_scale": 2.0 / epsilon, "threshold": stability_threshold(epsilon, self.delta)}

    def released(self, population: Population, streams: Streams) -> DensityRelease:
        """The density. Whatever the rows, there is one: it is 0 everywhere if no cell passes."""
        from p2p_sim.histograms.densities import PCDE
        from p2p_sim.histograms.partitions import cube_side

        asked, (rows, dimensions) = self.config, population.features.shape
        side = (asked.side or cube_side(rows, dimensions)) * (asked.high - asked.low)
        normalised = asked.method == "pcde" and asked.normalise is not False
        seed = streams.integer_seed("private-density")
        model = PCDE(asked.target_epsilon, self.delta, normalised, side, seed)
        with warnings.catch_warnings(action="ignore"):  # that no cell passed is what the release says
            model.fit(DensityRelease.moved(population.features, asked.low))
        coordinates = model.coordinates_.reshape(-1, dimensions)
        counts = model.histogram_.counts if asked.method == "histogram" else None
        return DensityRelease(coordinates, model.masses_, side, asked.low, counts)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        """One figure for every user, infinite below the δ that the threshold was made for: clusters do not matter."""
        bound = counts_epsilon(self.config.target_epsilon, self.delta, num_rows=self.users)
        upper = bound.epsilon_upper if delta >= self.delta * (1.0 - 1e-12) else math.inf
        lower = bound.epsilon_lower if delta <= self.delta else 0.0
        return [replace(bound, epsilon_lower=lower, epsilon_upper=upper, delta=delta)] * len(sizes)

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        return {}
