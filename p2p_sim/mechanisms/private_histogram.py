"""A curator who holds whole rows releases a rule made of noisy votes or counts in cells (Private Bayes consistency)."""

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
from p2p_sim.mechanisms.outcome import ModelRelease, Outcome, ReleaseKind
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
)
from p2p_sim.privacy.where_bounds_hold import Situation

if TYPE_CHECKING:
    from p2p_sim.histograms.classifiers import PCL
    from p2p_sim.histograms.counts import PCL2b
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
        from p2p_sim.histograms.concepts import HalfSpaces
        from p2p_sim.histograms.semi_supervised import SemiSupervised

        if dimensions > 2:
            raise InputError(f"mechanism.rule = 'semi_supervised': needs one or two features, not {dimensions}")
        concepts = HalfSpaces(1 if dimensions == 1 else DIRECTIONS)
        return SemiSupervised(concepts, self.config.target_epsilon, self.delta, random_state=seed)

    def rule(self, seed: int) -> "PCL | PCL2b":
        """The rule of cells before it has seen a row; each parameter is a public constant or follows from n and d."""
        from p2p_sim.histograms.classifiers import PCL, PCL2
        from p2p_sim.histograms.counts import PCL2b

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
