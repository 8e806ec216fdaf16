"""Computes the numbers about shipped scenarios and sweeps that the README and the guides print.

Run as `python -m analysis.shipped` or by `make published`; it takes approximately ten CPU minutes. A run that was
stopped goes on where it stopped.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.study import ROOT, Frame, command
from p2p_sim import load_scenario
from p2p_sim.base import Streams
from p2p_sim.measures import HIGH, LOW, POINT, by_replicate, fit_forms, log_log_slope, points
from p2p_sim.privacy import Floats
from p2p_sim.sweeps import SweepPlan, run_point

RUNS = {"quickstart": ("quickstart.toml", ()), "batch": ("network/batch.toml", ("population.users=120",))}
"""For each scenario's name, its file, and settings that a reduced study (as in tests) changes. A reduced study also
changes the number of replicates."""
PHI, USERS = "population.heterogeneity", "population.users"
COLUMNS = (PHI, "num_users", "flip_prob", "delta", "epsilon_upper", "epsilon_times_upper", "epsilon_local")
MEASURES = ("accuracy", "nonprivate_accuracy", "excess_risk", "excess_risk_floor")


def main(frame: Frame) -> list[Path]:
    """Runs the shipped scenarios quickstart and batch, and two shipped sweeps: over the heterogeneity φ and over the
    number n of users. Returns the files of two tables. table.csv has a row for each point (combination of swept
    values), with ε, accuracy and excess risk. fits.csv has the constants of curves fitted to the excess risk of the
    sweeps, with intervals. The curves are two formulas in φ, and a power of n.

    Args:
        frame: where the study runs and writes.
    """
    tables, fits = {}, []
    for name, (file, smaller) in RUNS.items():
        scenario = load_scenario(ROOT / "scenarios" / file, ("replicates=1", *smaller) if frame.small else ())
        tables[name] = points(run_point(scenario, frame.work / name).rows)
    for name in ("heterogeneity", "users"):
        swept = frame.swept(f"{name}.toml", ("replicates=3", "population.users=600"), keep=False)
        tables[name] = table = swept.points
        risk = by_replicate(swept.rows, "excess_risk").loc[table[POINT]].to_numpy()
        if name == "users":
            fits += _towards_floor(swept.plan, table, risk)
        else:  # a row for each constant of the two forms that `p2p-sim plot` fits to the excess risk against φ
            fits += [
                {"sweep": name, "form": fit.name, "of": symbol, "value": estimate.value,
                 LOW[1:]: estimate.low, HIGH[1:]: estimate.high, "misfit": fit.misfit}
                for fit in fit_forms(table, risk, Streams(swept.plan.base.seed, 0).generator("plot-bootstrap"))
                for symbol, estimate in fit.constants.items()
            ]  # fmt: skip
    return [frame.points(tables, COLUMNS, MEASURES), frame.table("fits.csv", fits)]


def _towards_floor(plan: SweepPlan, table: pd.DataFrame, risk: Floats) -> list[dict[str, object]]:
    """How fast the excess risk approaches its floor as the number n of users grows: one row of the table of fitted
    curves. Let d be the mean distance |excess risk - floor|. The row has the slope of ln d against ln n, with the ends
    of the slope's interval. The floor is the excess risk that infinitely many exchanged labels would leave, computed
    exactly.

    Args:
        plan: the plan of the sweep, which has the sweep's name. table: one line for each point, with n and the floor.
        risk: the excess risk, with a row for each point and a column for each replicate.
    """
    distance = np.abs(risk - table["excess_risk_floor"].to_numpy(float)[:, None])
    slope = log_log_slope(table[USERS].to_numpy(float), distance)
    return [{"sweep": plan.name, "form": "power of n", "of": "distance from the floor", "value": slope.value,
             LOW[1:]: slope.low, HIGH[1:]: slope.high, "misfit": np.nan}]  # fmt: skip


if __name__ == "__main__":
    command("shipped", main)
