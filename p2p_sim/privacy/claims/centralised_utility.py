"""Claims on utility in the central model: Lemmas 5 and 6, Theorem 5 of the clustering paper (Esfandiari et al.)."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.claims.algorithm1_laws import laplace_nodes, shares
from p2p_sim.privacy.claims.claim import ClaimCase, at_most, clustering
from p2p_sim.privacy.rivals import released_distribution


def printed_lemma5(classes: int, threshold: float, scale: float, size: int) -> float:
    """The bound 2Kτ + 2√2 Kσ/s that Lemma 5 prints for the distortion of the label shares of a cluster of s users.

    The distortion is the mean of Σ_y |q̃(y) - p̂(y)|. Here p̂ are the true shares, and q̃ the noisy shares.

    classes: K. threshold: τ; noisy shares are clipped to at least τ. scale: σ; the noise on the shares has the scale
    σ/s. size: s.
    """
    return 2.0 * classes * threshold + 2.0 * math.sqrt(2.0) * classes * scale / size


def lemma5_cases(bound: Callable[[int, float, float, int], float]) -> Iterator[ClaimCase]:
    """Cases of Lemma 5. Each compares the mean distortion of the label shares of a small cluster with a bound.

    The lemma bounds the mean over data sets. Here every single data set is compared with the bound. A quadrature gives
    the mean over the noise. Its error is taken as three times the difference from a coarser quadrature.

    Args:
        bound: the claimed bound as a function of K, τ, σ and s; `printed_lemma5` explains the letters.
    """
    # K, s, and the numbers of quantiles for a fine and for a coarse quadrature
    clusters = ((2, 1, (200, 140)), (2, 10, (200, 140)), (3, 1, (30, 21)), (3, 6, (30, 21)))
    for (classes, size, counts), fraction, scale in itertools.product(
        clusters, (0.0, 0.1, 0.9), (0.01, 0.1, 1.0, 10.0)
    ):
        tau = fraction / classes
        for labels in itertools.combinations_with_replacement(range(classes), size):
            share = shares(labels, classes)
            if np.any(np.diff(share) > 0):  # another data set is equal up to the order of the classes
                continue
            released = (
                released_distribution(share, laplace_nodes(classes, scale / size, count), tau) for count in counts
            )
            fine, coarse = (float(np.abs(q - share).sum(axis=1).mean()) for q in released)
            error = 3.0 * abs(fine - coarse)
            yield at_most(
                bound(classes, tau, scale, size), max(fine - error, 0.0), fine + error, classes * size, K=classes,
                s=size, tau=tau, sigma=scale, largest_share=float(share.max()),
            )  # fmt: skip


class ModifiedRisk(NamedTuple):
    """Results of `modified_risk` for a hypothesis h.

    risk: the risk R_{β,λ}(h) under the modified loss. distortion: ψ, the mean L1 distance of the noisy label shares
    from the true ones. largest_loss: L̃, the largest absolute modified loss.
    """

    risk: float
    distortion: float
    largest_loss: float


def modified_risk(
    n: int, positive: tuple[float, float], loss: Floats, *, beta: float, lam: float, threshold: float, noise: Floats
) -> ModifiedRisk:
    """The risk of a hypothesis h under the modified loss of Algorithm 1, for one cluster and two classes.

    A point x takes two equally likely values. With probability λ a noisy label is drawn from the noisy label shares q̃.
    Otherwise it is the true label. The modified loss at a noisy label y is (ℓ(h, x, y) - β Σ_z q̃(z) ℓ(h, x, z))/(1-β).
    If β = λ, the modified loss undoes this noise on average. The result has three values: the mean modified loss
    (`risk`), the mean L1 distance of q̃ from the true shares (`distortion`), and the largest absolute modified loss.

    Args:
        n: users, all in one cluster. positive: p(1|x) of each point. loss: (2, 2) the loss ℓ(h, x, y), by x and y.
        beta: β. lam: λ. threshold: τ, the least noisy share. noise: (M, 2) equally likely vectors of noise on the
        shares.
    """
    hits = binom.pmf(np.arange(n), n - 1, sum(positive) / 2.0)
    risk = distortion = largest = 0.0
    # x and own: the point and label of one user; others: how many other users hold label 1
    for x, own, others in itertools.product(range(2), range(2), range(n)):
        weight = 0.5 * (positive[x] if own else 1.0 - positive[x]) * float(hits[others])
        ones = (others + own) / n
        share = np.array([1.0 - ones, ones])
        q = released_distribution(share, noise, threshold)
        modified = (loss[x] - beta * (q @ loss[x])[:, None]) / (1.0 - beta)  # Σ_y' Q⁻¹[y', y] ℓ(y'), (M, 2)
        law = lam * q
        law[:, own] += 1.0 - lam
        risk += weight * float((law * modified).sum(axis=1).mean())
        distortion += weight * float(np.abs(q - share).sum(axis=1).mean())
        largest = max(largest, float(np.abs(modified).max()))
    return ModifiedRisk(risk, distortion, largest)


def lemma6_cases(factor: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of Lemma 6. Each compares |R_{β,β} - R_{β,λ}|, a difference of two risks, with factor · L̃ |β-λ| (φ + ψ).

    R_{β,λ} is the mean loss of a hypothesis on noisy labels. Noise replaces a label with probability λ. The loss is
    corrected as if this probability were β. L̃ is the largest absolute corrected loss. ψ is the mean L1 distance of a
    cluster's noisy label shares from the true shares. φ is the mean L1 distance of a point's label distribution from
    the cluster's. A quadrature gives the mean over the noise.

    Args:
        factor: below 1 for a control, which must fail.
    """
    rng = np.random.default_rng(66)
    losses = [np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), rng.uniform(size=(2, 2))]
    for n, scale, tau in itertools.product((1, 2, 5), (0.1, 1.0), (0.05, 0.499)):
        noise = laplace_nodes(2, scale / n, 24)
        for positive, loss, (beta, lam) in itertools.product(
            ((0.0, 0.0), (0.2, 0.8), (0.0, 1.0)), losses, ((0.0, 0.5), (0.9, 0.2), (0.999, 0.0), (0.3, 0.99))
        ):
            # the two risks; below, the difference is reduced by what rounding may add
            at_beta, at_lam = (
                modified_risk(n, positive, loss, beta=beta, lam=rate, threshold=tau, noise=noise)
                for rate in (beta, lam)
            )
            phi, psi = abs(positive[0] - positive[1]), at_beta.distortion
            yield at_most(
                factor * at_beta.largest_loss * abs(beta - lam) * (phi + psi),
                abs(at_beta.risk - at_lam.risk) * (1.0 - 1e-12) - 1e-13, None, n, n=n, beta=beta, lam=lam, sigma=scale,
                tau=tau, phi=phi, psi=psi,
            )  # fmt: skip


def precision_times_recall(classes: int, size: int, epsilon: float) -> float:
    """Upper bound of precision times recall of all ε-label private mechanisms for the association problem.

    The problem is to report which of K labels (`classes`) occur in a cluster of `size` users. Take averages over
    permutations of labels and clusters. Then a mechanism reports a label of the cluster with a probability `held`. It
    reports any other label with a probability `absent`. Label privacy implies held <= e^ε absent and 1 - absent <= e^ε
    (1 - held). Recall is `held`. Precision follows from the two probabilities.
    """
    crossing = math.exp(epsilon) / (1.0 + math.exp(epsilon))  # where the two constraints meet
    # Below the crossing the product increases in `held`. Above the crossing the product is a square over a linear
    # function, hence convex. So the maximum is at the crossing or at `held` = 1.
    return max(size * crossing / (size + (classes - size) * math.exp(-epsilon)), size / classes)


def subset_selection(classes: int, epsilon: float) -> float:
    """Precision times recall of subset selection with the best subset size d, if a cluster has one of K labels. The
    mechanism reports d labels. The report contains the true label with probability d e^ε / (d e^ε + K - d).
    """
    growth = math.exp(epsilon)
    # recall² / d: precision is recall / d
    return max((d * growth / (d * growth + classes - d)) ** 2 / d for d in range(1, classes))


def theorem5_cases(factor: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of Theorem 5. Each compares a largest precision times recall with factor · e^ε s/(K-s).

    The largest value is over ε-label private mechanisms that report which of K labels occur in a cluster of s users.
    `precision_times_recall` is an upper bound of this value. For s = 1 and K up to 100, subset selection gives a lower
    bound.

    Args:
        factor: below 1 for a control, which must fail.
    """
    for size, multiple, epsilon in itertools.product((1, 4, 20), (3, 10, 100, 10_000), (0.1, 1.0, 3.0)):
        classes = size * multiple
        upper = precision_times_recall(classes, size, epsilon)
        attained = subset_selection(classes, epsilon) if size == 1 and classes <= 100 else 0.0
        yield at_most(
            factor * math.exp(epsilon) * size / (classes - size), attained, upper, classes, K=classes, s=size,
            epsilon=epsilon, certified=upper,
        )  # fmt: skip


CLAIMS = (
    clustering("Lemma 5", "the cluster distortion ψ is at most 2Kτ + 2√2 Kσ/s", lambda: lemma5_cases(printed_lemma5)),
    clustering(
        "Lemma 6",
        "the risks at λ = β and at λ differ by at most L̃ |β-λ| (φ + ψ)",
        lemma6_cases,
        "sharp: approached with τ near 1/2 and β near 1",
    ),
    clustering(
        "Theorem 5", "precision times recall of an ε-label private mechanism is at most e^ε s/(K-s)", theorem5_cases
    ),
)
