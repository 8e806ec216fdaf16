"""ε of many clusters: never below what holds, whatever the order, and exact where it is worst."""

from dataclasses import dataclass

import numpy as np
import pytest

from p2p_sim.privacy import worst_of_several
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.rivals.centralised import ClusterResampling
from p2p_sim.privacy.worst_of_several import EVERY, epsilons


@dataclass(frozen=True)
class Known:
    """A cluster whose ε is known."""

    value: float

    def epsilon(self, delta: float) -> PrivacyBound:
        return PrivacyBound(0.9 * self.value, self.value, delta, "learner", "label", "known", ())

    def satisfies(self, epsilon: float, delta: float) -> bool:
        return epsilon >= self.value


@dataclass(frozen=True)
class Careless(Known):
    """Planted bug: whatever is asked for is granted."""

    def satisfies(self, epsilon: float, delta: float) -> bool:
        return True


def one_by_one(models, epsilon, delta):
    """Whether all others satisfy (ε, δ), as many are held against an ε together."""
    return all(model.satisfies(epsilon, delta) for model in models[1:])


def sound(kind, count):
    """Whether no cluster's ε is understated, and the largest is exact, in 50 orders."""
    rng = np.random.default_rng(count)
    for _ in range(50):
        values = rng.uniform(0.1, 2.0, count)
        found = epsilons([kind(float(value)) for value in values], 1e-5)
        if len(found) != count or any(b.epsilon_upper < v for b, v in zip(found, values, strict=True)):
            return False
        if max(b.epsilon_upper for b in found) != values.max():
            return False
        if any(b.epsilon_lower > v for b, v in zip(found, values, strict=True)):
            return False
    return True


@pytest.mark.parametrize("count", [1, EVERY, EVERY + 1, 60])
def test_no_cluster_is_understated_whatever_the_order(count, monkeypatch):
    assert sound(Known, count)
    monkeypatch.setattr(worst_of_several, "satisfied", one_by_one)
    assert sound(Known, count)


def test_a_cluster_that_grants_everything_is_seen(monkeypatch):
    assert not sound(Careless, 60)
    monkeypatch.setattr(worst_of_several, "satisfied", lambda *asked: True)  # planted: so does asking many at once
    assert not sound(Known, 60)


def test_large_clusters_whose_labels_are_not_counted_are_the_worst(monkeypatch):
    """Beyond 131,072 users a curator's pure ε stands, which is larger than what smaller clusters are certified for."""
    monkeypatch.setattr(worst_of_several, "EVERY", 2)
    models = [ClusterResampling(n, 2, 1.0, 1.0, 0.1, released=False) for n in (300, 140_000, 400)]
    found = [bound.epsilon_upper for bound in epsilons(models, 1e-5)]
    assert found[1] == models[1].pure_epsilon > found[0]
    assert found[2] == models[2].epsilon(1e-5).epsilon_upper < found[0]
