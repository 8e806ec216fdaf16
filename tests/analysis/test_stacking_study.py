"""The published study of private stacking at reduced size."""

import pandas as pd
import pytest

from analysis.stacking import __main__ as stacking
from analysis.stacking.estimators import METHODS, OVERSPENT, TRANSFER, BenchmarkPoint, benchmark_row
from analysis.stacking.organisation_data import heart, mnist, news20
from p2p_sim.base.streams import Streams


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(stacking, "EPSILONS", (1.0, 4.0))
    monkeypatch.setattr(stacking, "COUNTS", (2, 5))
    monkeypatch.setattr(stacking, "SKEWS", (0.9, 1.1))
    monkeypatch.setattr(stacking, "PENALTIES", (0.01, 0.1))
    monkeypatch.setattr(stacking, "TUNING", 1)


@pytest.mark.slow
@pytest.mark.figures
def test_the_study_on_stand_ins(frame, quick):
    figures = stacking.main(frame, replicates=2)
    assert all(path.stat().st_size > 20_000 for path in figures)
    rows = pd.read_parquet(frame.out / "rows.parquet")
    assert set(rows["study"]) == {"epsilon", "no privacy", "groups", "importance", "combiner", "transfer"}
    assert set(rows.loc[rows["study"] == "epsilon", "method"]) == set(METHODS)
    assert set(rows.loc[rows["study"] == "transfer", "method"]) == set(TRANSFER)
    assert rows["auc"].between(0.0, 1.0).all()
    honest = rows[rows["method"] != OVERSPENT]
    assert (honest["epsilon_upper"] <= honest["epsilon"] * (1 + 1e-9)).all()
    assert (rows.loc[rows["method"] == OVERSPENT, "epsilon_upper"] > 4.0).all()
    assert {"manifest.json", "table.csv", "differences.csv"} <= {path.name for path in frame.out.iterdir()}


@pytest.mark.data
def test_the_data_sets_of_the_study(data_dir):
    """Sizes as documented, and a public model that works: AUC of PLR without noise."""
    digits, news, hospitals = mnist(data_dir), news20(data_dir), heart(data_dir)
    assert [len(part[1]) for part in (digits.private, digits.public)] == [5_000, 8_728]
    assert [len(part[1]) for part in (news.private, news.public, news.test)] == [3_325, 1_000, 2_880]
    assert [(len(y), int(y.sum())) for _, y in hospitals.data] == [(303, 139), (294, 106), (123, 115), (200, 149)]
    for data, least in ((digits, 0.99), (news, 0.95)):
        streams = Streams(0, 0)
        row = benchmark_row("PLR", data, data.draw(streams), BenchmarkPoint(float("inf"), 0.01), streams)
        assert row["auc"] > least
