"""An audit in one run of the histograms: one target in every cell, or in every pair of cells.

Cells have independent noise, so that targets are as independent as in clusters. Votes: a coin decides the target's
whole row, (x, 0) or (x, 1), which moves a vote the most, and the score is the exact logarithm of the likelihood ratio
of her cell's noisy vote. Counts: a coin decides in which of two cells the target is, and the score is that of both
noisy counts, of all examples and, for PCL2b, of those with label 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.attack.one_run_plan import OneRunPlan, Seen
from p2p_sim.analysis.privacy.attack.power import ERROR
from p2p_sim.analysis.privacy.others.histograms import (
    counts_epsilon,
    laplace_delta,
    stability_threshold,
    vote_epsilon,
)
from p2p_sim.analysis.privacy.statement.bound import Adjacency, PrivacyBound
from p2p_sim.attacks.one_run import TYPE_ONE, Asked, OneRunAudit, Targets, audited
from p2p_sim.base.errors import InputError
from p2p_sim.base.threads import one_thread
from p2p_sim.histograms.classifiers import PCL
from p2p_sim.histograms.counts import StabilityHistogram
from p2p_sim.mechanisms.private_density import PrivateDensity
from p2p_sim.mechanisms.private_histogram import PrivateHistogram
from p2p_sim.replicate.case import Case
from p2p_sim.replicate.run import prepare

Floats = NDArray[np.float64]
SHARES = (0.0, 0.25, 0.5, 0.75, 0.95)
"""Parts of ε at which δ is tested."""
DELTA = 1e-5
"""δ of the test of ε for votes, whose statement is pure."""
DRAWS = 50_000
"""Of the noise in more than two cells, for the power."""
CELLS = 20_000
"""Most targets of one histogram."""
CROWD = 2
"""Examples of a cell, in units of the threshold: nearly all cells are kept, as no statement depends on it."""


def audit_votes(
    classifier: PCL,
    trials: int,
    seed: int = 1,
    error: float = ERROR,
    claimed: float | None = None,
    adjacency: Adjacency = "label",
) -> OneRunAudit:
    """Attack the noisy votes of a histogram rule.

    Args:
        classifier: PCL or LabelPrivateHistogram; side and random_state are replaced. trials: targets, at least.
        seed: of coins and noise. error: probability that a sound rule fails. claimed: ε; None: the classifier's.
        adjacency: of the statement; with "example" what the target may replace is her whole row.

    Raises:
        InputError: ε is out of range.
    """
    epsilon = classifier.epsilon if claimed is None else claimed
    law = CellLaw(vote_epsilon(epsilon, adjacency), 1, 0.0)
    return _audit(
        type(classifier).__name__, VoteTargets(type(classifier), classifier.epsilon, epsilon), law, trials, seed, error
    )


def audit_counts(
    epsilon: float,
    delta: float,
    trials: int,
    seed: int = 1,
    error: float = ERROR,
    claimed: float | None = None,
    histograms: int = 1,
) -> OneRunAudit:
    """Attack the noisy counts of a stability-based histogram, or of two of the same examples.

    Args:
        epsilon, delta: parameters of one. trials, seed, error: as in `audit_votes`. claimed: ε of one that is claimed;
            None: ε. histograms: 1, or 2, of which the second counts the examples with label 1, all of them here.
    """
    one = epsilon if claimed is None else claimed
    law = CellLaw(counts_epsilon(one, delta, histograms), 2 * histograms, histograms * delta / 4.0)
    name = "StabilityHistogram" if histograms == 1 else "PCL2b"
    return _audit(name, CountTargets(epsilon, delta, one, histograms), law, trials, seed, error)


def audit_rule(case: Case, trials: int, error: float = ERROR, mechanism: PrivateHistogram | None = None) -> OneRunAudit:
    """Attack the votes or counts from which the curator of a scenario makes a rule.

    Of a semi-supervised rule the density is attacked; what the labelled choose has half of its ε at most by one label.

    Args:
        case: the scenario; its rows do not matter, since no statement depends on them. trials: targets, at least.
        error: probability that a sound rule fails. mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism is no private histogram.
    """
    claimed = prepare(case).mechanism
    if not isinstance(claimed, PrivateHistogram):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: counts nothing in cells")
    kind, seed, epsilon = claimed.config.rule, case.scenario.seed, claimed.config.target_epsilon
    attacked = (mechanism or claimed).config.target_epsilon
    if kind in ("pcl", "pcl2"):
        return audit_votes(PCL(attacked), trials, seed, error, epsilon, "example")
    if kind == "semi_supervised":
        return audit_counts(attacked, claimed.delta, trials, seed, error, epsilon)
    return audit_counts(attacked / 2.0, claimed.delta / 2.0, trials, seed, error, epsilon / 2.0, histograms=2)


def audit_density(case: Case, trials: int, error: float = ERROR, mechanism: PrivateDensity | None = None
                  ) -> OneRunAudit:  # fmt: skip
    """Attack the counts from which the curator of a scenario makes a density.

    Args:
        case: the scenario; its rows do not matter, since no statement depends on them. trials: targets, at least.
        error: probability that a sound density fails. mechanism: what is attacked, if it is not what the scenario
            claims.

    Raises:
        InputError: the mechanism is no private density.
    """
    claimed = prepare(case).mechanism
    if not isinstance(claimed, PrivateDensity):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: releases no density")
    attacked, epsilon = (mechanism or claimed).config.target_epsilon, claimed.config.target_epsilon
    return audit_counts(attacked, claimed.delta, trials, case.scenario.seed, error, epsilon)


def _audit(name: str, targets: Targets, law: "CellLaw", trials: int, seed: int, error: float) -> OneRunAudit:
    asked = Asked(name, "histogram", seed, law.stated.delta or DELTA)
    with one_thread():
        return audited(asked, targets, law, trials, error, {"target_epsilon": law.stated.epsilon_upper})


@dataclass(frozen=True)
class VoteTargets:
    """One user in each cell of the unit interval; her label is a coin. claimed: ε that the score assumes."""

    kind: type[PCL]
    epsilon: float
    claimed: float
    exact: tuple[bool, ...] = (True,)

    def seen(self, trials: int, seed: int, epsilons: Sequence[float]) -> tuple[Seen, int, Floats | None]:
        """As `one_run.Targets` has it."""
        labels, scores = [], []
        for run in range(-(-trials // CELLS)):
            cells = min(CELLS, trials)
            coins = np.random.default_rng([seed, run]).random(cells) < 0.5
            points = (np.arange(cells)[:, None] + 0.5) / cells
            rule = self.kind(epsilon=self.epsilon, side=1.0 / cells, random_state=seed + run)
            votes = rule.fit(points, coins.astype(np.uint8)).decision_function(points)
            labels.append(coins)
            scores.append(self.claimed * (np.abs(votes + 0.5) - np.abs(votes - 0.5)))
        return Seen(np.concatenate(labels), np.concatenate(scores)[None, :]), sum(map(len, labels)), None


@dataclass(frozen=True)
class CountTargets:
    """Pairs of cells, with a target in one of them. claimed: ε of one histogram that the score assumes."""

    epsilon: float
    delta: float
    claimed: float
    histograms: int = 1
    exact: tuple[bool, ...] = (True,)

    def seen(self, trials: int, seed: int, epsilons: Sequence[float]) -> tuple[Seen, int, Floats | None]:
        """As `one_run.Targets` has it."""
        labels, scores, users = [], [], 0
        crowd = math.ceil(CROWD * stability_threshold(self.epsilon, self.delta))
        most = max(1, CELLS // crowd)
        for run in range(-(-trials // most)):
            pairs = min(most, trials)
            coins = np.random.default_rng([seed, run]).random(pairs) < 0.5
            own = 2 * np.arange(pairs) + coins
            cells = np.concatenate([np.repeat(np.arange(2 * pairs), crowd), own])[:, None]
            score = np.zeros(pairs)
            for which in range(self.histograms):
                histogram = StabilityHistogram.of(cells, self.epsilon, self.delta, seed, f"audit {run} {which}")
                counts = histogram.at(np.arange(2 * pairs)[:, None]).reshape(pairs, 2)
                gains = np.where(counts > 0.0, np.abs(counts - crowd) - np.abs(counts - crowd - 1), 0.0)
                score += 0.5 * self.claimed * (gains[:, 1] - gains[:, 0])
            labels.append(coins)
            scores.append(score)
            users += len(cells)
        return Seen(np.concatenate(labels), np.concatenate(scores)[None, :]), users, None


@dataclass(frozen=True)
class CellLaw:
    """What is certified. stated: the statement. cells: that a target moves. beside: δ that comes on top."""

    stated: PrivacyBound
    cells: int
    beside: float

    def tested(self) -> list[float]:
        """Parts of ε."""
        return [share * self.stated.epsilon_upper for share in SHARES]

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """δ of every target at each ε."""
        return np.minimum(1.0, self._deltas(epsilons, 1.0))

    def bound(self, delta: float) -> PrivacyBound:
        """The statement."""
        return self.stated

    def grown(self, epsilons: Sequence[float], rise: float, delta: float) -> Floats:
        """By as much less noise."""
        curve = self._drawn if self.cells > 2 else self._deltas
        more, less = curve(epsilons, rise), curve(epsilons, 1.0)
        return np.asarray(np.divide(more, less, out=np.ones_like(more), where=less > 0.0))

    def curves(self) -> dict[str, Floats]:
        """The pure ε alone."""
        kept = math.exp(min(self.stated.epsilon_upper, 700.0))
        return {"ε of the cells": np.maximum(np.maximum(1.0 - kept * TYPE_ONE, (1.0 - TYPE_ONE) / kept), 0.0)}

    def refused(self, plan: OneRunPlan, certified: Floats, attacked: Floats) -> float | None:
        """Nothing is said of other parameters."""
        return None

    def _deltas(self, epsilons: Sequence[float], rise: float) -> Floats:
        moved = rise * self.stated.epsilon_upper
        if (
            self.cells > 2
        ):  # certified: more cells than there is a formula for: what ε alone allows, (e^moved - e^ε)/(1 + e^moved)
            pure = [-math.expm1(min(0.0, e - moved)) / (1.0 + math.exp(-moved)) for e in epsilons]
            return np.array(pure) + self.beside
        return np.array([laplace_delta(moved, epsilon, self.cells) + self.beside for epsilon in epsilons])

    def _drawn(self, epsilons: Sequence[float], rise: float) -> Floats:
        """δ of the noise itself, of equal moves in all cells, from draws: what an attack can reach."""
        moved = rise * self.stated.epsilon_upper / self.cells
        noise = np.random.default_rng(0).laplace(size=(DRAWS, self.cells))
        losses = (np.abs(noise + moved) - np.abs(noise)).sum(axis=1)
        return np.array([np.maximum(-np.expm1(e - losses), 0.0).mean() for e in epsilons]) + self.beside
