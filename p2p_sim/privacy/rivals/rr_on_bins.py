"""RR-on-Bins (Ghazi et al., Regression with label differential privacy, ICLR 2023): randomised response over bins.

The labels are the values y_1 < ... < y_k of a public grid. The grid is cut into b intervals of labels, the bins. Each
bin has one output value. Randomised response releases a bin. The label's own bin has probability e^ε/(e^ε+b-1), and
each other bin has probability 1/(e^ε+b-1). So the output is ε-private for every choice of bins that does not depend on
the label.

The expected loss under a prior p is (Σ_bins L(bin))/(e^ε+b-1) with

    L(bin) = min over o of Σ_y p_y ℓ(o, y) (1 + (e^ε-1) [y in the bin]).

Here ℓ(o, y) is the loss of output o for label y. The bracket [y in the bin] is 1 if y is in the bin, else 0. For each b
a dynamic programme over the ends of the bins finds the smallest sum. According to the paper, no ε-private randomizer
has a smaller expected loss than the best bins. The reason is this: take an output's probabilities given each label.
This vector is a non-negative combination of vectors with entries 1 and e^ε. So each output may be assumed to favour one
set of labels. Tests compare with a linear programme over such sets. A fixed output (b = 1) is never better than b = 2.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import check_positive_epsilon
from p2p_sim.privacy.randomized_response import local_flip_prob

LossName = Literal["squared", "absolute"]
MOST_VALUES = 256
"""Largest grid of label values."""


@dataclass(frozen=True)
class Bins:
    """The bins of a grid of k label values.

    bin_of: (k,) the bin of each value, in 0..b-1, not decreasing. outputs: (b,) the output value of each bin.
    expected_loss: the mean loss of an output under the prior for which the bins were chosen.
    """

    bin_of: tuple[int, ...]
    outputs: tuple[float, ...]
    expected_loss: float

    def __len__(self) -> int:
        """b, the number of bins."""
        return len(self.outputs)


class BinCosts(NamedTuple):
    """Cost and best output value of every possible bin, (k, k) each. The row is the bin's first label, the column the
    last.

    costs: e^-ε L(bin), infinite for an empty bin. outputs: the output value with this cost.
    """

    costs: Floats
    outputs: Floats


def check_grid(values: Floats, prior: Floats) -> None:
    """Check a grid of label values for the randomizers that release numbers.

    Args:
        values: (k,) the label values of the grid, 2 to 256 finite, increasing numbers. prior: (k,) probability of each
        value, with sum 1 (within 1e-6).

    Raises:
        ValueError: a value or a probability breaks these rules.
    """
    if values.ndim != 1 or not 2 <= len(values) <= MOST_VALUES or not np.all(np.isfinite(values)):
        raise ValueError(f"values: must be 2 to {MOST_VALUES} finite numbers, found {len(values)}")
    if np.any(np.diff(values) <= 0):
        raise ValueError("values: must increase")
    if prior.shape != values.shape or np.any(prior < 0) or not math.isclose(prior.sum(), 1.0, abs_tol=1e-6):
        raise ValueError(f"prior: must be {len(values)} probabilities that sum to 1")


def best_bins(values: Floats, prior: Floats, epsilon: float, loss: LossName = "squared") -> Bins:
    """The bins with the smallest expected loss under a prior. There are at least two bins. Among equally good choices
    the function takes the fewest bins. The result also has the bins' output values and the expected loss.

    >>> best_bins(np.arange(4.0), np.full(4, 0.25), 2.0).bin_of
    (0, 0, 1, 1)

    Args:
        values: (k,) label values, 2 to 256 increasing numbers.
        prior: (k,) probabilities that do not depend on the labels to be privatised.
        epsilon: ε, above 0 and finite.
        loss: "squared" (o - y)² or "absolute" |o - y|, for output o and label y.
    """
    values, prior = np.asarray(values, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    check_grid(values, prior)
    check_positive_epsilon(epsilon)
    k, low = len(values), math.exp(-epsilon)
    scale = float(values[-1] - values[0])
    power = 2 if loss == "squared" else 1
    unit = (values - values[0]) / scale
    possible = (_squared if loss == "squared" else _absolute)(unit, prior / prior.sum(), low)
    # for each label y: the smallest cost of `count` bins that cover all labels up to y, and where the last bin starts
    smallest, starts = possible.costs[0], np.zeros((k, k), dtype=np.intp)
    best, bins = math.inf, 2
    for count in range(2, k + 1):
        sums = np.concatenate([[math.inf], smallest[:-1]])[:, None] + possible.costs
        starts[count - 1] = np.argmin(sums, axis=0)
        smallest = np.min(sums, axis=0)
        # the expected loss, (Σ L)/(e^ε+b-1)
        if (expected := float(smallest[-1]) / (1.0 + (count - 1) * low)) < best:
            best, bins = expected, count
    # the bins' first labels, from the last bin back to the first
    first, stop = [], k
    for count in range(bins, 0, -1):
        first.append(int(starts[count - 1, stop - 1]))
        stop = first[-1]
    first.reverse()
    bin_of = np.searchsorted(first, np.arange(k), side="right") - 1
    outputs = [float(possible.outputs[a, b - 1]) for a, b in zip(first, [*first[1:], k], strict=True)]
    return Bins(
        tuple(int(b) for b in bin_of), tuple(float(values[0]) + scale * o for o in outputs), best * scale**power
    )


def _squared(values: Floats, prior: Floats, low: float) -> BinCosts:
    """Cost and best output (k, k) of a bin from each label (row) to each label (column) under the squared loss.

    An output is e^ε times as likely for a label of its bin. So the cost of the output o is Σ_y p_y (o - y)²
    (1 + (e^ε-1) [y in the bin]). The cost is multiplied by e^-ε, so it stays finite for large ε. The best o is a
    weighted mean of all labels. The weight of y is p_y, multiplied by e^ε for labels in the bin.

    Args:
        values: (k,) label values y. prior: (k,) their probabilities p_y. low: e^-ε.
    """
    mean = float(prior @ values)
    centred = values - mean
    weight = low + (1.0 - low) * _sums(prior)
    moment = (1.0 - low) * _sums(prior * centred)
    spread = low * float(prior @ centred**2) + (1.0 - low) * _sums(prior * centred**2)
    return BinCosts(_nonempty(np.maximum(spread - moment**2 / weight, 0.0)), moment / weight + mean)


def _absolute(values: Floats, prior: Floats, low: float) -> BinCosts:
    """Cost and best output (k, k) of a bin from each label (row) to each label (column) under the absolute loss.

    The cost of the output o is Σ_y p_y |o - y| (1 + (e^ε-1) [y in the bin]). The cost is multiplied by e^-ε. The best
    o is a weighted median, one of the values.

    Args:
        values: (k,) label values y. prior: (k,) their probabilities p_y. low: e^-ε.
    """
    k = len(values)
    costs, outputs = np.full((k, k), math.inf), np.zeros((k, k))
    for value in values:
        distance = prior * np.abs(values - value)
        cost = low * float(distance.sum()) + (1.0 - low) * _sums(distance)
        better = cost < costs
        costs[better], outputs[better] = cost[better], value
    return BinCosts(_nonempty(costs), outputs)


def _sums(terms: Floats) -> Floats:
    """Sums (k, k) of the terms (k,) from the row's index to the column's index, both included; 0 below the diagonal.

    Each row is summed separately, since differences of cumulative sums would lose tiny terms.
    """
    return np.cumsum(np.triu(np.broadcast_to(terms, (len(terms), len(terms)))), axis=1)


def _nonempty(costs: Floats) -> Floats:
    """The costs (k, k), infinite below the diagonal, where a bin would end before it starts."""
    return np.where(np.triu(np.ones(costs.shape, dtype=bool)), costs, math.inf)


def bins_law(bin_of: NDArray[np.integer] | tuple[int, ...], bins: int, epsilon: float) -> Floats:
    """Probability (k, b) of each bin given each label, under randomised response with the α that is certified for ε.

    Args:
        bin_of: (k,) bin of each label. bins: b, at least 2. epsilon: ε, above 0.
    """
    alpha = local_flip_prob(epsilon, bins)
    law = np.full((len(bin_of), bins), alpha / (bins - 1))
    law[np.arange(len(bin_of)), np.asarray(bin_of)] = 1.0 - alpha
    return law
