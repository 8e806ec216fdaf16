"""Rows on disk: reproducible, resumable, never mixed, never lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.base.whole_files import repair_jsonl
from p2p_sim.exchange.exchange_run import Traffic
from p2p_sim.measures.point_means import derived
from p2p_sim.replicate.replicate import identity
from p2p_sim.results.rows import open_store
from tests.commands import command as called
from tests.conftest import ROOT


def small(**changes):
    tree = {
        "name": "small",
        "replicates": 3,
        "population": {"kind": "synthetic", "users": 400, "num_clusters": 5},
        "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5},
    }
    return p2p_sim.Scenario.from_tree({**tree, **changes})


def contents(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in directory.iterdir() if p.name != "timings.jsonl"}


def test_two_runs_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        p2p_sim.run_all(small(), tmp_path / name)
    one, two = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert {"rows.jsonl", "rows.parquet", "manifest.json", "privacy-utility.png"} <= set(one)
    assert one == two


@pytest.mark.slow
def test_ten_thousand_users_are_reproducible_on_both_engines(tmp_path):
    scenario = small(replicates=2, population={"kind": "synthetic", "users": 10_000, "num_clusters": 100})
    rows = {}
    for engine in ("events", "vectorised"):
        chosen = scenario.replace(engine=engine)
        for attempt in (1, 2):
            p2p_sim.run_all(chosen, tmp_path / f"{engine}{attempt}")
        files = [(tmp_path / f"{engine}{attempt}" / "rows.jsonl").read_bytes() for attempt in (1, 2)]
        assert files[0] == files[1]
        rows[engine] = p2p_sim.load_results(tmp_path / f"{engine}1")
    same = [c for c in rows["events"] if c not in ("scenario", "engine", *_TRAFFIC)]
    pd.testing.assert_frame_equal(rows["events"][same], rows["vectorised"][same])
    releases = [p2p_sim.run(scenario.replace(engine=e), 1).release for e in ("events", "vectorised")]
    assert releases[0].user.tobytes() == releases[1].user.tobytes()
    assert releases[0].payload.tobytes() == releases[1].payload.tobytes()


_TRAFFIC = (*Traffic.__dataclass_fields__, "arrival_p50_s", "arrival_p90_s", "arrival_p99_s")


def test_more_replicates_extend_and_equal_an_undisturbed_run(tmp_path):
    p2p_sim.run_all(small(replicates=2), tmp_path / "grown")
    p2p_sim.run_all(small(replicates=4), tmp_path / "grown")
    p2p_sim.run_all(small(replicates=4), tmp_path / "whole")
    assert contents(tmp_path / "grown") == contents(tmp_path / "whole")
    assert len((tmp_path / "grown" / "timings.jsonl").read_text().splitlines()) == 4


def test_a_half_written_line_is_repaired(tmp_path):
    p2p_sim.run_all(small(), tmp_path / "a")
    whole = contents(tmp_path / "a")
    rows = tmp_path / "a" / "rows.jsonl"
    rows.write_bytes(rows.read_bytes()[:-40])
    assert len(p2p_sim.load_results(tmp_path / "a")) == 2
    p2p_sim.run_all(small(), tmp_path / "a")
    assert contents(tmp_path / "a") == whole
    broken = tmp_path / "x.jsonl"
    broken.write_bytes(b'{"a": 1}\n{"a": ')
    repair_jsonl(broken)
    assert broken.read_bytes() == b'{"a": 1}\n'


def test_a_killed_run_resumes_where_it_stopped(tmp_path):
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        'name = "s"\nreplicates = 400\n[population]\nkind = "synthetic"\nusers = 300\nnum_clusters = 3\n'
        '[mechanism]\nflip_prob = 0.1\n[learner]\nkind = "table"\n'
    )
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-c",
        "from p2p_sim.cli.main import main; main()",
        "run",
        str(scenario),
        "--out",
        str(out),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = out / "rows.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not rows.exists() or rows.stat().st_size < 5000):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = len(rows.read_bytes().split(b"\n")) - 1
    assert 0 < before < 400
    loaded = p2p_sim.load_scenario(scenario, ["replicates=20"])
    p2p_sim.run_all(loaded, out)
    p2p_sim.run_all(loaded, tmp_path / "whole")
    lines = [(d / "rows.jsonl").read_text().splitlines() for d in (out, tmp_path / "whole")]
    assert lines[0][:20] == lines[1]


def test_another_scenario_is_refused_and_nothing_changes(tmp_path):
    out = tmp_path / "a"
    p2p_sim.run_all(small(), out)
    before = contents(out)
    with pytest.raises(InputError, match="already holds another scenario's results"):
        p2p_sim.run_all(small(seed=9), out)
    assert contents(out) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for directory in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(InputError, match="holds no results of p2p-sim"):
            p2p_sim.run_all(small(), directory)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_second_writer_is_refused(tmp_path):
    scenario = small()
    with (
        open_store(tmp_path / "a", scenario, identity(scenario)),
        pytest.raises(InputError, match="another run is writing"),
        open_store(tmp_path / "a", scenario, identity(scenario)),
    ):
        pass


def test_changed_data_do_not_mix_with_old_rows(tmp_path):
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60) % 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    population = {"kind": "table", "path": str(tmp_path / "t.csv"), "label": "y"}
    scenario = small(population=population, clusters={"kind": "kmeans", "count": 2, "min_size": 5})
    p2p_sim.run_all(scenario, tmp_path / "a")
    frame.assign(x=frame.x + 1).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="another scenario"):
        p2p_sim.run_all(scenario, tmp_path / "a")


def test_rows_hold_no_clock_time_and_the_manifest_says_what_they_are(tmp_path):
    rows = p2p_sim.run_all(small(), tmp_path / "a")
    pd.testing.assert_frame_equal(rows, p2p_sim.load_results(tmp_path / "a"))
    table = pd.read_parquet(tmp_path / "a" / "rows.parquet")
    pd.testing.assert_frame_equal(rows, derived(table), check_dtype=False)
    assert set(rows) - set(table) == {
        "accuracy",
        "nonprivate_accuracy",
        "majority_accuracy",
        "excess_error_rate",
        "relative_accuracy",
    }
    assert not [c for c in rows if "wall" in c or "date" in c]
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert p2p_sim.Scenario.from_tree(manifest["scenario"]) == small()
    assert manifest["identity"].startswith(rows["scenario"][0])
    assert {"numpy", "scikit-learn", "p2p-sim", "python"} <= set(manifest["versions"])
    with pytest.raises(InputError, match="holds no results"):
        p2p_sim.load_results(tmp_path)


def test_row_makes_sense():
    result = p2p_sim.run(small(), 1)
    row = result.row
    assert row["epsilon_lower"] <= row["epsilon_upper"] <= row["epsilon_local"]
    assert row["epsilon_upper"] == max(b.epsilon_upper for b in result.privacy)
    assert len(result.privacy) == row["num_clusters"] == 5
    assert row["heterogeneity"] == pytest.approx(0.2)
    assert row["excess_risk"] > row["nonprivate_excess_risk"] >= -1e-12
    assert row["bayes_error_rate"] <= row["error_rate"] <= 1
    assert row["protocol_events"] == 3 * 400 + row["submissions"]
    assert p2p_sim.run(small(), 1).row == row
    assert p2p_sim.run(small(), 2).row != row


def test_target_epsilon_is_met():
    row = p2p_sim.run(small(mechanism={"target_epsilon": 0.8, "sampling_rate": 0.5})).row
    assert 0.75 < row["epsilon_upper"] <= 0.8


def test_replicates_share_users_across_mechanisms():
    """Common random numbers: a parameter of the mechanism changes neither users nor network."""
    one, two = (p2p_sim.run(small(mechanism={"flip_prob": a}), record=True) for a in (0.1, 0.4))
    assert np.array_equal(one.population.labels, two.population.labels)
    assert np.array_equal(one.transcript.messages.time_s, two.transcript.messages.time_s)


def test_paper_bound_is_reported_where_it_applies():
    """20,000 users in one cluster: Lemma 9 and Theorem 3 apply at α = .45 and lie above the certified value."""
    population = {"kind": "synthetic", "users": 20_000, "num_clusters": 1}
    scenario = small(population=population, mechanism={"flip_prob": 0.45}, privacy={"delta": 1e-8})
    row = p2p_sim.run(scenario.replace(engine="vectorised")).row
    assert row["epsilon_upper"] < row["epsilon_paper_lemma9"] <= row["epsilon_paper_theorem3"]
    assert p2p_sim.run(small()).row["epsilon_paper_theorem3"] is None


def test_replies_that_are_all_late_tell_nothing():
    """No reply is in time: the learner sees nothing, so ε is 0."""
    network = {"latency": {"kind": "constant", "value_s": 1.0}, "request_timeout_s": 1.5}
    row = p2p_sim.run(small(network=network)).row
    assert row["submissions"] == 0
    assert row["late_replies"] == 400
    assert row["expired"] == row["fetches"] == 400
    assert row["epsilon_lower"] == row["epsilon_upper"] == 0.0


def test_damaged_rows_are_named(tmp_path):
    p2p_sim.run_all(small(), tmp_path / "a")
    for line in ("5", "{}", "null", "[]", '{"replicate": "0"}', '{"replicate": 0}', "{"):
        (tmp_path / "a" / "rows.jsonl").write_text(line + "\n")
        for action in (lambda: p2p_sim.run_all(small(), tmp_path / "a"), lambda: p2p_sim.load_results(tmp_path / "a")):
            with pytest.raises(InputError, match=r"rows.jsonl: damaged"):
                action()


def test_rows_of_another_scenario_are_refused(tmp_path):
    for seed in (1, 7):
        p2p_sim.run_all(small(seed=seed), tmp_path / str(seed))
    (tmp_path / "1" / "rows.jsonl").write_bytes((tmp_path / "7" / "rows.jsonl").read_bytes())
    with pytest.raises(InputError, match="is of another scenario"):
        p2p_sim.run_all(small(), tmp_path / "1")


def test_what_a_kill_before_the_first_manifest_leaves_is_no_obstacle(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".lock").touch()
    (tmp_path / "a" / ".manifest.partial.json").write_text("{")
    assert len(p2p_sim.run_all(small(), tmp_path / "a")) == 3


def test_a_directory_in_place_of_a_file_is_named(tmp_path):
    p2p_sim.run_all(small(), tmp_path / "a")
    (tmp_path / "a" / "rows.parquet").unlink()
    (tmp_path / "a" / "rows.parquet").mkdir()
    with pytest.raises(InputError, match=r"rows.parquet: is not a file"):
        p2p_sim.run_all(small(replicates=4), tmp_path / "a")


@pytest.mark.parametrize("command_name", ["report", "plot"])
def test_a_study_that_is_no_run_is_refused_in_one_line(command_name):
    status, out, said = called(command_name, ROOT / "results" / "published" / "regression")
    assert (status, out, len(said.splitlines())) == (2, "", 1)
    assert "holds a study that is no run and no sweep" in said
