"""Where a whole row is private, no key may let a user's features or label depend on the rows of others."""

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.audit.organisations_attack import audit_organisations
from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.organisations_config import PrivateStackingConfig
from p2p_sim.population.branches import HeartConfig
from p2p_sim.population.synthetic import SyntheticConfig
from p2p_sim.population.table import TableConfig
from p2p_sim.replicate.replicate import Replicate
from tests.commands import command

LOOK_AT_ALL_ROWS = {
    TableConfig: {"drop", "impute", "one_hot", "standardise", "proposed"},
    HeartConfig: set(),
    SyntheticConfig: set(),
}
"""Keys of the populations for private rows that may look at all rows; with `row_by_row`, every key is on one list."""


def table(tmp_path, **changes):
    """Two organisations of 40 rows each; `changes` replaces cells of row 11."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({
        "age": rng.integers(20, 80, 80), "city": rng.choice(["a", "b"], 80), "clinic": np.repeat([0, 1], 40),
        "ill": rng.integers(0, 2, 80),
    })  # fmt: skip
    for column, value in changes.items():
        frame.loc[11, column] = value
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
    frame.to_csv(path, index=False)
    return path


def tree(path, **keys):
    keys = {"label": "ill", "cluster": "clinic", "features": ["age"], "classes": [0, 1], **keys}
    return {
        "name": "clinics", "replicates": 1, "population": {"kind": "table", "path": str(path), **keys},
        "mechanism": {"kind": "private_stacking", "epsilon": 1.0},
    }  # fmt: skip


def unlisted(model):
    return set(model.model_fields) - {"kind"} - model.row_by_row - LOOK_AT_ALL_ROWS[model]


@pytest.mark.parametrize("model", LOOK_AT_ALL_ROWS)
def test_every_key_is_on_one_list(model):
    assert unlisted(model) == set()
    assert not model.row_by_row & LOOK_AT_ALL_ROWS[model]
    assert model.row_by_row | LOOK_AT_ALL_ROWS[model] <= set(model.model_fields)


def test_a_new_key_that_nobody_lists_is_seen_and_refused():
    class Planted(TableConfig):
        whiten: bool = False

    LOOK_AT_ALL_ROWS[Planted] = LOOK_AT_ALL_ROWS[TableConfig]
    try:
        assert unlisted(Planted) == {"whiten"}
    finally:
        del LOOK_AT_ALL_ROWS[Planted]
    keys = {"path": "x.csv", "label": "y", "classes": (0, 1)}
    assert Planted(**keys).looks_at_all_rows is None
    assert Planted(**keys, whiten=True).looks_at_all_rows == "population.whiten"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"standardise": True}, "population.standardise: looks at all rows"),
        ({"standardise": ["age"]}, "population.standardise: looks at all rows"),
        ({"impute": True}, "population.impute: looks at all rows"),
        ({"drop": True}, "population.drop: looks at all rows"),
        ({"one_hot": True}, "population.one_hot: looks at all rows"),
        ({"classes": None}, "population.classes, which is absent"),
        ({"proposed": True}, "population.proposed: keys were chosen by looking at the rows"),
    ],
)
@pytest.mark.parametrize("kind", ["private_stacking", "hypothesis_transfer"])
def test_what_looks_at_all_rows_is_refused_in_one_line(tmp_path, keys, line, kind):
    asked = tree(table(tmp_path), **keys)
    asked["mechanism"]["kind"] = kind
    asked["population"] = {key: value for key, value in asked["population"].items() if value is not None}
    with pytest.raises(InputError, match=line) as refused:
        p2p_sim.Scenario.from_tree(asked)
    assert "\n" not in str(refused.value)
    assert "public constants" in str(refused.value)


def test_with_private_labels_alone_the_same_keys_are_taken(tmp_path):
    asked = tree(table(tmp_path), standardise=True)
    asked["mechanism"] = {"kind": "randomized_response", "flip_prob": 0.1}
    p2p_sim.Scenario.from_tree(asked)


def features(path, **keys):
    """Features (n, d) and the users' rows in the file, in the order of the file."""
    config = TableConfig(path=str(path), label="ill", cluster="clinic", **{"features": ("age",), **keys})
    users = config.sample((), Streams(1, 0)).users
    order = np.argsort(users.row)
    return users.features[order], users.row[order]


def changed_elsewhere(tmp_path, keys, **changes):
    """Whether a change of row 11 moves the features, or the choice, of any other row."""
    here, there = (features(path, **keys) for path in (table(tmp_path), table(tmp_path, **changes)))
    if not np.array_equal(here[1], there[1]):
        return True
    others = here[1] != 11
    assert not others.all()
    return here[0].shape != there[0].shape or not np.array_equal(here[0][others], there[0][others])


def test_a_row_that_is_replaced_changes_no_other_row(tmp_path):
    for keys in ({}, {"scale": {"age": (50.0, 15.0)}}, {"users": 60}):
        assert not changed_elsewhere(tmp_path, keys, age=10**6, ill=1)
    # controls: what is refused does change other rows
    assert changed_elsewhere(tmp_path, {"standardise": True}, age=10**6)
    assert changed_elsewhere(tmp_path, {"features": ("city",), "one_hot": True}, city="c")
    assert changed_elsewhere(tmp_path, {"drop": True}, age=np.nan)


def test_columns_that_are_proposed_from_the_rows_are_refused(tmp_path):
    """One row decides whether a column looks like an identifier, and so the dimension of the released model."""
    frame = pd.read_csv(table(tmp_path)).assign(number=np.random.default_rng(1).permutation(80) * 7)
    other = frame.copy()
    other.loc[11, "number"] = other.loc[12, "number"]
    keys = {"cluster": "clinic", "standardise": False, "one_hot": False, "impute": False}
    tables = [p2p_sim.table(rows.drop(columns="city"), "ill", **keys) for rows in (frame, other)]
    assert tables[0].features != tables[1].features
    for proposal in tables:
        asked = {**tree("x"), "population": proposal.model_dump(mode="json", exclude_defaults=True) | {"kind": "table"}}
        with pytest.raises(InputError, match=r"population\.proposed"):
            p2p_sim.Scenario.from_tree(asked)
    stated = p2p_sim.table(frame, "ill", **keys, features=["age"], classes=[0, 1], proposed=False)
    assert stated.looks_at_all_rows is None


def test_public_constants_scale_a_column(tmp_path):
    path = table(tmp_path)
    plain, _ = features(path)
    scaled, _ = features(path, scale={"age": (50.0, 15.0)})
    np.testing.assert_allclose(scaled, (plain - 50.0) / 15.0)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"scale": {"age": [50.0, 0.0]}}, "the spread of 'age' is 0; it must be above 0"),
        ({"scale": {"ill": [0.0, 1.0]}}, "scale: 'ill' is the label"),
        ({"scale": {"city": [0.0, 1.0]}}, "population.scale: 'city' is not among the features"),
        ({"scale": {"age": [0.0, 1.0]}, "standardise": ["age"]}, "'age' is in one_hot or standardise too"),
    ],
)
def test_constants_that_make_no_sense_are_refused(tmp_path, keys, line):
    with pytest.raises(InputError, match=line):
        p2p_sim.run(p2p_sim.Scenario.from_tree(tree(table(tmp_path), **keys)), replicate=0)


def test_a_scenario_of_a_table_runs_with_public_constants(tmp_path):
    row = p2p_sim.run(p2p_sim.Scenario.from_tree(tree(table(tmp_path), scale={"age": [50.0, 15.0]})), replicate=0).row
    assert (row["adjacency"], row["epsilon_upper"] <= 1.0) == ("example", True)


def test_a_bound_of_whole_rows_needs_the_declaration(tmp_path, monkeypatch):
    monkeypatch.setattr(PrivateStackingConfig, "adjacency", "label")
    asked = p2p_sim.Scenario.from_tree(tree(table(tmp_path), standardise=True))
    with pytest.raises(RunFailed, match="its bound is of adjacency 'example'"):
        p2p_sim.run(asked, replicate=0)


def test_the_audit_replaces_a_whole_row(tmp_path, monkeypatch):
    asked = tree(table(tmp_path), features=["age", "city"], one_hot=["city"], scale={"age": [50.0, 15.0]})
    looks = TableConfig.row_by_row | LOOK_AT_ALL_ROWS[TableConfig]
    monkeypatch.setattr(TableConfig, "row_by_row", looks)  # planted: harmful keys on the list of harmless ones
    for keys in ({}, {"one_hot": False, "features": ["age"], "standardise": True, "scale": {}}):
        asked["population"] |= keys
        with pytest.raises(RunFailed, match="the row of one user changes the features of others"):
            audit_organisations(Replicate(p2p_sim.Scenario.from_tree(asked)), 100)
    sound = Replicate(p2p_sim.Scenario.from_tree(tree(table(tmp_path), scale={"age": [50.0, 15.0]})))
    assert audit_organisations(sound, 100).passed


def test_the_command_refuses_with_status_2(tmp_path):
    path = tmp_path / "clinics.toml"
    path.write_text(
        'name = "clinics"\n[population]\nkind = "table"\n'
        f'path = "{table(tmp_path)}"\nlabel = "ill"\ncluster = "clinic"\nclasses = [0, 1]\nstandardise = true\n'
        '[mechanism]\nkind = "private_stacking"\nepsilon = 1.0\n'
    )
    status, _, err = command("validate", path)
    assert status == 2
    assert "population.standardise: looks at all rows, but a whole row is private" in err
