"""`p2p-sim audit` as a user types it. Sound exchanges fail with probability at most 1e-9 a test; seeds are fixed."""

import json
import sys

import pytest

from p2p_sim.audit import small_exchange_attack
from p2p_sim.cli.main import main
from p2p_sim.cli.printing.numbers import at_least
from p2p_sim.mechanisms import randomized_response
from p2p_sim.mechanisms.channels import ShuffledChannel
from p2p_sim.mechanisms.mechanism import Mechanism
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.scenario import load_scenario
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
@pytest.mark.slow_where(lambda observer: observer == "learner")
def test_the_command_prints_a_table_or_one_json_object(call, observer):
    arguments = ("--observer", observer, "--cluster-size", "8", "--trials", "8000")
    status, out, err = call(*arguments, "--json")
    record = json.loads(out)
    assert (status, err, len(out.splitlines())) == (0, "", 1)
    assert {"epsilon_lower", "epsilon_upper", "delta", "observer", "basis", "passed"} <= set(record)
    assert record["delta_lower_confidence"] <= record["delta_upper"] < record["delta_detectable"]
    assert record["passed"]
    status, out, err = call(*arguments)
    assert (status, err) == (0, "")
    assert "passed" in out
    assert at_least(record["delta_lower_confidence"]) in out


@pytest.mark.parametrize("network", [(), ("--set", "network.loss=0.1")])
def test_the_table_says_which_cluster_is_attacked(call, tmp_path, network):
    text = (tmp_path / "small.toml").read_text("utf-8")
    few = '[population]\nkind = "synthetic"\nusers = 60\nnum_clusters = 6\n'
    (tmp_path / "small.toml").write_text(text + few, encoding="utf-8")
    smallest = int(Replicate(load_scenario("small.toml")).people().cluster_sizes.min())
    for more, said in ((), " (smallest cluster of the first replicate)"), (("--cluster-size", f"{smallest}"), ""):
        status, out, err = call("--trials", "1000", *network, *more)
        assert (status, err) == (0, "")
        assert f"cluster {smallest} users{said}, α = 0.1, θ = 0.8" in " ".join(out.split())


def test_the_command_fails_a_leak_in_one_line(call, monkeypatch):
    monkeypatch.setattr(randomized_response, "RandomizedResponse", lambda alpha, k: Truthful(alpha, k, size=8))
    status, out, err = call("--cluster-size", "8", "--trials", "20000", "--json")
    assert (status, json.loads(out)["passed"], len(err.splitlines())) == (1, False, 1)
    assert "p2p-sim: audit failed: the learner's attack proves δ >=" in err


def test_large_clusters_are_audited_in_one_run(call, tmp_path):
    arguments = ("--cluster-size", "40", "--trials", "10000", "--engine", "vectorised")
    status, out, err = call(*arguments, "--json")
    record = json.loads(out)
    assert (status, err, len(out.splitlines())) == (0, "", 1)
    assert {"epsilon_lower", "epsilon_upper", "delta", "observer", "basis", "passed"} <= set(record)
    assert (record["targets"], record["users"], record["engine"]) == (10_000, 400_000, "vectorised")
    pairs = zip(record["delta_lower_confidence"], record["delta_certified"], strict=True)
    assert all(proved <= certified for proved, certified in pairs)
    assert 0.0 < record["epsilon_lower_confidence"] <= record["epsilon_upper"]
    status, out, err = call(*arguments, "--figure", "tradeoff.svg")
    told = " ".join(out.split())
    assert (status, err) == (0, "")
    assert "noise so small that ε rises by 10% would be seen with probability" in told
    assert "passed: the attack stays within what is certified" in told
    assert "end of its confidence band" in (tmp_path / "tradeoff.svg").read_text(encoding="utf-8")


def test_a_leak_in_large_clusters_fails_in_one_line(call, monkeypatch):
    monkeypatch.setattr(randomized_response, "RandomizedResponse", lambda alpha, k: Truthful(alpha, k, size=40))
    arguments = ("--cluster-size", "40", "--trials", "50000", "--engine", "vectorised")
    status, out, err = call(*arguments, "--json")
    assert (status, json.loads(out)["passed"], len(err.splitlines())) == (1, False, 1)
    assert "p2p-sim: audit failed: the learner's attack proves δ >=" in err


@pytest.mark.figures
def test_the_figure_is_that_of_an_audit_in_one_run(call):
    status, out, err = call("--cluster-size", "8", "--trials", "2000", "--figure", "small.png")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "--figure: drawn only for an audit in one run" in err


@pytest.mark.parametrize(
    "kind", ["randomized_response", "shuffled_response", pytest.param("dp_sgd", marks=pytest.mark.slow)]
)
def test_other_mechanisms_are_audited_in_one_run(call, kind):
    arguments = ("--set", f'mechanism={{kind="{kind}", target_epsilon=1.0}}', "--trials", "2000")
    status, out, err = call(*arguments, "--json", "--set", 'population={kind="wine"}' if kind == "dp_sgd" else "seed=2")
    record = json.loads(out)
    assert (status, err, record["passed"]) == (0, "", True)
    assert record["epsilon_lower_confidence"] <= record["epsilon_upper"]
    assert call(*arguments, "--cluster-size", "5")[0] == 2


def test_the_flip_probability_is_calibrated_for_the_audited_size(call):
    status, out, _ = call(
        "--cluster-size", "10", "--trials", "2000", "--json", "--set", "mechanism={target_epsilon=0.9}"
    )
    record = json.loads(out)
    assert status == 0
    assert 0.85 < record["epsilon_upper"] <= 0.9


def test_a_mechanism_that_no_audit_attacks_is_named_first(call, monkeypatch):
    for sort in (ShuffledChannel, Mechanism):  # as of a plug-in's kind that releases no labels
        monkeypatch.delitem(small_exchange_attack.ATTACKED, sort)
    status, out, err = call("--set", 'mechanism={kind="shuffled_response", target_epsilon=1.0}')
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "mechanism.kind = 'shuffled_response': an audit attacks 'alibi'" in err
