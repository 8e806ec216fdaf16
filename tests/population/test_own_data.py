"""One's own table: what is done with its columns, and how its faults are named."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.population.build import build_population
from p2p_sim.population.clustering import KMeansClusters
from p2p_sim.population.digits_and_adult import DigitsConfig
from p2p_sim.population.features import MOST_VALUES, _way_out
from p2p_sim.population.table import NEW_KEYS, TableConfig
from p2p_sim.replicate.advice import advice, examined
from p2p_sim.replicate.replicate import Replicate, identity
from p2p_sim.scenario import Scenario
from tests.commands import command

STREAMS = Streams(1, 0)
EXCHANGE = {"flip_prob": 0.1, "sampling_rate": 0.5}
ROWS = 60

TOML = """
name = "t"
replicates = 1
engine = "vectorised"
population = {kind = "table", path = "own.csv", label = "risk", one_hot = true}
clusters = {kind = "kmeans", count = 2, min_size = 5}
mechanism = {kind = "randomized_response", flip_prob = 0.1}
"""


def frame():
    """Numbers of two scales, a text, three text classes."""
    rng = np.random.default_rng(5)
    columns = {"age": rng.integers(20, 80, ROWS), "income": rng.normal(4e4, 1e4, ROWS).round()}
    city, risk = np.array(["Paris", "Rome", "Oslo"]), np.array(["low", "medium", "high"])
    return pd.DataFrame({**columns, "city": city[np.arange(ROWS) % 3], "risk": risk[np.arange(ROWS) // 2 % 3]})


def spoilt(column, row, value):
    changed = frame().astype(object)
    changed.loc[row, column] = value
    return changed


def sampled(folder, table, sep=",", header=True, **keys):
    table.to_csv(folder / "own.csv", index=False, sep=sep, header=header)
    return TableConfig(**{"path": "own.csv", "label": "risk", **keys}).sample((folder,), STREAMS)


def scenario(**population):
    tree = {"name": "t", "population": {"kind": "table", "path": "own.csv", "label": "risk", **population}}
    return {**tree, "clusters": {"kind": "kmeans", "count": 2, "min_size": 5}, "mechanism": EXCHANGE}


def test_a_table_without_the_new_keys_keeps_its_identity():
    config = TableConfig(path="a.csv", label="y")
    assert not set(NEW_KEYS) & set(config.model_dump())
    assert set(TableConfig(path="a.csv", label="y", header=False).model_dump()) - set(config.model_dump()) == {"header"}
    tree = {"name": "t", "population": {"kind": "table", "path": "a.csv", "label": "y"}, "mechanism": EXCHANGE}
    assert Scenario.from_tree(tree).content_hash()[:16] == "b5fac8471ca0f775"
    assert Scenario.from_tree(tree).replace(seed=1).content_hash()[:16] == "b5fac8471ca0f775"


def test_numbers_are_standardised_by_the_users_and_texts_become_one_hot(tmp_path):
    plain = sampled(tmp_path, frame(), features=("age", "income"))
    both = sampled(tmp_path, frame(), standardise=True, one_hot=True)
    assert both.users.features.shape == (48, 5)
    model = StandardScaler().fit(plain.users.features)
    assert np.array_equal(both.users.features[:, :2], model.transform(plain.users.features))
    assert np.array_equal(both.holdout.features[:, :2], model.transform(plain.holdout.features))
    assert both.users.features[:, :2].mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    learned, _ = DigitsConfig().held_out(ROWS, STREAMS)
    cities = frame()["city"].to_numpy()[learned]
    assert np.array_equal(both.users.features[:, 2:], (cities[:, None] == ["Oslo", "Paris", "Rome"]).astype(float))


def test_only_listed_columns_are_changed_and_keep_their_places(tmp_path):
    plain = sampled(tmp_path, frame(), features=("age", "income"))
    some = sampled(tmp_path, frame(), features=("age", "city", "income"), standardise=("income",), one_hot=("city",))
    assert np.array_equal(some.users.features[:, 0], plain.users.features[:, 0])
    assert some.users.features[:, 4].std() == pytest.approx(1)
    coded = sampled(tmp_path, frame(), features=("age",), one_hot=("age",))
    assert coded.users.features.shape == (48, frame()["age"].nunique())


def test_features_do_not_depend_on_labels(tmp_path):
    keys = {"standardise": True, "one_hot": True, "impute": True, "classes": ("low", "medium", "high")}
    one = sampled(tmp_path, spoilt("age", 3, None), **keys)
    other = spoilt("age", 3, None)
    other["risk"] = np.random.default_rng(0).permutation(other["risk"])
    two = sampled(tmp_path, other, **keys)
    assert np.array_equal(one.users.features, two.users.features)
    assert np.array_equal(one.holdout.features, two.holdout.features)
    assert not np.array_equal(one.users.labels, two.users.labels)


def test_missing_values_become_the_median_and_the_most_frequent_text(tmp_path):
    table = spoilt("age", slice(0, 9), "?")
    table.loc[table.index % 10 == 4, "city"] = None
    table.loc[table.index % 10 == 3, "city"] = "Rome"
    found = sampled(tmp_path, table, missing=("?",), impute=True, one_hot=True)
    learned, _ = DigitsConfig().held_out(ROWS, STREAMS)
    there = learned[learned > 9]
    assert np.isfinite(found.users.features).all()
    filled = found.users.features[learned <= 9, 0]
    assert len(filled) > 3
    assert set(filled) == {np.median(table["age"].to_numpy()[there].astype(float))}
    assert set(found.users.features[learned % 10 == 4, 3]) == {0.0}
    assert (found.users.features[learned % 10 == 4, 4] == 1.0).all()


def test_dropped_rows_are_no_users_and_rows_keep_their_numbers(tmp_path):
    table = spoilt("age", [0, 7], None)
    table.loc[9, "risk"] = None
    found = sampled(tmp_path, table, drop=True, features=("age", "income"))
    assert len(found.users.labels) + len(found.holdout.labels) == ROWS - 3
    assert not {0, 7, 9} & set(found.users.row.tolist())
    assert found.users.source_rows == ROWS
    assert np.array_equal(found.users.features[:, 1], table["income"].to_numpy(dtype=float)[found.users.row])
    listed = sampled(tmp_path, table, drop=("risk",), impute=True, features=("age", "income"))
    assert len(listed.users.labels) + len(listed.holdout.labels) == ROWS - 1


def test_classes_are_numbered_as_stated_or_sorted(tmp_path):
    learned, _ = DigitsConfig().held_out(ROWS, STREAMS)
    risk = frame()["risk"].to_numpy()[learned]
    for order, classes in ((("low", "medium", "high"), ("low", "medium", "high")), (("high", "low", "medium"), None)):
        found = sampled(tmp_path, frame(), one_hot=True, classes=classes)
        assert found.num_classes == 3
        assert [order[label] for label in found.users.labels] == risk.tolist()
    numbers = frame().replace({"risk": {"low": 1, "medium": 2, "high": 5}})
    assert sampled(tmp_path, numbers, one_hot=True, classes=(5, 2, 1, 0)).num_classes == 4
    with pytest.raises(InputError, match=r"population.classes: '5': column 'risk' .* holds numbers"):
        sampled(tmp_path, numbers, one_hot=True, classes=("5", "2", "1"))


def test_a_file_without_a_header_and_with_another_separator(tmp_path):
    named = sampled(tmp_path, frame(), features=("age", "income"))
    frame().to_csv(tmp_path / "bare.csv", index=False, sep=";", header=False)
    config = TableConfig(path="bare.csv", label="4", features=("1", "2"), separator=";", header=False)
    assert np.array_equal(config.sample((tmp_path,), STREAMS).users.features, named.users.features)


BARE = "1,2,0\n" * 9 + "3,4,1\n" * 9


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        ("a;b;y\n1;2;0\n", {}, r"population.label = 'y': .* has 'a;b;y'; population.separator = \";\" would make 3"),
        (BARE, {}, r"own.csv, line 1: '1,2,0' looks like data.* population.header = false .* header = true if"),
        (BARE, {"header": True}, r"population.label = 'y': .*if line 1 is data, population.header = false calls"),
        ("a,b,y\n1,2,0,9\n3,4,1,9\n", {}, r"own.csv, line 2: 4 cells, but line 1 has 3 names"),
        ("a,b,y\n1,2,0\n3,4\n5,6,1\n", {}, r"own.csv, line 3: 2 cells, but line 1 has 3 cells"),
        ("a,b,y\n1,2,0\n\n3,x,1\n4,5,0\n", {}, r"column 'b', line 4: 'x' is no number; population.missing = \[\"x\"\]"),
        ('a,b,y\n1,"2\n",0\n3,?,1\n', {}, r"column 'b', line 4: '\?' is no number"),
        ("a,b,y\n1,2,0\n3,inf,1\n", {}, r"column 'b', line 3: 'inf' is not finite; population.missing = \[\"inf\"\]"),
        ("a,b,y\n1,,0\n3,,1\n", {"drop": True}, r"population.drop: every row of .* has a missing value"),
        ("a,b,y\n1,2,0\n3,4,1\n", {"standardise": ("c",)}, r"population.standardise: 'c' is not among the features"),
        ("a,b,y\n1,2,0\n3,4,1\n", {"drop": ("c",)}, r"population.drop = 'c': .* has 'a', 'b', 'y'"),
        ("a,b,y\n1,2,0\n3,4,7\n", {"classes": (0, 1)}, r"column 'y', line 3: '7' is not among population.classes"),
        ("a,y\n" + "".join(f"{i},{i}\n" for i in range(300)), {}, "300 distinct values .* divide its numbers into"),
        (
            "a,y\n" + "".join(f"n{i},{i % 2}\n" for i in range(MOST_VALUES + 1)),
            {"one_hot": True},
            f"column 'a' .* has {MOST_VALUES + 1:,} different values, .* leave it out of population.features",
        ),
        (
            "a,y\n" + "".join(f"n{i},{i % 2}\n" for i in range(MOST_VALUES + 1)),
            {},
            r"column 'a', line 2: 'n0' is no number .*; leave the column out of population.features",
        ),
    ],
)  # fmt: skip
def test_faults_name_column_line_and_value_with_a_way_out(tmp_path, content, keys, message):
    (tmp_path / "own.csv").write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        TableConfig(path="own.csv", label="y", **keys).sample((tmp_path,), STREAMS)
    assert "\n" not in str(caught.value)


def test_a_cell_of_the_heart_data_is_named(data_dir, tmp_path):
    shutil.copyfile(data_dir / "uci-heart" / "processed.cleveland.data", tmp_path / "heart.csv")
    with pytest.raises(InputError, match=r"column '12', line 167: '\?' is no number \(4 such cells\); .*\[\"\?\"\]"):
        TableConfig(path="heart.csv", label="14", header=False).sample((tmp_path,), STREAMS)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"standardise": ("risk",)}, "'risk' is the label"),
        ({"standardise": ("age",), "one_hot": ("age",)}, "'age' is in one_hot too"),
        ({"drop": True, "impute": True}, "drop = true leaves no missing value"),
        ({"classes": ("a", "a")}, "a value is there twice"),
        ({"separator": "x"}, "must separate cells"),
        ({"separator": ",,"}, "at most 1 character"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        TableConfig(path="own.csv", label="risk", **keys)


def test_scales_that_differ_by_more_than_100_times_warn_where_they_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame().to_csv("own.csv", index=False)

    def warned(clusters=None, learner=None, **keys):
        tree = scenario(features=["age", "income"], **keys)
        tree["clusters"] = clusters or tree["clusters"]
        return advice(Replicate(Scenario.from_tree({**tree, "learner": learner or {"kind": "logistic_regression"}})))

    [line] = warned()
    assert "column 'income' varies" in line
    assert "times as widely as 'age'" in line
    assert "k-means and the learner (logistic_regression) depend on scale; population.standardise = true" in line
    grid, trees = {"kind": "grid"}, {"kind": "estimator", "estimator": "sklearn.tree.DecisionTreeClassifier"}
    assert "the learner (logistic_regression) depends" in warned(grid)[0]
    assert "k-means depends" in warned(learner=trees)[0]
    for kind, name in (("agglomerative", "agglomerative clustering"), ("hdbscan", "HDBSCAN"),
                       ("balanced", "balanced k-means")):  # fmt: skip
        assert f", and {name} depends on scale" in warned({"kind": kind}, trees)[0]
    assert warned(grid, trees) == warned(grid, {"kind": "table"}) == warned(standardise=True) == []
    assert warned(standardise=["income"]) == []
    close = frame()
    close["income"] /= 100
    close.to_csv("own.csv", index=False)
    assert warned() == []


@pytest.mark.parametrize("asked", ["validate", "run"])
def test_a_cell_that_makes_a_column_of_numbers_a_text_is_named(tmp_path, monkeypatch, asked):
    monkeypatch.chdir(tmp_path)
    spoilt("income", 7, "12O00").to_csv("own.csv", index=False)
    Path("t.toml").write_text(TOML)
    status, _, err = command(asked, "t.toml")
    [line] = [line for line in err.splitlines() if "12O00" in line]
    assert status == 0
    assert (
        "own.csv: column 'income', line 9: '12O00' is no number, but 59 other cells of this one-hot column are" in line
    )
    assert 'population.missing = ["12O00"] reads it as missing' in line
    spoilt("income", 7, 12000).to_csv("own.csv", index=False)
    status, _, err = command(asked, "t.toml", "--set", 'population.standardise=["age", "income"]')
    assert (status, "one-hot" in err) == (0, False)


def test_a_one_hot_column_of_mostly_distinct_values_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = frame()
    table["who"] = [f"name {row}" for row in range(ROWS)]

    def warned(**keys):
        table.to_csv("own.csv", index=False)
        return advice(
            Replicate(Scenario.from_tree(scenario(standardise=["age"], **{"features": ["age", "who"], **keys})))
        )

    [line] = warned(one_hot=True)
    assert warned(one_hot=True, features=["age", "city", "who"]) == [line]
    assert "own.csv: column 'who', line 2: 'name 0' is one of 60 different values in 60 rows" in line
    assert warned(one_hot=["who"]) == [line]
    table["who"] = [f"name {row % 20}" for row in range(ROWS)]
    assert warned(one_hot=True) == []
    table["who"] = ["A", *(str(row % 5) for row in range(ROWS - 1))]  # codes that the user lists
    assert warned(one_hot=["who"]) == []
    assert "'A' is no number" in warned(one_hot=True)[0]


def test_a_missing_cell_is_no_value_of_a_one_hot_column():
    assert "each of its 4 values" in _way_out("c", ["a", "b", "c", "d", None], {"a", "b", "c", "d"})


def test_a_column_of_too_many_values_names_the_cell_that_is_no_number(tmp_path):
    rows = MOST_VALUES + 5
    table = pd.DataFrame({"income": ["?", *map(str, range(1, rows))], "risk": np.arange(rows) % 2})
    with pytest.raises(
        InputError, match=r"most of its cells are numbers, but .*: column 'income', line 2: '\?' is no number"
    ):
        sampled(tmp_path, table, one_hot=True)


def test_validate_looks_into_the_table_and_prints_the_hash_of_the_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """
    name = "own"
    replicates = 1
    engine = "vectorised"
    [population]
    kind = "table"
    path = "own.csv"
    label = "risk"
    one_hot = true
    [clusters]
    kind = "kmeans"
    count = 4
    min_size = 15
    [mechanism]
    flip_prob = 0.1
    sampling_rate = 0.5
    """
    (tmp_path / "own.toml").write_text(text)
    status, _, err = command("validate", "own.toml")
    assert (status, "population.path = 'own.csv': no such file" in err) == (2, True)
    hashes = []
    for table in (frame(), spoilt("age", 3, 99)):
        table.to_csv("own.csv", index=False)
        status, out, err = command("validate", "own.toml")
        assert status == 0
        assert "p2p-sim: warning: own.toml: population: column 'income' varies" in err
        assert "own.csv: 60 rows; 3 columns make 5 features" in out
        assert "classes of 'risk' (sorted; population.classes states another order): 0 = high (33.3%), 1 = low" in out
        assert "asked for; clusters of fewer than min_size = 15 users are merged)" in out
        hashes.append(out.split("ok, hash ")[1].split()[0])
    assert hashes[0] != hashes[1]
    status, out, err = command("run", "own.toml")
    assert f"results/own-{hashes[1]}/rows.jsonl" in out.splitlines()
    assert "4 asked for; clusters of fewer than" in " ".join(out.split())
    assert err.count("varies") == 1
    status, _, err = command("validate", "own.toml", "--set", 'population.label="illness"')
    assert (status, "population.label = 'illness': own.csv has 'age', 'income'" in err) == (2, True)
    (tmp_path / "sweep.toml").write_text('name = "s"\nbase = "own.toml"\n[[axes]]\nkey = "population.label"\nvalues = '
                                         '["risk", "city", "illness"]\n')  # fmt: skip
    status, _, err = command("validate", "sweep.toml")
    assert (status, "'illness'" in err) == (2, True)


def test_validate_does_not_need_the_data_of_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("P2P_SIM_DATA", raising=False)
    tree = {"name": "m", "population": {"kind": "mnist"}, "mechanism": EXCHANGE}
    [line] = examined(Replicate(Scenario.from_tree(tree)))
    assert line.startswith("without its data there is no hash: population.kind = 'mnist': no file")
    chosen = Scenario.from_tree({**tree, "population": {"kind": "digits"}})
    assert examined(Replicate(chosen)) == [f"hash {identity(chosen)[:8]}"]


def test_fewer_clusters_than_asked_for_are_explained(tmp_path):
    frame().to_csv(tmp_path / "own.csv", index=False)
    clusters = KMeansClusters(count=4, min_size=15)
    config = TableConfig(path="own.csv", label="risk", one_hot=True)
    made = len(build_population(config, clusters, (tmp_path,), STREAMS).cluster_sizes)
    assert made < 4
    assert clusters.shortfall(made) == "4 asked for; clusters of fewer than min_size = 15 users are merged"
    assert clusters.shortfall(4) == ""
