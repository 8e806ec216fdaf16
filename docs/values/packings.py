"""Excess errors per thousand of PCL2 with either packing, by the periods of the sine."""

import p2p_sim

SOURCE = ("p2p-sim sweep consistency-packings", "sweeps/test_sweep.py::test_the_first_point_of_every_sweep_runs")


def _errors(packing: str, periods: int) -> str:
    """Of one replicate, to a tenth: votes are so clear that all replicates agree."""
    changes = {"mechanism.packing": packing, "population.periods": float(periods)}
    rows = [p2p_sim.run(_BASE.replace(**changes), replicate).row for replicate in range(3)]
    [shown] = {f"{1000.0 * abs(row['excess_risk']):.1f}" for row in rows}
    return shown


_BASE = p2p_sim.load_scenario("consistency/pcl2")
corner, middle = ({periods: _errors(packing, periods) for periods in (4, 5)} for packing in ("corner", "middle"))
