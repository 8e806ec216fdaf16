"""The centralised mechanism (clustering paper, Algorithm 1): labels resampled from noisy cluster distributions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams, bernoulli
from p2p_sim.exchange.debias import check_labels, signed_weights
from p2p_sim.mechanisms.evidence import Drift, Evidence
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.without_messages import WithoutMessages
from p2p_sim.population.population import Population
from p2p_sim.population.shards import Shard
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.rivals.centralised import ClusterResampling
from p2p_sim.privacy.rivals.noisy_distribution import released_distribution
from p2p_sim.privacy.where_bounds_hold import Situation
from p2p_sim.privacy.worst_of_several import WorstOf, epsilons

Floats = NDArray[np.float64]


def released_distributions(
    counts: NDArray[np.integer], threshold: float, noise_scale: float, rng: np.random.Generator
) -> Floats:
    """q̃ of lines 2 to 20: Laplace noise on each cluster's label distribution, clipped to [τ, 1], renormalised.

    Args:
        counts: (C, K) users of each cluster that hold each label; every cluster has users.
        threshold: τ in [0, 1/K].
        noise_scale: σ >= 0, of the counts; infinite noise leaves nothing of the labels.
        rng: draws C·K numbers.
    """
    noise = rng.laplace(size=counts.shape)
    sizes = counts.sum(axis=1, keepdims=True)
    scaled = noise * (noise_scale / sizes) if np.isfinite(noise_scale) else np.copysign(np.inf, noise)
    return released_distribution(counts / sizes, scaled, threshold)


@dataclass(frozen=True)
class ClusterResponse:
    """Algorithm 1 with its parameters fixed.

    Args:
        resampling_prob: λ in [0, 1].
        noise_scale: σ >= 0, infinite allowed.
        threshold: τ in [0, 1/K].
        bias_correction: β in [0, 1).
        num_classes: K.
    """

    resampling_prob: float
    noise_scale: float
    threshold: float
    bias_correction: float
    num_classes: int

    def draw(
        self,
        labels: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        rng_noise: np.random.Generator,
        rng_labels: np.random.Generator,
    ) -> tuple[NDArray[np.uint8], Floats]:
        """Noisy labels (n,) and the clusters' noisy distributions (C, K).

        Args:
            labels: (n,) in 0..K-1, stored cluster by cluster. offsets: (C+1,).
            rng_noise, rng_labels: for the distributions, and for what happens to the labels.
        """
        k, sizes = self.num_classes, np.diff(offsets)
        check_labels(labels, k)
        cluster = np.repeat(np.arange(len(sizes)), sizes)
        counts = np.bincount(cluster * k + labels, minlength=len(sizes) * k).reshape(len(sizes), k)
        q = released_distributions(counts, self.threshold, self.noise_scale, rng_noise)
        resampled = np.flatnonzero(bernoulli(rng_labels, self.resampling_prob, labels.size))
        noisy = labels.copy()
        noisy[resampled] = _sample(q, cluster[resampled], rng_labels)
        return noisy, q


def _sample(q: Floats, cluster: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """A label from the distribution q[c] (C, K) for each entry c of `cluster` (m,)."""
    classes = q.shape[1]
    bounds = np.cumsum(q, axis=1)
    bounds /= bounds[:, -1:]
    ends = (bounds + np.arange(len(q))[:, None]).ravel()  # ascending over all clusters
    drawn = np.searchsorted(ends, rng.random(cluster.size) + cluster, side="right") - cluster * classes
    return np.asarray(np.minimum(drawn, classes - 1), dtype=np.uint8)


@dataclass(frozen=True)
class ClusterRR(WithoutMessages):
    """Algorithm 1 run by a curator who holds all labels.

    Args:
        response: its parameters.
        approximate: account for what resampling hides of the distributions (β = 0), which takes up to
            seconds for each cluster size; else state the pure ε, which holds for every δ.
    """

    trust = "curator"

    response: ClusterResponse
    approximate: bool = False

    @property
    def parameters(self) -> dict[str, float]:
        """λ, σ, τ and β."""
        r = self.response
        return {
            "resampling_prob": r.resampling_prob,
            "noise_scale": r.noise_scale,
            "threshold": r.threshold,
            "bias_correction": r.bias_correction,
        }

    def release_shard(self, shard: Shard, population: Population, streams: Streams) -> LabelRelease:
        """Noisy labels; for β > 0 the modified loss as K signed weights each, which give the distributions away."""
        truth = population.labels[shard.start : shard.stop]
        noise, resample = (streams.generator(purpose, shard.index) for purpose in ("cluster-noise", "resample"))
        noisy, q = self.response.draw(truth, shard.offsets, noise, resample)
        beta = self.response.bias_correction
        if beta == 0.0:
            return LabelRelease.of(shard, noisy)
        return LabelRelease.of(
            shard, signed_weights(noisy, np.repeat(q, np.diff(shard.offsets), axis=0), beta), "signed"
        )

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence:
        """Of a user's own label where some are kept (λ < 1), else of her cluster's.

        With released distributions (β > 0) it is exact. Else the cluster's mean m stands in for its noisy distribution
        q̃ in (1{z} - λq̃)/(1 - λ). The accuracy is then wrong by λ Σ_y q_y (q̃_y - p_y) for predicted shares q and true
        ones p, and at λ = 1 a share by q̃_y - p_y. Both are at most λ times Σ_y |r_y - p_y|, r being q̃ before it is
        scaled: at most λ Σ_y (|L_y| + τ) for the Laplace noise L of scale σ/n.
        """
        r, release = self.response, outcome.labels
        rate, beta, k = r.resampling_prob, r.bias_correction, r.num_classes
        payload = release.payload
        kept = np.eye(k)[payload.argmax(axis=1) if release.kind == "signed" else payload.astype(np.int64)]
        if release.kind == "signed" and rate < 1.0:
            undone = (rate / beta) * (1.0 - beta) * payload.astype(np.float64) + (1.0 - rate / beta) * kept
            return Evidence(release.user, undone / (1.0 - rate))
        scale = r.noise_scale / np.diff(cluster_offsets) if rate > 0.0 else np.zeros(len(cluster_offsets) - 1)
        drift = Drift(rate * k * (r.threshold + scale), rate**2 * k * scale**2)
        if rate == 1.0:
            return Evidence(release.user, kept, "cluster", drift=drift)
        cluster = np.searchsorted(cluster_offsets, release.user, side="right") - 1
        count = np.maximum(np.bincount(cluster, minlength=len(cluster_offsets) - 1), 1)
        mean = np.stack([np.bincount(cluster, one, len(count)) / count for one in kept.T], axis=1)
        return Evidence(release.user, (kept - rate * mean[cluster]) / (1.0 - rate), drift=drift)

    def privacy(self, sizes: NDArray[np.int64], delta: float) -> list[PrivacyBound]:
        return epsilons([self._accountant(int(size)) for size in sizes], delta)

    def accountant_of(self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation) -> Accountant:
        return WorstOf(tuple(self._accountant(size) for size in np.unique(cluster_sizes).tolist()))

    def statements(self, sizes: NDArray[np.int64], delta: float) -> dict[str, float | None]:
        """Theorem 1 as printed, which takes one share to move where two do."""
        return {"epsilon_paper": self._accountant(int(sizes.min())).epsilon_paper}

    def _accountant(self, size: int) -> ClusterResampling:
        r = self.response
        released = r.bias_correction > 0.0
        parameters = size, r.num_classes, r.resampling_prob, r.noise_scale, r.threshold, released
        return ClusterResampling(*parameters, counted=self.approximate)
