"""The other papers: vector approximation, PLR (objective perturbation), stability-based histogram, histogram rule."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from p2p_sim.privacy.claims.claim import CONSISTENCY, STACKING, VECTOR, Claim, ClaimCase, at_most
from p2p_sim.privacy.rivals.centralised import laplace_tail

Floats = NDArray[np.float64]


def vector_cases(budget_share: float = 0.5) -> Iterator[ClaimCase]:
    """ε of a vector of noisy bits, over all 2^K outputs and all pairs of labels.

    Args:
        budget_share: part of ε that each bit gets; 1/2 in the paper.
    """
    for classes, epsilon in itertools.product((2, 3, 5, 8), (0.1, 1.0, 4.0)):
        outputs = np.array(list(itertools.product((0, 1), repeat=classes)))
        kept = float(expit(budget_share * epsilon))
        laws = []
        for label in range(classes):
            truth = np.arange(classes) == label
            laws.append(np.where(outputs == truth, kept, 1.0 - kept).prod(axis=1))
        true = max(float(np.abs(np.log(a / b)).max()) for a, b in itertools.combinations(laws, 2))
        yield at_most(epsilon, true, None, classes, K=classes, epsilon=epsilon)


def plr_parameters(epsilon: float, n: int, strength: float) -> tuple[float, float]:
    """ε' and Δ of lines 1 to 6 of Algorithm 1 of the stacking paper.

    Args:
        epsilon: ε. n: examples. strength: λ, above 0.
    """
    inner = epsilon - math.log(1.0 + 1.0 / (2.0 * n * strength) + 1.0 / (16.0 * n**2 * strength**2))
    if inner > 0.0:
        return inner, 0.0
    return epsilon / 2.0, 1.0 / (4.0 * n * math.expm1(epsilon / 4.0)) - strength


def noise_of_model(w: Floats, x: Floats, y: Floats, strength: float) -> tuple[Floats, Floats]:
    """The noise b that makes w the minimiser, (W, d), and the determinant of db/dw, (W,); g(w) = |w|²/2.

    Args:
        w: (W, d) models.
        x, y: (n, d) features in the unit ball and (n,) labels ±1.
        strength: λ + Δ.
    """
    n, margins = len(y), w @ (x * y[:, None]).T
    gradient = -expit(-margins) @ (x * y[:, None]) + n * strength * w
    curvature = np.einsum("wi,ij,ik->wjk", expit(margins) * expit(-margins), x, x) + n * strength * np.eye(x.shape[1])
    return -gradient, np.linalg.det(curvature)


def plr_cases(budget: float = 1.0) -> Iterator[ClaimCase]:
    """Exact log-density ratio of the released model, maximised over a grid of models, for neighbours in one example.

    The density of w is that of the noise b(w) times |det db/dw|, and b is a bijection. Values on the grid are attained;
    the proof's bound is the certificate, so the case is taken as it is.

    Args:
        budget: multiplies ε', for a control.
    """
    angles = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
    for d in (1, 2):
        points = np.array([[-1.0], [1.0], [0.5]]) if d == 1 else np.c_[np.cos(angles), np.sin(angles)]
        grid = np.r_[-np.geomspace(1e-3, 1e3, 60)[::-1], 0.0, np.geomspace(1e-3, 1e3, 60)]
        rays = [np.outer(np.abs(grid), [np.cos(a), np.sin(a)]) for a in angles]
        w = grid[:, None] if d == 1 else np.concatenate(rays)
        examples = [(point, label) for point in points for label in (-1.0, 1.0)]
        for n, strength, epsilon in itertools.product((1, 2), (0.01, 1.0), (0.1, 1.0, 4.0)):
            inner, more = plr_parameters(epsilon, n, strength)
            log_densities = []
            for first in examples:
                chosen = [first, *[examples[0]] * (n - 1)]
                x, y = np.array([e[0] for e in chosen]), np.array([e[1] for e in chosen])
                b, det = noise_of_model(w, x, y, strength + more)
                log_densities.append(-0.5 * budget * inner * np.linalg.norm(b, axis=1) + np.log(det))
            true = max(float(np.abs(a - b).max()) for a, b in itertools.combinations(log_densities, 2))
            yield at_most(epsilon, true, None, n + d, n=n, d=d, strength=strength, epsilon=epsilon)


def histogram_cell(count: int, epsilon: float, delta: float, shift: float = 1.0) -> tuple[float, float]:
    """Probabilities that a cell is reported as zero, and above the threshold (2/ε) ln(2/δ) + 1."""
    if count == 0:
        return 1.0, 0.0
    above = laplace_tail(2.0 / epsilon * math.log(2.0 / delta) + shift - count, 2.0 / epsilon)
    return 1.0 - above, above


def stability_cases(shift: float = 1.0) -> Iterator[ClaimCase]:
    """Exact δ(ε) of two cells when one example moves from one to the other.

    Counts stay below the threshold, above which both densities are exponential: all that matters is whether a cell is
    reported. At larger counts each cell's loss is at most ε/2, so that only a count of 1 that vanishes costs δ.

    Args:
        shift: the last term of the threshold, 1 in the paper.
    """
    for epsilon, delta in itertools.product((0.1, 0.5, 1.0), (1e-2, 1e-4, 1e-8)):
        for left, right in itertools.product((1, 2, 3), (0, 1, 3)):
            first = [histogram_cell(c, epsilon, delta, shift) for c in (left, right)]
            second = [histogram_cell(c, epsilon, delta, shift) for c in (left - 1, right + 1)]
            true = max(
                sum(max(0.0, p[0][i] * p[1][j] - math.exp(epsilon) * q[0][i] * q[1][j]) for i in (0, 1) for j in (0, 1))
                for p, q in ((first, second), (second, first))
            )
            yield at_most(delta, true, None, left + right, epsilon=epsilon, delta=delta, left=left, right=right)


def histogram_rule_cases(noise: float = 1.0) -> Iterator[ClaimCase]:
    """ε of the decisions of two cells, when one example moves or changes its label; each cell has its own noise.

    Args:
        noise: scale of the Laplace noise times ε, 1 in the paper.
    """
    for epsilon in (0.1, 1.0, 3.0):
        for left, right in itertools.product(np.arange(-2.0, 2.5, 0.5), repeat=2):
            for move in ((-0.5, -0.5), (-0.5, 0.5), (-1.0, 0.0), (1.0, 0.0), (0.5, 0.5)):
                true = 0.0
                for sign in itertools.product((-1.0, 1.0), repeat=2):
                    first = [laplace_tail(-s * v, noise / epsilon) for s, v in zip(sign, (left, right), strict=True)]
                    moved = zip(sign, (left + move[0], right + move[1]), strict=True)
                    second = [laplace_tail(-s * v, noise / epsilon) for s, v in moved]
                    true = max(true, abs(math.log(first[0] * first[1] / (second[0] * second[1]))))
                yield at_most(
                    epsilon, true, None, abs(left) + abs(right), epsilon=epsilon, left=left, right=right,
                    move_left=move[0], move_right=move[1],
                )  # fmt: skip


CLAIMS = (
    Claim("Theorem 1 (vector)", VECTOR, "K bits at ε/2 each are ε-local label private", vector_cases, "exact"),
    Claim(
        "Proposition 1 (PLR)",
        STACKING,
        "objective perturbation with line 1's ε' and line 5's Δ is ε-private (tiny data, over a grid of models)",
        plr_cases,
    ),
    Claim(
        "Theorem 2.4 (stability-based histogram)",
        CONSISTENCY,
        "Lap(2/ε) and the threshold (2/ε) ln(2/δ) + 1 are (ε, δ)-private",
        stability_cases,
        "exact on these cases: δ/4",
    ),
    Claim(
        "Histogram rule",
        CONSISTENCY,
        "majority votes with Lap(1/ε) for each cell are ε-private",
        histogram_rule_cases,
        "exact; needs a noise draw for every cell, empty ones included",
    ),
)
