"""PATE, private aggregation of teacher ensembles: teachers vote, and a curator labels a few users by noisy votes.

Each teacher learns from the labels of her own shard, a part of the users. The shards are disjoint. A teacher also knows
the features and clusters of all users.

The mechanism follows PATE-FM (Malek Esmaeili et al. 2021; Papernot et al. 2018). But teachers and student are models of
features and clusters, and are not trained by FixMatch.
"""

import warnings
from typing import ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import InputError, Streams
from p2p_sim.mechanisms.deployment import Setup, Trust
from p2p_sim.mechanisms.dp_sgd import Scaling
from p2p_sim.mechanisms.mechanism import NOISE_MULTIPLIER, THRESHOLD, Column, Mechanism
from p2p_sim.mechanisms.outcome import Floats, LabelRelease
from p2p_sim.privacy.rivals import MOST_QUERIES, PATE_CONDITIONS, Pate, calibrate_votes
from p2p_sim.privacy.rivals.pate import LARGEST_NOISE, SMALLEST_NOISE

FEATURE_NORM = 10.0
"""Root mean square norm of the centred features from which teachers learn."""


class PateConfig(Mechanism):
    """A curator trains teachers on disjoint shards of the labels; noisy votes of the teachers label a few users.

    This is a variant of PATE-FM on clusters and features. ε does not depend on the votes. An ε that depends on the
    votes could be smaller, but would itself have to be kept private.
    """

    kind: Literal["pate"] = "pate"
    trust: ClassVar[Trust] = "curator"
    whole: ClassVar[bool] = True
    described: ClassVar[str] = "a trusted curator whose teachers vote (PATE, on clusters and features)"
    conditions: ClassVar[tuple[str, ...]] = PATE_CONDITIONS
    columns: ClassVar[tuple[Column, ...]] = (NOISE_MULTIPLIER, THRESHOLD)
    one_of: ClassVar[tuple[str, ...]] = ("noise_multiplier", "target_epsilon")
    noise_multiplier: float | None = Field(default=None, ge=SMALLEST_NOISE, le=LARGEST_NOISE)
    """σ₂: standard deviation, in votes, of the noise on the votes for each class when an answer is given, 0.01 to 1e9.
    Give this or `target_epsilon`."""
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε at the scenario's δ, above 0 and at most 100: the smallest certified σ₂ (3 digits) is chosen."""
    test_noise: float = Field(default=2.0, ge=0.01, le=1000)
    """Standard deviation of the noise in a threshold test, in units of σ₂, 0.01 to 1000."""
    teachers: int = Field(default=100, ge=1, le=100_000)
    """T: number of teachers, 1 to 100,000 and at most the number of users."""
    queries: int = Field(default=100, ge=1, le=MOST_QUERIES)
    """Q: largest number of users, drawn at random, whose labels teachers are asked for; at most the number of users."""
    answers: int = Field(default=50, ge=1, le=MOST_QUERIES)
    """A: number of answers, 1 to `queries`, after which no further query is answered."""
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Share of the teachers, 0 to 1. A query is answered if the noisy number of votes for the most frequent class is
    above this share of T."""
    clusters: bool = True
    """Whether teachers also learn from the users' clusters."""
    l2: float = Field(default=1.0, gt=0)
    """Weight of a teacher's penalty |w|²/2 against the sum of the log losses, above 0."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.answers > self.queries:
            raise ValueError(f"answers = {self.answers}: must be at most queries = {self.queries}")
        return self

    def calibrated(self, setup: Setup) -> Self:
        """This configuration with the noise fixed. A target ε gives the smallest certified σ₂ of three significant
        digits at the scenario's δ. Here σ₂ is the standard deviation of the noise on votes.

        Args:
            setup: facts of the scenario; cluster sizes and δ are used.

        Raises:
            InputError: there are fewer users than teachers or queries, or no noise is certified.
        """
        users, fixed = int(setup.sizes.sum()), self
        for key, number in (("teachers", self.teachers), ("queries", self.queries)):
            if number > users:
                raise InputError(f"mechanism.{key} = {number}: must be at most the number of users, {users}")
        try:
            if self.target_epsilon is not None:
                sigma = calibrate_votes(self.target_epsilon, setup.delta, self.test_noise, self.answers, self.queries)
                fixed = self.model_copy(update={"noise_multiplier": sigma, "target_epsilon": None})
            fixed.accountant(setup, users)
        except ValueError as error:
            raise InputError(f"mechanism.kind = 'pate': {error}") from None
        return fixed

    def accountant(self, setup: Setup, size: int) -> Pate:
        """The learner's accountant for one user's label, given all released answers. The accountant does not depend on
        the cluster or on the votes.

        Args:
            setup: not used. size: not used.
        """
        sigma = cast(float, self.noise_multiplier)  # `calibrated` has set it
        return Pate(sigma, self.test_noise * sigma, self.answers, self.queries)

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> LabelRelease:
        """Asks the teachers for the labels of some random users, and returns the noisy answers as hard labels. Users
        whose query was not answered are left out. The other users are in ascending order.

        Args:
            labels: (n,) true labels of all users. features: (n, d), public. clusters: (C+1,); cluster c holds users
            clusters[c]..clusters[c+1]-1. streams: random numbers of the run.
        """
        draws, noise = (streams.generator(purpose) for purpose in ("pate-shards", "pate-noise"))
        queried = draws.permutation(labels.size)[: self.queries]
        inputs = teachers_inputs(features, np.diff(clusters), self.clusters)
        answers = self.answered(self.votes(labels, inputs, queried, draws), noise)
        user, order = np.sort(queried[answers >= 0]), np.argsort(queried[answers >= 0])
        return LabelRelease(user.astype(np.int32), answers[answers >= 0][order].astype(np.uint8))

    def votes(
        self, labels: NDArray[np.uint8], inputs: Floats, queried: NDArray[np.integer], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The number of teachers (Q, K) who predict each of K classes for each of Q queried users. All users are
        divided at random among the teachers. Each teacher is trained on the labels of her users.

        Args:
            labels: (n,) true labels. inputs: (n, d) public inputs of each user: scaled features, perhaps with her
            cluster in one-hot form. queried: (Q,) indices of the users to be labelled. rng: divides the users.
        """
        votes = np.zeros((len(queried), self.setup.num_classes), dtype=np.int64)
        for shard in np.array_split(rng.permutation(labels.size), self.teachers):
            votes[np.arange(len(queried)), taught(inputs[shard], labels[shard], inputs[queried], self.l2)] += 1
        return votes

    def answered(self, votes: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.int64]:
        """The class (Q,) that is released for each of Q queried users; -1 if none is released. A query is answered if
        the noisy number of votes for the most frequent class is above a set share of the teachers. The released class
        has the most votes after new noise is added. After a fixed number of answers no query is answered.

        Args:
            votes: (Q, K), how many teachers predict each class. rng: draws the noise.
        """
        model = self.accountant(self.setup, 1)
        tests = model.test_noise * rng.standard_normal(len(votes))
        noise = model.answer_noise * rng.standard_normal(votes.shape)
        passed = votes.max(axis=1) + tests > self.threshold * self.teachers
        passed &= np.cumsum(passed) <= self.answers
        return np.where(passed, np.argmax(votes + noise, axis=1), -1)


def teachers_inputs(features: NDArray[np.floating], sizes: NDArray[np.int64], clusters: bool) -> Floats:
    """Public inputs of the teachers: features (n, d), or features beside one-hot clusters (n, d + C). The features are
    centred and scaled by one number to the root mean square norm 10.

    Args:
        features: (n, d), cluster by cluster. sizes: (C,) number of users in each cluster. clusters: whether the inputs
            include the one-hot clusters.
    """
    scaled = Scaling.of(features, FEATURE_NORM).apply(features)[:, :-1].astype(np.float64)
    return np.hstack([scaled, np.repeat(np.eye(len(sizes)), sizes, axis=0)]) if clusters else scaled


def taught(inputs: Floats, labels: NDArray[np.uint8], queried: Floats, l2: float) -> NDArray[np.int64]:
    """Trains one teacher on her shard, and returns the classes (Q,) that she predicts for the queried rows (Q, d).

    The weights of a penalised logistic regression lie in the span of the shard's rows, and are fitted within this span.

    Args:
        inputs: (m, d) rows of the shard. labels: (m,) classes of these rows. queried: (Q, d) rows to be labelled. l2:
        weight of the penalty |w|²/2 against the sum of the log losses.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    present = np.unique(labels)
    if present.size < 2:
        return np.full(len(queried), present[0], dtype=np.int64)
    if len(inputs) < inputs.shape[1]:
        span = np.linalg.qr(inputs.T)[0]
        inputs, queried = inputs @ span, queried @ span
    model = LogisticRegression(C=1.0 / l2, max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs, labels)
    return np.asarray(model.predict(queried), dtype=np.int64)
