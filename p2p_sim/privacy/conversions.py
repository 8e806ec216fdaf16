"""An accountant's δ(ε) in other terms of privacy: each function takes an accountant.

An accountant that knows better than its loss law has a method `pld`, `renyi` or `gdp` of its own, with the arguments of
the function less the accountant; the function then gives what the method gives. One whose upper ends of δ(ε) take less
time than both ends has a method `certified_delta`.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import Bracket, plain_arguments
from p2p_sim.privacy.dominating_law import LossLaw, between, nodes
from p2p_sim.privacy.guessing_advantage import Prior, of_prior, over_priors

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


def certified_delta(model: Accountant, epsilon: float) -> float:
    """The upper bound of δ(ε) alone, as `Accountant.delta` has it; faster for some accountants."""
    own: Callable[[float], float] | None = getattr(model, "certified_delta", None)
    return own(epsilon) if own else model.delta(epsilon).upper


@lru_cache(maxsize=64)
def loss_law(model: Accountant) -> LossLaw:
    """A law of the privacy loss that dominates every pair of neighbouring data sets, from upper bounds of δ(ε)."""
    pure = model.pure_epsilon
    top = model.epsilon(model.least_delta).epsilon_upper
    if top >= pure * (1.0 - 1e-6):
        top = pure
    deltas = _certified_deltas(model, nodes(top if math.isfinite(top) else 0.0), pure)
    # more where δ falls steeply
    if more := between(deltas):
        deltas |= _certified_deltas(model, more, pure)
    grid = sorted(deltas)
    return LossLaw.of(grid, [deltas[epsilon] for epsilon in grid], pure)


@plain_arguments
def pld(model: Accountant, interval: float | None = None) -> "PrivacyLossDistribution":
    """The accountant's δ(ε) as dp-accounting's privacy loss distribution: pessimistic, the same in both directions.

    It may be composed with other mechanisms' whose noise is independent; never with itself where noise is repeated.

    Args:
        interval: width of the bins of the privacy loss, the same for all that are composed; default: a thousandth of
            the largest finite loss.
    """
    own: Callable[[float | None], PrivacyLossDistribution] | None = getattr(model, "pld", None)
    return own(interval) if own else loss_law(model).pld(interval)


@plain_arguments
def tradeoff(model: Accountant, type_one: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Certified lower bound on the type II error of any test, at type I errors in [0, 1]: `LossLaw.tradeoff`."""
    return loss_law(model).tradeoff(type_one)


@plain_arguments
def renyi(model: Accountant, order: float) -> float:
    """Certified Rényi ε of an order above 1: `LossLaw.renyi`."""
    own: Callable[[float], float] | None = getattr(model, "renyi", None)
    return own(order) if own else loss_law(model).renyi(order)


@plain_arguments
def gdp(model: Accountant, beside: float = 0.0) -> float:
    """Certified μ of Gaussian differential privacy, up to an additional failure probability `beside`: `LossLaw.gdp`."""
    own: Callable[[float], float] | None = getattr(model, "gdp", None)
    return own(beside) if own else loss_law(model).gdp(beside)


@plain_arguments
def advantage(model: Accountant, prior: Prior = 0.5) -> Bracket:
    """The observer's advantage in guessing a user's label, who knows all other labels and the prior.

    It is the probability of a right guess, less that without anything the user contributed: `guessing_advantage`.

    Args:
        prior: probability of the less likely of two labels, above 0 and at most 1/2; or those of K labels, (K,).

    Raises:
        ValueError: the prior is out of range.
    """
    return of_prior(model.profile, model.pure_epsilon, prior)


@plain_arguments
def worst_advantage(model: Accountant, num_classes: int = 2) -> Bracket:
    """The largest advantage of the observer over all priors of K labels; of two labels the prior 1/2 is the worst."""
    return over_priors(model.profile, model.pure_epsilon, num_classes)


def _certified_deltas(model: Accountant, epsilons: list[float], pure: float) -> dict[float, float]:
    """{ε: upper bound of δ(ε)} for the given ε; 0 from `pure`, the accountant's pure ε, on."""
    brackets = zip(epsilons, model.profile(epsilons), strict=True)
    return {epsilon: 0.0 if epsilon >= pure else bracket.upper for epsilon, bracket in brackets}
