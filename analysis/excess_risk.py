"""Theorems 2 and 4 of the clustering paper: for each term of their bounds, laws on which the other terms vanish.

Theorem 2 (Algorithm 1, a curator):  C₁ √(d/n)/(1-β) + C₂ |κ| (φ + Kσ/s + Kτ), κ = (λ-β)/(1-β)
Theorem 4 (label exchange):          C₁ √(d/(θn)) + C₂ φ + C₃ α

There are n users, s of them in each cluster, d points and K labels. C₁, C₂ and C₃ are constants. φ is the
heterogeneity: how much labels vary within clusters. σ is the scale of the noise on counts of labels. τ is the least
share of a label that is released. λ is the probability that a label is redrawn. β corrects the bias of redrawing. θ is
the sampling rate, and α the flip probability.

A law p(y|x), an array (C, P, K), has C clusters of P equally likely points and K labels. A release depends on users'
labels only through the counts of labels at each point. So releases of billions of users are drawn as counts, by the
exact law of these counts. The learner minimises the empirical loss over all functions of the points. In Algorithm 1, K
signed weights replace each label in this loss. At each point the loss depends only on the mean weight of each label.
The mean weight estimates p(y|x). Given this estimate, the excess risk is computed exactly.

A bound must hold for the worst law. So here the law may depend on the term's parameter: the margins between labels are
just small enough for the wrong label to win. The excess squared risk is quadratic near its minimum. So this risk
follows the square of a term.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from p2p_sim.figures import COLOURS, MARKERS, drawing, plain_log_ticks, powers_of_ten
from p2p_sim.measures import RESAMPLES, log_log_slope
from p2p_sim.privacy import Floats
from p2p_sim.privacy.rivals import released_distribution

LARGE = 10**9
"""Number of users of a cluster so large that the sampling of users has no effect."""
WORST_MARGIN = 0.75
"""The margin m, in standard errors, at which the excess risk m Pr[N(0,1) > m] is largest."""


@dataclass(frozen=True)
class Simulation:
    """Draws R independent replicates of releases of C clusters, and measures what can be learned from these releases.
    Each cluster has P points; there are K labels. A law is an array (C, P, K) of p(y|x). An estimate of a law is an
    array (R, C, P, K). An excess risk is an array (R,).
    """

    replicates: int
    clusters: int
    rng: np.random.Generator

    def centralised(
        self, law: Floats, size: int, *, lam: float = 1.0, beta: float = 0.0, share_noise: float = 0.0, tau: float = 0.0
    ) -> Floats:
        """Estimates (R, C, P, K) of p(y|x) by Algorithm 1, in which a curator resamples labels. With probability λ a
        label is replaced by a draw from the noisy label shares of its cluster. The learner turns each label into K
        signed weights: it subtracts β times the noisy shares and divides by 1-β. If β = λ, the weights have no bias.
        The estimate at a point is the mean weight of its users, or 1/K without users.

        Args:
            law: p(y|x), (C, P, K). size: number of users of each cluster. lam: λ. beta: β, below 1. share_noise: scale
            of the Laplace noise on shares. tau: τ, the least share that is released.
        """
        truth = self._true_counts(law, size)
        # q̃: each cluster's label shares, with noise, then clipped
        share = truth.sum(axis=2) / size
        released = released_distribution(share, self.rng.laplace(size=share.shape) * share_noise, tau)[:, :, None, :]
        # each label is replaced by a draw from q̃ with probability λ
        resampled = self.rng.binomial(truth, lam)
        counts = truth - resampled + self._deal(resampled.sum(axis=3), released)
        # the weights of label y are column y of (I - β q̃ 1ᵀ)/(1-β), the inverse of redrawing with probability β
        users = counts.sum(axis=3, keepdims=True)
        return _mean_weights((counts - beta * users * released) / (1.0 - beta), users)

    def exchanged(self, law: Floats, size: int, flip_prob: float = 0.0, sampling_rate: float = 1.0) -> Floats:
        """Estimates (R, C, P, K) of p(y|x) by the label exchange. The estimate at a point has the shares of the labels
        that arrive from its users, or 1/K if none arrives. law: p(y|x), (C, P, K). size: number of users of each
        cluster. flip_prob: α. sampling_rate: θ, the probability that a fetched noisy label is submitted.
        """
        truth = self._true_counts(law, size)
        classes, labels = law.shape[2], truth.sum(axis=2)
        # flipping with probability α equals redrawing from all K labels with probability αK/(K-1)
        redrawn = self.rng.binomial(labels, flip_prob * classes / (classes - 1))
        noisy = labels - redrawn + self.rng.multinomial(redrawn.sum(axis=2), np.full(classes, 1.0 / classes))
        # each user submits with probability θ the noisy label of a random user of the cluster
        arrived = self.rng.binomial(truth.sum(axis=3), sampling_rate)
        return _mean_weights(self._deal(arrived, noisy[:, :, None, :] / size), arrived[..., None])

    def _true_counts(self, law: Floats, size: int) -> NDArray[np.int64]:
        """The numbers (R, C, P, K) of users at each point with each true label. The P points of a cluster are equally
        likely.

        Args:
            law: p(y|x), (C, P, K). size: number of users of each cluster.
        """
        points = np.full(law.shape[1], 1.0 / law.shape[1])
        return self._deal(self.rng.multinomial(size, points, size=(self.replicates, len(law))), law)

    def _deal(self, users: NDArray[np.int64], distribution: Floats) -> NDArray[np.int64]:
        """How many of `users` (...) draw each of K labels, (..., K). distribution: (..., K), normalised here."""
        return self.rng.multinomial(users, distribution / distribution.sum(axis=-1, keepdims=True))

    def named_excess(self, law: Floats, estimate: Floats, named: int = 1) -> Floats:
        """Excess risk (R,) of naming the `named` labels with the largest estimates at each point, with ties broken at
        random. The risk is the probability that the true label is not named. The excess is over the best choice of
        equally many labels. With one label, this is the excess 0-1 risk. The true law gives the risk, averaged over
        clusters and points.

        Args:
            law: the true p(y|x), (C, P, K). estimate: estimates of the law, (R, C, P, K). named: number of labels that
            are named.
        """
        jittered = estimate + 1e-12 * self.rng.random(estimate.shape)
        chosen = np.argpartition(jittered, -named, axis=3)[..., -named:]
        won = np.take_along_axis(np.broadcast_to(law, estimate.shape), chosen, axis=3).sum(axis=3)
        return np.asarray((np.sort(law, axis=2)[..., -named:].sum(axis=2) - won).mean(axis=(1, 2)))

    def losses(self, law: Floats, estimate: Floats) -> list[Floats]:
        """The excess 0-1 risk and the excess squared risk of estimates, (R,) each."""
        return [self.named_excess(law, estimate), squared_excess(law, estimate)]

    def pure(self, margin: float, points: int = 8, classes: int = 2) -> Floats:
        """A law p(y|x), (C, P, K), in which all points of a cluster have the same label distribution. One label is
        likelier by the margin than all others. The other labels are equally likely. points: P. classes: K.
        """
        law = np.full((self.clusters, points, classes), (1.0 - margin) / classes)
        law[np.arange(self.clusters), :, np.arange(self.clusters) % classes] += margin
        return law

    def alike(self, distributions: ArrayLike) -> Floats:
        """A law p(y|x), (C, P, K), in which every cluster has the same label distributions (P, K) at its points."""
        return np.broadcast_to(distributions, (self.clusters, *np.shape(distributions)))

    def split(self, margin: float, classes: int = 2) -> Floats:
        """A law p(y|x), (C, 8, K), in which a cluster's 8 points disagree. Label 0 is likeliest at the first four
        points, label 1 at the other four. The law's heterogeneity φ is the mean L1 distance of p(y|x) from its cluster
        average. Here φ equals the margin.

        Args:
            margin: by how much the likeliest label is likelier than the second, 0 to 1 (to 0.8 for K above 2). classes:
            K.
        """
        base = [0.5, 0.5] if classes == 2 else [0.4, 0.4, *[0.2 / (classes - 2)] * (classes - 2)]
        sides = np.repeat([[0.5, -0.5], [-0.5, 0.5]], 4, axis=0) * margin
        return self.alike(np.array(base) + np.pad(sides, ((0, 0), (0, classes - 2))))


def _mean_weights(total: NDArray[np.generic], users: NDArray[np.int64]) -> Floats:
    """The mean weight of each label: total weights (..., K) over numbers of users (..., 1), or 1/K without users."""
    uniform = np.full(total.shape, 1.0 / total.shape[-1])
    return np.asarray(np.divide(total, users, out=uniform, where=users > 0))


def cost_excess(law: Floats, estimate: Floats, cost: float) -> Floats:
    """Excess risk (R,) of decisions between K = 2 labels. A false 1 costs t = `cost`, and a false 0 costs 1-t. A
    decision is 1 where the estimate of p(1|x) is above t. The best decision is 1 where p(1|x) itself is above t.

    law: the true p(y|x), (C, P, 2). estimate: estimates of the law, (R, C, P, 2).
    """
    wrong = (estimate[..., 1] > cost) != (law[..., 1] > cost)
    return np.asarray((wrong * np.abs(law[..., 1] - cost)).mean(axis=(1, 2)))


def squared_excess(law: Floats, estimate: Floats) -> Floats:
    """Excess Brier risk (R,): the mean of Σ_y (estimate - p(y|x))² over the points of all clusters.

    law: the true p(y|x), (C, P, K). estimate: estimates of the law, (R, C, P, K).
    """
    return np.asarray(((estimate - law) ** 2).sum(axis=3).mean(axis=(1, 2)))


class Term:
    """One term of a bound at V values of its parameter, with series of excess risks in which the term may show.

    Args:
        name, title: texts for the term in figures. x: values of the parameter, (V,).
        shape: values of the term for these parameters, with the constant 1, (V,).
        powers: for each series, the power of the term that the excess risk may follow; 0: the term should not show.
        risks: for each value of the parameter, the excess risks (R,) of all series.

    The attribute `series` has the excess risks (V, R) of each series, by the name of the series.
    """

    def __init__(
        self, name: str, title: str, x: Floats, shape: Floats, *, powers: dict[str, int],
        risks: Iterable[Iterable[Floats]],
    ) -> None:  # fmt: skip
        self.name, self.title, self.x, self.shape, self.powers = name, title, x, shape, powers
        self.series = dict(zip(powers, np.array([list(line) for line in risks]).transpose(1, 0, 2), strict=True))


WORST, SQUARED = {"0-1 loss, worst margins": 1}, {"squared error": 2}


def arrivals(study: Simulation, rates: Floats, sizes: NDArray[np.int64], by_rate: bool) -> Term:
    """The term √(d/(θn)) of Theorem 4 at several values of n or θ, with the excess risks drawn for each value. Here d
    is the number of points and n the number of users, in all clusters together. No label is flipped, and all points of
    a cluster have the same label distribution (φ = 0). So the other terms vanish.

    Args:
        study: draws the releases. rates: values of θ. sizes: number of users of a cluster at each θ. by_rate: True: the
        term is drawn against θ. False: against the mean number θn of labels that arrive.
    """

    def risks(rate: float, size: int) -> list[Floats]:
        law, easy = study.pure(WORST_MARGIN * (8 / (rate * size)) ** 0.5), study.pure(0.1)
        return [
            study.named_excess(law, study.exchanged(law, size, 0.0, rate)),
            *study.losses(easy, study.exchanged(easy, size, 0.0, rate)),
        ]

    arrived = rates * sizes * study.clusters
    name, x = ("θ", rates) if by_rate else ("n", arrived)
    return Term(
        name, "Theorem 4: √(d/θn)", x, (8 * study.clusters / arrived) ** 0.5,
        powers=WORST | {"0-1 loss, margin 0.1": 0} | SQUARED, risks=map(risks, rates, sizes),
    )  # fmt: skip


def spread(study: Simulation, values: Floats) -> Term:
    """The term φ of Theorem 4 at several values of φ, with the excess risks drawn for each value. φ is positive because
    the likeliest label differs between two halves of a cluster's points. Clusters are so large that sampling has no
    effect, and no label is flipped. So the other terms vanish.

    Args:
        study: draws the releases. values: of φ, the mean L1 distance of p(y|x) from its average over the cluster.
    """
    releases = [(law, study.exchanged(law, LARGE)) for law in map(study.split, values)]
    return Term(
        "φ", "Theorem 4: φ", values, values, powers={"0-1 loss, points split in half": 1} | SQUARED,
        risks=[study.losses(*release) for release in releases],
    )  # fmt: skip


def flips(study: Simulation, values: Floats) -> Term:
    """The term α of Theorem 4 at several values of α, with the excess risks drawn for each value. All points of a
    cluster have the same label distribution. So only flips mislead the learner. In one series, the sampling of users
    misleads the learner, too.

    Args:
        study: draws the releases. values: of α.
    """

    def risks(alpha: float) -> list[Floats]:
        short = 0.45 * alpha / (1.0 - 2.0 * alpha)  # flips lift p(1|x) = 1/4 - short above 1/4
        costly, easy = study.alike([[0.75 + short, 0.25 - short]] * 8), study.pure(0.8)
        worst = study.pure(WORST_MARGIN * 0.001**0.5 / (1.0 - 2.0 * alpha))
        return [
            cost_excess(costly, study.exchanged(costly, LARGE, alpha), 0.25),
            study.named_excess(worst, study.exchanged(worst, 8000, alpha)),
            squared_excess(easy, study.exchanged(easy, LARGE, alpha)),
        ]

    return Term(
        "α", "Theorem 4: α", values, values, risks=map(risks, values),
        powers={"unequal costs, p just below 1/4": 1, "0-1 loss, 1,000 users a point": 0} | SQUARED,
    )  # fmt: skip


def unbiased_rate(study: Simulation, values: Floats) -> Term:
    """The term √(d/n)/(1-β) of Theorem 2 at several values of β, with the excess risks drawn for each value. Labels are
    redrawn with probability λ = β, and their weights correct the bias. Shares have no noise, and √(d/n) = 0.01.

    Args:
        study: draws the releases. values: of β, below 1.
    """

    def risks(beta: float) -> list[Floats]:
        law = study.pure(WORST_MARGIN * 0.01 / (1.0 - beta))
        return study.losses(law, study.centralised(law, 80_000, lam=beta, beta=beta))

    x, powers = 1.0 / (1.0 - values), WORST | SQUARED
    return Term("1/(1-β)", "Theorem 2: √(d/n)/(1-β)", x, 0.01 * x, powers=powers, risks=map(risks, values))


def bias(study: Simulation, pulls: Floats) -> Term:
    """The term φ|κ| of Theorem 2 at several values of |κ|, with the excess risks drawn for each value. Labels are
    redrawn with probability λ. The weights correct too little (β < λ = 0.6) or too much (β > λ = 0.4). κ = (λ-β)/(1-β)
    is the remaining bias. Shares have no noise. One of two labels is likelier by a margin. At a quarter of each
    cluster's points the margin is lower by 0.5, so φ = 0.375 · 0.5. At these points the bias is opposite to the margin
    and slightly larger, so the wrong label wins.

    Args:
        study: draws the releases. pulls: values of |κ|.
    """
    columns = list[tuple[Floats, ...]]()
    for lam, signed in ((0.6, pulls), (0.4, -pulls)):
        releases = []
        for kappa in signed:
            margins = np.array([0.0, 0.5, 0.5, 0.5]) - 0.9 * 0.375 * kappa
            law = study.alike(0.5 + 0.5 * np.stack([margins, -margins], axis=1))
            beta = max(0.0, (lam - kappa) / (1.0 - kappa))
            releases.append((law, study.centralised(law, LARGE, lam=lam, beta=beta)))
        columns += zip(*[study.losses(*release) for release in releases], strict=True)
    return Term(
        "|κ|", "Theorem 2: φ|κ|", pulls, 0.1875 * pulls, risks=zip(*columns, strict=True),
        powers={"0-1 loss, β < λ": 1, "squared error, β < λ": 2, "0-1 loss, β > λ": 1, "squared error, β > λ": 2},
    )  # fmt: skip


def share_noise(study: Simulation, scales: Floats) -> Term:
    """The term Kσ/s of Theorem 2 for K = 4 labels at several values of σ/s, with the excess risks drawn for each value.
    σ/s is the scale of the Laplace noise on a cluster's label shares. All labels are drawn anew from the noisy shares
    (λ = 1) without correction (β = 0), and φ = 0.

    Args:
        study: draws the releases. scales: values of σ/s.
    """

    def risks(scale: float) -> list[Floats]:
        law, easy = study.pure(1.5 * scale, 1, 4), study.pure(0.03, 1, 4)
        return [
            study.named_excess(law, study.centralised(law, LARGE, share_noise=scale)),
            *study.losses(easy, study.centralised(easy, LARGE, share_noise=scale)),
        ]

    return Term(
        "σ/s", "Theorem 2: Kσ/s, K = 4", scales, 4 * scales,
        powers=WORST | {"0-1 loss, margin 0.03": 0} | SQUARED, risks=map(risks, scales),
    )  # fmt: skip


def classes_count(study: Simulation, counts: NDArray[np.int64]) -> Term:
    """The factor K of Theorem 2, the number of labels, at several values of K, with the excess risks drawn for each
    value. Three series have noise of scale 0.001 on a cluster's label shares. A fourth series has no noise, but
    heterogeneity φ = 0.2. All labels are drawn anew from the shares (λ = 1) without correction (β = 0).

    Args:
        study: draws the releases. counts: values of K.
    """
    scale = 0.001

    def risks(classes: int) -> list[Floats]:
        law = study.alike([1.0 / classes + 1.5 * scale * np.where(np.arange(classes) % 2 == 0, 0.5, -0.5)])
        estimate = study.centralised(law, LARGE, share_noise=scale)
        half, squared = study.named_excess(law, estimate, classes // 2), squared_excess(law, estimate)
        single, mixed = study.pure(scale * (1.0 + float(np.log(classes))), 1, classes), study.split(0.2, classes)
        return [
            half, study.named_excess(single, study.centralised(single, LARGE, share_noise=scale)),
            squared, study.named_excess(mixed, study.centralised(mixed, LARGE)),
        ]  # fmt: skip

    x = counts.astype(np.float64)
    return Term(
        "K", "Theorem 2: Kσ/s, σ/s = 0.001", x, scale * x, risks=map(risks, counts.tolist()),
        powers={"K/2 labels named": 1, "0-1 loss": 0, "squared error": 0, "0-1 loss, φ = 0.2, no noise": 0},
    )  # fmt: skip


def clipping(study: Simulation, values: Floats) -> Term:
    """The term Kτ of Theorem 2 for K = 2 labels at several values of τ, with the excess risks drawn for each value. τ
    is the least share of a label that is released. One label never occurs, but is released with share τ. All labels are
    drawn anew from the released shares (λ = 1) without correction (β = 0).

    Args:
        study: draws the releases. values: of τ.
    """
    law = study.alike([[1.0, 0.0]])

    def risks(tau: float) -> list[Floats]:
        estimate = study.centralised(law, LARGE, tau=tau)
        return [cost_excess(law, estimate, 0.9 * tau), squared_excess(law, estimate)]

    return Term(
        "τ", "Theorem 2: Kτ", values, 2 * values,
        powers={"unequal costs, threshold 0.9 τ": 1} | SQUARED, risks=map(risks, values),
    )  # fmt: skip


def all_terms(study: Simulation, points: int) -> list[Term]:
    """Every term of Theorems 2 and 4 with its excess risks, each at `points` values of its parameter. The values span
    fixed ranges on geometric scales, such as 0.005 to 0.2 for α.
    """
    return [
        arrivals(study, np.ones(points), np.geomspace(160, 160_000, points).astype(int), by_rate=False),
        arrivals(study, np.geomspace(1 / 64, 1.0, points), np.full(points, 16_000), by_rate=True),
        spread(study, np.geomspace(0.02, 1.0, points)),
        flips(study, np.geomspace(0.005, 0.2, points)),
        unbiased_rate(study, np.append(0.0, 1.0 - np.geomspace(0.7, 0.05, points - 1))),
        bias(study, np.geomspace(0.02, 0.6, points)),
        share_noise(study, np.geomspace(0.001, 0.03, points)),
        classes_count(study, 2 ** np.arange(1, points + 1)),
        clipping(study, np.geomspace(0.01, 0.4, points)),
    ]


def fitted(terms: Iterable[Term], rng: np.random.Generator) -> pd.DataFrame:
    """How closely measured excess risks follow the terms: a row for each term and series (one way of measuring the
    risk). A row has the log-log slope of the mean risk in the term's parameter, with a 95% interval. The slope is
    fitted where the mean is positive.

    If the risk may follow a power of the term, the row also has the constant C that minimises Σ (C shape^power/mean -
    1)². Here `shape` is the term with the constant 1. The misfit is the largest |C shape^power/mean - 1|. The 95%
    interval of C is from resampled replicates.

    Args:
        terms: the terms, with their excess risks. rng: resamples replicates.
    """
    lines = list[dict[str, object]]()
    for term in terms:
        for label, values in term.series.items():
            mean = values.mean(axis=1)
            slope = log_log_slope(term.x[mean > 0.0], values[mean > 0.0])
            line = {"slope": slope.value, "slope_low": slope.low, "slope_high": slope.high}
            if power := term.powers[label]:
                drawn = rng.integers(values.shape[1], size=(RESAMPLES, *values.shape))
                resampled = np.take_along_axis(values[None], drawn, axis=2).mean(axis=2)
                ratios = term.shape**power / np.vstack([mean, resampled[resampled.min(axis=1) > 0.0]])
                value, *again = ratios.sum(axis=1) / (ratios**2).sum(axis=1)
                line |= dict(zip(("constant_low", "constant_high"), np.quantile(again, [0.025, 0.975]), strict=True))
                line |= {"constant": value, "misfit": np.abs(value * ratios[0] - 1.0).max()}
            lines.append({"term": term.name, "series": label, "replicates": values.shape[1], **line})
    return pd.DataFrame(lines)


def plot_terms(terms: list[Term], table: pd.DataFrame, note: str, path: Path) -> None:
    """Draws a panel for each term: the excess risk of each series, and its fit as a dashed line. Means of 0 are left
    out.

    Args:
        terms: the terms to draw. table: their fits, made by `fitted`. note: text below the panels. path: file of the
        figure.
    """
    fits = {(line["term"], line["series"]): line for line in table.to_dict("records")}
    # each mark has bars of two standard errors
    with drawing(path, 7.6, 4.1 * -(-len(terms) // 2), panels=len(terms), columns=2, note=note) as (_, panels):
        for axes, term in zip(panels, terms, strict=True):
            for index, (label, values) in enumerate(term.series.items()):
                mean, power, fit = values.mean(axis=1), term.powers[label], fits[term.name, label]
                text = f"{label}: slope {fit['slope']:.2f}"
                if power:
                    text += f",\n{fit['constant']:.2f} times {['the term', 'its square'][power - 1]}"
                    axes.plot(term.x, fit["constant"] * term.shape**power, color=COLOURS[index], linestyle="--")
                axes.errorbar(
                    term.x, np.where(mean > 0.0, mean, np.nan), yerr=2.0 * values.std(axis=1) / values.shape[1] ** 0.5,
                    color=COLOURS[index], marker=MARKERS[index], linestyle="none" if power else "-", label=text,
                    markersize=4.5, capsize=2, linewidth=0.8,
                )  # fmt: skip
            axes.set(xscale="log", yscale="log", xlabel=term.name, ylabel="excess risk", title=term.title)
            plain_log_ticks(axes.xaxis, term.x.min(), term.x.max(), 2.5)
            powers_of_ten(axes.yaxis)
            axes.legend(loc="upper left", bbox_to_anchor=(-0.2, -0.17), fontsize=8)
