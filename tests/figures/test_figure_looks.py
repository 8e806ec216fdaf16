"""What a figure says by colour, line and place: one look a meaning, names beside every line, edges that can be told."""

import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from analysis.clustering_figure1 import _cluster_panel
from p2p_sim.figures import epsilons as overlays
from p2p_sim.figures.curves import Curve, Panel, looks_of, plot_panels
from p2p_sim.figures.epsilons import plot_overlay
from p2p_sim.figures.point_series import View
from p2p_sim.figures.privacy_utility import plot_privacy_utility
from p2p_sim.figures.style import COLOURS, GREY, drawing
from p2p_sim.figures.sweep_lines import draw_lines, plot_lines
from p2p_sim.measures.point_means import HIGH, LOW, points
from p2p_sim.report.point_table import points_table
from tests.conftest import ROOT
from tests.written_sweeps import made_rows

pytestmark = pytest.mark.figures

WIDEST = 1260
"""Pixels at which a page still shows the text of a figure in nearly full size."""


def panel(*labels: str, compared: str = "") -> Panel:
    curves = [Curve(label, [1, 2], [1.0, 2.0]) for label in labels]
    if compared:
        curves.append(Curve(compared, [1, 2], [1.0, 1.0], dashed=True, marked=False))
    return Panel("x", "y", curves)


def test_a_label_has_one_look_and_a_look_one_label():
    looks = looks_of([panel("α = 0.1", "α = 0.2", compared="noise alone"), panel("n = 50", compared="noise alone")])
    assert looks["noise alone"] == (GREY, "")
    assert len(set(looks.values())) == 4
    with pytest.raises(ValueError, match="8 lines of different labels, 7 colours"):
        looks_of([panel(*"abcd"), panel(*"efgh")])


@pytest.mark.parametrize("panels", [1, 2, 3, 4])
def test_panels_fit_the_width_of_a_page(tmp_path, panels):
    plot_panels([panel(f"line {i}", compared="noise") for i in range(panels)], tmp_path / "f.png", "a note")
    assert Image.open(tmp_path / "f.png").width <= WIDEST


@pytest.mark.parametrize("name", ["how-private", "policies", "label-association", "theory-terms"])
def test_figures_of_the_guides_fit_the_width_of_a_page(name):
    assert Image.open(ROOT / "docs" / "figures" / f"{name}.png").width <= WIDEST


def test_every_line_has_names_at_its_ends_and_no_names_overlap(tmp_path):
    lines = {"a": [0, 0.2, 0, 0.1], "b": [1, 1.2, 1, 1.1], "long": [0.5] * 30}
    rows = [
        {
            "population.kind": kind,
            "epsilon_upper": x,
            "half_l1": y,
            "flip_prob": round(0.01 * (i + 1), 2),
            "replicates": 1,
        }
        for kind, heights in lines.items()
        for i, (x, y) in enumerate(zip(np.linspace(1, 4, len(heights)), heights, strict=True))
    ]
    view = View("epsilon_upper", "half_l1", ("population.kind",), along="flip_prob")
    with drawing(tmp_path / "f.png") as (figure, [axes]):
        draw_lines(axes, pd.DataFrame(rows), view)
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
        words = [(text.get_text(), text.get_color()) for text in axes.texts]
    for colour in COLOURS[:2]:
        assert {("α = 0.01", colour), ("0.04", colour)} <= set(words)
    assert 1 <= sum(colour == COLOURS[2] for _, colour in words) <= 2  # ends only: the line is long
    assert not any(first.overlaps(second) for i, first in enumerate(boxes) for second in boxes[:i])


def test_the_axis_along_the_lines_is_named_at_every_line(tmp_path):
    rows = [
        {
            "flip_prob": a,
            "rate": r,
            "epsilon_upper": e * (1 + r),
            "error_rate": 0.1 + 0.1 * a + 0.1 * r,
            "replicates": 5,
        }
        for a, e in ((0.1, 1.0), (0.2, 0.5), (0.3, 0.2))
        for r in (0.1, 0.9)
    ]
    table = pd.DataFrame(rows)
    table = table.assign(**{"error_rate" + LOW: table.error_rate - 0.01, "error_rate" + HIGH: table.error_rate + 0.01})
    view = View("epsilon_upper", "error_rate", ("rate",), along="flip_prob")
    plot_lines(table, view, "t", "", tmp_path / "f.svg")
    text = (tmp_path / "f.svg").read_text()
    assert "numbers at the marks: α" in " ".join(re.findall(r">([^<]+)</", text))
    assert len(re.findall(r"α = 0\.1</text>", text)) == 2
    for colour in COLOURS[:2]:
        assert len(re.findall(rf'<text style="[^"]*fill: {colour.lower()}[^"]*"[^>]*>(?:α = )?0\.\d<', text)) == 3


def test_a_bound_has_the_same_digits_in_the_figure_and_in_the_table(tmp_path):
    rows = pd.DataFrame(made_rows([], 2)).assign(epsilon_paper_lemma9=4.02840001, epsilon_upper=0.74210001)
    plot_privacy_utility(rows, "t", tmp_path / "f.svg")
    text = (tmp_path / "f.svg").read_text()
    table = points_table(points(rows, []).assign(failures=0), [])
    cells = {column.heading: cell.text for column, cell in zip(table["columns"], table["lines"][0], strict=True)}
    assert cells["ε, Lemma 9"] == "4.029"
    assert cells["ε, learner"] == "0.7422"
    for figure in ("4.029", "0.7422"):
        assert f"ε = {figure}<" in text


def test_of_many_edges_those_are_drawn_along_which_a_label_travelled(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(nx, "draw_networkx_edges", lambda graph, place, edges, **_: drawn.append(len(edges)))
    users = np.arange(50)
    edges = np.array([(i, j) for i in users for j in range(i)])  # 1,225
    travelled = edges[:, 0] - edges[:, 1] == 1
    epsilon, no = np.linspace(0.1, 2.0, 50), np.zeros(50, dtype=bool)
    for some in (slice(None), slice(0, 60)):
        plot_overlay(
            edges[some], travelled=travelled[some], degrees=np.full(50, 5), epsilon=epsilon, epsilon_local=2.2,
            member=no, own=no, position=None, path=tmp_path / "f.svg", statement="s", note="n",
        )  # fmt: skip
    assert drawn == [49, 60]
    assert len(edges) > overlays.MOST_EDGES


def test_figure_1_gives_dashes_one_meaning_and_a_mechanism_one_colour():
    table = pd.DataFrame(
        {"population": p, "mechanism": m, "clusters.count": c, "relative_accuracy": 0.5}
        for p in ("mnist", "cifar-10")
        for m in ("ClusterRR, honest ε", "label exchange")
        for c in (2, 5)
    )
    labels = ["ClusterRR, honest ε (curator)", "ClusterRR as printed: costs up to 3ε", "label exchange (nobody)"]
    other = Panel("", "", [Curve(label, (), ()) for label in labels])
    curves = _cluster_panel(table, [other]).curves
    assert not any(curve.dashed for curve in curves)
    assert {curve.label: curve.look for curve in curves} == {
        "MNIST: ClusterRR, honest ε": (0, 0),
        "MNIST: label exchange": (2, 0),
        "CIFAR-10: ClusterRR, honest ε": (0, 1),
        "CIFAR-10: label exchange": (2, 1),
    }
