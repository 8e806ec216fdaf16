"""Image data sets in their standard files: MNIST, Fashion-MNIST and CIFAR-10."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import Extended, InputError, Streams
from p2p_sim.population.data_files import State, find_file, read_bytes, read_idx, state
from p2p_sim.population.digits_and_adult import DigitTask, OfficialSplit, digit_labels
from p2p_sim.population.population import Examples, Sample

Bytes = NDArray[np.uint8]


class Images(NamedTuple):
    """Training and test images, pixels 0 to 255 (n, ...), with the class numbers (n,) of the images."""

    train: Bytes
    numbers: Bytes
    test: Bytes
    test_numbers: Bytes


Reader = Callable[[tuple[Path, ...]], Images]
CIFAR_RECORD = 3_073
MOST_EXACT = 1_000
"""Up to this number of pixels, principal components come from the full covariance matrix; above it, a randomised solver
is used."""


class _ImageConfig(Extended, OfficialSplit):
    """Base of the image data sets: training images are users, and errors are measured on test images.

    Files are in IDX format unless a subclass overrides `files` and `reader`.
    """

    later: ClassVar[tuple[str, ...]] = ("against", "public_rows")
    row_by_row: ClassVar[frozenset[str]] = frozenset(("users", "task", "one", "against", "public_rows"))
    task: DigitTask | Literal["pair"] = "even-odd"
    """"even-odd": label 1 for odd class numbers; "classes": all ten; "one-against-rest": label 1 for class `one`;
    "pair": label 1 for class `one`, 0 for class `against`, and no other images."""
    one: int = Field(default=0, ge=0, le=9)
    """The class that has label 1 where task = "one-against-rest" or "pair", 0 to 9."""
    against: int | None = Field(default=None, ge=0, le=9)
    """The class that has label 0 where task = "pair", 0 to 9."""
    pca_dims: int | None = Field(default=None, ge=1, le=3_072)
    """Number of principal components of the (public) training features that replace the pixels; absent: pixels."""
    public_rows: int | None = Field(default=None, ge=2)
    """Number of training images that are public and belong to no user, the same in all replicates. Only these images
    determine the principal components. Absent: all training images determine the components, and no ε for whole rows
    covers this."""

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.task == "pair") != (self.against is not None):
            raise ValueError("against: task = 'pair' needs this key, and no other task has it")
        if self.against == self.one and self.against is not None:
            raise ValueError(f"against = {self.against}: must be another class than one")
        return self

    @property
    def looks_at_all_rows(self) -> str | None:
        """The key by which a user's features or label may depend on other users' rows; None: there is no such key.

        The key for principal components counts only if the components are computed from users' images. Public images
        belong to no user.
        """
        key = super().looks_at_all_rows
        return None if key == "population.pca_dims" and self.public_rows is not None else key

    @property
    def known_classes(self) -> int:
        return 10 if self.task == "classes" else 2

    @property
    def reader(self) -> Reader:
        """The function that reads training images, test images and all class numbers from the paths of `files`."""
        return read_idx_images

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Paths of four files, found in `places`: training images, training classes, test images, test classes."""
        names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
        spelt = ((f"{name}-ubyte", name.replace("-idx", ".idx") + "-ubyte") for name in names)
        return [find_file(self.kind, places, self.kind, both) for both in spelt]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """The images of one replicate. The users are the training images (all, or some at random).

        Errors are measured on all test images of the task. places: directories in which the files are looked for.
        """
        paths = tuple(self.files(places))
        classes = None if self.against is None else (self.one, self.against)
        images = load_images(
            self.reader, paths, tuple(map(state, paths)),
            pca_dims=self.pca_dims, classes=classes, public_rows=self.public_rows,
        )  # fmt: skip
        task: DigitTask = "one-against-rest" if self.task == "pair" else self.task
        train, holdout = (Examples(x.features, digit_labels(x.labels, task, self.one)) for x in images)
        return Sample(self._choose(train, streams), self.known_classes, holdout)


class MnistConfig(_ImageConfig):
    """MNIST from the four standard IDX files (plain or .gz), in the data directory or its folder mnist/."""

    kind: Literal["mnist"] = "mnist"


class FashionMnistConfig(_ImageConfig):
    """Fashion-MNIST from the four standard IDX files, in the data directory or its folder fashion-mnist/."""

    kind: Literal["fashion-mnist"] = "fashion-mnist"


class Cifar10Config(_ImageConfig):
    """CIFAR-10's binary version (plain or .gz), in the data directory or its folder cifar-10/.

    Users are the images in data_batch_1.bin to data_batch_5.bin, up to the first of these files that is missing.
    """

    kind: Literal["cifar-10"] = "cifar-10"

    @property
    def reader(self) -> Reader:
        return read_cifar_images

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Paths of the training files, up to the first that is missing, and then of the test file.

        The first training file and the test file are found in `places`. The other files lie beside the first.
        """
        paths = [find_file(self.kind, places, self.kind, ("data_batch_1.bin",))]
        for number in range(2, 6):
            path = paths[0].with_name(paths[0].name.replace("_1", f"_{number}"))
            if not path.is_file():
                break
            paths.append(path)
        return [*paths, find_file(self.kind, places, self.kind, ("test_batch.bin",))]


def read_idx_images(paths: tuple[Path, ...]) -> Images:
    """Reads four IDX files: training images, training classes, test images, test classes.

    Pixels are (n, rows, columns), 0 to 255. Raises InputError if the files do not fit or a class is above 9.
    """
    train, numbers, test, test_numbers = (read_idx(path) for path in paths)
    for images, labels, path in ((train, numbers, paths[0]), (test, test_numbers, paths[2])):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise InputError(f"{path}: holds {images.shape} pixels for labels of shape {labels.shape}")
        _check_classes(labels, path)
    return Images(train, numbers, test, test_numbers)


def read_cifar_images(paths: tuple[Path, ...]) -> Images:
    """Reads images and class numbers from CIFAR-10's binary files, the test file last.

    Pixels are (n, 3072), 0 to 255, in the file's order. Raises InputError if a file is truncated or a class is above 9.
    """
    parts = []
    for path in paths:
        content = np.frombuffer(read_bytes(path), dtype=np.uint8)
        if content.size == 0 or content.size % CIFAR_RECORD:
            raise InputError(f"{path}: {content.size} bytes are no records of {CIFAR_RECORD}; is it truncated?")
        records = content.reshape(-1, CIFAR_RECORD)
        _check_classes(records[:, 0], path)
        parts.append(records)
    train, test = np.concatenate(parts[:-1]), parts[-1]
    # a record is the number of the class and 3,072 pixels
    return Images(train[:, 1:], train[:, 0], test[:, 1:], test[:, 0])


def _check_classes(labels: Bytes, path: Path) -> None:
    """Raise InputError if a class number of a file is above 9."""
    if labels.max(initial=0) > 9:
        raise InputError(f"{path}: its labels go up to {labels.max()}; 0 to 9 are allowed")


@lru_cache(maxsize=2)
def load_images(
    read: Reader,
    paths: tuple[Path, ...],
    states: tuple[State, ...],
    *,
    pca_dims: int | None,
    classes: tuple[int, int] | None,
    public_rows: int | None,
) -> tuple[Examples, Examples]:
    """Training and test images as labelled rows: the features (n, d) are pixels in [0, 1] or principal components.

    Args:
        read: the function that reads the files. paths: the files' paths.
        states: times of change and sizes of the files; if these have changed, the files are read again.
        pca_dims: number of principal components; None: pixels. classes: the only classes to keep; None: all ten.
        public_rows: number of training images, the same in all replicates, that are no users and alone determine the
        components. None: all training images are returned, and determine the components.
    """
    train, numbers, test, test_numbers = read(paths)
    if classes is not None:
        chosen, tested = np.isin(numbers, classes), np.isin(test_numbers, classes)
        train, numbers, test, test_numbers = train[chosen], numbers[chosen], test[tested], test_numbers[tested]
    if not min(len(numbers), len(test_numbers)):
        raise InputError(
            f"{paths[0].parent}: {len(numbers)} training and {len(test_numbers)} test images are used; at least one of "
            "each is needed"
        )
    flat = [images.reshape(len(images), -1).astype(np.float32) / np.float32(255) for images in (train, test)]
    public = flat[0]
    if public_rows is not None:
        if public_rows > len(numbers) - 2:
            raise InputError(f"population.public_rows = {public_rows}: must leave 2 of {len(numbers)} training images")
        order = np.random.default_rng(0).permutation(len(numbers))
        public, users = flat[0][order[:public_rows]], np.sort(order[public_rows:])
        flat[0], numbers = flat[0][users], numbers[users]
    # the public images, or all training images, determine the components; test images are only projected
    if pca_dims is not None:
        if pca_dims > min(public.shape):
            raise InputError(f"population.pca_dims = {pca_dims}: at most {min(public.shape)} for {paths[0]}")
        from sklearn.decomposition import PCA

        solver = "covariance_eigh" if flat[0].shape[1] <= MOST_EXACT else "randomized"
        components = PCA(pca_dims, svd_solver=solver, random_state=0).fit(public)
        flat = [components.transform(part).astype(np.float32) for part in flat]
    return Examples(flat[0], numbers), Examples(flat[1], test_numbers)
