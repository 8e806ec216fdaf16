"""Chooses parameters of Algorithm 1 of the clustering paper (Esfandiari et al.) without private data.

In Algorithm 1 a curator resamples labels from noisy label distributions of clusters. Which parameters are best depends
on the true labels, but these must not be used. So a rehearsal runs the mechanism on made-up clusters. The label
distribution of such a cluster, over K labels, is drawn from a Dirichlet law of concentration 2/K. It is then mixed,
with weight φ, with the uniform distribution on two labels. Each cluster has two points. Their label distributions are
at L1 distance φ from the cluster's distribution, in opposite directions. The learner predicts the majority of the
released labels at each point. The cost of the parameters is the excess 0-1 risk. All inputs are public: K, the cluster
size, the number of decisions of a learner within a cluster, and a guess of φ.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.rivals import released_distribution

Floats = NDArray[np.float64]
REHEARSED = 8_000
"""Number of made-up clusters of a rehearsal, times the number K of classes."""
SURE = 3.0
"""A choice must beat uniform randomised response, which needs no guess of φ, by more than so many standard errors."""
SPARED = 1.0 - 1e-9
"""Share of ε that is spent. It is slightly below 1, so that rounding of λ cannot bring the spending above ε."""
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of ε that may be spent on noisy label distributions; the rest is spent on the labels."""


@dataclass(frozen=True)
class Choice:
    """Parameters of Algorithm 1: resampling probability λ, noise scale σ (perhaps infinite) and threshold τ.

    With probability λ, a label is replaced by a draw from its cluster's noisy label distribution. This distribution
    comes from label counts with noise of scale σ, and its entries are at least τ.
    """

    resampling_prob: float
    noise_scale: float
    threshold: float


def uniform(epsilon: float, classes: int) -> Choice:
    """The parameters that make Algorithm 1 uniform randomised response at ε (Corollary 1): λ = K/(K-1+e^ε), σ = ∞, τ =
    1/K. ε is lowered by a billionth, so that rounding cannot bring the cost above ε.

    Args:
        epsilon: ε. classes: K.
    """
    return Choice(1.0 / (1.0 + math.expm1(min(epsilon * SPARED, 700.0)) / classes), math.inf, 1.0 / classes)


def split_budget(epsilon: float, share: float, threshold: float) -> Choice:
    """Parameters of Algorithm 1 that divide ε into two parts. The noisy label distribution costs 2/σ. The labels cost
    ln(1 + (1-λ)/(λτ)). At τ = 0 all labels are replaced (λ = 1), and all of ε is spent on the distribution. ε is
    lowered by a billionth, so that rounding cannot bring the cost above ε.

    Args:
        epsilon: ε in all. share: the part of ε for the distribution, 0 to 1. threshold: τ, 0 to 1/K for K classes.
    """
    epsilon *= SPARED
    lam = 1.0 / (1.0 + math.expm1(min((1.0 - share) * epsilon, 700.0)) * threshold)
    spent = 1.0 if lam == 1.0 else share
    return Choice(lam, 2.0 / (spent * epsilon) if spent > 0.0 else math.inf, threshold)


def corollary2(epsilon: float, heterogeneity: float) -> Choice:
    """Parameters of Corollary 2 for Algorithm 1, as printed in the clustering paper: λ = 1/(1+(e^ε-1)φ), σ = 1/ε, τ =
    φ. They spend up to 3ε instead of ε.

    Args:
        epsilon: ε. heterogeneity: φ, the mean L1 distance between the label distributions of a user's features and of
        her cluster.
    """
    return Choice(1.0 / (1.0 + math.expm1(epsilon) * heterogeneity), 1.0 / epsilon, heterogeneity)


def candidates(epsilon: float, classes: int) -> list[Choice]:
    """The 122 choices of parameters that a rehearsal compares. Each spends ε, reduced by a billionth, at δ = 0. The
    first is uniform randomised response. The second draws all labels anew (λ = 1, τ = 0). The others have 12 values of
    τ from 0.001/K to 0.8/K; for each τ there are ten splits of ε between distributions and labels.

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
    """The excess 0-1 risk after Algorithm 1 for each choice of parameters and each made-up cluster: (len(choices),
    clusters). There are approximately 8,000/K clusters. In each, a learner predicts at two points. At each point the
    prediction is the majority of the released labels of n/decisions users. All choices use the same clusters, the same
    label counts and, up to its scale, the same noise on these counts. Released labels are drawn anew for each choice.

    Args:
        choices: parameters to compare. classes: K. cluster_size: n, users of a cluster. decisions: number of equal
        groups into which a cluster's users are divided, one for each decision of the learner. heterogeneity: φ in [0,
        1], the L1 distance between the label distributions of a point and of its cluster. seed: public; all random
        numbers follow from it.
    """
    rng = np.random.default_rng(seed)
    cluster, points = _law(classes, heterogeneity, rng)
    # all choices share one draw of label counts and noise, so that their risks differ less by chance
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
    """Draws the label distributions of R = 8,000 // K made-up clusters, (R, K), and of two points in each, (2, R, K).
    The first point has one label with probability φ/2 more than its cluster, and another label with φ/2 less. At the
    second point the signs are opposite. So each point has L1 distance φ from its cluster.

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
    """The parameters of Algorithm 1 with the smallest risk on made-up clusters, among 122 choices that all spend ε. The
    choice is uniform randomised response unless another risk is smaller by more than three standard errors. No private
    data are used.

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
