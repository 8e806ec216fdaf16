"""Figures of the study at internet scale: measurements, fits and laws up to 10⁹ users, and ε by cluster size."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from p2p_sim.figures.curves import Curve, Panel, plot_panels
from p2p_sim.figures.style import COLOURS, MARKERS, drawing, plain_log_ticks, powers_of_ten

TITLES = {"plain": "all at once, nothing lost", "retries": "1% loss, up to three requests"}


def plot_network(table: pd.DataFrame, rows: pd.DataFrame, path: Path) -> None:
    """The last arrival against n for each network, and bytes; bands hold 95% of replicates.

    Args:
        table: the study's. rows: its replicates. path: where the figure goes.
    """
    network = table[table["part"] == "network"]
    with drawing(path, 12.4, 4.6, panels=3) as (_, axes):
        for place, (name, title) in zip(axes[:2], TITLES.items(), strict=True):
            _last(place, network[network["setting"] == name], rows[rows["network"] == name], title)
        _bytes(axes[2], network[network["setting"] == "retries"])
        for place in axes:
            place.set_xlabel("users")
            place.legend(fontsize=8, loc="upper left")


def _last(axes: Axes, table: pd.DataFrame, rows: pd.DataFrame, title: str) -> None:
    part = table[table["quantity"] == "last_s"]
    fits = [basis for basis in part["basis"].unique() if basis.startswith("fit")]
    for index, basis in enumerate(["law", *fits]):
        line = part[part["basis"] == basis].sort_values("at")
        label = "exact law, median and 95%" if basis == "law" else f"{basis} users, 95%"
        axes.fill_between(line["at"], line["low"], line["high"], color=COLOURS[index], alpha=0.18, linewidth=0)
        axes.plot(line["at"], line["value"], color=COLOURS[index], linestyle=("-", "--", ":")[index], label=label)
    axes.plot(rows["users"], rows["last_s"], ".", color=COLOURS[-1], alpha=0.5, label="measured, each replicate")
    one = part[part["basis"] == "10⁸ users run"]
    if len(one):
        axes.plot(one["at"], one["value"], "*", color=COLOURS[-1], markersize=12, label="10⁸ users, one run")
    _log(axes, "last submission arrives, seconds", title, 1.0, 100.0)


def _bytes(axes: Axes, rows: pd.DataFrame) -> None:
    for index, (quantity, label) in enumerate(
        (("bytes_per_user", "all messages"), ("learner_bytes_per_user", "to the learner"))
    ):
        part = rows[rows["quantity"] == quantity]
        line = part[part["basis"] == "law"].sort_values("at")
        axes.plot(line["at"], line["value"] * line["at"] / 1e9, color=COLOURS[index], label=f"{label}, exact mean")
        for basis, marker in (("measured", MARKERS[index]), ("10⁸ users run", "*")):
            dots = part[part["basis"] == basis]
            axes.plot(
                dots["at"], dots["value"] * dots["at"] / 1e9, marker, color=COLOURS[index], markersize=6,
                label=f"{label}, {basis}" if basis == "measured" else None,
            )  # fmt: skip
    _log(axes, "gigabytes", "bytes, 1% loss", 1e-5, 1000.0)


def _log(axes: Axes, y_label: str, title: str, low: float, high: float) -> None:
    axes.set(xscale="log", yscale="log", ylim=(low, high), ylabel=y_label, title=title)
    powers_of_ten(axes.xaxis)
    plain_log_ticks(axes.yaxis, low, high)


def plot_clusters(table: pd.DataFrame, path: Path) -> None:
    """ε at δ = 1e-12 against the size of a cluster, for the learner and for coalitions with her."""
    lines = []
    for part, quantity, label in (
        ("learner", "epsilon", "learner alone, {}"),
        ("coalition", "epsilon_unasked", "with {}, not asked by any of them"),
    ):
        chosen = table[(table["part"] == part) & (table["quantity"] == quantity)]
        for setting in chosen["setting"].unique():
            line = chosen[chosen["setting"] == setting]
            lines.append(Curve.of(label.format(setting), line, "at", "value"))
    sizes = lines[0].x
    [local] = table.loc[table["setting"] == "asked the target", "value"]
    lines.append(Curve("asked by a colluder: ε₀", [min(sizes), max(sizes)], [local] * 2, dashed=True, marked=False))
    note = "α = 0.1, δ = 1e-12; colluders: θ = 1, in the cluster that has most of them"
    plot_panels([Panel("users of a cluster", "ε, upper bound", lines)], path, note)
