"""Theorem 5 of the clustering paper: how well the labels of a cluster can be reported under label privacy.

In the label association problem (Definition 2) every cluster holds s examples with distinct labels out of K, and a
mechanism reports a set of pairs (cluster, label). Precision is E(true pairs reported) over E(pairs reported), recall
E(true pairs reported) over all true pairs. Theorem 5: guaranteed precision x recall is at most e^ε s/(K-s).

Averaged over permutations of labels (in each cluster), examples and clusters a mechanism keeps its ε and its two
guarantees, and then the probability of reporting the set S for a cluster with labels Y depends only on ω = |S| and
j = |S ∩ Y|. Changing one label of Y moves j by at most one, so these probabilities grow by at most e^ε a step in j; the
law proportional to e^(εj), which is ε-private, stochastically dominates all such laws of j at the same ω. So E j is at
most the mean m(ω) of Fisher's noncentral hypergeometric law with odds e^ε. Precision x recall is (E j)²/(s E ω), convex
in the mixture of the sizes ω, hence largest at a single one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import laplace, nchypergeom_fisher

from p2p_sim.measures import Mean

Bools = NDArray[np.bool_]
Labels = NDArray[np.integer]


class Chances(NamedTuple):
    """The exact probabilities that a label which occurs in a cluster of s examples is reported, and one of the K-s
    others.
    """

    own: float
    foreign: float


@dataclass(frozen=True)
class ClusterSubsets:
    """Reports for each cluster ω labels, the set S with probability proportional to e^(ε |S ∩ Y|): the best for some ω.

    ε-label private among data sets whose clusters hold distinct labels, which the problem presumes: |S ∩ Y| moves by at
    most one, and the normalising sum is the same for all of them. For s = 1 it is subset selection (Ye and Barg 2018).
    """

    epsilon: float
    subset_size: int

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        """Which of K labels are reported for each cluster, (C, K); its own are (C, s), distinct in each row."""
        clusters, size = labels.shape
        # j = |S ∩ Y| by its law, then which j of the cluster's labels and which of the others, uniformly
        law = nchypergeom_fisher.pmf(np.arange(size + 1), classes, size, self.subset_size, math.exp(self.epsilon))
        overlap = rng.choice(size + 1, size=clusters, p=law / law.sum())
        keys = rng.random((clusters, classes))  # the ω smallest are reported
        shuffled = rng.permuted(labels, axis=1)
        np.put_along_axis(keys, shuffled, np.where(np.arange(size) < overlap[:, None], -1.0, 2.0), axis=1)
        reported = np.zeros((clusters, classes), dtype=bool)
        np.put_along_axis(reported, np.argsort(keys, axis=1)[:, : self.subset_size], True, axis=1)
        return reported

    def chances(self, classes: int, size: int) -> Chances:
        """The chances of labels of K classes in clusters of s examples."""
        mean = float(nchypergeom_fisher.mean(classes, size, self.subset_size, math.exp(self.epsilon)))
        return Chances(mean / size, (self.subset_size - mean) / (classes - size))


@dataclass(frozen=True)
class ExampleSubsets:
    """Each example of a cluster reports ω labels by subset selection, and the cluster's report is their union; ω = 1 is
    K-ary randomised response.
    """

    epsilon: float
    subset_size: int = 1

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        single = ClusterSubsets(self.epsilon, self.subset_size).report(labels.reshape(-1, 1), classes, rng)
        return np.asarray(single.reshape(*labels.shape, classes).any(axis=1))

    def chances(self, classes: int, size: int) -> Chances:
        own, foreign = ClusterSubsets(self.epsilon, self.subset_size).chances(classes, 1)
        return Chances(1.0 - (1.0 - own) * (1.0 - foreign) ** (size - 1), 1.0 - (1.0 - foreign) ** size)


@dataclass(frozen=True)
class NoisyHistogram:
    """Adds Laplace noise of scale 2/ε to the count of each label in each cluster; reports the counts above a threshold.

    ε-label private: one changed label moves two counts by one each, so the counts' L1 sensitivity is 2.
    """

    epsilon: float
    threshold: float

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        counts = rng.laplace(scale=2.0 / self.epsilon, size=(len(labels), classes))
        np.put_along_axis(counts, labels, np.take_along_axis(counts, labels, axis=1) + 1.0, axis=1)
        return np.asarray(counts >= self.threshold)

    def chances(self, classes: int, size: int) -> Chances:
        noise = laplace(scale=2.0 / self.epsilon)
        return Chances(float(noise.sf(self.threshold - 1.0)), float(noise.sf(self.threshold)))


Association = ClusterSubsets | ExampleSubsets | NoisyHistogram


def largest_product(classes: int, size: int, epsilon: float) -> tuple[float, int]:
    """The largest precision x recall that an ε-label private mechanism can guarantee, exactly, and the best ω.

    Among data sets whose clusters hold distinct labels. As s/K falls it tends to s/K times e^(2ε)/(4(e^ε-1)) for
    ε >= ln 2, and to s/K, which reporting everything attains, below.
    """
    return max((product(ClusterSubsets(epsilon, omega), classes, size), omega) for omega in range(1, classes + 1))


def printed_product(classes: int, size: int, epsilon: float) -> float:
    """The proof of Theorem 5: precision x recall is at most e^ε s/(K-s); above 1 it says nothing."""
    return math.exp(epsilon) * size / (classes - size)


def product(mechanism: Association, classes: int, size: int) -> float:
    """Exact precision x recall of a mechanism."""
    own, foreign = mechanism.chances(classes, size)
    reported = size * own + (classes - size) * foreign
    return size * own**2 / reported


def best(mechanisms: Iterable[Association], classes: int, size: int) -> Association:
    """The mechanism with the largest exact precision x recall."""
    return max(mechanisms, key=lambda mechanism: product(mechanism, classes, size))


def count_pairs(
    mechanism: Association, clusters: int, size: int, classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """True pairs reported and pairs reported in each of C simulated clusters with random labels, (2, C)."""
    labels = np.argsort(rng.random((clusters, classes)), axis=1)[:, :size]  # distinct in each cluster, uniform
    reported = mechanism.report(labels, classes, rng)
    return np.stack([np.take_along_axis(reported, labels, axis=1).sum(axis=1), reported.sum(axis=1)])


def measure(
    mechanism: Association, clusters: int, size: int, classes: int, rng: np.random.Generator
) -> dict[str, Mean]:
    """Precision, recall and their product over simulated clusters, at least 2, as ratios of means.

    The 95% intervals are from the delta method on logarithms over independent clusters: for large samples, in which
    some true pair is reported.
    """
    pairs = count_pairs(mechanism, clusters, size, classes, rng).astype(float)
    true, reported = pairs.mean(axis=1).tolist()
    t, r = pairs / [[true], [reported]]
    precision, recall = true / reported, true / size

    def ratio(value: float, influence: NDArray[np.float64]) -> Mean:
        factor = math.exp(1.959963984540054 * float(influence.std(ddof=1)) / math.sqrt(clusters))
        return Mean(value, value / factor, value * factor, clusters)

    combined = ratio(precision * recall, 2.0 * t - r)
    return {"precision": ratio(precision, t - r), "recall": ratio(recall, t), "product": combined}
