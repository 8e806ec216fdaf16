"""Data of the stacking study: two benchmark sets with a public part, four hospitals, and a simulated hospital group."""

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
"""Features (n, d) and labels 0 or 1 (n,)."""
COMPONENTS = 100
TRAIN = 3_000


class Split(NamedTuple):
    """The rows to learn from, and the rows to measure on."""

    train: Rows
    test: Rows


class OrganisationRows(NamedTuple):
    """The source's rows, and those of each target by its name."""

    source: Rows
    targets: dict[str, Split]


@dataclass(frozen=True)
class Benchmark:
    """Principal components, most variance first, and rows that are public: for scales, importance and tuning.

    private: rows that are split anew in every replicate. test: fixed test rows, or None: what the training leaves.
    """

    name: str
    private: Rows
    public: Rows
    test: Rows | None

    def draw(self, streams: Streams, public: bool = False) -> Split:
        """Training and test rows of a replicate; from the public rows only, to choose λ."""
        rows, labels = self.public if public else self.private
        order = streams.generator("stacking split").permutation(len(rows))
        size = min(TRAIN, 2 * len(rows) // 3)
        train, rest = order[:size], order[size : size + 2_000]
        held = (rows[rest], labels[rest]) if public or self.test is None else self.test
        return Split((rows[train], labels[train]), held)


def mnist(data_dir: Path, small: bool = False) -> Benchmark:
    """Digits 8 (label 1) against 0: 5,000 private images; mean and components from the 8,728 others."""
    images, labels = [], []
    # both files of the data set together, since the split is this study's own
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
    mean = rows[public].mean(axis=0)
    vectors = np.linalg.eigh(np.cov(rows[public].T))[1][:, : -COMPONENTS - 1 : -1]
    scores = (rows - mean) @ vectors
    return Benchmark("MNIST", (scores[private], ones[private]), (scores[public], ones[public]), None)


def news20(data_dir: Path) -> Benchmark:
    """20 Newsgroups, sci (label 1) against talk: 1,000 training documents are public; the components come from all."""
    with np.load(find_file("news20", (data_dir,), "news20", ("news20-sci-vs-talk-pca100.npz",))) as file:
        rows, labels = file["X_train"].astype(np.float64), file["y_train"].astype(np.int64)
        test = file["X_test"].astype(np.float64), file["y_test"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    public, private = order[:1_000], order[1_000:]
    return Benchmark("NEWS20", (rows[private], labels[private]), (rows[public], labels[public]), test)


def stand_in() -> Benchmark:
    """Gaussian rows with a known law, for tests."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1_500, 20)) * 0.8 ** np.arange(20)
    labels = (rows[:, :6].sum(axis=1) + 0.5 * rng.logistic(size=1_500) > 0).astype(np.int64)
    return Benchmark("stand-in", (rows[:1_000], labels[:1_000]), (rows[1_000:], labels[1_000:]), None)


@dataclass(frozen=True)
class OrganisationsData:
    """One source and several targets with the same features, and what is publicly known of these.

    groups: (K,) feature indices, the most important first. importance: (K,) q_k. Features are scaled by public
    constants to about unit variance.
    """

    name: str
    groups: list[list[int]]
    importance: list[float]

    @property
    def num_features(self) -> int:
        """d, the number of features."""
        return sum(map(len, self.groups))

    def draw(self, streams: Streams) -> OrganisationRows:
        """The rows of one replicate."""
        raise NotImplementedError


@dataclass(frozen=True)
class Branches(OrganisationsData):
    """A simulated main hospital with branches of given sizes: features N(μ_b, I), logits w_b·x.

    sizes: of the source and of the targets. law: seed of w and μ, the same in all replicates.
    """

    sizes: tuple[int, ...] = ()
    law: int = 0
    signal: float = 1.5
    """Standard deviation of the logits."""
    difference: float = 0.5
    """Of w_b from the common w, relative to each entry; means differ by 0.3 in every feature."""

    def draw(self, streams: Streams) -> OrganisationRows:
        """Fresh rows from the fixed laws; a fifth of a branch's rows are for testing."""
        rng = streams.generator("stacking rows")
        laws = branches_of(
            self.groups, self.importance, len(self.sizes), self.law, signal=self.signal, difference=self.difference
        )
        samples = [law.draw(size, rng) for law, size in zip(laws, self.sizes, strict=True)]
        drawn = [_rows(sample) for sample in samples]
        return OrganisationRows(drawn[0], {str(b): _cut(part, 0.8, rng) for b, part in enumerate(drawn[1:], 1)})


RUIJIN = (12_702, 4_334, 4_739, 6_121, 2_327, 5_619, 6_360, 4_966, 5_793, 6_215, 3_659, 5_579, 2_316, 4_285, 6_017,
          6_482, 4_493)  # fmt: skip
"""Rows of the main hospital and its 16 branches (Table 4); 50 features in five groups."""


def branches(law: int, sizes: tuple[int, ...] = RUIJIN, group_size: int = 10) -> Branches:
    """The RUIJIN data's layout with a simulated law; importance falls by half from group to group."""
    groups = np.arange(5 * group_size).reshape(5, group_size).tolist()
    halves = 0.5 ** np.arange(5)
    return Branches("branches", groups, (halves / halves.sum()).tolist(), sizes, law)


HEART_GROUPS = ([2, 7, 8, 9, 10, 11, 12], [0, 1, 3, 4], [5, 6])
"""Pain and exercise test; age, sex, pressure, cholesterol; blood sugar and rest ECG: as the textbooks rank them."""
HEART_IMPORTANCE = (0.6, 0.3, 0.1)


@dataclass(frozen=True)
class Heart(OrganisationsData):
    """UCI Heart Disease, Cleveland as source; half of a target's rows are for testing."""

    data: tuple[Rows, ...] = ()

    def draw(self, streams: Streams) -> OrganisationRows:
        """All rows of the source, and a fresh split of each target."""
        rng = streams.generator("stacking rows")
        hospitals = zip(HOSPITALS[1:], self.data[1:], strict=True)
        return OrganisationRows(self.data[0], {name: _cut(part, 0.5, rng) for name, part in hospitals})


def heart(data_dir: Path) -> Heart:
    """The four processed files; what is missing is the centre."""
    read = [read_hospital(path, state(path)) for path in HeartConfig().files((data_dir,))]
    parts = tuple(_rows(hospital) for hospital in read)
    return Heart("heart", [list(g) for g in HEART_GROUPS], list(HEART_IMPORTANCE), parts)


def _rows(examples: Examples) -> Rows:
    """Features and labels in the types that all estimators take."""
    return examples.features.astype(np.float64, copy=False), examples.labels.astype(np.int64)


def _cut(rows: Rows, share: float, rng: np.random.Generator) -> Split:
    """A share of rows to learn from, drawn at random, and the others."""
    order = rng.permutation(len(rows[1]))
    size = round(share * len(order))
    train, test = order[:size], order[size:]
    return Split((rows[0][train], rows[1][train]), (rows[0][test], rows[1][test]))
