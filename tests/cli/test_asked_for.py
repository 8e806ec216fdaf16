"""What was asked for is what comes back: rows outside the request stay on disk and are counted apart."""

import json
from pathlib import Path

import pandas as pd
import pytest

import p2p_sim
from p2p_sim.results import plots
from p2p_sim.results.rows import stored_rows
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.run_scenario import run_point
from p2p_sim.sweeps.run_sweep import run_sweep
from tests.commands import command
from tests.sweeps.test_sweep import BASE, plan, stand_in

TREE = {
    "name": "tiny", "engine": "vectorised", "population": {"kind": "synthetic", "users": 60, "num_clusters": 2},
    "mechanism": {"kind": "label_exchange", "flip_prob": 0.2},
}  # fmt: skip
AXIS = '[[axes]]\nkey = "mechanism.flip_prob"\nvalues = {}\n'


def scenario(replicates: int) -> Scenario:
    return Scenario.from_tree({**TREE, "replicates": replicates})


def test_a_sweep_returns_the_values_and_replicates_asked_for(tmp_path):
    p2p_sim.sweep(scenario(1), {"mechanism.flip_prob": [0.1, 0.3]}, 3, tmp_path / "a")
    asked = {"mechanism.flip_prob": [0.2, 0.3]}
    rows = p2p_sim.sweep(scenario(1), asked, 2, tmp_path / "a")
    pd.testing.assert_frame_equal(rows, p2p_sim.sweep(scenario(1), asked, 2, tmp_path / "b"))
    assert len(rows) == 4
    assert len(stored_rows(tmp_path / "a")) == 8
    assert run_sweep(plan(tmp_path, AXIS.format("[0.1]")), tmp_path / "a").more == 6


def test_columns_of_other_rows_stay_out(tmp_path):
    """Rows with a column that the request's rows lack, on disk beside them, leave the request's frame as it is."""

    def other(batch):
        return [
            done if done.row["value"] < 0.3 else type(done)(done.task, {**done.row, "extra": 1.5}, None, 0.0)
            for done in stand_in(batch)
        ]

    run_sweep(plan(tmp_path, AXIS.format("[0.1, 0.4]")), tmp_path / "a", work=other)
    assert "extra" in stored_rows(tmp_path / "a")
    assert "extra" not in run_sweep(plan(tmp_path, AXIS.format("[0.1]")), tmp_path / "a", work=other).rows


@pytest.mark.figures
def test_fewer_replicates_than_on_disk_are_what_a_run_returns_and_draws(tmp_path):
    run_point(scenario(5), tmp_path / "a")
    few, alone = run_point(scenario(2), tmp_path / "a"), run_point(scenario(2), tmp_path / "b")
    pd.testing.assert_frame_equal(few.rows, alone.rows)
    assert (few.more, alone.more, len(stored_rows(tmp_path / "a"))) == (3, 0, 5)
    assert few.terms == alone.terms
    figures = [(tmp_path / name / "privacy-utility.png").read_bytes() for name in "ab"]
    assert figures[0] == figures[1]
    assert len(p2p_sim.run_all(scenario(1), tmp_path / "a")) == 1


def test_the_run_command_counts_the_others_apart(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    assert command("run", "tiny.toml", "--set", "replicates=4")[0] == 0
    _, shown, _ = command("run", "tiny.toml", "--set", "replicates=3")
    assert "tiny: 3 replicates, each with fresh random draws (1 more on disk)" in shown
    found = json.loads(command("run", "tiny.toml", "--json")[1])
    assert found["more_on_disk"] == 2
    _, alone, _ = command("run", "tiny.toml", "--set", "replicates=3", "--out", "alone")
    assert _table(alone) == _table(shown.replace(" (1 more on disk)", ""))


def _table(shown: str) -> list[str]:
    return [line.strip() for line in shown.splitlines() if "│" in line or "replicates" in line]


@pytest.mark.parametrize("rest", [(), ("--dry-run",)])
def test_the_sweep_command_counts_the_others_apart(tmp_path, rest):
    for values in ("[0.1, 0.3]", "[0.2, 0.3]"):
        plan(tmp_path, AXIS.format(values))
        out = ("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "a", "--workers", "1")
        status, shown, planned = command(*out, *(rest if "0.2" in values else ()))
        assert status == 0
    words = " ".join(planned.replace("│", " ").split())
    assert "2 of each point: 4, of which 2 are on disk (2 more on disk)" in words
    assert rest or "tiny-sweep: 4 rows of 2 points (2 more on disk)" in shown


def test_figures_of_a_sweep_show_the_request(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "_lines", lambda request, results, table, path: drawn.append(table) or path.touch())
    for values in ("[0.1, 0.3]", "[0.2]"):
        plan(tmp_path, AXIS.format(values))
        out = tmp_path / "a"
        assert command("sweep", tmp_path / "sweep.toml", "--out", out, "--workers", "1")[0] == 0
    assert drawn[-1]["mechanism.flip_prob"].tolist() == [0.2]
    assert command("plot", out)[0] == 0
    assert len(drawn[-1]) == 3


def test_a_failed_request_is_not_hidden_by_other_rows(tmp_path: Path):
    run_sweep(plan(tmp_path, AXIS.format("[0.1]")), tmp_path / "a", work=stand_in)

    def failing(batch):
        return [type(done)(done.task, None, "ValueError: no luck", 0.0) for done in stand_in(batch)]

    with pytest.raises(p2p_sim.InputError, match="no replicate could be run"):
        run_sweep(plan(tmp_path, AXIS.format("[0.2]")), tmp_path / "a", work=failing)
