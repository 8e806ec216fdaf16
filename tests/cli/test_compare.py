"""Comparisons of two results directories."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.cli.main import main
from p2p_sim.cli.printing.differences import interval_cells
from p2p_sim.measures.intervals import Mean, mean_interval
from p2p_sim.measures.point_means import differences, welch_interval
from p2p_sim.results.comparison import compare
from tests.figures.test_plots import write_results

ALPHAS = {"mechanism.flip_prob": [0.05, 0.2]}
LESS = {"flip_prob": 0.1, "sampling_rate": 0.2}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same sweep with sampling rates 0.5 and 0.2, one seed."""
    place = tmp_path_factory.mktemp("pair")
    write_results(place / "a", ALPHAS, 4)
    write_results(place / "b", {"mechanism.flip_prob": [0.05, 0.2, 0.4]}, 4, mechanism=LESS)
    return place / "a", place / "b"


def of(found, column, values=None):
    return next(d for d in found.differences if d.column == column and d.values == values)


def test_differences_are_paired_by_point_and_replicate(pair):
    found = compare(*pair)
    assert found.paired
    one, two = (p2p_sim.load_results(directory) for directory in pair)
    each = []
    for alpha in (0.05, 0.2):
        a, b = (rows[rows["mechanism.flip_prob"] == alpha].set_index("replicate")["excess_risk"] for rows in (one, two))
        expected = mean_interval(b - a)
        assert of(found, "excess_risk", {"mechanism.flip_prob": alpha}).difference == expected
        each.append(b - a)
    pooled = of(found, "excess_risk").difference
    expected = mean_interval((each[0] + each[1]) / 2)
    assert [pooled.value, pooled.low, pooled.replicates] == pytest.approx([expected.value, expected.low, 4])
    assert found.settings == (("mechanism.sampling_rate", 0.5, 0.2),)


def test_the_worst_epsilon_is_of_equally_many_replicates(tmp_path):
    """Ten replicates against three: the worst of the common three, of a seed of its own of the first three."""
    write_results(tmp_path / "ten", {}, 10)
    for seed, paired in ((5, True), (6, False)):
        write_results(tmp_path / str(seed), {}, 3, seed=seed)
        one, two = (p2p_sim.load_results(tmp_path / name) for name in ("ten", str(seed)))
        [found] = compare(tmp_path / "ten", tmp_path / str(seed), ["epsilon_upper"]).differences
        assert found.counts == (3, 3)
        first_three = one.loc[one["replicate"] < 3, "epsilon_upper"].max()
        assert (found.first, found.second) == (first_three, two["epsilon_upper"].max())
        assert compare(tmp_path / "ten", tmp_path / str(seed)).paired is paired
    assert first_three < one["epsilon_upper"].max()  # or this test could not fail


def test_no_interval_is_wrapped_and_what_rounding_leaves_is_zero(pair, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "compare", *map(str, pair)])
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 or max(map(len, lines)) == len(f"second: {pair[1]} (test)")
    assert sum(line.count("[") for line in lines) == 6
    assert all(line.count("[") == line.count("]") for line in lines)
    assert interval_cells(Mean(5.551e-18, -1e-17, 2e-17, 3), 0.1) == ("0", "[0, 0]")
    assert interval_cells(Mean(5.551e-8, -1e-7, 2e-7, 3), 0.1) == ("+5.55e-08", "[-1e-07, +2e-07]")


def test_epsilon_is_the_worst_of_each_side_without_an_interval(pair):
    found = compare(*pair)
    one, two = (p2p_sim.load_results(directory) for directory in pair)
    worst = of(found, "epsilon_upper")
    shared = two["mechanism.flip_prob"] < 0.3
    assert (worst.first, worst.second) == (one["epsilon_upper"].max(), two.loc[shared, "epsilon_upper"].max())
    assert worst.difference is None


def test_a_run_meets_the_point_of_a_sweep_that_has_its_value(pair, tmp_path):
    write_results(tmp_path / "run", {}, 3, mechanism={"flip_prob": 0.2, "sampling_rate": 0.5})
    found = compare(pair[0], tmp_path / "run", ["error_rate"])
    [only] = found.differences
    assert only.values == {"mechanism.flip_prob": 0.2}
    assert (only.difference.value, only.difference.low, only.difference.high) == (0.0, 0.0, 0.0)  # the same numbers
    assert only.difference.replicates == 3


def test_a_run_is_held_against_every_mechanism_of_a_sweep(pair, tmp_path):
    write_results(tmp_path / "run", {}, 3, mechanism={"flip_prob": 0.2, "sampling_rate": 0.5})
    kinds = [{"kind": "label_exchange", "flip_prob": 0.2}, {"kind": "randomized_response", "flip_prob": 0.2}]
    write_results(tmp_path / "sweep", {"mechanism": kinds}, 3)
    found = compare(tmp_path / "sweep", tmp_path / "run", ["error_rate"])
    assert [d.values for d in found.differences if d.values] == [{"mechanism": kind["kind"]} for kind in kinds]


def test_a_key_that_the_other_side_lacks_is_no_obstacle():
    one = pd.DataFrame({"k": [1, 1, 2, 2], "replicate": [0, 1, 0, 1], "y": [1.0, 2.0, 3.0, 5.0]})
    two = pd.DataFrame({"k": [2.0, 2.0], "replicate": [1, 2], "y": [6.0, 0.0]})
    [only] = differences(one, two, ["k"], "y", paired=True)
    assert (only.values, only.first, only.second, only.difference.value) == ({"k": 2}, 5.0, 6.0, 1.0)


def test_other_seeds_give_welch_intervals_and_say_so(pair, tmp_path, capsys, monkeypatch):
    write_results(tmp_path / "c", ALPHAS, 5, seed=6)
    found = compare(pair[0], tmp_path / "c", ["error_rate"])
    assert not found.paired
    one, two = (p2p_sim.load_results(directory) for directory in (pair[0], tmp_path / "c"))
    a, b = (rows.loc[rows["mechanism.flip_prob"] == 0.2, "error_rate"] for rows in (one, two))
    expected = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    mine = of(found, "error_rate", {"mechanism.flip_prob": 0.2}).difference
    assert [mine.low, mine.high] == pytest.approx([expected.low, expected.high])
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "compare", str(pair[0]), str(tmp_path / "c")])
    with pytest.raises(SystemExit):
        main()
    assert "NOT paired: the seeds differ (5 and 6)" in capsys.readouterr().out


def test_nothing_shared_is_refused_in_one_line(pair, tmp_path):
    write_results(tmp_path / "far", {"mechanism.flip_prob": [0.3]}, 2)
    with pytest.raises(
        InputError, match=r"share no point .*mechanism.flip_prob is 0.05, 0.2 in one and 0.3 in the other"
    ):
        compare(pair[0], tmp_path / "far")
    with pytest.raises(InputError, match="--y eror_rate: no such column; did you mean error_rate"):
        compare(*pair, ["eror_rate"])
    with pytest.raises(InputError, match="--y basis: must hold numbers"):
        compare(*pair, ["basis"])
    with pytest.raises(InputError, match="holds no results"):
        compare(pair[0], tmp_path / "nowhere")


def covers(method, trials=1500):
    """Share of 95% intervals over the true difference 1, of pairs that share most of their scatter."""
    rng, hits = np.random.default_rng(2), 0
    for _ in range(trials):
        shared, own = 3.0 * rng.normal(size=6), rng.normal(size=(2, 6))
        found = method(shared + own[0], shared + own[1] + 1.0)
        hits += found.low <= 1.0 <= found.high
    return hits / trials


def test_paired_intervals_cover_at_their_level():
    """1,500 intervals, error 1e-9: 95% within 6.2 standard errors; Welch's, far too wide here, are seen."""
    allowed = 6.2 * np.sqrt(0.95 * 0.05 / 1500)
    assert abs(covers(lambda a, b: mean_interval(b - a)) - 0.95) < allowed
    assert covers(welch_interval) > 0.95 + allowed


def test_pooling_counts_replicates_not_points():
    """Eight points that are copies of each other know no more than one; counting all 32 pairs would be narrower."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=4)
    rows = [{"k": k, "replicate": r, "y": values[r]} for k in range(8) for r in range(4)]
    one = pd.DataFrame(rows)
    two = one.assign(y=0.0)
    pooled = differences(one, two, ["k"], "y", paired=True)[-1]
    expected, naive = mean_interval(-values), mean_interval(-one["y"])
    assert pooled.values is None
    assert [pooled.difference.low, pooled.difference.high] == pytest.approx([expected.low, expected.high])
    assert naive.high - naive.low < 0.6 * (expected.high - expected.low)


def test_json_is_one_object(pair, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "compare", *map(str, pair), "--json", "--y", "excess_risk"])
    with pytest.raises(SystemExit):
        main()
    record = json.loads(capsys.readouterr().out)
    assert record["method"] == "paired t"
    assert [d["point"] for d in record["differences"]] == [
        {"mechanism.flip_prob": 0.05}, {"mechanism.flip_prob": 0.2}, None,
    ]  # fmt: skip
    assert all(d["interval_95"][0] <= d["difference"] <= d["interval_95"][1] for d in record["differences"])
