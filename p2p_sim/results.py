"""A results directory as figures and comparisons read it: rows, axes, and what was run."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.config import InputError, nearest
from p2p_sim.store import MANIFEST, ROWS, load_results, read_manifest


@dataclass(frozen=True)
class Results:
    """What a results directory holds.

    rows: one line a point and replicate, with a column for every swept key.
    axes: the swept keys, those that vary together in one tuple; none for a run of a single scenario.
    scenario: the base scenario in full; plots: figures that the sweep's author asked for.
    adaptive: replicates were added until a mean seemed known well enough, which makes intervals too narrow.
    """

    directory: Path
    name: str
    seed: int
    rows: pd.DataFrame
    axes: tuple[tuple[str, ...], ...]
    scenario: dict[str, Any]
    plots: tuple[dict[str, Any], ...]
    adaptive: bool

    @property
    def keys(self) -> list[str]:
        """All swept keys."""
        return [key for axis in self.axes for key in axis]


def read_results(directory: Path) -> Results:
    """Read a results directory of `run` or `sweep`.

    Raises:
        InputError: there is none, it is damaged, or no replicate is finished yet.
    """
    rows, manifest = load_results(directory), read_manifest(directory)
    if rows.empty:
        raise InputError(f"{directory / ROWS}: holds no finished replicate yet")
    try:
        results = Results(
            directory=directory,
            name=str(manifest["name"]),
            seed=int(manifest["seed"]),
            rows=rows,
            axes=tuple(tuple(str(key) for key in axis["keys"]) for axis in manifest.get("axes") or ()),
            scenario=dict(manifest["scenario"]),
            plots=tuple(dict(plot) for plot in manifest.get("plots") or ()),
            adaptive=bool(manifest.get("until")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{directory / MANIFEST}: is not a manifest ({type(error).__name__}: {error})") from None
    for key in results.keys:
        if key not in rows:
            raise InputError(f"{directory / ROWS}: has no column {key!r}, which {MANIFEST} names as an axis")
    return results


def check_column(option: str, name: str, known: Iterable[str]) -> str:
    """The name, if it is among the known ones.

    Raises:
        InputError: it is not; names the nearest that is, by its whole name or by the last part of a dotted key.
    """
    known = list(known)
    if name in known:
        return name
    hint = nearest(name, known) or f"; choose one of {', '.join(sorted(known)[:8])}, ..."
    raise InputError(f"{option} {name}: no such column{hint}")
