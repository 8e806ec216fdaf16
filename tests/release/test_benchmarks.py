"""The benchmarks run, their peers do the same work; no test looks at a time."""

import json
import math

import numpy as np
import pytest

from benchmarks import __main__ as bench
from benchmarks import peers, table
from benchmarks.event_engine import MEDIAN_S, clean
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.population.population import Population


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A small run of everything but sweeps, which start processes."""
    out = tmp_path_factory.mktemp("benchmarks")
    bench.main(["--small", "--out", str(out), *(f"--only={name}" for name in bench.NAMES if name != "sweeps")])
    return out


@pytest.mark.slow
@pytest.mark.figures
def test_a_small_run_leaves_a_table_figures_and_a_manifest(out):
    assert (out / "table.csv").read_text(encoding="utf-8").splitlines()[0] == ",".join(table.COLUMNS)
    rows = table.read(out / "table.csv")
    left_out = {"sweeps"} if bench.anchor.compiler() else {"sweeps", "anchor"}
    wanted = {module.NAME for name, module in bench.NAMES.items() if name not in left_out}
    assert {row.benchmark for row in rows} >= wanted
    assert rows[0].benchmark == bench.whole_jobs.NAME
    assert all(math.isfinite(v) and v >= 0 for row in rows for v in (row.low, row.median, row.high))
    assert all(row.low <= row.median <= row.high for row in rows)
    assert all(row.ceiling for row in rows if row.unit in (table.FASTER, table.PASSES, table.SHARE))
    assert all((out / name).stat().st_size > 20_000 for name in ("ratios.png", "scaling.png"))
    facts = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert set(facts) == set(bench.NAMES) - {"sweeps"}
    assert set(facts["vectorised"]) == {"cores", "processor", "load_average_at_start", "python", "libraries"}


@pytest.mark.slow
def test_one_benchmark_again_keeps_the_others(out):
    before = table.read(out / "table.csv")
    bench.measure(out, ["accountant"], small=True)
    after = table.read(out / "table.csv")
    assert len(after) == len(before)
    assert [row for row in after if row.benchmark != "accountant"] == [r for r in before if r.benchmark != "accountant"]


@pytest.mark.slow
def test_sweeps_are_shared_out():
    rows = list(bench.sweeps.rows(small=True))
    assert [row.name for row in rows][:2] == ["two bare processes", "two local processes"]
    assert all(0.0 < row.median < 2.0 for row in rows)


@pytest.mark.parametrize("peer", ["simpy", "salabim"])
def test_peers_release_what_the_event_engine_releases(peer):
    labels = np.random.default_rng(2).integers(0, 2, 300).astype(np.uint8)
    users = Population(np.zeros((300, 0)), labels, np.arange(0, 301, 50), 2)
    drawn = peers.plan(users, 0.2, 0.6, MEDIAN_S, 1.0)
    if peer == "salabim":
        pytest.importorskip("salabim")
    program = peers.with_simpy if peer == "simpy" else peers.with_salabim(peers.salabim_module())
    release = LabelExchangeMechanism(RandomizedResponse(0.2), 0.6).run(users, clean(1.0), Streams(1, 0)).labels
    assert program(drawn) == dict(zip(release.user.tolist(), release.payload.tolist(), strict=True))


def test_a_missing_peer_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    names = [row.name for row in bench.simulators.rows(small=True)]
    assert names == [
        "SimPy, a process a user", "windows of messages", "a process for each user", "SimPy, bare timeout loop",
    ]  # fmt: skip
    assert capsys.readouterr().out == "salabim is missing, so it is left out: pip install -e '.[bench]'\n"


def test_a_row_is_read_as_it_was_written(tmp_path):
    rows = [
        table.Row.of("a", "b", "c, d", table.FASTER, (0.5, 1.25, 12345.0), "e", 7),
        table.Row.of("a", "b", "", "ms", 2.0),
    ]
    table.write(rows, tmp_path / "t.csv")
    assert table.read(tmp_path / "t.csv") == [rows[0].__class__(**{**vars(rows[0]), "high": 12340.0}), rows[1]]
