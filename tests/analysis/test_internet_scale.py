"""The study at internet scale at reduced size, and its exact laws against the event engine."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.internet_scale import __main__ as internet_scale
from analysis.internet_scale import beyond, growth, whole_runs
from analysis.internet_scale.growth import NETWORKS, arrivals, law, run
from analysis.study import Frame
from p2p_sim.privacy import LabelExchange, local_epsilon
from p2p_sim.privacy.exchange.coalition import coalition_delta, unasked_epsilon
from tests.reference import high_precision

FALSE_ALARM = 1e-9


@pytest.fixture(scope="module")
def simulated():
    """Arrival times of 60,000 users of each network."""
    return {name: np.concatenate([times for _, times in arrivals(name, 60_000, 5)]) for name in NETWORKS}


def beyond_chance(times: np.ndarray, users: int, name: str) -> bool:
    """Whether arrivals are further from the law's two roundings than chance allows (Dvoretzky, Kiefer, Wolfowitz)."""
    slack = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * users))
    early, late = (np.cumsum(law(name, up, 0.01, 4000).arrival.mass) for up in (False, True))
    came = np.searchsorted(np.sort(times), np.arange(4000) * 0.01, side="right") / users
    return bool((came > early + slack).any() or (came < late - slack).any())


@pytest.mark.parametrize("name", NETWORKS)
def test_the_law_of_a_network_is_that_of_the_engine(simulated, name):
    assert not beyond_chance(simulated[name], 60_000, name)


def test_a_law_that_forgets_a_retry_is_noticed(simulated, monkeypatch):
    config = NETWORKS["retries"]
    fewer = config.model_copy(
        update={"on_timeout": config.on_timeout.model_copy(update={"attempts": 1, "retry": "never"})}
    )
    monkeypatch.setitem(NETWORKS, "retries", fewer)
    assert beyond_chance(simulated["retries"], 60_000, "retries")


def test_bytes_follow_from_the_law():
    # a user sends 194 bytes and, with probability below 4%, up to 258 more: 1e-9 by Bernstein's inequality
    sent = run(("retries", 60_000, 5))["bytes_per_user"]
    early, late = (law("retries", up, 0.01, 4000).bytes_per_user for up in (False, True))
    assert early - 1.2 <= sent <= late + 1.2
    assert run(("plain", 2000, 5))["bytes_per_user"] == 194.0


@pytest.mark.slow
def test_a_run_in_shares_is_the_same_run(tmp_path):
    whole, again = (
        beyond.main(Frame(tmp_path, tmp_path / str(workers), workers=workers), 200_000)[0].read_bytes()
        for workers in (1, 2)
    )
    assert whole == again
    last = pd.read_csv(tmp_path / "beyond.csv").set_index(["setting", "quantity"])["value"]["plain", "last_s"]
    found = max(times.max() for _, times in arrivals("plain", 200_000, beyond.REPLICATE))
    assert last == pytest.approx(found, rel=1e-7)


@pytest.mark.slow
def test_a_whole_run_in_parts_is_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_runs, "CLUSTER", 30_000)
    monkeypatch.setattr("p2p_sim.population.population.BLOCK", 700)  # two shards, in four parts
    found = []
    for parts in (1, 4):
        monkeypatch.setattr(whole_runs, "PARTS", parts)
        out = tmp_path / str(parts)
        table, timings = whole_runs.main(Frame(out, out / "work", workers=1), 60_000)
        found.append(table.read_bytes())
    assert found[0] == found[1]
    ran = pd.read_csv(table).set_index(["setting", "quantity"])["value"]
    assert ran["plain", "bytes_per_user"] == 194.0
    assert ran["plain", "excess_risk"] == ran["one draw", "excess_risk"]  # the same labels
    early, late = (law("retries", up).bytes_per_user for up in (False, True))
    assert early - 1.2 <= ran["retries", "bytes_per_user"] <= late + 1.2
    assert pd.read_csv(timings)["peak_mib"].max() > 0


def test_the_accountant_at_tiny_delta():
    bound = LabelExchange(24, 0.1, 1.0).epsilon(1e-12)
    low, high = (high_precision.delta(24, 0.1, 1.0, e * f) for e, f in
                 ((bound.epsilon_upper, 1 + 1e-6), (bound.epsilon_lower, 1 - 1e-6)))  # fmt: skip
    assert low <= 1e-12 <= high


def test_whoever_no_colluder_asked():
    assert unasked_epsilon(100, 0.1, 1.0, 0, 1e-6) == pytest.approx(
        LabelExchange(100, 0.1, 1.0).epsilon(1e-6).epsilon_upper
    )
    assert unasked_epsilon(9, 0.1, 0.5, 5, 1e-6) == local_epsilon(0.1)
    for members in (1, 3):  # these clusters are enumerated exactly
        epsilon = unasked_epsilon(12, 0.1, 1.0, members, 1e-3)
        assert coalition_delta(12, 0.1, 1.0, members, epsilon).upper <= 1e-3
        assert coalition_delta(12, 0.1, 1.0, members, 0.5 * epsilon).lower > 1e-3


@pytest.mark.slow
def test_the_study(frame, monkeypatch):
    for name, value in {
        "CLUSTERS": (60, 200),
        "COLLUDING": (0.01,),
        "NOISES": ((0.1, 1.0),),
        "TARGETS": (1.0,),
    }.items():
        monkeypatch.setattr(growth, name, value)
    beyond.main(frame, users=70_000)
    *figures, table, costs = internet_scale.main(frame, sizes=(1000, 3000, 10_000), replicates=4, studies=200)
    assert all(figure.stat().st_size > 20_000 for figure in figures)
    found = pd.read_csv(table).set_index(["setting", "quantity", "at", "basis"])["value"]
    assert found["plain", "learner_gb", 1e9, "law"] == 65.0
    assert found["α = 0.1, θ = 1", "smallest_cluster", 1.0, "certified, by bisection"] == 71
    assert found["retries", "last_s_coverage", 1e9, "fit up to 10,000"] <= 1.0
    assert len(pd.read_csv(costs)) == 2 * (3 + 2 + 4)
    rows = pd.read_parquet(frame.out / "rows.parquet")
    assert len(rows) == 2 * 3 * 4
    assert "cpu_s" not in rows
    assert (frame.out / "manifest.json").is_file()
