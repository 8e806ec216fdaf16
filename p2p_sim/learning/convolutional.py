"""A convolutional network on images, as in the vector approximation paper's experiments with real data."""

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError, Streams, needs
from p2p_sim.learning.learner import VECTORS, Floats, Learner, Loss, Received, normalised
from p2p_sim.learning.networks import Architecture, Settings, Training, image_shape, predicted
from p2p_sim.mechanisms import Predictor, ReleaseKind

if TYPE_CHECKING:
    from torch import nn


class ConvolutionalConfig(Learner):
    """Train a network on pixels with Adam: with a softmax for hard and soft labels, and with a sigmoid for each of K
    bits.

    The features are the pixels of square images, grey or in three colours. For labels of K bits the predicted
    probabilities are uncalibrated scores: only their order is meaningful. Needs PyTorch.
    """

    kind: Literal["convolutional"] = "convolutional"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = VECTORS
    loss: ClassVar[Loss] = "zero_one"
    architecture: Architecture = "simple"
    """"simple": two convolution and pooling layers with dropout 1/2; "resnet18": ResNet-18 for small images."""
    epochs: int = Field(default=10, ge=1)
    """Passes over the labels, at least 1. The number is fixed in advance: a stop that depends on true labels costs
    privacy."""
    batch: int = Field(default=400, ge=1)
    """Number of labels over which a step of Adam averages, at least 1."""
    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """Step size of Adam, above 0 and at most 1."""
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of a training, 1 to 256. The same number of threads gives the same weights on the same machine."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the training; "auto": a GPU if there is one. A GPU and a CPU give different weights."""
    nonprivate: bool = True
    """Train a second network on the true labels, for comparison; false: the columns without privacy stay empty."""
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1)
    """Seed of initial weights, order and dropout; absent: drawn from the scenario's seed, anew for each replicate."""

    def seeded(self, streams: Streams) -> Self:
        """A copy with a seed from the replicate's random numbers, or the configuration itself if it has a seed. A
        replicate is one repetition of the scenario. The seed determines the initial weights, the order of the images,
        and dropout.

        Args:
            streams: the random numbers of the replicate.
        """
        return self if self.seed is not None else self.model_copy(update={"seed": streams.integer_seed("learner")})

    @property
    def has_reference(self) -> bool:  # type: ignore[override]  # in all other learners it is a constant
        """Whether a second network is trained on the true labels. A comparison of both networks shows the cost of
        privacy.
        """
        return self.nonprivate

    def check_installed(self) -> None:
        """Raise InputError if PyTorch is missing, or if the scenario asks for a GPU and there is none."""
        if importlib.util.find_spec("torch") is None:
            raise InputError(f"learner.kind = 'convolutional': {needs('PyTorch, about 200 MB (CPU)', 'deep')}")
        self._device()

    def learn(self, received: Received) -> Predictor:
        """The network trained on the released labels and the images of the users under whose names the labels arrived.
        If each label is K bits, each bit is predicted by its own sigmoid. Otherwise the network has a softmax.

        Args:
            received: released labels that arrived, and the public features of all users.
        """
        return self.fit(received.rows, received.weights, received.release.kind == "bits")

    def fit(self, features: NDArray[np.floating], weights: Floats, bits: bool = False) -> Predictor:
        """The network trained on m square images and their label vectors.

        Args:
            features: (m, p) the pixel values of one image in each row; the network gets the values unscaled. An image
            with three colours has all values of the first colour, then all of the second, then all of the third.
            weights: (m, K) label vectors: shares of the classes, or K bits. bits: True: the vectors are bits, and each
            bit is predicted by its own sigmoid. False: the vectors are shares, predicted by one softmax.
        """
        self.check_installed()
        settings = Settings(
            self.architecture, image_shape(features.shape[1]), bits, epochs=self.epochs, batch=self.batch,
            learning_rate=self.learning_rate, seed=self.seed or 0, threads=self.threads, device=self._device(),
        )  # fmt: skip
        images, targets = np.ascontiguousarray(features, dtype=np.float32), weights.astype(np.float32)
        return _Trained(Training(settings, images, targets).run(), settings)

    def _device(self) -> str:
        import torch

        present = torch.cuda.is_available()
        if self.device == "cuda" and not present:
            raise InputError('learner.device = "cuda": PyTorch finds no GPU here; "auto" and "cpu" will do')
        return "cuda" if present and self.device != "cpu" else "cpu"


@dataclass(frozen=True)
class _Trained:
    """A predictor: a trained network."""

    network: "nn.Module"
    settings: Settings

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K). For K bits, the sigmoids are divided by their sum."""
        scores = predicted(self.network, features, self.settings)
        return normalised(scores) if self.settings.bits else scores
