"""The output of `p2p-sim compare`: a table of differences, or JSON."""

import math
from itertools import groupby
from operator import attrgetter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from p2p_sim.cli.printing.numbers import Output, Verbatim, at_least, at_most, number
from p2p_sim.figures import pairs
from p2p_sim.measures import Difference, Mean
from p2p_sim.results import Comparison

ROUNDING = 1e-12
"""A difference counts as rounding if it is at most this share of the larger compared value."""


def comparison_output(comparison: Comparison) -> Output:
    """The output of `p2p-sim compare`: the two directories of results, the settings that differ, and the differences
    with intervals.
    """
    first, second = comparison.first, comparison.second
    compared = Verbatim(f"first:  {first.directory} ({first.name})\nsecond: {second.directory} ({second.name})")
    settings = [
        f"  {key}: {_setting_text(before)} in the first, {_setting_text(after)} in the second"
        for key, before, after in comparison.settings
    ]
    return Output(_record(comparison), [compared, *settings, _table(comparison), *_method(comparison)])


def _table(comparison: Comparison) -> Table:
    """A table of all differences between two directories of results, second minus first, grouped by column of the
    results. Each line is for one point (a combination of swept values), or for all points together. A line has the mean
    of each directory, the difference with its 95% interval, and the number of pairs or of replicates. An ε is not
    averaged: the line has the largest value of each directory.
    """
    table = Table(title="Second minus first", title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    table.add_column("point", overflow="fold", min_width=14)
    for heading in ("first", "second", "difference", "95% interval"):
        table.add_column(heading, no_wrap=True)
    table.add_column("pairs" if comparison.paired else "replicates", overflow="fold")
    for column, differences in groupby(comparison.differences, key=attrgetter("column")):
        table.add_section()
        table.add_row(Text(column, style="bold", no_wrap=True))
        for difference in differences:
            table.add_row(*_line(difference, comparison))
    return table


def _line(difference: Difference, comparison: Comparison) -> tuple[str, ...]:
    """The cells of the table's line for one difference, in the order of the table's columns. A difference of two ε
    has no interval, because an ε is never averaged.
    """
    between = difference.difference
    form = number
    if difference.column.startswith("epsilon"):
        form = at_least if difference.column == "epsilon_lower" else at_most
    values = (form(difference.first), form(difference.second))
    counts = " and ".join(map(str, dict.fromkeys(difference.counts)))
    # An ε has no interval: it is the largest over a directory's replicates. With a count of 0, no replicate is in both
    # directories.
    if between is None:
        cells: tuple[str, ...] = ("worst", "no interval") if difference.counts[0] else ("no common", "replicate")
    else:
        cells = interval_cells(between, scale=max(abs(difference.first), abs(difference.second)))
        counts = str(between.replicates) if comparison.paired else counts
    point = "all points"
    if difference.values is not None:
        point = pairs(list(difference.values), list(difference.values.values())) or "the only one"
    return f"  {point}", *values, *cells, counts


def _method(comparison: Comparison) -> tuple[str, ...]:
    """Three sentences on how two directories of results were compared. The first says whether replicates are paired. If
    the seeds differ, the 95% intervals are for independent samples (Welch). The second sentence says that "all points"
    are the points (combinations of swept values) in both directories. The third says that an ε is the worst of the
    replicates.
    """
    text = "Paired by replicate: both used the same seed, so a replicate uses the same random numbers on both sides."
    of = "the replicates that both have"
    if not comparison.paired:
        seeds = f"{comparison.first.seed} and {comparison.second.seed}"
        text = f"NOT paired: the seeds differ ({seeds}), so the intervals are Welch's, for independent samples."
        of = "equally many replicates of both, the first ones"
    return (
        text,
        '"All points" are the points that both have; each replicate is first averaged over these.',
        f"ε is each side's worst among {of}; it is never averaged.",
    )


def _setting_text(value: Any) -> str:
    return "unset" if value is None else str(value)


def _record(comparison: Comparison) -> dict[str, Any]:
    return {
        "first": str(comparison.first.directory),
        "second": str(comparison.second.directory),
        "paired": comparison.paired,
        "method": "paired t" if comparison.paired else "Welch t",
        "axes": list(comparison.axes),
        "settings": [{"key": key, "first": first, "second": second} for key, first, second in comparison.settings],
        "differences": [_figures(difference) for difference in comparison.differences],
    }


def _figures(difference: Difference) -> dict[str, Any]:
    between = difference.difference
    interval = None if between is None or not math.isfinite(between.low) else [between.low, between.high]
    return {
        "column": difference.column,
        "point": difference.values,
        "pooled": difference.values is None,
        "first": difference.first,
        "second": difference.second,
        "difference": None if between is None else between.value,
        "interval_95": interval,
        "replicates": list(difference.counts),
    }


def interval_cells(mean: Mean, scale: float) -> tuple[str, str]:
    """Two cells: a mean difference and its interval. A number with an absolute value of at most 1e-12 times
    `scale` comes from rounding, and is shown as 0. Without a finite interval, the second cell is "no interval".

    mean: the difference with its interval. scale: the larger absolute value of the two compared numbers.
    """
    ends = (mean.value, mean.low, mean.high)
    value, low, high = ("0" if abs(end) <= ROUNDING * scale else f"{end:+.3g}" for end in ends)
    return value, f"[{low}, {high}]" if math.isfinite(mean.low) else "no interval"
