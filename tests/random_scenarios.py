"""Small random scenarios of the exchange: uneven clusters, every fault, every adversary, both engines."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from p2p_sim import Scenario
from p2p_sim.base.errors import InputError

FAULTS: tuple[dict[str, Any], ...] = (
    {},
    {"overlay": {"kind": "regular", "degree": 4}},
    {"overlay": {"kind": "scale_free", "attachments": 2}},
    {"peers": {"kind": "gossip"}},
    {"loss": 0.2, "request_timeout_s": 1.0},
    {"loss": 0.2, "request_timeout_s": 1.0, "on_timeout": {"retry": "same_peer", "attempts": 2}},
    {"loss": 0.3, "request_timeout_s": 1.0, "on_timeout": {"fallback": "own_label"}},
    {"duplication": 0.3},
    {"availability": {"kind": "on_off", "mean_on_s": 5.0, "mean_off_s": 2.0}},
    {"deadline_s": 0.3},
    {"deadline_s": 2.0, "batch_submission": True},
)
ROLES: tuple[dict[str, Any], ...] = (
    {},
    {"coalition": {"share": 0.04}},
    {"coalition": {"share": 0.3}},
    {"coalition": {"share": 0.1, "choice": "degree"}},
    {"liars": {"share": 0.2, "answer": "one"}},
    {"liars": {"share": 0.2, "answer": "inverted"}, "coalition": {"share": 0.1}},
    {"free_riders": {"share": 0.2}},
    {"free_riders": {"share": 0.2}, "coalition": {"share": 0.1}},
    {"sybil": {"share": 0.2}},
    {"sybil": {"share": 0.2, "probe_every_s": 0.5}},
)


def random_scenarios(count: int, seed: int, flips: tuple[float, ...] = (0.02, 0.1, 0.25, 0.4)) -> Iterator[Scenario]:
    """`count` scenarios that are not refused, of 12 to 120 users in clusters of 2 or more, with one of these α.

    >>> [scenario.name for scenario in random_scenarios(2, 1)]
    ['random-0', 'random-1']
    """
    rng, made = np.random.default_rng(seed), 0
    while made < count:
        users = int(rng.integers(12, 120))
        engine = "vectorised" if rng.random() < 0.2 else "events"
        tree = {
            "name": f"random-{made}",
            "seed": int(rng.integers(2**31)),
            "engine": engine,
            "population": {"kind": "synthetic", "users": users, "num_clusters": 4, "positive": "random"},
            "clusters": {"kind": "kmeans", "count": int(rng.integers(1, max(2, users // 6))), "min_size": 2},
            "mechanism": {
                "flip_prob": float(rng.choice(flips)),
                "sampling_rate": float(rng.choice([0.1, 0.5, 1.0])),
            },
            "privacy": {"delta": float(rng.choice([1e-6, 1e-3, 0.1]))},
        }
        if engine == "events":
            tree["network"] = FAULTS[rng.integers(len(FAULTS))]
            tree["adversaries"] = ROLES[rng.integers(len(ROLES))]
        try:
            scenario = Scenario.from_tree(tree)
        except InputError:  # such as liars in a network that a key excludes
            continue
        made += 1
        yield scenario


def uneven() -> Scenario:
    """300 users in some 30 uneven clusters, with a coalition so small that most clusters have no member."""
    return Scenario.from_tree(
        {
            "name": "uneven",
            "population": {"kind": "synthetic", "users": 300, "num_clusters": 30, "positive": "random"},
            "clusters": {"kind": "kmeans", "count": 30, "min_size": 2},
            "mechanism": {"flip_prob": 0.1, "sampling_rate": 1.0},
            "adversaries": {"coalition": {"share": 0.04}},
            "privacy": {"delta": 0.1},
        }
    )
