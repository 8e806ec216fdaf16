"""Simulator of decentralised, peer-to-peer label exchange under label differential privacy.

load_scenario(file)   a scenario, from a file or by the name of a shipped one; `.replace(seed=2)` changes a copy
table(frame, label)   a data frame as the population of a scenario
run(scenario)         one replicate: `.epsilon`, `.accuracy`, `.row`
run_all(scenario)     all replicates as a data frame, which is on disk, too; load_results(directory) reads it
sweep(scenario, axes) all combinations of values as a data frame; plot(rows) draws it

>>> import p2p_sim
>>> scenario = p2p_sim.Scenario.from_tree({"name": "small", "population": {"kind": "synthetic", "users": 2000},
...     "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5}})
>>> result = p2p_sim.run(scenario, replicate=0)
>>> result.row["epsilon_upper"] < result.row["epsilon_local"]
True
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors read
    from p2p_sim.base.errors import InputError
    from p2p_sim.learning.exchange_classifier import LabelExchangeClassifier
    from p2p_sim.population.data_frame import table
    from p2p_sim.replicate.composable_release import release
    from p2p_sim.replicate.run import Result, run
    from p2p_sim.results.axes import plot
    from p2p_sim.results.data_frames import load_results
    from p2p_sim.results.rows import load_statements
    from p2p_sim.scenario import Scenario, load_scenario
    from p2p_sim.sweeps.run_scenario import run_all
    from p2p_sim.sweeps.run_sweep import sweep

    __version__: str

__all__ = [
    "InputError",
    "LabelExchangeClassifier",
    "Result",
    "Scenario",
    "__version__",
    "load_results",
    "load_scenario",
    "load_statements",
    "plot",
    "release",
    "run",
    "run_all",
    "sweep",
    "table",
]

_PUBLIC = {
    "InputError": "p2p_sim.base.errors",
    "LabelExchangeClassifier": "p2p_sim.learning.exchange_classifier",
    "Result": "p2p_sim.replicate.run",
    "Scenario": "p2p_sim.scenario",
    "load_results": "p2p_sim.results.data_frames",
    "load_statements": "p2p_sim.results.rows",
    "load_scenario": "p2p_sim.scenario",
    "plot": "p2p_sim.results.axes",
    "release": "p2p_sim.replicate.composable_release",
    "run": "p2p_sim.replicate.run",
    "run_all": "p2p_sim.sweeps.run_scenario",
    "sweep": "p2p_sim.sweeps.run_sweep",
    "table": "p2p_sim.population.data_frame",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used, so that `p2p-sim --help` stays quick."""
    import importlib

    if name == "__version__":
        return importlib.import_module("p2p_sim.base.packages").version()
    if name not in _PUBLIC:
        raise AttributeError(f"module 'p2p_sim' has no attribute {name!r}")
    # a later use finds the name here and does not come back to this function
    globals()[name] = getattr(importlib.import_module(_PUBLIC[name]), name)
    return globals()[name]
