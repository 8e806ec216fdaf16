"""The check against 50 digits, on few points, and that it sees faults; `make truth` checks ten thousand."""

import pytest

from p2p_sim.privacy import binomial_windows
from p2p_sim.privacy.exchange import direct_sum
from tests.validation import truth

KINDS = [name for name in truth.KINDS if name not in ("learner_huge", "learner_half")]


def test_no_figure_is_on_the_wrong_side_of_the_truth():
    tally = truth.run(60, seed=5, kinds=KINDS)
    assert tally.violations == []
    assert sum(tally.large.values()) >= 10


@pytest.mark.parametrize("kind", ["eavesdropper", "learner_tiny", "shuffled"])
def test_a_truth_that_is_a_billionth_larger_is_seen(kind):
    """Control: the exact figures are closer than that."""
    assert any("above lies" in line for line in truth.run(25, 1, scale=1.0 + 1e-9, kinds=[kind]).violations)


def test_a_charge_left_out_is_seen(monkeypatch):
    """Control: without what is charged for rounding, figures do lie on the wrong side."""
    monkeypatch.setattr(direct_sum, "VALUE_ERROR", -1e-13)
    monkeypatch.setattr(binomial_windows, "UNIT", 0.0)
    assert truth.run(60, 1, kinds=["learner_full", "learner_tiny"]).violations


def test_the_report_says_what_was_checked():
    tally = truth.run(10, seed=3, kinds=["eavesdropper"])
    lines = list(truth.report(tally, 10, 3))
    assert lines[0] == f"seed 3: {tally.points} points of 10"
    assert lines[-1] == "0 violations"
