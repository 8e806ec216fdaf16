"""Several targets in one view: what their guesses prove of the whole trade-off curve of one of them.

The m labels are independent fair coins that the attacker does not know; c' of them are guessed, c' fixed beforehand,
and which ones may follow from the view (Mahloujifar, Melis and Chaudhuri 2025; the proof below is our own).

**The claim.** Let a label be private with trade-off curve f, symmetric: a test of one label against the other, all
other labels fixed, that is right about the one with probability y is wrong about the other with probability at least
g(y) = f(1-y). Let W be the number of right guesses, q_i = Pr[W >= i], and

    r_i = E[W; W >= i]/m,   h_i = E[c' - W; W >= i]/m.   Then h_(i-1) >= g(r_i).

*Proof.* Draw a target j, uniform among the m. Let A_y be the event that j is guessed as y while at least i-1 of the
others are guessed right, P_y its probability law if j's label is y. By the claim P_(1-y)(A_y) >= g(P_y(A_y)). Take the
mean over y, j and the others' labels: g is convex, so that the mean of the left-hand side is at least g of the mean of
P_y(A_y). The latter is the probability that j is right and W >= i, which is r_i; the former that j is guessed wrong
and W >= i-1, which is h_(i-1). ∎

**The test.** Summed by parts, m r_i = i q_i + Σ_(l>i) q_l and m h_i = (c'-i) q_i - Σ_(l>i) q_l. So

    q_(i-1) >= (m g(r_i) + Σ_(l>=i) q_l)/(c' - i + 1)   and   q_(i-1) >= q_i.

If q_c >= error for the observed number c, all further q are at least those of this recursion started at q_c = error
and 0 above, by induction: r_i and the right-hand sides grow with all q. If some q exceeds 1 that is impossible: then
q_c < error, and the claim is refused. The test at one c refuses more often as c grows, so that a true claim is refused
with probability below the error.

A curve that is given by some points (ε, δ) has g(y) = max over them of e^-ε (y - δ), 1 - δ - e^ε (1 - y) and 0.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from p2p_sim.privacy.audit_statistics.one_run_guesses import Guesses

Curve = Callable[[float], float]
"""g: at least how often a test is wrong about one label that is right about the other with probability y."""
LARGEST_MU, LARGEST_EPSILON = 50.0, 50.0
_ROUNDING = 1e-15


def curve_of(epsilons: Sequence[float], deltas: Sequence[float]) -> Curve:
    """Of a mechanism that is (ε, δ)-private at each of these points."""
    spent = np.asarray(deltas, dtype=np.float64)
    powers, kept = np.exp(np.asarray(epsilons)), 1.0 - spent - _ROUNDING

    def wrong(right: float) -> float:
        return max(0.0, float(((right - spent) / powers).max()), float((kept - powers * (1.0 - right)).max()))

    return wrong


def gaussian_curve(mu: float) -> Curve:
    """Of the Gaussian mechanism, whose labels are μ standard deviations apart: g(y) = Φ(Φ⁻¹(y) - μ)."""
    from scipy.special import ndtr, ndtri

    def wrong(right: float) -> float:
        return float(ndtr(ndtri(right) - mu)) if 0.0 < right < 1.0 else max(0.0, min(1.0, right))

    return wrong


def refuses(targets: int, guesses: Guesses, curve: Curve, error: float) -> bool:
    """Whether the guesses refuse that every target is private with this curve; a true claim falls below the error.

    Args:
        targets: m, of all runs. guesses: right + wrong of them were guessed, a number fixed beforehand. curve: g.

    >>> refuses(1000, Guesses(75, 25, 1000), curve_of([0.68], [1e-4]), 0.05)
    True
    >>> refuses(1000, Guesses(75, 25, 1000), curve_of([0.69], [1e-4]), 0.05)
    False
    """
    guessed = guesses.right + guesses.wrong
    at_least, above = error, 0.0
    for i in range(guesses.right, 0, -1):
        right = (i * at_least + above) / targets
        above += at_least
        at_least = max(at_least, (targets * curve(right) + above) / (guessed - i + 1))
        if at_least > 1.0 + 1e-9:
            return True
    return False


def proved_epsilon(targets: int, guesses: Guesses, delta: float, error: float) -> float:
    """The largest ε, at least 0, up to which every (ε, δ) is refused; rounded down."""
    return _largest(lambda e: refuses(targets, guesses, curve_of([e], [delta]), error), LARGEST_EPSILON)


def proved_mu(targets: int, guesses: Guesses, error: float) -> float:
    """The largest μ, at least 0, up to which the curve of the Gaussian mechanism is refused; rounded down."""
    return _largest(lambda mu: refuses(targets, guesses, gaussian_curve(mu), error), LARGEST_MU)


def _largest(refused: Callable[[float], bool], most: float) -> float:
    """The largest x in [0, most], rounded down to a millionth, that is refused, as all smaller ones are; 0 if none."""
    low, high = 0.0, most
    if not refused(0.0):
        return 0.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refused(middle) else (low, middle)
    return math.floor(low * 1e6) / 1e6
