"""The attack on a curator who resamples: sound where the mechanism is, and proof that Theorem 1 prints too small an ε.

Each test fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

import json
import math
import sys
from dataclasses import replace

import pytest

from p2p_sim.audit.curator_attack import CuratorAudit, audit_curator, best_cluster_size, plan_event
from p2p_sim.base.errors import InputError
from p2p_sim.cli.main import main
from p2p_sim.mechanisms.cluster_rr import ClusterResponse
from p2p_sim.privacy.rivals.centralised import ClusterResampling

PARAMETERS = [(4, 3, 0.9, 1.0, 0.25), (10, 3, 0.9, 2.0, 0.2), (8, 4, 0.95, 1.0, 0.125), (20, 10, 0.99, 0.5, 0.05)]


def attacked(parameters, noise: float = 1.0, kept: float = 1.0, trials: int = 100_000) -> CuratorAudit:
    """The audit of a mechanism whose noise scale and resampling are the claimed ones times these factors."""
    privacy = ClusterResampling(*parameters, released=True)
    _, classes, lam, sigma, tau = parameters
    response = ClusterResponse(kept * lam, noise * sigma, tau, lam, classes)
    return audit_curator(response.draw, privacy, trials, seed=5)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_the_true_epsilon_holds_and_the_printed_one_is_refuted(parameters):
    """Detects a true ε that is too small by what `expected` falls short of it: 0.3/σ to 0.55/σ; the printed one is by
    1/σ."""
    done = attacked(parameters)
    assert done.passed
    assert done.paper_refuted
    assert done.epsilon_lower_confidence == pytest.approx(done.expected, abs=0.15)


@pytest.mark.parametrize(("noise", "kept"), [(0.5, 1.0), (1.0, 0.75)])
@pytest.mark.parametrize("parameters", PARAMETERS[:3])
def test_too_little_noise_or_resampling_fails(parameters, noise, kept):
    """The control: half the noise, or a quarter less resampling."""
    done = attacked(parameters, noise, kept)
    assert not done.passed


def test_two_classes_have_a_weaker_event():
    """2/σ is attained for K = 2, but only where q̃(a) = 1-τ."""
    done = attacked((10, 2, 0.9, 1.0, 0.2))
    assert done.passed
    assert done.paper_refuted
    assert done.expected < 2.0 + math.log1p(0.1 / (0.9 * 0.8))


@pytest.mark.parametrize(("classes", "tau"), [(3, 0.1), (10, 0.05), (4, 0.2)])
def test_the_default_cluster_is_strong_enough(classes, tau):
    privacy = ClusterResampling(2, classes, 0.9, 1.0, tau, released=True)
    size = best_cluster_size(privacy, 100_000)
    assert plan_event(replace(privacy, cluster_size=size), 100_000)[1] > privacy.epsilon_paper


def test_a_cluster_can_be_too_small():
    with pytest.raises(InputError, match="--cluster-size 2: too small"):
        plan_event(ClusterResampling(2, 3, 0.9, 1.0, 0.3, released=True), 1000)


SCENARIO = """name = "small"
[population]
kind = "digits"
task = "classes"
[mechanism]
kind = "cluster_rr"
resampling_prob = 0.99
noise_scale = 0.5
threshold = 0.05
bias_correction = 0.5
[learner]
kind = "soft_logistic_regression"
"""


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Runs `p2p-sim audit` on a file: returns (exit status, standard output, standard error)."""
    (tmp_path / "small.toml").write_text(SCENARIO, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["p2p-sim", "audit", "small.toml", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


def test_the_command_prints_a_table_or_one_json_object(call):
    status, out, err = call("--cluster-size", "20", "--trials", "50000", "--json")
    record = json.loads(out)
    assert (status, err, len(out.splitlines())) == (0, "", 1)
    assert {"epsilon_lower", "epsilon_upper", "delta", "observer", "basis", "passed"} <= set(record)
    assert record["paper_refuted"]
    assert record["epsilon_paper"] < record["epsilon_lower_confidence"] < record["epsilon_lower"]
    assert record["epsilon_lower"] == pytest.approx(record["epsilon_upper"], rel=0.01)
    status, out, err = call("--cluster-size", "20", "--trials", "50000")
    assert (status, err) == (0, "")
    assert "refuted" in out
    assert "passed" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "mechanism.bias_correction=0.0", "--cluster-size", "5"), "not for mechanism.kind = 'cluster_rr'"),
        (("--cluster-size", "500"), r"--cluster-size 500: must lie in 2..200"),
        (("--epsilon", "1.0"), "--epsilon: an audit of a curator"),
        (("--observer", "coalition"), "an audit of a curator"),
        (("--set", "mechanism.resampling_prob=0.0"), "nothing to attack"),
        (("--set", "mechanism.threshold=0.1"), "the third below 1/K = 0.1"),
    ],
)
def test_mistakes_are_named_in_one_line(call, arguments, message):
    status, out, err = call(*arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
