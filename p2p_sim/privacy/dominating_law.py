"""A finite law (distribution) of the privacy loss that dominates a mechanism, made from certified values of its δ(ε).

**The curve F.** The exact δ(ε) of a mechanism is the largest hockey-stick divergence over all neighbouring data sets,
in both directions. As a function of x = e^ε it is convex and does not increase. Let U be certified upper bounds of the
exact δ on a grid of ε from 0 to `top`. Let F be the largest convex function below the points of U. The exact δ is
itself a convex function below these points. So F is nowhere below the exact δ.

**Negative ε.** Both directions are counted, so that the exact δ obeys δ(-ε) = 1 - e^-ε (1 - δ(ε)). This equation
continues F to ε < 0, where F is again convex in x. If the bounds U are loose near 0, F may fail to be convex at ε = 0.
Then a chord replaces F between -ε and ε. Here ε is the first vertex of F (a point at which its slope changes) that
makes F convex. The exact δ is convex, so that it lies below this chord.

**The law.** F falls from 1, is convex in x, and is at least max(0, 1 - x). So F is δ(ε) of a pair of laws. This pair
dominates every neighbouring pair, also in adaptive compositions (Zhu, Dong and Wang 2022, Proposition 10 and Theorem
10). The pair's privacy loss has finitely many values. Each vertex of F gives a mass at the loss ε and a mass at -ε. The
first mass is e^ε times the second. The mass δ(top) lies at infinity.

**Bins.** For composition, every loss must be a multiple of a fixed interval. The mass at any other loss is split
between the two nearest multiples, so that both laws keep their mass. This replaces F between neighbouring multiples by
a chord ("connect the dots").
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution as PrivacyLossDistribution
else:
    PrivacyLossDistribution = Any  # accountants also work where dp-accounting is not installed

NODES = 96
"""Number of values of ε above 0 at which δ is computed. They are denser towards 0."""
TAIL = 1e-18
"""Default of `Accountant.least_delta`: privacy losses above the ε at this δ count as infinite."""
_BINS = 1000
"""Number of bins up to the largest finite loss, unless the caller chooses the bins' width."""
_STEEP = 30.0
"""Two neighbouring ε of the grid get further ε between them if δ falls by more than this factor."""
_PARTS = 9
"""`LossLaw.gdp` tests a Gaussian mechanism at this number of points from one vertex of F to the next, ends included."""
_SMALLEST_MU, _LARGEST_MU = 1e-6, 1e3
"""The range in which μ is searched."""


def library_of_plds() -> Any:
    """The module of dp-accounting that composes privacy loss distributions.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a privacy loss distribution needs the package dp-accounting: pip install dp-accounting ({error})"
        ) from None
    return privacy_loss_distribution


@dataclass(frozen=True)
class LossLaw:
    """The law of the privacy loss of a pair of laws that dominates a mechanism, equal in both directions.

    losses: (v,) values of the loss that are at least 0, ascending. masses: (v,) their probabilities. The loss -l has
    e^-l times the probability of the loss l > 0.
    infinite: probability of an infinite loss. pure: an ε at which δ is 0, so that no true loss exceeds it. Infinity: no
    such ε is known.
    """

    losses: Floats
    masses: Floats
    infinite: float
    pure: float = math.inf

    @staticmethod
    def of(epsilons: Sequence[float], deltas: Sequence[float], pure: float = math.inf) -> "LossLaw":
        """The loss law that follows from certified values of δ(ε).

        Args:
            epsilons: (k,), k at least 1, ascending from 0. deltas: (k,) values of δ in [0, 1], one for each ε. pure: an
            ε at which δ is 0; infinity if none is known.
        """
        at, upper = np.asarray(epsilons, dtype=np.float64), np.minimum.accumulate(np.asarray(deltas, dtype=np.float64))
        # the vertices of F: the points at which the slope in e^ε rises
        vertices: list[int] = []
        for point in range(len(at)):
            while len(vertices) > 1 and _mass(at, upper, (vertices[-2], vertices[-1], point)) <= 0.0:
                vertices.pop()
            vertices.append(point)
        # The mass at each vertex but the first. The first vertex gets the rest to 1. If the rest is negative, F is not
        # convex at ε = 0. Then the first vertex is dropped, and the next vertex takes its place.
        infinite = float(upper[-1])
        triples = zip(vertices[:-1], vertices[1:], [*vertices[2:], None][: len(vertices) - 1], strict=True)
        masses = np.array([0.0, *(_mass(at, upper, triple) for triple in triples)])
        losses, both = at[vertices], masses * (1.0 + np.exp(-at[vertices]))
        first = 0
        while (rest := 1.0 - infinite - math.fsum(both[first + 1 :])) < 0.0:
            first += 1
        masses[first] = rest / (1.0 + math.exp(-losses[first]) if losses[first] > 0.0 else 1.0)
        return LossLaw(losses[first:], masses[first:], infinite, pure)

    @property
    def top(self) -> float:
        """The largest finite privacy loss."""
        return float(self.losses[-1])

    @property
    def mean(self) -> float:
        """The mean of the privacy loss, where an infinite loss counts as 0."""
        return float(self._both.masses @ self._both.losses)

    @property
    def deviation(self) -> float:
        """The standard deviation of the privacy loss, where an infinite loss counts as 0."""
        both = self._both
        return math.sqrt(max(0.0, float(both.masses @ both.losses**2) - self.mean**2))

    def delta(self, epsilon: float) -> float:
        """δ(ε) of the dominating pair, ε at least 0."""
        above = self.losses > epsilon
        return self.infinite + float(self.masses[above] @ -np.expm1(epsilon - self.losses[above]))

    def pld(self, interval: float | None = None) -> PrivacyLossDistribution:
        """The law in dp-accounting's form, with losses that are multiples of `interval`. Rounding never overstates
        privacy.

        Laws can be composed only if their intervals are equal.

        Args:
            interval: width of the bins of the loss, above 0; None: a thousandth of the largest finite loss.
        """
        library = library_of_plds()
        step = interval or max(self.top, 1e-9) / _BINS
        losses, masses = self._both.losses, self._both.masses
        low = np.floor(losses / step).astype(np.int64)
        high_share = np.clip(np.expm1(low * step - losses) / math.expm1(-step), 0.0, 1.0)
        first = int(low.min())
        bins = np.zeros(int(low.max()) - first + 2)
        np.add.at(bins, low - first, masses * (1.0 - high_share))
        np.add.at(bins, low - first + 1, masses * high_share)
        used = np.flatnonzero(bins)
        table = dict(zip((used + first).tolist(), bins[used].tolist(), strict=True))
        return library.PrivacyLossDistribution(library.pld_pmf.create_pmf(table, step, self.infinite, True))

    def tradeoff(self, type_one: Sequence[float] | Floats) -> Floats:
        """Certified lower bound on the type II error of any test of one data set against a neighbouring one.

        Every (ε, δ) gives the lower bound max(0, 1-δ-e^ε a, e^-ε(1-δ-a)) at the type I error a. The largest of these
        bounds comes from ε = 0 or from one of `losses`.

        Args:
            type_one: type I errors a in [0, 1]; a perfectly private mechanism has the type II error 1 - a.
        """
        a = np.asarray(type_one, dtype=np.float64)
        if not np.all((a >= 0.0) & (a <= 1.0)):
            raise ValueError("type_one: errors must lie in [0, 1]")
        best = np.zeros_like(a)
        for epsilon in np.unique([0.0, *self.losses]):
            hidden = 1.0 - self.delta(epsilon)
            best = np.maximum(best, np.maximum(hidden - math.exp(epsilon) * a, math.exp(-epsilon) * (hidden - a)))
        return best

    def renyi(self, order: float) -> float:
        """Certified Rényi ε of an order above 1; infinite if the loss may be infinite. The Rényi divergence increases
        with an integral of δ(ε) with positive weights. So it is largest for the dominating pair.
        """
        if not 1.0 < order < math.inf:
            raise ValueError(f"order = {order}: must be above 1 and finite")
        from scipy.special import logsumexp

        law = self._closed
        if law.infinite > 0.0:
            return math.inf
        both = law._both
        with np.errstate(divide="ignore"):
            return max(0.0, float(logsumexp((order - 1.0) * both.losses + np.log(both.masses))) / (order - 1.0))

    def gdp(self, beside: float = 0.0) -> float:
        """Certified μ: at every ε the δ(ε) that this law bounds is at most `beside` plus the δ(ε) of a μ-GDP (Gaussian)
        mechanism.

        A μ is tested as follows. Let F be the δ(ε) of this law as a function of x = e^ε. F is linear between
        neighbouring losses. The Gaussian δ(ε) is convex in x, and so above its tangents. For two neighbouring points,
        take the tangent at the middle ε. Suppose that this tangent is above F - `beside` at both points. Between the
        points, F and the tangent are linear. So the tangent, and with it the Gaussian δ(ε), is above F - `beside`
        there, too. The test covers all neighbouring points from ε = 0 up to where F is at most `beside`. For ε < 0 the
        claim follows by symmetry (Dong, Roth and Su 2022, Corollary 2.13).

        Args:
            beside: a probability, at least 0, by which the law may exceed the Gaussian curve. A positive value allows
            for rare large losses. At 0, such losses alone decide on μ, which is then large.

        Returns:
            μ; infinite if no μ up to 1000 is enough, or if `pure` is infinite and `infinite` is above `beside`.
        """
        law = self if self.infinite <= beside else self._closed
        if law.infinite > beside:
            return math.inf
        # points of F, and F minus `beside` there
        ends = np.unique([0.0, *law.losses])
        ends = np.unique([*ends, *np.linspace(ends[:-1], ends[1:], _PARTS, axis=1).ravel()])
        excess = np.array([law.delta(end) for end in ends]) - beside
        if excess[0] <= 0.0:
            return 0.0
        above = np.append(excess[:-1] > 0.0, False) | np.append(False, excess[:-1] > 0.0)
        ends, excess = ends[above], excess[above]
        if len(ends) == 1 or not _gaussian_covers(_LARGEST_MU, ends, excess):
            return math.inf
        # bisection on a logarithmic scale, down from the largest μ
        low, high = 0.0, _LARGEST_MU
        while high - low > 1e-6 * high and high >= _SMALLEST_MU:
            middle = math.sqrt(low * high) if low > 0.0 else high / 16.0
            low, high = (low, middle) if _gaussian_covers(middle, ends, excess) else (middle, high)
        return max(high, _SMALLEST_MU)

    @property
    def _both(self) -> "LossLaw":
        """A law with all finite losses of this law, ascending. This law itself lists only losses of at least 0. The
        loss -l has e^-l times the probability of the loss l > 0.
        """
        negative = self.losses > 0.0
        mirrored = self.masses[negative] * np.exp(-self.losses[negative])
        losses = np.concatenate([-self.losses[negative], self.losses])
        return LossLaw(losses, np.concatenate([mirrored, self.masses]), self.infinite)

    @property
    def _closed(self) -> "LossLaw":
        """A law in which the finite loss `pure` replaces the infinite loss. No privacy loss exceeds `pure`. The law
        itself is returned if `pure` is infinite, or is not above all finite losses.
        """
        if self.infinite == 0.0 or math.isinf(self.pure) or self.pure <= self.top:
            return self
        grid = [*(self.losses if self.losses[0] == 0.0 else (0.0, *self.losses)), self.pure]
        return LossLaw.of(grid, [*(self.delta(epsilon) for epsilon in grid[:-1]), 0.0], self.pure)


def nodes(top: float) -> list[float]:
    """The grid of ε from 0 to `top`, denser towards 0, at which an accountant's δ is computed for a `LossLaw`.

    The grid has `NODES` + 1 values, both ends included. If `top` is 0, the only value is 0.
    """
    return [top * (i / NODES) ** 1.5 for i in range(NODES + 1)] if top > 0.0 else [0.0]


def between(deltas: Mapping[float, float]) -> list[float]:
    """Further values of ε for the grid at which δ is computed. deltas: δ at each ε of the grid. If δ falls by more than
    a factor of 30 between two neighbouring ε, three values are evenly spaced between the two.
    """
    steep = [(a, b) for a, b in itertools.pairwise(sorted(deltas)) if deltas[a] > _STEEP * deltas[b]]
    return [a + (b - a) * part / 4.0 for a, b in steep for part in (1, 2, 3)]


def _mass(at: Floats, upper: Floats, points: tuple[int, int, int | None]) -> float:
    """The probability that the privacy loss is the ε of the middle one of three points of a curve δ(ε).

    The curve is linear in x = e^ε between points. The result is e^ε times the change of the slope in x at the middle
    point. Beyond the last point of the curve the slope is 0.

    Args:
        at, upper: (k,) ε, ascending, and δ of all points of the curve. points: indices of three neighbouring points.
        None as the third: the middle point is the last one.
    """
    before, here, after = points
    falls = (upper[before] - upper[here]) / -math.expm1(at[before] - at[here])
    further = 0.0 if after is None else (upper[here] - upper[after]) / math.expm1(at[after] - at[here])
    return float(falls - further)


def _gaussian_covers(mu: float, ends: Floats, deltas: Floats) -> bool:
    """Whether the δ(ε) of a μ-GDP (Gaussian) mechanism is certified to lie above given points and their connecting
    lines.

    All are functions of x = e^ε. For two neighbouring points, the tangent of the Gaussian δ(ε) at the middle ε must be
    above both points. Then δ(ε), which is convex in x, lies above the line between the points. The tangent has slope
    -Φ(-ε/μ-μ/2) in x. At the middle its height is Φ(-ε/μ+μ/2) - e^ε Φ(-ε/μ-μ/2), less an allowance for rounding. The
    allowance is 1e-9 of this height and 1e-14 of its second term.

    Args:
        mu: μ. ends, deltas: (k,), ε and δ of the points, by ascending ε.
    """
    from scipy.special import log_ndtr, ndtr

    middle = 0.5 * (ends[:-1] + ends[1:])
    # the height at the middle, plus the slope times the change of e^ε from there to each end
    falling = np.exp(middle + log_ndtr(-middle / mu - mu / 2.0))
    height = ndtr(-middle / mu + mu / 2.0) - falling
    lost = 1e-9 * height + 1e-14 * falling
    before = height - lost - falling * np.expm1(ends[:-1] - middle)
    after = height - lost - falling * np.expm1(ends[1:] - middle)
    return bool(np.all(before >= deltas[:-1]) and np.all(after >= deltas[1:]))
