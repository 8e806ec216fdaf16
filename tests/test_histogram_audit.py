"""Audits of the histograms: sound ones pass, too little noise fails, and the power is what is printed.

Each audit fails a sound histogram with probability at most 1e-9; seeds are fixed.
"""

import numpy as np
import pytest

from p2p_sim.analysis.privacy.others.histograms import laplace_delta
from p2p_sim.attacks.histogram_run import audit_counts, audit_votes
from p2p_sim.cli.printing.one_run import one_run_failure, print_one_run
from p2p_sim.histograms.classifiers import PCL, LabelPrivateHistogram


@pytest.mark.parametrize("kind", [PCL, LabelPrivateHistogram])
def test_votes_pass_and_noise_that_is_a_tenth_too_small_is_caught(kind, capsys):
    done = audit_votes(kind(epsilon=1.0), 100_000)
    assert done.passed
    assert done.attacked[0] > 0.9 * done.certified[0]
    assert done.smallest_rise is not None
    assert done.smallest_rise <= 1.1
    print_one_run(done, False)
    assert "passed: the attack stays within what is certified" in " ".join(capsys.readouterr().out.split())
    weak = audit_votes(kind(epsilon=1.1), 100_000, claimed=1.0)
    assert not weak.passed
    assert "the learner's attack proves" in one_run_failure(weak)


def test_counts_pass_and_noise_that_is_a_quarter_too_small_is_caught():
    assert audit_counts(1.0, 1e-6, 20_000).passed
    assert not audit_counts(1.33, 1e-6, 20_000, claimed=1.0).passed


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("moved", [1.0, 3.0])
def test_the_law_of_one_cell_is_that_of_laplace_noise(moved, epsilon):
    """By summing the densities of the noisy vote at both labels."""
    v = np.linspace(-40.0, 40.0, 800_001)
    one, zero = (0.5 * np.exp(-np.abs(v - at)) for at in (0.5 * moved, -0.5 * moved))
    summed = float(np.maximum(one - np.exp(epsilon) * zero, 0.0).sum()) * (v[1] - v[0])
    assert laplace_delta(moved, epsilon) == pytest.approx(summed, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("moved", [1.0, 3.0])
def test_the_law_of_two_cells_is_that_of_two_laplace_variables(moved, epsilon):
    """The product of their laws, by summing."""
    v = np.arange(-1600, 1600) * 0.015625 + 0.0078125
    one, zero = (0.5 * np.exp(-np.abs(v - at)) for at in (0.25 * moved, -0.25 * moved))
    first, second = np.outer(one, zero), np.outer(zero, one)
    summed = float(np.maximum(first - np.exp(epsilon) * second, 0.0).sum()) * 0.015625**2
    assert laplace_delta(moved, epsilon, cells=2) == pytest.approx(summed, rel=2e-3)
    assert laplace_delta(moved, epsilon, cells=2) < laplace_delta(moved, epsilon)


@pytest.mark.parametrize("arguments", [(1.0, 0.0, 3), (0.0, 0.0, 1), (1.0, -0.1, 1)])
def test_the_law_of_cells_refuses_what_is_out_of_range(arguments):
    with pytest.raises(ValueError, match="out of range"):
        laplace_delta(*arguments)
