"""What a reader stumbled over: each of these was wrong or led nowhere."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.analysis.figures.sweeps import View, drawable
from p2p_sim.analysis.privacy import Eavesdropper, local_epsilon
from tests.commands import command


def test_points_are_joined_in_the_order_of_what_varies_along_a_line():
    table = pd.DataFrame(
        {"flip_prob": [0.1, 0.3, 0.2], "epsilon_upper": [0.74, 0.27, 0.44], "error_rate": [0.1, 0.3, 0.2]}
    )
    shown, _ = drawable(table, View("epsilon_upper", "error_rate", along="flip_prob"))
    assert shown["at"].tolist() == [0.74, 0.44, 0.27]


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_an_eavesdropper_of_many_classes_sees_one_noisy_label(classes):
    alpha, delta = 0.2, 1e-3
    observer = Eavesdropper(alpha, classes)
    found = observer.epsilon(delta)
    exact = math.log((classes - 1) * (1.0 - alpha - delta) / alpha)
    assert found.epsilon_lower <= exact <= found.epsilon_upper <= exact + 1e-6
    assert found.epsilon_upper < local_epsilon(alpha, classes)
    noisy = np.full((2, classes), alpha / (classes - 1))
    noisy[0, 0] = noisy[1, 1] = 1.0 - alpha
    worst = np.maximum(noisy[0] - math.exp(1.0) * noisy[1], 0.0).sum()
    assert observer.delta(1.0).lower <= worst <= observer.delta(1.0).upper


def test_the_command_answers_for_an_eavesdropper_of_three_classes():
    asked = ("privacy", "--num-classes", 3, "--cluster-size", 40, "--flip-prob", 0.1, "--delta", 1e-5, "--observer")
    status, out, _ = command(*asked, "eavesdropper")
    assert status == 0
    assert "2.891" in out
    status, _, err = command(*asked, "peer")
    assert (status, err.count("\n")) == (2, 1)
    assert "--observer eavesdropper" in err


@pytest.mark.parametrize(
    ("key", "said", "unsaid"),
    [
        ("population.max_users=5", "it takes", "population.users"),
        ("population.users=5", "unknown key for this kind; it takes", "did you mean"),
        ("network.los=0.1", "did you mean network.loss?", "it takes"),
        ("population.tesk=1", "did you mean population.task?", "users"),
    ],
)
def test_a_wrong_key_leads_to_keys_of_its_own_kind(key, said, unsaid):
    status, _, err = command("run", "quickstart", "--set", key)
    assert status == 2
    assert said in err
    assert unsaid not in err


def test_it_is_said_when_the_exchange_adds_little(tmp_path):
    (tmp_path / "m.toml").write_text(
        'name = "m"\n[population]\nkind = "synthetic"\nusers = 2000\nnum_clusters = 4\n[mechanism]\nflip_prob = 0.1\n'
    )
    said = []
    for scenario in ("wine", tmp_path / "m.toml"):  # of three classes, and of two
        status, out, err = command("run", scenario, "--set", "replicates=1", "--out", tmp_path / Path(scenario).stem)
        assert status == 0, err
        said.append("The exchange adds little here" in out)
    assert said == [True, False]


def test_a_sweep_says_where_its_rows_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = {"population": {"kind": "synthetic", "users": 200}, "mechanism": {"flip_prob": 0.1}, "engine": "vectorised"}
    small = p2p_sim.Scenario.from_tree({"name": "small", **tree})
    rows = p2p_sim.sweep(small, {"mechanism.flip_prob": [0.2]}, replicates=2)
    assert len(p2p_sim.load_results(rows.attrs["directory"])) == len(rows) == 2
