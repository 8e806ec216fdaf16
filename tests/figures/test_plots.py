"""Points, fits and figures of results; the `plot` command."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.cli.main import main
from p2p_sim.figures.column_labels import long, short
from p2p_sim.measures.intervals import mean_interval
from p2p_sim.measures.point_means import by_replicate, points
from p2p_sim.measures.scaling import fit_forms, log_log_slope
from p2p_sim.replicate.run import run
from p2p_sim.results.figure_request import FigureRequest
from p2p_sim.results.plots import FORMATS, draw_plots, plot

pytestmark = pytest.mark.figures

BASE = {
    "name": "small",
    "seed": 5,
    "engine": "vectorised",
    "population": {"kind": "synthetic", "users": 200, "num_clusters": 4},
    "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5},
}


def write_results(directory, axes, replicates=3, plots=(), drop=(), **changes):
    """A results directory as a sweep leaves it; axes: {key: values}; drop: (point, replicate) that failed."""
    base = p2p_sim.Scenario.from_tree({**BASE, **changes})
    places = [{}]
    for key, values in axes.items():
        places = [{**place, key: value} for place in places for value in values]
    rows = [
        run(base.replace(**place), replicate).row | {k: v if np.isscalar(v) else v["kind"] for k, v in place.items()}
        for number, place in enumerate(places)
        for replicate in range(replicates)
        if (number, replicate) not in drop
    ]
    directory.mkdir(exist_ok=True)
    (directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = {
        "name": base.name, "identity": "0" * 64, "kind": "sweep", "seed": base.seed, "replicates": replicates,
        "scenario": base.model_dump(mode="json"), "versions": {}, "model_version": rows[0]["model_version"],
        "axes": [{"keys": [key], "values": [[value] for value in values]} for key, values in axes.items()],
        "plots": list(plots),
    }  # fmt: skip
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Two axes, three replicates a point."""
    axes = {"mechanism.flip_prob": [0.05, 0.1, 0.3], "mechanism.sampling_rate": [0.3, 1.0]}
    return write_results(tmp_path_factory.mktemp("grid"), axes)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """Users along one axis, heterogeneity along the other."""
    axes = {"population.users": [200, 400, 800], "population.heterogeneity": [0.0, 0.4]}
    return write_results(tmp_path_factory.mktemp("grown"), axes)


def svg(paths):
    [path] = paths
    return path.read_text(encoding="utf-8")


def test_a_point_has_means_with_t_intervals_and_the_worst_epsilon_never_a_mean(grid):
    rows = p2p_sim.load_results(grid)
    rows.loc[0, "epsilon_upper"] += 1.0  # one bad replicate must show in full
    table = points(rows, ["mechanism.flip_prob", "mechanism.sampling_rate"])
    assert len(table) == 6
    assert table["replicates"].tolist() == [3] * 6
    for _, point in table.iterrows():
        mine = rows[rows["scenario"] == point["scenario"]]
        found = mean_interval(mine["excess_risk"])
        assert [point[f"excess_risk{end}"] for end in ("", "_low", "_high")] == pytest.approx(
            [found.value, found.low, found.high], rel=1e-12
        )
        assert point["epsilon_upper"] == mine["epsilon_upper"].max()
        assert point["mechanism.flip_prob"] == mine["flip_prob"].iloc[0]
    assert not [name for name in table if name.startswith("epsilon") and name.endswith(("_low", "_high"))]


def test_gaps_and_infinities_are_not_averaged_away():
    rows = pd.DataFrame(
        {"scenario": ["a", "a", "b"], "replicate": [0, 1, 0], "x": [1.0, None, 2.0], "y": [np.inf, 1.0, 3.0],
         "epsilon_upper": [np.inf, 0.1, 0.2], "epsilon_lower": [0.1, None, 0.2], "basis": ["p", "q", "p"]}
    )  # fmt: skip
    table = points(rows).set_index("scenario")
    assert table.loc["a", ["x", "y"]].isna().all()
    assert table.loc["b", ["x", "y"]].tolist() == [2.0, 3.0]
    assert table["epsilon_upper"].tolist() == [np.inf, 0.2]
    assert np.isnan(table.loc["a", "epsilon_lower"])
    assert np.isnan(table.loc["b", "x_low"])
    assert "basis" not in table


def test_replicates_that_a_point_lacks_are_left_out_everywhere(tmp_path):
    axes = {"mechanism.flip_prob": [0.1, 0.2]}
    rows = p2p_sim.load_results(write_results(tmp_path, axes, drop={(1, 1)}))
    assert by_replicate(rows, "excess_risk").columns.tolist() == [0, 2]
    assert points(rows)["replicates"].tolist() == [3, 2]


def slopes_that_cover(interval, trials=1500):
    """Share of intervals over a true slope of -1/2, points sharing most of each replicate's luck."""
    rng, x = np.random.default_rng(8), np.array([1.0, 2.0, 4.0, 8.0])
    hits = 0
    for _ in range(trials):
        luck = 1.0 + 0.2 * rng.normal(size=(1, 12)) * np.array([[1.0], [0.6], [0.2], [-0.2]])
        values = x[:, None] ** -0.5 * luck * (1.0 + 0.05 * rng.normal(size=(4, 12)))
        low, high = interval(x, values)
        hits += low <= -0.5 <= high
    return hits / trials


def jackknife_ends(x, values):
    found = log_log_slope(x, values)
    return found.low, found.high


def scatter_ends(x, values):
    """Planted mistake: the interval from the scatter of means about the line, blind to luck that points share."""
    from scipy.stats import linregress, t

    fit = linregress(np.log(x), np.log(values.mean(axis=1)))
    half = t.ppf(0.975, len(x) - 2) * fit.stderr
    return fit.slope - half, fit.slope + half


def test_slope_intervals_cover_the_true_slope_at_their_level():
    """1,500 intervals, error 1e-9: 95% within 6.2 standard errors and 1% for bias; sees coverage below 90.5%."""
    allowed = 6.2 * np.sqrt(0.95 * 0.05 / 1500) + 0.01
    assert abs(slopes_that_cover(jackknife_ends) - 0.95) < allowed
    assert slopes_that_cover(scatter_ends) < 0.95 - allowed


def test_a_power_law_has_its_slope_exactly():
    x = np.array([1.0, 3.0, 10.0, 50.0])
    found = log_log_slope(x, 7.0 * x[:, None] ** -0.5 * np.ones((1, 4)))
    assert [found.value, found.low, found.high] == pytest.approx([-0.5] * 3, abs=1e-12)
    with pytest.raises(ValueError, match="positive"):
        log_log_slope(x - 1.0, np.ones((4, 3)))


def situations(phi, alpha, arrived):
    """Points of which only what the forms need is given."""
    columns = {"heterogeneity": phi, "flip_prob": alpha, "sampling_rate": 1.0, "num_users": arrived}
    return pd.DataFrame(columns).astype(float)


@pytest.mark.parametrize(("form", "powers"), [(0, [1.0, 1.0, 0.5]), (1, [2.0, 2.0, 1.0])])
def test_a_fit_finds_the_constants_of_a_sum_of_its_terms_and_not_of_the_other(form, powers):
    rng = np.random.default_rng(3)
    phi, alpha, n = (v.ravel() for v in np.meshgrid([0.0, 0.2, 0.4], [0.02, 0.1, 0.3], [100.0, 1e3, 1e4]))
    terms = np.stack([phi, alpha, 1.0 / n], axis=1) ** powers
    values = (terms @ [0.5, 0.2, 3.0])[:, None] * (1.0 + 0.02 * rng.normal(size=(27, 20)))
    fits = fit_forms(situations(phi, alpha, n), values, rng)
    constants = fits[form].constants.values()
    assert [c.value for c in constants] == pytest.approx([0.5, 0.2, 3.0], rel=0.03)
    assert all(c.low < c.value < c.high < 1.05 * c.value for c in constants)
    assert fits[form].misfit < 0.03
    assert fits[1 - form].misfit > 0.3


def test_what_does_not_vary_is_one_constant_and_terms_in_step_are_refused():
    rng, n = np.random.default_rng(3), np.array([100.0, 400.0, 1600.0])
    fit, _ = fit_forms(situations(0.2, 0.1, n), (0.1 + 2.0 / np.sqrt(n))[:, None] * np.ones((1, 3)), rng)
    assert {name: c.value for name, c in fit.constants.items()} == pytest.approx({"1/√(θn)": 2.0, "fixed": 0.1})
    rounding = situations([1e-17, 0.0, 7e-17], 0.1, n)
    assert set(fit_forms(rounding, 1.0 / n[:, None], rng)[0].constants) == {"1/√(θn)", "fixed"}
    with pytest.raises(ValueError, match="cannot tell the terms φ, α, fixed apart"):
        fit_forms(situations(n, 2.0 * n, [1.0] * 3), np.ones((3, 3)), rng)


def test_the_default_figure_is_excess_risk_against_epsilon_with_a_line_an_axis(grid):
    text = svg(plot(grid, FigureRequest(), format_="svg"))
    for words in ("ε at δ = 1e-05, learner, label adjacency", "excess risk (log loss, nats)", "θ = 0.3", "α = 0.05",
                  "3 replicates per point", "95% confidence intervals", "ε is the worst over", "without"):  # fmt: skip
        assert words in text
    assert (grid / "plot-excess_risk-vs-epsilon_upper.svg").is_file()


@pytest.mark.parametrize("ending", [pytest.param(one, marks=[pytest.mark.slow] * (one != "svg")) for one in FORMATS])
def test_figures_are_reproducible_byte_for_byte(grid, tmp_path, ending):
    one, two = (tmp_path / f"{name}.{ending}" for name in "ab")
    for path in (one, two):
        plot(grid, FigureRequest(), path)
    assert one.read_bytes() == two.read_bytes()


def test_the_figures_of_the_manifest_are_drawn(tmp_path):
    plots = [
        {"x": "mechanism.flip_prob", "y": "error_rate", "group": None, "facet": None, "fit": False},
        {"x": "mechanism.flip_prob", "y": "excess_risk", "fit": True},
    ]
    write_results(tmp_path, {"mechanism.flip_prob": [0.05, 0.1, 0.2]}, plots=plots)
    names = ["plot-error_rate-vs-mechanism_flip_prob.png", "plot-excess_risk-vs-mechanism_flip_prob-fit.png"]
    assert [path.name for path in draw_plots(tmp_path)] == names
    with pytest.raises(InputError, match="2 figures are to be drawn; choose one"):
        plot(tmp_path, FigureRequest(), tmp_path / "one.png")


def test_facets_groups_and_text_along_x_have_their_labels(tmp_path):
    axes = {
        "network.latency": [{"kind": "constant"}, {"kind": "exponential"}],
        "mechanism.sampling_rate": [0.5, 1.0],
        "mechanism.flip_prob": [0.1, 0.3],
    }
    write_results(tmp_path, axes, 2)
    request = FigureRequest("network.latency", "error_rate", "mechanism.sampling_rate", "mechanism.flip_prob")
    text = svg(plot(tmp_path, request, format_="svg"))
    for words in ("constant", "exponential", "θ = 0.5", "θ = 1", "α = 0.1", "α = 0.3", "network.latency"):
        assert f">{words}<" in text


def test_an_axis_that_nobody_mentions_makes_lines_of_its_own_and_is_never_averaged_over(grid):
    text = svg(plot(grid, FigureRequest("mechanism.flip_prob", "accuracy"), format_="svg"))
    assert ">θ = 0.3<" in text
    assert ">θ = 1<" in text


def test_heat_maps_print_values_with_half_intervals(grid):
    text = svg(plot(grid, FigureRequest(heat="epsilon_upper"), format_="svg"))
    worst = p2p_sim.load_results(grid).groupby("scenario")["epsilon_upper"].max()
    assert all(f">{value:.3g}<" in text for value in worst)
    assert "ε is the worst over replicates" in text
    assert "±" in svg(plot(grid, FigureRequest(heat="excess_risk"), format_="svg"))


def test_fits_show_constants_slopes_and_the_floor(grown):
    request = FigureRequest("population.users", "excess_risk", "population.heterogeneity", fit=True)
    text = svg(plot(grown, request, format_="svg"))
    for words in ("Theorem 4's form, fitted", "squares, fitted", "log-log slope",
                  "off by up to", "slope -1/2", "without privacy"):  # fmt: skip
        assert words in text


@pytest.mark.parametrize("replicates", [2, 3])  # means over three replicates differ from the floor by rounding
def test_a_learner_that_reaches_the_floor_has_no_slope_towards_it(tmp_path, replicates):
    population = {
        "kind": "synthetic",
        "num_clusters": 2,
        "heterogeneity": 0.8,
        "positive_low": 0.45,
        "positive_high": 0.58,
    }
    changes = {"population": population, "learner": {"kind": "table"}, "seed": 1}
    write_results(tmp_path, {"population.users": [400, 4000, 40000]}, replicates, **changes)
    text = svg(plot(tmp_path, FigureRequest("population.users", "excess_risk", fit=True), format_="svg"))
    assert "towards its floor" in text
    assert "the measured distance from the exact floor" not in text


def test_infinite_epsilons_are_counted_not_drawn(tmp_path):
    write_results(tmp_path, {"mechanism.flip_prob": [0.05, 0.1, 0.2]})
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    rows[0]["epsilon_upper"] = float("inf")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "1 of 3 points not drawn: not finite" in svg(plot(tmp_path, FigureRequest(), format_="svg"))


def test_a_single_replicate_and_a_single_point_can_be_drawn(tmp_path):
    write_results(tmp_path, {}, 1)
    assert "no intervals from a single replicate" in svg(plot(tmp_path, FigureRequest(), format_="svg"))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (FigureRequest("flip_pro", "error_rate"), "--x flip_pro: no such column; did you mean flip_prob?"),
        (FigureRequest("epsilon_upper", "eror_rate"), "--y eror_rate: no such column; did you mean error_rate?"),
        (FigureRequest(group="sampling"), "--group sampling: no such column; did you mean sampling_rate?"),
        (FigureRequest("flip_prob", "basis"), "--y basis: holds text"),
        (FigureRequest("flip_prob", "epsilon_coalition_upper"), "--y epsilon_coalition_upper: has no value"),
        (FigureRequest("sampling_rate", "excess_risk", fit=True), "--fit: needs --y excess_risk and --x one of"),
        (FigureRequest("flip_prob", "error_rate", fit=True), "--fit: needs --y excess_risk"),
        (FigureRequest(heat="excess_risk", x="flip_prob", y="flip_prob"), "--y flip_prob: is --x too"),
    ],
)
def test_mistakes_get_one_line(grid, request_, words):
    with pytest.raises(InputError) as error:
        plot(grid, request_)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_directories_and_files_that_cannot_be_used_get_one_line(grid, tmp_path):
    for directory, out, format_, words in (
        (tmp_path / "none", None, None, "holds no results"),
        (grid, tmp_path / "a.gif", None, "must end in png, svg or pdf"),
        (grid, tmp_path / "a.png", "svg", "must end in .svg"),
        (grid, None, "gif", "--format gif: must be png, svg or pdf"),
        (grid, tmp_path / "none" / "a.png", None, "there is no directory"),
    ):
        with pytest.raises(InputError, match=words):
            plot(directory, FigureRequest(), out, format_)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        plot(tmp_path, FigureRequest())


def test_the_command_prints_the_files_it_wrote(grid, tmp_path, monkeypatch, capsys):
    out = str(tmp_path / "figure.svg")
    arguments = ["plot", str(grid), "--x", "mechanism.flip_prob", "--y", "error_rate", "--out", out]
    monkeypatch.setattr(sys, "argv", ["p2p-sim", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert capsys.readouterr().out == f"{out}\n"
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "plot", str(grid), "--x", "flip_probb"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_labels_have_symbols_and_units():
    table = pd.DataFrame({"delta": [1e-5], "adjacency": ["label"]})
    expected = "ε at δ = 1e-05, learner, label adjacency (upper bound, worst replicate and cluster)"
    assert long("epsilon_upper", table) == expected
    assert [short(key) for key in ("population.users", "mechanism.flip_prob", "odd.key")] == ["n", "α", "key"]
    assert long("my_time_s", table) == "my_time (seconds)"
    assert long("network.mystery", table) == "network.mystery"
