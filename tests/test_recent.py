"""Values that points of a sweep share."""

import sys
import threading

import numpy as np
import pytest

from p2p_sim import experiment
from p2p_sim.experiment import run
from p2p_sim.recent import Recent
from p2p_sim.scenario import Scenario


@pytest.fixture
def eager_threads():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class _NoLock:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def survives(recent):
    """Whether eight threads get what they ask for, of more keys than there is room for."""
    faults = []

    def ask(seed):
        try:
            for key in np.random.default_rng(seed).integers(60, size=4_000).tolist():
                assert recent.get(key, lambda key=key: key, lambda _: 1) == key
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return not faults


def test_threads_of_one_worker_may_share_it(eager_threads):
    assert survives(Recent(budget=40))
    unlocked = Recent(budget=40)
    unlocked._lock = _NoLock()
    assert not survives(unlocked)


def test_models_that_hold_what_they_learned_from_count_in_full(monkeypatch):
    kept = Recent(budget=2**27)
    monkeypatch.setattr(experiment, "_NONPRIVATE", kept)
    tree = {
        "name": "t",
        "engine": "vectorised",
        "population": {"kind": "digits"},
        "mechanism": {"flip_prob": 0.2},
        "learner": {"kind": "estimator", "estimator": "sklearn.neighbors.KNeighborsClassifier"},
    }
    features = run(Scenario.from_tree(tree)).population.features
    [(_, size)] = kept.kept.values()
    assert size >= features.nbytes
