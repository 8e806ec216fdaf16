"""A histogram classifier whose labels come from the label exchange; each cell of the histogram is a cluster."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, Streams
from p2p_sim.histograms import Cubes, HistogramClassifier, default_delta, even_side
from p2p_sim.mechanisms import LabelExchangeConfig, LabelExchangeMechanism, Setup
from p2p_sim.network import NetworkConfig
from p2p_sim.population import Population
from p2p_sim.privacy import PrivacyBound

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class ExchangeHistogram(HistogramClassifier):
    """Histogram rule on [0, 1]^d whose labels come from the label exchange (clustering paper, Algorithm 2).

    Users need to trust nobody. Each row is a user. She flips her label with probability α, and fetches the noisy label
    of a random peer of her cell. She submits the fetched label with probability θ. Features are public, so cells and
    their sizes are public too. The privacy accounting of the exchange applies to each cell. Let t labels arrive from a
    cell, and let k of the t labels be 1. The cell's vote is (k - t/2)/(1-2α), which undoes the flips on average. Users
    submit nothing if their cell has fewer than `smallest_cell` rows; the prediction there is 0.

    Args:
        target_epsilon: upper limit of ε; the smallest α found that keeps to this limit is used. None if `flip_prob` is
        given. flip_prob: α in [0, 1/2). delta: δ in (0, 1); None: n^-2 for n rows. sampling_rate: θ. side: public side
        length of the cubes; None: the smallest side that is at least n^(-1/(2d)) and divides [0, 1] evenly.
        smallest_cell: number of rows, at least 2, that a cell needs to take part. Small cells need a large α, and all
        cells have the same α. random_state: seed of flips, fetches and submissions.
    """

    target_epsilon: float | None = 1.0
    flip_prob: float | None = None
    delta: float | None = None
    sampling_rate: float = 1.0
    side: float | None = None
    smallest_cell: int = 2
    random_state: int = 0

    def _fit(self, points: Floats, labels: NDArray[np.uint8]) -> Self:
        """Exchange the labels within the cells, count votes, and return this object.

        Raises:
            InputError: a parameter is out of its range, or no cell has `smallest_cell` rows.
        """
        super()._fit(points, labels)
        cells = self.table_.find(self.partition_.cells(points))
        self.delta_ = default_delta(self.delta, len(points))
        self._check()
        sizes = self.counts_.astype(np.int64)
        clusters = np.flatnonzero(sizes >= self.smallest_cell)
        if not len(clusters):
            raise InputError(f"smallest_cell = {self.smallest_cell}: no cell has as many rows")
        # each cell with enough rows is a cluster; users are stored cluster by cluster
        taking_part = np.flatnonzero(sizes[cells] >= self.smallest_cell)
        users = taking_part[np.argsort(cells[taking_part], kind="stable")]
        self.sizes_ = np.unique(sizes[clusters])
        config = LabelExchangeConfig(
            flip_prob=self.flip_prob, target_epsilon=self.target_epsilon, sampling_rate=self.sampling_rate
        )
        self.mechanism_: LabelExchangeMechanism = config.deployed(Setup(self.sizes_, 2, self.delta_, "vectorised"))
        offsets = np.concatenate([[0], np.cumsum(sizes[clusters])])
        population = Population(np.zeros((len(users), 0)), labels[users], offsets, 2)
        release = self.mechanism_.run(population, NetworkConfig(), Streams(self.random_state, 0)).labels
        # a label counts in the submitter's cell, which is also the cell of the label's owner
        cell = cells[users[release.user]]
        self.counts_ = np.bincount(cell, minlength=len(sizes)).astype(np.float64)
        ones = np.bincount(cell, weights=release.payload.astype(np.float64), minlength=len(sizes))
        self.votes_ = (ones - 0.5 * self.counts_) / (1.0 - 2.0 * self.mechanism_.parameters["flip_prob"])
        return self

    def _partition(self, points: Floats) -> Cubes:
        return Cubes(self.side or even_side(*points.shape), unit_cube=True)

    def _check(self) -> None:
        """Raise InputError for a parameter that is out of its range."""
        epsilon, flip_prob, rate, smallest = self.target_epsilon, self.flip_prob, self.sampling_rate, self.smallest_cell
        for right, fault in (
            ((epsilon is None) != (flip_prob is None), "give either target_epsilon or flip_prob"),
            (epsilon is None or 0.0 < epsilon <= 100.0, f"target_epsilon = {epsilon}: must be above 0 and at most 100"),
            (flip_prob is None or 0.0 <= flip_prob < 0.5, f"flip_prob = {flip_prob}: must be at least 0 and below 1/2"),
            (1e-9 <= rate <= 1.0, f"sampling_rate = {rate}: must lie in [1e-9, 1]"),
            (smallest >= 2, f"smallest_cell = {smallest}: must be at least 2; only her own flip protects a lone user"),
        ):
            if not right:
                raise InputError(fault)

    def privacy(self) -> PrivacyBound:
        """The bounds of ε for one user's label against the learner, who sees the submitted labels. The cell with the
        largest ε determines the bounds. They hold at the δ of the fit: the parameter `delta`, or n^-2 for n rows if
        `delta` is None.
        """
        return max(self.mechanism_.privacy(self.sizes_, self.delta_), key=lambda bound: bound.epsilon_upper)
