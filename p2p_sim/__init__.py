"""Simulator of decentralised, peer-to-peer label exchange under label differential privacy.

load_scenario(file)   a scenario, from a file or by the name of a shipped one; `.replace(seed=2)` returns a changed copy
table(frame, label)   a data frame as the population of a scenario
run(scenario)         one replicate: `.epsilon`, `.accuracy`, `.row`
run_all(scenario)     all replicates as a data frame, also written to disk; load_results(directory) reads it from there
sweep(scenario, axes) all combinations of values as a data frame; plot(rows) draws it

>>> import p2p_sim
>>> scenario = p2p_sim.Scenario.from_tree({"name": "small", "population": {"kind": "synthetic", "users": 2000},
...     "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5}})
>>> result = p2p_sim.run(scenario, replicate=0)
>>> result.row["epsilon_upper"] < result.row["epsilon_local"]
True
"""

from typing import Any

from p2p_sim.base.late_names import late

# public names are imported when they are first used, so that `p2p-sim --help` stays quick
_named, _, __all__ = late(__name__, __file__)
__all__ += ["__version__"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """The object of a public name of the package, such as run or load_scenario. The object is imported when the name is
    first used, and then kept. For `__version__` the object is the package's version as a text. Any other name raises
    AttributeError.
    """
    if name == "__version__":
        from p2p_sim.base import version

        value = version()
    else:
        value = _named(name)
    globals()[name] = value
    return value
