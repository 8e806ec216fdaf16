"""The *advantage* of an observer: how much more often she guesses a user's label right because the user took part.

The observer knows everything but the label of one user, the target. For her this label has law π, the prior, whatever
the other users' labels are. Before she sees anything of the target, her guess is right with probability max π. Let the
view V be all that she sees, and P_y the law of V if the label is y. With the view, her guess is right with probability
Σ_v max_y π_y P_y(v). The advantage is the difference. The bounds hold for any labels of the other users. They
hold for an observer who knows less, too: her advantage is at most a mean of advantages over these labels.

**Two labels.** Let p be the smaller prior probability, held by label 1, and [x]₊ = max(0, x). Since
max(a, b) = a + [b - a]₊, the advantage is p Σ [P₁ - e^ε P₀]₊ with ε = ln((1-p)/p). So it is p times a hockey-stick
divergence, and at most p δ(ε). Equality holds for the data set and direction that attain δ(ε). As p grows, ε falls,
and δ(ε) does not fall. So p = 1/2 is the worst prior, and gives δ(0)/2.

**K labels.** Let t be the most likely label. In the same way the advantage is at most Σ_{y≠t} π_y δ(ln(π_t/π_y)). For
every ε, another bound is

    π_t e^ε/(1-π_t+π_t e^ε) - π_t + δ(ε) Σ_y π_y (1-π_y)/(1-π_y+π_y e^ε).

*Proof.* Let A_y be the views after which she guesses y. Let s_y = π_y P_y(A_y), and q_y = Pr[A_y]; the q_y sum to 1.
Sum P_y(A_y) <= e^ε P_z(A_y) + δ over z ≠ y with weights π_z. This gives (1-π_y) s_y/π_y <= e^ε (q_y - s_y) + (1-π_y) δ.
Solve for s_y and sum over y. The factor of q_y is π_y e^ε/(1-π_y+π_y e^ε). This factor grows with π_y, so the largest
is at π_t. ∎ The smallest of these bounds is used.
"""

import math
from collections.abc import Sequence

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, plain_arguments
from p2p_sim.privacy.dominating_law import LossLaw

Prior = float | Sequence[float] | Floats
GRID = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Values of ε at which the second bound for K labels is tried. The pure ε, with δ = 0, is tried as well if it is finite
and not too large."""
_UP, _DOWN = 1.0 + 1e-12, 1.0 - 1e-12
"""Factors that move a bound up or down by more than the rounding of a few sums and products."""
_ROUNDING = 1e-14
"""Bound of the rounding of δ in sums over a loss law."""


@plain_arguments
def advantage(model: Accountant, prior: Prior = 0.5) -> Bracket:
    """Bounds of the observer's largest advantage over all data sets, whichever label has which prior value.

    The advantage is how much her view raises the probability that her best guess of a label is right.

    Args:
        model: the accountant of what the observer sees.
        prior: probability of the less likely of two labels, above 0 and at most 1/2; or K probabilities, (K,).

    Returns:
        The upper end is certified; the lower end is attained by a data set.

    Raises:
        ValueError: the prior is out of range, or does not sum to 1.
    """
    ranked, pure = checked_prior(prior), model.pure_epsilon
    top, rest = float(ranked[0]), ranked[1:][ranked[1:] > 0.0]
    if not len(rest):
        return Bracket(0.0, 0.0)
    # δ is needed at ln(π_t/π_y), and for the second bound at other ε. As δ falls with ε, ln(π_t/π_y) is rounded down
    # for the upper bound, and up for the lower bound
    at = np.log(top / rest)
    tries = [e for e in GRID if e < pure] if len(ranked) > 2 else []
    high, low = (at * (1.0 - 1e-15)).tolist(), (at * (1.0 + 1e-15)).tolist()
    distinct = list(dict.fromkeys([*high, *low, *tries]))  # many labels may be equally likely
    brackets = dict(zip(distinct, model.profile(distinct), strict=True))
    upper = float(sum(p * brackets[epsilon].upper for p, epsilon in zip(rest.tolist(), high, strict=True)))
    lower = max(p * brackets[epsilon].lower for p, epsilon in zip(rest.tolist(), low, strict=True))
    deltas = [brackets[epsilon].upper for epsilon in tries]
    if pure <= LARGEST_EPSILON:
        tries, deltas = [*tries, pure], [*deltas, 0.0]
    upper = min(upper, float(_by_posterior(ranked[None, :], np.array(tries), np.array(deltas))[0]), 1.0 - top)
    return Bracket(lower * _DOWN, upper * _UP)


@plain_arguments
def worst_advantage(model: Accountant, num_classes: int = 2) -> Bracket:
    """Bounds of the observer's largest advantage (see `advantage`) over all priors of K labels.

    Let π_t be the prior probability of the most likely label t, at least 1/K. The advantage is at most (1-π_t) δ(0). At
    the pure ε, where δ = 0, it is at most π_t e^ε/(1-π_t+π_t e^ε) - π_t. This is largest at π_t = 1/(1+e^(ε/2)), or at
    1/K if 1/K is larger. The lower bound is δ(0)/2, which a uniform prior on two labels attains.

    Args:
        model: the accountant of what the observer sees. num_classes: K, at least 2.
    """
    if num_classes < 2:
        raise ValueError(f"num_classes = {num_classes}: must be at least 2")
    zero, pure = model.profile([0.0])[0], model.pure_epsilon
    upper = (1.0 - 1.0 / num_classes) * zero.upper
    if pure <= LARGEST_EPSILON:
        top = max(1.0 / num_classes, 1.0 / (1.0 + math.exp(pure / 2.0)))  # at least 1/2 for two labels
        upper = min(upper, _posterior(top, pure) - top)
    return Bracket(zero.lower / 2.0 * _DOWN, upper * _UP)


def advantages(law: LossLaw, priors: Floats) -> Floats:
    """Upper bounds (m,) of the observer's advantage (see `advantage`) for each of m users.

    Args:
        law: a law that dominates every user's privacy loss.
        priors: (m, K), each user's prior of her label, in rows of sum 1.
    """
    ranked = -np.sort(-np.asarray(priors, dtype=np.float64), axis=1)
    top, rest = ranked[:, :1], ranked[:, 1:]
    with np.errstate(divide="ignore"):
        upper = (rest * deltas_of(law, np.log(top / rest))).sum(axis=1)
    tries = np.array([*(GRID if ranked.shape[1] > 2 else ()), *([law.pure] if law.pure <= LARGEST_EPSILON else ())])
    upper = np.minimum(upper, _by_posterior(ranked, tries, deltas_of(law, tries)))
    return np.asarray(np.minimum(upper, 1.0 - top[:, 0]) * _UP)


def local_advantage(total_variation: float, epsilon: float, num_classes: int) -> float:
    """Upper bound of the advantage of an observer who sees one message and knows whose it is, for a uniform prior.

    `advantage` defines the word. The bound is exact for randomised response among all K labels, and for any message
    about two labels.

    Args:
        total_variation: δ(0) of the message. epsilon: the pure ε of the message, perhaps infinite. num_classes: K, at
        least 2.
    """
    share = 1.0 / num_classes
    return min((1.0 - share) * total_variation, _posterior(share, epsilon) - share) * _UP


def deltas_of(law: LossLaw, epsilons: Floats) -> Floats:
    """Upper bounds of a law's δ(ε) at each ε of an array (at least 0, perhaps infinite), in the array's shape."""
    weights = law.masses * np.exp(-law.losses)
    above = np.append(np.cumsum(law.masses[::-1])[::-1], 0.0)
    neighbour = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
    # Σ over losses l > ε of mass · (1 - e^(ε-l)), computed from sums over each loss and all larger ones
    first = np.searchsorted(law.losses, epsilons, side="right")
    grown = np.exp(np.minimum(epsilons, law.top))
    deltas = law.infinite + above[first] - grown * neighbour[first] + _ROUNDING
    return np.where(epsilons >= law.pure, 0.0, np.clip(deltas, 0.0, 1.0))


def checked_prior(prior: Prior) -> Floats:
    """The probabilities (K,) of a prior, largest first; ValueError unless they are a prior of at least 2 labels."""
    if isinstance(prior, int | float):
        if not 0.0 < prior <= 0.5:
            raise ValueError(f"prior = {prior}: must be above 0 and at most 0.5, for the less likely of two labels")
        return np.array([1.0 - prior, prior])
    shares = np.asarray(prior, dtype=np.float64)
    if shares.ndim != 1 or len(shares) < 2 or not (shares >= 0.0).all() or not abs(shares.sum() - 1.0) <= 1e-9:
        raise ValueError(f"prior = {shares.tolist()}: must be at least two probabilities that sum to 1")
    return np.asarray(-np.sort(-shares))


def _posterior(top: float, epsilon: float) -> float:
    """The largest posterior probability, after an ε-private view, of a label whose prior probability is `top`."""
    return top / (top + (1.0 - top) * math.exp(-epsilon))


def _by_posterior(ranked: Floats, epsilons: Floats, deltas: Floats) -> Floats:
    """An upper bound of the observer's advantage for each of m users, (m,): the least over p pairs (ε, δ).

    Each pair must hold for what she sees. A pair gives the bound π_t e^ε/(1-π_t+π_t e^ε) - π_t + δ Σ_y π_y
    (1-π_y)/(1-π_y+π_y e^ε). Here π_y is the prior probability of label y, and t the most likely label.

    Args:
        ranked: (m, K), each user's prior of K labels, largest first. epsilons, deltas: (p,) each, the pairs; for p = 0
        the result is infinite.
    """
    best = np.full(len(ranked), np.inf)
    for epsilon, delta in zip(epsilons.tolist(), deltas.tolist(), strict=True):
        likely = ranked[:, 0] / (ranked[:, 0] + (1.0 - ranked[:, 0]) * math.exp(-epsilon))
        less = (ranked * (1.0 - ranked) / (1.0 + ranked * math.expm1(epsilon))).sum(axis=1)
        best = np.minimum(best, likely - ranked[:, 0] + delta * less)
    return best
