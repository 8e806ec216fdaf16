"""DP-SGD under label adjacency: noisy sums of clipped gradients of Poisson-sampled batches, composed over the steps.

A step releases S + b g + σC·N(0, I): S sums the others' clipped gradients, b is 1 with probability q, and g, with
|g| ≤ C, is the gradient of the user whose label may change to make it g', |g'| ≤ C. Features are public and the user is
there in both worlds, so that neither world is the one without her: her record is replaced, which costs up to twice
as much as adding or removing it.

**Dominating pair** of one step, in units of C: P = (1-q) N(0, σ²) + q N(1, σ²), Q its mirror image. *Proof.* Given S
(joint convexity), shift it away. For γ ≥ 1 the divergence HS_γ of (1-q) N(0) + q N(g) from (1-q) N(0) + q N(g') is
q ∫ [N(g) - w N(0) - γ N(g')]₊ with w = (γ-1)(1-q)/q ≥ 0, which, seen from g, is q E h(w e^X + γ e^Y): h(s) = [1-s]₊ is
convex, X and Y are jointly Gaussian, Var X = |g|²/σ² ≤ 1/σ², Var Y = |g-g'|²/σ² ≤ 4/σ², E e^X = E e^Y = 1. It grows

1. if independent Gaussian parts of mean -variance/2 are added to X and Y until equality holds (E e^part = 1; Jensen);
2. then with Cov(X, Y), since ∂²/∂x∂y h(w e^x + γ e^y) = w γ e^(x+y) h'' ≥ 0 (Slepian, Price), up to 2/σ², where X and Y
   are those of g = 1 and g' = -1 on a line.

For γ < 1 exchange the roles of g and g'; the pair is its own mirror image. ∎ A pair that dominates every step whatever
came before composes adaptively (Zhu, Dong and Wang 2022, Theorem 10). It is the pair of dp-accounting's REPLACE_ONE.

No smaller bound than |g - g'| ≤ 2C holds for clipped gradients (p - e_y)⊗x of logistic regression: with two classes
they point in opposite directions, and both may exceed C.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import (
    Bracket,
    PrivacyBound,
    check_delta,
    check_epsilon,
    check_positive_epsilon,
    plain_arguments,
)
from p2p_sim.privacy.conditions import REAL_NOISE, Condition
from p2p_sim.privacy.dominating_law import library_of_plds
from p2p_sim.privacy.exchange.calibration import smallest_of_three_digits
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
PROJECTED_CONDITIONS: tuple[Condition, ...] = (
    *DP_SGD_CONDITIONS,
    Condition("public-rows-apart", "the public rows of a step are drawn independently of its batch"),
)
_ROUNDING = 1e-15
"""Of δ for each step composed: more than ten times the largest rounding seen, against the closed form at q = 1."""
LARGEST_STEPS = 1_000_000
SMALLEST_NOISE, LARGEST_NOISE = 0.05, 1e6
_STEP_BINS, _TOTAL_BINS = 30_000, 1_000_000
"""Most bins for the privacy loss of a single step, and for that of all steps together."""


@dataclass(frozen=True)
class DpSgd(Accountant):
    """Noisy gradient steps; the learner sees every iterate; label adjacency.

    Args:
        noise_multiplier: σ, 0.05 to 1e6: standard deviation of the noise in units of the clipping norm C.
        sampling_rate: q in (0, 1], probability that a user is in a batch.
        steps: number of steps, 1 to 1,000,000.

    >>> round(DpSgd(noise_multiplier=2.0, sampling_rate=0.05, steps=400).epsilon(1e-6).epsilon_upper, 1)
    4.9
    """

    requires = ANYWHERE
    conditions = DP_SGD_CONDITIONS

    noise_multiplier: float
    sampling_rate: float
    steps: int

    def __post_init__(self) -> None:
        if not SMALLEST_NOISE <= self.noise_multiplier <= LARGEST_NOISE:
            raise ValueError(
                f"noise_multiplier = {self.noise_multiplier}: must lie in [{SMALLEST_NOISE}, {LARGEST_NOISE:g}]"
            )
        _check_schedule(self.sampling_rate, self.steps)

    @property
    def least_delta(self) -> float:
        """The smallest δ for which there is a figure: rounding of the steps hides smaller ones."""
        return 10.0 * _ROUNDING * self.steps

    def delta(self, epsilon: float) -> Bracket:
        """δ(ε) for ε of at least 0, pessimistic; a rounding error of 1e-15 for each step is added, so it is never 0."""
        check_epsilon(epsilon)
        try:
            upper = float(_composed(self).get_delta_for_epsilon(epsilon)) + _ROUNDING * self.steps
        except OverflowError:  # losses whose exponential is no float
            upper = 1.0
        return Bracket(0.0, min(1.0, upper))

    def epsilon(self, delta: float) -> PrivacyBound:
        """ε(δ) against the learner; ∞ where there is too little noise for a figure.

        Raises:
            ValueError: δ outside (0, 1), or below 1e-14 a step, where rounding hides it.
        """
        check_delta(delta)
        if delta < self.least_delta:
            raise ValueError(
                f"delta = {delta}: must be at least {self.least_delta:g} for {self.steps} steps; rounding hides less"
            )
        try:
            upper = max(0.0, float(_composed(self).get_epsilon_for_delta(delta - _ROUNDING * self.steps)))
        except OverflowError:  # losses whose exponential is no float
            upper = math.inf
        basis = "Poisson-sampled Gaussian steps, one label replaced: composed privacy loss distributions, pessimistic"
        return PrivacyBound(
            0.0, upper, delta, observer="learner", adjacency="label", basis=basis, conditions=self.conditions
        )


@dataclass(frozen=True)
class ProjectedSteps(DpSgd):
    """Accountant of LabelDP-Pro: the steps of `DpSgd`, each projected on a set that features and earlier steps
    determine.

    The projection is post-processing, so that δ(ε) is that of `DpSgd`. It holds as long as the set does not depend on
    who is in the batch. A set made of the batch's own rows shows the batch: for a user who is seen to be in it, a step
    is the Gaussian mechanism without subsampling.
    """

    conditions = PROJECTED_CONDITIONS


@plain_arguments
@lru_cache(maxsize=128)
def calibrate_noise(epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """The smallest noise multiplier of three digits that is certified for (ε, δ); none below 0.05 is looked for.

    Args:
        epsilon: target ε, above 0. delta: target δ in (0, 1), at least 1e-14 a step.
        sampling_rate, steps: as in `DpSgd`.

    Raises:
        ValueError: a value out of its range, or no multiplier up to 1e6 suffices.
    """
    check_delta(delta)
    _check_schedule(sampling_rate, steps)
    check_positive_epsilon(epsilon)

    def certified(sigma: float) -> bool:
        return DpSgd(sigma, sampling_rate, steps).epsilon(delta).epsilon_upper <= epsilon

    # upwards from 1 to the first multiplier that is enough
    high = 1.0
    while not certified(high):
        high *= 4.0
        if high > LARGEST_NOISE:
            raise ValueError(f"epsilon = {epsilon}: needs a noise multiplier above {LARGEST_NOISE:g}")
    # downwards to one that is not, so that the least lies between the two
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
    """The privacy loss distribution of all steps by dp-accounting, rounded up; symmetric because the pair of
    laws is.
    """
    library = library_of_plds()
    from dp_accounting import NeighboringRelation

    single_step = library.from_gaussian_mechanism(
        steps.noise_multiplier,
        sensitivity=1.0,
        pessimistic_estimate=True,
        value_discretization_interval=_interval(steps),
        sampling_prob=steps.sampling_rate,
        use_connect_dots=True,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    return single_step.self_compose(steps.steps)


def _interval(steps: DpSgd) -> float:
    """Width of the bins of the privacy loss: a thirtieth of one step's standard deviation, unless that is too many.

    Any width gives an upper bound; finer bins give a smaller one.
    """
    sigma, rate = steps.noise_multiplier, steps.sampling_rate
    spread = 2.0 * rate * math.sqrt(math.sinh(min(sigma**-2, 600.0)))  # of one step's loss; 600: sinh would overflow
    largest = 2.0 * (10.0 * sigma + 1.0) / sigma**2  # loss at q = 1, ten standard deviations of the noise out
    mean = 2.0 * rate * steps.steps / sigma**2  # of the loss of all steps, at most about
    return max(min(spread / 30.0, 1e-3), largest / _STEP_BINS, (largest + mean) / _TOTAL_BINS)
