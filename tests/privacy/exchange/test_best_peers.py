"""Which number of peers is best: errors against enumeration, and the published ones at equal ε."""

import itertools
import math

import pytest

from p2p_sim.privacy import MajorityExchange
from p2p_sim.privacy.exchange.best_peers import best_peers, missed
from p2p_sim.privacy.exchange.majority_kernel import MajorityKernel


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
