"""Chooses parameters without private data for Algorithm 1 of the clustering paper (Esfandiari et al.), in which a
curator resamples labels from noisy label distributions of clusters.

Which parameters are best depends on the true labels, which must not be used. So a rehearsal runs the mechanism on
made-up clusters. Their label distributions (over K labels) are drawn from a Dirichlet law of concentration 2/K, and
then mixed, with weight φ, with a uniform distribution on two of the labels. Each cluster has two points; their label
distributions are at L1 distance φ from the cluster's distribution, in opposite directions. The learner predicts the
majority of the released labels at each point; the learner's excess 0-1 risk is the cost of the parameters. All inputs
are public: K, the cluster size, the number of decisions that a learner takes within a cluster, and a guess of φ.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.rivals import released_distribution

Floats = NDArray[np.float64]
REHEARSED = 8_000
"""Number of made-up clusters of a rehearsal, times the number K of classes; so the arrays of a rehearsal have the same
size for every K."""
SURE = 3.0
"""Number of standard errors by which a choice must beat uniform randomised response, which needs no guess of φ."""
SPARED = 1.0 - 1e-9
"""Share of ε that is spent: slightly less than 1, so that the rounding of a λ near 1 cannot bring the spending above
ε.
"""
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of ε that may be spent on the released label distributions; the rest is spent on the labels."""


@dataclass(frozen=True)
class Choice:
    """Parameters of Algorithm 1: resampling probability λ, noise scale σ (perhaps infinite) and threshold τ."""

    resampling_prob: float
    noise_scale: float
    threshold: float


def uniform(epsilon: float, classes: int) -> Choice:
    """The parameters of Algorithm 1 that make it uniform randomised response at ε (Corollary 1). In Algorithm 1 a
    curator replaces each label with probability λ by a draw from a noisy label distribution of the cluster. Here λ =
    K/(K-1+e^ε), the noise is infinite (σ = ∞) and every class gets at least τ = 1/K, so that the draw is uniform over K
    classes. ε is lowered by a billionth, so that rounding cannot exceed it.

    Args:
        epsilon: ε. classes: K.
    """
    return Choice(1.0 / (1.0 + math.expm1(min(epsilon * SPARED, 700.0)) / classes), math.inf, 1.0 / classes)


def split_budget(epsilon: float, share: float, threshold: float) -> Choice:
    """Parameters of Algorithm 1 that divide ε into two parts. The noisy label distribution costs 2/σ if noise of scale
    σ is added to a cluster's label counts. The labels cost ln(1 + (1-λ)/(λτ)), since each label is replaced with
    probability λ by a draw from this distribution, whose entries are at least τ. At τ = 0 all labels are replaced
    (λ = 1), and all of ε is spent on the distribution. ε is lowered by a billionth, so that rounding cannot exceed it.

    Args:
        epsilon: ε in all. share: the part of ε for the distribution, 0 to 1. threshold: τ, 0 to 1/K for K classes.
    """
    epsilon *= SPARED
    lam = 1.0 / (1.0 + math.expm1(min((1.0 - share) * epsilon, 700.0)) * threshold)
    spent = 1.0 if lam == 1.0 else share
    return Choice(lam, 2.0 / (spent * epsilon) if spent > 0.0 else math.inf, threshold)


def corollary2(epsilon: float, heterogeneity: float) -> Choice:
    """Parameters of Corollary 2 for Algorithm 1, as printed in the clustering paper. A label is replaced by a draw from
    the cluster's noisy label distribution with probability λ = 1/(1+(e^ε-1)φ), the noise on label counts has scale
    σ = 1/ε, and entries of the distribution are at least τ = φ. These parameters spend up to 3ε instead of ε.

    Args:
        epsilon: ε. heterogeneity: φ, the mean L1 distance between the label distributions of a user's features and of
        her cluster.
    """
    return Choice(1.0 / (1.0 + math.expm1(epsilon) * heterogeneity), 1.0 / epsilon, heterogeneity)


def candidates(epsilon: float, classes: int) -> list[Choice]:
    """The 122 choices of parameters of Algorithm 1 that a rehearsal compares. Each has the probability λ with which a
    label is drawn anew from its cluster's noisy label distribution, the scale σ of the noise on label counts, and the
    least entry τ of such a distribution. Each spends ε, reduced by a billionth, at δ = 0. The choices are: uniform
    randomised response; all labels drawn anew (λ = 1, τ = 0); and, for each of 12 values of τ from 0.001/K to 0.8/K,
    ten splits of ε between distributions and labels.

    Args:
        epsilon: ε. classes: K.
    """
    choices = [uniform(epsilon, classes), split_budget(epsilon, 1.0, 0.0)]
    for threshold in np.geomspace(1e-3 / classes, 0.8 / classes, 12):
        tau = float(f"{threshold:.3g}")
        choices += [split_budget(epsilon, share, tau) for share in (1.0, *SHARES)]
    return choices


def rehearse(
    choices: list[Choice], classes: int, cluster_size: int, decisions: int, heterogeneity: float, seed: int = 0
) -> Floats:
    """The excess 0-1 risk of a majority vote after Algorithm 1, for each choice of its parameters and each of
    approximately 8,000/K made-up clusters: (len(choices), clusters). In each cluster a learner predicts at two points.
    At each point the prediction is the majority of the released labels of n/decisions users. All choices are tried on
    the same clusters, the same label counts and, up to its scale, the same noise on these counts; the released labels
    are drawn anew for each choice.

    Args:
        choices: parameters to compare: resampling probability, noise scale and threshold; released labels are not
        debiased. classes: K. cluster_size: n, users of a cluster. decisions: the number of equal groups into which a
        cluster's users are divided, one for each decision of the learner. heterogeneity: φ in [0, 1], the L1 distance
        between the label distributions of a point and of its cluster. seed: public; all random numbers follow from it.
    """
    rng = np.random.default_rng(seed)
    cluster, points = _law(classes, heterogeneity, rng)
    # one draw of label counts and noise for all choices, so that their risks differ less by chance
    share = rng.multinomial(cluster_size, cluster) / cluster_size
    noise = np.clip(rng.laplace(size=share.shape), -700.0, 700.0) / cluster_size
    users = max(1, round(cluster_size / decisions))
    best = points.max(axis=2)
    risks = []
    for index, choice in enumerate(choices):
        scale = choice.noise_scale if math.isfinite(choice.noise_scale) else 1e300
        q = released_distribution(share, noise * scale, choice.threshold)
        law = np.maximum((1.0 - choice.resampling_prob) * points + choice.resampling_prob * q, 0.0)
        law /= law.sum(axis=2, keepdims=True)
        # the majority of each point's released labels; ties are broken at random
        votes = np.random.default_rng([seed, index]).multinomial(users, law) + 1e-6 * rng.random(law.shape)
        chosen = votes.argmax(axis=2)[..., None]
        risks.append((best - np.take_along_axis(points, chosen, axis=2)[..., 0]).mean(axis=0))
    return np.array(risks)


def _law(classes: int, heterogeneity: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draws the label distributions of R = 8,000 // K made-up clusters, (R, K), and those of two points in each
    cluster, (2, R, K). At the first point the probability of one label is φ/2 above that in the cluster, and the
    probability of another label is φ/2 below. So the L1 distance between point and cluster is φ. At the second point
    the signs are opposite.

    Args:
        classes: K. heterogeneity: φ; a value above 1 counts as 1. rng: random numbers.
    """
    phi, count = min(heterogeneity, 1.0), REHEARSED // classes
    cluster = rng.dirichlet(np.full(classes, 2.0 / classes), size=count)
    rows, first = np.arange(count), cluster.argmax(axis=1)
    second = (first + rng.integers(1, classes, size=count)) % classes
    pair = np.zeros_like(cluster)
    pair[rows, first] = pair[rows, second] = 0.5
    cluster = (1.0 - phi) * cluster + phi * pair  # both labels have a probability of at least φ/2
    shift = np.zeros_like(cluster)
    shift[rows, first], shift[rows, second] = phi / 2.0, -phi / 2.0
    points = np.maximum(np.stack([cluster + shift, cluster - shift]), 0.0)
    return cluster, points / points.sum(axis=2, keepdims=True)


def best_choice(epsilon: float, classes: int, cluster_size: int, decisions: int, heterogeneity: float) -> Choice:
    """The parameters of Algorithm 1 that give the smallest risk on made-up clusters, among 122 choices that all spend
    ε. The parameters are the resampling probability λ, the scale σ of the noise on label counts, and the least entry τ
    of a noisy label distribution, with 2/σ + ln(1 + (1-λ)/(λτ)) = ε. No private data are used. Uniform randomised
    response, in which only the labels cost ε, is chosen unless the risk of another choice is smaller by more than three
    standard errors.

    Args:
        epsilon: ε. classes: K. cluster_size: users of a cluster. decisions: how many majority votes a learner takes in
        a cluster, each over an equal part of its users. heterogeneity: a public guess of φ, the L1 distance between the
        label distributions of a point and of its cluster.
    """
    choices = candidates(epsilon, classes)
    risks = rehearse(choices, classes, cluster_size, decisions, heterogeneity)
    best = int(risks.mean(axis=1).argmin())
    gain = risks[0] - risks[best]
    return choices[best if gain.mean() > SURE * gain.std() / math.sqrt(gain.size) else 0]
