"""What the shipped scenarios and sweeps show, as the README and the guides say it: `make published`.

Run as `python -m analysis.shipped`; interrupted, it goes on where it stopped. Some ten CPU minutes.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.study import ROOT, Frame, Swept, command
from p2p_sim import load_scenario
from p2p_sim.base import Streams
from p2p_sim.measures import HIGH, LOW, POINT, by_replicate, fit_forms, log_log_slope, points
from p2p_sim.sweeps import run_point

NAME = "shipped"
RUNS = {"quickstart": ("quickstart.toml", ()), "batch": ("network/batch.toml", ("population.users=120",))}
"""Files, and what makes them small for the tests."""
PHI, USERS = "population.heterogeneity", "population.users"
COLUMNS = (PHI, "num_users", "flip_prob", "delta", "epsilon_upper", "epsilon_times_upper", "epsilon_local")
MEASURES = ("accuracy", "nonprivate_accuracy", "excess_risk", "excess_risk_floor")


def main(frame: Frame) -> list[Path]:
    """Runs two shipped scenarios and two shipped sweeps; writes their points and what is fitted to them, returns the
    files.
    """
    tables, fits = {}, []
    for name, (file, smaller) in RUNS.items():
        scenario = load_scenario(ROOT / "scenarios" / file, ("replicates=1", *smaller) if frame.small else ())
        tables[name] = points(run_point(scenario, frame.work / name).rows)
    for name in ("heterogeneity", "users"):
        swept = frame.swept(f"{name}.toml", ("replicates=3", "population.users=600"), keep=False)
        tables[name] = swept.points
        fits += (_forms if name == "heterogeneity" else _towards_floor)(swept, tables[name])
    return [frame.points(tables, COLUMNS, MEASURES), frame.table("fits.csv", fits)]


def _forms(swept: Swept, table: pd.DataFrame) -> list[dict[str, object]]:
    """Lines of the table of fits: both forms fitted to the excess risk against φ, as `p2p-sim plot` fits them, a
    constant each.
    """
    risk = by_replicate(swept.rows, "excess_risk").loc[table[POINT]].to_numpy()
    lines = []
    for fit in fit_forms(table, risk, Streams(swept.plan.base.seed, 0).generator("plot-bootstrap")):
        for symbol, estimate in fit.constants.items():
            lines.append({"sweep": swept.plan.name, "form": fit.name, "of": symbol, "value": estimate.value,
                          LOW[1:]: estimate.low, HIGH[1:]: estimate.high, "misfit": fit.misfit})  # fmt: skip
    return lines


def _towards_floor(swept: Swept, table: pd.DataFrame) -> list[dict[str, object]]:
    """Lines of the table of fits: the log-log slope of the excess risk's mean distance from its exact floor
    against n.
    """
    risk = by_replicate(swept.rows, "excess_risk").loc[table[POINT]].to_numpy()
    distance = np.abs(risk - table["excess_risk_floor"].to_numpy(float)[:, None])
    slope = log_log_slope(table[USERS].to_numpy(float), distance)
    return [{"sweep": swept.plan.name, "form": "power of n", "of": "distance from the floor", "value": slope.value,
             LOW[1:]: slope.low, HIGH[1:]: slope.high, "misfit": np.nan}]  # fmt: skip


if __name__ == "__main__":
    command(NAME, main)
