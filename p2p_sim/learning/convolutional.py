"""A convolutional network on images: the learner of the vector approximation paper's experiments with real data."""

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import InputError, Streams, needs
from p2p_sim.learning.learner import VECTORS, Learner, Loss, Received, normalised
from p2p_sim.learning.networks import Architecture, Settings, Training, image_shape, predicted
from p2p_sim.mechanisms import Predictor, ReleaseKind

if TYPE_CHECKING:
    from torch import nn


class ConvolutionalConfig(Learner):
    """Train a network on the pixels, with Adam: softmax for hard and soft labels, one sigmoid a bit for bits.

    The features are the pixels of square images, grey or in three colours. For bits the shares are scores whose order
    counts, not calibrated probabilities. Needs PyTorch.
    """

    kind: Literal["convolutional"] = "convolutional"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = VECTORS
    loss: ClassVar[Loss] = "zero_one"
    architecture: Architecture = "simple"
    """"simple": two convolution and pooling layers with dropout 1/2; "resnet18": ResNet-18 for small images."""
    epochs: int = Field(default=10, ge=1)
    """Passes over the labels, at least 1; fixed beforehand, since a stop that depends on true labels costs privacy."""
    batch: int = Field(default=400, ge=1)
    """Labels that a step of Adam averages over, at least 1."""
    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """Step size of Adam, above 0 and at most 1."""
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of a training, 1 to 256. The same number gives the same weights each time on the same machine."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the training; "auto": a GPU if there is one. The weights on a GPU differ from the weights on a CPU."""
    nonprivate: bool = True
    """Train a second network on the true labels, for comparison; false: the columns without privacy stay empty."""
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1)
    """Seed of initial weights, order and dropout; absent: the scenario's, different for each replicate."""

    def seeded(self, streams: Streams) -> Self:
        """The configuration with a seed: its own, else one from the replicate's random streams."""
        return self if self.seed is not None else self.model_copy(update={"seed": streams.integer_seed("learner")})

    @property
    def has_reference(self) -> bool:  # type: ignore[override]  # of all other kinds it is a constant
        """Whether a second network is trained on the true labels."""
        return self.nonprivate

    def check_installed(self) -> None:
        """Refuse to go on without PyTorch, or without the GPU that is asked for."""
        if importlib.util.find_spec("torch") is None:
            raise InputError(f"learner.kind = 'convolutional': {needs('PyTorch, about 200 MB (CPU)', 'deep')}")
        self._device()

    def fit(self, features: NDArray[np.floating], weights: NDArray[np.float64]) -> Predictor:
        """Train on label vectors (m, K) as shares of the classes."""
        return self._train(features, weights, bits=False)

    def learn(self, received: Received) -> Predictor:
        """Train on the released labels: one sigmoid a class for released bits, else softmax."""
        return self._train(received.rows, received.weights, bits=received.release.kind == "bits")

    def _train(self, features: NDArray[np.floating], targets: NDArray[np.float64], bits: bool) -> Predictor:
        self.check_installed()
        settings = Settings(
            self.architecture, image_shape(features.shape[1]), bits, epochs=self.epochs, batch=self.batch,
            learning_rate=self.learning_rate, seed=self.seed or 0, threads=self.threads, device=self._device(),
        )  # fmt: skip
        images = np.ascontiguousarray(features, dtype=np.float32)
        return _Trained(Training(settings, images, targets.astype(np.float32)).run(), settings)

    def _device(self) -> str:
        import torch

        present = torch.cuda.is_available()
        if self.device == "cuda" and not present:
            raise InputError('learner.device = "cuda": PyTorch finds no GPU here; "auto" and "cpu" will do')
        return "cuda" if present and self.device != "cpu" else "cpu"


@dataclass(frozen=True)
class _Trained:
    network: "nn.Module"
    settings: Settings

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K), or sigmoids over their sums."""
        scores = predicted(self.network, features, self.settings)
        return normalised(scores) if self.settings.bits else scores
