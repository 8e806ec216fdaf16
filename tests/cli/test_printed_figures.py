"""Whatever people read of a run is read back and held against its statements: sentences, tiles, titles, JSON."""

import contextlib
import io
import itertools
import json
import math
import re

import pandas as pd
import pytest
from matplotlib.figure import Figure

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.cli.printing.numbers import finite, print_conditions
from p2p_sim.cli.printing.run_summary import meaning, privacy_lines, reservations
from p2p_sim.figures.privacy_utility import draw_privacy_utility
from p2p_sim.measures.privacy_sentences import sentences
from p2p_sim.measures.summary import summarise
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.statement_record import whole
from p2p_sim.replicate.run import Result
from p2p_sim.report.columns import with_failures
from p2p_sim.report.description import key_figures
from p2p_sim.report.privacy_statement import statement
from tests.random_scenarios import random_scenarios

PROMISED = {
    "ε, learner: sees all submissions": "epsilon_upper",
    "ε, whoever learns from the release": "epsilon_upper",
    "ε, learner who also sees their times": "epsilon_times_upper",
    "ε, learner with the coalition": "epsilon_coalition_upper",
    "ε₀, peer: sees one noisy label": "epsilon_local",
    "ε₀, whoever sees one user's message": "epsilon_local",
}
GUESSED = {
    "somebody who sees all submissions": "advantage_uniform",
    "somebody who sees the release": "advantage_uniform",
    "a coalition with the learner": "advantage_coalition",
}
TILES = {"ε, learner, at most": "epsilon_upper", "ε, learner with the coalition, at most": "epsilon_coalition_upper",
         "ε₀, the noise alone": "epsilon_local"}  # fmt: skip


OBSERVER = {"epsilon_upper": "learner", "epsilon_others_upper": "learner", "epsilon_times_upper": "learner-times",
            "epsilon_coalition_upper": "coalition", "epsilon_unmet_upper": "coalition"}  # fmt: skip


def number(text: str) -> float:
    return math.inf if text == "∞" else float(text)


def promises(lines: list[tuple[str, str]], delta: float) -> dict[str, float]:
    """ε of each line by the column that it is about; every ε of the learner stands at its δ."""
    found = {}
    for who, text in lines:
        if who in PROMISED:
            figure = re.match(r"([^ :]+)(?: at δ = ([^ ,]+))?", text)
            found[PROMISED[who]] = number(figure[1])
            assert PROMISED[who] == "epsilon_local" or float(figure[2]) == pytest.approx(delta, rel=1e-5), text
    return found


def check(row: dict, text: list[tuple[str, str]], meant: str) -> None:
    """Every figure is its statement, rounded up; whoever has a figure of her own is shown it; what ε means follows."""
    told = promises(text, row["delta"])
    if math.isinf(told["epsilon_upper"]):
        assert meant.startswith("Nothing here protects any one")
        assert "no finite ε is known" in meant
    else:
        factor = float(re.search(r"at most e\^ε = ([^ ]+) times as probable, plus δ", meant)[1])
        assert math.exp(row["epsilon_upper"]) <= factor <= math.exp(row["epsilon_upper"]) * 1.01
    for column, epsilon in told.items():
        assert row[column] <= epsilon or math.isinf(epsilon), (column, text)
        assert math.isinf(epsilon) == math.isinf(row[column]), (column, text)
        assert math.isinf(epsilon) or epsilon <= row[column] * 1.001 + 1e-9, (column, text)
    assert "epsilon_upper" in told
    if row["epsilon_coalition_upper"] is not None:
        assert "epsilon_coalition_upper" in told
    if row["epsilon_times_upper"] is not None and row["epsilon_times_upper"] > row["epsilon_upper"]:
        assert "epsilon_times_upper" in told


def check_guesses(row: dict, lines: list[str]) -> None:
    """Right guesses of 100 with what users sent are no fewer than the columns say."""
    for line in lines:
        who, right, without = re.search(r"labels, (.*) guesses at most ([\d.]+) right .* ([\d.]+) \(", line).groups()
        column, base = GUESSED[who], "guess_uniform"
        if "drawn independently" in line:
            column, base = column.replace("uniform", "cluster"), "guess_cluster"
        assert float(right) >= 100 * min(1.0, row[column] + row[base]) - 1e-6
        assert float(without) <= 100 * row[base] + 1e-6
    if row["advantage_coalition"] is not None:
        assert any("a coalition with the learner" in line for line in lines)


def check_report(row: dict, rows: pd.DataFrame, terms: dict) -> None:
    table = with_failures(rows, (), ())
    promise = " ".join(statement(rows, table, {}, {row["statement"]: terms})["promise"])
    infinite = math.isinf(row["epsilon_upper"])
    assert ("is not protected" in promise) == infinite
    assert ("is protected" in promise) != infinite
    tiles = {card.heading: number(card.figure) for card in key_figures(table) if card.heading in TILES}
    assert "epsilon_upper" in {TILES[heading] for heading in tiles}
    for heading, figure in tiles.items():
        assert figure >= row[TILES[heading]] * (1 - 1e-12)
    if row["epsilon_coalition_upper"] is not None:
        assert "ε, learner with the coalition, at most" in tiles
        assert infinite or "coalition has ε = " in promise


def check_figure(row: dict, rows: pd.DataFrame) -> None:
    axes = Figure().add_subplot()
    draw_privacy_utility(axes, rows)
    labels = " ".join(axes.get_legend_handles_labels()[1])
    coalition = row["epsilon_coalition_upper"]
    assert ("the learner with the coalition" in labels) == (coalition is not None and 0 < coalition < math.inf)
    assert ("no finite ε is known" in axes.get_xlabel().replace("\n", " ")) == math.isinf(row["epsilon_upper"])
    assert ("whole-row" in axes.get_xlabel()) == (row["adjacency"] == "example")


def check_bound(bound: PrivacyBound) -> None:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        print_conditions(bound)
    text, finite = told.getvalue(), math.isfinite(bound.epsilon_upper)
    assert text.startswith("It protects" if finite else "Nothing here protects")
    assert ("\n- " in text) == (finite and bool(bound.conditions))
    said = json.loads(json.dumps(whole(bound)))
    assert number(str(said["epsilon_upper"]).replace("inf", "∞")) == bound.epsilon_upper


def check_json(row: dict, rows: pd.DataFrame, terms: dict) -> None:
    """Every ε of `run --json` is the row's, and has the observer whose it is; what does not apply has no figure."""
    record = json.loads(json.dumps(finite({**summarise(rows), "statements": terms}), allow_nan=False))
    for column in record:
        if column.startswith("epsilon_"):
            said = record[column]
            assert (said is None) == (row[column] is None), column
            assert said is None or float(said) == row[column], column
    for column, observer in OBSERVER.items():
        stated, figure = record["statements"].get(column), row.get(column)
        assert (figure is not None) == (stated is not None and "not_applicable" not in stated), column
        if figure is not None:
            assert (stated["observer"], stated["adjacency"]) == (observer, row["adjacency"]), column
            assert stated["conditions"] or math.isinf(figure) or figure == 0.0, column
    for column, stated in record["statements"].items():
        assert ("not_applicable" in stated) == (row[column] is None), column
    assert (record["observer"], record["delta"]) == (row["observer"], row["delta"])


def held(result: Result) -> None:
    row = result.row
    rows = pd.DataFrame([row]).assign(point="0", num_clusters=row["num_clusters"])
    for verbose in (False, True):
        check(row, privacy_lines(rows, verbose), meaning(rows))
        assert any("protects nobody's real data" in line for line in reservations(rows, verbose))
        check_guesses(row, sentences(rows, verbose))
    check_report(row, rows, result.terms)
    check_figure(row, rows)
    check_json(row, rows, result.terms)
    for bound in set(result.privacy[:3]):
        check_bound(bound)


@pytest.mark.parametrize(("count", "seed"), [(30, 7), pytest.param(500, 8, marks=pytest.mark.slow)])
def test_what_people_read_is_what_the_statements_say(count, seed):
    done = 0
    for scenario in random_scenarios(count, seed, flips=(0.0, 0.1, 0.4)):
        try:
            result = p2p_sim.run(scenario)
        except InputError:  # nothing arrived
            continue
        held(result)
        done += 1
    assert done > 0.8 * count


def test_other_mechanisms_are_read_back_too():
    tree = {"name": "other", "engine": "vectorised", "population": {"kind": "synthetic", "users": 200}}
    for mechanism in ({"kind": "randomized_response", "flip_prob": 0.2}, {"kind": "pate", "target_epsilon": 1.0},
                      {"kind": "private_stacking", "epsilon": 1.0}):  # fmt: skip
        held(p2p_sim.run(p2p_sim.Scenario.from_tree({**tree, "mechanism": mechanism})))


MESSAGES = ({"flip_prob": 0.3}, {"randomizer": {"kind": "vector_approximation", "epsilon": 1.0}},
            {"randomizer": {"kind": "alibi", "epsilon": 1.0}})  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES, ids=str)
def test_exchanges_of_three_classes_are_read_back_too(message):
    people = {"kind": "circle", "users": 90, "num_classes": 3, "holdout": 50}
    learner = {"kind": "one_vs_rest" if "randomizer" in message else "logistic_regression"}
    for network, adversaries in itertools.product(({}, {"duplication": 0.3}), ({}, {"coalition": {"share": 0.1}})):
        tree = {"name": "three", "population": people, "mechanism": message, "learner": learner}
        held(p2p_sim.run(p2p_sim.Scenario.from_tree({**tree, "network": network, "adversaries": adversaries})))


def test_a_json_with_the_figure_of_another_observer_is_seen():
    result = p2p_sim.run(next(random_scenarios(1, 7)))
    rows = pd.DataFrame([result.row])
    check_json(result.row, rows, result.terms)
    for change in ({"observer": "peer"}, {"conditions": []}):
        with pytest.raises(AssertionError):
            check_json(result.row, rows, {**result.terms, "epsilon_upper": {**result.terms["epsilon_upper"], **change}})
    with pytest.raises(AssertionError):
        check_json({**result.row, "epsilon_upper": 0.5 * result.row["epsilon_upper"]}, rows, result.terms)


def test_a_sentence_that_leaves_out_the_coalition_is_seen():
    """The planted fault: the learner's figure alone, as it was printed beside a coalition's 2.165."""
    row = {"epsilon_upper": 0.4924, "epsilon_coalition_upper": 2.165, "epsilon_times_upper": None, "delta": 1e-6}
    text = [("ε, learner: sees all submissions", "0.4924 at δ = 1e-06")]
    both = [*text, ("ε, learner with the coalition", "2.165 at δ = 1e-06, 3 members")]
    meant = "whatever the learner may see would be at most e^ε = 1.637 times as probable, plus δ"
    check(row, both, meant)
    for spoilt, lines, said in (
        (row, text, meant),
        ({**row, "epsilon_coalition_upper": None, "epsilon_upper": math.inf}, text, meant),
        ({**row, "delta": 1e-5}, both, meant),
        (row, both, meant.replace("1.637", "1.6")),
    ):
        with pytest.raises(AssertionError):
            check(spoilt, lines, said)
