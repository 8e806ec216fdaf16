"""Several results directories as one, for a figure that shows them together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from p2p_sim.base.errors import InputError
from p2p_sim.base.toml import value_at
from p2p_sim.explorer.readable_directories import Place
from p2p_sim.figures.column_labels import value
from p2p_sim.measures.point_means import POINT
from p2p_sim.results.results_directory import Results

RESULTS = "results"
"""The column that says, of several directories, from which one a point is."""
MOST_PLACES, MOST_NAMED = 100, 3
"""Results directories that are shown at a time, and those that a heading names."""
Reading = Callable[[Place], Results]


def gathered(places: Sequence[Place], read_at: Reading) -> Results:
    """One or several results directories as one; several have the column `results`.

    Raises:
        InputError: none is named, or one cannot be read.
    """
    if not places:
        raise InputError("results: choose at least one results directory")
    if len(places) > MOST_PLACES:
        raise InputError(f"results: {len(places):,} directories are chosen, at most {MOST_PLACES} are shown at a time")
    read = [read_at(place) for place in places]
    if len(read) == 1:
        return read[0]
    axes = list(dict.fromkeys(axis for one in read for axis in one.axes))
    keys = list(dict.fromkeys(key for axis in axes for key in axis))
    parts = []
    for place, one in zip(places, read, strict=True):
        part = one.rows.copy()
        for key in keys:
            if key not in part:
                part[key] = pd.Series([_held(one.scenario, key)] * len(part), part.index)
        part[RESULTS], part[POINT] = place.name, place.key + ":" + part[POINT].astype(str)
        parts.append(part)
    rows = pd.concat([part.dropna(axis="columns", how="all") for part in parts], ignore_index=True)
    for key in keys:
        if key not in rows:
            rows[key] = None
        if rows[key].dtype == object and not rows[key].map(lambda cell: isinstance(cell, str)).all():
            rows[key] = [cell if isinstance(cell, str) else value(cell) for cell in rows[key]]
    name = ", ".join(place.name for place in places) if len(places) <= MOST_NAMED else f"{len(places)} runs"
    return replace(read[0], name=name, rows=rows, axes=((RESULTS,), *axes), plots=())


def _held(scenario: Mapping[str, Any], key: str) -> object:
    """What a scenario that was not swept along a key says of it."""
    node = value_at(scenario, key)
    if isinstance(node, Mapping):
        return str(node.get("kind", ""))
    return node if isinstance(node, str | int | float) else None
