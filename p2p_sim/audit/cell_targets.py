"""Targets for audits of mechanisms that release noisy votes or noisy counts of cells (boxes of feature space).

A target is a user about whom the attacker guesses: a coin chooses between two whole rows for her. A row is written
(features, label). The attacker invents all rows, and the scenario's own mechanism releases its result. A target's score
is the logarithm of the likelihood ratio of the release given her two rows. This ratio assumes the noise of the claimed
ε.

*Votes.* A cell's vote is half the number of rows with label 1 minus half the number of rows with label 0. Some targets
are alone in a cell, with the row (x, 0) or (x, 1). The coin of such a target moves the cell's vote by 1. Each other
target has two cells that are empty without her. Her row is (x, 0) in the first cell or (x', 1) in the second. So her
coin moves both votes by 1/2. A vote of exactly 0 shows an empty cell.

*Counts.* A target's row lies in one of two cells. If both cells are full, their noisy counts are compared. If both
cells are empty except for her row, any released count reveals her. Such a count is released with a probability of at
most δ/4. A released density is scaled so that a cell of known rows gets its true count. All labels are 1. So both
histograms of the rule PCL2b count the target: the histogram of all rows, and the histogram of rows with label 1.

*A choice.* A mechanism may choose a classifier from a list by its errors on labelled users. One of these users is a
target. Her label, 0 or 1, moves the number of errors of each classifier by one, up or down.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import Floats, RepeatedTargets, Scope, ScoredTargets
from p2p_sim.base import Streams
from p2p_sim.histograms import CellTable, Cubes, PCL2b, SemiSupervised
from p2p_sim.mechanisms import CellRule, DensityRelease, ModelRelease, PrivateDensityConfig, PrivateHistogramConfig
from p2p_sim.privacy.rivals import choice_delta, stability_threshold
from p2p_sim.privacy.rivals.histograms import laplace_delta

CellCurator = PrivateHistogramConfig | PrivateDensityConfig
Ints = NDArray[np.int64]
Curve = Callable[[float, float], float]
"""A target's δ(ε, rise): her δ at ε if the noise is divided by `rise`."""
CELLS = 20_000
"""The largest number of cells whose votes are attacked."""
ROWS = 50_000
"""Largest number of rows in all full cells of a histogram together, besides the targets' rows. The number is exceeded
if the fewest targets (`_pairs`) need more rows."""
CLEAR = 6.0
"""By how much a full cell's count is above the threshold, in units of the noise's scale."""
REFERENCE = 20
"""Number of rows in the cell of known rows, divided by the number of known rows in a full cell."""
REVEALED = 700.0
"""Absolute score of a target whose row the release reveals."""


class TargetCurve(NamedTuple):
    """A privacy curve, `delta`, and the number of targets of a run that have this curve."""

    targets: int
    delta: Curve


class Grid(NamedTuple):
    """Where cell 0 begins along each axis, and the length of a cell's side, in units of the unscaled features."""

    origin: float
    side: float


@dataclass(frozen=True)
class CellTargets(RepeatedTargets):
    """Targets whose coins choose between two whole rows, with different cells or labels.

    claimed: the mechanism whose noise the score assumes. mechanism: what is attacked. dimensions: number of features of
    a row.
    """

    claimed: CellCurator
    mechanism: CellCurator
    dimensions: int

    exact = (True,)
    scope = Scope(
        ("the likelihood ratio of what was released",),
        looks_for="a count that shows a lone row, a vote that shows an empty cell",
        overlooks="rows that are neither alone in a cell nor in a full one; several cells' noise together",
        target="row",
    )

    @property
    @abstractmethod
    def curves(self) -> tuple[TargetCurve, ...]:
        """The privacy curves of the targets of a run, each with its number of targets. A curve is a function δ(ε,
        rise): a target's δ at ε if the noise is divided by `rise`. A leak by too little noise has a `rise` above 1.
        """


def release_rows(
    mechanism: CellCurator, features: Floats, labels: NDArray[np.bool_], streams: Streams
) -> DensityRelease | CellRule:
    """What a curator releases of n given rows, taken as one cluster. If the mechanism estimates a density, the result
    is a density that is constant on cells (cubes) of feature space. Otherwise the result is a fitted classification
    rule, which applies the mechanism's scaling of features.

    Args:
        mechanism: the curator. features: (n, d). labels: (n,), whether each row has label 1; a density ignores labels.
        streams: draw the noise.
    """
    release = mechanism.release(labels.astype(np.uint8), features, np.array([0, len(labels)]), streams)
    return cast(CellRule, release.predictor) if isinstance(release, ModelRelease) else release


def moved_cells(epsilon: float, cells: int) -> Curve:
    """The privacy curve δ(ε, rise) of a target whose coin changes `cells` cells, if the noise is divided by `rise`. The
    undivided noise of all these cells together has the pure ε `epsilon`.
    """

    def delta(at: float, rise: float) -> float:
        moved = rise * epsilon
        if cells <= 2:
            return laplace_delta(moved, at, cells)
        # For more cells there is no formula. ε alone allows a δ of (e^moved - e^at)/(1 + e^moved).
        return -math.expm1(min(0.0, at - moved)) / (1.0 + math.exp(-moved))

    return delta


@dataclass(frozen=True)
class CellVoteTargets(CellTargets):
    """Targets among noisy votes, two in each group of three cells. The coin of one target is her label. The coin of the
    other target decides on her cell and her label.

    rows: n, the number of rows, as in the scenario.
    """

    claimed: PrivateHistogramConfig
    rows: int

    @property
    def curves(self) -> tuple[TargetCurve, ...]:
        """The privacy curves δ(ε, rise) of two kinds of targets, each with its number of targets. The coin of the first
        kind is a label, and changes the vote of one cell. The coin of the second kind also decides between two cells,
        and changes the votes of both.
        """
        epsilon, (before, after) = self.claimed.target_epsilon, self._cells
        pairs = int(np.sum(before != after))
        alone = len(before) - pairs
        return TargetCurve(alone, moved_cells(epsilon, 1)), TargetCurve(pairs, moved_cells(epsilon, 2))

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        before, after = self._cells
        coins = streams.generator("audit-coin").random(len(before)) < 0.5
        # All rows except the targets' are in the last cell, with labels 0 and 1 in turn.
        cell = np.full(self.rows, len(self._points) - 1)
        labels = np.arange(self.rows) % 2 == 1
        cell[: len(before)], labels[: len(before)] = np.where(coins, after, before), coins
        rule = cast(CellRule, release_rows(self.mechanism, self._points[cell], labels, streams))
        votes = (rule.probabilities(self._points)[:, 1] - 0.5) * float(self._fitted.rule.usual_count_)
        votes[-1] -= np.sum(labels[len(before) :] - 0.5)
        # The row (x, 0) adds -1/2 to the vote of the first cell; the row (x', 1) adds 1/2 to the vote of the second.
        first, second, same = votes[before], votes[after], before == after
        moved = np.abs(first + 0.5) - np.where(same, 0.0, np.abs(first)) - np.abs(second - 0.5)
        scores = self.claimed.target_epsilon * (moved + np.where(same, 0.0, np.abs(second)))
        # A vote of exactly 0 shows which cell is empty.
        empty = np.where(same, 0, (first == 0.0).astype(int) - (second == 0.0))
        return ScoredTargets(coins, np.where(empty, REVEALED * empty, scores)[None, :], self.rows)

    @cached_property
    def _fitted(self) -> CellRule:
        """The rule that the claimed mechanism learns from n equal rows, with fixed random numbers. Each row has label
        0, and all features at the lower end of their public range. The attack uses only what does not depend on the
        data: the rule's public cells, and the public number that turns noisy votes into probabilities.
        """
        features = np.full((self.rows, self.dimensions), self.claimed.low)
        return cast(CellRule, release_rows(self.claimed, features, np.zeros(self.rows, dtype=np.bool_), Streams(0, 0)))

    @cached_property
    def _points(self) -> Floats:
        """The middles (m, d) of the m attacked cells, in unscaled features.

        Cells are numbered along the first axis first, then along the second, and so on. The first m cells are attacked:
        20,000, or n, or all cells, whichever is fewest.
        """
        cubes = cast(Cubes, self._fitted.rule.partition_)
        edges, claimed = cubes.edges(), self.claimed
        middles = claimed.low + (claimed.high - claimed.low) * 0.5 * (edges[1:] + edges[:-1])
        most, axes, cells = min(CELLS, self.rows), 0, 1
        while axes < self.dimensions and cells < most and cubes.per_axis > 1:
            axes, cells = axes + 1, cells * cubes.per_axis
        digits = np.arange(min(cells, most))[:, None] // cubes.per_axis ** np.arange(axes) % cubes.per_axis
        points = np.full((len(digits), self.dimensions), middles[0])
        points[:, :axes] = middles[digits]
        return points

    @cached_property
    def _cells(self) -> Ints:
        """The cells of the t targets, (2, t), as indices into `_points`: first for coins 0, then for coins 1.

        Each group of three cells has two targets. One target is always in the first cell, and her coin is her label.
        The other target is in the second cell with label 0, or in the third cell with label 1. If there are fewer than
        three cells, each cell has one target; her coin is her label.
        """
        cells = len(self._points)
        if cells < 3:
            return np.tile(np.arange(cells), (2, 1))
        at = 3 * np.arange(cells // 3)
        return np.stack([np.concatenate([at, at + 1]), np.concatenate([at, at + 2])])


@dataclass(frozen=True)
class CountTargets(CellTargets):
    """Targets among noisy counts, each in one of two full cells, or alone in one of two empty cells. If the mechanism
    uses labels to choose a rule, there is one more target, whose label is a coin.
    """

    @property
    def curves(self) -> tuple[TargetCurve, ...]:
        """The privacy curves of a release's targets, each with its number of targets.

        The first curve is for targets in full cells, whom noise alone protects. The second curve is for targets alone
        in a cell. At every ε this curve is δ/4. With at most this probability, such a cell's noisy count reaches the
        threshold and is released. A third curve exists if the mechanism uses labels to choose a classifier by the
        exponential mechanism. This curve is for the one target whose label is a coin.
        """
        epsilon = self.claimed.target_epsilon
        full = moved_cells(epsilon, 2 * self._histograms)
        alone = TargetCurve(self._alone, lambda at, rise: 0.25 * self.claimed.setup.delta)
        choice = TargetCurve(1, lambda at, rise: choice_delta(rise * epsilon, at))
        return TargetCurve(self._pairs, full), alone, *([choice] if self._labelled else [])

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        pairs, of_counts = self._pairs, self._pairs + self._alone
        coins = streams.generator("audit-coin").random(of_counts + (self._labelled > 0)) < 0.5
        # Cell 0 has the known rows. Then come the two cells of each target; targets in full cells come first.
        targets = 1 + 2 * np.arange(of_counts) + coins[:of_counts]
        cell, labels = np.concatenate([self._others, targets]), np.ones(len(self._others) + of_counts, dtype=np.bool_)
        if self._labelled:
            # Rows whose labels are used lie outside all cells; only the first, the target's row, is in cell 0.
            few, rest = cast(PrivateHistogramConfig, self.claimed).samples(self._rows, streams)
            others, cell, labels = cell, np.full(self._rows, -1), np.zeros(self._rows, dtype=np.bool_)
            cell[rest], cell[few[0]], labels[few[0]] = others, 0, coins[-1]
        release = release_rows(self.mechanism, self._points(cell), labels, streams)
        scores = np.zeros(of_counts)
        for counts in self._counts(release, self._points(np.arange(2 * of_counts + 1))):
            # ln Pr[counts | row in second cell] - ln Pr[counts | row in first cell]; full cells have Laplace noise.
            first, second = counts[1::2], counts[2::2]
            near = [np.where(c > 0.0, np.abs(c - self._crowd) - np.abs(c - self._crowd - 1.0), 0.0)
                    for c in (first, second)]  # fmt: skip
            noise = 0.5 * self.claimed.target_epsilon / self._histograms
            scores[:pairs] += noise * (near[1] - near[0])[:pairs]
            scores[pairs:] += REVEALED * ((second > 0.0).astype(int) - (first > 0.0))[pairs:]
        if self._labelled:
            scores = np.append(scores, self._choice(release))
        return ScoredTargets(coins, scores[None, :], self._rows)

    def _counts(self, release: DensityRelease | CellRule, points: Floats) -> list[Floats]:
        """The noisy counts at m points: one array (m,) for each released histogram, 0 where no count is released.

        A rule of type PCL2b has two histograms, of all rows and of rows with label 1. Any other release gives a
        density, which has one histogram. The density is scaled so that cell 0 gets its number of rows, which the
        attacker knows. If the density of cell 0 is 0, all entries are 0. points: (m, d) unscaled features, the first in
        cell 0.
        """
        if isinstance(release, CellRule) and isinstance(release.rule, PCL2b):
            cells = release.rule.partition_.cells(release.mechanism.scaled(points))
            return [release.rule.all_.at(cells), release.rule.ones_.at(cells)]
        if isinstance(release, CellRule):
            density = cast(SemiSupervised, release.rule).density_
            masses = np.exp(density.score_samples(release.mechanism.scaled(points)))
        else:
            cells = np.floor((points - release.origin) / release.side).astype(np.int64)
            masses = np.zeros(len(cells))
            if len(release.masses):
                masses = CellTable.of(release.coordinates).look_up(release.masses, cells)
        return [masses / masses[0] * REFERENCE * self._crowd if masses[0] > 0.0 else np.zeros(len(masses))]

    def _choice(self, release: DensityRelease | CellRule) -> float:
        """The score of the target whose label is a coin: ln Pr[c | label 1] - ln Pr[c | label 0].

        The released classifier c is chosen from a finite list by the exponential mechanism. The probability is
        proportional to exp(-ε errors / 2), with the errors on the labelled users. The attacker knows all rows except
        the target's label, and assumes the claimed ε.
        """
        chosen = cast(CellRule, release)
        rule = cast(SemiSupervised, chosen.rule)
        points = chosen.mechanism.scaled(self._points(np.append(0, np.full(self._labelled - 1, -1))))
        labels, logs = np.zeros(self._labelled, dtype=np.uint8), list[Floats]()
        for label in (0, 1):
            labels[0] = label
            weights = -0.5 * self.claimed.target_epsilon * rule.net_.errors(points, labels)
            logs.append(weights - np.logaddexp.reduce(weights))
        return float((logs[1] - logs[0])[rule.chosen_])

    @property
    def _histograms(self) -> int:
        return 2 if isinstance(self.claimed, PrivateHistogramConfig) and self.claimed.rule == "pcl2b" else 1

    @property
    def _labelled(self) -> int:
        """How many users are asked for their labels. By these labels the rule "semi_supervised" chooses one classifier
        from a finite list. The number is 0 for all other mechanisms.
        """
        if isinstance(self.claimed, PrivateHistogramConfig) and self.claimed.rule == "semi_supervised":
            return self.claimed.asked_users
        return 0

    @cached_property
    def _crowd(self) -> int:
        """How many rows a full cell has besides the target's row."""
        epsilon = self.claimed.target_epsilon / self._histograms
        return math.ceil(
            stability_threshold(epsilon, self.claimed.setup.delta / self._histograms) + CLEAR * 2.0 / epsilon
        )

    @property
    def _pairs(self) -> int:
        """How many targets of one release are in full cells: only 2 if the choice of a classifier is attacked."""
        return 2 if self._labelled else max(1, min(100, ROWS // (2 * self._crowd)))

    @property
    def _alone(self) -> int:
        """How many targets of one release are alone in a cell: half as many as targets in full cells, and at least 1.
        So targets in full cells determine the mean δ of all targets, which the audit tests.
        """
        return max(1, self._pairs // 2)

    @property
    def _rows(self) -> int:
        """How many rows one release has."""
        return len(self._others) + self._pairs + self._alone + self._labelled

    @cached_property
    def _others(self) -> Ints:
        """For each row that belongs to no target, the number of its cell. Cell 0 has known rows only. Then come the
        full cells, two for each target who hides in a full cell.
        """
        full = np.repeat(np.arange(1, 2 * self._pairs + 1), self._crowd)
        return np.concatenate([np.zeros(REFERENCE * self._crowd, dtype=np.int64), full])

    @cached_property
    def _grid(self) -> Grid:
        """Where the claimed mechanism's cells lie, in units of the unscaled features.

        The cells depend on the number of rows, but not on the rows. So they are read from a release of equal rows,
        whose features are all at the lower end of the public range.
        """
        rows, low, factor = self._rows, self.claimed.low, self.claimed.high - self.claimed.low
        features = np.full((rows, self.dimensions), low)
        release = release_rows(self.claimed, features, np.ones(rows, dtype=np.bool_), Streams(0, 0))
        if isinstance(release, DensityRelease):
            return Grid(release.origin, release.side)
        cubes = cast(Cubes, release.rule.density_.cubes_ if self._labelled else release.rule.partition_)
        return Grid(low + factor * cubes.offset, factor * cubes.side)

    def _points(self, cells: Ints) -> Floats:
        """The middles (m, d) of m cells in a line, in unscaled features. Cell 0 is at the beginning of all axes. Cell i
        is i sides further along the first axis.

        cells: (m,) the numbers i, also negative ones.
        """
        origin, side = self._grid
        points = np.full((len(cells), self.dimensions), origin + 0.5 * side)
        points[:, 0] += side * cells
        return points
