"""Every scenario of a network feature runs at small size and shows what it is about; its docs say what it is about."""

import math
from pathlib import Path

import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.replicate.run import Result
from p2p_sim.scenario import Scenario
from tests.conftest import ROOT

FOLDER = ROOT / "scenarios" / "network"
FILES = sorted(FOLDER.glob("*.toml"))
TABULATED = {"random-walk": 40, "scale-free": 60, "batch": 60, "small-world": 60, "regular": 60, "file-overlay": 240}
"""Users in scenarios whose privacy takes most of their time; with a δ at which few users gain something."""


def small(name: str, **changes) -> Scenario:
    scenario = p2p_sim.load_scenario(FOLDER / f"{name}.toml")
    clusters = 8 if name == "file-overlay" else 2
    users = TABULATED.get(name, 240)
    size: dict[str, float] = {"population.users": users, "population.num_clusters": clusters, "replicates": 1}
    if name in TABULATED:
        size["privacy.delta"] = 1e-2
    return scenario.replace(**size, **changes)


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {path.stem: p2p_sim.run(small(path.stem)) for path in FILES}


def test_every_scenario_is_explained():
    guide = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
    assert len(FILES) >= 15
    for path in FILES:
        assert f"`{path.name}`" in guide, path.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_scenario_runs_and_keeps_its_books(path, results):
    row = results[path.stem].row
    assert row["fetches"] == row["answered"] + row["expired"] + row["failed"]
    sent = row["messages_sent"] + row["messages_duplicated"]
    assert sent == row["messages_delivered"] + row["messages_lost"] + row["messages_undelivered"]
    assert 0 < row["submissions"] <= row["answered"] + row["fallbacks"]
    assert 0.0 <= row["epsilon_lower"] <= row["epsilon_upper"] <= row["epsilon_local"]
    assert row["epsilon_others_upper"] is None or row["epsilon_others_upper"] <= row["epsilon_upper"]
    assert row["epsilon_times_upper"] is None or row["epsilon_times_upper"] >= row["epsilon_upper"]
    assert "realised" in row["basis"] or row["basis"].startswith(("exact", "any fetch", "largest", "noise alone"))


def test_each_feature_shows(results):
    row = {name: result.row for name, result in results.items()}
    local = row["loss"]["epsilon_local"]
    assert row["loss"]["messages_lost"] > 0
    assert row["loss"]["failed"] > 0
    assert row["retry"]["answered"] > row["loss"]["answered"]
    assert row["own-label"]["own_labels"] > 0
    assert row["own-label"]["epsilon_upper"] == local > row["own-label"]["epsilon_others_upper"]
    assert row["churn"]["messages_undelivered"] > 0
    assert row["availability-trace"]["messages_undelivered"] > 0
    assert row["duplication"]["messages_duplicated"] > 0
    assert row["duplication"]["submissions"] == results["duplication"].release.user.size
    assert row["scale-free"]["coalition_members"] > 0
    assert row["random-walk"]["messages_sent"] > 6 * row["random-walk"]["fetches"]
    assert row["free-riders"]["expired"] > 0
    assert row["sybil"]["probed_users"] > 200
    assert row["sybil"]["epsilon_coalition_upper"] == local > row["sybil"]["epsilon_upper"]
    assert row["liars"]["learner"] == "trimmed_clusters"
    assert row["file-overlay"]["dropped_edges"] > 0


def test_a_batch_hides_arrival_times_and_its_gain_is_shown(results):
    batch = results["batch"].row
    at_once = p2p_sim.run(small("batch", **{"network.batch_submission": False})).row
    assert at_once["epsilon_times_upper"] == at_once["epsilon_local"]
    assert batch["epsilon_times_upper"] == batch["epsilon_upper"] < batch["epsilon_local"]


def test_a_link_that_all_share_holds_submissions_up_and_is_not_split(results):
    fast = p2p_sim.run(small("shared-link", **{"network.learner_bandwidth_bps": 1e12})).row
    slow = p2p_sim.run(small("shared-link", **{"network.learner_bandwidth_bps": 20_000})).row
    assert slow["arrival_p99_s"] > 1.5 * fast["arrival_p99_s"]
    assert slow["submissions"] < fast["submissions"] == results["shared-link"].row["submissions"]
    with pytest.raises(InputError, match=r"network.learner_bandwidth_bps = 20000: all clusters share this link"):
        small("shared-link", **{"network.learner_bandwidth_bps": 20_000}).network.check_splittable()
    NetworkConfig().check_splittable()


def test_runs_that_differ_in_a_fault_are_paired():
    """The same users, clusters, flips and choices: whom nothing happened to passes on the same label."""
    one, other = (p2p_sim.run(small("loss", **{"network.loss": loss}), record=True) for loss in (0.0, 0.1))
    assert one.population.labels.tobytes() == other.population.labels.tobytes()
    label = dict(zip(one.release.user.tolist(), one.release.payload.tolist(), strict=True))
    kept = dict(zip(other.release.user.tolist(), other.release.payload.tolist(), strict=True))
    assert 0 < len(kept) < len(label)
    assert all(label[user] == got for user, got in kept.items())


@pytest.mark.slow
def test_trimming_helps_the_learner_against_inverting_liars():
    """Ten replicates of 4,000 users: the paired gain in excess risk is beyond five standard errors."""
    import numpy as np

    scenario = p2p_sim.load_scenario(FOLDER / "liars.toml")
    plain = scenario.replace(learner={"kind": "logistic_regression"})
    gains = [p2p_sim.run(plain, i).row["excess_risk"] - p2p_sim.run(scenario, i).row["excess_risk"] for i in range(10)]
    assert np.mean(gains) > 5.0 * np.std(gains, ddof=1) / math.sqrt(len(gains))


@pytest.mark.parametrize(
    ("name", "key", "text", "message"),
    [
        (
            "latency-trace",
            "network.latency.path",
            "latency_s\n0.1\n-3\n",
            r"line 3: latency_s = '-3' must be a number from 0",
        ),
        ("latency-trace", "network.latency.path", "latency_s\n0.1\nfast\n", r"line 3: latency_s = 'fast'"),
        ("availability-trace", "network.availability.path", "user,on_s,off_s\n0,5,2\n", r"off_s = 2 must be later"),
        ("file-overlay", "network.overlay.path", "0 1\n0 240\n", r"line 2: .*240.*0 to 239"),
        ("file-overlay", "network.overlay.path", "0 1\nannie bob\n", r"line 2: .*annie"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name, key, text, message):
    path = tmp_path / "damaged.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        p2p_sim.run(small(name, **{key: str(path)}))
    assert "\n" not in str(caught.value)
