"""Convolutional networks, and training that can be resumed. PyTorch is imported only when a network is built."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError, progress_shown

if TYPE_CHECKING:
    from torch import Tensor, nn


Architecture = Literal["simple", "resnet18"]
LEAST_SIDE = 16
"""Smallest side of an image, in pixels. A smaller image would leave a layer of the simple network without pixels."""


def image_shape(num_features: int) -> tuple[int, int, int]:
    """Channels, height and width of a square image with a given number of pixel values. The image has one channel
    (grey) or three channels (colours).

    >>> image_shape(784), image_shape(3072)
    ((1, 28, 28), (3, 32, 32))

    Raises:
        InputError: no such image has so many values, or its side is below 16 pixels.
    """
    for channels in (1, 3):
        side = round((num_features / channels) ** 0.5)
        if channels * side**2 == num_features and side >= LEAST_SIDE:
            return channels, side, side
    raise InputError(
        f"learner.kind = 'convolutional': {num_features} features a user are no square image, grey or in three "
        f"colours, of at least {LEAST_SIDE} pixels a side; leave out population.pca_dims"
    )


def build(architecture: Architecture, shape: tuple[int, int, int], num_classes: int) -> "nn.Module":
    """A network with random initial weights that maps images to scores of the classes.

    Args:
        architecture: "simple" (two convolutions) or "resnet18". shape: channels, height and width of an image.
        num_classes: K.
    """
    channels, side, _ = shape
    return _simple(channels, side, num_classes) if architecture == "simple" else _resnet18(channels, num_classes)


def scores(network: "nn.Module", images: "Tensor") -> "Tensor":
    """A network's scores (m, K) for images (m, channels, height, width), before softmax or sigmoids."""
    from torch import nn

    if isinstance(network, nn.Sequential):
        return network(images)
    features = network["stem"](images)
    for block in network["blocks"]:
        features = (block["path"](features) + block["shortcut"](features)).relu()
    return network["top"](features.mean(dim=(2, 3)))


def _simple(channels: int, side: int, num_classes: int) -> "nn.Module":
    """A network of two convolution and pooling layers and two linear layers, with dropout 1/2. Images have `channels`
    channels and `side` pixels a side. The vector approximation paper, Section 5.2, uses these kinds of layers. The
    numbers of channels and units are not from the paper.
    """
    from torch import nn

    # a convolution of width 5 shortens each side by 4 pixels, then pooling halves it; both happen twice
    pooled_side = ((side - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(16, 32, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.5), nn.Linear(32 * pooled_side**2, 128), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(128, num_classes),
    )  # fmt: skip


def _resnet18(channels: int, num_classes: int) -> "nn.Module":
    """ResNet-18 (He et al. 2016) in the usual form for small images: the first convolution is 3x3 with stride 1,
    without pooling after it.
    """
    from torch import nn

    blocks, width = [], 64
    for stage, wider in enumerate((64, 128, 256, 512)):
        for position in range(2):
            blocks.append(_block(width, wider, stride=2 if stage > 0 and position == 0 else 1))
            width = wider
    return nn.ModuleDict(
        {
            "stem": nn.Sequential(*_convolution(channels, 64, 3, 1), nn.ReLU()),
            "blocks": nn.ModuleList(blocks),
            "top": nn.Linear(width, num_classes),
        }
    )


def _block(narrow: int, wide: int, stride: int) -> "nn.Module":
    """A residual block: two convolutions from `narrow` to `wide` channels, and a short cut around both. If the shape
    changes, the short cut is a 1x1 convolution. `stride` applies to the first convolution and to the short cut.
    """
    from torch import nn

    path = (*_convolution(narrow, wide, 3, stride), nn.ReLU(), *_convolution(wide, wide, 3, 1))
    same = narrow == wide and stride == 1
    shortcut = nn.Identity() if same else nn.Sequential(*_convolution(narrow, wide, 1, stride))
    return nn.ModuleDict({"path": nn.Sequential(*path), "shortcut": shortcut})


def _convolution(narrow: int, wide: int, size: int, stride: int) -> tuple["nn.Module", "nn.Module"]:
    """A convolution without intercept, and the batch normalisation that follows it. The convolution has a kernel of
    side `size`, and leads from `narrow` to `wide` channels.
    """
    from torch import nn

    return nn.Conv2d(narrow, wide, size, stride, size // 2, bias=False), nn.BatchNorm2d(wide)


CHECKPOINTS = "P2P_SIM_CHECKPOINTS"
"""Environment variable with the directory of checkpoints. If the variable is not set, no checkpoints are written."""


@dataclass(frozen=True)
class Settings:
    """How a network is trained.

    shape: channels, height and width of an image. bits: True: targets are K separate bits (sigmoids and binary
    cross-entropy). False: targets are distributions (softmax and cross-entropy). epochs: number of passes over the
    images. batch: number of images in a step of the optimiser Adam. threads: number of CPU threads. device: "cpu" or
    "cuda". On a CPU the same number of threads gives the same weights on the same machine.
    """

    architecture: Architecture
    shape: tuple[int, int, int]
    bits: bool
    epochs: int
    batch: int
    learning_rate: float
    seed: int
    threads: int
    device: str


@dataclass(frozen=True)
class Training:
    """The training of a network on images (n, pixels) and targets (n, K) in [0, 1]."""

    settings: Settings
    images: NDArray[np.float32]
    targets: NDArray[np.float32]

    def run(self) -> "nn.Module":
        """The trained network. If there is a directory for checkpoints, each finished epoch is saved. Saved epochs are
        not run again.
        """
        import torch

        chosen = self.settings
        # initial weights and each epoch have their own seed: resumed training gives the same weights
        with _computing(chosen):
            _seed(chosen.seed, 0)
            network = build(chosen.architecture, chosen.shape, self.targets.shape[1]).to(chosen.device)
            optimizer = torch.optim.Adam(network.parameters(), lr=chosen.learning_rate)
            epochs_run = self._restore(network, optimizer)
            images = torch.from_numpy(self.images).view(-1, *chosen.shape).to(chosen.device)
            targets = torch.from_numpy(self.targets).to(chosen.device)
            with progress_shown("training", "epochs", chosen.epochs) as show:
                for epoch in range(epochs_run + 1, chosen.epochs + 1):
                    _seed(chosen.seed, epoch)
                    loss = _epoch(network, optimizer, images, targets, chosen)
                    self._keep(network, optimizer, epoch)
                    show(epoch, chosen.epochs, f", loss {loss:.4f}")
            return network.eval()

    @cached_property
    def path(self) -> Path | None:
        """The path of the checkpoint; None if no checkpoints are written. The file's name is a hash of the settings,
        the images and the targets. The machine and the version of PyTorch also change the weights, but are not in the
        hash.
        """
        directory = os.environ.get(CHECKPOINTS)
        if not directory:
            return None
        digest = hashlib.sha256(repr((self.settings, self.images.shape, self.targets.shape)).encode())
        for part in (self.images, self.targets):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        return Path(directory) / f"{digest.hexdigest()[:32]}.pt"

    def _restore(self, network: "nn.Module", optimizer: Any) -> int:
        """Load the checkpoint if there is one, and return the number of epochs in it (0 without a checkpoint)."""
        import torch

        if self.path is None or not self.path.exists():
            return 0
        try:
            saved = torch.load(self.path, map_location=self.settings.device, weights_only=True)
            network.load_state_dict(saved["network"])
            optimizer.load_state_dict(saved["optimizer"])
            return int(saved["epoch"])
        except Exception as error:  # torch.load raises many types of errors for damaged files
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"{self.path}: cannot be read as a checkpoint ({reason}); remove it") from None

    def _keep(self, network: "nn.Module", optimizer: Any, epoch: int) -> None:
        """Write the checkpoint of an epoch. If writing fails, the previous checkpoint stays whole."""
        import torch

        if self.path is None:
            return
        partial = self.path.with_suffix(f".{os.getpid()}.partial")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, partial)
            partial.replace(self.path)
        except OSError as error:
            raise InputError(f"{CHECKPOINTS} = {self.path.parent}: cannot be written ({error.strerror})") from None


def _epoch(network: "nn.Module", optimizer: Any, images: "Tensor", targets: "Tensor", chosen: Settings) -> float:
    """Train the network for one pass over the images in random order, and return the mean loss.

    Args:
        network, optimizer: both are changed. images: (n, channels, height, width). targets: (n, K). chosen: how the
        network is trained; only batch, device and bits matter here.
    """
    import torch

    network.train()
    functions = torch.nn.functional
    loss_of = functions.binary_cross_entropy_with_logits if chosen.bits else functions.cross_entropy
    total, order = 0.0, torch.randperm(len(images)).to(chosen.device)
    for start in range(0, len(order), chosen.batch):
        rows = order[start : start + chosen.batch]
        optimizer.zero_grad()
        loss = loss_of(scores(network, images[rows]), targets[rows])
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * len(rows)
    return total / max(1, len(images))


def predicted(network: "nn.Module", images: NDArray[np.floating], settings: Settings) -> NDArray[np.float64]:
    """A network's predictions (n, K). A network trained on bits has a sigmoid for each of K bits. Otherwise the
    predictions are softmax probabilities.

    Args:
        images: (n, pixels), one image in each row. settings: how the network was trained.
    """
    import torch

    batches = []
    with _computing(settings), torch.inference_mode():
        for rows in torch.from_numpy(np.array(images, np.float32)).view(-1, *settings.shape).split(1_000):
            out = scores(network, rows.to(settings.device)).double()
            batches.append((out.sigmoid() if settings.bits else out.softmax(dim=1)).cpu().numpy())
    return np.concatenate(batches)


@contextmanager
def _computing(chosen: Settings) -> Iterator[None]:
    """A context in which PyTorch uses the chosen number of threads, its own random numbers and deterministic kernels.
    Afterwards the old settings return.
    """
    import torch

    before = torch.get_num_threads()
    devices = [torch.cuda.current_device()] if chosen.device == "cuda" else []
    cudnn = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
    with torch.random.fork_rng(devices), cudnn:
        torch.set_num_threads(chosen.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _seed(seed: int, epoch: int) -> None:
    """Seed PyTorch's random numbers for an epoch, counted from 1. Epoch 0 stands for the initial weights."""
    import torch

    torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]))
