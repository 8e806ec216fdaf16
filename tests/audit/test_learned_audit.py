"""A classifier that sees every submission of a small cluster and its time finds what counts do not show.

An audit fails a sound exchange with probability at most 1e-9 a test; seeds are fixed.
"""

import numpy as np
import pytest

from p2p_sim.audit.exchange_targets import raw_view
from p2p_sim.audit.small_exchange_attack import Audit, audit
from p2p_sim.cli.printing.numbers import print_output
from p2p_sim.cli.printing.small_audits import audit_output
from p2p_sim.exchange import engines
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.scenario import Scenario
from tests.planted_faults import Faulty

SCENARIO = Scenario.from_tree({
    "name": "small", "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5}, "network": {"start_window_s": 1.0},
})  # fmt: skip


def attacked(monkeypatch, wait: float = 0.0, whose: str = "own", trials: int = 20_000) -> Audit:
    """Planted: a submission is late by `wait` seconds if its user's own true label is 1, or the fetched user's is."""

    class Late(Faulty):
        def run(self):
            traffic = super().run()
            truth = self.true if whose == "own" else self.true[self.source]
            self.arrival[truth == 1] += wait
            return traffic

    honest = RandomizedResponse.randomize

    def randomize(noise, labels, rng):
        Late.truth = labels
        return honest(noise, labels, rng)

    with monkeypatch.context() as patched:
        if wait > 0.0:
            patched.setattr(engines, "ShardExchange", Late)
            patched.setattr(RandomizedResponse, "randomize", randomize)
        done = audit(SCENARIO, trials=trials, cluster_size=12)
    assert isinstance(done, Audit)
    return done


def test_a_sound_exchange_passes_and_the_classifier_is_part_of_what_is_told(monkeypatch, capsys):
    done = attacked(monkeypatch)
    assert done.passed
    assert done.learned is not None
    assert done.learned.passed
    assert 0.5 * done.learned.certified[0] < done.learned.attacked[0] < done.learned.certified[0]
    assert audit_output(done).record["learned"]["targets"] == 20_000
    print_output(audit_output(done), False)
    told = " ".join(capsys.readouterr().out.split())
    assert "learnt from all submissions and times 20,000 targets in one run" in told


@pytest.mark.parametrize(("wait", "whose"), [(0.2, "own"), pytest.param(0.6, "fetched", marks=pytest.mark.slow)])
def test_a_leak_in_the_times_is_caught_and_counts_alone_do_not_show_it(wait, whose, monkeypatch):
    done = attacked(monkeypatch, wait, whose)
    assert done.result.passed  # what the counts prove
    assert done.learned is not None
    assert not done.learned.passed
    assert {event.attack for event in done.learned.plan.events} >= {1}  # the classifier, not the likelihood ratio
    assert not done.passed
    assert "what is learnt from all submissions and their times proves" in audit_output(done).failure
    assert ", by a classifier (error 1e-09)" in audit_output(done).failure


def test_the_classifier_can_be_left_out_and_is_no_part_of_a_coalition():
    assert audit(SCENARIO, trials=1_000, cluster_size=6, learn=False).learned is None
    assert audit(SCENARIO, "coalition", trials=1_000, cluster_size=6).learned is None


def test_the_raw_view_says_who_submitted_what_and_when():
    sent = np.array([[0, 2, 1], [1, 0, 0]], dtype=np.int8)
    view = raw_view(sent, np.array([1, 2, 3]), np.array([0.7, 0.2, 0.4]))
    assert view.tolist() == [[0, 2, 1, -1, 0.7, 0.2, 0.2, 0.7, -1], [1, 0, 0, 0.4, -1, -1, 0.4, -1, -1]]
