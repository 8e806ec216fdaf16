"""Any fetch distribution with many classes: both ends against enumeration."""

import itertools
import math

import numpy as np
import pytest

from p2p_sim.analysis.privacy import FetchDistribution, KaryExchange, local_epsilon
from p2p_sim.analysis.privacy.networks.kary_fetch import KaryFetch
from tests.test_fetch import ring


def enumerated(weights: np.ndarray, alpha: float, theta: float, classes: int) -> dict[tuple[int, ...], np.ndarray]:
    """The law of what the learner sees, by all labels."""
    n = len(weights)
    everything = list(itertools.product(range(classes), repeat=n))
    table = []
    for noisy in everything:
        chances = np.zeros((n, classes))
        for j, label in enumerate(noisy):
            chances[:, label] += weights[:, j]
        law = np.ones(1)
        for row in chances:
            law = np.outer(law, [*(theta * row), 1.0 - theta]).ravel()
        table.append(law)
    views, labels = np.array(table), np.array(everything)
    laws = {}
    for true in everything:
        flips = (labels != np.array(true)).sum(axis=1)
        laws[true] = ((alpha / (classes - 1)) ** flips * (1.0 - alpha) ** (n - flips)) @ views
    return laws


def delta_of(laws: dict[tuple[int, ...], np.ndarray], epsilon: float) -> float:
    worst = 0.0
    for true, law in laws.items():
        for target, other in itertools.product(range(len(true)), range(3)):
            changed = laws[(*true[:target], other, *true[target + 1 :])]
            worst = max(worst, float(np.maximum(law - math.exp(epsilon) * changed, 0.0).sum()))
    return worst


def overlays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    random = rng.random((4, 4)) * (rng.random((4, 4)) < 0.7) + 0.05
    return {"complete": np.full((4, 4), 0.25), "ring": ring(4, 2), "random": random / random.sum(axis=1, keepdims=True)}


@pytest.mark.parametrize("name", ["complete", "ring", "random"])
@pytest.mark.parametrize(("alpha", "theta"), [(0.5, 1.0), (0.3, 0.5)])
def test_the_truth_is_between(name, alpha, theta):
    weights = overlays()[name]
    laws, fetch = enumerated(weights, alpha, theta, 3), KaryFetch(weights, alpha, theta, 3)
    for epsilon in (0.0, 0.3, 0.8, 1.2):
        assert fetch.delta(epsilon).upper >= delta_of(laws, epsilon) * (1.0 - 1e-12)
    for delta in (1e-3, 0.02, 0.1):
        lower, upper = fetch.lower_epsilon(delta), fetch.epsilon(delta).epsilon_upper
        assert lower <= upper <= local_epsilon(alpha, 3)
        assert lower == 0.0 or delta_of(laws, lower * (1.0 - 1e-6)) > delta


def test_it_lies_above_the_blanket_of_one_cluster_and_below_the_noise():
    """A uniform table is the exchange in one cluster, whose lower end is attained by the same data set."""
    n, alpha = 150, 0.5
    exchange, fetch = KaryExchange(n, alpha, 1.0, 4).epsilon(1e-6), KaryFetch(np.full((n, n), 1 / n), alpha, 1.0, 4)
    upper, lower = fetch.epsilon(1e-6).epsilon_upper, fetch.lower_epsilon(1e-6)
    assert exchange.epsilon_lower <= upper < local_epsilon(alpha, 4)
    assert 0.6 * exchange.epsilon_lower <= lower <= exchange.epsilon_upper


def test_as_if_labels_hid_each_other_more_is_caught():
    """Control: with α in place of α/(K-1) the bound is below what is attained."""
    n, alpha = 150, 0.3
    fetch = KaryFetch(np.full((n, n), 1 / n), alpha, 1.0, 10)
    fetch.__dict__["_pairs"] = FetchDistribution(np.full((n, n), 1 / n), alpha, 1.0)
    assert fetch.epsilon(1e-6).epsilon_upper < KaryExchange(n, alpha, 1.0, 10).epsilon(1e-6).epsilon_lower


@pytest.mark.parametrize(
    ("arguments", "message"), [((0.1, 1.0, 2), "num_classes = 2"), ((0.8, 1.0, 3), "flip_prob = 0.8")]
)
def test_bad_values_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        KaryFetch(np.full((4, 4), 0.25), *arguments)


def test_ends_of_the_flip_probability():
    weights = overlays()["ring"]
    assert KaryFetch(weights, 0.0, 1.0, 3).lower_epsilon(0.1) == 0.0
    assert KaryFetch(weights, 2 / 3, 1.0, 3).epsilon(0.1).epsilon_upper <= 1e-9
