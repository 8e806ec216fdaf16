"""The published studies at reduced size."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from analysis import clustering_choices as clustering_choices
from analysis import clustering_figure1 as clustering_figure1
from analysis import consistency as consistency
from analysis import curators as curators
from analysis import heterogeneity as clustering_synthetic
from analysis import learners as learners
from analysis import vector as vector
from analysis import vector_tables as vector_tables
from analysis.advantage import __main__ as advantage
from analysis.comparison import __main__ as comparison
from docs import make_clustering_figures


@pytest.mark.slow
def test_the_comparison_of_all_mechanisms(tmp_path, frame):
    figure, table = comparison.main(frame)
    assert figure.stat().st_size > 20_000
    points = pd.read_csv(table)
    assert set(points["mechanism"]) == {label for labels in comparison.TRUST.values() for label in labels}
    assert (points["epsilon_upper"] <= points["mechanism.target_epsilon"] * (1 + 1e-9)).all()
    assert points["relative_accuracy"].between(0.05, 1.1).all()
    for heading, labels in comparison.TRUST.items():
        assert all(trust in heading for trust in points[points["mechanism"].isin(labels)]["trust"].unique())
    assert (frame.out / "synthetic" / "models.parquet").is_file()


@pytest.mark.slow
def test_the_comparison_by_what_is_learned_of_a_label(tmp_path, frame):
    figure, table = advantage.main(frame)
    assert figure.stat().st_size > 20_000
    points = pd.read_csv(table)
    assert set(points["mechanism"]) == {label for labels in comparison.TRUST.values() for label in labels}
    assert (points["advantage"] <= points["advantage_of_statement"] * (1 + 1e-9)).all()
    assert points["advantage"].between(1e-6, 0.5).all()
    local = points[points["mechanism"] == "randomised response"]["advantage"]
    assert local.to_numpy() == pytest.approx(math.tanh(0.5) / 2.0, abs=1e-6)
    again = advantage.main(replace(frame, out=tmp_path / "again"))[1]
    assert pd.read_csv(again).equals(points)


@pytest.mark.slow
def test_what_learners_gain_that_know_the_noise(frame):
    figure, table, gaps = learners.main(frame)
    assert figure.stat().st_size > 20_000
    points, between = pd.read_csv(table), pd.read_csv(gaps)
    assert set(points["panel"]) == set(between["panel"]) == set(learners.PANELS)
    assert (points["epsilon_upper"] <= points["mechanism.target_epsilon"] * (1 + 1e-9)).all()
    assert points["accuracy"].between(0.05, 1.0).all()
    line = between[(between["panel"] == "synthetic") & (between["learner"] == "forward")].iloc[0]
    of = points[(points["panel"] == "synthetic") & (points[learners.EPSILON] == line[learners.EPSILON])]
    mean = of.set_index(["mechanism", "learner"])["accuracy"]
    gain = mean[learners.EXCHANGE, "forward"] - mean[learners.EXCHANGE, learners.PLAIN]
    assert line["gain"] == pytest.approx(gain, abs=1e-5)
    assert line["to_same"] == pytest.approx(
        mean[learners.LOCAL, "forward"] - mean[learners.EXCHANGE, "forward"], abs=1e-5
    )
    plain = between[between["learner"] == learners.PLAIN]
    assert (plain["gain"] == 0).all()
    assert plain["to_plain"].to_numpy() == pytest.approx(plain["to_same"].to_numpy())


@pytest.mark.slow
def test_figure_1_of_the_clustering_paper_on_digits(tmp_path, frame, monkeypatch):
    monkeypatch.setattr(clustering_figure1, "PANELS", {"mnist": "digits, ten classes", "even-odd": "even against odd"})
    figure, table = clustering_figure1.main(frame)
    assert figure.stat().st_size > 20_000
    points = pd.read_csv(table)
    assert set(points["panel"]) == {"mnist", "even-odd", "clusters"}
    assert points["relative_accuracy"].between(0.05, 1.1).all()
    honest = points[~points["mechanism"].str.contains("printed") & points["mechanism.target_epsilon"].notna()]
    assert (honest["epsilon_upper"] <= honest["mechanism.target_epsilon"] * (1 + 1e-9)).all()
    printed = points[points["mechanism"].str.contains("printed")]
    assert printed["epsilon_upper"].to_numpy() == pytest.approx(3.0 * printed["mechanism.target_epsilon"].to_numpy())
    assert (frame.out / "mnist" / "manifest.json").is_file()


@pytest.mark.slow
def test_the_mechanisms_on_a_known_law(tmp_path, frame):
    figure, table = clustering_synthetic.main(frame)
    assert figure.stat().st_size > 20_000
    points = pd.read_csv(table)
    assert (points["epsilon_upper"] <= points["mechanism.target_epsilon"] * (1 + 1e-9)).all()
    floor = points[points["mechanism"].str.contains("exchange")]["excess_risk_floor"]
    assert floor.notna().all()


@pytest.mark.slow
def test_choices_of_the_clustering_guide_on_digits(tmp_path, frame):
    [table] = clustering_choices.main(frame)
    points = pd.read_csv(table)
    assert points["panel"].tolist() == ["debiased"] + ["guess"] * 4
    assert (points["epsilon_upper"] <= points[clustering_choices.EPSILON].fillna(1.0) * (1 + 1e-9)).all()
    assert points["accuracy"].between(0.1, 1.0).all()
    assert points["nonprivate_accuracy"].min() > 0.8


@pytest.mark.slow
def test_the_tables_of_the_guide_to_label_mechanisms(tmp_path, frame, monkeypatch):
    monkeypatch.setattr(vector_tables, "SWEEPS", ("vectors.toml", "vector/exchange-kmeans.toml"))
    [table] = vector_tables.main(frame)
    points = pd.read_csv(table)
    assert points["panel"].value_counts().to_dict() == {"vectors": 8, "exchange-kmeans": 6}
    assert (points["epsilon_upper"] <= points[vector_tables.EPSILON].fillna(1.0) * (1 + 1e-9)).all()
    assert points["accuracy"].between(0.0, 1.0).all()
    sent = points[points["mechanism"].str.startswith("exchanged")]
    assert (sent["epsilon_local"] > sent["epsilon_upper"]).all()  # more loudly than on one's own
    assert all((frame.out / panel / "rows.parquet").is_file() for panel in points["panel"].unique())


@pytest.mark.slow
@pytest.mark.figures
def test_the_synthetic_study_of_the_vector_approximation_paper(tmp_path, frame, monkeypatch):
    monkeypatch.setattr(vector, "SPREADS", {"scaled": "σ = 2/K"})
    written = vector.main(frame)
    assert [path.name for path in written] == ["table.csv", "theorem2.csv", "synthetic.png", "theorem2.png"]
    assert all(path.stat().st_size > 20_000 for path in written[2:])
    table, bounds = (pd.read_csv(path) for path in written[:2])
    assert len(table) == 32
    assert (table["epsilon_upper"] <= table["mechanism.target_epsilon"] * (1 + 1e-9)).all()
    assert table["nonprivate_accuracy"].mean() > table["accuracy"].mean()
    # 1,000 rows of the holdout twice, ten standard errors of an accuracy: Bayes' rule is not beaten (1e-9 a point)
    assert (table["accuracy"] < table["bayes_accuracy"] + 10 * 0.5 / 2000**0.5).all()
    assert (bounds["excess"] <= bounds["bound"]).all()
    assert len(bounds) == 8


@pytest.mark.slow
def test_the_consistency_study(frame):
    *figures, table = consistency.main(frame, sizes=(1000,), replicates=2)
    assert all(figure.stat().st_size > 20_000 for figure in figures)
    points = pd.read_csv(table)
    assert len(points) == 9 * 3 + 1
    assert (points["replicates"] == 2).all()
    assert points["value"].between(0.0, 1.0).all()
    assert (points[points["method"] != consistency.NONPRIVATE]["epsilon_upper"] <= 1.0).all()
    rows = pd.read_parquet(frame.out / "rows.parquet")
    [*first] = consistency._density_rows("normal", 1000, 0)
    kept = rows[(rows["law"] == "normal") & (rows["replicate"] == 0)].set_index("method")["value"]
    assert {row.method: row.value for row in first} == kept.to_dict()
    assert (frame.out / "manifest.json").is_file()


@pytest.mark.slow
def test_the_figures_of_the_clustering_guide_come_with_their_numbers(tmp_path):
    make_clustering_figures.main(tmp_path, small=True)
    points = pd.read_csv(tmp_path / "label-association.csv").set_index(["panel", "curve", "x"])["y"]
    known = points.loc[["ε = 1", "ε = 3"]].xs("exact maximum", level="curve")
    assert set(known.index) == {(f"ε = {epsilon}", x) for epsilon in (1, 3) for x in (0.5, 0.2)}
    for point, largest in known.items():
        assert points[point[0], "Theorem 5's proof: e^ε s/(K-s)", point[1]] >= largest
        assert 0.0 < points[point[0], "randomised response", point[1]] < largest
    terms = pd.read_csv(tmp_path / "theory-terms.csv")
    fitted = terms[terms["constant"].notna()]
    assert (fitted["constant_low"] <= fitted["constant_high"]).all()
    known = fitted[fitted["term"].str.startswith("τ")]["constant"].tolist()
    assert known == pytest.approx([0.45, 0.5], rel=1e-3)  # by design, and exactly half of τ² twice
    assert (fitted["replicates"] == 5).all()


@pytest.mark.slow
def test_what_curators_claim(frame):
    figure, table, claims = curators.main(frame)
    assert figure.stat().st_size > 20_000
    points, lines = pd.read_csv(table), pd.read_csv(claims)
    assert set(points["panel"]) == set(curators.PANELS)
    assert (points["epsilon_upper"] <= points[curators.EPSILON] * (1 + 1e-9)).all()
    assert points["accuracy"].between(0.05, 1.0).all()
    mean = points.set_index(["panel", curators.EPSILON, "mechanism"])["accuracy"]
    assert len(lines) >= 4
    for line in lines.to_dict("records"):
        at = line["panel"], line[curators.EPSILON]
        assert line["difference"] == pytest.approx(mean[*at, line["first"]] - mean[*at, line["second"]], abs=1e-5)


def test_a_verdict_follows_the_claimed_sign():
    def verdicts(pro, other):
        rows = pd.DataFrame(
            [
                {curators.EPSILON: epsilon, "replicate": i, "mechanism": name, "error_rate": error + 0.001 * i}
                for epsilon in (0.2, 2.0)
                for name, error in ((curators.PRO, pro), (curators.RESPONSE, other))
                for i in (0, 1)
            ]
        )
        return [line["verdict"] for line in curators.judged(rows)]

    assert verdicts(0.1, 0.5) == [curators.HOLDS, curators.FAILS]  # the paper's order turns round at ε = 2
    assert verdicts(0.5, 0.1) == [curators.FAILS, curators.HOLDS]
