"""The optimal unbiased randomizer of a label value (Badanidiyuru et al., NeurIPS 2023), by a linear programme.

The labels are the values y of a public grid. A randomizer is a law M(o | y) of the output value o given the label y.
The randomizer is unbiased if the mean of the output is y for every label y. Of all ε-private unbiased laws, the optimal
law has the smallest expected squared error under a prior. Outputs must leave the range of the labels. Let a < b be two
labels. Then some output is at most a - (b-a)/(e^ε-1), and another is at least b + (b-a)/(e^ε-1). Now let a be the
smallest and b the largest label of the grid. The *two-output law* (`two_output_law`) has only two such outputs. The
probabilities M(o | y) are linear in y, and the mean of the output is y. So an unbiased ε-private law always exists.

Given a grid of outputs the problem is linear. The column of an output consists of its probabilities given each label.
Each probability is written as v e^-ε + s. The number v belongs to the output, and each label has an s with 0 <= s <= v
(1 - e^-ε). Such v and s exist if and only if the law is ε-private. The grid is then refined around the outputs in use.
Outputs whose columns are multiples of one another become one output at their mean. Then the mean of the law stays, ε
does not grow, and the squared error falls (Jensen).

A solver meets its constraints only to about 1e-9. So every column is clipped to its bounds. The repair then gives the
law the share 1-η and adds two further columns, with a sum of about η in each row. The two columns stand for the outputs
of the two-output law at a smaller privacy parameter ε' = min(1, ε/2). The columns supply what the rows' sums and means
lack. The ratios of the two-output law at ε' are at most e^ε', below the allowed e^ε. So some η is enough. The repair
takes the smallest sufficient power of ten from 1e-9 to 1e-2. If there is none, an error is raised. The row sums, means
and ε of the repaired table are right up to the rounding of a float. The ε is the largest log-ratio in the table itself.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import check_positive_epsilon
from p2p_sim.privacy.randomized_response import law_epsilon
from p2p_sim.privacy.rivals.rr_on_bins import check_grid

LARGEST_EPSILON = 10.0
"""Largest ε for which the linear programme is well scaled."""
MOST_VALUES = 64
"""Largest grid of label values."""
_ROUNDS = 8
"""Largest number of times that the programme is solved. The grid is refined before each time but the first."""
_UNUSED = 1e-8
"""Outputs that have at most this probability under every label are dropped."""


class OutputLaw(NamedTuple):
    """Increasing output values (m,) and their law (k, m): the probability of each output given each label."""

    outputs: Floats
    law: Floats


@dataclass(frozen=True)
class UnbiasedLaw:
    """An unbiased randomizer of label values: the mean of the output is the label value.

    values: (k,) label values. outputs: (m,) output values, increasing. law: (k, m) probability of each output given
    each label. expected_loss: the mean squared error under the prior.
    """

    values: Floats
    outputs: Floats
    law: Floats
    expected_loss: float

    @property
    def epsilon(self) -> float:
        """Pure ε of the randomizer: the largest log-ratio in its table."""
        return law_epsilon(self.law)


def two_output_law(values: Floats, epsilon: float) -> OutputLaw:
    """The unbiased ε-private randomizer with two output values, one below and one above all labels.

    Returned are these values, and the probability (k, 2) of each value (column) given each label (row). The
    probabilities are linear in the label value, and the mean of the output is the label value.

    >>> outputs, law = two_output_law(np.array([0.0, 1.0]), math.log(3.0))
    >>> outputs.round(9).tolist(), law.round(9).tolist()
    ([-0.5, 1.5], [[0.75, 0.25], [0.25, 0.75]])

    Args:
        values: (k,) label values, increasing. epsilon: ε, above 0.
    """
    low, high = float(values[0]), float(values[-1])
    beyond = (high - low) / math.expm1(epsilon)
    outputs = np.array([low - beyond, high + beyond])
    above = (values - outputs[0]) / (outputs[1] - outputs[0])
    return OutputLaw(outputs, np.stack([1.0 - above, above], axis=1))


def best_unbiased(values: Floats, prior: Floats, epsilon: float) -> UnbiasedLaw:
    """An unbiased ε-private law whose expected squared error exceeds the smallest possible error by about 1% at most.

    >>> best = best_unbiased(np.linspace(0.0, 1.0, 5), np.full(5, 0.2), 1.0)
    >>> best.epsilon <= 1.0, bool(np.allclose(best.law @ best.outputs, best.values))
    (True, True)

    Args:
        values: (k,) label values, 2 to 64 increasing numbers.
        prior: (k,) probabilities that do not depend on the labels to be privatised.
        epsilon: ε, above 0 and at most 10.
    """
    values, prior = np.asarray(values, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    check_grid(values, prior)
    check_positive_epsilon(epsilon)
    if len(values) > MOST_VALUES or epsilon > LARGEST_EPSILON:
        raise ValueError(
            f"values, epsilon = {len(values)}, {epsilon:g}: at most {MOST_VALUES} values and ε of {LARGEST_EPSILON:g}"
        )
    scale = float(values[-1] - values[0])
    unit, mass = (values - values[0]) / scale, prior / prior.sum()
    slightly_less = epsilon * (1.0 - 1e-11)  # room for the rounding of ratios
    law = _repaired(unit, _merged(_refined(unit, mass, slightly_less)), slightly_less)
    loss = float(mass @ (law.law * (law.outputs[None, :] - unit[:, None]) ** 2).sum(axis=1))
    return UnbiasedLaw(values, values[0] + scale * law.outputs, law.law, loss * scale**2)


def _refined(values: Floats, prior: Floats, epsilon: float) -> OutputLaw:
    """The unbiased ε-private law with the smallest expected squared error, as a linear programme finds it.

    The programme chooses probabilities on a fixed grid of output values. The programme is solved up to 8 times, until
    the loss hardly falls. Each new grid has the outputs with probability above 1e-8 for some label, two more values
    around each, and the two outputs of `two_output_law`. Constraints hold only to the solver's precision.

    Args:
        values: (k,) label values, from 0 to 1. prior: (k,) their probabilities. epsilon: ε.
    """
    # a first grid: near outputs, far outputs, the labels themselves, and the outputs of the two-output law
    k, beyond = len(values), 1.0 / math.expm1(epsilon)
    near, far = (np.linspace(-s * beyond, 1.0 + s * beyond, 4 * k + 9) for s in (2.0, 4.0 + 2.0 * k))
    anchor = two_output_law(values, epsilon).outputs
    grid, loss = np.unique(np.concatenate([near, far, values, anchor])), math.inf
    for _ in range(_ROUNDS):
        previous, solution = loss, _solve(values, prior, epsilon, grid)
        loss, columns = solution.expected_loss, solution.law.T
        used = np.flatnonzero(columns.max(axis=1) > _UNUSED)
        best = OutputLaw(grid[used], columns[used].T)
        if previous - loss < 1e-5 * loss:
            break
        # the outputs in use, and two more around each, a third of a step away
        steps = np.diff(grid)
        below, above = steps[np.maximum(used - 1, 0)], steps[np.minimum(used, len(steps) - 1)]
        grid = np.unique(np.concatenate([anchor, grid[used], grid[used] - below / 3.0, grid[used] + above / 3.0]))
    return best


def _solve(values: Floats, prior: Floats, epsilon: float, outputs: Floats) -> UnbiasedLaw:
    """The unbiased ε-private law on a fixed grid of output values with the smallest expected squared error. The
    constraints hold only to the solver's precision of about 1e-9.

    Args:
        values: (k,) label values y. prior: (k,) their probabilities. epsilon: ε. outputs: (m,) the grid, increasing.

    Returns:
        The law (k, m) and its expected squared error under the prior. Many of the m outputs have probability 0.
    """
    # variables: v for each output, then s for each output and label. The cost is Σ prior (v e^-ε + s) (output - label)²
    k, m, low = len(values), len(outputs), math.exp(-epsilon)
    errors = prior[None, :] * (outputs[:, None] - values[None, :]) ** 2
    cost = np.concatenate([low * errors.sum(axis=1), errors.ravel()])
    sparse = scipy.sparse
    # s <= v (1 - e^-ε); for each label the probabilities sum to 1, and the mean of the output is the label
    bounded = sparse.hstack(
        [-(1.0 - low) * sparse.kron(sparse.identity(m), np.ones((k, 1))), sparse.identity(m * k)], format="csr"
    )
    sums = sparse.hstack([sparse.csr_matrix(np.full((k, m), low)), sparse.kron(np.ones((1, m)), sparse.identity(k))])
    means = sparse.hstack(
        [sparse.csr_matrix(low * np.tile(outputs, (k, 1))), sparse.kron(outputs[None, :], sparse.identity(k))]
    )
    targets = np.concatenate([np.ones(k), values])
    optimum = scipy.optimize.linprog(
        cost, bounded, np.zeros(m * k), sparse.vstack([sums, means], format="csr"), targets, method="highs"
    )
    if optimum.x is None:
        raise ValueError(f"epsilon = {epsilon:g}: the linear programme was not solved: {optimum.message}")
    heights, above = optimum.x[:m, None], optimum.x[m:].reshape(m, k)
    columns = low * heights + np.clip(above, 0.0, (1.0 - low) * heights)
    return UnbiasedLaw(values, outputs, columns.T, float(cost @ optimum.x))


def _merged(solution: OutputLaw) -> OutputLaw:
    """The law in which one output replaces all outputs whose columns are multiples of one another.

    A column is an output's probabilities given each of k labels. The new output value is the mean of the old values,
    weighted with the columns' largest entries. The new column is the sum of the old columns. So the mean for each label
    stays, ε does not grow, and the squared error falls. Columns are first divided by their largest entries. Columns
    count as multiples if they then differ by less than 1e-9. So the mean stays only up to about this precision.

    Args:
        solution: the m output values, and their law (k, m).
    """
    outputs, columns = solution.outputs, solution.law.T
    shapes = columns / columns.max(axis=1, keepdims=True)
    remaining, means, sums = list(range(len(outputs))), [], []
    while remaining:
        alike = [i for i in remaining if np.max(np.abs(shapes[i] - shapes[remaining[0]])) < 1e-9]
        remaining = [i for i in remaining if i not in alike]
        weights = columns[alike].max(axis=1)
        means.append(float(outputs[alike] @ weights / weights.sum()))
        sums.append(columns[alike].sum(axis=0))
    order = np.argsort(means)
    return OutputLaw(np.array(means)[order], np.array(sums)[order].T)


def _repaired(values: Floats, solution: OutputLaw, epsilon: float) -> OutputLaw:
    """A law near the solver's law that is unbiased and ε-private up to the rounding of a float.

    The solver's table gets the share 1-η. Two further outputs, one below and one above all labels, get about the share
    η. The probabilities of these outputs supply what the rows' sums and means lack. η is the smallest sufficient power
    of ten from 1e-9 to 1e-2.

    Args:
        values: (k,) label values. solution: the solver's output values (m,) and probabilities (k, m) given each label.
        epsilon: ε.

    Raises:
        ValueError: no such η is enough.
    """
    pair = two_output_law(values, min(1.0, epsilon / 2.0)).outputs
    outputs, law = solution
    for power in range(-9, -1):
        share = 10.0**power
        # what the row sums and means lack, as two columns
        lacking = 1.0 - (1.0 - share) * law.sum(axis=1)
        moment = values - (1.0 - share) * (law @ outputs)
        above = (moment - pair[0] * lacking) / (pair[1] - pair[0])
        mixed = np.column_stack([(1.0 - share) * law, lacking - above, above])
        if np.all(mixed > 0.0) and law_epsilon(mixed) <= epsilon * (1.0 + 1e-12):
            every = np.concatenate([outputs, pair])
            order = np.argsort(every, kind="stable")
            return OutputLaw(every[order], mixed[:, order])
    raise ValueError(f"epsilon = {epsilon:g}: the law that the solver found cannot be repaired")
