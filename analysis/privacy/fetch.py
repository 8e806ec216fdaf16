"""The learner's ε for any fetch distribution: overlays, random walks, peers that are offline.

User i fetches from j with probability W[i, j], known to the learner and independent of labels; choices are independent.
Reveal all noisy bits but the target v's. User i's released label is then 1 with probability p_i, or p_i + W[i, v] if
v's bit is one; users with W[i, v] = 0 say nothing more. With keep = 1-α-αe^ε and r = (e^ε(1-α)-α)/keep,

    δ(ε) <= keep · ( Pr[some p_i < τ or p_i + W[i,v] > 1-τ] + sup HS_r(⊗ A_i || ⊗ B_i) ),

the supremum over p_i in [τ, 1-τ-w]. There the pair (p, p+w) is a post-processing of the three-point pair
(τ, 1-2τ-w, τ+w), (τ+w, 1-2τ-w, τ): answer 0 at the first point, 1 at the last, and 1 with probability
(p-τ)/(1-2τ-w) in the middle. So the product of the three-point pairs bounds every product, mixed vertices included.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.special import betainc

from analysis.privacy.bound import Bracket, PrivacyBound
from analysis.privacy.label_exchange import check_delta, check_epsilon
from analysis.privacy.local import local_epsilon
from analysis.privacy.windows import Floats

CONDITIONS = (
    "the learner sees the set of submissions and knows the fetch distribution, which does not depend on labels",
    "every user draws one noisy label and repeats it; fetches are independent of each other",
)
_SHARES = tuple(float(share) for share in np.arange(0.05, 0.975, 0.025))
_NEGLIGIBLE = 1e-40


@dataclass(frozen=True, eq=False)
class FetchDistribution:
    """An exchange in which user i fetches from j with probability weights[i, j].

    Args:
        weights: (n, n), dense or sparse, non-negative, rows that sum to 1 (to 1e-9).
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1].
    """

    weights: NDArray[np.float64] | sparse.sparray
    flip_prob: float
    sampling_rate: float

    def __post_init__(self) -> None:
        w = self._rows
        if w.shape[0] != w.shape[1]:
            raise ValueError(f"weights of shape {w.shape}: must be square")
        if w.nnz and not (np.isfinite(w.data).all() and w.data.min() >= 0.0):
            raise ValueError("weights: must be finite and at least 0")
        if np.abs(np.asarray(w.sum(axis=1)).ravel() - 1.0).max() > 1e-9:
            raise ValueError("weights: every row must sum to 1")
        if not 0.0 <= self.flip_prob <= 0.5:
            raise ValueError(f"flip_prob = {self.flip_prob}: must lie in [0, 0.5]")
        if not 0.0 < self.sampling_rate <= 1.0:
            raise ValueError(f"sampling_rate = {self.sampling_rate}: must lie in (0, 1]")

    @cached_property
    def _rows(self) -> sparse.csr_array:
        rows: sparse.csr_array = sparse.csr_array(self.weights, copy=True)  # type: ignore[arg-type]
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return rows

    @cached_property
    def _kinds(self) -> dict[bytes, int]:
        """One target for each way of being fetched: the bound depends on the fetchers' rows and weights alone."""
        rows, columns = self._rows, sparse.csc_array(self._rows)
        names: dict[bytes, int] = {}
        shapes = np.empty(rows.shape[0], dtype=np.int64)
        for user in range(rows.shape[0]):
            shapes[user] = names.setdefault(np.sort(self._row(user)[1]).tobytes(), len(names))
        found: dict[bytes, int] = {}
        for target in range(rows.shape[0]):
            part = slice(columns.indptr[target], columns.indptr[target + 1])
            users, weights = columns.indices[part], columns.data[part]
            entries = np.stack([shapes[users].astype(np.float64), weights, self._same_row[users]], axis=1)
            rows_of, counts = np.unique(entries, axis=0, return_counts=True)  # one line a distinct row, with its users
            key = np.sort(np.column_stack([rows_of[:, :2], counts]).view("f8,f8,f8"), axis=0)
            found.setdefault(key.tobytes(), target)
        return found

    @cached_property
    def _same_row(self) -> NDArray[np.float64]:
        """A number for each user, equal for users with one and the same row."""
        names: dict[bytes, int] = {}
        row_bytes = (indices.tobytes() + data.tobytes() for indices, data in map(self._row, range(self._rows.shape[0])))
        return np.array([names.setdefault(key, len(names)) for key in row_bytes], dtype=np.float64)

    def _row(self, user: int) -> tuple[NDArray[np.int32], Floats]:
        part = slice(self._rows.indptr[user], self._rows.indptr[user + 1])
        return self._rows.indices[part], self._rows.data[part]

    def delta(self, epsilon: float) -> Bracket:
        """Certified upper bound on δ(ε) for the worst-placed user; the lower value is 0."""
        check_epsilon(epsilon)
        return Bracket(0.0, max(self._target(target, epsilon) for target in self._kinds.values()))

    def user_delta(self, user: int, epsilon: float) -> float:
        """Certified upper bound on one user's δ(ε): how much her place in the overlay protects her."""
        check_epsilon(epsilon)
        return self._target(user, epsilon)

    def epsilon(self, delta: float) -> PrivacyBound:
        """Certified ε(δ) for the worst-placed user, at most ε₀."""
        check_delta(delta)
        low, high = 0.0, local_epsilon(self.flip_prob)
        basis = "any fetch distribution: three-point pairs"
        if self.delta(0.0).upper <= delta:
            return PrivacyBound(0.0, 0.0, delta, "learner", "label", basis, CONDITIONS)
        if math.isinf(high):
            return PrivacyBound(0.0, math.inf, delta, "learner", "label", "no noise", CONDITIONS)
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle).upper > delta else (low, middle)
        return PrivacyBound(0.0, high, delta, "learner", "label", basis, CONDITIONS)

    def _target(self, target: int, epsilon: float) -> float:
        gap, growth = 1.0 - 2.0 * self.flip_prob, math.expm1(min(epsilon, 700.0))
        keep, lose = gap - self.flip_prob * growth, gap + (1.0 - self.flip_prob) * growth
        if keep <= 0.0:
            return 0.0
        column = self._rows[:, [target]].tocoo()
        fetchers, weights = column.row, column.data
        if fetchers.size == 0:
            return 0.0  # nobody fetches her label
        best = 1.0
        for share in _SHARES:
            level = share * self.flip_prob
            if np.any(2.0 * level + weights >= 1.0):
                continue
            stray = self._stray(target, fetchers, level)
            if stray < best:
                best = min(best, stray + three_point_divergence(weights, level, self.sampling_rate, lose / keep))
        return min(1.0, keep * best) * (1.0 + 1e-12)

    def _stray(self, target: int, fetchers: NDArray[np.int32], level: float) -> float:
        """Bound on Pr[some p_i < level or p_i + w > 1 - level]; fetchers with one and the same row count once."""
        _, first = np.unique(self._same_row[fetchers], return_index=True)
        total = 0.0
        bounds: dict[bytes, float] = {}
        for user in fetchers[first]:
            indices, data = self._row(int(user))
            others = np.sort(data[indices != target])
            key = others.tobytes()
            if key not in bounds:
                bounds[key] = 2.0 * _chernoff(others, self.flip_prob, level)
            total += bounds[key]
        return min(1.0, total)


def _chernoff(weights: Floats, flip_prob: float, level: float) -> float:
    """Bound on Pr[Σ w_j Bernoulli(α) < level]; labels of 1 only make the sum larger."""
    if weights.size == 0:
        return 1.0
    if np.ptp(weights) <= 1e-12 * weights[0]:  # equal weights: fewer than level/w ones
        fewer = math.ceil(level / float(weights[0]) * (1.0 + 1e-12))
        if fewer > weights.size:
            return 1.0
        return float(betainc(weights.size - fewer + 1.0, float(fewer), 1.0 - flip_prob)) * (1.0 + 1e-11)
    values, counts = np.unique(weights, return_counts=True)
    strengths = 2.0 ** np.arange(-6.0, 8.0, 0.25) / values.max()
    exponents = strengths * level + np.log1p(flip_prob * np.expm1(-np.outer(strengths, values))) @ counts
    return float(np.exp(min(0.0, float(exponents.min()))))


def three_point_divergence(weights: Floats, level: float, sampling_rate: float, ratio: float) -> float:
    """HS_ratio of the product of three-point pairs, each seen with probability `sampling_rate`; an upper bound.

    Losses ±ln((τ+w)/τ) of different weights are put on one grid, positive ones rounded up and negative ones too.
    """
    losses = np.log1p(weights / level)
    grid = float(losses.min()) if np.ptp(losses) <= 1e-12 * losses.max() else float(losses.max()) / 200.0
    law, offset, lost = np.ones(1), 0, 0.0
    for loss, count in zip(*np.unique(losses, return_counts=True), strict=True):
        w = level * math.expm1(float(loss))
        up, down = math.ceil(float(loss) / grid - 1e-9), -math.floor(float(loss) / grid + 1e-9)
        step = np.zeros(up - down + 1)
        step[0] += sampling_rate * level  # under A the large loss has the large probability
        step[-down] += 1.0 - sampling_rate * (2.0 * level + w)
        step[-1] += sampling_rate * (level + w)
        power, first, missed = _power(step, down, int(count))
        law, offset, lost = np.convolve(law, power), offset + first, lost + missed
    excess = -np.expm1(math.log(ratio) - grid * (offset + np.arange(len(law))))
    return float(law @ np.maximum(excess, 0.0)) * (1.0 + 1e-11) + lost


def _power(step: Floats, first: int, count: int) -> tuple[Floats, int, float]:
    """Law of the sum of `count` steps: probabilities, first value, and what was cut off, by repeated squaring."""
    law, start, lost = np.ones(1), 0, 0.0
    square, square_start, square_lost = step, first, 0.0
    while count:
        if count & 1:
            law, start, lost = *_trim(np.convolve(law, square), start + square_start), lost + square_lost
        count >>= 1
        if count:
            square, square_start = _trim(np.convolve(square, square), 2 * square_start)
            square_lost = 2.0 * square_lost + _NEGLIGIBLE * 2.0 * len(square)
        lost += _NEGLIGIBLE * 2.0 * len(law)
    return law, start, lost


def _trim(law: Floats, start: int) -> tuple[Floats, int]:
    """Cut entries below the negligible at both ends."""
    kept = np.flatnonzero(law > _NEGLIGIBLE)
    return law[kept[0] : kept[-1] + 1], start + int(kept[0])
