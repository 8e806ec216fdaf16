"""Privacy of noisy votes and counts over the cells of a partition (Bousquet et al. 2022, *Private Bayes consistency*).

Neighbouring data sets have the same public number n of examples. With adjacency "example", one example is *replaced*.
With adjacency "label", one label differs.

*Votes.* An example in a cell has a label y_i in {0, 1}. Every cell, also an empty one, releases the sum of its
y_i - 1/2 with Laplace noise of scale 1/ε. A replaced example moves two cells by 1/2, or one cell by 1. A changed label
moves one cell by 1. So the L1 sensitivity is 1. The density ratio is e^ε at values beyond both true sums, so no smaller
ε holds. Uncentred sums Σ y_i have sensitivity 2.

*Stability-based histogram.* Only non-empty cells get noise, of scale 2/ε. A cell is kept if its noisy count is at least
T = (2/ε) ln(2/δ) + 1. A replaced example lowers one count by one and raises another. Suppose that both cells stay
non-empty. Then the density ratio is at most e^(ε/2) for each cell, and at most e^ε for both together. Now suppose that
the example is alone in a cell. The cell is kept with probability Pr[1 + Lap(2/ε) >= T] = δ/4, and never without the
example. Let P be the law with the example and Q the law without it. All else has a ratio of at most e^(ε/2). So the
excess of P over e^ε Q is at most δ/4. The excess of Q over e^ε P is at most 1 - e^(ε/2) (1 - δ/4) <= δ/4. So δ(ε) = δ/4
exactly. If δ < 1/2, a threshold smaller than T by (2/ε) ln 4 would be enough for (ε, δ). A lower bound follows if both
moved counts are at least T. Consider this event: the count that grew is seen at its larger value or above, and the
other count at its smaller value or below. The event has probability 1/4 in one world and e^-ε/4 in the other. So the
histogram is not (ε*, δ)-private for any ε* below ε + ln(1 - 4δ).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Adjacency, Bracket, PrivacyBound, check_delta, check_epsilon, check_positive_epsilon
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

PUBLIC_CELLS = Condition("public-cells", "the cells depend on n and on public data alone")
ONE_DRAW = Condition(
    "one-draw-a-cell", "each cell's noise is drawn once and kept for every query; no other release has the same seed"
)
IDEAL = Condition("real-laplace", "noise is a real Laplace variable, not its floating-point approximation")
REPLACED = Condition("replaced-example", "n is public: an example is replaced, not added")
PUBLIC_FEATURES = Condition("public-features", "features are public")
FREE_HYPOTHESES = Condition("public-hypotheses", "the hypotheses do not depend on the labelled examples")
DISJOINT = Condition("disjoint-samples", "nobody is in two of the samples (else the parameters add up)")


def vote_epsilon(epsilon: float, adjacency: Adjacency = "example") -> PrivacyBound:
    """The privacy statement on centred votes with Laplace noise of scale 1/ε in every cell: they are exactly ε-private.

    Each cell of a partition of the features releases Σ (y - 1/2) over its examples with labels y of 0 or 1. δ is 0. See
    Theorem 3.1 of *Private Bayes consistency*.

    Args:
        epsilon: ε, above 0. adjacency: "example" (one example is replaced) or "label" (one label changes, and features
        are public).

    >>> vote_epsilon(0.5).epsilon_upper
    0.5
    """
    check_positive_epsilon(epsilon)
    about = (PUBLIC_CELLS, REPLACED) if adjacency == "example" else (PUBLIC_FEATURES,)
    return PrivacyBound(
        epsilon,
        epsilon,
        0.0,
        observer="learner",
        adjacency=adjacency,
        basis="Laplace mechanism, L1 sensitivity 1",
        conditions=(ONE_DRAW, IDEAL, *about),
    )


def laplace_delta(moved: float, epsilon: float, cells: int = 1) -> float:
    """The exact δ(ε), rounded up, of cells with Laplace noise if one example moves one or two of the cells.

    Args:
        moved: the total move of the cells, in scales of the noise, above 0. Each of two cells moves by half of it.
        epsilon: ε, at least 0. cells: the number of moved cells, 1 or 2.

    >>> round(laplace_delta(1.0, 0.0), 6), round(laplace_delta(1.0, 0.0, cells=2), 6)
    (0.393469, 0.241837)
    """
    if cells not in (1, 2) or not moved > 0.0 or not epsilon >= 0.0:
        raise ValueError(f"cells = {cells}, moved = {moved}, epsilon = {epsilon}: out of range")
    excess = moved - epsilon
    if excess <= 0.0:
        return 0.0
    lost = 0.25 * excess * math.exp(-0.5 * excess) if cells == 2 else 0.0
    return max(0.0, -math.expm1(-0.5 * excess) - lost + 1e-15) * (1.0 + 1e-12)


@dataclass(frozen=True)
class NoisyVotes(Accountant):
    """Accountant of centred votes with Laplace noise of scale 1/ε in every cell, with the exact δ at every ε.

    Args:
        parameter: ε of the noise, above 0.
        adjacency: "label" (a label changes, features are public) or "example" (an example is replaced).

    >>> from p2p_sim.privacy import advantage
    >>> advantage(NoisyVotes(1.0)).upper < math.tanh(0.5) / 2  # the most that ε alone would allow
    True
    """

    requires = ANYWHERE

    parameter: float
    adjacency: Adjacency = "label"

    def __post_init__(self) -> None:
        check_positive_epsilon(self.parameter)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the bounds. For a replaced example, n must be public, too."""
        return (ONE_DRAW, IDEAL, PUBLIC_CELLS, *((REPLACED,) if self.adjacency == "example" else ()))

    @property
    def pure_epsilon(self) -> float:
        """The pure ε of the votes: `parameter`. The noise has scale 1/ε, and the votes have L1 sensitivity 1."""
        return self.parameter

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ at t = `epsilon`: 1 - e^((t-ε)/2) if t is below ε, else 0. The bounds differ by rounding alone.

        The noise has scale 1/ε. The worst case is one cell that moves by 1. Two cells that move by 1/2 cost less.
        """
        check_epsilon(epsilon)
        upper = laplace_delta(self.parameter, epsilon)
        return Bracket(max(0.0, upper * (1.0 - 2e-12) - 2e-15), upper)

    def epsilon(self, delta: float) -> PrivacyBound:
        """The ε at δ in (0, 1): max(0, ε + 2 ln(1-δ)) for noise of scale 1/ε, exact up to rounding."""
        check_delta(delta)
        exact = max(0.0, self.parameter + 2.0 * math.log1p(-delta))
        return PrivacyBound(
            exact * (1.0 - 1e-12),
            exact * (1.0 + 1e-12),
            delta,
            observer="learner",
            adjacency=self.adjacency,
            basis="Laplace mechanism, L1 sensitivity 1, exact at every δ",
            conditions=self.conditions,
        )


def stability_threshold(epsilon: float, delta: float) -> float:
    """T = (2/ε) ln(2/δ) + 1, the smallest noisy count that a stability-based histogram keeps (Algorithm 1).

    >>> round(stability_threshold(1.0, 1e-10), 3)
    48.438
    """
    check_positive_epsilon(epsilon)
    check_delta(delta)
    return 2.0 / epsilon * math.log(2.0 / delta) + 1.0


def counts_epsilon(epsilon: float, delta: float, histograms: int = 1, num_rows: float = math.inf) -> PrivacyBound:
    """The statement that k stability-based histograms of the same examples are (kε, kδ)-private, by composition.

    See Theorem 2.4, and Theorem A.14 for two histograms. T is the `stability_threshold`. Suppose that n rows can fill
    two cells of T examples each. Then the histograms are not (ε*, kδ)-private for any ε* below the lower bound
    kε + ln(1 - 4^k kδ). With fewer rows, or if 4^k kδ is at least 1, the lower bound is 0.

    Args:
        epsilon, delta: parameters of one histogram: ε above 0, δ in (0, 1). histograms: k, at least 1.
        num_rows: n, at least 1; infinity: there are enough rows for the lower bound.
    """
    threshold = stability_threshold(epsilon, delta)
    total_epsilon, total_delta = histograms * epsilon, histograms * delta
    # the lower bound kε + ln(1 - 4^k kδ), if n rows can fill two cells of T examples each
    spared = 4.0**histograms * total_delta
    attained = spared < 1.0 and num_rows >= 2.0 * math.ceil(threshold)
    lower = max(0.0, total_epsilon + math.log1p(-spared)) if attained else 0.0
    return PrivacyBound(
        lower,
        total_epsilon,
        min(total_delta, 1.0),
        observer="learner",
        adjacency="example",
        basis="stability-based histogram" + (f", {histograms} composed" if histograms > 1 else ""),
        conditions=(ONE_DRAW, IDEAL, PUBLIC_CELLS, REPLACED),
    )


@dataclass(frozen=True)
class StatedCounts(OnePoint):
    """Accountant of one statement on ε at one δ, such as `counts_epsilon`. The statement's ε is the upper bound at this
    δ and every larger δ. At a smaller δ the upper bound is infinite.
    """

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ. The stated upper bound holds from the stated δ on; at a smaller δ the upper bound is
        infinite. The stated lower bound holds up to the stated δ; at a larger δ the lower bound is 0.
        """
        bound = self.stated
        upper = bound.epsilon_upper if delta >= bound.delta * (1.0 - 1e-12) else math.inf
        lower = bound.epsilon_lower if delta <= bound.delta else 0.0
        return replace(bound, epsilon_lower=lower, epsilon_upper=upper, delta=delta)


def choice_epsilon(epsilon: float) -> PrivacyBound:
    """The statement on the exponential mechanism, which draws a hypothesis with probability ∝ exp(-ε errors / 2).

    A replaced example or a changed label moves every hypothesis's number of errors by at most 1. So the draw is
    ε-private. Take two hypotheses that differ on one example. The odds of the two change by the factor e^ε when the
    label of this example changes. So the probability of at least one hypothesis changes by a factor of e^(ε/2) or more.
    Hence the draw is not ε*-private for any ε* below ε/2.

    Args:
        epsilon: ε, above 0.
    """
    check_positive_epsilon(epsilon)
    return PrivacyBound(
        epsilon / 2.0,
        epsilon,
        0.0,
        observer="learner",
        adjacency="example",
        basis="exponential mechanism",
        conditions=(FREE_HYPOTHESES, REPLACED),
    )


def choice_delta(epsilon: float, at: float) -> float:
    """δ(at) of the exponential mechanism with parameter ε, exact in the worst case and rounded up.

    The largest and the smallest privacy loss differ by at most ε. So δ is at most (1 - e^((at-ε)/2))²/(1 - e^-ε) if
    `at` is below ε, else 0. Two groups of hypotheses of suitable sizes attain this value (Dong, Durfee and Rogers 2020,
    Optimal differential privacy composition for exponential mechanisms).

    Args:
        epsilon: ε of the choice, above 0. at: the ε at which δ is asked for, at least 0.

    >>> round(choice_delta(1.0, 0.0), 6) == round(math.tanh(0.25), 6)
    True
    """
    check_positive_epsilon(epsilon)
    check_epsilon(at)
    return float(math.expm1(0.5 * min(0.0, at - epsilon)) ** 2 / -math.expm1(-epsilon) * (1.0 + 1e-12))


def disjoint(parts: Sequence[PrivacyBound]) -> PrivacyBound:
    """The bound of several releases about different people: the largest ε and the largest δ of their bounds.

    Args:
        parts: at least one bound. All have the same observer and adjacency. Later releases may depend on earlier ones.

    Raises:
        ValueError: there are no parts, or their observers or adjacencies differ.
    """
    if len({(part.observer, part.adjacency) for part in parts}) != 1:
        raise ValueError(f"parts: {len(parts)} bounds; needs at least one, all of one observer and adjacency")
    conditions = dict.fromkeys(condition for part in parts for condition in part.conditions)
    delta = max(part.delta for part in parts)
    # a lower bound that holds at a smaller δ need not hold at the largest δ
    lower = max(part.epsilon_lower for part in parts if part.delta == delta)
    return PrivacyBound(
        lower,
        max(part.epsilon_upper for part in parts),
        delta,
        observer=parts[0].observer,
        adjacency=parts[0].adjacency,
        basis="parallel composition: " + " | ".join(part.basis for part in parts),
        conditions=(*conditions, DISJOINT),
    )
