"""Theorem 5 of the clustering paper (Esfandiari et al.): how well label-private mechanisms report a cluster's labels.

In the label association problem (Definition 2) there are K labels. Every cluster holds s examples with distinct labels.
A mechanism reports a set of pairs (cluster, label). A pair is true if the cluster holds the label. Precision is the
expected number of true pairs reported, divided by the expected number of pairs reported. Recall is the expected number
of true pairs reported, divided by the number of all true pairs. By Theorem 5, a mechanism with ε-label privacy can
guarantee at most precision x recall = e^ε s/(K-s).

The exact maximum is found as follows. Average a mechanism over all permutations of the labels (separately in each
cluster), of the examples and of the clusters. This keeps ε and the guarantees of precision and recall. Let S be the set
reported for a cluster with labels Y. The probability of S now depends only on ω = |S| and j = |S ∩ Y|. A change of one
label of Y changes j by at most one. So ε-privacy lets this probability grow by a factor of at most e^ε for each step of
j.

Consider a given ω. One law of S has probabilities proportional to e^(εj). This law is ε-private. Under this law, j
stochastically dominates the j of all ε-private laws. So E j is at most m(ω), the expectation of Fisher's noncentral
hypergeometric law with odds e^ε. If ω is random, E j is at most E m(ω). Precision x recall is (E j)²/(s E ω), at most
(E m(ω))²/(s E ω). This bound is a convex function of the law of ω. So the bound is largest if ω is a fixed number.
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
    """Exact probabilities that a label is reported for a cluster. own: for each of the cluster's s own labels. foreign:
    for each of the K-s other labels.
    """

    own: float
    foreign: float


@dataclass(frozen=True)
class ClusterSubsets:
    """Reports a set S of ω labels for each cluster with labels Y, with probability proportional to e^(ε |S ∩ Y|).

    For the best ω, no ε-label private mechanism has a larger precision x recall. All clusters must hold distinct
    labels, as in the label association problem. A change of one label changes |S ∩ Y| by at most one. The normalising
    sum is the same for all sets Y. So the mechanism is ε-label private. For clusters with one label it is subset
    selection (Ye and Barg 2018).
    """

    epsilon: float
    subset_size: int

    def report(self, labels: Labels, classes: int, rng: np.random.Generator) -> Bools:
        """Which of the K labels are reported for each of C clusters, (C, K). Each cluster gets a random set of
        `subset_size` labels. Sets with more of the cluster's own labels are likelier.

        Args:
            labels: (C, s), the s distinct labels of each cluster's examples, from 0 to K-1. classes: K. rng: generator
            of the draws.
        """
        clusters, size = labels.shape
        # draw j = |S ∩ Y| by its law; then draw uniformly j of the cluster's labels, and ω-j other labels
        law = nchypergeom_fisher.pmf(np.arange(size + 1), classes, size, self.subset_size, math.exp(self.epsilon))
        overlap = rng.choice(size + 1, size=clusters, p=law / law.sum())
        keys = rng.random((clusters, classes))  # labels with the ω smallest keys are reported
        shuffled = rng.permuted(labels, axis=1)
        np.put_along_axis(keys, shuffled, np.where(np.arange(size) < overlap[:, None], -1.0, 2.0), axis=1)
        reported = np.zeros((clusters, classes), dtype=bool)
        np.put_along_axis(reported, np.argsort(keys, axis=1)[:, : self.subset_size], True, axis=1)
        return reported

    def chances(self, classes: int, size: int) -> Chances:
        """Exact probabilities that a label is reported: one of the cluster's own labels, and one of the other labels.

        Args:
            classes: K, the number of labels. size: s, the number of examples in a cluster, with distinct labels.
        """
        mean = float(nchypergeom_fisher.mean(classes, size, self.subset_size, math.exp(self.epsilon)))
        return Chances(mean / size, (self.subset_size - mean) / (classes - size))


@dataclass(frozen=True)
class ExampleSubsets:
    """Reports for each cluster the union of its examples' reports. Each example reports ω labels by subset selection.

    If ω = 1, an example's report is K-ary randomised response.
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
    """Adds Laplace noise of scale 2/ε to each label's count in each cluster. Labels with a noisy count of at least the
    threshold are reported.

    The mechanism is ε-label private: one changed label moves two counts by one each, so the L1 sensitivity is 2.
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
    """The largest precision x recall that a mechanism with ε-label privacy can guarantee, and the best ω. The best
    mechanism reports ω labels for a cluster. Recall is the expected share of a cluster's own labels that are reported.
    Precision is the expected number of own labels reported, divided by the expected number of reported labels.

    A cluster has s = `size` examples with distinct labels out of K = `classes`. The value is exact. As s/K tends to 0,
    the maximum is asymptotically s/K times e^(2ε)/(4(e^ε-1)) if ε >= ln 2. For smaller ε it is asymptotically s/K,
    which a report of all labels attains.
    """
    return max((product(ClusterSubsets(epsilon, omega), classes, size), omega) for omega in range(1, classes + 1))


def printed_product(classes: int, size: int, epsilon: float) -> float:
    """The upper bound e^ε s/(K-s) of precision x recall, from the clustering paper's proof of Theorem 5. A bound above
    1 says nothing.

    Args:
        classes: K, the number of labels. size: s, the number of examples in a cluster, with distinct labels. epsilon: ε
        of label privacy.
    """
    return math.exp(epsilon) * size / (classes - size)


def product(mechanism: Association, classes: int, size: int) -> float:
    """The exact precision x recall of a mechanism for K = `classes` labels and clusters of s = `size` examples."""
    own, foreign = mechanism.chances(classes, size)
    return size * own**2 / (size * own + (classes - size) * foreign)


def best(mechanisms: Iterable[Association], classes: int, size: int) -> Association:
    """The mechanism with the largest exact precision x recall, for K = `classes` labels and s = `size` examples a
    cluster.
    """
    return max(mechanisms, key=lambda mechanism: product(mechanism, classes, size))


def count_pairs(
    mechanism: Association, clusters: int, size: int, classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The numbers of true pairs reported and of all pairs reported, (2, C), for C = `clusters` simulated clusters. A
    pair (cluster, label) is true if one of the cluster's `size` examples has the label. These labels are distinct.
    """
    labels = np.argsort(rng.random((clusters, classes)), axis=1)[:, :size]  # distinct in each cluster, uniform
    reported = mechanism.report(labels, classes, rng)
    return np.stack([np.take_along_axis(reported, labels, axis=1).sum(axis=1), reported.sum(axis=1)])


def measure(
    mechanism: Association, clusters: int, size: int, classes: int, rng: np.random.Generator
) -> dict[str, Mean]:
    """Precision, recall and product, by name. Ratios of averages over at least 2 simulated clusters estimate these.

    The 95% intervals come from the delta method on logarithms. The intervals are valid for large samples with at least
    one reported true pair.
    """
    pairs = count_pairs(mechanism, clusters, size, classes, rng).astype(float)
    true, reported = pairs.mean(axis=1).tolist()
    t, r = pairs / [[true], [reported]]
    precision, recall = true / reported, true / size

    def ratio(value: float, influence: NDArray[np.float64]) -> Mean:
        # 1.96: the 97.5% quantile of N(0, 1)
        factor = math.exp(1.959963984540054 * float(influence.std(ddof=1)) / math.sqrt(clusters))
        return Mean(value, value / factor, value * factor, clusters)

    return {
        "precision": ratio(precision, t - r),
        "recall": ratio(recall, t),
        "product": ratio(precision * recall, 2.0 * t - r),
    }
