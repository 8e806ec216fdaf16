"""The centralised mechanism (clustering paper, Algorithm 1): labels resampled from noisy cluster distributions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams, bernoulli
from p2p_sim.exchange.randomizer import check_labels, signed_weights
from p2p_sim.measures.rehearsal import Choice, best_choice, corollary2, split_budget, uniform
from p2p_sim.mechanisms.evidence import Drift, Evidence
from p2p_sim.mechanisms.mechanism import OwnMechanism, Setup
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome, ReleaseKind
from p2p_sim.mechanisms.without_messages import WithoutMessages
from p2p_sim.population.population import Population, Shard
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.rivals.centralised import CURATOR_CONDITIONS, ClusterResampling
from p2p_sim.privacy.rivals.noisy_share import released_distribution
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


Split = Literal["optimised", "half", "uniform", "as-printed"]
_GIVEN = ("resampling_prob", "noise_scale", "threshold")


class ClusterRRConfig(OwnMechanism):
    """A trusted curator resamples labels from the clusters' noisy label distributions (clustering paper, Algorithm 1).

    Give `target_epsilon` and a `split`, or the parameters themselves.
    """

    kind: Literal["cluster_rr"] = "cluster_rr"
    described: ClassVar[str] = "a trusted curator who resamples them within clusters"
    conditions: ClassVar[tuple[str, ...]] = CURATOR_CONDITIONS
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε of distributions and labels together, above 0 and at most 100."""
    split: Split = "optimised"
    """How ε is spent. "optimised": threshold and budget split that do best on made-up labels with the given φ; "half":
    half of it on the distributions, with threshold φ (at most 1/K); "uniform": uniform randomised response (Corollary
    1); "as-printed": Corollary 2, which costs up to 3ε."""
    heterogeneity: float | None = Field(default=None, ge=0, le=2)
    """φ that the split assumes: a public guess, 0 to 2. Needed unless `oracle` or split = "uniform"."""
    oracle: bool = False
    """Take φ from the population: from its law or even its labels. This choice is not private; rows record it."""
    decisions: int = Field(default=4, ge=1, le=1_000_000)
    """Assumed number of decisions of a learner within a cluster, at least 1 (split = "optimised")."""
    resampling_prob: float | None = Field(default=None, ge=0, le=1)
    """λ: probability that a label is drawn anew from its cluster's noisy distribution, 0 to 1."""
    noise_scale: float | None = Field(default=None, gt=0)
    """σ: scale of the Laplace noise on a cluster's label counts, above 0; absent: infinite."""
    threshold: float | None = Field(default=None, ge=0, le=0.5)
    """τ: smallest probability in a noisy distribution, 0 to 1/K."""
    bias_correction: float = Field(default=0.0, ge=0, lt=1)
    """β: how much of the resampling signed weights undo, 0 to below 1; above 0 the noisy distributions are released.
    split = "uniform" sets it to λ."""

    approximate: bool = False
    """Use the scenario's δ, too: account for what resampling hides of the noisy distributions, and add less noise for
    the same ε. For β = 0; takes up to seconds for each cluster size."""

    @property
    def releases(self) -> ReleaseKind:
        corrected = self.bias_correction > 0 or (self.target_epsilon is not None and self.split == "uniform")
        return "signed" if corrected else "hard"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = [name for name in _GIVEN if getattr(self, name) is not None]
        if self.approximate and (self.releases == "signed" or self.split == "as-printed"):
            raise ValueError("approximate: nothing is hidden where the distributions are released or ε is nominal")
        if self.target_epsilon is None:
            missing = [name for name in ("resampling_prob", "threshold") if name not in given]
            if missing:
                raise ValueError(f"give target_epsilon, or resampling_prob and threshold; {missing[0]} is missing")
            return self
        if given:
            raise ValueError(f"give either target_epsilon or {given[0]}")
        if self.split == "uniform" and self.bias_correction > 0:
            raise ValueError("bias_correction: split = 'uniform' sets it to λ; leave it out")
        if self.oracle and self.heterogeneity is not None:
            raise ValueError("give either heterogeneity, a public guess, or oracle = true")
        if self.split != "uniform" and self.heterogeneity is None and not self.oracle:
            raise ValueError(f"split = '{self.split}' needs heterogeneity, a public guess of φ, or oracle = true")
        return self

    @property
    def asks_oracle(self) -> bool:
        return self.oracle

    def with_oracle_values(self, heterogeneity: Callable[[], float]) -> Self:
        """The same with the oracle's φ, where it is asked."""
        return self.model_copy(update={"heterogeneity": heterogeneity()}) if self.oracle else self

    def check(self, num_classes: int) -> None:
        if num_classes < 2:
            raise InputError(f"population: has {num_classes} class; a label needs two at least")
        if self.threshold is not None and self.threshold > 1.0 / num_classes:
            raise InputError(
                f"mechanism.threshold = {self.threshold:g}: must be at most 1/K = {1 / num_classes:.4g} for "
                f"{num_classes} classes"
            )

    def built(self, setup: Setup) -> ClusterRR:
        """The mechanism for clusters of these sizes.

        Raises:
            InputError: τ is above 1/K.
        """
        self.check(setup.num_classes)
        if self.target_epsilon is None:
            assert self.resampling_prob is not None
            assert self.threshold is not None
            scale = np.inf if self.noise_scale is None else self.noise_scale
            choice, beta = Choice(self.resampling_prob, scale, self.threshold), self.bias_correction
        else:
            choice = self._choice(self.target_epsilon, setup.sizes, setup.num_classes)
            if self.approximate:
                choice = self._stretched(self.target_epsilon, setup.delta, setup.sizes, setup.num_classes)
            beta = choice.resampling_prob if self.split == "uniform" else self.bias_correction
        chosen = (choice.resampling_prob, choice.noise_scale, choice.threshold)
        return ClusterRR(ClusterResponse(*chosen, beta, setup.num_classes), self.approximate)

    def _choice(self, epsilon: float, sizes: NDArray[np.int64], num_classes: int) -> Choice:
        """How a pure ε is spent."""
        size = _two_digits(float(np.mean(sizes)))
        return _choose(self.split, epsilon, self.heterogeneity or 0.0, num_classes, size, self.decisions)

    def _stretched(self, epsilon: float, delta: float, sizes: NDArray[np.int64], num_classes: int) -> Choice:
        """The choice for the largest pure ε, up to twice the given one, that is certified for (ε, δ) everywhere."""
        for factor in (2.0, 1.7, 1.4, 1.25, 1.15, 1.1, 1.05):
            choice = self._choice(factor * epsilon, sizes, num_classes)
            parameters = (num_classes, choice.resampling_prob, choice.noise_scale, choice.threshold, False)
            if all(ClusterResampling(int(n), *parameters).satisfies(epsilon, delta) for n in np.unique(sizes)):
                return choice
        return self._choice(epsilon, sizes, num_classes)


@lru_cache(maxsize=4_096)
def _choose(split: Split, epsilon: float, phi: float, classes: int, size: int, decisions: int) -> Choice:
    """The parameters that a split asks for."""
    if split == "uniform":
        return uniform(epsilon, classes)
    if split == "optimised":
        return best_choice(epsilon, classes, size, decisions, phi)
    threshold = min(phi, 1.0 / classes)
    return corollary2(epsilon, threshold) if split == "as-printed" else split_budget(epsilon, 0.5, threshold)


def _two_digits(size: float) -> int:
    """The size to two significant digits, so that replicates whose clusters differ a little choose alike."""
    return max(2, int(float(f"{size:.2g}")))
