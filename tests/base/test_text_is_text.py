"""Text of users stays text: a dollar in a figure is a dollar, and a cell of a CSV file is no formula."""

import contextlib
import csv
import io
import math

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.checked_values import is_number
from p2p_sim.base.written_values import as_text, finite, without_formulas
from p2p_sim.figures.heat_map import plot_heat
from p2p_sim.figures.message_times import plot_load, plot_sampling, plot_timeline
from p2p_sim.results.release_export import _write
from p2p_sim.tuning import search_outcome
from p2p_sim.tuning.search_space import Space
from tests.commands import command
from tests.explorer.in_process import Client
from tests.written_sweeps import base, write_sweep

pytestmark = pytest.mark.figures

LOST, BROKEN = "price $5 a_b and $10", "$\\frac{$"
SWEEP = f"""name = "labelled"
base = "base.toml"
replicates = 2
[[axes]]
key = "mechanism.flip_prob"
values = [0.1, 0.2]
labels = ['{LOST}', '{BROKEN}']
[[axes]]
key = "mechanism.sampling_rate"
values = [0.5, 1.0]
"""
BASE = """name = "b"
engine = "vectorised"
population = {kind = "synthetic", users = 200, num_clusters = 4}
mechanism = {flip_prob = 0.1, sampling_rate = 0.5}
"""


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A finished sweep whose labels have dollars; the command itself has drawn its figure."""
    folder = tmp_path_factory.mktemp("dollars")
    (folder / "base.toml").write_text(BASE)
    (folder / "s.toml").write_text(SWEEP)
    status = command("sweep", folder / "s.toml", "--out", folder / "s", "--workers", "1", "--quiet")[0]
    assert status == 0
    return folder / "s"


@pytest.mark.parametrize(
    "options",
    [
        ("--x", "mechanism.sampling_rate", "--y", "accuracy", "--group", "mechanism.flip_prob"),
        ("--x", "mechanism.flip_prob", "--y", "accuracy"),
        ("--x", "mechanism.sampling_rate", "--y", "accuracy", "--facet", "mechanism.flip_prob"),
        ("--x", "mechanism.flip_prob", "--y", "mechanism.sampling_rate", "--heat", "accuracy"),
    ],
    ids=["legend", "ticks", "titles", "heat"],
)
def test_labels_with_dollars_are_drawn_as_they_are_written(labelled, tmp_path, options, monkeypatch):
    def drawn(ending):
        path = tmp_path / f"f.{ending}"
        status, _, err = command("plot", labelled, *options, "--out", path)
        return (status, err), path

    ended, path = drawn("svg")
    words = path.read_text(encoding="utf-8").replace("\n", " ")
    assert ended == (0, "")
    assert BROKEN in words
    assert "price $5 a_b" in words
    assert [drawn(ending)[0] for ending in ("png", "pdf")] == [(0, "")] * 2
    monkeypatch.setattr(matplotlib.text.Text, "get_parse_math", lambda text: True)  # the control
    with contextlib.suppress(ValueError):  # which a half-written fraction is
        words = drawn("svg")[1].read_text(encoding="utf-8")
        assert not (BROKEN in words and "price $5" in words)


def texts(figure):
    figure.canvas.draw()
    return [text for text in figure.findobj(matplotlib.text.Text) if "$" in text.get_text()]


def test_in_python_labels_are_literal_and_what_the_user_writes_later_is_mathematics(labelled):
    left = matplotlib.pyplot.subplots()[1]
    for given in (left, None):
        axes = p2p_sim.plot(labelled, "mechanism.flip_prob", "accuracy", ax=given)
        names = [text for text in texts(axes.figure) if "price" in text.get_text() or "frac" in text.get_text()]
        assert len(names) >= 2
        assert not any(text._preprocess_math(text.get_text())[1] for text in names)
        axes.set_xlabel("$\\alpha$")
        axes.set_title("$\\beta$", loc="left")
        axes.figure.canvas.draw()
        for text in (axes.xaxis.label, axes._left_title):
            assert text._preprocess_math(text.get_text())[1] is True
        matplotlib.pyplot.close(axes.figure)


def test_a_column_with_dollars_is_an_axis_of_text(tmp_path):
    write_sweep(tmp_path / "s", [{"keys": ["a.$\\frac{$"], "values": [[1.0], [2.0], [3.0]]}], 2)
    axes = p2p_sim.plot(tmp_path / "s", "a.$\\frac{$", "accuracy")
    axes.figure.canvas.draw()
    assert axes.xaxis.label._preprocess_math(axes.get_xlabel()) == ("a.$\\frac{$", False)
    assert command("plot", tmp_path / "s", "--x", "a.$\\frac{$", "--y", "accuracy")[0] == 0
    assert command("report", tmp_path / "s")[0] == 0


def test_powers_of_ten_on_logarithmic_axes_are_letters(tmp_path):
    rng = np.random.default_rng(1)
    sizes = np.array([2, 30, 400])
    plot_load(rng.zipf(1.5, 5000).clip(1, 3000), rng.poisson(3, 5000), tmp_path / "load.svg", "n")
    plot_timeline({"request": 10 ** rng.uniform(-3, 2, 500)}, np.zeros(0), None, tmp_path / "time.svg", "n")
    plot_sampling(sizes, sizes // 2, 0.5, tmp_path / "sampling.svg", "n")
    table = pd.DataFrame({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2], "epsilon_upper": [0.01, 1.0, 10.0, 500.0]})
    plot_heat(table.assign(replicates=2), "a", "b", "epsilon_upper", title="t", note="n", path=tmp_path / "heat.svg")
    for name, some in (("load", "10⁻¹"), ("time", "10⁻²"), ("sampling", "10¹"), ("heat", "100")):
        words = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert some in words, name
        assert "mathdefault" not in words, name


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "'quoted", "\t=1", "＝1+1"]
HARMLESS = ["-0.5", "-1e-06", "-3", "plain", "a=b", "", "1-2", "price $5"]


def test_texts_that_spreadsheets_would_run_have_an_apostrophe_which_is_taken_off_again():
    frame = pd.DataFrame({"=name": FORMULAS + HARMLESS, "number": np.linspace(-7.0, 7.0, 15), "whole": range(-7, 8)})
    rows = list(csv.reader(io.StringIO(without_formulas(frame).to_csv(index=False))))
    assert rows[0] == ["'=name", "number", "whole"]
    texts = [row[0] for row in rows[1:]]
    assert texts == [f"'{text}" for text in FORMULAS] + HARMLESS
    assert [text.removeprefix("'") for text in texts] == FORMULAS + HARMLESS
    assert [float(row[1]) for row in rows[1:]] == frame["number"].tolist()
    assert [row[2] for row in rows[1:]] == [str(n) for n in range(-7, 8)]
    assert [as_text(cell) for cell in (-0.5, None, True)] == [-0.5, None, True]


def test_every_csv_file_that_a_command_writes_has_no_formulas(tmp_path, monkeypatch):
    axes = [{"keys": ["population.users"], "values": [["=1+1"], ["@x"]]},
            {"keys": ["a.b"], "values": [[-0.5], [-1.0]]}]  # fmt: skip
    write_sweep(tmp_path / "r" / "s", axes, 2)
    client = Client(tmp_path / "r")
    [place] = client.get("api/results").json()["results"]
    table = list(
        csv.DictReader(io.StringIO(client.get("api/download", {"results": place["key"], "format": "csv"}).text))
    )
    assert {(row["population.users"], float(row["a.b"])) for row in table} == {
        (text, number) for text in ("'=1+1", "'@x") for number in (-0.5, -1.0)
    }
    frame = pd.DataFrame({"kind": ["=1+1"], "x0": [-0.5]})
    _write(frame, tmp_path / "e.csv")
    assert (tmp_path / "e.csv").read_text() == "kind,x0\n'=1+1,-0.5\n"
    _write(frame, tmp_path / "e.parquet")
    assert pd.read_parquet(tmp_path / "e.parquet").equals(frame)
    monkeypatch.setattr(search_outcome, "trials_table", lambda *_: frame)
    monkeypatch.setattr("p2p_sim.figures.privacy_utility.plot_search", lambda *_, path, **__: path.write_bytes(b""))
    tuning = search_outcome.Tuning(base(), Space(()), search_outcome.Goal(epsilon=1.0), "oracle")
    search_outcome.write_outcome(tmp_path, tuning, [], {}, None)
    assert (tmp_path / search_outcome.TRIALS_CSV).read_text() == "kind,x0\n'=1+1,-0.5\n"


def test_no_infinity_reaches_json_at_any_depth():
    values = {"a": (np.float32("inf"), [np.float32("nan"), -math.inf]), "b": np.int8(3)}
    assert finite(values) == {"a": ["inf", [None, "-inf"]], "b": 3}


def test_numbers_are_finite_floats_and_integers_of_64_bits():
    numbers = (1, -(2**63), 1.5, np.float32(2), np.int8(3), np.uint64(2**64 - 1))
    others = (True, np.True_, 2**70, 10**400, math.nan, np.complex128(1j), "1", None, np.array([1.0]))
    assert all(map(is_number, numbers))
    assert not any(map(is_number, others))
