"""Submissions against a declared law: true ones pass, each planted fault is refused, by the law or by symmetry."""

import numpy as np
import pytest

from p2p_sim.audit.declared_submissions import HeldAndSubmitted, failure, follows
from p2p_sim.privacy.rivals.declared_protocols import SubmissionLaw

ERROR = 1e-9


def exchange(runs, users, fault="", theta=1.0, seed=1):
    """Label exchange with one peer each; a fault shows in a tenth of the cases."""
    rng = np.random.default_rng(seed)
    held = rng.random((runs, users)) < 0.5
    label = np.take_along_axis(held, rng.integers(0, users, (runs, users)), axis=1)
    keep = rng.random((runs, users)) < theta
    now, run = rng.random((runs, users)) < 0.1, rng.random((runs, 1)) < 0.1
    match fault:
        case "own label":
            label = np.where(now, held, label)
        case "neighbour's label":
            label = np.where(now, np.roll(held, -1, axis=1), label)
        case "common source":
            label = np.where(run, label[:, :1], label)
        case "more ones":
            label = label | now
        case "silence":
            keep &= ~(held & now)
        case "together":
            keep = np.where(run, keep[:, :1], keep)
    count = keep.astype(np.int64) + (now if fault == "twice" else 0)
    return [HeldAndSubmitted(held, (label & keep).astype(np.int64), count)]


@pytest.mark.parametrize("theta", [0.5, 1.0])
@pytest.mark.parametrize("declares", [True, False])
def test_the_exchange_follows_its_law(theta, declares):
    law = SubmissionLaw(lambda share: share, theta) if declares else None
    assert failure(follows(exchange(5_000, 20, theta=theta), law), ERROR) is None


@pytest.mark.parametrize(
    ("fault", "theta", "seen_by_symmetry"),
    [
        ("own label", 1.0, True),
        ("neighbour's label", 1.0, True),
        ("common source", 1.0, False),
        ("more ones", 1.0, False),
        ("silence", 0.5, True),
        ("together", 0.5, False),
        ("twice", 1.0, False),
    ],
)
def test_each_fault_is_refused_within_a_hundred_thousand_users(fault, theta, seen_by_symmetry):
    clusters = exchange(5_000, 20, fault, theta)
    assert failure(follows(clusters, SubmissionLaw(lambda share: share, theta)), ERROR) is not None
    assert (failure(follows(clusters, None), ERROR) is not None) is seen_by_symmetry


def test_false_alarms_keep_to_the_error():
    """300 true protocols at 5%: the inequality is not sharp, so that far fewer than 15 are refused."""
    law = SubmissionLaw(lambda share: share, 0.5)
    alarms = [failure(follows(exchange(60, 10, theta=0.5, seed=seed), law), 0.05) for seed in range(300)]
    assert sum(alarm is not None for alarm in alarms) <= 15
