"""A trusted shuffler: enumeration, the exchange as its post-processing, bounds beyond."""

import itertools
import math
import time

import pytest

from p2p_sim.privacy import LabelExchange, local_epsilon
from p2p_sim.privacy.exchange.kary import ShuffledLabels
from p2p_sim.privacy.rivals import shuffled_labels
from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse


def enumerated(n: int, alpha: float, epsilon: float) -> float:
    """Every flip: the law of the number of noisy ones."""

    def law(labels: tuple[int, ...]) -> list[float]:
        counts = [0.0] * (n + 1)
        for noisy in itertools.product((0, 1), repeat=n):
            counts[sum(noisy)] += math.prod(1 - alpha if a == b else alpha for a, b in zip(labels, noisy, strict=True))
        return counts

    worst = 0.0
    for rest in itertools.product((0, 1), repeat=n - 1):
        zero, one = law((0, *rest)), law((1, *rest))
        for p, q in ((zero, one), (one, zero)):
            worst = max(worst, sum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(p, q, strict=True)))
    return worst


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.1), (5, 0.25), (6, 0.02), (7, 0.45)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_delta_equals_enumeration(n, alpha, epsilon):
    bracket, truth = ShuffledResponse(n, alpha).delta(epsilon), enumerated(n, alpha, epsilon)
    assert bracket.lower - 1e-15 <= truth <= bracket.upper + 1e-15
    assert bracket.upper == pytest.approx(truth, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("n", "alpha"), [(10, 0.1), (200, 0.05), pytest.param(1000, 0.2, marks=pytest.mark.slow), (3000, 0.1)]
)
def test_the_exchange_is_a_post_processing(n, alpha):
    """Its ε is never larger, and comes close where every label is drawn often."""
    shuffled = ShuffledResponse(n, alpha).epsilon(1e-5)
    for theta in (0.2, 1.0):
        assert LabelExchange(n, alpha, theta).epsilon(1e-5).epsilon_lower <= shuffled.epsilon_upper
    if n <= 200:
        often = LabelExchange(n, alpha, 1.0, rounds=200).epsilon(1e-5)
        assert 0.9 * shuffled.epsilon_lower < often.epsilon_upper
        assert often.epsilon_lower <= shuffled.epsilon_upper


@pytest.mark.parametrize(("n", "alpha"), [(500, 0.1), (2048, 0.3), (5000, 0.05), (50_000, 0.1)])
def test_it_is_sharper_than_the_blanket(n, alpha):
    exact = ShuffledResponse(n, alpha).epsilon(1e-6)
    assert exact.epsilon_lower <= exact.epsilon_upper <= ShuffledLabels(n, alpha, 1.0, 2).epsilon(1e-6).epsilon_upper
    assert exact.epsilon_upper < 1.02 * exact.epsilon_lower
    gaussian = (1.0 - 2.0 * alpha) / math.sqrt(n * alpha * (1.0 - alpha))
    assert 3.0 * gaussian < exact.epsilon_upper < 8.0 * gaussian


def test_the_bounds_meet_where_the_scan_of_data_sets_thins_out():
    """At 2,049 users the covering takes over; a control: one user fewer, all data sets."""
    all_sets, covered = ShuffledResponse(2048, 0.1).epsilon(1e-6), ShuffledResponse(2049, 0.1).epsilon(1e-6)
    assert covered.epsilon_upper == pytest.approx(all_sets.epsilon_upper, rel=0.02)
    assert covered.epsilon_upper >= all_sets.epsilon_upper * 0.999


@pytest.mark.parametrize("classes", [3, 5])
def test_more_classes_use_the_bound_for_shuffled_labels(classes):
    found, labels = ShuffledResponse(1000, 0.3, classes), ShuffledLabels(1000, 0.3, 1.0, classes)
    assert found.delta(0.3) == labels.delta(0.3)
    found = found.epsilon(1e-6)
    assert found.epsilon_upper == labels.epsilon(1e-6).epsilon_upper
    assert found.epsilon_lower == 0.0
    assert "shuffler" in found.conditions[0]


def test_extremes():
    assert ShuffledResponse(50, 0.5).epsilon(1e-6).epsilon_upper == 0.0
    assert ShuffledResponse(50, 0.0).epsilon(1e-6).epsilon_upper == math.inf
    assert ShuffledResponse(50, 0.1).delta(local_epsilon(0.1)).upper == 0.0
    started = time.process_time()
    ShuffledResponse(2000, 0.1).epsilon(1e-7)
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    ("arguments", "key"), [((1, 0.1), "cluster_size"), ((10, 0.6), "flip_prob"), ((10, 0.1, 1), "num_classes")]
)
def test_bad_arguments_are_refused(arguments, key):
    with pytest.raises(ValueError, match=key):
        ShuffledResponse(*arguments)


@pytest.mark.parametrize(("users", "cut"), [(60, False), (2000, True)])
def test_tails_that_laws_leave_out_enter_the_bounds(monkeypatch, users, cut):
    """At hardly any noise the law of 2,000 users has fewer than 64 values; planted: tails of a probability of 1e-3."""
    honest = ShuffledResponse(users, 1e-5).delta(1.0)
    monkeypatch.setattr(shuffled_labels, "tail_mass", lambda log_tail: 1e-3)
    planted = ShuffledResponse(users, 1e-5).delta(1.0)
    assert (planted.upper > honest.upper) == cut
    assert (planted.lower < honest.lower) == cut
