"""Accountant of DP-SGD under label adjacency: noisy sums of clipped gradients of Poisson-sampled batches.

A step releases S + b g + σC·N(0, I), with clipping norm C and noise multiplier σ. S is the sum of the other users'
clipped gradients in the batch. The target is in the batch with probability q; then b = 1, else b = 0. Her clipped
gradient is g in one world and g' in the other, where |g| ≤ C and |g'| ≤ C. Replacing a record costs up to twice as much
as adding one.

**Dominating pair.** In units of C, the pair P = (1-q) N(0, σ²) + q N(1, σ²) and its mirror image Q dominate one step.

*Proof.* By joint convexity S may be taken as given, and subtracted. N(g) is the Gaussian law with mean g and variance
σ². Let γ ≥ 1 and w = (γ-1)(1-q)/q ≥ 0. We compare (1-q) N(0) + q N(g) with (1-q) N(0) + q N(g'). Their hockey-stick
divergence HS_γ is q ∫ [N(g) - w N(0) - γ N(g')]₊. As an expectation under N(g), it is q E h(w e^X + γ e^Y). Here h(s) =
[1-s]₊ is convex. X and Y are the logarithms of the density ratios N(0)/N(g) and N(g')/N(g). X and Y are jointly
Gaussian. Var X = |g|²/σ² ≤ 1/σ², Var Y = |g-g'|²/σ² ≤ 4/σ², and E e^X = E e^Y = 1. Two changes increase the divergence:

1. Add independent Gaussian parts of mean -variance/2 to X and Y, until both variances reach these bounds. (E e^part =
   1; Jensen.)
2. Then increase Cov(X, Y). (∂²/∂x∂y h(w e^x + γ e^y) = w γ e^(x+y) h'' ≥ 0; Slepian, Price.) The covariance is at most
   2/σ². On a line, g = 1 and g' = -1 reach this value.

For γ < 1 exchange the roles of g and g', because the pair is its own mirror image. ∎

A pair composes adaptively if it dominates every step, whatever came before (Zhu, Dong and Wang 2022, Theorem 10). The
library dp-accounting uses the same pair for neighbours by replacement (REPLACE_ONE).

For the clipped gradients (p - e_y)⊗x of logistic regression, no bound of |g - g'| below 2C holds. With two classes g
and g' point in opposite directions, and before clipping both may be longer than C.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import (
    Bracket,
    PrivacyBound,
    check_delta,
    check_epsilon,
    check_positive_epsilon,
    check_range,
    plain_arguments,
)
from p2p_sim.privacy.conditions import REAL_NOISE, Condition
from p2p_sim.privacy.dominating_law import library_of_plds
from p2p_sim.privacy.exchange import smallest_of_three_digits
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

LABEL_FREE_CHOICES = Condition(
    "label-free-choices", "features are public, and no hyperparameter was chosen by looking at labels"
)
DP_SGD_CONDITIONS: tuple[Condition, ...] = (
    Condition("trusted-curator-noise", "a trusted curator holds the labels and adds the noise"),
    Condition("poisson-sampling", "every step draws each user independently with the sampling rate (Poisson sampling)"),
    LABEL_FREE_CHOICES,
    REAL_NOISE,
)
PROJECTED_CONDITIONS = (
    *DP_SGD_CONDITIONS,
    Condition("public-rows-apart", "the public rows of a step are drawn independently of its batch"),
)
_ROUNDING = 1e-15
"""Allowed rounding error of δ for each step. At q = 1 δ has a closed form; the largest error seen there was over ten
times smaller.
"""
LARGEST_STEPS = 1_000_000
SMALLEST_NOISE, LARGEST_NOISE = 0.05, 1e6
_STEP_BINS, _TOTAL_BINS = 30_000, 1_000_000
"""Largest number of bins of the privacy loss of a single step, and of all steps together."""


@dataclass(frozen=True)
class DpSgd(Accountant):
    """Accountant of noisy gradient steps. The learner sees the model after every step; one user's label changes.

    Args:
        noise_multiplier: σ, 0.05 to 1e6, the standard deviation of the noise in units of the clipping norm C.
        sampling_rate: q in (0, 1], the probability that a user is in a batch.
        steps: number of steps, 1 to 1,000,000.

    >>> round(DpSgd(noise_multiplier=2.0, sampling_rate=0.05, steps=400).epsilon(1e-6).epsilon_upper, 1)
    4.9
    """

    requires = ANYWHERE
    conditions: ClassVar[tuple[str, ...]] = DP_SGD_CONDITIONS

    noise_multiplier: float
    sampling_rate: float
    steps: int

    def __post_init__(self) -> None:
        check_range("noise_multiplier", self.noise_multiplier, SMALLEST_NOISE, LARGEST_NOISE)
        _check_schedule(self.sampling_rate, self.steps)

    @property
    def least_delta(self) -> float:
        """The smallest δ at which ε is computed: 1e-14 times the number of steps. Rounding would hide a smaller δ."""
        return 10.0 * _ROUNDING * self.steps

    def delta(self, epsilon: float) -> Bracket:
        """Upper bound of δ(ε) for ε at least 0, with 1e-15 for the rounding of each step. The lower bound is 0."""
        check_epsilon(epsilon)
        try:
            upper = float(_composed(self).get_delta_for_epsilon(epsilon)) + _ROUNDING * self.steps
        except OverflowError:  # the exponential of a loss overflows
            upper = 1.0
        return Bracket(0.0, min(1.0, upper))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ against the learner. The lower bound is 0. The upper bound is infinite if the noise is too
        small.

        Raises:
            ValueError: δ is outside (0, 1), or below 1e-14 times the number of steps, where rounding hides it.
        """
        check_delta(delta)
        if delta < self.least_delta:
            raise ValueError(
                f"delta = {delta}: must be at least {self.least_delta:g} for {self.steps} steps, because of rounding"
            )
        try:
            upper = max(0.0, float(_composed(self).get_epsilon_for_delta(delta - _ROUNDING * self.steps)))
        except OverflowError:  # the exponential of a loss overflows
            upper = math.inf
        basis = "Poisson-sampled Gaussian steps, one label replaced: composed privacy loss distributions, pessimistic"
        return PrivacyBound(
            0.0, upper, delta, observer="learner", adjacency="label", basis=basis, conditions=self.conditions
        )


@dataclass(frozen=True)
class ProjectedSteps(DpSgd):
    """Accountant of LabelDP-Pro: the steps of `DpSgd`, each projected on a set made of features and earlier steps.

    If the set does not depend on who is in the batch, the projection is a post-processing. The δ(ε) of `DpSgd` then
    holds. A set made of the batch's own rows would reveal the batch. For a user who is known to be in the batch, a step
    is the Gaussian mechanism without subsampling.
    """

    conditions = PROJECTED_CONDITIONS


@plain_arguments
@lru_cache(maxsize=128)
def calibrate_noise(epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """The smallest noise multiplier σ with which noisy gradient steps (`DpSgd`) are certified for (ε, δ) against the
    learner. σ has three significant digits and is at least 0.05. If σ is just below a power of 4, the result may be
    this power, with all digits.

    Args:
        epsilon: the target ε, above 0. delta: the target δ in (0, 1), at least 1e-14 times the number of steps.
        sampling_rate: q in (0, 1], the probability that a user is in the batch of a step. steps: the number of steps, 1
        to 1,000,000.

    Raises:
        ValueError: a value is out of its range, or a multiplier of 1e6 does not suffice.
    """
    check_delta(delta)
    _check_schedule(sampling_rate, steps)
    check_positive_epsilon(epsilon)

    def certified(sigma: float) -> bool:
        return DpSgd(sigma, sampling_rate, steps).epsilon(delta).epsilon_upper <= epsilon

    # upwards from 1 to a multiplier that is enough
    high = 1.0
    while not certified(high):
        if high == LARGEST_NOISE:
            raise ValueError(f"epsilon = {epsilon}: needs a noise multiplier above {LARGEST_NOISE:g}")
        high = min(4.0 * high, LARGEST_NOISE)
    # downwards to a multiplier that is not enough; the least that is enough lies between the two
    low = max(high / 4.0, SMALLEST_NOISE)
    while certified(low):
        if low == SMALLEST_NOISE:
            return low
        low, high = max(low / 4.0, SMALLEST_NOISE), low
    return smallest_of_three_digits(certified, low, high)


def _check_schedule(sampling_rate: float, steps: int) -> None:
    if not 0.0 < sampling_rate <= 1.0:
        raise ValueError(f"sampling_rate = {sampling_rate}: must lie in (0, 1]")
    if not 1 <= steps <= LARGEST_STEPS:
        raise ValueError(f"steps = {steps}: must lie in 1..{LARGEST_STEPS:,}")


@lru_cache(maxsize=32)
def _composed(steps: DpSgd) -> Any:
    """The distribution of the privacy loss of all gradient steps together, from the library dp-accounting. The library
    rounds the distribution so that δ is an upper bound.

    The library cuts the range of the loss into bins. Any width gives an upper bound of δ; finer bins give a smaller
    bound. The width is at most 0.001, and about a thirtieth of the standard deviation of one step's loss. The width is
    larger if there would be too many bins.
    """
    library = library_of_plds()
    from dp_accounting import NeighboringRelation

    sigma, rate = steps.noise_multiplier, steps.sampling_rate
    spread = 2.0 * rate * math.sqrt(math.sinh(min(sigma**-2, 600.0)))  # of one step's loss; 600 avoids overflow
    largest = 2.0 * (10.0 * sigma + 1.0) / sigma**2  # loss at q = 1 if the noise is ten standard deviations
    mean = 2.0 * rate * steps.steps / sigma**2  # about the largest mean of the loss of all steps
    return library.from_gaussian_mechanism(
        sigma,
        sensitivity=1.0,
        pessimistic_estimate=True,
        value_discretization_interval=max(
            min(spread / 30.0, 1e-3), largest / _STEP_BINS, (largest + mean) / _TOTAL_BINS
        ),
        sampling_prob=rate,
        use_connect_dots=True,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    ).self_compose(steps.steps)
