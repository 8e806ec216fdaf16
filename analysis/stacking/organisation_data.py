"""Data of the stacking study: two benchmarks with public rows, four hospitals, and a simulated group of hospitals."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import Streams
from p2p_sim.population import HOSPITALS, Examples, HeartConfig, find_file, read_hospital, read_idx, state
from p2p_sim.population.branches import branches as branches_of

Floats = NDArray[np.float64]
Rows = tuple[Floats, NDArray[np.int64]]
"""The features (n, d) and the labels (n,), each 0 or 1, of n examples. Each example is called a row."""
COMPONENTS = 100
"""Number of principal components to which each image is reduced."""
TRAIN = 3_000
"""The largest number of rows that a replicate learns from."""


class Split(NamedTuple):
    """The rows to learn from, and the rows to measure on."""

    train: Rows
    test: Rows


class OrganisationRows(NamedTuple):
    """The rows of the source, and the rows of each target by name. The source is the organisation that releases models;
    a target learns from these models.
    """

    source: Rows
    targets: dict[str, Split]


@dataclass(frozen=True)
class Benchmark:
    """A data set, divided into private and public rows. The features are principal components, in order of falling
    variance.

    private: rows that are split anew in every replicate. public: rows from which scales, importance and the penalty λ
    are chosen. test: fixed test rows; None: a replicate tests on private rows that it does not learn from.
    """

    name: str
    private: Rows
    public: Rows
    test: Rows | None

    def draw(self, streams: Streams, public: bool = False) -> Split:
        """Training and test rows of one replicate, split at random from the private rows. If the data set has fixed
        test rows, these are the test rows. With `public`, all rows are public; so the penalty λ of each method is
        chosen without private rows.

        Args:
            streams: random numbers of the replicate. public: whether public rows are taken.
        """
        rows, labels = self.public if public else self.private
        order = streams.generator("stacking split").permutation(len(rows))
        size = min(TRAIN, 2 * len(rows) // 3)
        train, rest = order[:size], order[size : size + 2_000]
        held = (rows[rest], labels[rest]) if public or self.test is None else self.test
        return Split((rows[train], labels[train]), held)


def mnist(data_dir: Path) -> Benchmark:
    """MNIST's digits 8 (label 1) and 0 (label 0), as the first 100 principal components of each image. 5,000 images are
    private, and the other 8,728 are public. The components are computed from the public images alone.

    Args:
        data_dir: folder of data files.
    """
    images, labels = [], []
    # MNIST's training and test images are taken together, because this study has a split of its own
    for part in ("train", "t10k"):
        pixels, classes = (
            read_idx(find_file("mnist", (data_dir,), "mnist", (f"{part}-{kind}-ubyte",)))
            for kind in ("images-idx3", "labels-idx1")
        )
        wanted = (classes == 0) | (classes == 8)
        images.append(pixels[wanted].reshape(int(wanted.sum()), -1) / 255.0)
        labels.append((classes[wanted] == 8).astype(np.int64))
    rows, ones = np.concatenate(images), np.concatenate(labels)
    order = np.random.default_rng(0).permutation(len(rows))
    private, public = order[:5_000], order[5_000:]
    vectors = np.linalg.eigh(np.cov(rows[public].T))[1][:, : -COMPONENTS - 1 : -1]
    scores = (rows - rows[public].mean(axis=0)) @ vectors
    return Benchmark("MNIST", (scores[private], ones[private]), (scores[public], ones[public]), None)


def news20(data_dir: Path) -> Benchmark:
    """20 Newsgroups: documents of the topics sci (label 1) and talk (label 0). 1,000 training documents are public, the
    others private. The test documents are fixed test rows. The 100 principal components are computed from all training
    documents.
    """
    with np.load(find_file("news20", (data_dir,), "news20", ("news20-sci-vs-talk-pca100.npz",))) as file:
        rows, labels = file["X_train"].astype(np.float64), file["y_train"].astype(np.int64)
        test = file["X_test"].astype(np.float64), file["y_test"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    public, private = order[:1_000], order[1_000:]
    return Benchmark("NEWS20", (rows[private], labels[private]), (rows[public], labels[public]), test)


def stand_in() -> Benchmark:
    """Gaussian rows with labels from a known logistic model, for tests: 1,000 private and 500 public rows with 20
    features. Every call returns the same rows.
    """
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1_500, 20)) * 0.8 ** np.arange(20)
    labels = (rows[:, :6].sum(axis=1) + 0.5 * rng.logistic(size=1_500) > 0).astype(np.int64)
    return Benchmark("stand-in", (rows[:1_000], labels[:1_000]), (rows[1_000:], labels[1_000:]), None)


@dataclass(frozen=True)
class OrganisationsData:
    """A source and several targets whose rows have the same features, with the public importance of these features.

    groups: the indices of the features in each of K groups, the most important group first. importance: the importance
    q_k of each group k. Features are scaled by public constants to a variance of approximately 1.
    """

    name: str
    groups: list[list[int]]
    importance: list[float]

    @property
    def num_features(self) -> int:
        """The number d of features in all groups together."""
        return sum(map(len, self.groups))

    def draw(self, streams: Streams) -> OrganisationRows:
        """The rows (features and labels) of one replicate: the rows of the source and, by name, the rows of each
        target. A target has rows to learn from and rows to test on.

        streams: random numbers of the replicate.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Branches(OrganisationsData):
    """A simulated main hospital (the source) and its branches (the targets). In hospital b, the features x have the law
    N(μ_b, I). The logit of a label is w_b·x, with the hospital's weights w_b.

    sizes: number of rows of the main hospital, and of each branch. law: seed of all w_b and μ_b, which are the same in
    all replicates.
    """

    sizes: tuple[int, ...] = ()
    law: int = 0
    signal: float = 1.5
    """Standard deviation of the logits."""
    difference: float = 0.5
    """Standard deviation of a branch's w_b, before scaling, around the main hospital's w, relative to each entry of w.
    A branch's μ_b has the standard deviation 0.3, the main hospital's is 0."""

    def draw(self, streams: Streams) -> OrganisationRows:
        """New rows of the main hospital and of each branch, from the hospitals' fixed laws. A random fifth of a
        branch's rows is for testing, the rest for learning.

        streams: random numbers of the replicate.
        """
        rng = streams.generator("stacking rows")
        laws = branches_of(
            self.groups, self.importance, len(self.sizes), self.law, signal=self.signal, difference=self.difference
        )
        drawn = [_rows(law.draw(size, rng)) for law, size in zip(laws, self.sizes, strict=True)]
        return OrganisationRows(drawn[0], {str(b): _cut(part, 0.8, rng) for b, part in enumerate(drawn[1:], 1)})


RUIJIN = (12_702, 4_334, 4_739, 6_121, 2_327, 5_619, 6_360, 4_966, 5_793, 6_215, 3_659, 5_579, 2_316, 4_285, 6_017,
          6_482, 4_493)  # fmt: skip
"""Numbers of rows of the main hospital and its 16 branches in the RUIJIN data of Yao et al. 2019 (Table 4)."""


def branches(law: int, sizes: tuple[int, ...] = RUIJIN, group_size: int = 10) -> Branches:
    """A simulated main hospital (the source) with branches (the targets), built like the RUIJIN data of Yao et al.
    There are five groups of features. Each group is half as important as the group before.

    Args:
        law: seed that fixes the laws of rows and labels of all hospitals. sizes: number of rows of the main hospital
        and of each branch, by default as in RUIJIN. group_size: number of features in each group.
    """
    groups = np.arange(5 * group_size).reshape(5, group_size).tolist()
    halves = 0.5 ** np.arange(5)
    return Branches("branches", groups, (halves / halves.sum()).tolist(), sizes, law)


HEART_GROUPS = ([2, 7, 8, 9, 10, 11, 12], [0, 1, 3, 4], [5, 6])
"""Groups of features, ranked as in textbooks. First come pain, exercise test and heart imaging; then age, sex, blood
pressure and cholesterol; then blood sugar and ECG at rest."""
HEART_IMPORTANCE = (0.6, 0.3, 0.1)


@dataclass(frozen=True)
class Heart(OrganisationsData):
    """UCI Heart Disease: Cleveland is the source, the other hospitals are targets. Targets test on half of the rows."""

    data: tuple[Rows, ...] = ()

    def draw(self, streams: Streams) -> OrganisationRows:
        """All rows of the source, and a fresh split of each target."""
        rng = streams.generator("stacking rows")
        hospitals = zip(HOSPITALS[1:], self.data[1:], strict=True)
        return OrganisationRows(self.data[0], {name: _cut(part, 0.5, rng) for name, part in hospitals})


def heart(data_dir: Path) -> Heart:
    """UCI Heart Disease from the processed files of four hospitals, with Cleveland as the source. Features are scaled
    by public constants. The public centre of a feature replaces a missing value.

    Args:
        data_dir: folder of the files.
    """
    parts = tuple(_rows(read_hospital(path, state(path))) for path in HeartConfig().files((data_dir,)))
    return Heart("heart", [list(g) for g in HEART_GROUPS], list(HEART_IMPORTANCE), parts)


def _rows(examples: Examples) -> Rows:
    """The features (n, d) of n users as 64-bit floats, and the users' labels (n,) as 64-bit integers.

    examples: the users, with their features and labels 0 or 1.
    """
    return examples.features.astype(np.float64, copy=False), examples.labels.astype(np.int64)


def _cut(rows: Rows, share: float, rng: np.random.Generator) -> Split:
    """A random split of rows: the share `share` is for learning, the rest for testing."""
    order = rng.permutation(len(rows[1]))
    size = round(share * len(order))
    train, test = order[:size], order[size:]
    return Split((rows[0][train], rows[1][train]), (rows[0][test], rows[1][test]))
