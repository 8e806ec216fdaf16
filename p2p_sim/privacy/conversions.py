"""Privacy in other terms than (ε, δ). Each function takes an accountant and converts its δ(ε).

The functions `pld`, `renyi` and `gdp` use the accountant's `loss_law`. An accountant may have a method of the same name
with a better bound. Then the function calls this method.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import plain_arguments
from p2p_sim.privacy.dominating_law import LossLaw, PrivacyLossDistribution, between, nodes


@lru_cache(maxsize=64)
def loss_law(model: Accountant) -> LossLaw:
    """A law (distribution) of the privacy loss that dominates every pair of neighbouring data sets. It is made from
    upper bounds of δ(ε).
    """
    pure = model.pure_epsilon
    top = model.epsilon(model.least_delta).epsilon_upper
    if top >= pure * (1.0 - 1e-6):
        top = pure
    deltas = _certified_deltas(model, nodes(top if math.isfinite(top) else 0.0), pure)
    # a finer grid where δ falls steeply
    if more := between(deltas):
        deltas |= _certified_deltas(model, more, pure)
    grid = sorted(deltas)
    return LossLaw.of(grid, [deltas[epsilon] for epsilon in grid], pure)


@plain_arguments
def pld(model: Accountant, interval: float | None = None) -> PrivacyLossDistribution:
    """The accountant's δ(ε) as a privacy loss distribution of dp-accounting: pessimistic, and equal in both directions.

    The result may be composed with the distributions of mechanisms with independent noise. A copy that stands for the
    same noise must not be composed with the original.

    Args:
        interval: width of the bins of the privacy loss, equal for all distributions that are composed. Default: a
        thousandth of the largest finite loss, or the choice of the accountant's own method `pld`.
    """
    own: Callable[[float | None], PrivacyLossDistribution] | None = getattr(model, "pld", None)
    return own(interval) if own else loss_law(model).pld(interval)


@plain_arguments
def tradeoff(model: Accountant, type_one: Sequence[float] | Floats) -> Floats:
    """Certified lower bounds of the type II error of any test that tells two neighbouring data sets apart.

    type_one: the tests' type I errors, each in [0, 1]; the result has one bound for each error.
    """
    return loss_law(model).tradeoff(type_one)


@plain_arguments
def renyi(model: Accountant, order: float) -> float:
    """Certified ε of Rényi differential privacy of an order above 1; infinite if the privacy loss may be infinite."""
    own: Callable[[float], float] | None = getattr(model, "renyi", None)
    return own(order) if own else loss_law(model).renyi(order)


@plain_arguments
def gdp(model: Accountant, beside: float = 0.0) -> float:
    """Certified μ: at every ε, δ(ε) is at most `beside` plus the δ(ε) of a μ-GDP (Gaussian) mechanism.

    beside: a probability. The result is infinite if no μ is found.
    """
    own: Callable[[float], float] | None = getattr(model, "gdp", None)
    return own(beside) if own else loss_law(model).gdp(beside)


def _certified_deltas(model: Accountant, epsilons: list[float], pure: float) -> dict[float, float]:
    """The upper bound of δ(ε) at each of the given ε, as a dict from ε to δ.

    Args:
        pure: an ε from which on δ is 0 (pure differential privacy); infinite if none is known.
    """
    return {
        epsilon: 0.0 if epsilon >= pure else bracket.upper
        for epsilon, bracket in zip(epsilons, model.profile(epsilons), strict=True)
    }
