"""How much more often an observer guesses a label right because its owner took part: the observer's *advantage*.

The observer knows everything but the target's label, which has law π to her knowledge, whatever the others' labels are.
Before she sees anything of the target she is right with probability max π. With the view V she is right with
probability Σ_v max_y π_y P_y(v), where P_y is the law of V if the label is y. The advantage is the difference. An
observer who knows less of the others has no more: given the others' labels the same holds, and max π is the same.

**Two labels**, p the smaller prior, held by label 1: max(a, b) = a + [b - a]₊ gives p Σ [P₁ - e^ε P₀]₊ with
ε = ln((1-p)/p). So the advantage is p times a hockey-stick divergence, at most p δ(ε), which is attained by the
data set and direction that attain δ(ε). As δ falls with ε, p = 1/2 is the worst prior: δ(0)/2.

**K labels**, t the most likely: in the same way the advantage is at most Σ_{y≠t} π_y δ(ln(π_t/π_y)). It is also at most

    π_t e^ε/(1-π_t+π_t e^ε) - π_t + δ(ε) Σ_y π_y (1-π_y)/(1-π_y+π_y e^ε)   for every ε.

*Proof.* Let A_y be the views that make her guess y, s_y = π_y P_y(A_y), and q_y = Pr[A_y], which sum to 1. Sum
P_y(A_y) <= e^ε P_z(A_y) + δ over z ≠ y with weights π_z: (1-π_y) s_y/π_y <= e^ε (q_y - s_y) + (1-π_y) δ. Solve for s_y
and sum over y; π e^ε/(1-π+π e^ε) grows with π. ∎ The smallest of these bounds is used.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket
from p2p_sim.privacy.dominating_law import LossLaw

Profile = Callable[[Sequence[float]], list[Bracket]]
"""δ at several ε."""
Prior = float | Sequence[float] | Floats
GRID = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Values of ε at which the second bound for K labels is tried, besides the pure ε."""
_UP, _DOWN = 1.0 + 1e-12, 1.0 - 1e-12
"""Factors for the rounding of a few sums and products."""
_ROUNDING = 1e-14
"""Charged for δ from sums over a loss law."""


def of_prior(profile: Profile, pure: float, prior: Prior) -> Bracket:
    """Bounds of the advantage for one prior, the largest over all data sets and assignments of it to the labels.

    Args:
        profile: δ at several ε, for all data sets and directions. pure: an ε at which δ is 0, or infinity.
        prior: probability of the less likely of two labels, above 0 and at most 1/2; or those of K labels, (K,).

    Returns:
        The upper end is certified; the lower end is attained by a data set.

    Raises:
        ValueError: the prior is out of range.
    """
    ranked = checked_prior(prior)
    top, rest = float(ranked[0]), ranked[1:][ranked[1:] > 0.0]
    if not len(rest):
        return Bracket(0.0, 0.0)
    # δ at ln(π_t/π_y), a little below for the upper end and above for the lower one, and at the ε of the second bound
    at = np.log(top / rest)
    tries = [e for e in GRID if e < pure] if len(ranked) > 2 else []
    high, low = (at * (1.0 - 1e-15)).tolist(), (at * (1.0 + 1e-15)).tolist()
    distinct = list(dict.fromkeys([*high, *low, *tries]))  # many labels may be equally likely
    brackets = dict(zip(distinct, profile(distinct), strict=True))
    upper = float(sum(p * brackets[epsilon].upper for p, epsilon in zip(rest.tolist(), high, strict=True)))
    lower = max(p * brackets[epsilon].lower for p, epsilon in zip(rest.tolist(), low, strict=True))
    deltas = [brackets[epsilon].upper for epsilon in tries]
    if pure <= LARGEST_EPSILON:
        tries, deltas = [*tries, pure], [*deltas, 0.0]
    upper = min(upper, float(_by_posterior(ranked[None, :], np.array(tries), np.array(deltas))[0]), 1.0 - top)
    return Bracket(lower * _DOWN, upper * _UP)


def over_priors(profile: Profile, pure: float, num_classes: int) -> Bracket:
    """The largest advantage of the observer over all priors of K labels.

    The first bound is at most (1-π_t) δ(0) with π_t >= 1/K. The second with δ = 0, at the pure ε, is largest at π_t =
    1/(1+e^(ε/2)), or at 1/K if that is larger. The prior that is uniform over two labels attains δ(0)/2.

    Args:
        profile, pure: as in `of_prior`. num_classes: K, at least 2.
    """
    if num_classes < 2:
        raise ValueError(f"num_classes = {num_classes}: must be at least 2")
    zero = profile([0.0])[0]
    upper = (1.0 - 1.0 / num_classes) * zero.upper
    if pure <= LARGEST_EPSILON:
        top = max(1.0 / num_classes, 1.0 / (1.0 + math.exp(pure / 2.0)))  # at least 1/2 for two labels
        upper = min(upper, _posterior(top, pure) - top)
    return Bracket(zero.lower / 2.0 * _DOWN, upper * _UP)


def advantages(law: LossLaw, priors: Floats) -> Floats:
    """Upper bounds (m,) of the observer's advantage about each of m users' labels.

    Args:
        law: a law of the privacy loss that holds for all of them. priors: (m, K) of each user's label, rows of sum 1.
    """
    ranked = -np.sort(-np.asarray(priors, dtype=np.float64), axis=1)
    top, rest = ranked[:, :1], ranked[:, 1:]
    with np.errstate(divide="ignore"):
        upper = (rest * deltas_of(law, np.log(top / rest))).sum(axis=1)
    tries = np.array([*(GRID if ranked.shape[1] > 2 else ()), *([law.pure] if law.pure <= LARGEST_EPSILON else ())])
    upper = np.minimum(upper, _by_posterior(ranked, tries, deltas_of(law, tries)))
    return np.asarray(np.minimum(upper, 1.0 - top[:, 0]) * _UP)


def local_advantage(total_variation: float, epsilon: float, num_classes: int) -> float:
    """Upper bound of the advantage of an observer who sees one message with its owner, for a uniform prior.

    It is exact for randomised response among all K labels, and for any message about two labels.

    Args:
        total_variation: δ(0) of the message. epsilon: its ε₀, infinite allowed. num_classes: K, at least 2.
    """
    share = 1.0 / num_classes
    return min((1.0 - share) * total_variation, _posterior(share, epsilon) - share) * _UP


def deltas_of(law: LossLaw, epsilons: Floats) -> Floats:
    """Upper bounds of δ(ε) of a law at an array of ε, each at least 0 or infinite; of the same shape."""
    weights = law.masses * np.exp(-law.losses)
    above = np.append(np.cumsum(law.masses[::-1])[::-1], 0.0)
    neighbour = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
    # Σ over losses l > ε of mass (1 - e^(ε-l)), from the sums from each loss on
    first = np.searchsorted(law.losses, epsilons, side="right")
    grown = np.exp(np.minimum(epsilons, law.top))
    deltas = law.infinite + above[first] - grown * neighbour[first] + _ROUNDING
    return np.where(epsilons >= law.pure, 0.0, np.clip(deltas, 0.0, 1.0))


def checked_prior(prior: Prior) -> Floats:
    """A prior as its probabilities, largest first, (K,); raises ValueError if it is none or K is below 2."""
    if isinstance(prior, int | float):
        if not 0.0 < prior <= 0.5:
            raise ValueError(f"prior = {prior}: must be above 0 and at most 0.5, for the less likely of two labels")
        return np.array([1.0 - prior, prior])
    shares = np.asarray(prior, dtype=np.float64)
    if shares.ndim != 1 or len(shares) < 2 or not (shares >= 0.0).all() or not abs(shares.sum() - 1.0) <= 1e-9:
        raise ValueError(f"prior = {shares.tolist()}: must be at least two probabilities that sum to 1")
    return np.asarray(-np.sort(-shares))


def _posterior(top: float, epsilon: float) -> float:
    """The largest posterior probability of a label whose prior is `top`, after a view that is ε-private."""
    return top / (top + (1.0 - top) * math.exp(-epsilon))


def _by_posterior(ranked: Floats, epsilons: Floats, deltas: Floats) -> Floats:
    """The module's second bound of the advantage for K labels, (m,): the smallest over the given (ε, δ).

    ranked: (m, K) priors of m users, largest first.
    """
    best = np.full(len(ranked), np.inf)
    for epsilon, delta in zip(epsilons.tolist(), deltas.tolist(), strict=True):
        likely = ranked[:, 0] / (ranked[:, 0] + (1.0 - ranked[:, 0]) * math.exp(-epsilon))
        less = (ranked * (1.0 - ranked) / (1.0 + ranked * math.expm1(epsilon))).sum(axis=1)
        best = np.minimum(best, likely - ranked[:, 0] + delta * less)
    return best
