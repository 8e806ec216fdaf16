"""Plain DP-SGD and LabelDP-Pro: a trusted curator trains multinomial logistic regression and releases the noisy model.

Plain DP-SGD (Abadi et al. 2016) is the baseline of the clustering paper's Figure 1. Here features are public, and each
user has one protected label.

LabelDP-Pro (Ghazi et al. 2024) projects noisy gradients by public features. A public row would have one gradient under
each class, and no label is needed to compute these class gradients. Without noise, the mean gradient is approximately a
mixture of class gradients. So the noisy gradient is replaced by the nearest mixture. In the variant implemented here
(ALTCONV), the public rows of a step are drawn independently of the step's batch. Rows of the batch itself would reveal
who is in the batch, and subsampling would no longer amplify privacy.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError, Streams, bernoulli
from p2p_sim.mechanisms.deployment import Setup, Trust
from p2p_sim.mechanisms.mechanism import NOISE_MULTIPLIER, SAMPLING_RATE, Column, Mechanism
from p2p_sim.mechanisms.noise_law import to_simplex
from p2p_sim.mechanisms.outcome import ModelRelease, ReleaseKind
from p2p_sim.privacy.rivals import DP_SGD_CONDITIONS, PROJECTED_CONDITIONS, DpSgd, ProjectedSteps, calibrate_noise
from p2p_sim.privacy.rivals.dp_sgd import LARGEST_NOISE, SMALLEST_NOISE

Singles = NDArray[np.float32]


class NoisySteps(Mechanism):
    """Base of mechanisms in which a curator takes noisy gradient steps on the log loss and releases the model.

    of_steps: class of the accountant of all steps together, made from noise multiplier, sampling rate and number of
    steps.
    """

    of_steps: ClassVar[type[DpSgd]] = DpSgd
    trust: ClassVar[Trust] = "curator"
    columns: ClassVar[tuple[Column, ...]] = (SAMPLING_RATE, NOISE_MULTIPLIER)
    one_of: ClassVar[tuple[str, ...]] = ("noise_multiplier", "target_epsilon")
    noise_multiplier: float | None = Field(default=None, ge=SMALLEST_NOISE, le=LARGEST_NOISE)
    """σ: standard deviation of the noise in units of `clip`, 0.05 to 1e6. Give this or `target_epsilon`."""
    target_epsilon: float | None = Field(default=None, gt=0, le=100)
    """ε at the scenario's δ, above 0 and at most 100: the smallest certified noise multiplier (3 digits) is chosen."""
    sampling_rate: float = Field(default=0.05, gt=0, le=1)
    """q: probability that a user is in a step's batch, above 0 and at most 1."""
    epochs: float = Field(default=20.0, gt=0, le=1e4)
    """Passes over the users, above 0: there are epochs / sampling_rate steps, rounded, at least one."""
    clip: float = Field(default=1.0, gt=0)
    """C: largest L2 norm of a user's gradient, above 0; a longer gradient is shortened to this norm."""
    feature_norm: float = Field(default=10.0, gt=0)
    """Root mean square norm to which the public features are scaled after they are centred, above 0."""
    learning_rate: float | None = Field(default=None, gt=0)
    """Length of a step. Absent: (4.5 / clip) / (1 + 0.85 r) with r = σ sqrt(steps · parameters of the model) / (q ·
    users). This public r is the norm of the noise of all steps together, in units of `clip`.
    """
    l2: float = Field(default=0.0, ge=0)
    """Weight of the penalty |w|²/2 against the mean log loss, at least 0."""
    releases: ClassVar[ReleaseKind] = "model"

    @property
    def steps(self) -> int:
        """Number of gradient steps: `epochs` divided by `sampling_rate`, rounded, and at least 1."""
        return max(1, round(self.epochs / self.sampling_rate))

    def calibrated(self, setup: Setup) -> Self:
        """This configuration with the noise multiplier set. A target ε gives the smallest multiplier, of three
        significant digits, that is certified for this ε at the scenario's δ. A configured multiplier is kept.

        Args:
            setup: what is known of the users and the scenario; only its δ is used.

        Raises:
            InputError: no allowed noise meets the target, or δ is so small that rounding would hide it.
        """
        fixed = self
        try:
            if self.target_epsilon is not None:
                sigma = calibrate_noise(self.target_epsilon, setup.delta, self.sampling_rate, self.steps)
                fixed = self.model_copy(update={"noise_multiplier": sigma, "target_epsilon": None})
            fixed.accountant(setup, 1).epsilon(setup.delta)  # refuses a δ that rounding would hide
        except ValueError as error:
            raise InputError(f"mechanism.kind = {self.kind!r}: {error}") from None
        return fixed

    def accountant(self, setup: Setup, size: int) -> DpSgd:
        """Accountant of all steps together, the same for every cluster."""
        return self.of_steps(
            cast(float, self.noise_multiplier),  # `calibrated` has set it
            self.sampling_rate,
            self.steps,
        )

    def release(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], clusters: NDArray[np.int64], streams: Streams
    ) -> ModelRelease:
        """Returns the model after the last step, trained on all users' labels."""
        return ModelRelease(self.train(labels, features, streams.generator("dp-sgd")))

    def train(
        self, labels: NDArray[np.uint8], features: NDArray[np.floating], rng: np.random.Generator
    ) -> "SoftmaxModel":
        """Runs all noisy gradient steps from zero weights and returns the model.

        Args:
            labels: (n,) true labels. features: (n, d), public. rng: draws, in each step, the batch and then the noise.
        """
        sigma, rate = self.accountant(self.setup, labels.size).noise_multiplier, self.sampling_rate
        scaling = Scaling.of(features, self.feature_norm)
        features = scaling.apply(features)
        norms = np.sqrt(np.einsum("nd,nd->n", features, features))
        shape, expected = (self.setup.num_classes, features.shape[1]), rate * labels.size
        # norm of the noise of all steps together, in units of `clip`; more noise makes each step shorter
        walk = sigma * math.sqrt(self.steps * shape[0] * shape[1]) / expected
        length = self.learning_rate or 4.5 / self.clip / (1.0 + 0.85 * walk)
        weights = np.zeros(shape, dtype=np.float32)
        for _ in range(self.steps):
            # the sum of a Poisson batch's clipped gradients plus noise σ clip N(0, I), over the expected batch size
            batch = np.flatnonzero(bernoulli(rng, rate, labels.size))
            gradient = clipped_gradient_sum(
                weights, features[batch], norms[batch], labels[batch], self.clip
            ) + sigma * self.clip * rng.standard_normal(shape, dtype=np.float32)
            mean = np.divide(gradient, np.float32(expected), dtype=np.float32)
            step = self.denoised(mean, weights, features, norms, rng)
            weights -= np.float32(length) * (step + np.float32(self.l2) * weights)
        return SoftmaxModel(weights, scaling)

    def denoised(
        self, gradient: Singles, weights: Singles, inputs: Singles, norms: Singles, rng: np.random.Generator
    ) -> Singles:
        """The gradient (K, d+1) along which this step moves the weights of K classes, for d features and an intercept.
        Here it is the noisy gradient itself. A subclass may return a gradient that is nearer to the true gradient.
        Besides the noisy gradient it must use public values only, so that privacy does not change.

        Args:
            gradient: (K, d+1), mean of the clipped gradients of the batch, with noise. weights: (K, d+1), the model
            before this step. inputs: (n, d+1), public features of all n users, centred and scaled by one number, with a
            constant 1 at the end. norms: (n,), L2 norms of the rows of `inputs`. rng: random numbers that are
            independent of the batch.
        """
        return gradient


class DpSgdConfig(NoisySteps):
    """A curator who holds all labels takes noisy gradient steps on the log loss and releases the model.

    The defaults were chosen once on MNIST, Fashion-MNIST and digits, for a low error rate at ε from 0.1 to 4. On these
    data sets, ε does not cover that choice. The defaults clip nearly every gradient, and the predicted probabilities
    are not calibrated. If log loss counts, `feature_norm = 1` and `clip = 2` are better, because they clip hardly any
    gradient.
    """

    kind: Literal["dp_sgd"] = "dp_sgd"
    described: ClassVar[str] = "a trusted curator who learns by DP-SGD"
    conditions: ClassVar[tuple[str, ...]] = DP_SGD_CONDITIONS


@dataclass(frozen=True)
class Scaling:
    """A map from public features to inputs of the model. The features are centred and scaled by one number, and a
    constant 1 is appended.

    centre: (d,), subtracted from the features. factor: the number by which the centred features are multiplied.
    """

    centre: NDArray[np.float64]
    factor: float

    @staticmethod
    def of(features: NDArray[np.floating], norm: float) -> "Scaling":
        """The scaling that gives the features (n, d) the root mean square norm `norm`."""
        centre = features.mean(axis=0, dtype=np.float64)
        spread = math.sqrt(float(features.var(axis=0, dtype=np.float64).sum()))
        return Scaling(centre, norm / spread if spread > 0.0 else 1.0)

    def apply(self, features: NDArray[np.floating]) -> Singles:
        """Returns the model's inputs (n, d+1) for the features (n, d)."""
        out = np.ones((len(features), features.shape[1] + 1), dtype=np.float32)
        out[:, :-1] = (features - self.centre) * self.factor
        return out


@dataclass(frozen=True)
class SoftmaxModel:
    """A multinomial logistic regression. weights: (K, d+1), intercepts last. scaling: maps features to the inputs."""

    weights: Singles
    scaling: Scaling

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Class probabilities (n, K) of the features (n, d)."""
        return softmax(self.scaling.apply(features) @ self.weights.T).astype(np.float64)


def clipped_gradient_sum(
    weights: Singles, inputs: Singles, norms: Singles, labels: NDArray[np.uint8], clip: float
) -> Singles:
    """Returns the sum (K, d+1) of the users' log-loss gradients (p - e_y)⊗x, each shortened to norm `clip` at most.
    Here p are the class probabilities of a row x, and e_y is its one-hot label. The norm of an outer product is the
    product of the norms, so single gradients are never formed.

    Args:
        weights: (K, d+1), the model. inputs: (m, d+1), rows x. norms: (m,), L2 norms of these rows. labels: (m,), their
        classes y.
    """
    residual = softmax(inputs @ weights.T)
    residual[np.arange(len(labels)), labels] -= 1.0
    lengths = norms * np.sqrt(np.einsum("nk,nk->n", residual, residual))
    residual *= np.minimum(1.0, clip / np.maximum(lengths, 1e-30))[:, None].astype(np.float32)
    return np.asarray(residual.T @ inputs)


def softmax(logits: Singles) -> Singles:
    """Returns class probabilities (n, K) of the logits (n, K), row by row."""
    logits = logits - logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


class LabelDpProConfig(NoisySteps):
    """A curator who holds all labels takes gradient steps with noise reduced by public features (LabelDP-Pro).

    The model is the same as in `dp_sgd`, and the keys of `dp_sgd` have the same defaults here.
    """

    kind: Literal["label_dp_pro"] = "label_dp_pro"
    described: ClassVar[str] = "a trusted curator who learns by LabelDP-Pro"
    conditions: ClassVar[tuple[str, ...]] = PROJECTED_CONDITIONS
    of_steps: ClassVar[type[DpSgd]] = ProjectedSteps
    public_batch: int = Field(default=128, ge=1, le=10_000)
    """m: number of users, drawn independently of a step's batch, whose public features the step uses; 1 to 10,000."""
    iterations: int = Field(default=50, ge=1, le=10_000)
    """Iterations of each projection, 1 to 10,000."""
    smoothing: float = Field(default=0.75, gt=0, le=1)
    """λ: weight of the projection, above 0 and at most 1; the mean over all class gradients has the weight 1 - λ."""

    def denoised(
        self, gradient: Singles, weights: Singles, inputs: Singles, norms: Singles, rng: np.random.Generator
    ) -> Singles:
        """Returns a gradient (K, d+1) with less noise: a mixture of class gradients of public rows, close to the noisy
        gradient. A class gradient is the gradient that a row would have under one of the K classes, clipped to norm
        `clip`. No true label is needed.

        Args:
            gradient: (K, d+1), noisy mean over the batch. weights: (K, d+1), the model before this step. inputs: (n,
            d+1), scaled public features of all n users, with a constant 1 at the end. norms: (n,), L2 norms of the rows
            of `inputs`. rng: draws the public rows, independently of the batch.
        """
        rows = rng.integers(0, len(inputs), self.public_batch)
        inputs = inputs[rows]
        residuals = class_residuals(weights, inputs, norms[rows], self.clip)
        mixture = nearest_mixture(gradient, residuals, inputs, self.iterations)
        even = np.full(mixture.shape, 1.0 / mixture.size)
        return mixed(self.smoothing * mixture + (1.0 - self.smoothing) * even, residuals, inputs)


def class_residuals(weights: Singles, inputs: Singles, norms: Singles, clip: float) -> Singles:
    """Returns residuals (m, K, K) of m public rows. The outer product of entry [i, y] and x_i is the class gradient of
    row x_i under class y, clipped to norm `clip`. Before clipping, entry [i, y] is p - e_y. Here p are the model's
    class probabilities of the row, and e_y is the one-hot vector of y.

    Args:
        weights: (K, d+1), the model. inputs: (m, d+1), the rows x. norms: (m,), L2 norms of these rows. clip: largest
        norm of a gradient.
    """
    residuals = softmax(inputs @ weights.T)[:, None, :] - np.eye(len(weights), dtype=np.float32)
    lengths = norms[:, None] * np.sqrt(np.einsum("iyk,iyk->iy", residuals, residuals))
    residuals *= np.minimum(1.0, clip / np.maximum(lengths, 1e-30))[:, :, None].astype(np.float32)
    return residuals


def mixed(mixture: NDArray[np.floating], residuals: Singles, inputs: Singles) -> Singles:
    """Returns the sum (K, d+1) of all class gradients residuals[i, y] ⊗ inputs[i], each times the weight mixture[i, y].

    Args:
        mixture: (m, K), weights. residuals: (m, K, K), result of `class_residuals`. inputs: (m, d+1), the rows.
    """
    return np.asarray(np.einsum("iy,iyk->ki", mixture.astype(np.float32), residuals) @ inputs)


def nearest_mixture(target: Singles, residuals: Singles, inputs: Singles, iterations: int) -> NDArray[np.float64]:
    """Weights (m, K), at least 0 and of sum 1, of a mixture of class gradients that is close to a target gradient.
    Weight [i, y] belongs to the class gradient residuals[i, y] ⊗ inputs[i] of public row i under class y. The distance
    is minimised by accelerated projected gradient descent. The weights are a distribution after every iteration, so
    stopping early costs only utility.

    Args:
        target: (K, d+1), a gradient. residuals: (m, K, K), result of `class_residuals`. inputs: (m, d+1), the rows.
        iterations: number of descent steps.
    """

    def pulled(gap: Singles) -> NDArray[np.float64]:
        """Scalar products (m, K) of a gradient `gap` (K, d+1) with all class gradients residuals[i, y] ⊗ inputs[i]."""
        return np.asarray(np.einsum("iyk,ik->iy", residuals, inputs @ gap.T), dtype=np.float64)

    shape = residuals.shape[:2]
    mixture = np.full(shape, 1.0 / (shape[0] * shape[1]))
    curvature, direction = 0.0, pulled(target)
    for _ in range(12):  # power iteration for the largest curvature
        direction /= max(float(np.linalg.norm(direction)), 1e-30)
        direction = pulled(mixed(direction, residuals, inputs))
        curvature = max(curvature, float(np.linalg.norm(direction)))
    if curvature < 1e-20:
        return mixture
    ahead, speed = mixture, 1.0
    for _ in range(iterations):
        slope = pulled(mixed(ahead, residuals, inputs) - target)
        moved = to_simplex((ahead - slope / (1.05 * curvature)).reshape(1, -1)).reshape(shape)
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        ahead = moved + (speed - 1.0) / faster * (moved - mixture)
        mixture, speed = moved, faster
    return mixture
