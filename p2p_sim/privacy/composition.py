"""Composition of several releases about the same users: the library dp-accounting convolves their privacy losses.

Each release is represented by one pair of laws (distributions), a `LossLaw`. The pair dominates all data sets of the
release and both directions. Composing the laws of each release's worst data set could give a result that is wrong by a
factor of 25. The noise of the releases must be independent. Rounds that repeat a noisy label are one exchange,
`LabelExchange(..., rounds=R)`. If such rounds were composed as separate releases, ε could be too small. Disjoint
clusters need no composition: the largest of their ε holds.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import (
    Adjacency,
    Bracket,
    PrivacyBound,
    check_delta,
    check_epsilon,
    check_range,
    common_observer,
    identifier_of,
    plain_arguments,
)
from p2p_sim.privacy.composition_lower_end import composed_epsilon
from p2p_sim.privacy.conditions import FRESH, WITHIN_ONE
from p2p_sim.privacy.conversions import gdp, loss_law, pld, renyi
from p2p_sim.privacy.dominating_law import PrivacyLossDistribution, library_of_plds
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

FLOOR = 1e-14
"""Smallest δ at which ε is computed for few releases. Below it, convolutions' rounding errors are not small beside δ.
"""
BASIS = "composed privacy loss distributions, pessimistic"
LARGEST_TIMES = 1_000_000
_BINS_OF_ONE, _BINS_OF_ALL = 80, 2**18
"""Largest numbers of bins of the privacy loss. Up to _BINS_OF_ONE bins reach from 0 to the smallest `LossLaw.top` of
all releases. Up to _BINS_OF_ALL bins hold the sum of all losses.
"""
_LEAST_STEP = 1e-9
"""Smallest width of a bin of the privacy loss."""
_RELATIVE = 1e-6
"""Share of δ that is charged for the rounding of masses before they are convolved."""


@dataclass(frozen=True)
class RunRelease:
    """A release by a run of the simulator, with the numbers that decide on its noise.

    seed, replicate, noise_salt: two releases that have all three in common share their noise, whatever their scenarios.
    """

    accountant: Accountant
    seed: int
    replicate: int
    noise_salt: int = 0

    @property
    def drawn_with(self) -> str:
        """The three numbers that decide on the noise, as text for messages: seed, replicate and noise salt.

        The salt is a number of the scenario. Another salt keeps the users, clusters, overlay and adversaries, and
        changes all other random draws.
        """
        return f"seed = {self.seed}, replicate {self.replicate}, noise_salt = {self.noise_salt}"


@dataclass(frozen=True)
class Composition(Accountant):
    """The accountant of several releases about the same users. Later releases may depend on earlier ones.

    The observer is the strongest one who sees, of each release, at most what that release's own observer sees. The
    adjacency is "example" if all releases protect whole examples. Otherwise it is "label", because a bound for an
    example also holds for its label.

    Args:
        releases: accountants of the releases, at least one; no two releases may share noise. times: how often each
        release is made, with new noise every time. drawn_with: for each release its `RunRelease.drawn_with`, or an
        empty text (unknown). Default: unknown for all releases.

    Raises:
        ValueError: there is no release, `times` has another length or a number out of range, or two releases are known
        to share their noise.
    """

    requires = ANYWHERE

    releases: tuple[Accountant, ...]
    times: tuple[int, ...]
    drawn_with: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.releases:
            raise ValueError("exchanges: at least one is needed")
        if len(self.times) != len(self.releases):
            raise ValueError(f"times = {self.times}: must hold a number for each of {len(self.releases)} releases")
        for count in self.times:
            check_range("times", count, 1, LARGEST_TIMES, whole=True)
        # a release of a run may occur only once, and no two releases may have the same random numbers
        earlier: dict[str, int] = {}
        for number, (drawn, count) in enumerate(zip(self.drawn_with, self.times, strict=False), 1):
            if drawn and (drawn in earlier or count > 1):
                both = f"releases {earlier[drawn]} and {number}" if drawn in earlier else f"release {number}, twice"
                raise ValueError(
                    f"{both}: both are drawn with {drawn}, so that they share "
                    "noise and must not be composed; another noise_salt gives the same users fresh noise"
                )
            earlier[drawn] = number

    @property
    def count(self) -> int:
        """How many releases there are, each counted as often as it is made."""
        return sum(self.times)

    @property
    def least_delta(self) -> float:
        """The smallest δ at which ε has a bound. Below it, rounding or a release's infinite loss would decide on ε."""
        return max(FLOOR, 10.0 * self._rounding, 2.0 * self.untold * (self.untold < 0.25))

    @property
    def untold(self) -> float:
        """Upper bound of the probability that some release has an infinite privacy loss, and so gives a label away."""
        return math.fsum(
            count * loss_law(release).infinite for release, count in zip(self.releases, self.times, strict=True)
        )

    @property
    def pure_epsilon(self) -> float:
        """The sum of the releases' pure ε. From this ε on, δ is 0."""
        each = zip(self.releases, self.times, strict=True)
        return math.fsum(count * release.pure_epsilon for release, count in each) * (1.0 + 2.0**-50)

    def pld(self, interval: float | None = None) -> PrivacyLossDistribution:
        """The composed privacy loss distribution, in dp-accounting's form.

        The distribution's δ(ε) is an upper bound, apart from rounding. Rounding spoils δ below `least_delta`.

        Args:
            interval: width of the bins of the privacy loss. None: 1/80 of the smallest of the releases' largest finite
            losses, or more if there would be over 2^18 bins.
        """
        return _composed(self, self._step if interval is None else interval)

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε) of all releases together. The lower bound is 0. Because of rounding, the upper bound is at
        least `least_delta`.
        """
        check_epsilon(epsilon)
        upper = float(self.pld().get_delta_for_epsilon(epsilon)) * (1.0 + 2.0 * _RELATIVE) + self._rounding
        return Bracket(0.0, min(1.0, max(upper, self.least_delta)))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ of all releases together. The upper bound may be infinite.

        Raises:
            ValueError: δ is outside (0, 1) or below `least_delta`, or there is no common observer.
        """
        check_delta(delta)
        if delta < self.least_delta:
            raise ValueError(
                f"delta = {delta}: must be at least {self.least_delta:.2g} for this composition, because of rounding"
            )
        # Take ε at a smaller δ. The difference pays for the rounding of the masses and of the convolutions.
        reduced = delta * (1.0 - _RELATIVE) - self._rounding
        upper = max(0.0, float(self.pld().get_epsilon_for_delta(reduced)))
        return PrivacyBound(
            min(self._attained(delta), upper),
            upper,
            delta,
            observer=self.observer,
            adjacency=self.adjacency,
            basis=BASIS,
            conditions=self.conditions,
            conditional_on=" and ".join(dict.fromkeys(b.conditional_on for b in self._bounds if b.conditional_on)),
        )

    def _attained(self, delta: float) -> float:
        """A lower bound of ε at δ of all releases together; 0 if none is known.

        The bound comes from one data set and some of the releases: seeing fewer releases reveals less. A release is
        used if three things hold. The probabilities of what its observer sees are known for both labels of the target.
        Its bound is about labels. Its observer is the composition's observer.
        """
        each = [
            (getattr(release, "attained_pair", lambda: None)(), count)
            for release, count, bound in zip(self.releases, self.times, self._bounds, strict=True)
            if bound.adjacency == "label" and bound.observer == self.observer
        ]
        known = [(pair, count) for pair, count in each if pair is not None]
        return composed_epsilon([pair for pair, _ in known], [count for _, count in known], delta)

    def renyi(self, order: float) -> float:
        """Upper bound of the Rényi ε of an order above 1: the sum of the releases' bounds."""
        return math.fsum(
            count * renyi(release, order) for release, count in zip(self.releases, self.times, strict=True)
        )

    def gdp(self, beside: float = 0.0) -> float:
        """Certified μ: at every ε, δ(ε) of all releases together is at most `beside` plus the δ(ε) of a μ-GDP
        (Gaussian) mechanism.

        The result is infinite if no such μ is found. The μ² of the releases add up. Suppose that the δ(ε) of each
        release exceeds the δ(ε) of its own μ by at most a number η. Then the δ(ε) of all releases together exceeds the
        δ(ε) of the composed μ by at most (1+η)^count - 1. The code derives η from `beside`.

        Args:
            beside: a probability, at least 0, that the Gaussian curve need not cover.
        """
        each = [(r, count, loss_law(r).infinite) for r, count in zip(self.releases, self.times, strict=True)]
        # η of a release is the probability of its infinite loss, plus an equal share of the rest of `beside`. If
        # these probabilities together exceed `beside`, η is an equal share of `beside` alone.
        spare = math.log1p(beside) - math.fsum(count * math.log1p(untold) for _, count, untold in each)
        if spare < 0.0:
            spare, each = math.log1p(beside), [(r, count, 0.0) for r, count, _ in each]
        share = max(0.0, math.expm1(spare / self.count) * (1.0 - 1e-12))
        return math.sqrt(math.fsum(count * gdp(r, untold + share * (1.0 - untold)) ** 2 for r, count, untold in each))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions under which the bounds of all releases together hold, each once.

        Several releases need fresh noise. This condition is added unless the source of the noise is known for all
        releases. Conditions such as "a user repeats one noisy label" are reworded: they hold within each release alone.
        """
        each = [condition for release in self.releases for condition in release.conditions]
        if self.count > 1:
            each = [WITHIN_ONE.get(identifier_of(condition), condition) for condition in each]
            drawn_apart = len(self.drawn_with) == len(self.releases) and all(self.drawn_with)
            each = each if drawn_apart else [FRESH, *each]
        return tuple(dict.fromkeys(each))

    @property
    def adjacency(self) -> Adjacency:
        """What the composition protects: whole examples if all releases do, else labels."""
        return "example" if all(bound.adjacency == "example" for bound in self._bounds) else "label"

    @property
    def observer(self) -> str:
        """The name of the strongest observer for whom the bounds of all releases hold, such as "learner".

        Raises:
            ValueError: there is no such observer.
        """
        return common_observer(bound.observer for bound in self._bounds)

    @cached_property
    def _bounds(self) -> list[PrivacyBound]:
        return [release.epsilon(release.least_delta) for release in self.releases]

    @property
    def _rounding(self) -> float:
        """How much floating-point rounding of the convolutions may change δ: three times the largest error measured.
        Nothing is proved about this error. The result grows with the number of releases.
        """
        return 9e-16 + 3e-17 * self.count

    @cached_property
    def _step(self) -> float:
        """Width of the bins of the privacy loss: 1/80 of the smallest of the releases' largest finite losses. The bins
        are wider if the sum of all losses would need more than 2^18 bins.
        """
        laws, width = [loss_law(release) for release in self.releases], 0.0
        for law, count in zip(laws, self.times, strict=True):
            # the sum of `count` losses reaches to 12 standard deviations above its mean, or to its maximum
            reach = count * law.mean + 12.0 * law.deviation * math.sqrt(count) + law.top
            width += 2.0 * min(count * law.top, reach)
        least = min((law.top for law in laws if law.top > 0.0), default=0.0)
        return max(least / _BINS_OF_ONE, width / _BINS_OF_ALL, _LEAST_STEP)


@lru_cache(maxsize=32)
def _composed(composition: Composition, step: float) -> PrivacyLossDistribution:
    """The privacy loss distribution of all releases together, with bins of width `step`; see `Composition.pld`."""
    whole: PrivacyLossDistribution = library_of_plds().identity(step)
    for release, count in zip(composition.releases, composition.times, strict=True):
        whole = whole.compose(pld(release, step).self_compose(count))
    return whole


@plain_arguments
def compose(exchanges: Sequence[Accountant | RunRelease], delta: float) -> PrivacyBound:
    """Certified ε(δ) of releases about the same users, each with fresh noise, peers and subsamples.

    Args:
        exchanges: accountants of the releases, at least one. An accountant may be repeated. No two releases may share
        noise. For a `RunRelease` (`p2p_sim.release`) this is checked. For all others it is a condition of the bound.
        delta: δ, below 1 and at least 1e-14. The least δ is larger for more than 3 releases (about 1e-13 for 300). A
        possible infinite privacy loss of a release may also raise the least δ.

    Raises:
        ValueError: δ is too small, there is no release, two releases are known to share noise, or no observer is common
        to all releases. The error is also raised if no ε holds, for example because labels are not flipped (α = 0).
    """
    check_delta(delta)
    times = Counter(exchanges)
    models = tuple(each.accountant if isinstance(each, RunRelease) else each for each in times)
    drawn_with = tuple(each.drawn_with if isinstance(each, RunRelease) else "" for each in times)
    # a release that reveals a label with certainty has no privacy loss distribution
    total = Composition(models, tuple(times.values()), drawn_with)
    certain = any(loss_law(model).infinite >= 1.0 for model in models)
    if certain or math.isinf((bound := total.epsilon(delta)).epsilon_upper):
        raise ValueError(f"delta = {delta}: no ε holds: the releases reveal labels with a larger probability")
    return bound
