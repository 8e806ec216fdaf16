"""A curator who holds whole rows releases noisy votes, counts or a density in cells (*Private Bayes consistency*)."""

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import InputError, Streams
from p2p_sim.mechanisms.deployment import Setup, Trust
from p2p_sim.mechanisms.mechanism import NOISE_SCALE, THRESHOLD, Column, Mechanism
from p2p_sim.mechanisms.outcome import DensityRelease, Floats, ModelRelease, ReleaseKind
from p2p_sim.privacy import Accountant, Adjacency
from p2p_sim.privacy.rivals import (
    IDEAL,
    ONE_DRAW,
    PUBLIC_CELLS,
    REPLACED,
    NoisyVotes,
    StatedCounts,
    choice_epsilon,
    counts_epsilon,
    disjoint,
    stability_threshold,
)

if TYPE_CHECKING:
    from p2p_sim.histograms import PCL, PCL2b, SemiSupervised


FARTHEST = 1e150
"""Scaled features are clipped to this absolute value, so that their squares are finite."""
DIRECTIONS = 64
"""Number of directions of half-planes for two features."""


class PrivateHistogramConfig(Mechanism):
    """A curator holds all rows, counts the rows in cells, adds noise, and releases a classification rule.

    There are four rules, from *Private Bayes consistency* (Bousquet et al. 2022). With enough rows, each rule comes
    arbitrarily close to the best possible rule ("semi_supervised": to the best threshold or half-plane), for every law
    of the rows ("pcl", "pcl2": within `low` to `high`). A whole row is private. Cells depend only on n, the number of
    rows, and on public constants.
    """

    kind: Literal["private_histogram"] = "private_histogram"
    trust: ClassVar[Trust] = "curator"
    columns: ClassVar[tuple[Column, ...]] = (NOISE_SCALE,)
    described: ClassVar[str] = "a trusted curator who releases a rule of noisy votes in cells"
    conditions: ClassVar[tuple[str, ...]] = (ONE_DRAW, IDEAL, PUBLIC_CELLS, REPLACED)
    adjacency: ClassVar[Adjacency] = "example"
    rule: Literal["pcl", "pcl2", "pcl2b", "semi_supervised"] = "pcl"
    """"pcl": noisy votes in cubes of [0, 1]^d (Algorithm 2); "pcl2": in the cells of a packing (Algorithm 4); "pcl2b":
    two noisy counts, on all of R^d (Algorithm 5); "semi_supervised": a few labels choose among the thresholds or
    half-planes that a private density of the other rows distinguishes (Theorem 4.11)."""
    target_epsilon: float = Field(default=1.0, gt=0, le=100)
    """ε of the whole release at the scenario's δ, above 0 and at most 100. Votes are (ε, 0)-private. In pcl2b each of
    the two counts gets half of ε and of δ, so that the rule is the paper's at ε/2."""
    side: float | None = Field(default=None, gt=0, le=1e6)
    """Side of the cells, a public constant, above 0; absent: n^(-1/(2d)) for pcl, n^(-1/(4d)) for pcl2 and pcl2b."""
    packing: Literal["corner", "middle"] | None = None
    """For pcl2 and pcl2b: where the first centre of the packing lies. "corner": at 0, so that the outermost cells are
    cut in half; "middle": half a side from 0. The two packings give different rules. Absent: "corner"."""
    low: float = 0.0
    """Public constant: features are moved and scaled so that this becomes 0."""
    high: float = 1.0
    """Public constant above `low` that becomes 1. In pcl and pcl2, features outside are moved to the boundary."""
    labelled: int | None = Field(default=None, ge=1)
    """For semi_supervised: number of users, drawn at random, who are asked for their labels; the others give features
    alone. Absent: 400, or half of the users if there are fewer than 800."""
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

    def calibrated(self, setup: Setup) -> Self:
        """This configuration with `labelled` set: the number of users whose labels are used. The default is 400, or
        half of the users if there are fewer than 800. Only the rule "semi_supervised" uses this number.

        Args:
            setup: facts of the scenario; only the number of users is used.

        Raises:
            InputError: the rule is "semi_supervised", and fewer than two users remain without a label.
        """
        users = int(setup.sizes.sum())
        labelled = self.labelled or min(400, users // 2)
        if self.rule == "semi_supervised" and labelled > users - 2:
            raise InputError(
                f"mechanism.labelled = {labelled}: must leave 2 of {users} users, whose features teach the density"
            )
        return self.model_copy(update={"labelled": labelled})

    @property
    def asked_users(self) -> int:
        """The number `labelled` of users asked for labels by the rule "semi_supervised". Others give only features."""
        return cast(int, self.labelled)  # `calibrated` has set it

    @property
    def noise_scale(self) -> float:
        """Scale of the Laplace noise: 1/ε for a vote, and 2/ε' for a count that gets the part ε' of ε."""
        return {"pcl2b": 4.0, "semi_supervised": 2.0}.get(self.rule, 1.0) / self.target_epsilon

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> ModelRelease:
        """Returns the private classification rule learned from all rows, with the number of its cells. No error depends
        on the rows: an error would reveal something about a row.

        Args:
            labels: (n,) true labels, 0 or 1, of all users. features: (n, d), private. clusters: not used. streams:
            random numbers of the run.
        """
        points, seed = self.scaled(features), streams.integer_seed("private-histogram")
        with warnings.catch_warnings(action="ignore"):  # warnings may contain private counts
            if self.rule == "semi_supervised":
                few, others = self.samples(len(points), streams)
                learner = self.semi_supervised(points.shape[1], seed)
                learner.fit_disjoint(points[few], labels[few], points[others])
                return ModelRelease(CellRule(learner, self), len(learner.density_.masses_))
            rule = self.cells(seed).fit(points, labels)
            return ModelRelease(CellRule(rule, self), rule.released_cells)

    def samples(self, users: int, streams: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of the `asked_users` users who are asked for labels, and of all other users, in random order. The
        choice does not depend on rows.
        """
        order = streams.generator("private-histogram-labelled").permutation(users)
        return order[: self.asked_users], order[self.asked_users :]

    def semi_supervised(self, dimensions: int, seed: int) -> "SemiSupervised":
        """An unfitted learner of a threshold (one feature) or half-plane (two features). `seed` decides its noise."""
        from p2p_sim.histograms import HalfSpaces, SemiSupervised

        if dimensions > 2:
            raise InputError(f"mechanism.rule = 'semi_supervised': needs one or two features, not {dimensions}")
        return SemiSupervised(
            HalfSpaces(1 if dimensions == 1 else DIRECTIONS), self.target_epsilon, self.setup.delta, random_state=seed
        )

    def cells(self, seed: int) -> "PCL | PCL2b":
        """An unfitted classifier that predicts from noisy votes or counts in cells of feature space. The cells are
        cubes of [0, 1]^d for the rule "pcl", and cells of a packing for "pcl2". For "pcl2b" they cover all of R^d. The
        cells depend only on public constants and on the numbers of rows and features.

        Args:
            seed: decides the classifier's noise.
        """
        from p2p_sim.histograms import PCL, PCL2, PCL2b

        epsilon, centred = self.target_epsilon, self.packing == "middle"
        if self.rule == "pcl":
            return PCL(epsilon, self.side, seed)
        if self.rule == "pcl2":
            return PCL2(epsilon, self.side, seed, centred=centred)
        return PCL2b(epsilon / 2.0, self.setup.delta / 2.0, self.side, seed, centred=centred)

    def scaled(self, features: NDArray[np.floating]) -> Floats:
        """The features (n, d), moved and scaled so that the public constants `low` and `high` become 0 and 1. The rules
        "pcl" and "pcl2" move values outside [0, 1] to the boundary. Other rules clip only values beyond ±1e150.
        """
        with np.errstate(over="ignore"):  # infinity is clipped: an error would reveal something
            points = (features.astype(np.float64) - self.low) / (self.high - self.low)
        farthest = (0.0, 1.0) if self.rule in ("pcl", "pcl2") else (-FARTHEST, FARTHEST)
        return np.clip(points, *farthest)

    def accountant(self, setup: Setup, size: int) -> Accountant:
        """The learner's accountant for one user's row (features and label). The votes of "pcl" and "pcl2" are ε-private
        with δ = 0. For the other rules only ε at the scenario's δ is stated.

        Args:
            setup: facts of the scenario; only δ is used. size: not used; the bound is the same for every cluster.
        """
        epsilon, delta = self.target_epsilon, setup.delta
        if self.rule in ("pcl", "pcl2"):
            return NoisyVotes(epsilon, "example")
        if self.rule == "pcl2b":
            bound = counts_epsilon(epsilon / 2.0, delta / 2.0, histograms=2, num_rows=1)
        else:
            bound = disjoint([counts_epsilon(epsilon, delta, num_rows=1), choice_epsilon(epsilon)])
        return StatedCounts(replace(bound, epsilon_lower=0.0))


@dataclass(frozen=True)
class CellRule:
    """A predictor that scales features and applies a fitted rule of cells.

    rule: the fitted rule. mechanism: scales the features.
    """

    rule: "PCL | PCL2b | SemiSupervised"
    mechanism: PrivateHistogramConfig

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Class probabilities (n, 2) that the rule predicts for the unscaled features (n, d)."""
        return np.asarray(self.rule.predict_proba(self.mechanism.scaled(np.asarray(features))))


class PrivateDensityConfig(Mechanism):
    """A curator holds all rows, counts the rows in cells with noise, and releases the cells that reach a threshold.

    These are Algorithms 1 and 3 of *Private Bayes consistency* (Bousquet et al. 2022). Labels are not used, and the
    scenario has no learner. The results hold distances from the true distribution instead of error rates. A whole row
    is private. Cells depend only on n, the number of rows, and on public constants.
    """

    kind: Literal["private_density"] = "private_density"
    trust: ClassVar[Trust] = "curator"
    columns: ClassVar[tuple[Column, ...]] = (NOISE_SCALE, THRESHOLD)
    described: ClassVar[str] = "a trusted curator who releases noisy counts of the cells that pass a threshold"
    conditions: ClassVar[tuple[str, ...]] = (ONE_DRAW, IDEAL, PUBLIC_CELLS, REPLACED)
    adjacency: ClassVar[Adjacency] = "example"
    releases: ClassVar[ReleaseKind] = "density"
    method: Literal["histogram", "pcde"] = "pcde"
    """"histogram": the noisy counts of the cells that pass (Algorithm 1); divided by n and by a cell's volume, they are
    a density; "pcde": the density alone, on all of R^d (Algorithm 3)."""
    target_epsilon: float = Field(default=1.0, gt=0, le=100)
    """ε of the whole release at the scenario's δ, above 0 and at most 100: counts get Laplace noise of scale 2/ε."""
    normalise: bool | None = None
    """For pcde: whether counts are divided by their noisy sum (Remark 4.1), and not by n. Absent: true."""
    side: float | None = Field(default=None, gt=0, le=1e6)
    """Side of the cells, a public constant, above 0; absent: n^(-1/(2d))."""
    low: float = 0.0
    """Public constant: features are moved and scaled so that this becomes 0, where a cell begins."""
    high: float = 1.0
    """Public constant above `low` that becomes 1. Features outside are counted in cells outside."""

    @model_validator(mode="after")
    def _fits(self) -> "PrivateDensityConfig":
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g}: must be below high = {self.high:g}")
        if self.method == "histogram" and self.normalise is not None:
            raise ValueError("normalise: 'histogram' releases counts as they are; only 'pcde' has this key")
        return self

    @property
    def noise_scale(self) -> float:
        """Scale 2/ε of the Laplace noise on the count of a cell."""
        return 2.0 / self.target_epsilon

    @property
    def threshold(self) -> float:
        """The smallest noisy count with which a cell is released: (2/ε) ln(2/δ) + 1, at the scenario's δ."""
        return stability_threshold(self.target_epsilon, self.setup.delta)

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> DensityRelease:
        """Returns a density of the features, made from noisy counts. Labels are not used. If no count passes the
        threshold, the density is 0 everywhere.
        """
        from p2p_sim.histograms import PCDE, cube_side

        rows, dimensions = features.shape
        side = (self.side or cube_side(rows, dimensions)) * (self.high - self.low)
        normalised = self.method == "pcde" and self.normalise is not False
        model = PCDE(self.target_epsilon, self.setup.delta, normalised, side, streams.integer_seed("private-density"))
        with warnings.catch_warnings(action="ignore"):  # the release itself shows that no cell passed
            model.fit(DensityRelease.moved(features, self.low))
        counts = model.histogram_.counts if self.method == "histogram" else None
        return DensityRelease(model.coordinates_.reshape(-1, dimensions), model.masses_, side, self.low, counts)

    def accountant(self, setup: Setup, size: int) -> StatedCounts:
        """The learner's accountant for one user's whole row. It states the configuration's ε at the scenario's δ. The
        same ε holds at every larger δ. At a smaller δ the stated ε is infinite.

        Args:
            setup: facts of the scenario; δ and the number of users are used. size: not used; the bound is the same for
            every cluster.
        """
        return StatedCounts(counts_epsilon(self.target_epsilon, setup.delta, num_rows=int(setup.sizes.sum())))
