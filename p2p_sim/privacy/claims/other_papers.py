"""Claims of other papers: vector approximation, private logistic regression (PLR) and two kinds of histograms."""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.claims.claim import CONSISTENCY, STACKING, VECTOR, Claim, ClaimCase, at_most
from p2p_sim.privacy.rivals import laplace_tail


def vector_cases(budget_share: float = 0.5) -> Iterator[ClaimCase]:
    """Cases of the claim that a label of K classes, released as K noisy bits, is ε-private.

    The bit of the true class is 1, and all other bits are 0. Each bit is flipped with probability 1/(1 + e^(ε/2)). Each
    case compares ε with the exact pure ε. The exact value is the largest log-ratio over all 2^K outputs and all pairs
    of labels.

    Args:
        budget_share: the share of ε that each bit gets, 1/2 in the vector approximation paper. With a larger share the
        claim must fail (a control).
    """
    for classes, epsilon in itertools.product((2, 3, 5, 8), (0.1, 1.0, 4.0)):
        outputs = np.array(list(itertools.product((0, 1), repeat=classes)))
        keep = float(expit(budget_share * epsilon))
        laws = [np.where(outputs == truth, keep, 1.0 - keep).prod(axis=1) for truth in np.eye(classes)]
        true = max(float(np.abs(np.log(a / b)).max()) for a, b in itertools.combinations(laws, 2))
        yield at_most(epsilon, true, None, classes, K=classes, epsilon=epsilon)


class PlrParameters(NamedTuple):
    """Parameters of objective perturbation.

    noise_epsilon: ε', which sets the noise. extra_l2: Δ, the additional regularisation.
    """

    noise_epsilon: float
    extra_l2: float


def plr_parameters(epsilon: float, n: int, strength: float) -> PlrParameters:
    """The noise parameter ε' and the additional regularisation Δ of private logistic regression by objective
    perturbation.

    The formulas are lines 1 to 6 of the stacking paper's Algorithm 1. First, ε' = ε - ln(1 + 1/(2nλ) + 1/(16n²λ²)) and
    Δ = 0. The logarithm pays for the dependence of the loss's curvature on one example. If this ε' is not positive,
    ε' becomes ε/2, and Δ becomes 1/(4n(e^(ε/4) - 1)) - λ.

    Args:
        epsilon: ε, the privacy of the model. n: number of examples. strength: λ, above 0, the regularisation.
    """
    inner = epsilon - math.log(1.0 + 1.0 / (2.0 * n * strength) + 1.0 / (16.0 * n**2 * strength**2))
    if inner > 0.0:
        return PlrParameters(inner, 0.0)
    return PlrParameters(epsilon / 2.0, 1.0 / (4.0 * n * math.expm1(epsilon / 4.0)) - strength)


def model_log_density(w: Floats, x: Floats, y: Floats, *, strength: float, noise_epsilon: float) -> Floats:
    """Log-density (W,), up to a constant, of the model that objective perturbation for logistic regression releases.

    The released w minimises a sum of three terms: the n losses, n · strength · |w|²/2, and b·w with random noise b.
    Each w is the minimiser for exactly one noise b(w). So the log-density is -ε'|b|/2 + ln det db/dw.

    Args:
        w: (W, d) the models for which it is computed. x, y: (n, d) features in the unit ball and (n,) labels ±1.
        strength: λ + Δ, the given plus the additional regularisation. noise_epsilon: ε'; the noise b has a density
        proportional to e^(-ε'|b|/2).
    """
    n, margins = len(y), w @ (x * y[:, None]).T
    noise = -(-expit(-margins) @ (x * y[:, None]) + n * strength * w)
    curvature = np.einsum("wi,ij,ik->wjk", expit(margins) * expit(-margins), x, x) + n * strength * np.eye(x.shape[1])
    return np.asarray(-0.5 * noise_epsilon * np.linalg.norm(noise, axis=1) + np.log(np.linalg.det(curvature)))


def plr_cases(budget: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of the claim that objective perturbation for logistic regression is ε-private.

    Each case compares ε with a log-ratio of two densities of the released model. The log-ratio is the largest on a grid
    of models, and so a lower bound of the true largest one. So a case can refute the claim. Beyond the grid, the claim
    rests on the stacking paper's proof. The data sets have one or two examples in one or two dimensions. Two
    neighbouring data sets differ in the features and the label of one example.

    Args:
        budget: factor of ε', which sets the noise. With a factor above 1 the claim must fail (a control).
    """
    # models and examples: on a line, and in 16 directions of a plane
    radii = np.geomspace(1e-3, 1e3, 60)
    line = np.r_[-radii[::-1], 0.0, radii]
    angles = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
    plane = np.concatenate([np.outer(np.abs(line), [np.cos(a), np.sin(a)]) for a in angles])
    models = {1: line[:, None], 2: plane}
    points = {1: np.array([[-1.0], [1.0], [0.5]]), 2: np.c_[np.cos(angles), np.sin(angles)]}
    for d, n, strength, epsilon in itertools.product((1, 2), (1, 2), (0.01, 1.0), (0.1, 1.0, 4.0)):
        noise_epsilon, extra_l2 = plr_parameters(epsilon, n, strength)
        # log-densities at all models, for each choice of the first example
        log_densities = []
        for point, label in itertools.product(points[d], (-1.0, 1.0)):
            x, y = np.array([point, *[points[d][0]] * (n - 1)]), np.array([label, *[-1.0] * (n - 1)])
            log_densities.append(
                model_log_density(models[d], x, y, strength=strength + extra_l2, noise_epsilon=budget * noise_epsilon)
            )
        true = max(float(np.abs(a - b).max()) for a, b in itertools.combinations(log_densities, 2))
        yield at_most(epsilon, true, None, n + d, n=n, d=d, strength=strength, epsilon=epsilon)


def reported(count: int, epsilon: float, delta: float, shift: float = 1.0) -> float:
    """The probability that a stability-based histogram with noise Lap(2/ε) reports a cell with this true count. A
    reported cell is not empty, and its noisy count is at least (2/ε) ln(2/δ) + shift.
    """
    return laplace_tail(2.0 / epsilon * math.log(2.0 / delta) + shift - count, 2.0 / epsilon) if count > 0 else 0.0


def stability_cases(shift: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of the claim that a stability-based histogram is (ε, δ)-private.

    Such a histogram adds Laplace noise of scale 2/ε to the counts of all cells that are not empty. A noisy count is
    reported if it reaches the threshold (2/ε) ln(2/δ) + shift. Each case has two cells, between which one example
    moves. The case compares δ with the exact δ(ε) of the two cells.

    All true counts here are below the threshold. Laplace tails are exponential, so that the law (distribution) of a
    reported noisy count does not depend on the true count. At larger counts each cell's privacy loss is at most ε/2.
    Only a cell that becomes empty costs δ. With shift = 1 this cost is exactly δ/4: a cell with one example is reported
    with this probability, and an empty cell never.

    Args:
        shift: the last term of the threshold, 1 in the paper that makes the claim.
    """
    for epsilon, delta, left, right in itertools.product((0.1, 0.5, 1.0), (1e-2, 1e-4, 1e-8), (1, 2, 3), (0, 1, 3)):
        # before and after the move: the probabilities of four outcomes (each of the two cells is reported or not)
        laws = []
        for counts in ((left, right), (left - 1, right + 1)):
            chances = [reported(count, epsilon, delta, shift) for count in counts]
            laws.append([p * q for p in (1.0 - chances[0], chances[0]) for q in (1.0 - chances[1], chances[1])])
        true = max(
            sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(first, second, strict=True))
            for first, second in (laws, laws[::-1])
        )
        yield at_most(delta, true, None, left + right, epsilon=epsilon, delta=delta, left=left, right=right)


def histogram_rule_cases(noise: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of the claim that the histogram rule, a classifier, is ε-private.

    In each cell of the feature space the rule adds Laplace noise to the sum of the votes ±1/2. The sign of the result
    is the cell's decision. Each case compares ε with the pure ε of the decisions in two cells. One example moves
    between these cells or changes its label.

    Args:
        noise: ε times the scale of the Laplace noise on a cell's sum of votes; 1 in the paper that makes the claim.
    """
    grid = np.arange(-2.0, 2.5, 0.5)
    moves = ((-0.5, -0.5), (-0.5, 0.5), (-1.0, 0.0), (1.0, 0.0), (0.5, 0.5))
    for epsilon, left, right, move in itertools.product((0.1, 1.0, 3.0), grid, grid, moves):
        moved, true, scale = (left + move[0], right + move[1]), 0.0, noise / epsilon
        # the two decisions, as signs of the noisy votes
        for signs in itertools.product((-1.0, 1.0), repeat=2):
            first, second = (
                math.prod(laplace_tail(-sign * vote, scale) for sign, vote in zip(signs, votes, strict=True))
                for votes in ((left, right), moved)
            )
            true = max(true, abs(math.log(first / second)))
        yield at_most(
            epsilon, true, None, abs(left) + abs(right), epsilon=epsilon, left=left, right=right, move_left=move[0],
            move_right=move[1],
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
