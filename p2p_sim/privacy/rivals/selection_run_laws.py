"""Laws of the number of runs K of a private selection, with the functions that the bounds of `private_selection` need.

Let φ be the generating function of K, φ(x) = E x^K, and φ' its derivative. Let u be the probability that another run
beats an outcome. The bounds need three functions. The first is the outcome's weight φ'(1-u), which falls from E K as u
grows. The second is 1 - φ(1-δ). If a single run has one of the best outcomes with probability δ, this is the
probability that at least one run has such an outcome. The third is the δ for which 1 - φ(1-δ) has a given value.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.bound import PlainNumbers

LEAST_GAMMA = 1e-6
LARGEST_MEAN, LARGEST_ETA = 1e6, 10.0
_MARGIN = 1e-12
"""Relative margin for rounding."""


class RunLaw(PlainNumbers, ABC):
    """A public law of the number of runs K of a private selection. The law depends on no label.

    φ(x) = E x^K is the generating function of K, φ' its derivative, and u the probability that another run beats an
    outcome. The weight φ'(1-u) is the factor by which the selection makes the outcome likelier than a single run does.
    `ThresholdStop`, which stops early, has another weight, and another u: the probability that one run reaches the
    threshold.
    """

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean number of runs, E K."""

    @property
    def scale(self) -> float:
        """The size of u at which the weight φ'(1-u) begins to fall: 1/(E K) unless a subclass says otherwise.

        u is the probability that another run beats an outcome. For u far below this size the weight is nearly its
        largest value, E K. The bounds of the selection cut the range of u into intervals. From 1/200 of this size on,
        the ratios of successive ends are equal.
        """
        return 1.0 / self.mean

    @property
    def none(self) -> float:
        """The probability Pr[K = 0] that there is no run: 0 unless a subclass says otherwise."""
        return 0.0

    @property
    def silent(self) -> float | None:
        """For a law that stops at a score threshold: the weight of releasing nothing divided by the weight of a
        released output. None for laws that release the best of all runs.

        A weight is the probability of an outcome in the selection's release divided by its probability in a single run.
        """
        return None

    @abstractmethod
    def log_weight(self, u: Floats) -> Floats:
        """The logarithm of the weight φ'(1-u) for each u in [0, 1], an array of the same shape.

        u is the probability that another run beats an outcome, and φ(x) = E x^K for the number of runs K. The weight is
        the factor by which the outcome is likelier in the selection's release than in a single run.
        """

    @abstractmethod
    def best_share(self, delta: float) -> float:
        """1 - φ(1-δ), the probability that at least one of K runs has an outcome from a given set, such as the best
        outcomes.

        δ is the probability that a single run has such an outcome. With φ(x) = E x^K, φ(1-δ) is the probability that no
        run has such an outcome. The result is rounded up. Apart from rounding it is at most E K · δ.

        Args:
            delta: δ in [0, 1].
        """

    @abstractmethod
    def delta_of(self, share: float) -> float:
        """The largest δ in [0, 1], rounded down, at which `best_share` is at most the given share in [0, 1]."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> int:
        """Draw a number of runs."""


@dataclass(frozen=True)
class TruncatedNegativeBinomial(RunLaw):
    """The law Pr[K = k] = (1-γ)^k / (γ^-η - 1) · Π_{l<k} (l+η)/(l+1), k >= 1.

    Its weights are φ'(1-u) = E K (γ/(γ + (1-γ)u))^(1+η). η = 1 is the geometric law. η = 0 is the logarithmic law, with
    probabilities (1-γ)^k / (k ln(1/γ)). The formula tends to this law, since (γ^-η - 1)/η tends to ln(1/γ) (Papernot
    and Steinke 2022, Definition 1).

    Args:
        eta: η, above -1 and at most 10; a small η costs less privacy and gives K a longer tail.
        gamma: γ, at least 1e-6 and below 1; a small γ means many runs.

    >>> TruncatedNegativeBinomial(eta=1.0, gamma=0.1).mean
    10.0
    """

    eta: float
    gamma: float

    def __post_init__(self) -> None:
        if not -1.0 < self.eta <= LARGEST_ETA:
            raise ValueError(f"eta = {self.eta}: must be above -1, and at most {LARGEST_ETA:g}")
        if not LEAST_GAMMA <= self.gamma < 1.0:
            raise ValueError(f"gamma = {self.gamma}: must be at least {LEAST_GAMMA:g} and below 1")

    @staticmethod
    def of_mean(mean: float, eta: float) -> "TruncatedNegativeBinomial":
        """The law with this η whose mean is the given mean, or smaller by at most 1e-9 of the given mean.

        Args:
            mean: above 1. eta: η.

        Raises:
            ValueError: no γ in range has this mean.
        """
        most = TruncatedNegativeBinomial(eta, LEAST_GAMMA).mean
        if not 1.0 < mean <= most:
            raise ValueError(f"mean = {mean}: must be above 1, and at most {most:.6g} for eta = {eta:g}")
        # bisection of ln γ: the mean falls with γ, and is at most `mean` at the upper end
        low, high = LEAST_GAMMA, 1.0 - 1e-12
        while high - low > 1e-10 * low * min(1.0, high):
            middle = math.sqrt(low * high)
            if not low < middle < high:
                break
            low, high = (middle, high) if TruncatedNegativeBinomial(eta, middle).mean > mean else (low, middle)
        return TruncatedNegativeBinomial(eta, high)

    @property
    def mean(self) -> float:
        """The mean number of runs, η(1/γ-1)/(1-γ^η). For η = 0 the mean is (1/γ-1)/ln(1/γ)."""
        return self._odds / self._norm

    @property
    def scale(self) -> float:
        """γ: for u far below γ the weight φ'(1-u) is nearly its largest value, E K.

        u is the probability that another run beats an outcome. `RunLaw` explains the weight.
        """
        return self.gamma

    def log_weight(self, u: Floats) -> Floats:
        """ln φ'(1-u) = ln E K - (1+η) ln(1 + (1-γ)u/γ), for each u in [0, 1].

        u is the probability that another run beats an outcome. `RunLaw` explains the weight φ'(1-u).
        """
        return np.asarray(math.log(self.mean) - (1.0 + self.eta) * np.log1p(self._odds * u))

    def best_share(self, delta: float) -> float:
        """1 - φ(1-δ) = (1 - (1 + (1-γ)δ/γ)^-η)/(1-γ^η), rounded up. For η = 0 the result is the limit."""
        return min(1.0, _scaled(self.eta, math.log1p(self._odds * delta)) / self._norm * (1.0 + _MARGIN))

    def delta_of(self, share: float) -> float:
        """The δ, rounded down, at which `best_share` is the given share, by inversion of its formula."""
        target = share * (1.0 - 2.0 * _MARGIN) * self._norm
        grown = target if self.eta == 0.0 else -math.log1p(-self.eta * target) / self.eta
        return min(1.0, math.expm1(grown) / self._odds * (1.0 - _MARGIN))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a number of runs by inversion: probabilities are subtracted from a uniform number one after another."""
        rest, k = rng.random(), 1
        mass = (1.0 - self.gamma) * self.gamma**self.eta / self._norm
        while rest >= mass and mass > 0.0:
            rest -= mass
            mass *= (1.0 - self.gamma) * (k + self.eta) / (k + 1.0)
            k += 1
        return k

    @property
    def _odds(self) -> float:
        """(1-γ)/γ; for η = 1 these are the odds that a further run follows."""
        return (1.0 - self.gamma) / self.gamma

    @property
    def _norm(self) -> float:
        """The normalising constant (1-γ^η)/η. For η = 0 it is ln(1/γ)."""
        return _scaled(self.eta, -math.log(self.gamma))


@dataclass(frozen=True)
class PoissonRuns(RunLaw):
    """K is Poisson, and the weight is φ'(1-u) = μ e^(-μu). If K is 0, a constant is released.

    Args:
        mu: μ, the mean, above 0 and at most 1,000,000.
    """

    mu: float

    def __post_init__(self) -> None:
        if not 0.0 < self.mu <= LARGEST_MEAN:
            raise ValueError(f"mu = {self.mu}: must be above 0, and at most {LARGEST_MEAN:,.0f}")

    @property
    def mean(self) -> float:
        """μ, the mean number of runs."""
        return self.mu

    @property
    def none(self) -> float:
        """e^-μ, the probability that there is no run."""
        return math.exp(-self.mu)

    def log_weight(self, u: Floats) -> Floats:
        """ln φ'(1-u) = ln μ - μu, for each u in [0, 1].

        u is the probability that another run beats an outcome. `RunLaw` explains the weight φ'(1-u).
        """
        return np.asarray(math.log(self.mu) - self.mu * u)

    def best_share(self, delta: float) -> float:
        """1 - φ(1-δ) = 1 - e^(-μδ), rounded up."""
        return min(1.0, -math.expm1(-self.mu * delta) * (1.0 + _MARGIN))

    def delta_of(self, share: float) -> float:
        """The δ = -ln(1 - share)/μ, rounded down, at which `best_share` is the given share."""
        return min(1.0, -math.log1p(-share * (1.0 - 2.0 * _MARGIN)) / self.mu * (1.0 - _MARGIN))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a number of runs from NumPy's Poisson law."""
        return int(rng.poisson(self.mu))


@dataclass(frozen=True)
class BinomialRuns(RunLaw):
    """K is binomial, and the weight is φ'(1-u) = np (1-pu)^(n-1). If K is 0, a constant is released.

    Args:
        n: the largest number of runs, 1 to 1,000,000. p: the probability of making each of the n runs, above 0 and
        below 1; p = 1 would be a fixed number of runs.
    """

    n: int
    p: float

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or not 1 <= self.n <= LARGEST_MEAN:
            raise ValueError(f"n = {self.n}: must be a whole number from 1 to {LARGEST_MEAN:,.0f}")
        if not 0.0 < self.p < 1.0:
            raise ValueError(f"p = {self.p}: must be above 0 and below 1; a fixed number of runs has no bound here")

    @property
    def mean(self) -> float:
        """np, the mean number of runs."""
        return self.n * self.p

    @property
    def none(self) -> float:
        """(1-p)^n, the probability that there is no run."""
        return math.exp(self.n * math.log1p(-self.p))

    def log_weight(self, u: Floats) -> Floats:
        """ln φ'(1-u) = ln(n p) + (n-1) ln(1-pu), for each u in [0, 1].

        u is the probability that another run beats an outcome. `RunLaw` explains the weight φ'(1-u).
        """
        return np.asarray(math.log(self.mean) + (self.n - 1) * np.log1p(-self.p * u))

    def best_share(self, delta: float) -> float:
        """1 - φ(1-δ) = 1 - (1-pδ)^n, rounded up."""
        return min(1.0, -math.expm1(self.n * math.log1p(-self.p * delta)) * (1.0 + _MARGIN))

    def delta_of(self, share: float) -> float:
        """The δ = (1 - (1-share)^(1/n))/p, rounded down, at which `best_share` is the given share."""
        log = math.log1p(-share * (1.0 - 2.0 * _MARGIN)) / self.n
        return min(1.0, -math.expm1(log) / self.p * (1.0 - _MARGIN))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a number of runs from NumPy's binomial law."""
        return int(rng.binomial(self.n, self.p))


@dataclass(frozen=True)
class ThresholdStop(RunLaw):
    """Liu and Talwar's rule: release the first output whose score reaches a public threshold, and stop.

    After each failure the search ends with probability γ, and then nothing is released. So there are at most K runs,
    where K is geometric. Let a be the probability that one run reaches the threshold. Compare the release with one run.
    An output that reaches the threshold is likelier by the factor 1/(γ + (1-γ)a). Nothing is released with probability
    (1-a) γ/(γ + (1-γ)a). So all outputs that reach the threshold have the weight 1/(γ + (1-γ)u) at u = a.

    Args:
        gamma: γ, 1e-6 to below 1.
    """

    gamma: float

    def __post_init__(self) -> None:
        if not LEAST_GAMMA <= self.gamma < 1.0:
            raise ValueError(f"gamma = {self.gamma}: must be at least {LEAST_GAMMA:g} and below 1")

    @property
    def mean(self) -> float:
        """1/γ, the mean of the largest possible number of runs. Without success the search ends after each run with
        probability γ.
        """
        return 1.0 / self.gamma

    @property
    def scale(self) -> float:
        """γ: for u far below γ the weight 1/(γ + (1-γ)u) is nearly its largest value, 1/γ.

        u is the probability that one run reaches the threshold. γ is the probability that the search ends after a
        failed run. The weight is the factor by which an output that reaches the threshold is likelier in the release
        than in a single run.
        """
        return self.gamma

    @property
    def silent(self) -> float:
        """γ, the weight of releasing nothing divided by the weight of an output that reaches the threshold."""
        return self.gamma

    def log_weight(self, u: Floats) -> Floats:
        """-ln(γ + (1-γ)u), for each u in [0, 1]: the logarithm of the weight of an output that reaches the threshold.

        u is the probability that one run reaches the threshold. `scale` explains γ and the weight.
        """
        return np.asarray(-np.log(self.gamma + (1.0 - self.gamma) * u))

    def best_share(self, delta: float) -> float:
        """δ/(γ + (1-γ)δ), rounded up: the probability of releasing an output that reaches the threshold. One run
        reaches the threshold with probability δ.
        """
        return min(1.0, delta / (self.gamma + (1.0 - self.gamma) * delta) * (1.0 + _MARGIN))

    def delta_of(self, share: float) -> float:
        """The δ = γ share/(1 - (1-γ) share), rounded down, at which `best_share` is the given share."""
        target = share * (1.0 - 2.0 * _MARGIN)
        return min(1.0, self.gamma * target / (1.0 - (1.0 - self.gamma) * target) * (1.0 - _MARGIN))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw the largest number of runs of one search from NumPy's geometric law."""
        return int(rng.geometric(self.gamma))


def _scaled(eta: float, log: float) -> float:
    """(1 - e^(-ηt))/η for a number t. For η = 0 the result is the limit t.

    With t = ln x this is (1 - x^-η)/η, the form in the formulas of the laws.

    Args:
        eta: η. log: t, which is the logarithm of some x.
    """
    return log if eta == 0.0 else -math.expm1(-eta * log) / eta
