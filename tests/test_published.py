"""The published studies at reduced size."""

import pandas as pd
import pytest

from docs.published import clustering_figure1


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
