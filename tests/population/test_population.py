"""Who the users are: laws, data sets, tables, clusters."""

import gzip
import struct

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.learning.metrics import population_heterogeneity
from p2p_sim.measures.risk import heterogeneity
from p2p_sim.population.build import build_population
from p2p_sim.population.clustering import GivenClusters, GridClusters, KMeansClusters, merge_small
from p2p_sim.population.data_files import read_idx
from p2p_sim.population.digits_and_adult import AdultConfig, DigitsConfig
from p2p_sim.population.images import FashionMnistConfig, MnistConfig
from p2p_sim.population.population import Examples
from p2p_sim.population.synthetic import SyntheticConfig
from p2p_sim.population.table import TableConfig
from p2p_sim.population.table_survey import look_at

STREAMS = Streams(1, 0)


@pytest.mark.parametrize("phi", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("points", [2, 4, 6])
def test_synthetic_heterogeneity_is_set_exactly(phi, points):
    config = SyntheticConfig(heterogeneity=phi, points_per_cluster=points, users=1000)
    law = config.law(Streams(1, 0))
    assert heterogeneity(law.mass, law.label_distribution, law.cluster) == pytest.approx(phi, abs=1e-14)
    population = build_population(config, GivenClusters(), (), STREAMS)
    assert population_heterogeneity(population) == (pytest.approx(phi, abs=1e-14), "exact")


def test_synthetic_users_follow_the_law():
    """False alarm below 1e-9 (6.5 standard errors of the share of ones at each of 80 points)."""
    population = build_population(SyntheticConfig(users=400_000), GivenClusters(), (), STREAMS)
    law = population.law
    assert np.array_equal(law.points[population.point], population.features)
    counts = np.bincount(population.point)
    ones = np.bincount(population.point, weights=population.labels)
    p = law.label_distribution[:, 1]
    error = np.abs(ones / counts - p) / np.sqrt(p * (1 - p) / counts)
    assert error.max() < 6.5
    assert np.abs(counts / 400_000 - law.mass).max() < 6.5 * np.sqrt(law.mass[0] / 400_000)
    wrong = np.abs(ones / counts - (1 - p)) / np.sqrt(p * (1 - p) / counts)
    assert wrong.max() > 6.5  # labels swapped would be seen


def test_users_are_stored_cluster_by_cluster_with_their_own_rows():
    population = build_population(DigitsConfig(), KMeansClusters(count=20, min_size=36), (), STREAMS)
    assert population.cluster_sizes.min() >= 36
    assert population.cluster_offsets[-1] == population.num_users == len(population.labels)
    assert population.num_users + len(population.holdout.labels) == 1797
    whole = {row.tobytes() for row in np.vstack([population.features, population.holdout.features])}
    from sklearn.datasets import load_digits

    features, digits = load_digits(return_X_y=True)
    assert whole == {row.tobytes() for row in features / 16.0}
    label_of = {row.tobytes(): digit % 2 for row, digit in zip(features / 16.0, digits, strict=True)}
    assert all(label_of[x.tobytes()] == y for x, y in zip(population.features, population.labels, strict=True))


def test_clusters_do_not_depend_on_labels():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(300, 3))
    for clusters in (KMeansClusters(count=8, min_size=10), GridClusters(dims=(0, 1), bins=3, min_size=10)):
        one = clusters.assign(Examples(features, np.zeros(300, np.uint8)), STREAMS)
        two = clusters.assign(Examples(features, rng.integers(0, 2, 300).astype(np.uint8)), STREAMS)
        assert np.array_equal(one, two)
        assert np.bincount(one).min() >= 10


@given(
    cluster=npst.arrays(np.int64, st.integers(5, 60), elements=st.integers(0, 12)),
    least=st.integers(1, 20),
)
def test_merging_enforces_the_minimum_and_splits_nothing(cluster, least):
    cluster = np.unique(cluster, return_inverse=True)[1]
    features = np.stack([cluster.astype(float), np.arange(len(cluster)) % 3], axis=1)
    if least > len(cluster):
        with pytest.raises(InputError, match="min_size"):
            merge_small(features, cluster, least)
        return
    merged = merge_small(features, cluster, least)
    assert np.bincount(merged).min() >= least
    assert merged.max() + 1 == len(np.unique(merged))
    for value in np.unique(cluster):
        assert len(np.unique(merged[cluster == value])) == 1


def test_merging_goes_to_the_nearest_mean():
    features = np.array([[0.0], [0.1], [5.0], [9.0], [9.1]])
    merged = merge_small(features, np.array([0, 0, 1, 2, 2]), 2)
    assert merged.tolist() == [0, 0, 1, 1, 1]


def test_given_clusters_below_the_minimum_are_an_error():
    rows = Examples(np.zeros((5, 1)), np.zeros(5, np.uint8), np.array([0, 0, 0, 1, 1]))
    with pytest.raises(InputError, match=r"clusters.min_size = 3: .* cluster of 2"):
        GivenClusters(min_size=3).assign(rows, STREAMS)
    with pytest.raises(InputError, match="has no clusters"):
        GivenClusters().assign(Examples(np.zeros((5, 1)), np.zeros(5, np.uint8)), STREAMS)


def test_estimate_of_heterogeneity_lies_above_the_truth_and_is_unbiased():
    """The estimate's expectation is E 2(1 - p(Y|c)); 30 replicates, 6.5 standard errors."""
    from p2p_sim.measures.risk import heterogeneity_upper_estimate

    config = SyntheticConfig(users=2000, heterogeneity=0.2)
    law = config.law(Streams(1, 0))
    p = np.linspace(0.2, 0.8, 20)
    expected = float(np.mean(4 * p * (1 - p)))
    populations = [build_population(config, GivenClusters(), (), Streams(1, r)) for r in range(30)]
    found = [heterogeneity_upper_estimate(q.labels, q.cluster_offsets, 2) for q in populations]
    assert abs(np.mean(found) - expected) < 6.5 * np.std(found) / np.sqrt(30)
    assert expected > heterogeneity(law.mass, law.label_distribution, law.cluster)


def write_idx(path, array):
    content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_mnist(folder, suffix="", rows=60):
    rng = np.random.default_rng(0)
    folder.mkdir()
    for part, count in (("train", rows), ("t10k", 20)):
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", rng.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", rng.integers(0, 10, count, dtype=np.uint8))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_plain_and_compressed(tmp_path, suffix):
    write_mnist(tmp_path / "mnist", suffix)
    sample = MnistConfig(users=40, pca_dims=5, task="classes").sample((tmp_path,), STREAMS)
    assert sample.users.features.shape == (40, 5)
    assert sample.num_classes == 10
    assert len(sample.holdout.labels) == 20
    with pytest.raises(InputError, match=r"population.users = 61: .* 60 training rows"):
        MnistConfig(users=61).sample((tmp_path,), STREAMS)


def test_a_pair_of_classes_in_components_of_public_images(tmp_path):
    """Where a whole row is private: another image of a user moves no other's features."""
    write_mnist(tmp_path / "mnist", rows=300)
    config = MnistConfig(task="pair", one=8, against=0, public_rows=20, pca_dims=3)
    assert config.looks_at_all_rows is None
    assert config.model_copy(update={"public_rows": None}).looks_at_all_rows == "population.pca_dims"
    path = tmp_path / "mnist" / "train-images-idx3-ubyte"
    classes = read_idx(tmp_path / "mnist" / "train-labels-idx1-ubyte")
    pair = np.flatnonzero(np.isin(classes, (0, 8)))
    before = config.sample((tmp_path,), STREAMS)
    assert len(before.users.labels) == len(pair) - 20
    users = pair[np.sort(np.random.default_rng(0).permutation(len(pair))[20:])]
    assert (before.users.labels == (classes[users] == 8)).all()
    pixels = read_idx(path).copy()
    pixels[users[0]] = 0
    write_idx(path, pixels)
    moved = (config.sample((tmp_path,), STREAMS).users.features != before.users.features).any(axis=1)
    assert moved.tolist() == [True] + [False] * (len(users) - 1)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"task": "pair"}, "task = 'pair' needs this key"),
        ({"against": 3}, "no other task has it"),
        ({"task": "pair", "one": 3, "against": 3}, "must be another class"),
    ],
)
def test_a_pair_needs_two_classes(keys, line):
    with pytest.raises(ValueError, match=line):
        MnistConfig(**keys)


@pytest.mark.parametrize(("part", "used"), [("train", "0 training and 20 test"), ("t10k", "60 training and 0 test")])
def test_files_without_an_image_are_refused(tmp_path, part, used):
    write_mnist(tmp_path / "mnist")
    write_idx(tmp_path / "mnist" / f"{part}-images-idx3-ubyte", np.zeros((0, 28, 28), dtype=np.uint8))
    write_idx(tmp_path / "mnist" / f"{part}-labels-idx1-ubyte", np.zeros(0, dtype=np.uint8))
    with pytest.raises(InputError, match=f"mnist: {used} images are used; at least one of each"):
        MnistConfig().sample((tmp_path,), STREAMS)


def test_missing_and_truncated_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"mnist.*train-images.*--data-dir or P2P_SIM_DATA"):
        MnistConfig().files((tmp_path,))
    with pytest.raises(InputError, match="no data directory was named"):
        AdultConfig().files(())
    write_mnist(tmp_path / "mnist")
    images = tmp_path / "mnist" / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(InputError, match="truncated"):
        MnistConfig().sample((tmp_path,), STREAMS)
    packed = tmp_path / "labels.gz"
    packed.write_bytes(gzip.compress(b"\0\0\x08\x01" + bytes(5000))[:-30])
    with pytest.raises(InputError, match="truncated"):
        read_idx(packed)
    images.write_bytes(b"not an idx file")
    with pytest.raises(InputError, match="not an IDX file"):
        read_idx(images)


def test_adult_format_is_checked(tmp_path):
    (tmp_path / "adult.data").write_text("1, 2, 3\n")
    (tmp_path / "adult.test").write_text("1, 2, 3\n")
    with pytest.raises(InputError, match="not the UCI Adult format"):
        AdultConfig().sample((tmp_path,), STREAMS)


def test_adult_from_the_data_directory(data_dir):
    sample = AdultConfig().sample((data_dir,), STREAMS)
    assert (len(sample.users.labels), len(sample.holdout.labels)) == (32_561, 16_281)
    assert sample.users.labels.sum() == 7841
    assert sample.holdout.labels.sum() == 3846
    assert np.isfinite(sample.users.features).all()
    assert sample.users.features[:, 0].mean() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("config", "mean"), [(MnistConfig(), 0.1307), (FashionMnistConfig(), 0.2860)])
def test_images_from_the_data_directory(data_dir, config, mean):
    sample = config.sample((data_dir,), STREAMS)
    assert sample.users.features.shape == (60_000, 784)
    assert sample.users.features.mean(dtype=np.float64) == pytest.approx(mean, abs=1e-4)
    assert set(np.unique(sample.users.labels)) == {0, 1}


def table(rows=50):
    rng = np.random.default_rng(3)
    columns = {"a": rng.normal(size=rows), "b": rng.integers(0, 9, rows), "sick": np.arange(rows) % 2}
    return pd.DataFrame({**columns, "ward": np.repeat(["x", "y"], rows // 2)})


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_tables_in_three_formats(tmp_path, suffix):
    frame, path = table(), tmp_path / f"own{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    elif suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        np.savez(path, **{k: frame[k].to_numpy().astype("U1" if k == "ward" else float) for k in frame})
    config = TableConfig(path=path.name, label="sick", cluster="ward")
    population = build_population(config, GivenClusters(), (tmp_path,), STREAMS)
    assert population.features.shape == (40, 2)
    assert len(population.cluster_sizes) == 2
    assert len(population.holdout.labels) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "healthy"}, r"population.label = 'healthy': .* has 'a', 'b', 'sick', 'ward'"),
        ({"label": "a"}, "50 distinct values|2 to 256"),
        ({"cluster": "room"}, "population.cluster = 'room'"),
        (
            {"features": ("ward",)},
            r"column 'ward', line 2: 'x' is no number \(50 such cells\); population.one_hot = \[\"ward\"\] makes",
        ),
        ({"path": "none.csv"}, "population.path = 'none.csv': no such file"),
        ({"test_fraction": 0.999}, "population.test_fraction = 0.999"),
    ],
)
def test_table_faults_are_named(tmp_path, change, message):
    table(300 if "label" in change and change["label"] == "a" else 50).to_csv(tmp_path / "own.csv", index=False)
    settings = {"path": "own.csv", "label": "sick", "cluster": "ward", **change}
    with pytest.raises(InputError, match=message):
        TableConfig(**settings).sample((tmp_path,), STREAMS)


def test_table_with_holes_names_column_and_line(tmp_path):
    frame = table()
    frame.loc[7, "a"] = np.nan
    frame.to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(InputError, match=r"column 'a', line 9: has no value; .*impute = \[\"a\"\].*, drop = true"):
        TableConfig(path="own.csv", label="sick", cluster="ward").sample((tmp_path,), STREAMS)
    (tmp_path / "own.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(InputError, match="cannot be read"):
        TableConfig(path="own.parquet", label="sick").sample((tmp_path,), STREAMS)


@pytest.mark.parametrize("change", [{"cluster": "sick"}, {"features": ("a", "sick")}])
def test_the_label_cannot_be_a_feature_or_the_cluster(change):
    with pytest.raises(ValueError, match="is what is to be protected"):
        TableConfig(path="own.csv", label="sick", **change)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.zeros((4, 2)), "x": np.zeros(4)}, "population.label = 'y': must be one plain value a row"),
        ({"y": np.arange(4) % 2, "x": np.float64(3.0)}, "column 'x' .* is not numeric"),
        ({"y": np.arange(4) % 2, "x": np.zeros((4, 0))}, "column 'x' .* is not numeric"),
        ({"y": np.arange(4) % 2, "x": np.zeros(4) * 1j}, "column 'x' .* is not numeric"),
        ({"y": np.arange(4) % 2, "x": np.zeros(5)}, "same number of rows"),
        ({"y": np.arange(4) % 2, "x": np.zeros(4), "c": np.zeros(3)}, "population.cluster = 'c': 3 rows for 4 labels"),
        (
            {"y": np.arange(4) % 2, "x": np.zeros(4), "c": [0, 1, np.nan, 1]},
            "column 'c', row 2: has no value; population.drop = true",
        ),
    ],
)
def test_odd_arrays_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "own.npz", **arrays)
    config = TableConfig(path="own.npz", label="y", cluster="c" if "c" in arrays else None)
    with pytest.raises(InputError, match=message):
        config.sample((tmp_path,), STREAMS)


def test_a_single_number_is_no_label_column(tmp_path):
    np.savez(tmp_path / "own.npz", y=np.array(1), x=np.arange(30.0))
    with pytest.raises(InputError, match="--label y: must be one plain value a row"):
        look_at(tmp_path / "own.npz", "y")


def test_a_compressed_table_may_end_in_capitals(tmp_path):
    (tmp_path / "OWN.CSV.GZ").write_bytes(gzip.compress("x,y\n1,0\n2,1\n3,1\n".encode("utf-16")))
    assert look_at(tmp_path / "OWN.CSV.GZ", "y").rows == 3
    assert TableConfig(path="OWN.CSV.GZ", label="y").sample((tmp_path,), STREAMS).num_classes == 2


def test_shares_of_label_1_may_be_given_in_either_order():
    up, down = ({"positive_low": 0.2, "positive_high": 0.8}, {"positive_low": 0.8, "positive_high": 0.2})
    random_up, random_down = (SyntheticConfig(positive="random", **ends).law(STREAMS) for ends in (up, down))
    assert np.array_equal(random_up.label_distribution, random_down.label_distribution)


def test_lists_are_no_labels(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [[0], [1], [0]]}).to_parquet(tmp_path / "own.parquet")
    with pytest.raises(InputError, match="must be one plain value a row"):
        TableConfig(path="own.parquet", label="y").sample((tmp_path,), STREAMS)


def test_image_files_are_checked_for_classes_and_components(tmp_path):
    write_mnist(tmp_path / "mnist")
    with pytest.raises(InputError, match="pca_dims = 100: at most 60"):
        MnistConfig(pca_dims=100).sample((tmp_path,), STREAMS)
    write_idx(tmp_path / "mnist" / "train-labels-idx1-ubyte", np.full(60, 99, np.uint8))
    with pytest.raises(InputError, match="labels go up to 99"):
        MnistConfig(pca_dims=4).sample((tmp_path,), STREAMS)
