"""Values that points of a sweep share."""

import os
import sys
import threading

import numpy as np
import pytest
from cachetools import LRUCache, cached

from p2p_sim.replicate import learn
from p2p_sim.replicate import replicate as case
from p2p_sim.replicate.run import run
from p2p_sim.scenario import Scenario


@pytest.fixture
def eager_threads():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def survives(lock):
    """Whether eight threads get what they ask for, of more keys than there is room for."""
    faults = []
    recent = cached(LRUCache(40), lock=lock)(lambda key: key)

    def ask(seed):
        try:
            for key in np.random.default_rng(seed).integers(60, size=4_000).tolist():
                assert recent(key) == key
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return not faults


def test_threads_of_one_worker_may_share_what_is_kept(eager_threads):
    assert survives(threading.Lock())
    for kept in (case.Replicate.people, learn._nonprivate):
        assert isinstance(kept.cache_lock, type(threading.Lock()))


def test_models_that_hold_what_they_learned_from_count_in_full():
    tree = {
        "name": "t",
        "engine": "vectorised",
        "population": {"kind": "digits"},
        "mechanism": {"flip_prob": 0.2},
        "learner": {"kind": "estimator", "estimator": "sklearn.neighbors.KNeighborsClassifier"},
    }
    forget()
    features = run(Scenario.from_tree(tree)).population.features
    assert learn._nonprivate.cache.currsize >= features.nbytes


def small(**changes):
    tree = {
        "name": "t",
        "engine": "vectorised",
        "population": {"kind": "synthetic", "users": 200, "num_clusters": 4, "heterogeneity": 0.2},
        "mechanism": {"flip_prob": 0.2},
        "learner": {"kind": "table"},
    }
    return Scenario.from_tree({**tree, **changes})


def forget():
    """Start with no users and no models kept."""
    case.Replicate.people.cache_clear()
    learn._nonprivate.cache_clear()


def mixed_up(directory):
    """In which of several runs, each a little different, what was kept of the others shows."""
    path = directory / "own.csv"
    own = {"kind": "table", "path": str(path), "label": "y"}
    runs = [
        (small(), 0),
        (small(), 1),
        (small(seed=2), 0),
        (small(population={"kind": "synthetic", "users": 200, "num_clusters": 4, "heterogeneity": 0.4}), 0),
        (small(clusters={"kind": "kmeans", "count": 2, "min_size": 5}), 0),
        (small(learner={"kind": "soft_logistic_regression"}), 0),
        (small(population=own, clusters={"kind": "kmeans", "count": 2, "min_size": 5}), 0),
        (small(population=own, clusters={"kind": "kmeans", "count": 2, "min_size": 5}), 0),
    ]

    def rows(afresh):
        found = []
        forget()
        for place, (scenario, replicate) in enumerate(runs):
            x = np.arange(60)
            lines = [f"{a},{int(a % (2 + place // 7) == 0)}" for a in x]  # the last run finds other labels in its file
            path.write_text("\n".join(["x,y", *lines]), encoding="utf-8")
            os.utime(path, ns=(place, place))
            if afresh:
                forget()
            found.append(run(scenario, replicate).row)
        return found

    pairs = zip(rows(afresh=False), rows(afresh=True), strict=True)
    return [place for place, (shared, alone) in enumerate(pairs) if repr(shared) != repr(alone)]


def test_runs_that_share_users_and_models_leave_the_rows_of_runs_that_do_not(tmp_path):
    assert mixed_up(tmp_path) == []


@pytest.mark.parametrize(("forgotten", "wrong"), [(0, [3]), (1, [4]), (2, [7]), (3, [2]), (4, [1])])
def test_a_key_that_lacks_something_mixes_up_runs(monkeypatch, tmp_path, forgotten, wrong):
    """Planted: users are told apart by all but population, clusters, files, seed or replicate."""
    whole = case.Replicate.people_key.fget
    monkeypatch.setattr(
        case.Replicate, "people_key", property(lambda c: (k := whole(c))[:forgotten] + k[forgotten + 1 :])
    )
    assert set(wrong) <= set(mixed_up(tmp_path))
