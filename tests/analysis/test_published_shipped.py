"""The study of the shipped scenarios at reduced size."""

import pandas as pd
import pytest

from analysis import shipped as shipped


@pytest.mark.slow
def test_the_shipped_study(frame):
    table, fits = (pd.read_csv(path) for path in shipped.main(frame))
    assert set(table["panel"]) == {"quickstart", "batch", "heterogeneity", "users"}
    points = table.set_index("panel")
    assert points.loc["quickstart", "epsilon_upper"] < 0.75
    assert 0.8 < points.loc["quickstart", "accuracy"] < points.loc["quickstart", "nonprivate_accuracy"]
    batch = points.loc["batch"]
    assert batch["epsilon_upper"] <= batch["epsilon_times_upper"] < batch["epsilon_local"]
    assert (points.loc[["heterogeneity", "users"], "replicates"] == 3).all()
    assert points.loc[["heterogeneity", "users"], "excess_risk_floor"].notna().all()
    assert (fits["misfit"].dropna() >= 0.0).all()
    assert list(fits["of"]) == ["φ", "fixed", "φ²", "fixed", "distance from the floor"]
