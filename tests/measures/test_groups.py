"""Accuracy by group: who is in which group, what a row says of it, and that an unfair learner is seen."""

import json
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from analysis import groups as study
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.learning.metrics import by_group, measured, predict
from p2p_sim.measures.group_gaps import Group, extra_loss, figure_of, groups_of
from p2p_sim.measures.intervals import mean_interval
from p2p_sim.measures.point_means import derived
from p2p_sim.mechanisms.outcome import ByCluster
from p2p_sim.population.digits_and_adult import DigitsConfig
from p2p_sim.population.measured_groups import Grouping, by_size, nearest_cluster
from p2p_sim.population.population import Examples, FiniteLaw, Population
from p2p_sim.replicate.replicate import Replicate, streams
from p2p_sim.replicate.streamed import row_alone
from p2p_sim.report.results_report import write_report
from tests.commands import command
from tests.conftest import ROOT

LAW = {
    "name": "t",
    "replicates": 3,
    "engine": "vectorised",
    "population": {"kind": "synthetic", "users": 400, "num_clusters": 5},
    "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5},
}
BOTH = ["class", "cluster_size"]


@dataclass(frozen=True)
class Says:
    """A predictor of two classes whose answer is a column of the features."""

    column: int

    def probabilities(self, features):
        return np.eye(2)[features[:, self.column].astype(int)]


def judged(rng, wrong_for, rate, rows=600):
    """The columns of a row where the private model errs at a rate in some groups; without privacy it errs nowhere."""
    labels, group = rng.integers(0, 2, rows).astype(np.uint8), rng.integers(0, 3, rows)
    wrong = np.isin(group, wrong_for) & (rng.random(rows) < rate)
    held = Examples(np.stack([labels ^ wrong, labels], axis=1).astype(float), labels)
    kinds = {"town": Grouping(("a", "b", "c"), group)}
    people = Population(held.features, labels, np.array([0, rows]), 2, held, groupings=kinds)
    found = predict(people, Says(0), Says(1))
    return {"error_rate": measured(found).error_rate, "nonprivate_error_rate": 0.0, **by_group(found, ("town",))}


@pytest.mark.parametrize(("wrong_for", "rate", "seen"), [([1], 0.4, {"b"}), ([0, 1, 2], 0.4, set())])
def test_a_learner_that_is_wrong_for_one_group_is_seen_and_a_fair_one_is_not(wrong_for, rate, seen):
    """A false alarm has the probability 1e-9 a group; a difference of 0.4 in 200 rows and 20 replicates is found."""
    rng = np.random.default_rng(7)
    rows = pd.DataFrame([judged(rng, wrong_for, rate) for _ in range(20)])
    extra = {group.name: mean_interval(extra_loss(rows, group), 1.0 - 1e-9) for group in groups_of(rows)}
    assert {name for name, mean in extra.items() if mean.low > 0.0} == seen
    assert all(mean.low < 0.0 for name, mean in extra.items() if name not in seen)


def test_what_a_group_loses_beyond_the_others_is_counted_by_hand():
    held = Examples(np.array([[0, 0], [1, 1], [1, 0], [0, 0], [1, 0.0]]), np.array([0, 1, 0, 0, 0], np.uint8))
    kinds = {"town": Grouping(("a", "b", "c"), np.array([0, 0, 1, 1, -1]))}
    people = Population(held.features, held.labels, np.array([0, 5]), 2, held, groupings=kinds)
    found = predict(people, Says(0), Says(1))
    row = {"error_rate": 0.4, "nonprivate_error_rate": 0.0, **by_group(found, ("town", "class"))}
    assert measured(found).error_rate == 0.4
    assert [row[f"error_rate[town={name}]"] for name in "abc"] == [0.0, 0.5, None]
    assert [row[f"share[town={name}]"] for name in "abc"] == [0.4, 0.4, 0.0]
    assert [row[f"error_rate[class={k}]"] for k in "01"] == [0.5, 0.0]
    table = pd.DataFrame([row])
    assert extra_loss(table, Group("town", "b"))[0] == pytest.approx(0.5 - 1.0 / 3.0)
    assert extra_loss(table, Group("town", "c")).isna().all()
    assert derived(table)["excess_error_rate[town=b]"][0] == 0.5
    alone = by_group(predict(people, Says(0), None), ("class",))
    assert alone["nonprivate_error_rate[class=0]"] is None
    assert alone["error_rate[class=0]"] == 0.5


def test_errors_under_a_law_are_exact():
    law = FiniteLaw(
        np.array([[0.0], [1.0], [0.0]]), np.array([0.5, 0.3, 0.2]), np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]),
        np.array([0, 1, 1]),
    )  # fmt: skip
    kinds = {"town": Grouping(("a", "b"), np.array([0, 1, 1]))}
    people = Population(law.points, np.zeros(3, np.uint8), np.array([0, 3]), 2, law=law, groupings=kinds)
    found = by_group(predict(people, Says(0), None), ("class", "town"))
    assert found["share[class=1]"] == pytest.approx(0.05 + 0.24 + 0.1)
    assert found["error_rate[class=1]"] == pytest.approx((0.05 + 0.1) / 0.39)
    assert found["error_rate[class=0]"] == pytest.approx(0.06 / 0.61)
    assert found["error_rate[town=b]"] == pytest.approx((0.06 + 0.1) / 0.5)


def test_thirds_of_the_users_by_the_size_of_their_cluster():
    sizes = np.array([40, 10, 10, 10, 30, 20])
    of = by_size(sizes, np.array([0, 1, 2, 3, 4, 5, -1])).of
    assert of.tolist() == [2, 0, 0, 0, 1, 1, -1]
    assert by_size(np.array([7, 7, 7]), np.array([0, 1, 2])).of.tolist() == [1, 1, 1]


def test_a_row_is_in_the_cluster_whose_mean_is_nearest():
    rng = np.random.default_rng(1)
    users, rows, offsets = rng.normal(size=(30, 4)), rng.normal(size=(50, 4)), np.array([0, 7, 12, 30])
    means = np.stack([users[a:b].mean(axis=0) for a, b in pairwise(offsets)])
    slow = [int(np.argmin([np.sum((row - mean) ** 2) for mean in means])) for row in rows]
    assert nearest_cluster(rows, users, offsets).tolist() == slow


def test_the_clusters_of_a_law_are_its_own_and_those_of_kmeans_are_near(tmp_path):
    tree = {**LAW, "groups": ["cluster_size"]}
    people = Replicate(p2p_sim.Scenario.from_tree(tree)).people()
    sizes = people.cluster_sizes
    assert people.groupings["cluster_size"].of.tolist() == by_size(sizes, people.law.cluster).of.tolist()
    merged = Replicate(p2p_sim.Scenario.from_tree({**tree, "clusters": {"kind": "kmeans", "count": 3}})).people()
    of = by_size(merged.cluster_sizes, nearest_cluster(merged.law.points, merged.features, merged.cluster_offsets)).of
    assert merged.groupings["cluster_size"].of.tolist() == of.tolist()


def test_a_scenario_without_groups_keeps_its_identity_and_with_them_its_other_columns():
    plain, asked = p2p_sim.Scenario.from_tree(LAW), p2p_sim.Scenario.from_tree({**LAW, "groups": BOTH})
    assert "groups" not in plain.model_dump()
    assert plain.replace(groups=[]).content_hash() == plain.content_hash() != asked.content_hash()
    without, row = p2p_sim.run(plain).row, p2p_sim.run(asked).row
    kept = {name: cell for name, cell in row.items() if figure_of(name) is None}
    assert {**kept, "scenario": ""} == {**without, "scenario": ""}
    assert len(row) - len(kept) == 6 * (2 + 3)  # three figures, and three that follow from them
    for kind in BOTH:
        names = [group for group in groups_of(row) if group.kind == kind]
        for figure in ("error_rate", "nonprivate_error_rate"):
            parts = [row[g.column("share")] * row[g.column(figure)] for g in names if row[g.column("share")]]
            assert sum(parts) == pytest.approx(row[figure])


def test_rows_without_users_in_memory_have_the_same_figures_by_class():
    scenario = p2p_sim.Scenario.from_tree({**LAW, "groups": ["class"]})
    assert streams(scenario)
    assert row_alone(Replicate(scenario))[0].items() <= p2p_sim.run(scenario).row.items()
    assert not streams(scenario.replace(groups=BOTH))


@pytest.fixture
def own(tmp_path):
    """A table whose column "sex" is no feature, and a scenario that asks for it."""
    rng = np.random.default_rng(3)
    size = 300
    x, sex = rng.normal(size=size), np.array(["F", "M", None])[rng.integers(0, 3, size)]
    table = pd.DataFrame({"x": x, "sex": sex, "many": np.arange(size), "y": (x > 0).astype(int)})
    table.to_csv(tmp_path / "own.csv", index=False)
    tree = {
        **LAW,
        "population": {"kind": "table", "path": "own.csv", "label": "y", "features": ["x"]},
        "clusters": {"kind": "kmeans", "count": 3, "min_size": 20},
        "groups": ["sex", *BOTH],
    }
    return p2p_sim.Scenario.from_tree(tree, tmp_path)


def test_a_column_of_a_table_groups_its_held_out_rows(own, tmp_path):
    row = p2p_sim.run(own, 1).row
    table = pd.read_csv(tmp_path / "own.csv")
    held = table.iloc[DigitsConfig().held_out(len(table), Streams(1, 1))[1]]
    shares = held["sex"].fillna("missing").value_counts(normalize=True)
    assert [row[f"share[sex={name}]"] for name in ("F", "M", "missing")] == list(shares[["F", "M", "missing"]])
    assert row["share[class=1]"] == pytest.approx(held["y"].mean())


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ("height", "groups = 'height': must be 'class', 'cluster_size' or one of 'x', 'sex', 'many', 'y'"),
        ("many", "groups = 'many': the column has 300 different values; at most 50 are allowed"),
        ("y", "groups = 'y': is the label; 'class' groups by it"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(own, column, says):
    with pytest.raises(InputError) as caught:
        p2p_sim.run(own.replace(groups=[column]))
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("value", "says"),
    [('["sex"]', "groups = 'sex': must be one of 'class', 'cluster_size'"),
     ('["class", "class"]', "groups = 'class': is there twice"), ('"class"', "groups = \"class\": should be a valid")],
)  # fmt: skip
def test_unknown_groups_are_refused_in_one_line(tmp_path, monkeypatch, value, says):
    monkeypatch.chdir(tmp_path)
    status, _, err = command("run", ROOT / "scenarios" / "quickstart.toml", "--set", f"groups={value}")
    assert status == 2
    assert says in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_every_output_has_the_groups(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = p2p_sim.Scenario.from_tree({**LAW, "groups": BOTH})
    first = p2p_sim.run_all(scenario.replace(replicates=2), out=tmp_path / "there")
    rows = p2p_sim.run_all(scenario, out=tmp_path / "there")
    assert rows.iloc[:2].equals(first)
    assert p2p_sim.load_results(tmp_path / "there").equals(rows)
    loss = rows["nonprivate_accuracy[class=1]"] - rows["accuracy[class=1]"]
    assert rows["excess_error_rate[class=1]"].to_numpy() == pytest.approx(loss.to_numpy())
    text = write_report(tmp_path / "there").read_text()
    assert "Who pays?" in text
    assert all(f'<td data-v="{group}">{group}</td>' in text for group in ("class 0", "cluster_size small"))
    status, *_ = command("plot", "there", "--x", "epsilon_upper", "--y", "excess_error_rate[class=1]")
    assert status == 0
    assert len(list((tmp_path / "there").glob("plot-*"))) == 1


def test_the_command_prints_what_groups_lose(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("run", "synthetic", "--set", "replicates=2", "--set", "population.users=400", "--set", 'groups=["class"]',
             "--set", 'engine="vectorised"', "--out", "there")  # fmt: skip
    _, out, _ = command(*asked)
    assert "loss of accuracy, class 1" in out
    _, out, _ = command(*asked, "--json")
    found = json.loads(out)
    loss = p2p_sim.load_results("there")["excess_error_rate[class=1]"]
    assert found["excess_error_rate[class=1]"]["mean"] == pytest.approx(loss.mean())
    assert found["share[class=0]"]["interval_95"][0] == pytest.approx(found["share[class=0]"]["mean"])


def test_columns_that_are_missing_or_text_are_gaps(tmp_path):
    p2p_sim.run_all(p2p_sim.Scenario.from_tree({**LAW, "groups": ["class"]}), out=tmp_path / "there")
    lines = [json.loads(line) for line in (tmp_path / "there" / "rows.jsonl").read_text().splitlines()]
    for row in lines:
        del row["nonprivate_error_rate[class=0]"], row["share[class=0]"]
        row["error_rate[class=1]"] = "many"
    (tmp_path / "there" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    rows = p2p_sim.load_results(tmp_path / "there")
    assert rows["accuracy[class=0]"].notna().all()
    assert rows[["excess_error_rate[class=0]", "excess_error_rate[class=1]"]].isna().all(axis=None)
    assert "Who pays?" in write_report(tmp_path / "there").read_text()


def test_a_report_without_groups_has_no_such_section(tmp_path):
    p2p_sim.run_all(p2p_sim.Scenario.from_tree({**LAW, "replicates": 2}), out=tmp_path / "there")
    assert "Who pays?" not in write_report(tmp_path / "there").read_text()


def test_organisations_are_judged_by_group_on_their_own_rows():
    features, cluster = np.array([[1.0], [1.0], [1.0], [0.0]]), np.array([0, 1, 1, -1])
    held = Examples(features, np.array([1, 0, 1, 0], np.uint8), cluster)
    kinds = {"town": Grouping(("a", "b"), np.array([0, 0, 1, 1]))}
    people = Population(features, held.labels, np.array([0, 2, 4]), 2, held, groupings=kinds)
    found = by_group(predict(people, ByCluster({1: Says(0)}), None), ("town", "class"))
    assert found["error_rate[town=a]"] == 1.0
    assert found["error_rate[town=b]"] == 0.0
    assert found["share[class=1]"] == 0.5
    law = FiniteLaw(features, np.full(4, 0.25), np.eye(2)[held.labels], np.array([0, 1, 1, 0]))
    found = by_group(predict(replace(people, holdout=None, law=law), ByCluster({1: Says(0)}), None), ("town",))
    assert found["share[town=a]"] == 0.5
    assert found["error_rate[town=a]"] == 1.0


def test_sex_on_adult(data_dir):
    tree = {**LAW, "population": {"kind": "adult", "users": 500}, "groups": ["sex", "race"],
            "clusters": {"kind": "kmeans", "count": 4}}  # fmt: skip
    row = p2p_sim.run(p2p_sim.Scenario.from_tree(tree), data_dir=data_dir).row
    assert row["share[sex=Female]"] * 16_281 == pytest.approx(5_421)
    assert [group.name for group in groups_of(row) if group.kind == "race"] == [
        "Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White",
    ]  # fmt: skip


# the study


@pytest.mark.slow
@pytest.mark.figures
def test_who_pays_at_reduced_size(frame):
    figure, table = study.main(frame)
    assert figure.stat().st_size > 20_000
    found = pd.read_csv(table)
    assert set(found["mechanism"]) == set(study.MECHANISMS)
    assert (found["epsilon_upper"] <= found[study.EPSILON] * (1 + 1e-9)).all()
    assert study.intervals(found) == len(study.MECHANISMS) * (1 + 3)
    for _, part in found.groupby(["mechanism", "kind"]):
        whole = (part["share"] * part["excess_error_rate"]).sum()
        others = (whole - part["share"] * part["excess_error_rate"]) / (1.0 - part["share"])
        assert part["extra"].mean() == pytest.approx((part["excess_error_rate"] - others).mean(), abs=0.05)
    rows = pd.read_parquet(frame.out / "breast-cancer" / "rows.parquet")
    again = study.main(frame)[1]
    assert pd.read_csv(again).equals(found)
    assert pd.read_parquet(frame.out / "breast-cancer" / "rows.parquet").equals(rows)


def test_verdicts_follow_from_the_intervals():
    each = [np.array([0.1, 0.11, 0.09]), np.array([-0.1, -0.11, -0.09]), np.array([-0.1, 0.1, 0.0])]
    found = study._judged(pd.DataFrame({"each": each}), 0.95)
    assert found["verdict"].tolist() == [study.MORE, study.LESS, study.OPEN]
    wider = study._judged(pd.DataFrame({"each": each}), 0.9999)
    assert (wider["extra_low"] < found["extra_low"]).all()
    assert wider["verdict"].tolist() == [study.OPEN] * 3
