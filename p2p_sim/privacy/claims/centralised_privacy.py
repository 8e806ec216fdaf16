"""Claims of the clustering paper (Esfandiari et al.) on centralised privacy: Theorems 1 and 6, Corollaries 1 and 2.

**The mechanism.** Algorithm 1 adds Laplace noise of scale σ/n to the share of each of K labels in a cluster of n users.
Then Algorithm 1 clips the noisy shares to [τ, 1] and renormalises. The result is the noisy label distribution q̃. With
probability λ a user's noisy label is drawn from q̃. Otherwise it is her true label. If the parameter β of the paper's
modified loss is above 0, q̃ is released.

**Theorem 1** is tested by two events whose probabilities have a closed form. The data sets D and D' are neighbours:
user 1's label is a in D and b in D'.

The corner event is "q̃ is τ everywhere except at a". In other words, the noisy share of a is at least 1-(K-1)τ, and
every other share is clipped to τ. Suppose that in D the share of a is at most 1-(K-1)τ, and the share of b at least τ.
Then the noises of a and b are in their exponential tails. The changed label moves both shares by 1/n. Each move
contributes a factor e^(1/σ). So the event is e^(2/σ) times as likely under D.

The edge event, for K >= 3, is "q̃(b) = τ and τ < q̃(a) <= τ + x". The event implies that b was clipped to τ, and that
a's noisy share is above τ. Suppose that in D the share of a is at most τ, and the share of b at least τ. Then these
noises are again in their tails, and the event is e^(2/σ) times as likely under D. Now add the condition that user 1's
noisy label is a. As x goes to 0, the log-ratio tends to 2/σ + ln(1 + (1-λ)/(λτ)).
"""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from p2p_sim.privacy.claims.algorithm1_laws import label_epsilon, laplace_nodes, shares
from p2p_sim.privacy.claims.claim import ClaimCase, at_least, at_most, clustering
from p2p_sim.privacy.claims.clustering_matrices import distributions, randomisation_matrix
from p2p_sim.privacy.rivals import laplace_tail, released_distribution

SCALES = (0.5, 1.0, 2.0)
RESAMPLING = (0.5, 0.9, 0.99)
EDGE = 1e-6
"""Width x of the edge event, in which τ < q̃(a) <= τ + x."""


def printed_theorem1(scale: float, resampling_prob: float, threshold: float) -> float:
    """The ε of the clustering paper's Theorem 1, as printed: 1/σ + ln(1 + (1-λ)/(λτ)).

    scale: σ. resampling_prob: λ. threshold: τ.
    """
    return 1.0 / scale + math.log1p((1.0 - resampling_prob) / (resampling_prob * threshold))


def corner_event(labels: tuple[int, ...], classes: int, *, scale: float, threshold: float, resampling_prob: float,
                 own: int) -> float:  # fmt: skip
    """Probability that the corner event at label 0 occurs and user 1's noisy label is 0.

    In the corner event, the noisy label distribution of a cluster is τ, the least possible value, everywhere except at
    0. Label 0 then has 1 - (K-1)τ.

    Args:
        labels: labels of the cluster's users, user 1's first. classes: K. scale: σ, above 0; the noise on label counts
        is Laplace of this scale. threshold: τ in (0, 1/K). resampling_prob: λ. With probability λ a user's noisy label
        is drawn from the noisy distribution. Otherwise it is her true label. own: user 1's label again.
    """
    share, top = shares(labels, classes), 1.0 - (classes - 1) * threshold
    distances = [top - float(share[0]), *(share[1:] - threshold).tolist()]
    probability = math.prod(laplace_tail(distance, scale / len(labels)) for distance in distances)
    return probability * (resampling_prob * top + (1.0 - resampling_prob) * (own == 0))


def theorem1_cases(bound: Callable[[float, float, float], float]) -> Iterator[ClaimCase]:
    """Cases of Theorem 1. Each compares a claimed ε with the log-ratio of an event's probabilities under two
    neighbours.

    The module's text defines the two events, the corner event and the edge event. The log-ratios are lower bounds of
    the true ε. So a case can refute the claim, but no case can prove it.

    Args:
        bound: the claimed ε as a function of σ, λ and τ.
    """
    # the corner event: the users' labels all differ, and τ is below all shares
    for classes, scale, lam in itertools.product((2, 3, 4), SCALES, RESAMPLING):
        tau, labels = 0.5 / classes, tuple(range(classes))
        first = corner_event(labels, classes, scale=scale, threshold=tau, resampling_prob=lam, own=0)
        second = corner_event((1, *labels[1:]), classes, scale=scale, threshold=tau, resampling_prob=lam, own=1)
        yield at_most(
            bound(scale, lam, tau), math.log(first / second), None, classes, K=classes, n=classes, sigma=scale, lam=lam,
            tau=tau, probability=first, neighbour_probability=second,
        )  # fmt: skip
    # the edge event: the log-ratio is taken at the largest q̃(a), which is τ + x
    for classes, scale, lam in itertools.product((3, 4), SCALES, RESAMPLING):
        n = classes + 1  # two users hold the last label, and one user each other label; a and b have the share τ = 1/n
        yield at_most(
            bound(scale, lam, 1.0 / n), 2.0 / scale + math.log1p((1.0 - lam) / (lam * (1.0 / n + EDGE))), None, n,
            K=classes, n=n, sigma=scale, lam=lam, tau=1.0 / n, edge_width=EDGE,
        )  # fmt: skip


def theorem6_cases(offset: float = 0.0) -> Iterator[ClaimCase]:
    """Cases of Theorem 6, by random draws of q̃, Algorithm 1's noisy label distribution of K classes.

    Each case compares a stated bound with the bounded value. "quantity" in the case's parameters numbers five bounds:
    - 0: q̃ is at least τ. 1: q̃ is at most 1. 2: the sum of q̃ is at most 1. 3: the sum of q̃ is at least 1.
    - 4: at β = 0.99 the least singular value of the matrix (1-β) I + β q̃ 1ᵀ is at least (1-β)/√(2K). This matrix
      randomises labels.

    Args:
        offset: added to the claimed lower bound τ of q̃; above 0 for a control, which must fail.
    """
    rng = np.random.default_rng(6)
    for classes, fraction, scale in itertools.product(
        (2, 3, 5, 10, 50), (1e-6, 0.1, 0.5, 0.999, 1.0), (0.0, 1e-3, 0.1, 1.0, 100.0)
    ):
        share, tau = np.array(distributions(classes)), fraction / classes
        noise = scale * rng.laplace(size=(100, len(share), classes))
        q = released_distribution(share, noise, tau).reshape(-1, classes)
        where = {"K": float(classes), "tau": tau, "noise": scale}
        yield at_least(tau + offset, float(q.min()), classes, **where, quantity=0)
        yield at_most(1.0, float(q.max()), None, classes, **where, quantity=1)
        yield at_most(1.0, float(np.abs(q.sum(axis=1)).max()), None, classes, **where, quantity=2)
        yield at_least(1.0, float(np.abs(q.sum(axis=1)).min()), classes, **where, quantity=3)
        least = np.linalg.svd(randomisation_matrix(q[0], 0.99), compute_uv=False)[-1]
        yield at_least(0.01 / math.sqrt(2.0 * classes), float(least), classes, **where, quantity=4)


def corollary1_cases(factor: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of Corollary 1. Each compares the exact ε of the corollary's mechanism with `factor` times the stated ε. At
    τ = 1/K the distribution q̃ is uniform. Then the mechanism is K-ary randomised response.
    """
    for classes in (2, 3, 5, 10, 100):
        noise = np.array([1e300] + [-1e300] * (classes - 1))
        q = released_distribution(np.full(classes, 1.0 / classes), noise, 1.0 / classes)
        for epsilon in (0.01, 0.1, 0.5, 1.0, 3.0):
            lam = classes / (classes - 1 + math.exp(epsilon))
            true = math.log((1.0 - lam + lam * float(q.max())) / (lam * float(q.min())))
            yield at_most(factor * epsilon, true, None, classes, K=classes, epsilon=epsilon, lam=lam)


def corollary1_rate_cases(leading: Callable[[int], float] = float) -> Iterator[ClaimCase]:
    """Cases of Corollary 1's rate O(K/ε) for K classes. Each checks whether K/(1-β) is at most 4K/ε.

    K/(1-β) is a factor in Theorem 2's bound of the excess risk. There it multiplies √(dim/n), for n users and
    hypotheses of dimension dim. β = K/(K-1+e^ε) is the corollary's parameter of the loss.

    Args:
        leading: a function of K that replaces the K in K/(1-β). By default it is K itself. The constant 1 is a control:
        a sharper Lemma 2, on the column sums of a matrix, would allow it.
    """
    for classes, epsilon in itertools.product((2, 5, 10, 20, 50, 100), (0.01, 0.1, 0.5, 0.99)):
        beta = classes / (classes - 1 + math.exp(epsilon))
        yield at_most(
            4.0 * classes / epsilon,
            leading(classes) / (1.0 - beta),
            None,
            classes,
            K=classes,
            epsilon=epsilon,
            beta=beta,
        )


def corollary2_cases(constant: float = 3.0) -> Iterator[ClaimCase]:
    """Cases of Corollary 2. Each compares the pure ε of Algorithm 1's noisy labels with `constant` · ε.

    The clusters have 2 to 4 users. The noisy label distribution is not released. A quadrature over the noise gives the
    pure ε. Its error is taken as three times the difference from a coarser quadrature.

    Args:
        constant: the factor with which the corollary's O(ε) is read; 3 follows from the corrected Theorem 1.
    """
    clusters = ((2, 2, (200, 140)), (2, 4, (120, 80)), (3, 2, (32, 22)), (3, 3, (28, 20)))  # K, n, fine and coarse
    for (classes, n, counts), phi, epsilon in itertools.product(clusters, (0.01, 0.1, 0.3), (0.1, 0.5, 2.0)):
        lam = 1.0 / (1.0 + math.expm1(epsilon) * phi)
        fine, coarse = (
            label_epsilon(n, classes, phi, laplace_nodes(classes, 1.0 / (epsilon * n), count), lam) for count in counts
        )
        error = 3.0 * abs(fine - coarse)
        yield at_most(constant * epsilon, fine - error, fine + error, n, K=classes, n=n, phi=phi, epsilon=epsilon)


CLAIMS = (
    clustering(
        "Theorem 1",
        "Algorithm 1 is ε-label private with ε = 1/σ + ln(1 + (1-λ)/(λτ))",
        lambda: theorem1_cases(printed_theorem1),
        "ε = 2/σ + ln(1 + (1-λ)/(λτ)): one changed label moves two shares. Where the distributions are released "
        "(β > 0) 2/σ is attained for every K, and the whole is approached for K >= 3",
    ),
    clustering(
        "Theorem 6",
        "q̃ lies in [τ, 1], sums to one, and Q is invertible",
        theorem6_cases,
        "holds in exact arithmetic; at τ = 1/K rounding can make the printed renormalisation 0/0",
    ),
    clustering(
        "Corollary 1 (privacy)",
        "τ = 1/K, λ = K/(K-1+e^ε), σ = ∞ is ε-label private",
        corollary1_cases,
        "exact: no smaller ε holds",
    ),
    clustering(
        "Corollary 1 (rate)",
        "with these parameters Theorem 2's factor K/(1-β) is O(K/ε) for ε < 1 (constant 4)",
        corollary1_rate_cases,
        "Theorem 2 as printed gives K²/ε; with the sharp form of Lemma 2 its leading K drops and O(K/ε) follows",
    ),
    clustering(
        "Corollary 2 (privacy)",
        "τ = φ, β = 0, λ = 1/(1+(e^ε-1)φ), σ = 1/ε is O(ε)-label private (constant 3, from the corrected Theorem 1)",
        corollary2_cases,
        "3ε in general, by the corrected Theorem 1 (2ε by the printed one)",
    ),
)
