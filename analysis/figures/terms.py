"""Small multiples: measured excess risk along each term of a bound, with the bound's shape fitted, dashed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from p2p_sim.analysis.figures.style import COLOURS, MARKERS, drawing, plain_log_ticks
from p2p_sim.analysis.utility.bounds import ShapeFit
from p2p_sim.analysis.utility.theory_terms import Series, Term

COLUMNS = 2


def plot_terms(terms: Sequence[Term], fits: Sequence[Sequence[ShapeFit | None]], note: str, path: Path) -> None:
    """Draw one panel a term, each with its legend below: constants and log-log slopes with 95% intervals.

    Args:
        terms: what was measured; points whose mean is 0 are left out.
        fits: of each term, the constant of each series' shape, None where it has none.
        note: what is held fixed.
    """
    rows = -(-len(terms) // COLUMNS)
    with drawing(path, 3.9 * COLUMNS, 4.3 * rows, len(terms), COLUMNS, note=note) as (_, panels):
        for axes, term, fitted in zip(panels, terms, fits, strict=True):
            _draw(axes, term, fitted)


def _draw(axes: Axes, term: Term, fits: Sequence[ShapeFit | None]) -> None:
    for index, (series, fit) in enumerate(zip(term.series, fits, strict=True)):
        seen = [(x, mean) for x, mean in zip(series.x, series.means, strict=True) if mean.value > 0.0]
        x, y = [x for x, _ in seen], [mean.value for _, mean in seen]
        ends = [[mean.value - max(mean.low, 1e-12) for _, mean in seen], [mean.high - mean.value for _, mean in seen]]
        axes.errorbar(
            x, y, yerr=ends, color=COLOURS[index], marker=MARKERS[index], markersize=4.5, capsize=2,
            linestyle="-" if fit is None else "none", linewidth=0.8, label=_label(series, fit),
        )  # fmt: skip
        if fit is not None and series.shape is not None:
            fitted = fit.constant.value * series.shape
            axes.plot(series.x, fitted, color=COLOURS[index], linestyle="--", linewidth=1.2)
    axes.set(xscale="log", yscale="log", xlabel=f"{term.x_label} (log scale)", ylabel="excess risk (log scale)")
    plain_log_ticks(axes.xaxis, *(float(f(term.series[0].x)) for f in (np.min, np.max)))
    axes.set_title(term.name)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.2, -0.17), fontsize=8)


def _label(series: Series, fit: ShapeFit | None) -> str:
    lost = int((series.values.mean(axis=1) <= 0.0).sum())
    if lost:
        return f"{series.label}; 0 at {lost} values"
    slope = series.slope()
    text = f"{series.label}:\nslope {slope.value:.2f} ± {max(slope.high - slope.value, 0.005):.2f}"
    return text if fit is None else f"{text}; {fit.constant} {series.symbol}, off by up to {fit.misfit:.0%}"
