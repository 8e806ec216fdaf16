"""The published study of private stacking at reduced size."""

import pandas as pd
import pytest

from docs.published import stacking
from docs.published.stacking_methods import METHODS, OVERSPENT, TRANSFER


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(stacking, "EPSILONS", (1.0, 4.0))
    monkeypatch.setattr(stacking, "COUNTS", (2, 5))
    monkeypatch.setattr(stacking, "SKEWS", (0.9, 1.1))
    monkeypatch.setattr(stacking, "PENALTIES", (0.01, 0.1))
    monkeypatch.setattr(stacking, "TUNING", 1)


def test_the_study_on_stand_ins(tmp_path, quick):
    figures = stacking.main(tmp_path, None, replicates=2, workers=1, small=True)
    assert all(path.stat().st_size > 20_000 for path in figures)
    rows = pd.read_parquet(tmp_path / "rows.parquet")
    assert set(rows["study"]) == {"epsilon", "no privacy", "groups", "importance", "combiner", "transfer"}
    assert set(rows.loc[rows["study"] == "epsilon", "method"]) == set(METHODS)
    assert set(rows.loc[rows["study"] == "transfer", "method"]) == set(TRANSFER)
    assert rows["auc"].between(0.0, 1.0).all()
    honest = rows[rows["method"] != OVERSPENT]
    assert (honest["epsilon_upper"] <= honest["epsilon"] * (1 + 1e-9)).all()
    assert (rows.loc[rows["method"] == OVERSPENT, "epsilon_upper"] > 4.0).all()
    assert {"manifest.json", "table.csv", "differences.csv"} <= {path.name for path in tmp_path.iterdir()}
