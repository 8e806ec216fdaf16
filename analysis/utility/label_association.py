"""The label association problem: which labels occur in a cluster, reported under label privacy, and how well at best.

Clustering paper, Definition 2: every cluster holds s examples with distinct labels out of K, and a mechanism reports a
set of pairs (cluster, label). Precision is E(true pairs reported) over E(pairs reported), recall E(true pairs reported)
over all true pairs. Theorem 5: a mechanism that guarantees both has precision x recall <= e^ε s/(K-s).

The exact maximum is `largest_product`. Averaged over permutations of labels (in each cluster), examples and clusters
a mechanism keeps its ε and its two guarantees, and then the probability of reporting the set S for a cluster with
labels Y depends only on ω = |S| and j = |S ∩ Y|. Changing one label of Y moves j by at most one, so these
probabilities grow by at most e^ε a step in j; the law proportional to e^(εj), which is ε-private, stochastically
dominates all such laws of j at the same ω. So E j is at most the mean m(ω) of Fisher's noncentral hypergeometric law
with odds e^ε. Precision x recall is (E j)²/(s E ω), convex in the mixture of the sizes ω, hence largest at a single
one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.utility.scaling import Estimate

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Labels = NDArray[np.integer]
NORMAL_95 = 1.959963984540054


class Association(Protocol):
    """A label-private mechanism for the problem, acting on each cluster alone."""

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        """Which labels are reported for each cluster, (C, K).

        Args:
            labels: (C, s) in 0..K-1, distinct in each row; classes: K; rng: random numbers.
        """

    def chances(self, classes: int, size: int) -> tuple[float, float]:
        """Exact probabilities that a label of the cluster is reported, and that another one is.

        Args:
            classes: K; size: s.
        """


@dataclass(frozen=True)
class ClusterSubsets:
    """Reports for each cluster ω labels, the set S with probability proportional to e^(ε |S ∩ Y|): the best for some ω.

    ε-label private among data sets whose clusters hold distinct labels, which the problem presumes: |S ∩ Y| moves by at
    most one, and the normalising sum is the same for all of them. For s = 1 it is subset selection (Ye and Barg 2018).

    Attributes:
        epsilon: ε, at least 0.
        subset_size: ω in 1..K; K reports everything.
    """

    epsilon: float
    subset_size: int

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        clusters, size = labels.shape
        held, law = overlaps(classes, size, np.array([self.subset_size]), self.epsilon)
        overlap = rng.choice(held, size=clusters, p=law[0])
        keys = rng.random((clusters, classes))  # the ω smallest are reported
        shuffled = rng.permuted(labels, axis=1)
        np.put_along_axis(keys, shuffled, np.where(np.arange(size) < overlap[:, None], -1.0, 2.0), axis=1)
        chosen = np.argpartition(keys, self.subset_size - 1, axis=1)[:, : self.subset_size]
        reported = np.zeros((clusters, classes), dtype=bool)
        np.put_along_axis(reported, chosen, True, axis=1)
        return reported

    def chances(self, classes: int, size: int) -> tuple[float, float]:
        held, law = overlaps(classes, size, np.array([self.subset_size]), self.epsilon)
        mean = float(law[0] @ held)
        return mean / size, (self.subset_size - mean) / (classes - size)


@dataclass(frozen=True)
class ExampleSubsets:
    """Each example reports ω labels by subset selection, and a cluster's report is their union; ω = 1 is K-ary RR.

    ε-label private: an example's set S has probability proportional to e^ε if its label is in S and to 1 if not, with
    the same normalising sum for every label, and examples draw independently.

    Attributes:
        epsilon: ε, at least 0.
        subset_size: ω in 1..K.
    """

    epsilon: float
    subset_size: int = 1

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        one = ClusterSubsets(self.epsilon, self.subset_size).report(labels.reshape(-1, 1), classes, rng)
        return np.asarray(one.reshape(*labels.shape, classes).any(axis=1))

    def chances(self, classes: int, size: int) -> tuple[float, float]:
        own, other = ClusterSubsets(self.epsilon, self.subset_size).chances(classes, 1)
        return 1.0 - (1.0 - own) * (1.0 - other) ** (size - 1), 1.0 - (1.0 - other) ** size


@dataclass(frozen=True)
class NoisyHistogram:
    """Adds Laplace noise of scale 2/ε to the count of each label in each cluster; reports the counts above a threshold.

    ε-label private: one changed label moves two counts by one each, so the counts' L1 sensitivity is 2.

    Attributes:
        epsilon: ε, above 0.
        threshold: the least noisy count that is reported: a lower one raises recall and lowers precision.
    """

    epsilon: float
    threshold: float

    def __post_init__(self) -> None:
        if not self.epsilon > 0.0:
            raise ValueError(f"epsilon = {self.epsilon:g}: must be above 0")

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        counts = rng.laplace(scale=2.0 / self.epsilon, size=(len(labels), classes))
        np.put_along_axis(counts, labels, np.take_along_axis(counts, labels, axis=1) + 1.0, axis=1)
        return np.asarray(counts >= self.threshold)

    def chances(self, classes: int, size: int) -> tuple[float, float]:
        def tail(distance: float) -> float:
            half = 0.5 * float(np.exp(-0.5 * self.epsilon * abs(distance)))
            return half if distance >= 0.0 else 1.0 - half

        return tail(self.threshold - 1.0), tail(self.threshold)


def overlaps(classes: int, size: int, subsets: NDArray[np.integer], epsilon: float) -> tuple[NDArray[np.int64], Floats]:
    """Law of |S ∩ Y| when the set S of ω labels has probability proportional to e^(ε |S ∩ Y|).

    Args:
        classes: K. size: s = |Y|, in 1..K-1.
        subsets: (W,) sizes ω in 1..K. epsilon: ε, at least 0.

    Returns:
        The overlaps 0..s, (s+1,), and their probabilities for each ω, (W, s+1).

    Raises:
        ValueError: a size is out of its range.

    >>> overlaps(4, 1, np.array([2]), 0.0)[1].tolist()
    [[0.5, 0.5]]
    """
    from scipy.special import gammaln

    if not 1 <= size < classes:
        raise ValueError(f"size = {size}: must lie in 1..{classes - 1}, below the number of classes")
    if subsets.min() < 1 or subsets.max() > classes:
        raise ValueError(f"subset_size = {subsets.min()} to {subsets.max()}: must lie in 1..{classes}")
    held = np.arange(size + 1)
    missed = subsets[:, None] - held
    possible = (missed >= 0) & (missed <= classes - size)
    inside = np.where(possible, missed, 0)
    ways = -gammaln(held + 1.0) - gammaln(size - held + 1.0)
    ways = ways - gammaln(inside + 1.0) - gammaln(classes - size - inside + 1.0)
    score = np.where(possible, ways + epsilon * held, -np.inf)
    law = np.exp(score - score.max(axis=1, keepdims=True))
    return held, np.asarray(law / law.sum(axis=1, keepdims=True))


def largest_product(classes: int, size: int, epsilon: float) -> tuple[float, int]:
    """The largest precision x recall that an ε-label private mechanism can guarantee, exactly, and the best ω.

    Among data sets whose clusters hold distinct labels; see the module for the proof. As s/K falls it tends to s/K
    times e^(2ε)/(4(e^ε-1)) for ε >= ln 2, and to s/K, which reporting everything attains, below.

    Args:
        classes: K; size: s in 1..K-1; epsilon: ε, at least 0.
    """
    subsets = np.arange(1, classes + 1)
    held, law = overlaps(classes, size, subsets, epsilon)
    products = (law @ held) ** 2 / (size * subsets)
    best = int(products.argmax())
    return float(products[best]), best + 1


def printed_product(classes: int, size: int, epsilon: float) -> float:
    """The proof of Theorem 5: precision x recall is at most e^ε s/(K-s); above 1 it says nothing."""
    return float(np.exp(epsilon)) * size / (classes - size)


def product(mechanism: Association, classes: int, size: int) -> float:
    """Exact precision x recall of a mechanism."""
    held, other = mechanism.chances(classes, size)
    reported = size * held + (classes - size) * other
    return size * held**2 / reported if reported > 0.0 else 0.0


def best(mechanisms: Iterable[Association], classes: int, size: int) -> Association:
    """The mechanism with the largest exact precision x recall."""
    return max(mechanisms, key=lambda mechanism: product(mechanism, classes, size))


@dataclass(frozen=True)
class Measured:
    """Precision, recall and their product over simulated clusters, with 95% intervals."""

    precision: Estimate
    recall: Estimate
    product: Estimate


def random_labels(clusters: int, size: int, classes: int, rng: np.random.Generator) -> Labels:
    """Distinct labels for the examples of each cluster, uniform, (C, s)."""
    return np.asarray(np.argsort(rng.random((clusters, classes)), axis=1)[:, :size])


def counts(
    mechanism: Association, clusters: int, size: int, classes: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """True pairs reported and pairs reported in each of C simulated clusters with random labels, (C,) each."""
    labels = random_labels(clusters, size, classes, rng)
    reported = mechanism.report(labels, classes, rng)
    return np.take_along_axis(reported, labels, axis=1).sum(axis=1), reported.sum(axis=1)


def measure(mechanism: Association, clusters: int, size: int, classes: int, rng: np.random.Generator) -> Measured:
    """Simulate clusters and measure precision and recall as ratios of expectations.

    The intervals are from the delta method on logarithms over independent clusters: large samples; NaN where no true
    pair was reported.

    Args:
        clusters: C, at least 2. size: s. classes: K.
    """
    true, reported = (a.astype(float) for a in counts(mechanism, clusters, size, classes, rng))
    if not true.any():
        return Measured(*[Estimate(0.0, float("nan"), float("nan"))] * 3)
    t, r = true / true.mean(), reported / reported.mean()

    def estimate(value: float, influence: Floats) -> Estimate:
        half = NORMAL_95 * float(influence.std(ddof=1)) / np.sqrt(clusters)
        return Estimate(value, value * float(np.exp(-half)), value * float(np.exp(half)))

    precision, recall = float(true.mean() / reported.mean()), float(true.mean()) / size
    return Measured(estimate(precision, t - r), estimate(recall, t), estimate(precision * recall, 2.0 * t - r))
