"""What `compare` shows: a table of differences, or JSON."""

import math
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from p2p_sim.cli.printing.numbers import Output, Verbatim, at_least, at_most, number
from p2p_sim.figures.column_labels import pairs
from p2p_sim.measures.intervals import Mean
from p2p_sim.measures.point_means import Difference
from p2p_sim.results.comparison import Comparison

ROUNDING = 1e-12
"""Differences below this share of the values are what rounding leaves."""


def comparison_output(found: Comparison) -> Output:
    """The scenarios, what differs between them, and every difference with its interval."""
    compared = Verbatim(
        f"first:  {found.first.directory} ({found.first.name})\nsecond: {found.second.directory} ({found.second.name})"
    )
    settings = [f"  {key}: {_shown(one)} in the first, {_shown(two)} in the second" for key, one, two in found.settings]
    return Output(_record(found), [compared, *settings, _table(found), *_method(found)])


def _table(found: Comparison) -> Table:
    """Every difference, column by column."""
    table = Table(title="Second minus first", title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    table.add_column("point", overflow="fold", min_width=14)
    for heading in ("first", "second", "difference", "95% interval"):
        table.add_column(heading, no_wrap=True)
    table.add_column("pairs" if found.paired else "replicates", overflow="fold")
    last = None
    for difference in found.differences:
        if last != difference.column:
            table.add_section()
            table.add_row(Text(difference.column, style="bold", no_wrap=True))
        last = difference.column
        table.add_row(*_line(difference, found))
    return table


def _line(difference: Difference, found: Comparison) -> tuple[str, ...]:
    between = difference.difference
    form = number
    if difference.column.startswith("epsilon"):
        form = at_least if difference.column == "epsilon_lower" else at_most
    values = (form(difference.first), form(difference.second))
    counts = " and ".join(map(str, dict.fromkeys(difference.counts)))
    if between is None:
        shown = ("worst", "no interval") if difference.counts[0] else ("no common", "replicate")
    else:
        scale = max(abs(difference.first), abs(difference.second))
        shown, counts = _interval(between, scale), str(between.replicates) if found.paired else counts
    return f"  {_place(difference)}", *values, *shown, counts


def _place(difference: Difference) -> str:
    if difference.values is None:
        return "all points"
    return pairs(list(difference.values), list(difference.values.values())) or "the only one"


def _interval(mean: Mean, scale: float) -> tuple[str, str]:
    """A difference of values of some size and its interval; what is left by rounding is 0."""
    ends = (mean.value, mean.low, mean.high)
    value, low, high = ("0" if abs(end) <= ROUNDING * scale else f"{end:+.3g}" for end in ends)
    return value, f"[{low}, {high}]" if math.isfinite(mean.low) else "no interval"


def _method(found: Comparison) -> tuple[str, ...]:
    """How the intervals came about."""
    text = "Paired by replicate: both used the same seed, so a replicate meets the same random numbers on both sides."
    if not found.paired:
        text = (
            f"NOT paired: the seeds differ ({found.first.seed} and {found.second.seed}), so the intervals are Welch's, "
            "for independent samples."
        )
    of = "the replicates that both have" if found.paired else "equally many replicates of both, the first ones"
    return (
        text,
        "All points are those that both have; replicates are averaged over them first.",
        f"ε is each side's worst among {of}; it is never averaged.",
    )


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def _record(found: Comparison) -> dict[str, Any]:
    return {
        "first": str(found.first.directory),
        "second": str(found.second.directory),
        "paired": found.paired,
        "method": "paired t" if found.paired else "Welch t",
        "axes": list(found.axes),
        "settings": [{"key": key, "first": one, "second": two} for key, one, two in found.settings],
        "differences": [_figures(difference) for difference in found.differences],
    }


def _figures(difference: Difference) -> dict[str, Any]:
    between = difference.difference
    known = between is not None and math.isfinite(between.low)
    return {
        "column": difference.column,
        "point": difference.values,
        "pooled": difference.values is None,
        "first": difference.first,
        "second": difference.second,
        "difference": None if between is None else between.value,
        "interval_95": [between.low, between.high] if known and between is not None else None,
        "replicates": list(difference.counts),
    }
