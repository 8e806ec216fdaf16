"""What `compare` shows: a table of differences, or JSON."""

import math
from typing import Any

from rich.console import Console
from rich.table import Table

from p2p_sim.analysis.figures.labels import pairs
from p2p_sim.analysis.utility.intervals import Mean
from p2p_sim.analysis.utility.paired import Difference
from p2p_sim.cli.printing.values import at_least, at_most, number, print_object
from p2p_sim.outputs.comparison import Comparison


def print_comparison(found: Comparison) -> None:
    """The scenarios, what differs between them, and every difference with its interval."""
    print(
        f"first:  {found.first.directory} ({found.first.name})\nsecond: {found.second.directory} ({found.second.name})"
    )
    for key, one, two in found.settings:
        print(f"  {key}: {_shown(one)} in the first, {_shown(two)} in the second")
    table = Table(title="Second minus first", title_justify="left")
    for heading in ("column", "point", "first", "second", "difference, 95% interval", _count(found)):
        table.add_column(heading)
    last = None
    for difference in found.differences:
        if last is not None and last != difference.column:
            table.add_section()
        last = difference.column
        table.add_row(*_line(difference, found))
    Console(soft_wrap=True).print(table)
    print(_method(found))


def _count(found: Comparison) -> str:
    return "pairs" if found.paired else "replicates"


def _line(difference: Difference, found: Comparison) -> tuple[str, ...]:
    between = difference.difference
    show = number
    if difference.column.startswith("epsilon"):
        show = at_least if difference.column == "epsilon_lower" else at_most
    values = (show(difference.first), show(difference.second))
    counts = " and ".join(map(str, difference.counts))
    if between is None:
        shown = "worst replicates" if difference.counts[0] else "no common replicate"
    else:
        shown, counts = _interval(between), str(between.replicates) if found.paired else counts
    return difference.column, _place(difference), *values, shown, counts


def _place(difference: Difference) -> str:
    if difference.values is None:
        return "all shared points"
    return pairs(list(difference.values), list(difference.values.values())) or "the only one"


def _interval(mean: Mean) -> str:
    if not math.isfinite(mean.low):
        return f"{mean.value:+.4g} (no interval)"
    return f"{mean.value:+.4g} [{mean.low:+.4g}, {mean.high:+.4g}]"


def _method(found: Comparison) -> str:
    """How the intervals came about."""
    text = "Paired by replicate: both used the same seed, so a replicate meets the same random numbers on both sides"
    if not found.paired:
        text = (
            f"NOT paired: the seeds differ ({found.first.seed} and {found.second.seed}), so the intervals are Welch's, "
            "for independent samples"
        )
    return f"{text}.\nPooled over points, replicates are averaged first. ε is each side's worst; it is never averaged."


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def print_comparison_json(found: Comparison) -> None:
    """One JSON object."""
    record = {
        "first": str(found.first.directory),
        "second": str(found.second.directory),
        "paired": found.paired,
        "method": "paired t" if found.paired else "Welch t",
        "axes": list(found.axes),
        "settings": [{"key": key, "first": one, "second": two} for key, one, two in found.settings],
        "differences": [_record(difference) for difference in found.differences],
    }
    print_object(record)


def _record(difference: Difference) -> dict[str, Any]:
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
