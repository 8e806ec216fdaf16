"""The centralised mechanism (clustering paper, Algorithm 1): a curator resamples labels within clusters."""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import InputError, Streams, bernoulli
from p2p_sim.exchange import check_labels, signed_weights
from p2p_sim.measures import Choice, best_choice, corollary2, split_budget, uniform
from p2p_sim.mechanisms.deployment import Setup, Trust
from p2p_sim.mechanisms.mechanism import NOISE_SCALE, THRESHOLD, Column, Mechanism
from p2p_sim.mechanisms.noise_law import Drift, Evidence
from p2p_sim.mechanisms.outcome import Floats, LabelRelease, Outcome, ReleaseKind
from p2p_sim.privacy import Situation, Stated
from p2p_sim.privacy.rivals import CURATOR_CONDITIONS, ClusterResampling, released_distribution


def released_distributions(
    counts: NDArray[np.integer], threshold: float, noise_scale: float, rng: np.random.Generator
) -> Floats:
    """Draws the noisy label distribution q̃ of each of C clusters, (C, K), as in Algorithm 1, lines 2 to 20. Laplace
    noise of scale σ/n is added to the label shares of a cluster of n users. The shares are then clipped to [τ, 1]. If
    their sum is below 1, each share is raised in proportion to its distance from 1. If their sum is above 1, each share
    is lowered in proportion to its distance from τ.

    Args:
        counts: (C, K) number of users of each cluster with each label; every cluster has users. threshold: τ in [0,
        1/K]. noise_scale: σ >= 0, in numbers of users; at σ = ∞ the labels have no influence on q̃. rng: random
        numbers.
    """
    noise = rng.laplace(size=counts.shape)
    sizes = counts.sum(axis=1, keepdims=True)
    scaled = noise * (noise_scale / sizes) if np.isfinite(noise_scale) else np.copysign(np.inf, noise)
    return released_distribution(counts / sizes, scaled, threshold)


@dataclass(frozen=True)
class ClusterResponse:
    """Algorithm 1 with fixed parameters: a curator resamples labels from the noisy label distributions of clusters.

    Args:
        resampling_prob: λ in [0, 1], probability that a label is drawn anew.
        noise_scale: σ >= 0, scale of the Laplace noise on label counts; may be infinite.
        threshold: τ in [0, 1/K], smallest probability in a noisy distribution.
        bias_correction: β in [0, 1), the probability of resampling that the released weights undo on average.
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
        """Draws the noisy label of each user (n,), and the noisy label distribution of each cluster (C, K).

        Args:
            labels: (n,) in 0..K-1, stored cluster by cluster. offsets: (C+1,); cluster c holds users
            offsets[c]..offsets[c+1]-1. rng_noise: draws the noise on the distributions. rng_labels: draws which labels
            change, and to what.
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
    """Draws m labels, (m,). Label i comes from the distribution in row cluster[i] of q (C, K)."""
    classes = q.shape[1]
    bounds = np.cumsum(q, axis=1)
    bounds /= bounds[:, -1:]
    ends = (bounds + np.arange(len(q))[:, None]).ravel()  # ascending over all clusters
    drawn = np.searchsorted(ends, rng.random(cluster.size) + cluster, side="right") - cluster * classes
    return np.asarray(np.minimum(drawn, classes - 1), dtype=np.uint8)


Split = Literal["optimised", "half", "uniform", "as-printed"]


class ClusterRRConfig(Mechanism):
    """A trusted curator resamples labels from the clusters' noisy label distributions (clustering paper, Algorithm 1).

    Give `target_epsilon` and a `split`, or the parameters themselves.
    """

    kind: Literal["cluster_rr"] = "cluster_rr"
    trust: ClassVar[Trust] = "curator"
    described: ClassVar[str] = "a trusted curator who resamples them within clusters"
    conditions: ClassVar[tuple[str, ...]] = CURATOR_CONDITIONS
    columns: ClassVar[tuple[Column, ...]] = (
        Column("resampling_prob", "resampling probability λ"),
        NOISE_SCALE,
        THRESHOLD,
        Column("bias_correction", "bias correction β"),
    )
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε of noisy distributions and noisy labels together, above 0 and at most 100."""
    split: Split = "optimised"
    """How ε is spent. "optimised": with the threshold and the split that do best on made-up labels with the given φ;
    "half": half of ε on the distributions, with threshold φ (at most 1/K); "uniform": uniform randomised response
    (Corollary 1); "as-printed": as in Corollary 2, which costs up to 3ε."""
    heterogeneity: float | None = Field(default=None, ge=0, le=2)
    """φ: heterogeneity of the clusters that the split assumes, a public guess, 0 to 2. Needed unless `oracle` is true
    or split = "uniform"."""
    oracle: bool = False
    """Take φ from the population's law, or from its labels. This choice is not private; the results say so."""
    decisions: int = Field(default=4, ge=1, le=1_000_000)
    """Assumed number of decisions of a learner within a cluster, at least 1 (split = "optimised")."""
    resampling_prob: float | None = Field(default=None, ge=0, le=1)
    """λ: probability that a label is drawn anew from its cluster's noisy distribution, 0 to 1."""
    noise_scale: float | None = Field(default=None, gt=0)
    """σ: scale of the Laplace noise on a cluster's label counts, above 0; absent: infinite."""
    threshold: float | None = Field(default=None, ge=0, le=0.5)
    """τ: smallest probability in a noisy distribution, 0 to 1/K."""
    bias_correction: float = Field(default=0.0, ge=0, lt=1)
    """β: the probability of resampling that signed weights undo on average, 0 to below 1. Above 0 the weights reveal
    the noisy distributions. split = "uniform" sets β = λ.
    """

    approximate: bool = False
    """Use the scenario's δ too. Resampling hides part of the noisy distributions, so less noise gives the same ε. Needs
    β = 0; may take seconds for each cluster size.
    """

    @property
    def releases(self) -> ReleaseKind:
        corrected = self.bias_correction > 0 or (self.target_epsilon is not None and self.split == "uniform")
        return "signed" if corrected else "hard"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        keys = ("resampling_prob", "noise_scale", "threshold")
        present = [key for key in keys if getattr(self, key) is not None]
        if self.approximate and (self.releases == "signed" or self.split == "as-printed"):
            raise ValueError(
                "approximate: cannot be used with signed weights (bias_correction, split = 'uniform') or 'as-printed'"
            )
        # either the parameters themselves, or a target ε that a split spends
        if self.target_epsilon is None:
            if missing := [key for key in ("resampling_prob", "threshold") if key not in present]:
                raise ValueError(f"give target_epsilon, or resampling_prob and threshold; {missing[0]} is missing")
            return self
        if present:
            raise ValueError(f"give either target_epsilon or {present[0]}")
        # the split "uniform" sets β; every other split needs φ, a guess or the population's value
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

    def with_oracle_values(self, heterogeneity: float) -> Self:
        """This configuration with φ set to a value computed from the population itself. This shows in experiments what
        the best possible choice of noise would give. Such a choice looks at private data, and no ε counts what it
        reveals; results say so.

        Args:
            heterogeneity: φ of the population, the mean over users of Σ_y |p(y|x) - p(y|c)|. Here x are a user's
            features, and c is her cluster.
        """
        return self.model_copy(update={"heterogeneity": heterogeneity})

    def check(self, num_classes: int) -> None:
        if num_classes < 2:
            raise InputError(f"population: has {num_classes} class; labels need at least two classes")
        if self.threshold is not None and self.threshold > 1.0 / num_classes:
            raise InputError(
                f"mechanism.threshold = {self.threshold:g}: must be at most 1/K = {1 / num_classes:.4g} for "
                f"{num_classes} classes"
            )

    def calibrated(self, setup: Setup) -> Self:
        if self.target_epsilon is None:
            return self.model_copy(update={"noise_scale": math.inf if self.noise_scale is None else self.noise_scale})
        choice = self._choice(self.target_epsilon, setup.sizes, setup.num_classes)
        if self.approximate:
            # try pure ε from twice the target downwards; the first with parameters that meet (ε, δ) everywhere is taken
            for factor in (2.0, 1.7, 1.4, 1.25, 1.15, 1.1, 1.05):
                stretched = self._choice(factor * self.target_epsilon, setup.sizes, setup.num_classes)
                noise = (stretched.resampling_prob, stretched.noise_scale, stretched.threshold, False)
                accountants = (ClusterResampling(int(n), setup.num_classes, *noise) for n in np.unique(setup.sizes))
                if all(accountant.satisfies(self.target_epsilon, setup.delta) for accountant in accountants):
                    choice = stretched
                    break
        beta = choice.resampling_prob if self.split == "uniform" else self.bias_correction
        return self.model_copy(update={**asdict(choice), "bias_correction": beta, "target_epsilon": None})

    @property
    def response(self) -> ClusterResponse:
        """Algorithm 1 with the parameters of this configuration."""
        return ClusterResponse(**self.parameters, num_classes=self.setup.num_classes)

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """The labels that the curator releases, one for each of n users. With probability λ, a label is replaced by a
        draw from the noisy label distribution q̃ of the user's cluster.

        With a bias correction β > 0, K weights are released instead of each noisy label z. The weight of class y is
        (1{z = y} - β q̃_y)/(1 - β), which may be below 0. If β = λ, the mean of a weight over the draws is 1 for the
        true class and 0 for the others. The weights reveal q̃.

        Args:
            labels: (n,) true labels, cluster by cluster. features: not used. clusters: (C+1,); cluster c holds users
            clusters[c]..clusters[c+1]-1. streams: random numbers of the run.
        """
        noisy, q = self.response.draw(
            labels, clusters, streams.generator("cluster-noise"), streams.generator("resample")
        )
        if self.bias_correction == 0.0:
            return LabelRelease.of(noisy)
        weights = signed_weights(noisy, np.repeat(q, np.diff(clusters), axis=0), self.bias_correction)
        return LabelRelease.of(weights, "signed")

    def evidence(self, outcome: Outcome, cluster_offsets: NDArray[np.int64]) -> Evidence:
        """Scores of the K classes for each released label z, for estimates of accuracy without true labels. The mean of
        a score over the noise is 1 for the user's true class and 0 for the others. At λ = 1 all labels were drawn anew;
        then the means are the class shares of her cluster. The means may have an error that all labels of a cluster
        share. For each cluster, the result has a bound of this error (`drift`).

        Let 1{z} be the one-hot vector of z, and q̃ the cluster's noisy label distribution. For λ < 1 the scores are
        (1{z} - λq̃)/(1 - λ). If q̃ is released (bias correction β > 0), these scores have no shared error. If q̃ is not
        released (β = 0), the cluster's shares of released labels replace q̃. At λ = 1 the scores are 1{z}.

        In a cluster, let q_y be the share of users with predicted class y, and p_y the share with true class y. If β =
        0 or λ = 1, an estimated accuracy has the error λ Σ_y q_y (q̃_y - p_y). At λ = 1, an estimated share of class y
        has the error q̃_y - p_y. Both errors are at most λ Σ_y |r_y - p_y| in absolute value, where r is q̃ before the
        sum is made 1. This bound is at most λ Σ_y (|L_y| + τ). L_y is Laplace noise of scale σ/n in a cluster of n
        users, and τ is the smallest possible entry of r.

        Args:
            outcome: the result of the run. cluster_offsets: (C+1,); cluster c holds users
            cluster_offsets[c]..cluster_offsets[c+1]-1.
        """
        release = outcome.labels
        (rate, sigma, tau, beta), k = self.parameters.values(), self.setup.num_classes
        payload = release.payload
        indicator = np.eye(k)[payload.argmax(axis=1) if release.kind == "signed" else payload.astype(np.int64)]
        if release.kind == "signed" and rate < 1.0:
            undone = (rate / beta) * (1.0 - beta) * payload.astype(np.float64) + (1.0 - rate / beta) * indicator
            return Evidence(release.user, undone / (1.0 - rate))
        scale = sigma / np.diff(cluster_offsets) if rate > 0.0 else np.zeros(len(cluster_offsets) - 1)
        drift = Drift(rate * k * (tau + scale), rate**2 * k * scale**2)
        if rate == 1.0:
            return Evidence(release.user, indicator, "cluster", drift=drift)
        cluster = np.searchsorted(cluster_offsets, release.user, side="right") - 1
        count = np.maximum(np.bincount(cluster, minlength=len(cluster_offsets) - 1), 1)
        mean = np.stack([np.bincount(cluster, column, len(count)) / count for column in indicator.T], axis=1)
        return Evidence(release.user, (indicator - rate * mean[cluster]) / (1.0 - rate), drift=drift)

    def accountant(self, setup: Setup, size: int) -> ClusterResampling:
        """The accountant that bounds what the learner learns of one user's label in a cluster of `size` users. By
        default the accountant states a pure ε (δ = 0). If the key `approximate` is true, the accountant also uses that
        the learner sees only labels. Labels show the noisy label distribution only inexactly, so less noise gives the
        same ε. The computation may then take seconds.

        Args:
            setup: facts about the scenario; only its number of classes matters. size: number of users of her cluster.
        """
        lam, sigma, tau, beta = self.parameters.values()
        return ClusterResampling(
            size, setup.num_classes, lam, sigma, tau, released=beta > 0.0, counted=self.approximate
        )

    def papers(self, situation: Situation, sizes: NDArray[np.int64], delta: float) -> dict[str, Stated]:
        """The ε of Theorem 1 of the clustering paper as printed, for the smallest cluster, under "epsilon_paper". This
        is not a certified bound. The theorem assumes that a change of one label changes one class share of the cluster.
        But the change alters two class shares.

        Args:
            situation, delta: not used. sizes: number of users of each cluster.
        """
        return {"epsilon_paper": Stated(self.accountant(self.setup, int(sizes.min())).epsilon_paper)}

    def _choice(self, epsilon: float, sizes: NDArray[np.int64], num_classes: int) -> Choice:
        """The parameters of Algorithm 1 at which noisy label distributions and noisy labels together cost ε: resampling
        probability λ, noise scale σ and threshold τ. The key `split` divides ε between the two; "as-printed" costs up
        to 3ε. All clusters are taken to have the mean size, rounded to two significant digits.

        Args:
            epsilon: ε, at δ = 0. sizes: (C,) number of users of each cluster. num_classes: K.
        """
        # the mean size is rounded, so that replicates with similar clusters have equal parameters
        size = max(2, int(float(f"{float(np.mean(sizes)):.2g}")))
        return _choose(
            self.split, epsilon, self.heterogeneity or 0.0, classes=num_classes, size=size, decisions=self.decisions
        )


@lru_cache(maxsize=4_096)
def _choose(split: Split, epsilon: float, phi: float, *, classes: int, size: int, decisions: int) -> Choice:
    """The parameters λ, σ and τ of Algorithm 1 at which distributions and labels together cost ε at δ = 0 (up
    to 3ε if `split` is "as-printed"). Results are cached, because several replicates need the same result.

    Args:
        split: how ε is divided between distributions and labels. "uniform": all on labels (uniform randomised
        response). "optimised": the division that does best on made-up clusters. "half": half of ε for each, with τ = φ,
        at most 1/K. "as-printed": as in Corollary 2, with φ at most 1/K. epsilon: ε. phi: φ, a guess of how much label
        distributions differ within a cluster (L1 distance). classes: K. size: users of a
        cluster. decisions: number of decisions of the learner within a cluster, only for "optimised".
    """
    if split == "uniform":
        return uniform(epsilon, classes)
    if split == "optimised":
        return best_choice(epsilon, classes, size, decisions, phi)
    threshold = min(phi, 1.0 / classes)
    return corollary2(epsilon, threshold) if split == "as-printed" else split_budget(epsilon, 0.5, threshold)
