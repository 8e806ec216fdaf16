"""Figures of the benchmarks: ratios with their ranges, and time and memory as users and labels grow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import FASTER, PASSES, SHARE, Row
from p2p_sim.figures.style import COLOURS, GREY, MARKERS, RC, new_figure, plain_log_ticks, powers_of_ten, save

TITLES = {
    FASTER: "The peer's time over ours (1: equal; more is better)",
    PASSES: "Our time over one pass of the generator (less is better)",
    SHARE: "Share of the ideal speed-up (1: ideal)",
}


def draw_ratios(rows: Sequence[Row], path: Path) -> None:
    """Median and range of every ratio, a panel a kind."""
    import matplotlib as mpl

    kinds = [unit for unit in TITLES if any(row.unit == unit for row in rows)]
    counts = [sum(row.unit == unit for row in rows) for unit in kinds]
    with mpl.rc_context({**RC, "font.size": 8}):
        figure = new_figure(9.5, 1.2 + 0.2 * (sum(counts) + 4 * len(kinds)))
        panels = figure.subplots(len(kinds), 1, height_ratios=[count + 2 for count in counts], squeeze=False)[:, 0]
        names = list(dict.fromkeys(row.benchmark for row in rows if row.unit in kinds))
        for panel, unit in zip(panels, kinds, strict=True):
            _panel(panel, [row for row in rows if row.unit == unit], names)
            panel.set_xlabel(TITLES[unit])
        save(figure, path)


def _panel(panel: Any, rows: Sequence[Row], names: Sequence[str]) -> None:
    for place, row in enumerate(rows):
        which = names.index(row.benchmark)
        colour, marker = COLOURS[which % len(COLOURS)], MARKERS[which % len(MARKERS)]
        panel.plot([row.low, row.high], [place, place], color=colour, linewidth=2, alpha=0.6)
        panel.plot(row.median, place, color=colour, marker=marker, markersize=5, linestyle="none")
    panel.axvline(1.0, color=GREY, linestyle="--", linewidth=1)
    panel.set_xscale("log")
    low, high = min(row.low for row in rows), max(row.high for row in rows)
    panel.set_xlim(min(low, 1.0) / 1.1, max(high, 1.0) * 1.1)
    plain_log_ticks(panel.xaxis, min(low, 1.0), max(high, 1.0))
    panel.set_yticks(range(len(rows)), [f"{row.name}: {row.setting}" for row in rows])
    panel.set_ylim(len(rows) - 0.5, -0.5)


def draw_scaling(rows: Sequence[Row], path: Path) -> None:
    """Time an event, bytes a user and time a label against their number; dashed: what does not grow."""
    import matplotlib as mpl

    wanted = [
        ("event scaling", "time", "users", "ns a protocol event"),
        ("event scaling", "memory", "users", "bytes a user, at most"),
        ("vectorised scaling", "time", "labels", "ns a label"),
    ]
    with mpl.rc_context(RC):
        figure = new_figure(12.0, 4.2)
        for panel, (benchmark, name, x, y) in zip(figure.subplots(1, 3), wanted, strict=True):
            chosen = [row for row in rows if row.benchmark == benchmark and row.name == name]
            _lines(panel, chosen)
            panel.set_xlabel(x)
            panel.set_ylabel(y)
        save(figure, path)


def _lines(panel: Any, rows: Sequence[Row]) -> None:
    """A line a setting with its range, and the ideal: the cost of the largest size of each, at every size."""
    for which, setting in enumerate(dict.fromkeys(row.setting for row in rows)):
        line = sorted((row for row in rows if row.setting == setting), key=lambda row: row.size)
        sizes = [row.size for row in line]
        panel.fill_between(sizes, [r.low for r in line], [r.high for r in line], color=COLOURS[which], alpha=0.2)
        panel.plot(sizes, [r.median for r in line], color=COLOURS[which], marker=MARKERS[which], label=setting)
        ideal = min(row.median for row in line)
        panel.plot([sizes[0], sizes[-1]], [ideal, ideal], color=COLOURS[which], linestyle="--", linewidth=0.8)
    panel.set_xscale("log")
    panel.set_yscale("log")
    powers_of_ten(panel.xaxis)
    plain_log_ticks(panel.yaxis, min(row.low for row in rows), max(row.high for row in rows))
    panel.set_ylim(bottom=0.8 * min(row.low for row in rows), top=2.5 * max(row.high for row in rows))
    panel.legend(loc="upper right", fontsize=8)
