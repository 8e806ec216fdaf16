"""Theorems 2 and 4 of the clustering paper term by term: laws on which one term of the bound is all there is.

A bound on excess risk is about the worst law, so the law may move with the parameter: margins just small enough to be
lost. The shape of a term is its value in the bound with constant 1; for the squared error, whose excess is quadratic
near its minimum, the square of that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.utility.bounds import Algorithm1, ShapeFit, fit_constant, theorem2, theorem4
from p2p_sim.analysis.utility.intervals import Mean, mean_interval
from p2p_sim.analysis.utility.scaling import Estimate, log_log_slope
from p2p_sim.analysis.utility.table_study import Law, centralised, cost_excess, exchanged, squared_excess, subset_excess

Floats = NDArray[np.float64]
LARGE = 10**9
"""Users of a cluster where sampling must not show."""
WORST_MARGIN = 0.75
"""Standard errors at which margin times the probability of losing it, m Pr[N(0,1) > m], is largest."""
MINORITY = 0.25
"""Mass of the points whose favourite the pull of their cluster reverses; they stay 10% short of resisting it."""


@dataclass(frozen=True)
class Series:
    """Excess risk along one parameter.

    Attributes:
        label: the loss and the law.
        x: (P,) values of the parameter.
        values: (P, R) excess risk of independent replicates.
        shape: (P,) the bound's term with constant 1, None where the term is not expected to show.
        symbol: how the shape is written.
    """

    label: str
    x: Floats
    values: Floats
    shape: Floats | None = None
    symbol: str = ""

    @property
    def means(self) -> list[Mean]:
        """Mean over replicates with its 95% interval at each point."""
        return [mean_interval(row) for row in self.values]

    def fit(self, rng: np.random.Generator) -> ShapeFit | None:
        """The constant of the shape."""
        return None if self.shape is None else fit_constant(self.shape, self.values, rng)

    def slope(self) -> Estimate:
        """Log-log slope where the mean is above 0; NaN if it is so at fewer than two points."""
        seen = self.values.mean(axis=1) > 0.0
        if seen.sum() < 2:
            return Estimate(*[float("nan")] * 3)
        return log_log_slope(self.x[seen], self.values[seen])


@dataclass(frozen=True)
class Term:
    """One term of a bound, isolated."""

    name: str
    x_label: str
    series: Sequence[Series]


@dataclass(frozen=True)
class Study:
    """How much is simulated. replicates: R of each point, at least 3; clusters: C; rng: random numbers."""

    replicates: int
    clusters: int
    rng: np.random.Generator

    def exchange(self, law: Law, size: int, flip_prob: float = 0.0, sampling_rate: float = 1.0) -> Floats:
        """Estimates by the label exchange."""
        return exchanged(law, size, flip_prob, sampling_rate, self.replicates, self.rng)

    def central(self, law: Law, size: int, parameters: Algorithm1) -> Floats:
        """Estimates by Algorithm 1."""
        return centralised(law, size, parameters, self.replicates, self.rng)

    def zero_one(self, law: Law, estimate: Floats, chosen: int = 1) -> Floats:
        """Excess 0-1 risk."""
        return subset_excess(law, estimate, self.rng, chosen)

    def pure(self, margin: float, points: int = 8, classes: int = 2) -> Law:
        """Points of a cluster alike: a favourite, by a margin over K-1 labels that are alike. φ = 0."""
        p = np.full((self.clusters, points, classes), (1.0 - margin) / classes)
        p[np.arange(self.clusters), :, np.arange(self.clusters) % classes] += margin
        return Law(p)

    def split(self, margin: float, classes: int = 2) -> Law:
        """Half of a cluster's points favour one label, half another, by the same margin. φ = margin."""
        p = np.full((self.clusters, 8, classes), 0.2 / max(classes - 2, 1))
        p[:, :, :2] = 0.5 if classes == 2 else 0.4
        p[:, :4, :2] += np.array([0.5, -0.5]) * margin
        p[:, 4:, :2] -= np.array([0.5, -0.5]) * margin
        return Law(p)

    def pulled(self, pull: float, gap: float) -> Law:
        """A quarter of each cluster's points, whose margin is `gap` from the others', loses it to κ. φ = 0.375 gap."""
        own = 0.9 * abs(pull) * (1.0 - MINORITY) * gap
        margins = np.array([-own, *[gap - own] * 3]) if pull > 0 else np.array([own, *[gap + own] * 3])
        p = 0.5 + 0.5 * np.stack([margins, -margins], axis=1)
        return Law(np.broadcast_to(p, (self.clusters, 4, 2)).copy())


def arrivals(study: Study, rates: Sequence[float], sizes: Sequence[int], by_rate: bool) -> Term:
    """√(dim/(θn)), against n or θ: no flips, pure clusters."""
    points, fixed = 8, 0.1
    rows: dict[str, list[Floats]] = {"worst": [], "fixed": [], "squared": []}
    for rate, size in zip(rates, sizes, strict=True):
        law = study.pure(WORST_MARGIN * float(np.sqrt(points / (rate * size))))
        rows["worst"].append(study.zero_one(law, study.exchange(law, size, 0.0, rate)))
        law = study.pure(fixed)
        estimate = study.exchange(law, size, 0.0, rate)
        rows["fixed"].append(study.zero_one(law, estimate))
        rows["squared"].append(squared_excess(law, estimate))
    arrived = [rate * size * study.clusters for rate, size in zip(rates, sizes, strict=True)]
    shape = np.array([theorem4(a, 0.0, 0.0, dimension=points * study.clusters) for a in arrived])
    x = np.array(rates if by_rate else arrived, dtype=float)
    series = [
        Series("0-1 loss, worst margin for each value", x, np.array(rows["worst"]), shape, "√(d/θn)"),
        Series(f"0-1 loss, margin {fixed:g}", x, np.array(rows["fixed"])),
        Series("squared error", x, np.array(rows["squared"]), shape**2, "d/θn"),
    ]
    name, label = ("θ (Theorem 4)", "sampling rate θ") if by_rate else ("n (Theorem 4)", "labels that arrive, θn")
    return Term(name, label, series)


def spread(study: Study, values: Sequence[float]) -> Term:
    """φ in Theorem 4: half of each cluster's points against the other half."""
    laws = [study.split(phi) for phi in values]
    estimates = [study.exchange(law, LARGE) for law in laws]
    x = np.array([law.heterogeneity for law in laws])
    shape = np.array([theorem4(np.inf, phi, 0.0) for phi in x])
    zero_one = [study.zero_one(law, e) for law, e in zip(laws, estimates, strict=True)]
    squared = [squared_excess(law, e) for law, e in zip(laws, estimates, strict=True)]
    series = [
        Series("0-1 loss, points split in half", x, np.array(zero_one), shape, "φ"),
        Series("squared error", x, np.array(squared), shape**2, "φ²"),
    ]
    return Term("φ (Theorem 4)", "heterogeneity φ", series)


def flips(study: Study, values: Sequence[float]) -> Term:
    """α in Theorem 4: pure clusters, so that only flips can mislead."""
    cost, few = 0.25, 8000
    costly, zero_one, squared = [], [], []
    for alpha in values:
        short = 0.9 * alpha * (1.0 - 2.0 * cost) / (1.0 - 2.0 * alpha)  # flips lift p = t - short above t
        law = Law(np.broadcast_to([1.0 - cost + short, cost - short], (study.clusters, 8, 2)).copy())
        costly.append(cost_excess(law, study.exchange(law, LARGE, alpha), cost))
        law = study.pure(WORST_MARGIN * float(np.sqrt(8.0 / few)) / (1.0 - 2.0 * alpha))
        zero_one.append(study.zero_one(law, study.exchange(law, few, alpha)))
        law = study.pure(0.8)
        squared.append(squared_excess(law, study.exchange(law, LARGE, alpha)))
    x = np.array(values, dtype=float)
    shape = np.array([theorem4(np.inf, 0.0, alpha) for alpha in values])
    series = [
        Series(f"unequal costs, p just below the threshold {cost:g}", x, np.array(costly), shape, "α"),
        Series(f"0-1 loss, worst margin, {few // 8:,} users a point", x, np.array(zero_one)),
        Series("squared error", x, np.array(squared), shape**2, "α²"),
    ]
    return Term("α (Theorem 4)", "flip probability α", series)


def unbiased_rate(study: Study, values: Sequence[float]) -> Term:
    """√(dim/n)/(1-β) in Theorem 2: β = λ, no noise on the shares."""
    size, points = 80_000, 8
    zero_one, squared, shape = [], [], []
    for beta in values:
        parameters = Algorithm1(beta, beta)
        law = study.pure(WORST_MARGIN * float(np.sqrt(points / size)) / (1.0 - beta))
        estimate = study.central(law, size, parameters)
        zero_one.append(study.zero_one(law, estimate))
        squared.append(squared_excess(law, estimate))
        users = size * study.clusters
        shape.append(theorem2(users, 2, 0.0, size, parameters, points * study.clusters, leading_classes=False))
    x, bound = 1.0 / (1.0 - np.array(values)), np.array(shape)
    series = [
        Series("0-1 loss, worst margin for each value", x, np.array(zero_one), bound, "√(d/n)/(1-β)"),
        Series("squared error", x, np.array(squared), bound**2, "(d/n)/(1-β)²"),
    ]
    return Term("1/(1-β), with β = λ (Theorem 2)", "1/(1-β)", series)


def bias(study: Study, below: Sequence[float], above: Sequence[float]) -> Term:
    """|β-λ|/(1-β) φ in Theorem 2, with β below λ = 0.6 and above λ = 0.4; no noise on the shares."""
    gap, series = 0.5, []
    for name, lam, betas in (("β < λ", 0.6, below), ("β > λ", 0.4, above)):
        settings = [Algorithm1(lam, beta) for beta in betas]
        laws = [study.pulled(setting.pull, gap) for setting in settings]
        estimates = [study.central(law, LARGE, setting) for law, setting in zip(laws, settings, strict=True)]
        x = np.array([abs(setting.pull) for setting in settings])
        shape = np.array([
            theorem2(np.inf, 2, law.heterogeneity, LARGE, setting, leading_classes=False)
            for law, setting in zip(laws, settings, strict=True)
        ])  # fmt: skip
        zero_one = np.array([study.zero_one(law, e) for law, e in zip(laws, estimates, strict=True)])
        squared = np.array([squared_excess(law, e) for law, e in zip(laws, estimates, strict=True)])
        series.append(Series(f"0-1 loss, {name}, worst margin for each value", x, zero_one, shape, "φ|β-λ|/(1-β)"))
        series.append(Series(f"squared error, {name}", x, squared, shape**2, "(φ|β-λ|/(1-β))²"))
    return Term("β against λ (Theorem 2)", "|β-λ|/(1-β)", series)


def share_noise(study: Study, scales: Sequence[float]) -> Term:
    """Kσ/s in Theorem 2: pure clusters, every label drawn from the released shares (λ = 1, β = 0), K = 4."""
    classes, fixed = 4, 0.03
    worst, easy, squared, shape = [], [], [], []
    for scale in scales:
        parameters = Algorithm1(1.0, noise_scale=scale * LARGE)
        law = study.pure(1.5 * scale, 1, classes)
        worst.append(study.zero_one(law, study.central(law, LARGE, parameters)))
        law = study.pure(fixed, 1, classes)
        estimate = study.central(law, LARGE, parameters)
        easy.append(study.zero_one(law, estimate))
        squared.append(squared_excess(law, estimate))
        shape.append(theorem2(np.inf, classes, 0.0, LARGE, parameters, leading_classes=False))
    x, bound = np.array(scales, dtype=float), np.array(shape)
    series = [
        Series("0-1 loss, worst margin for each value", x, np.array(worst), bound, "Kσ/s"),
        Series(f"0-1 loss, margin {fixed:g}", x, np.array(easy)),
        Series("squared error", x, np.array(squared), bound**2, "(Kσ/s)²"),
    ]
    return Term("σ/s (Theorem 2), K = 4", "noise on the shares, σ/s", series)


def classes_count(study: Study, counts: Sequence[int], scale: float = 0.001) -> Term:
    """K in Theorem 2, at a fixed σ/s and at a fixed φ; λ = 1, β = 0."""
    noisy = Algorithm1(1.0, noise_scale=scale * LARGE)
    half, one, squared, clean, shape = [], [], [], [], []
    for classes in counts:
        signs = np.where(np.arange(classes) % 2 == 0, 0.5, -0.5)
        law = Law(np.broadcast_to(1.0 / classes + 1.5 * scale * signs, (study.clusters, 1, classes)).copy())
        estimate = study.central(law, LARGE, noisy)
        half.append(study.zero_one(law, estimate, classes // 2))
        squared.append(squared_excess(law, estimate))
        law = study.pure(scale * (1.0 + float(np.log(classes))), 1, classes)
        one.append(study.zero_one(law, study.central(law, LARGE, noisy)))
        law = study.split(0.2, classes)
        clean.append(study.zero_one(law, study.central(law, LARGE, Algorithm1(1.0))))
        shape.append(theorem2(np.inf, classes, 0.0, LARGE, noisy, leading_classes=False))
    x = np.array(counts, dtype=float)
    series = [
        Series("K/2 labels named, noise on the shares", x, np.array(half), np.array(shape), "Kσ/s"),
        Series("0-1 loss, noise on the shares", x, np.array(one)),
        Series("squared error, noise on the shares", x, np.array(squared)),
        Series("0-1 loss, φ = 0.2, no noise", x, np.array(clean)),
    ]
    return Term(f"K (Theorem 2), σ/s = {scale:g}", "labels K", series)


def clipping(study: Study, thresholds: Sequence[float]) -> Term:
    """Kτ in Theorem 2: labels that never occur are released with share τ; λ = 1, β = 0, K = 2."""
    costly, squared, shape = [], [], []
    law = Law(np.broadcast_to([1.0, 0.0], (study.clusters, 1, 2)).copy())
    for tau in thresholds:
        estimate = study.central(law, LARGE, Algorithm1(1.0, threshold=tau))
        costly.append(cost_excess(law, estimate, 0.9 * tau))
        squared.append(squared_excess(law, estimate))
        shape.append(theorem2(np.inf, 2, 0.0, LARGE, Algorithm1(1.0, threshold=tau), leading_classes=False))
    x, bound = np.array(thresholds, dtype=float), np.array(shape)
    series = [
        Series("unequal costs, threshold 0.9 τ", x, np.array(costly), bound, "Kτ"),
        Series("squared error", x, np.array(squared), bound**2, "(Kτ)²"),
    ]
    return Term("τ (Theorem 2)", "clipping threshold τ", series)


def all_terms(study: Study, points: int) -> list[Term]:
    """Every term of both theorems, at about this many values of its parameter."""
    rates = np.geomspace(1 / 64, 1.0, points).tolist()
    grid = np.geomspace(0.02, 0.6, points)
    below = [max(0.0, (0.6 - k) / (1.0 - k)) for k in grid.tolist()]  # κ from 0.02 to 0.6
    above = [(0.4 + k) / (1.0 + k) for k in grid.tolist()]
    return [
        arrivals(study, [1.0] * points, np.geomspace(160, 160_000, points).astype(int).tolist(), by_rate=False),
        arrivals(study, rates, [16_000] * points, by_rate=True),
        spread(study, np.geomspace(0.02, 1.0, points).tolist()),
        flips(study, np.geomspace(0.005, 0.2, points).tolist()),
        unbiased_rate(study, [0.0, *(1.0 - np.geomspace(0.7, 0.05, points - 1)).tolist()]),
        bias(study, below, above),
        share_noise(study, np.geomspace(0.001, 0.03, points).tolist()),
        classes_count(study, [2**k for k in range(1, points + 1)]),
        clipping(study, np.geomspace(0.01, 0.4, points).tolist()),
    ]
