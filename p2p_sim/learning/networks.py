"""Convolutional networks in PyTorch, which is imported only when one is built."""

from typing import TYPE_CHECKING, Literal

from p2p_sim.base.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

Architecture = Literal["simple", "resnet18"]
LEAST_SIDE = 16
"""Pixels along a side of the smallest images of which every layer still gets some."""


def image_shape(num_features: int) -> tuple[int, int, int]:
    """Channels, height and width of square images, grey or in three colours, that are stored as rows of pixels.

    >>> image_shape(784), image_shape(3072)
    ((1, 28, 28), (3, 32, 32))

    Raises:
        InputError: rows of so many numbers are no such images, or too small ones.
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
    """A network with fresh weights, from images (m, *shape) to scores (m, K)."""
    channels, side, _ = shape
    return _simple(channels, side, num_classes) if architecture == "simple" else _resnet18(channels, num_classes)


def scores(network: "nn.Module", images: "Tensor") -> "Tensor":
    """Scores (m, K) of images (m, C, H, W)."""
    from torch import nn

    if isinstance(network, nn.Sequential):
        return network(images)
    features = network["stem"](images)
    for block in network["blocks"]:
        features = (block["path"](features) + block["shortcut"](features)).relu()
    return network["top"](features.mean(dim=(2, 3)))


def _simple(channels: int, side: int, num_classes: int) -> "nn.Module":
    """Two convolution and pooling layers, dropout 1/2 (vector approximation paper, Section 5.2; widths are ours)."""
    from torch import nn

    left = ((side - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(16, 32, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.5), nn.Linear(32 * left**2, 128), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(128, num_classes),
    )  # fmt: skip


def _resnet18(channels: int, num_classes: int) -> "nn.Module":
    """ResNet-18 (He et al. 2016) as is usual for small images: a 3x3 stem of stride 1 and no first pooling."""
    from torch import nn

    blocks, width = [], 64
    for stage, wider in enumerate((64, 128, 256, 512)):
        for place in range(2):
            blocks.append(_block(width, wider, stride=2 if stage > 0 and place == 0 else 1))
            width = wider
    return nn.ModuleDict(
        {
            "stem": nn.Sequential(*_convolution(channels, 64, 3, 1), nn.ReLU()),
            "blocks": nn.ModuleList(blocks),
            "top": nn.Linear(width, num_classes),
        }
    )


def _block(narrow: int, wide: int, stride: int) -> "nn.Module":
    """Two convolutions beside a short cut, which is a 1x1 convolution where the shape changes."""
    from torch import nn

    path = (*_convolution(narrow, wide, 3, stride), nn.ReLU(), *_convolution(wide, wide, 3, 1))
    same = narrow == wide and stride == 1
    shortcut = nn.Identity() if same else nn.Sequential(*_convolution(narrow, wide, 1, stride))
    return nn.ModuleDict({"path": nn.Sequential(*path), "shortcut": shortcut})


def _convolution(narrow: int, wide: int, size: int, stride: int) -> tuple["nn.Module", "nn.Module"]:
    """A convolution without intercept, and the batch normalisation that follows it."""
    from torch import nn

    return nn.Conv2d(narrow, wide, size, stride, size // 2, bias=False), nn.BatchNorm2d(wide)
