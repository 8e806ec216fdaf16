"""The published studies at reduced size."""

import pandas as pd
import pytest

from docs.published import clustering_figure1, consistency


def test_figure_1_of_the_clustering_paper_on_digits(tmp_path, monkeypatch):
    monkeypatch.setattr(clustering_figure1, "PANELS", {"mnist": "digits, ten classes", "even-odd": "even against odd"})
    figure, table = clustering_figure1.main(tmp_path / "out", tmp_path / "work", None, workers=1, small=True)
    assert figure.stat().st_size > 20_000
    points = pd.read_csv(table)
    assert set(points["panel"]) == {"mnist", "even-odd", "clusters"}
    assert points["relative_accuracy"].between(0.05, 1.1).all()
    honest = points[~points["mechanism"].str.contains("printed") & points["mechanism.target_epsilon"].notna()]
    assert (honest["epsilon_upper"] <= honest["mechanism.target_epsilon"] * (1 + 1e-9)).all()
    printed = points[points["mechanism"].str.contains("printed")]
    assert printed["epsilon_upper"].to_numpy() == pytest.approx(3.0 * printed["mechanism.target_epsilon"].to_numpy())
    assert (tmp_path / "out" / "mnist" / "manifest.json").is_file()


def test_the_consistency_study(tmp_path):
    *figures, table = consistency.main(tmp_path, workers=1, sizes=(1000,), replicates=2)
    assert all(figure.stat().st_size > 20_000 for figure in figures)
    points = pd.read_csv(table)
    assert len(points) == 9 * 3
    assert (points["replicates"] == 2).all()
    assert points["value"].between(0.0, 1.0).all()
    assert (points[points["method"] != consistency.NONPRIVATE]["epsilon_upper"] <= 1.0).all()
    rows = pd.read_parquet(tmp_path / "rows.parquet")
    [*first] = consistency._density_rows("normal", 1000, 0)
    kept = rows[(rows["law"] == "normal") & (rows["replicate"] == 0)].set_index("method")["value"]
    assert {row.method: row.value for row in first} == kept.to_dict()
    assert (tmp_path / "manifest.json").is_file()
