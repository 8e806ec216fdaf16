"""Which number of peers is best: errors against enumeration, and the published ones at equal ε."""

import itertools
import json
import math

import pytest

from p2p_sim.privacy import MajorityExchange
from p2p_sim.privacy.exchange.best_peers import best_peers, missed
from p2p_sim.privacy.exchange.majority_kernel import MajorityKernel
from p2p_sim.privacy.target_questions import PeersComparison, compared_peers
from tests.commands import command


@pytest.mark.parametrize(("weights", "theta"), [(((1, 1.0),), 1.0), (((3, 1.0),), 0.4), (((1, 0.5), (5, 0.5)), 0.7)])
def test_the_error_is_that_of_all_noise_and_all_submissions(weights, theta):
    size, alpha, labels = 5, 0.15, (1, 1, 1, 0, 0)
    kernel, wrong = MajorityKernel(weights), 0.0
    for noisy in itertools.product((0, 1), repeat=size):
        chance = math.prod(alpha if a != b else 1 - alpha for a, b in zip(noisy, labels, strict=True))
        p = sum(noisy) / size
        share = float(kernel.majority(p, 1 - p)) if 0 < p < 1 else p
        for submissions in itertools.product((None, 0, 1), repeat=size):
            views = [1 - theta if s is None else theta * (share if s else 1 - share) for s in submissions]
            ones, zeros = submissions.count(1), submissions.count(0)
            wrong += chance * math.prod(views) * ((ones < zeros) + 0.5 * (ones == zeros))
    assert missed(size, alpha, kernel, theta, 0.6) == pytest.approx(wrong, rel=1e-9)


def test_asking_several_peers_beats_asking_one_at_the_same_epsilon():
    choices = best_peers(60, sampling_rate=1.0, epsilon=0.6, delta=1e-5, numbers=(1, 3))
    assert [choice.peers for choice in choices][-1] == ((1, 1.0),)
    assert choices[0].error < 0.7 * choices[-1].error
    for choice in choices:
        bound = MajorityExchange(60, choice.flip_prob, 1.0, dict(choice.peers)).epsilon(1e-5)
        assert bound.epsilon_upper <= 0.6 * (1 + 1e-9)
    assert choices[-1].requests == 1.0


@pytest.mark.parametrize("majority", [0.5, 1.2, math.nan])
def test_a_majority_that_is_none_is_refused(majority):
    with pytest.raises(ValueError, match="majority"):
        best_peers(60, sampling_rate=1.0, epsilon=0.6, delta=1e-5, majority=majority)


def test_the_chosen_number_of_peers_has_the_least_error_of_its_clusters_and_is_certified():
    comparison = compared_peers([40, 60], (1, 3, 5), 1.0, epsilon=0.6, delta=1e-5)
    assert sorted(comparison.calibrations) == [1, 3, 5]
    for k, calibration in comparison.calibrations.items():
        worst = max(MajorityExchange(n, calibration.flip_prob, 1.0, k).epsilon(1e-5).epsilon_upper for n in (40, 60))
        assert worst <= 0.6 * (1 + 1e-9)
        errors = [missed(n, calibration.flip_prob, MajorityKernel(((k, 1.0),)), 1.0, 0.6) for n in (40, 60)]
        assert comparison.errors[k] == max(errors)
    assert comparison.best == min(comparison.errors, key=comparison.errors.__getitem__) != 1


def test_of_errors_as_good_as_none_the_fewest_requests_are_chosen():
    comparison = PeersComparison(0.6, {}, {1: 3e-13, 3: 1e-20, 5: 0.0})
    assert comparison.best == 1
    assert PeersComparison(0.6, {}, {1: 3e-3, 3: 1e-20, 5: 0.0}).best == 3


COMPARED = ("calibrate", "--cluster-size", "60", "--epsilon", "0.6", "--delta", "1e-5", "--peers", "1", "--peers", "3")


def test_the_command_chooses_among_numbers_of_peers():
    status, out, _ = command(*COMPARED, "--sampling-rate", "1", "--json")
    record = json.loads(out)
    assert (status, record["peers"]) == (0, 3)
    assert record["flip_prob"] == record["by_peers"]["3"]["flip_prob"] < record["by_peers"]["1"]["flip_prob"]
    assert record["by_peers"]["3"]["error"] < record["by_peers"]["1"]["error"]
    status, out, _ = command(*COMPARED, "--sampling-rate", "1")
    assert "asking 3" in out


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ((), "--sampling-rate: is missing"),
        (("--sampling-rate", "1", "--majority", "0.5"), "--majority 0.5: must be above 0.5 and at most 1"),
        (("--sampling-rate", "1", "--num-classes", "3"), "--peers: several are compared for"),
        (("--sampling-rate", "1", "--peers", "4"), "--peers 4: must be an odd number"),
        (("--sampling-rate", "1", "--cluster-size", "20000"), "--cluster-size 20000: numbers of peers are compared"),
        (("--sampling-rate", "1", "--flip-prob", "0.1"), "--peers 1: does not go with --flip-prob"),
    ],
)
def test_what_cannot_be_compared_is_one_line(more, line):
    status, out, err = command(*COMPARED, *more)
    assert (status, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1
