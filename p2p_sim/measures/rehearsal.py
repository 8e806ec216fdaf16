"""Chooses the parameters of Algorithm 1 (labels resampled from noisy cluster distributions) on a public law.

The cost of the mechanism depends on the true labels, which must not be used. So a rehearsal runs the mechanism on
made-up clusters, whose label distributions are drawn from a Dirichlet law of concentration 2/K. Each cluster has two
points with label distributions at L1 distance φ from the cluster's, in opposite directions. The learner predicts the
majority of the released labels at each point; its excess 0-1 risk is the cost of the parameters. All inputs are public:
K, the cluster size, the number of decisions that a learner takes within a cluster, and a guess of φ.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.rivals import released_distribution

Floats = NDArray[np.float64]
REHEARSED = 8_000
"""Number of clusters of a rehearsal times K, so that its arrays have the same size for every K."""
SURE = 3.0
"""Number of standard errors by which a choice must beat uniform randomised response, which needs no guess of φ."""
SPARED = 1.0 - 1e-9
"""Share of ε that is spent, so that rounding of λ near 1 spends no more than ε."""
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of ε that may be spent on the released label distributions; the rest is spent on the labels."""


@dataclass(frozen=True)
class Choice:
    """Parameters of Algorithm 1: resampling probability λ, noise scale σ (perhaps infinite) and threshold τ."""

    resampling_prob: float
    noise_scale: float
    threshold: float


def uniform(epsilon: float, classes: int) -> Choice:
    """Parameters of uniform randomised response at ε (Corollary 1): λ = K/(K-1+e^ε), σ = ∞, τ = 1/K."""
    return Choice(1.0 / (1.0 + math.expm1(min(epsilon * SPARED, 700.0)) / classes), math.inf, 1.0 / classes)


def split_budget(epsilon: float, share: float, threshold: float) -> Choice:
    """Parameters that spend a share of ε on the distributions (2/σ), and the rest on the labels (ln(1 + (1-λ)/(λτ))).

    At τ = 0 all labels are resampled: λ = 1, and all of ε is spent on the distributions.
    """
    epsilon *= SPARED
    lam = 1.0 / (1.0 + math.expm1(min((1.0 - share) * epsilon, 700.0)) * threshold)
    spent = 1.0 if lam == 1.0 else share
    return Choice(lam, 2.0 / (spent * epsilon) if spent > 0.0 else math.inf, threshold)


def corollary2(epsilon: float, heterogeneity: float) -> Choice:
    """Parameters of Corollary 2 as printed: τ = φ, λ = 1/(1+(e^ε-1)φ), σ = 1/ε; they spend up to 3ε instead of ε."""
    return Choice(1.0 / (1.0 + math.expm1(epsilon) * heterogeneity), 1.0 / epsilon, heterogeneity)


def candidates(epsilon: float, classes: int) -> list[Choice]:
    """The choices that a rehearsal compares: uniform randomised response, all labels resampled, and splits of ε.

    epsilon: ε that each choice spends in full. classes: K.
    """
    choices = [uniform(epsilon, classes), split_budget(epsilon, 1.0, 0.0)]
    for threshold in np.geomspace(1e-3 / classes, 0.8 / classes, 12):
        tau = float(f"{threshold:.3g}")
        choices += [split_budget(epsilon, share, tau) for share in (1.0, *SHARES)]
    return choices


def rehearse(
    choices: list[Choice], classes: int, cluster_size: int, decisions: int, heterogeneity: float, seed: int = 0
) -> Floats:
    """Excess 0-1 risk (len(choices), clusters) of each choice of parameters, on the same made-up clusters.

    Args:
        choices: parameters to compare, with β = 0.
        classes: K. cluster_size: n, users of a cluster. decisions: decisions that share these users evenly.
        heterogeneity: φ in [0, 1].
        seed: public, of the rehearsal.
    """
    rng = np.random.default_rng(seed)
    cluster, points = _law(classes, heterogeneity, rng)
    # one draw of users and noise for all choices: their risks differ by the parameters alone
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
    """Draws the label distributions of R made-up clusters (R, K), and of the two points in each cluster (2, R, K).

    R is `REHEARSED` / K. The probabilities of two labels differ by φ/2 between a point and its cluster; the signs are
    opposite at the two points.
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
    """The candidate with the smallest risk in a rehearsal; each spends ε in full: 2/σ + ln(1 + (1-λ)/(λτ)) = ε.

    Uniform randomised response is chosen unless another candidate is better by three standard errors.

    Args:
        epsilon: ε. classes: K. cluster_size: users of a cluster. decisions: that a learner takes in a cluster.
        heterogeneity: a guess of φ, the L1 distance between label distributions of a point and its cluster.
    """
    choices = candidates(epsilon, classes)
    risks = rehearse(choices, classes, cluster_size, decisions, heterogeneity)
    best = int(risks.mean(axis=1).argmin())
    gain = risks[0] - risks[best]
    return choices[best if gain.mean() > SURE * gain.std() / math.sqrt(gain.size) else 0]
