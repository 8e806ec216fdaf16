"""Figures of ε: by user on the graph of who may ask whom, by cluster, under an attack, and by cluster size.

In each function `path` is the figure's file. `statement` is a text that says against whom, at which δ and on what
condition ε holds. `note` is a text that names the run.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from p2p_sim.base import bound_text, count
from p2p_sim.figures.curves import Curve, Panel, plot_panels
from p2p_sim.figures.style import COLOURS, GREY, MARKERS, drawing
from p2p_sim.privacy import Floats
from p2p_sim.privacy.audit_statistics import Drawn
from p2p_sim.privacy.claims.paper_against_exact import BoundsRow

Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]
COLOUR_MAP = "viridis"
USER: Any = {"shape": "o", "rim": "#555555", "width": 0.4, "scale": 1.0}
MEMBER: Any = {"shape": "o", "rim": COLOURS[1], "width": 2.0, "scale": 1.0}
OWN: Any = {"shape": "s", "scale": 1.3}
MOST_EDGES = 600
"""Largest number of edges that are all drawn. Of more edges, only the edges along which a label travelled are drawn."""
MOST_POINTS = 50_000
"""Largest number of points that are all drawn. Of more points, points that would cover each other are drawn once."""


def plot_overlay(
    edges: Counts, *, travelled: Bools, degrees: Counts, epsilon: Floats, epsilon_local: float, member: Bools,
    own: Bools, position: Floats | None, path: Path, statement: str, note: str,
) -> None:  # fmt: skip
    """Draw the graph of who may ask whom. Each user is a mark. The mark's colour shows the ε of her own label. The
    mark's area grows with her number of neighbours.

    Args:
        edges: (e, 2) pairs of users who may ask each other, among p drawn users, numbered from 0. travelled: (e,)
        whether a label travelled along the edge. Of more than 600 edges, only such edges are drawn, and the note says
        so. degrees: (p,) each user's number of neighbours, some of whom may not be drawn. epsilon: (p,) certified ε of
        each user's label. epsilon_local: ε₀, the ε of a noisy label alone, where the colours end; may be infinite.
        member: (p,) whether a user is in the coalition; members have their own rim. own: (p,) whether a user got no
        reply and the learner therefore got her own noisy label; such a user is a square. position: (p, 2) coordinates
        of the users, in any unit; None: a layout of the graph. path: of the figure. statement: text below the title:
        against whom, at which δ and on what condition ε holds. note: the caption, which names the run.
    """
    graph = nx.Graph()
    graph.add_nodes_from(range(epsilon.size))
    graph.add_edges_from(edges.tolist())
    # the places of the users and the drawn edges; areas and rims shrink with the number of users
    if position is not None:
        places = dict(enumerate(position.tolist()))
    elif graph.number_of_nodes() <= 150 and nx.is_connected(graph):
        places = nx.kamada_kawai_layout(graph)
    else:
        places = nx.spring_layout(graph, seed=1, iterations=150)  # the same each time for the same graph
    top = _top(epsilon, epsilon_local)
    drawn_edges = edges if len(edges) <= MOST_EDGES else edges[travelled]
    if len(drawn_edges) < len(edges):
        note += f"; only {len(drawn_edges):,} of {count(len(edges), 'edge')} are drawn: a label travelled along these"
    area = 12.0 + 130.0 * degrees / max(1, int(degrees.max(initial=1))) * min(1.0, 150.0 / epsilon.size)
    with drawing(path, 7.6, 7.0, note=f"{note}; area: neighbours") as (figure, [axes]):
        nx.draw_networkx_edges(
            graph, places, drawn_edges.tolist(), ax=axes, edge_color="#8A8A8A", width=0.7, alpha=0.8,
        )  # fmt: skip
        for chosen, look, label in (
            (~member & ~own, USER, "user"),
            (~member & own, {**USER, **OWN}, "user who passed on her own label"),
            (member & ~own, MEMBER, "member of the coalition"),
            (member & own, {**MEMBER, **OWN}, "member who passed on her own label"),
        ):
            users = np.flatnonzero(chosen)
            if users.size:
                drawn = nx.draw_networkx_nodes(
                    graph, places, users.tolist(), ax=axes, node_size=area[users] * look["scale"],
                    node_color=np.minimum(epsilon[users], top), cmap=COLOUR_MAP, vmin=0.0, vmax=top,
                    node_shape=look["shape"], edgecolors=look["rim"],
                    linewidths=look["width"] * (1.0 if epsilon.size <= 150 else 0.6),
                )  # fmt: skip
                axes.plot([], [], marker=look["shape"], markerfacecolor="#D9D9D9", markeredgecolor=look["rim"],
                          markeredgewidth=look["width"], linestyle="none", label=f"{label} ({users.size})")  # fmt: skip
        bar = figure.colorbar(drawn, ax=axes, shrink=0.75, pad=0.02)
        if math.isinf(epsilon_local):
            bar.set_ticks([0.0, top], labels=["0", "∞"])
        bar.set_label(f"certified ε of a user's own label (upper end: ε₀ = {bound_text(epsilon_local, up=True)})")
        axes.set_axis_off()
        if position is not None:
            axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(f"Whose label is how private\n{statement}")
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.0), fontsize=8, ncols=2)


def plot_epsilon(
    epsilon: Floats, epsilon_local: float, own: Bools, cluster_offsets: Counts, *, path: Path, statement: str, note: str
) -> None:
    """Draw the ε of every user's own label above her cluster. Smaller clusters come first. A dashed line shows ε₀.

    Args:
        epsilon: (n,) certified ε of each of n users; may be infinite. epsilon_local: ε₀, the ε of a noisy label alone.
        own: (n,) whether a user got no reply and the learner therefore got her own noisy label; such users have their
        own mark. cluster_offsets: (C+1,) first user of each of C clusters; cluster c holds users
        offsets[c]..offsets[c+1]-1. path: of the figure. statement: text below the title: against whom, at which δ and
        on what condition ε holds. note: the caption, which names the run.
    """
    # x: the rank of the user's cluster by size
    sizes, top = np.diff(cluster_offsets), _top(epsilon, epsilon_local)
    rank = np.empty(sizes.size)
    rank[np.argsort(sizes, kind="stable")] = np.arange(1, sizes.size + 1)
    cluster, heights = np.repeat(rank, sizes), np.minimum(epsilon, top)
    # users of a cluster with nearly equal ε (within a sixtieth of the axis) are drawn side by side
    level = np.rint(60.0 * heights / top)
    groups = pd.Series(level).groupby([cluster, level])
    counts = groups.transform("size").to_numpy()
    abscissas = cluster + (groups.cumcount().to_numpy() - 0.5 * (counts - 1)) * np.minimum(0.1, 0.7 / counts)
    with drawing(path, 7.6, 4.8, note=note) as (_, [axes]):
        for index, (chosen, label) in enumerate(((~own, "user"), (own, "user who passed on her own label"))):
            points = np.stack([abscissas[chosen], heights[chosen]], axis=1)
            if len(points) > MOST_POINTS:
                points = np.unique(np.round(points, 2), axis=0)
            if len(points):
                axes.scatter(
                    points[:, 0], points[:, 1], s=7.0 + 14.0 * index, color=COLOURS[index], marker=MARKERS[index],
                    alpha=0.8, linewidths=0, label=f"{label} ({int(np.count_nonzero(chosen)):,})", zorder=3,
                )  # fmt: skip
        axes.axhline(
            top, color=GREY, linestyle="--", label=f"noisy label alone: ε₀ = {bound_text(epsilon_local, up=True)}"
        )
        if math.isinf(epsilon_local):
            axes.set_yticks([0.0, top], ["0", "∞"])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(
            xlabel=f"clusters by size, {sizes.min():,} to {sizes.max():,} users",
            ylim=(-0.03 * top, 1.06 * top), ylabel="certified ε of a user's own label",
            title=f"Whose label is how private\n{statement}",
        )  # fmt: skip
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.14), fontsize=8, ncols=2)


def _top(epsilon: Floats, epsilon_local: float) -> float:
    """The upper end of an axis or colour scale for users' ε. If ε₀ is finite and above 0, the end is ε₀. Otherwise the
    end is 1.2 times the largest finite ε. If no finite ε is above 0, the end is 1.

    Args:
        epsilon: (n,) ε of each of n users. epsilon_local: ε₀, the ε of a noisy label alone.
    """
    if math.isfinite(epsilon_local) and epsilon_local > 0:
        return epsilon_local
    return float(epsilon[np.isfinite(epsilon)].max(initial=0.0)) * 1.2 or 1.0


def plot_attacked(curves: Mapping[str, Floats], type_one: Floats, drawn: Drawn, title: str, path: Path) -> None:
    """Draw the errors of tests that decide which of two labels a user holds: the type II error against the type I
    error. Curves show the least errors that privacy bounds allow. Points show the shares of errors that an attack
    reached. A line shows the upper confidence bounds of these shares.

    Args:
        curves: by name, the least type II error at each type I error of `type_one`. A curve with "paper" in its name is
        dashed. type_one: type I errors, in [0, 1]. drawn: the attack's shares of both errors at several thresholds,
        with their upper bounds. title: above the axes. path: of the figure; it ends in .png, .pdf or .svg.
    """
    with drawing(path, 6.2, 5.4, title=title) as (_, [axes]):
        axes.plot([0.0, 1.0], [1.0, 0.0], color=GREY, linewidth=0.8, label="no information")
        for (name, errors), colour in zip(curves.items(), COLOURS[1:], strict=False):
            axes.plot(type_one, errors, color=colour, label=name, linestyle="--" if "paper" in name else "-")
        axes.plot(
            np.clip(drawn.type_one, 0.0, 1.0), np.clip(drawn.type_two, 0.0, 1.0), "o", color=COLOURS[0], markersize=4,
            label="attack, as counted",
        )  # fmt: skip
        order = np.argsort(drawn.type_one_upper)
        axes.plot(
            drawn.type_one_upper[order], drawn.type_two_upper[order], color=COLOURS[0], linewidth=1.2,
            label="attack, end of its confidence band",
        )  # fmt: skip
        axes.set(xlabel="type I error", ylabel="type II error", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        axes.legend(loc="upper right", fontsize=9)


DRAWN = (
    ("epsilon_upper", "exact (certified from above)", False),
    ("epsilon_paper", "the paper's Lemma 9, where it applies", True),
    ("epsilon_closed_form", "closed form (theorem)", True),
    ("epsilon_gaussian", "Gaussian limit", True),
    ("epsilon_shuffled_lower", "a shuffler of the same noisy labels (attained)", False),
)
"""For each curve of a figure of bounds: the column of the table, the label, and whether it is dashed."""


def plot_bounds(table: Sequence[BoundsRow], path: Path) -> None:
    """Draw bounds of the learner's ε against the cluster size n. Each sampling rate θ has a panel; each kind of bound
    has a line.

    Args:
        table: one row for each θ and n, with the ε of each kind of bound at δ = 1/n². None: the bound does not apply.
        All rows have the same flip probability α. path: of the figure.
    """
    panels = []
    for rate in sorted({row.sampling_rate for row in table}, reverse=True):
        curves = []
        for column, label, dashed in DRAWN:
            rows = [row for row in table if row.sampling_rate == rate and getattr(row, column) is not None]
            if rows:
                sizes, epsilons = [row.cluster_size for row in rows], [getattr(row, column) for row in rows]
                curves.append(Curve(label, sizes, epsilons, dashed=dashed))
        panels.append(
            Panel(
                x_label="users in the cluster, n",
                y_label="ε of the learner at δ = 1/n²",
                curves=curves,
                title=f"One user's label, α = {table[0].flip_prob:g}, θ = {rate:g}",
            )
        )
    plot_panels(panels, path)
