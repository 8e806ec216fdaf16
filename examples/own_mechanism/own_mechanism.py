"""A mechanism, a population, a learner and an overlay of one's own, for p2p-sim."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from p2p_sim import extend


class SilentResponseConfig(extend.MechanismBase):
    """Randomised response in which a user, whatever her label, stays silent with probability 1 - θ."""

    kind: Literal["silent_response"] = "silent_response"
    described: ClassVar[str] = "randomised response by those who do not stay silent"
    conditions: ClassVar[tuple[str, ...]] = ("each user answers once, and whether she does depends on no label",)
    flip_prob: float = Field(gt=0, le=0.5)
    """α: probability that an answer differs from the true label, above 0 and at most 0.5."""
    sampling_rate: float = Field(default=0.5, gt=0, le=1)
    """θ: probability that a user answers, above 0 and at most 1."""

    @property
    def releases(self) -> Literal["hard"]:
        return "hard"

    def build(self, sizes: Any, num_classes: int, delta: float, *_: Any) -> "SilentResponse":
        return SilentResponse(extend.RandomizedResponse(self.flip_prob, num_classes), self.sampling_rate)


@dataclass(frozen=True)
class SilentResponse(extend.LocalMechanism):
    """δ(ε) = θ max(0, 1 - α - e^ε α/(K-1)): only the true label as an answer tells the two worlds apart for it."""

    randomizer: extend.RandomizedResponse
    sampling_rate: float

    @property
    def parameters(self) -> dict[str, float]:
        return {"flip_prob": self.randomizer.flip_prob, "sampling_rate": self.sampling_rate}

    def release_shard(self, shard: Any, population: Any, streams: Any) -> extend.LabelRelease:
        noisy = self.randomizer.randomize(
            population.labels[shard.start : shard.stop], streams.generator("flip", shard.index)
        )
        answers = extend.bernoulli(streams.generator("answer", shard.index), self.sampling_rate, shard.size)
        user = np.arange(shard.start, shard.stop, dtype=np.int32)
        return extend.LabelRelease(user[answers], noisy[answers])

    def privacy(self, sizes: Any, delta: float) -> list[extend.PrivacyBound]:
        alpha, others = self.randomizer.flip_prob, self.randomizer.num_classes - 1
        odds = (1.0 - alpha - delta / self.sampling_rate) * others / alpha
        exact = math.log(odds) if odds > 1.0 else 0.0
        bound = extend.PrivacyBound(
            exact * (1 - 1e-12), exact * (1 + 1e-12), delta, "learner", "label",
            "exact: an answer or silence", SilentResponseConfig.conditions,
        )  # fmt: skip
        return [bound] * len(sizes)


class MoonsConfig(extend.Source):
    """scikit-learn's two moons; a user's label is her moon."""

    kind: Literal["moons"] = "moons"
    users: int = Field(default=2_000, ge=2, le=10**7)
    """n: number of users, 2 to 10,000,000; half as many rows more are held out."""
    noise: float = Field(default=0.2, ge=0)
    """Standard deviation of the noise on features, at least 0."""

    @property
    def known_classes(self) -> int:
        return 2

    def sample(self, places: Any, streams: Any) -> extend.Sample:
        from sklearn.datasets import make_moons

        count, seed = self.users + self.users // 2, streams.integer_seed("population")
        features, labels = make_moons(count, noise=self.noise, random_state=seed)
        users, held_out = (
            extend.Examples(features[part], labels[part].astype(np.uint8))
            for part in (slice(self.users), slice(self.users, None))
        )
        return extend.Sample(users, 2, held_out)


class NearestMeanConfig(extend.Learner):
    """Predict the class whose users' mean features lie nearest."""

    kind: Literal["nearest_mean"] = "nearest_mean"
    loss: ClassVar[Literal["zero_one"]] = "zero_one"

    def fit(self, features: Any, weights: Any) -> extend.Predictor:
        counts = weights.sum(axis=0)[:, None]
        return NearestMean(weights.T @ features / np.maximum(counts, 1))


@dataclass(frozen=True)
class NearestMean:
    """Means of the classes (K, d)."""

    means: Any

    def probabilities(self, features: Any) -> Any:
        weights = np.exp(-((features[:, None, :] - self.means) ** 2).sum(axis=2)) + 1e-300
        return weights / weights.sum(axis=1, keepdims=True)


class StarConfig(extend.GraphOverlay):
    """One user of every cluster, drawn at random, knows all others, who know her alone."""

    kind: Literal["star"] = "star"

    def expected_degree(self, size: int) -> float:
        return 2.0

    def graph(self, size: int, seed: int) -> Any:
        import networkx as nx

        return extend.edges_of(nx.star_graph(size - 1))
