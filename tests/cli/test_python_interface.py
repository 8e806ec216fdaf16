"""p2p_sim from Python: short representations, figures on axes, and one line for each wrong argument."""

from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest

import p2p_sim
from p2p_sim.privacy import LabelExchange
from p2p_sim.results.figure_request import FigureRequest
from p2p_sim.results.plots import plot
from p2p_sim.sweeps.plan import make_plan
from p2p_sim.sweeps.run_scenario import run_point
from p2p_sim.sweeps.run_sweep import run_sweep

pytestmark = pytest.mark.figures

TREE = {
    "name": "tiny", "engine": "vectorised", "replicates": 2,
    "population": {"kind": "synthetic", "users": 60, "num_clusters": 2}, "mechanism": {"flip_prob": 0.2},
}  # fmt: skip
AXES = {"mechanism.flip_prob": [0.1, 0.2, 0.4], "mechanism.sampling_rate": [0.5, 1.0]}


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def scenario():
    return p2p_sim.Scenario.from_tree(TREE)


@pytest.fixture(scope="module")
def swept(scenario, tmp_path_factory):
    """A sweep's rows and their directory."""
    out = tmp_path_factory.mktemp("swept") / "results"
    return p2p_sim.sweep(scenario, AXES, 2, out), out


class Balanced(HTMLParser):
    """HTML whose tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words = [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += f"{data} "


def shown(scenario, tmp_path):
    """Everything with a short representation."""
    result = p2p_sim.run(scenario)
    plan = make_plan("noise", scenario, [], 2)
    return [
        scenario,
        result,
        result.privacy[0],
        plan,
        run_sweep(plan, tmp_path / "a"),
        run_point(scenario, tmp_path / "b"),
    ]


def test_representations_are_one_short_line(scenario, tmp_path):
    for value in shown(scenario, tmp_path):
        assert repr(value).startswith(type(value).__name__ + "(")
        assert len(repr(value)) < 250
        assert "\n" not in repr(value)


def test_notebooks_show_tables(scenario):
    result = p2p_sim.run(scenario.replace(name="a-b"))
    for value, words in ((scenario, "tiny"), (result, "accuracy"), (result.privacy[0], "no more than")):
        assert words in Balanced(value._repr_html_()).words
    assert "<li>" in result.privacy[0]._repr_html_()


def test_a_shown_bound_holds():
    """Four digits, never below the upper end and never above the lower end."""
    for flip_prob in np.linspace(0.05, 0.45, 30):
        bound = LabelExchange(cluster_size=10, flip_prob=flip_prob, sampling_rate=0.5).epsilon(delta=1e-5)
        upper = float(repr(bound).split("≤ ")[1].split(" ")[0])
        assert bound.epsilon_upper <= upper <= bound.epsilon_upper * 1.001
        words = Balanced(bound._repr_html_()).words.split()
        lower = float(words[words.index("smaller") + 4])
        assert lower <= bound.epsilon_lower


@pytest.mark.parametrize("y", ["accuracy", "error_rate", "excess_risk", "epsilon_upper"])
@pytest.mark.slow_where(lambda y: y in {"error_rate", "excess_risk"})
def test_a_plot_shows_what_the_command_shows(swept, tmp_path, monkeypatch, y):
    """The same points: of a frame, of a directory, and of `p2p-sim plot`."""
    rows, directory = swept
    drawn = []
    monkeypatch.setattr("p2p_sim.results.plots.plot_lines", lambda table, view, *rest: drawn.append((table, view)))
    monkeypatch.setattr("p2p_sim.results.plots.in_place_of", _nothing)
    plot(directory, FigureRequest("mechanism.flip_prob", y), tmp_path / "a.png")
    [(table, view)] = drawn
    for source in (rows, directory, str(directory)):
        lines = _lines(p2p_sim.plot(source, x="mechanism.flip_prob", y=y))
        assert len(lines) == 2 == len(table[view.group[0]].unique())
        for line, (_, part) in zip(lines, table.groupby(view.group[0]), strict=True):
            np.testing.assert_allclose(line.get_xdata(), part["mechanism.flip_prob"])
            np.testing.assert_allclose(line.get_ydata(), part[y])


def _nothing(path):
    from contextlib import nullcontext

    return nullcontext(path)


def _lines(axes):
    return [line for line in axes.lines if line.get_label().startswith("θ")]


def test_keys_that_change_together_are_one_axis(scenario, tmp_path):
    from p2p_sim.sweeps.sweep_file import Axis

    axis = Axis(keys=("population.users", "population.num_clusters"), values=((60, 2), (90, 3), (120, 4)))
    rows = run_sweep(make_plan("both", scenario, [axis], 2), tmp_path).rows
    axes = p2p_sim.plot(rows, x="population.users", y="accuracy")
    [line] = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert line.get_xdata().tolist() == [60, 90, 120]


def test_a_plot_goes_where_it_is_told(swept, scenario):
    figure, (left, right) = matplotlib.pyplot.subplots(1, 2)
    assert p2p_sim.plot(swept[0], ax=left) is left
    assert p2p_sim.run(scenario).plot(ax=right) is right
    assert left.get_legend() is not None
    assert right.get_legend() is not None
    assert len(matplotlib.pyplot.get_fignums()) == 1
    figure.canvas.draw()


def test_new_axes_have_labels_a_legend_and_a_caption(swept, scenario):
    axes = p2p_sim.plot(swept[0], x="epsilon_upper", y="accuracy", group="mechanism.sampling_rate")
    assert axes.get_title(loc="left") == "accuracy against ε"
    assert "ε at δ = 1e-05, learner" in axes.get_xlabel()
    assert "accuracy" in axes.get_ylabel()
    [legend] = axes.figure.legends
    assert "95% confidence intervals of means; ε is the worst over" in legend.get_title().get_text()
    assert "ε at δ" in p2p_sim.run(scenario).plot().get_xlabel()


def test_columns_have_the_names_that_figures_take(swept, scenario, tmp_path):
    rows, directory = swept
    runs = p2p_sim.run_all(scenario, tmp_path)
    for frame in (rows, p2p_sim.load_results(directory), runs):
        assert (frame["accuracy"] == 1 - frame["error_rate"]).all()
    assert "accuracy" not in (directory / "rows.jsonl").read_text()


def test_a_scenario_may_be_the_path_of_its_file(tmp_path):
    file = tmp_path / "tiny.toml"
    file.write_text(
        'name = "tiny"\n[population]\nkind = "synthetic"\nusers = 60\nnum_clusters = 2\n[mechanism]\nflip_prob = 0.2\n'
    )
    one, two = p2p_sim.run(file), p2p_sim.run(str(file))
    assert one.row == two.row
    assert len(p2p_sim.sweep(str(file), {"seed": np.arange(1, 3)}, 1, tmp_path / "a")) == 2
    few = p2p_sim.load_scenario(file, ["replicates=1"])
    assert len(p2p_sim.run_all(few, tmp_path / "b")) == 1


WRONG = {
    "scenario = 3 (int): must be a Scenario or the path": lambda s, rows: p2p_sim.run(3),
    "nowhere.toml: cannot be read": lambda s, rows: p2p_sim.run("nowhere.toml"),
    "Scenario.from_tree makes one of it": lambda s, rows: p2p_sim.run(TREE),
    "replicate = 1.5 (float): must be a whole number, at least 0": lambda s, rows: p2p_sim.run(s, 1.5),
    "replicate = -1 (int)": lambda s, rows: p2p_sim.run(s, -1),
    "data_dir = 3 (int): must be a path": lambda s, rows: p2p_sim.run(s, data_dir=3),
    "out = 3 (int): must be a path": lambda s, rows: p2p_sim.run_all(s, out=3),
    "scenario = None (NoneType)": lambda s, rows: p2p_sim.run_all(None),
    "axes: mechanism.flip_prob = 0.1 (float): must be a list": lambda s, rows: p2p_sim.sweep(
        s, {"mechanism.flip_prob": 0.1}
    ),
    "axes: mechanism.flip_prob = '0.1' (str): must be a list": lambda s, rows: p2p_sim.sweep(
        s, {"mechanism.flip_prob": "0.1"}
    ),
    "axes: mechanism.flip_prob: values = []": lambda s, rows: p2p_sim.sweep(s, {"mechanism.flip_prob": []}),
    "axes = [1] (list): must map keys": lambda s, rows: p2p_sim.sweep(s, [1]),
    "axes: 3: key = 3: should be a valid string": lambda s, rows: p2p_sim.sweep(s, {3: [1]}),
    "workers = '2' (str)": lambda s, rows: p2p_sim.sweep(s, AXES, workers="2"),
    "workers = 0 (int)": lambda s, rows: p2p_sim.sweep(s, AXES, workers=0),
    "replicates = True (bool)": lambda s, rows: p2p_sim.sweep(s, AXES, replicates=True),
    "plots: x = 1": lambda s, rows: p2p_sim.sweep(s, AXES, plots=[{"x": 1}]),
    "plots = {'x': 'a'} (dict)": lambda s, rows: p2p_sim.sweep(s, AXES, plots={"x": "a"}),
    "plots = 3 (int)": lambda s, rows: p2p_sim.sweep(s, AXES, plots=3),
    "mechanism: is missing": lambda s, rows: p2p_sim.Scenario(name="x"),
    "Scenario: takes its keys by name": lambda s, rows: p2p_sim.Scenario("x"),
    "seed: a scenario is frozen; scenario.replace(seed=...) makes": lambda s, rows: setattr(s, "seed", 3),
    'scenario.replace(**{"PART.flip_prob": ...})': lambda s, rows: setattr(s.mechanism, "flip_prob", 0.3),
    "row: a result is frozen; dataclasses.replace(": lambda s, rows: setattr(p2p_sim.run(s), "row", {}),
    "tree = [1] (list)": lambda s, rows: p2p_sim.Scenario.from_tree([1]),
    "path = 3 (int): must be a path": lambda s, rows: p2p_sim.load_scenario(3),
    "overrides = 'seed=2' (str)": lambda s, rows: p2p_sim.load_scenario("x.toml", "seed=2"),
    "directory = 3 (int)": lambda s, rows: p2p_sim.load_results(3),
    "directory = None (NoneType)": lambda s, rows: p2p_sim.load_statements(None),
    "rows = 3 (int): must be a data frame": lambda s, rows: p2p_sim.plot(3),
    "rows: have no column 'scenario'": lambda s, rows: p2p_sim.plot(rows[["replicate"]]),
    "rows: there are none": lambda s, rows: p2p_sim.plot(rows.head(0)),
    "x acuracy: no such column; did you mean accuracy?": lambda s, rows: p2p_sim.plot(rows, x="acuracy"),
    "y basis: holds text": lambda s, rows: p2p_sim.plot(rows, y="basis"),
    "group = 3 (int): must be the name of a column": lambda s, rows: p2p_sim.plot(rows, group=3),
    "ax = 3 (int): must be matplotlib axes": lambda s, rows: p2p_sim.plot(rows, ax=3),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_argument_is_one_line(message, scenario, swept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(p2p_sim.InputError) as caught:
        WRONG[message](scenario, swept[0])
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_are_numbers(scenario):
    changed = scenario.replace(**{"mechanism.flip_prob": np.float32(0.25), "population.users": np.int64(80)})
    assert (changed.mechanism.flip_prob, changed.population.users) == (0.25, 80)


def test_a_row_and_a_frame_have_the_same_keys_and_no_column_is_object(scenario, swept, tmp_path):
    row, runs = p2p_sim.run(scenario).row, p2p_sim.run_all(scenario, tmp_path)
    assert list(row) == list(runs)
    assert set(swept[0]) == set(row) | set(AXES)
    assert row["accuracy"] == runs["accuracy"][0]
    for frame in (runs, swept[0], p2p_sim.load_results(swept[1])):
        assert list(frame.columns[frame.dtypes == "object"]) == []
        assert all((frame[name].dtype.kind == "f") == (value is None) for name, value in row.items() if value is None)


def test_dir_and_help_show_what_one_needs(scenario):
    names = {name for name in dir(scenario) if not name.startswith("_")}
    assert {"seed", "mechanism", "replace", "model_dump"} <= names
    assert not {"model_fields_set", "model_copy", "json", "parse_raw"} & names
    first = p2p_sim.__doc__.split("\n\n")[1].splitlines()
    assert [line.split("(")[0] for line in first] == ["load_scenario", "table", "run", "run_all", "sweep"]
