"""The baseline of learning: in rows, tables, reports and figures, with a warning where nothing was learned."""

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.figures.privacy_utility import plot_privacy_utility
from p2p_sim.measures.baseline import gains, points_not_above, warnings_of
from p2p_sim.measures.point_means import points
from p2p_sim.measures.risk import best_logistic_risk, constant_risks, log_risk
from p2p_sim.measures.summary import summarise
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.report.description import learned_nothing
from p2p_sim.report.results_report import write_report
from p2p_sim.results.figure_request import FigureRequest
from p2p_sim.results.plots import plot
from p2p_sim.scenario import Scenario
from tests.commands import command

EXCHANGE = {"flip_prob": 0.1, "sampling_rate": 0.5}


def scenario(population, **more):
    tree = {"name": "t", "engine": "vectorised", "replicates": 3, "mechanism": EXCHANGE, "population": population}
    return Scenario.from_tree({**tree, **more})


def table(folder, separable: bool):
    """300 rows, a third of them of class 1; the feature says the class, or nothing (an identifier of large numbers)."""
    labels = (np.arange(300) % 3 == 0).astype(int)
    feature = labels + np.random.default_rng(0).normal(0, 0.1, 300) if separable else np.arange(300) * 1e6
    pd.DataFrame({"x": feature, "y": labels}).to_csv(folder / "own.csv", index=False)
    (folder / "own.toml").write_text(
        'name = "own"\nengine = "vectorised"\nreplicates = 4\n[population]\nkind = "table"\npath = "own.csv"\n'
        'label = "y"\n[clusters]\nkind = "kmeans"\ncount = 3\nmin_size = 20\n[mechanism]\nflip_prob = 0.1\n'
        "sampling_rate = 0.9\n"
    )


def test_the_row_has_the_majority_class_of_the_users_on_the_holdout():
    chosen = scenario({"kind": "digits", "task": "one-against-rest", "one": 3})
    result = p2p_sim.run(chosen)
    people = result.population
    assert np.bincount(people.labels).argmax() == 0
    assert result.row["majority_error_rate"] == pytest.approx(np.mean(people.holdout.labels == 1))
    assert 0.05 < result.row["majority_error_rate"] < 0.15
    assert result.row["constant_excess_risk"] is None


def test_under_a_known_law_the_baseline_is_exact():
    chosen = scenario({"kind": "synthetic", "users": 500, "positive_low": 0.3, "positive_high": 0.9})
    row, law = p2p_sim.run(chosen).row, Replicate(chosen).people().law
    positive = law.mass @ law.label_distribution[:, 1]
    assert row["majority_error_rate"] == pytest.approx(1 - positive)
    constant = np.tile([1 - positive, positive], (len(law.mass), 1))
    best = best_logistic_risk(law.points, law.mass, law.label_distribution[:, 1])
    expected = log_risk(law.mass, law.label_distribution, constant) - best
    assert row["constant_excess_risk"] == pytest.approx(expected)
    assert all(
        log_risk(law.mass, law.label_distribution, np.tile([1 - p, p], (len(law.mass), 1))) >= best + expected - 1e-12
        for p in (positive - 0.05, positive + 0.05)
    )
    zero_one = p2p_sim.run(scenario(chosen.population.model_dump(), learner={"kind": "table"})).row
    assert zero_one["constant_excess_risk"] == pytest.approx(1 - positive - zero_one["bayes_error_rate"])
    assert constant_risks(np.array([1.0]), np.array([[1.0, 0.0]])) == (0.0, 0.0)


def rows(private, nonprivate, majority=0.35, **more):
    size = len(private)
    return pd.DataFrame(
        {
            "scenario": ["a"] * size, "replicate": range(size), "error_rate": private,
            "nonprivate_error_rate": nonprivate, "majority_error_rate": majority, **more,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("private", "nonprivate", "warned"),
    [
        ([0.10, 0.12, 0.11], [0.09, 0.10, 0.10], []),
        ([0.36, 0.37, 0.38], [0.09, 0.10, 0.10], ["what is learned has accuracy 0.6300"]),
        ([0.31, 0.41, 0.30], [0.09, 0.10, 0.10], ["what is learned"]),
        ([0.35, 0.35], [0.35, 0.35], ["what is learned", "even without privacy"]),
        ([0.36], [0.34], ["what is learned"]),
        ([0.36], [0.36], ["what is learned", "even without privacy"]),
        ([0.36, 0.37], [None, None], ["what is learned"]),
    ],
)
def test_what_is_not_clearly_above_the_majority_class_is_named(private, nonprivate, warned):
    found = warnings_of(rows(private, nonprivate))
    assert len(found) == len(warned)
    assert all(line.startswith(start) for line, start in zip(found, warned, strict=True))


def test_nothing_is_said_where_nothing_is_known_or_possible():
    old = rows([0.4, 0.4], [0.4, 0.4]).drop(columns="majority_error_rate")
    assert gains(old) == warnings_of(rows([0.4, 0.4], [0.4, 0.4], [0.3, None])) == []
    assert warnings_of(rows([0.4, 0.4], [0.4, 0.4], bayes_error_rate=0.35)) == []
    assert len(warnings_of(rows([0.4, 0.4], [0.4, 0.4], bayes_error_rate=0.2))) == 2
    assert points_not_above(old) == (0, 0)
    risks = {"bayes_error_rate": 0.35, "excess_risk": [0.03, 0.04], "constant_excess_risk": 0.01}
    [line] = warnings_of(rows([0.35, 0.36], [0.35, 0.35], nonprivate_excess_risk=0.005, **risks))
    assert line.startswith("what is learned has accuracy 0.6450, not clearly above the 0.6500")
    assert "(no model can be); the best constant has the smaller excess risk, 0.01 against 0.035 (difference" in line
    assert len(warnings_of(rows([0.35, 0.35], [0.35, 0.35], nonprivate_excess_risk=0.02, **risks))) == 2
    for better in ({"excess_risk": [0.005, 0.006]}, {"bayes_error_rate": 0.2, "error_rate": [0.3, 0.3]}):
        assert warnings_of(rows([0.35, 0.36], [0.3, 0.3], nonprivate_excess_risk=0.0, **risks).assign(**better)) == []
    two = pd.concat([rows([0.4, 0.4], [0.4, 0.4]), rows([0.1, 0.1], [0.1, 0.1]).assign(scenario="b")])
    assert points_not_above(two) == (1, 2)
    assert learned_nothing(two) == [
        "In 1 of 2 points, what is learned is not clearly more accurate than always saying the majority class."
    ]
    assert points(rows([0.2, 0.3], [0.1, 0.1]))["majority_accuracy"].tolist() == [0.65]


def test_an_identifier_of_large_numbers_does_not_pass_without_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for separable in (False, True):
        table(tmp_path, separable)
        status, out, err = command("run", "own.toml")
        assert status == 0
        assert "  always the majority's label" in out
        assert ("warning: what is learned has accuracy" in err) == (not separable)
        assert ("warning: even without privacy" in err) == (not separable)
        directory = tmp_path / out.split("rows.jsonl")[0].split()[-1]
        page = write_report(directory).read_text("utf-8")
        assert "accuracy, always the majority class" in page
        assert ("not clearly above the 0.6" in page) == (not separable)
        assert "always saying the majority class: 0.6" in page  # the figure's legend
        assert summarise(p2p_sim.load_results(directory))["majority_error_rate"]["mean"] == pytest.approx(
            1 / 3, abs=0.1
        )


def test_sweeps_draw_the_baseline_and_count_the_points_below(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(tmp_path, True)
    (tmp_path / "noise.toml").write_text(
        'name = "noise"\nbase = "own.toml"\nreplicates = 3\n'
        '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = [0.05, 0.5]\n'
    )
    status, out, err = command("sweep", "noise.toml", "--workers", 1)
    assert status == 0
    assert "warning: in 1 of 2 points, what is learned is not clearly more accurate" in err
    directory = tmp_path / out.split("rows.jsonl")[0].split()[-1]
    [figure] = plot(directory, FigureRequest(x="mechanism.flip_prob", y="accuracy"), format_="svg")
    assert "always saying the majority class" in figure.read_text("utf-8")
    [figure] = plot(directory, FigureRequest(x="mechanism.flip_prob", y="epsilon_upper"), format_="svg")
    assert "majority class" not in figure.read_text("utf-8")
    assert "In 1 of 2 points" in write_report(directory).read_text("utf-8")


def test_rows_of_earlier_versions_are_drawn_without_a_baseline(tmp_path):
    table(tmp_path, True)
    found = p2p_sim.run_all(p2p_sim.load_scenario(tmp_path / "own.toml"), tmp_path / "out")
    for old, shown in ((found, True), (found.drop(columns=["majority_error_rate", "constant_excess_risk"]), False)):
        plot_privacy_utility(old, "t", tmp_path / "f.svg")
        assert ("always saying the majority class" in (tmp_path / "f.svg").read_text("utf-8")) == shown
        assert ("majority_error_rate" in summarise(old)) == shown


@pytest.mark.parametrize(("loss", "blamed"), [(0.95, True), (0.0, False)])
def test_where_few_requests_are_answered_the_network_is_blamed(loss, blamed):
    """With equal labels in every cluster there is nothing to learn, so that both runs warn."""
    alike = scenario({"kind": "synthetic", "users": 300, "positive_low": 0.48, "positive_high": 0.52},
                     engine="events", network={"loss": loss, "request_timeout_s": 1.0})  # fmt: skip
    rows = pd.DataFrame([p2p_sim.run(alike, replicate).row for replicate in range(5)])
    [line] = [line for line in warnings_of(rows) if line.startswith("what is learned has accuracy")]
    assert line.endswith("; few requests were answered: look at the network") == blamed
