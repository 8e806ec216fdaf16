"""Violations that an earlier audit did not see."""

import json
import sys

import numpy as np
import pytest

from p2p_sim.cli import main
from p2p_sim.protocol.peers import Peers


@pytest.fixture
def own_labels(monkeypatch):
    """A quarter of the users ask themselves."""
    honest = Peers.first

    def first(self, rng, start, stop):
        peer = honest(self, rng, start, stop)
        own = np.random.default_rng([self._streams.seed, self._streams.replicate, start]).random(stop - start) < 0.25
        peer[own] = np.arange(start, stop, dtype=np.int32)[own]
        return peer

    monkeypatch.setattr(Peers, "first", first)


def audited(monkeypatch, capsys, epsilon: float) -> tuple[int, dict, str]:
    """Exit status, record and message of `p2p-sim audit` on the quickstart with clusters of 12."""
    size = ["--cluster-size", "12", "--trials", "20000", "--epsilon", str(epsilon), "--json"]
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "audit", "scenarios/quickstart.toml", *size])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(shown.out), shown.err


def test_own_labels_are_found_at_an_epsilon_where_they_tell_nothing(monkeypatch, capsys, own_labels):
    """At ε = 1.5 the exact δ is 0 with own labels and without: what is found is that the bound is not about them."""
    status, record, told = audited(monkeypatch, capsys, 1.5)
    assert (status, record["passed"], len(told.splitlines())) == (1, False, 1)
    assert "departs from the protocol's law" in told
    assert record["deviation"]["error"] <= 1e-9
    assert record["faults"]["own label"] < 0.05
    assert record["delta_detectable"] > 0.001


def test_own_labels_are_found_by_the_attack_where_they_tell_something(monkeypatch, capsys, own_labels):
    """At ε = 0.8 the true δ is 0.0638, thirty times the bound: the attack proves more than that by itself."""
    status, record, told = audited(monkeypatch, capsys, 0.8)
    assert (status, record["passed"], len(told.splitlines())) == (1, False, 1)
    assert "the learner's attack proves δ >=" in told
    assert 2 * record["delta_upper"] < record["delta_lower_confidence"] < 0.0638
    assert record["test_epsilon"] == 0.8


def test_the_same_audits_pass_what_is_sound(monkeypatch, capsys):
    for epsilon in (0.8, 1.5):
        status, record, told = audited(monkeypatch, capsys, epsilon)
        assert (status, record["passed"], record["deviation"], told) == (0, True, None, "")
