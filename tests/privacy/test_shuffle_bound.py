"""The bound for shuffled messages lies above the exact divergence of every local randomizer that was enumerated."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from p2p_sim.privacy import LabelExchange
from p2p_sim.privacy.exchange.blanket import Blanket
from p2p_sim.privacy.randomized_response import law_epsilon
from p2p_sim.privacy.rivals.rr_with_prior import top_k_law
from p2p_sim.privacy.rivals.shuffled_messages import ShuffledMessages
from p2p_sim.privacy.rivals.vector_approximation import bit_flip_prob_of, vector_law


def multiset_law(channel: np.ndarray, labels: tuple[int, ...]) -> np.ndarray:
    """Pr[how often each output occurs], as an array with one axis an output."""
    outputs = channel.shape[1]
    law = np.zeros((len(labels) + 1,) * outputs)
    law[(0,) * outputs] = 1.0
    for label in labels:
        law = sum(channel[label, o] * np.roll(law, 1, axis=o) for o in range(outputs))  # counts never wrap around
    return law


def exact_delta(channel: np.ndarray, users: int, epsilon: float) -> float:
    """Largest hockey-stick divergence of the shuffled messages over all neighbouring labels."""
    worst, grow = 0.0, math.exp(epsilon)
    inputs = range(len(channel))
    for others in itertools.combinations_with_replacement(inputs, users - 1):
        laws = [multiset_law(channel, (own, *others)) for own in inputs]
        worst = max(worst, max(float(np.maximum(a - grow * b, 0).sum()) for a in laws for b in laws))
    return worst


def staircases(rng: np.random.Generator, epsilon: float) -> Iterator[np.ndarray]:
    """Channels whose outputs have probabilities in the ratio 1 or e^ε, of which all ε-private ones are mergers."""
    for _ in range(15):
        patterns = np.where(rng.random((3, 4)) < 0.5, math.exp(epsilon), 1.0)
        weights, *_ = np.linalg.lstsq(patterns, np.ones(3), rcond=None)
        if weights.min() > 0 and np.allclose(patterns @ weights, 1.0):
            yield patterns * weights


def channels() -> dict[str, tuple[np.ndarray, int]]:
    """Channels that are 1-private, and for how many users they can be enumerated."""
    uniform = np.full(4, 0.25)
    e = math.e
    fooled = np.array([[e, 1, 1, e], [1, e, 1, e], [1, 1, e, 1]]) * np.array([1, 1, 1, 0])
    rest = np.array([0, 0, 0, 1.0])
    found = {
        "randomised response among 4": (top_k_law(uniform, 4, 1.0), 5),
        "among 2 of 3": (top_k_law(np.array([0.5, 0.3, 0.2]), 2, 1.0), 7),
        "vector, 2 classes": (vector_law(bit_flip_prob_of(1.0), 2), 5),
        "mostly silent": (0.1 * fooled / fooled.sum(axis=1, keepdims=True) + 0.9 * rest, 5),
    }
    for i, channel in enumerate(staircases(np.random.default_rng(5), 1.0)):
        found[f"staircase {i}"] = (channel, 5)
    return found


CHANNELS = channels()


@pytest.mark.parametrize("name", CHANNELS)
def test_no_local_randomizer_exceeds_the_bound(name):
    channel, users = CHANNELS[name]
    assert law_epsilon(channel) <= 1.0 + 1e-12
    for epsilon in (0.0, 0.3, 0.8):
        assert exact_delta(channel, users, epsilon) <= ShuffledMessages(users, 1.0 + 1e-12).delta(epsilon).upper


def test_there_are_staircases_and_a_channel_that_is_not_private_enough_exceeds_the_bound():
    assert sum("staircase" in name for name in CHANNELS) >= 5
    loose = top_k_law(np.full(2, 0.5), 2, 1.5)
    assert exact_delta(loose, 6, 0.5) > ShuffledMessages(6, 1.0).delta(0.5).upper


@pytest.mark.parametrize("users", [2, 3, 10, 100, 2000])
@pytest.mark.parametrize("local", [0.3, 2.0])
@pytest.mark.slow_where(lambda users, local: users == 2000 and local < 1.0)
def test_it_dominates_shuffled_randomised_response_and_not_by_much(users, local):
    """Many rounds of the exchange show the learner all noisy labels of the cluster, shuffled."""
    shuffled = LabelExchange(users, 1.0 / (1.0 + math.exp(local)), 1.0, rounds=1000 if users < 2000 else 50)
    delta = 0.02 if users < 100 else 1e-5
    exact, bound = shuffled.epsilon(delta), ShuffledMessages(users, local).epsilon(delta).epsilon_upper
    assert exact.epsilon_lower <= bound * (1 + 1e-9) <= local * (1 + 1e-9)
    if users >= 100:
        assert bound <= 1.6 * exact.epsilon_upper


def test_more_users_hide_better_and_the_ends_are_the_local_figure():
    figures, many, certain, open_ = (
        [ShuffledMessages(users, local).epsilon(1e-6).epsilon_upper for users in sizes]
        for local, sizes in ((1.0, (1, 10, 1_000, 100_000)), (1.0, (10**6, 10**9)), (0.0, (50,)), (math.inf, (50,)))
    )
    assert figures[0] == 1.0
    assert figures == sorted(figures, reverse=True)
    assert many[0] == many[1]
    assert certain + open_ == [0.0, math.inf]
    assert ShuffledMessages(50, 1.0).delta(1.0).upper == 0.0
    assert ShuffledMessages(50, math.inf).delta(3.0).upper == 1.0


@pytest.mark.parametrize(("local", "users", "delta"), [(0.001, 1000, 0.5), (1.0, 50, 0.9)])
def test_where_total_variation_is_below_delta_epsilon_is_nought_at_once(monkeypatch, local, users, delta):
    calls, messages = [], ShuffledMessages(users, local)
    find = ShuffledMessages.delta
    monkeypatch.setattr(ShuffledMessages, "delta", lambda self, e: calls.append(e) or find(self, e))
    assert messages.epsilon(delta).epsilon_upper == 0.0
    assert len(calls) < 5
    assert ShuffledMessages(users, local).epsilon(1e-9 * delta).epsilon_upper > 0.0


@pytest.mark.parametrize(("local", "users"), [(-1.0, 5), (math.nan, 5), (1.0, 0)])
def test_bad_input_is_refused(local, users):
    with pytest.raises(ValueError, match="must be at least"):
        ShuffledMessages(users, local)


def test_a_delta_is_a_probability():
    """Where nobody else's message hides anything the walk is worth more than 1, and 1 is what is stated."""
    assert Blanket(users=1, share=0.0, kinds=2.0, keep=3.0, lose=3.0, rest=0.0).delta() == 1.0
