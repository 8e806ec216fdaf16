"""`p2p-sim audit` as a user types it. Sound exchanges fail with probability at most 1e-9 a test; seeds are fixed."""

import json
import sys

import pytest

from p2p_sim.cli.main import main
from p2p_sim.cli.printing.values import at_least
from p2p_sim.mechanisms import label_exchange
from tests.planted import Truthful


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Runs `p2p-sim audit` on a file: returns (exit status, standard output, standard error)."""
    text = 'name = "small"\n[mechanism]\nflip_prob = 0.1\nsampling_rate = 0.8\n[privacy]\ndelta = 1e-3\n'
    (tmp_path / "small.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["p2p-sim", "audit", "small.toml", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


@pytest.mark.parametrize("observer", ["learner", "coalition"])
def test_the_command_prints_a_table_or_one_json_object(call, observer):
    arguments = ("--observer", observer, "--cluster-size", "8", "--trials", "20000")
    status, out, err = call(*arguments, "--json")
    record = json.loads(out)
    assert (status, err, len(out.splitlines())) == (0, "", 1)
    assert {"epsilon_lower", "epsilon_upper", "delta", "observer", "basis", "passed"} <= set(record)
    assert record["delta_lower_confidence"] <= record["delta_upper"] < record["delta_detectable"]
    assert record["passed"]
    assert record["deviation"] is None
    assert ("member asks herself" in record["faults"]) is (observer == "coalition")
    assert all(0.0 < strength < 1.0 for strength in record["faults"].values())
    status, out, err = call(*arguments)
    assert f"{record['faults']['own label']:.2g}: a user passes on" in " ".join(out.split())
    assert (status, err) == (0, "")
    assert "passed" in out
    assert at_least(record["delta_lower_confidence"]) in out


def test_the_command_fails_a_leak_in_one_line(call, monkeypatch):
    monkeypatch.setattr(label_exchange, "RandomizedResponse", lambda alpha, k: Truthful(alpha, k, size=8))
    status, out, err = call("--cluster-size", "8", "--json")
    assert (status, json.loads(out)["passed"], len(err.splitlines())) == (1, False, 1)
    assert "p2p-sim: audit failed: the learner's attack proves δ >=" in err


def test_what_cannot_be_found_is_said_in_words(call):
    """Hardly a submission: no fault shows, however often it happens."""
    arguments = ("--cluster-size", "4", "--trials", "1000", "--set", "mechanism.sampling_rate=0.01")
    status, out, _ = call(*arguments)
    told = " ".join(out.replace("│", " ").split())
    assert status == 0
    assert "not found with so few trials, even if it always happens; about" in told
    assert "not found with --trials up to 10,000,000 either; take larger clusters" in told
    record = json.loads(call(*arguments, "--json")[1])
    assert set(record["faults"].values()) == {None}


def test_a_large_cluster_is_refused_in_one_line(call):
    status, out, err = call()
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "give --cluster-size 2..30" in err


def test_the_flip_probability_is_calibrated_for_the_audited_size(call):
    status, out, _ = call("--cluster-size", "10", "--json", "--set", "mechanism={target_epsilon=0.9}")
    record = json.loads(out)
    assert status == 0
    assert 0.85 < record["epsilon_upper"] <= 0.9


def test_a_mechanism_that_no_audit_attacks_is_named_first(call):
    status, out, err = call("--set", 'mechanism={kind="dp_sgd", target_epsilon=1.0}')
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "mechanism.kind = 'dp_sgd': an audit attacks 'label_exchange' or 'cluster_rr'" in err
