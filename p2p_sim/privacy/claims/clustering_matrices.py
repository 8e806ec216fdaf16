"""Claims on the label randomisation matrix Q = (1-β)I + β q 1ᵀ: Lemmas 1, 2 and 4 of the clustering paper.

The paper is Esfandiari et al., "Label differential privacy via clustering". q is a distribution of K labels, I the
identity matrix, and 1 the vector of ones. β lies in [0, 1). Since 1ᵀq = 1, Q⁻¹ = (I - β q 1ᵀ) / (1-β). Entries of Q⁻¹
are indexed [y', y], as in line 29 of Algorithm 1.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from p2p_sim.privacy.binomial_windows import Floats
from p2p_sim.privacy.claims.claim import ClaimCase, at_least, at_most, clustering

CLASSES = (2, 3, 5, 10, 20, 50)
BIASES = (0.0, 0.1, 0.5, 0.9, 0.99, 0.999)
SEED = 20
RANDOM_DISTRIBUTIONS = 8


def randomisation_matrix(q: Floats, beta: float) -> Floats:
    """The label randomisation matrix (K, K): Q[y', y] = (1-β) 1{y' = y} + β q(y').

    q: (K,) a distribution of labels. beta: β in [0, 1).
    """
    return np.asarray((1.0 - beta) * np.eye(len(q)) + beta * q[:, None])


def inverse_matrix(q: Floats, beta: float) -> Floats:
    """Q⁻¹ in closed form, (K, K): the inverse of `randomisation_matrix(q, beta)`."""
    return np.asarray((np.eye(len(q)) - beta * q[:, None]) / (1.0 - beta))


def distributions(classes: int) -> list[Floats]:
    """Distributions (K,) of K labels on which claims are checked: three simple and 8 random ones. The simple ones are:
    uniform; all mass on one label; half the mass on each of two labels.
    """
    rng = np.random.default_rng([SEED, classes])
    certain, halves = np.zeros(classes), np.zeros(classes)
    certain[0], halves[:2] = 1.0, 0.5
    random = [rng.dirichlet(np.full(classes, 10.0 ** rng.uniform(-1.5, 1.0))) for _ in range(RANDOM_DISTRIBUTIONS)]
    return [np.full(classes, 1.0 / classes), certain, halves, *random]


def _matrices() -> Iterator[tuple[Floats, float]]:
    """All pairs of a label distribution q (K,) and a number β for which a matrix Q is checked. For each of six K from 2
    to 50 there are eleven q (see `distributions`). Each q has six values of β from 0 to 0.999.
    """
    return itertools.product((q for classes in CLASSES for q in distributions(classes)), BIASES)


def singular_value_cases(bound: Callable[[int, float], float]) -> Iterator[ClaimCase]:
    """Cases of Lemma 1. Each compares the least singular value of a matrix Q with the lower bound `bound`(K, β)."""
    for q, beta in _matrices():
        value = float(np.linalg.svd(randomisation_matrix(q, beta), compute_uv=False)[-1])
        yield at_least(bound(len(q), beta), value, len(q), K=len(q), beta=beta, largest_q=float(q.max()))


def column_sum_cases(bound: Callable[[int, float], float]) -> Iterator[ClaimCase]:
    """Cases of Lemma 2. Each compares the largest column sum of |Q⁻¹| with the upper bound `bound`(K, β)."""
    for q, beta in _matrices():
        value = float(np.abs(inverse_matrix(q, beta)).sum(axis=0).max())
        yield at_most(bound(len(q), beta), value, None, len(q), K=len(q), beta=beta, smallest_q=float(q.min()))


def modified_loss_cases(bound: Callable[[int, float], float]) -> Iterator[ClaimCase]:
    """Cases of Lemma 4. Each compares the largest modified loss for a matrix Q with the upper bound `bound`(K, β).

    The modified loss of a label y is |Σ_y' Q⁻¹[y', y] ℓ(y')|. The maximum is over all labels y and all losses ℓ in [0,
    1]. Losses of 0 and 1 attain the maximum.
    """
    for q, beta in _matrices():
        inverse = inverse_matrix(q, beta)
        positive, negative = np.maximum(inverse, 0.0).sum(axis=0), np.maximum(-inverse, 0.0).sum(axis=0)
        value = float(np.maximum(positive, negative).max())
        yield at_most(bound(len(q), beta), value, None, len(q), K=len(q), beta=beta, smallest_q=float(q.min()))


CLAIMS = (
    clustering(
        "Lemma 1",
        "the least singular value of Q is at least (1-β)/√(2K)",
        lambda: singular_value_cases(lambda k, beta: (1.0 - beta) / (2.0 * k) ** 0.5),
        "sharp up to √2: (1-β)/√K is approached for a certain label as β goes to 1",
    ),
    clustering(
        "Lemma 2",
        "absolute column sums of Q⁻¹ are at most √(2K)/(1-β)",
        lambda: column_sum_cases(lambda k, beta: (2.0 * k) ** 0.5 / (1.0 - beta)),
        "sharp: (1+β-2β min q)/(1-β), at most (1+β)/(1-β) whatever K",
    ),
    clustering(
        "Lemma 4",
        "the modified loss is at most √2 K/(1-β) for losses in [0, 1]",
        lambda: modified_loss_cases(lambda k, beta: 2.0**0.5 * k / (1.0 - beta)),
        "sharp: (1 - β min q)/(1-β), at most 1/(1-β) whatever K",
    ),
)
