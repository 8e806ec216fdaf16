"""The law of what a whole cluster submits, by true label, for any rule by which users pass labels on.

A rule says how likely a user submits a zero or a one, given her label, her noisy bit and the numbers of noisy ones in
the cluster. Given these the users are independent, so the law is a mixture of products of binomial-like parts, which
are multiplied in the Fourier domain. The protocol is one rule; an error in its simulation is another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.statement.windows import Floats, binomial_pmf

Rule = Callable[["Cluster", int, int, Floats, Floats], tuple[Floats, Floats]]
"""From the cluster, a user's label, her noisy bit, the noisy ones among holders of 1 and of 0: a zero's and a one's
probability."""


@dataclass(frozen=True)
class Cluster:
    """Users who exchange labels.

    Args:
        labels: true ones, 0 or 1, by position in the cluster.
        flip_prob: α in [0, 1/2].
        sampling_rate: θ in (0, 1].
        members: positions 1 to c look on; 0: nobody.
    """

    labels: tuple[int, ...]
    flip_prob: float
    sampling_rate: float
    members: int = 0

    @property
    def size(self) -> int:
        """n."""
        return len(self.labels)

    @property
    def ones(self) -> int:
        """Holders of label 1."""
        return sum(self.labels)

    @property
    def zeros(self) -> int:
        """Holders of label 0."""
        return self.size - self.ones

    @property
    def noisy(self) -> Floats:
        """Probability (n,) that a user's noisy label is a one."""
        return np.where(np.array(self.labels) == 1, 1.0 - self.flip_prob, self.flip_prob)

    @property
    def fetched(self) -> float:
        """Probability that a fetched label is a one."""
        return float(self.noisy.mean())

    @cached_property
    def bits(self) -> Floats:
        """Law (ones + 1, zeros + 1) of the noisy ones among the holders of 1 and among those of 0."""
        alpha = self.flip_prob
        high = binomial_pmf(0, self.ones, self.ones, alpha)[::-1]
        return np.asarray(np.multiply.outer(high, binomial_pmf(0, self.zeros, self.zeros, alpha)))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of a table of laws: ones and zeros submitted by the holders of 1, ones and zeros by those of 0."""
        return (self.ones + 1, self.ones + 1, self.zeros + 1, self.zeros + 1)


def protocol(cluster: Cluster, label: int, bit: int, high: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Pass on, with probability θ, the noisy label of a uniform member."""
    one = (high + low) / cluster.size
    return cluster.sampling_rate * (1.0 - one), cluster.sampling_rate * one


def submission_law(cluster: Cluster, rule: Rule = protocol, bits: Floats | None = None) -> Floats:
    """Probabilities, of shape `cluster.shape`, of the numbers of ones and zeros that holders of 1 and of 0 submit.

    Accurate to some 1e-15 absolutely.

    Args:
        rule: by which users submit. bits: law of the noisy ones; the default is `cluster.bits`.
    """
    high, low = (np.arange(g + 1.0) for g in (cluster.ones, cluster.zeros))
    high, low = high[:, None], low[None, :]
    first = _group(cluster, rule, 1, cluster.ones, high, low)
    second = _group(cluster, rule, 0, cluster.zeros, high, low)
    weights = (cluster.bits if bits is None else bits).reshape(-1, 1)
    mixed = (weights * first).T @ second
    return np.maximum(np.fft.ifftn(mixed.reshape(cluster.shape)).real, 0.0)


def _group(cluster: Cluster, rule: Rule, label: int, users: int, high: Floats, low: Floats) -> NDArray[np.complex128]:
    """Fourier transform of what the holders of a label submit, (numbers of noisy ones, frequencies)."""
    size = users + 1
    wave = np.exp(-2j * np.pi * np.arange(size) / size)
    own = high if label else low
    found = np.ones((*np.broadcast_shapes(high.shape, low.shape), size, size), dtype=np.complex128)
    for bit, count in ((1, own), (0, users - own)):
        zero, one = (np.broadcast_to(p, found.shape[:2])[..., None, None] for p in rule(cluster, label, bit, high, low))
        found *= (1.0 + one * (wave[:, None] - 1.0) + zero * (wave[None, :] - 1.0)) ** count[..., None, None]
    return found.reshape(-1, size * size)
