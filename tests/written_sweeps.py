"""Rows of sweeps that nobody had to run: a scenario's row, varied along axes."""

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import p2p_sim
from p2p_sim.privacy.statement_record import Terms
from p2p_sim.scenario import MODEL_VERSION

Axes = list[dict[str, Any]]
AXES: Axes = [
    {"keys": ["mechanism.flip_prob"], "values": [[0.05], [0.1], [0.2]]},
    {"keys": ["network.loss"], "values": [[0.0], [0.1]]},
]


def base(name: str = "made") -> p2p_sim.Scenario:
    """A small scenario with a known law."""
    tree = {
        "name": name,
        "replicates": 2,
        "engine": "vectorised",
        "population": {"kind": "synthetic", "users": 400, "num_clusters": 5},
        "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5},
    }
    return p2p_sim.Scenario.from_tree(tree)


@functools.cache
def _result() -> p2p_sim.Result:
    return p2p_sim.run(base())


def made_terms() -> dict[str, Terms]:
    """What is said of the rows' figures besides the numbers."""
    return {_result().row["statement"]: _result().terms}


def made_rows(axes: Axes, replicates: int, exact: bool = True) -> list[dict[str, Any]]:
    """Rows in the order of the axes; their figures are made up, every one different."""
    row, rows, rng = _result().row, [], np.random.default_rng(7)
    keys = [key for axis in axes for key in axis["keys"]]
    for place, values in enumerate(itertools.product(*(axis["values"] for axis in axes))):
        columns = dict(zip(keys, itertools.chain(*values), strict=True))
        for replicate in range(replicates):
            figures = {"epsilon_upper": float(rng.uniform(0.1, 2.0)), "error_rate": float(rng.uniform(0.1, 0.4))}
            figures["excess_risk"] = float(rng.uniform(0.001, 0.01)) if exact else None
            rows.append({**row, **figures, "scenario": f"{place:016x}", "replicate": replicate, **columns})
    return rows


def manifest(axes: Axes, replicates: int, **changes: Any) -> dict[str, Any]:
    """The manifest that goes with them."""
    scenario = base()
    return {
        "name": scenario.name,
        "identity": scenario.content_hash(),
        "kind": "sweep" if axes else "run",
        "seed": scenario.seed,
        "replicates": replicates,
        "scenario": scenario.model_dump(mode="json"),
        "axes": axes,
        "plots": [],
        "versions": {"numpy": np.__version__, "p2p-sim": "0.1.0"},
        "model_version": MODEL_VERSION,
        **changes,
    }


def write_sweep(directory: Path, axes: Axes, replicates: int, failures: list[dict[str, Any]] | None = None) -> None:
    """A results directory of a finished sweep."""
    directory.mkdir(parents=True)
    rows = made_rows(axes, replicates)
    (directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pd.DataFrame(rows).to_parquet(directory / "rows.parquet", index=False)
    (directory / "manifest.json").write_text(json.dumps(manifest(axes, replicates)))
    lines = [{"statement": name, "columns": said} for name, said in made_terms().items()]
    (directory / "statements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if failures:
        (directory / "failures.jsonl").write_text("".join(json.dumps(failure) + "\n" for failure in failures))
