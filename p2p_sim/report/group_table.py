"""The table of groups: what each of them loses to privacy, point by point."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from p2p_sim.measures.group_gaps import ACCURACY, LOSS, REFERENCE_ACCURACY, SHARE, groups_of
from p2p_sim.measures.point_means import HIGH, LOW
from p2p_sim.report.point_table import MOST_LINES, TableColumn, axis_columns, figure_cells, plain_cells

FIGURES = (
    (SHARE, "share of the rows"),
    (REFERENCE_ACCURACY, "accuracy without privacy"),
    (ACCURACY, "accuracy"),
    (LOSS, "loss of accuracy"),
)


def groups_table(points: pd.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """The first lines, at most 400, of a table with a line for each point and each group that was measured there.

    columns: of `TableColumn`. lines: of cells, none where no groups were asked for. left_out:
    how many lines are not shown.
    """
    parts: list[pd.DataFrame] = []
    for group in groups_of(points):
        names = {group.column(figure) + end: figure + end for figure, _ in FIGURES for end in ("", LOW, HIGH)}
        part = points.reindex(columns=[*keys, *names]).rename(columns=names)
        part = part[part[ACCURACY].notna()]
        parts.append(part.assign(group=str(group), _place=part.index, _order=len(parts)))
    if not parts or not sum(map(len, parts)):
        return {"columns": [], "lines": [], "left_out": 0}
    table = pd.concat(parts).sort_values(["_place", "_order"], kind="stable").reset_index(drop=True)
    shown = table.head(MOST_LINES)
    found = axis_columns(shown, keys)
    found.append((TableColumn("group", "learner.groups", False), plain_cells(shown["group"].tolist())))
    found += [(TableColumn(heading, figure, True), figure_cells(shown, figure, False)) for figure, heading in FIGURES]
    columns, filled = zip(*found, strict=True)
    return {"columns": columns, "lines": list(zip(*filled, strict=True)), "left_out": len(table) - len(shown)}
