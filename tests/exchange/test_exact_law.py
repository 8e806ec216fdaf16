"""All engines draw from the exact joint law of Algorithm 2.

Each of many clusters of three users is one draw of the whole cluster's release, one of 27 outcomes whose probabilities
are enumerated. A G-test rejects at 1e-9; with 60,000 clusters it sees any law at a Kullback-Leibler divergence above
about 0.0008 nats. The planted wrong engines have the right marginal for every single user and are caught.
Chances and peers of networks with faults are held against their laws, one by one, at the same rate.
"""

import numpy as np
import pytest
from scipy.stats import chi2

from p2p_sim.base.streams import BLOCK, Streams
from p2p_sim.exchange.algorithm import label_exchange
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.network_config import GossipView, NetworkConfig, OnTimeout, RandomWalk
from p2p_sim.network.overlay import GeometricOverlay, RegularOverlay, ScaleFreeOverlay
from p2p_sim.population.population import Population
from tests.reference.enumeration import NOTHING, law

LABELS = (0, 1, 1)
ALPHA, THETA, CLUSTERS = 0.2, 0.6, 60_000
FALSE_ALARM = 1e-9


def population() -> Population:
    users = 3 * CLUSTERS
    labels = np.tile(np.array(LABELS, np.uint8), CLUSTERS)
    return Population(np.zeros((users, 1)), labels, np.arange(0, users + 1, 3), 2)


def outcomes(users: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How often each of the 27 joint outcomes of a cluster occurred."""
    view = np.full(3 * CLUSTERS, NOTHING)
    view[users] = labels
    return np.bincount(view.reshape(-1, 3) @ [9, 3, 1], minlength=27)


def p_value(counts: np.ndarray, theta: float = THETA) -> float:
    expected = law(LABELS, ALPHA, theta) * counts.sum()
    assert expected.min() > 100
    seen = counts > 0
    g = 2.0 * np.sum(counts[seen] * np.log(counts[seen] / expected[seen]))
    return float(chi2.sf(g, 26))


@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_engine_draws_from_the_joint_law(engine):
    mechanism = LabelExchangeMechanism(RandomizedResponse(ALPHA), THETA, engine)
    network = NetworkConfig(start_window_s=1.0)
    release = mechanism.run(population(), network, Streams(11, 0)).release
    assert p_value(outcomes(release.user, release.payload)) > FALSE_ALARM


@pytest.mark.parametrize(
    ("faults", "arriving"),
    [
        ({"loss": 0.1}, 0.9**3),
        ({"loss": 0.2, "duplication": 1.0}, (1 - 0.2 * 0.2) * (1 - (0.2 + 0.8 * 0.2**2) ** 2)),
        ({"loss": 0.3, "request_timeout_s": 1e6, "on_timeout": OnTimeout(retry="redraw", attempts=2)}, None),
        ({"peers": GossipView(view_size=2, refresh_s=0.3), "start_window_s": 9.0}, 1.0),
    ],
)
def test_faults_that_know_no_user_only_lower_the_sampling_rate(faults, arriving):
    """The control takes the rate of a network without faults, or one percent less where there are none to speak of."""
    mechanism = LabelExchangeMechanism(RandomizedResponse(ALPHA), THETA)
    release = mechanism.run(population(), NetworkConfig(**faults), Streams(12, 0)).release
    if arriving is None:
        arriving = (1 - (1 - 0.7**2) ** 2) * 0.7
    counts = outcomes(release.user, release.payload)
    assert p_value(counts, THETA * arriving) > FALSE_ALARM
    assert p_value(counts, THETA if arriving < 1.0 else 0.98 * THETA) < FALSE_ALARM


def test_the_algorithm_as_printed_draws_from_the_joint_law():
    clusters = [(3 * c, 3 * c + 1, 3 * c + 2) for c in range(CLUSTERS)]
    released = label_exchange(
        population().labels.tolist(), clusters, flip_prob=ALPHA, sampling_rate=THETA, num_classes=2,
        rng=np.random.default_rng(7),
    )  # fmt: skip
    assert p_value(outcomes(np.array(list(released)), np.array(list(released.values())))) > FALSE_ALARM


def wrong_releases() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Engines with a planted mistake; the first two have the right marginal law for every user."""
    rng = np.random.default_rng(5)
    truth = population().labels.reshape(-1, 3)
    shape, rows = truth.shape, np.arange(CLUSTERS)[:, None]
    peers, keep = rng.integers(0, 3, shape), rng.random(shape) < THETA
    noisy = truth ^ (rng.random(shape) < ALPHA)
    fresh = truth[rows, peers] ^ (rng.random(shape) < ALPHA)
    permuted = noisy[rows, np.argsort(rng.random(shape), axis=1)]
    shy = noisy[rows, (np.arange(3) + rng.integers(1, 3, shape)) % 3]
    found = {"fresh noise per request": fresh, "permutation of labels": permuted, "never oneself": shy}
    return {name: (np.flatnonzero(keep), label.ravel()[keep.ravel()]) for name, label in found.items()}


@pytest.mark.parametrize("name", ["fresh noise per request", "permutation of labels", "never oneself"])
def test_a_planted_wrong_engine_is_caught(name):
    assert p_value(outcomes(*wrong_releases()[name])) < FALSE_ALARM


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("theta", [0.3, 1.0])
def test_engines_release_the_same_bytes(alpha, theta):
    rng = np.random.default_rng(0)
    sizes = np.concatenate([rng.integers(2, 400, 600), [70_000], rng.integers(2, 50, 50)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, 2, offsets[-1]).astype(np.uint8)
    users = Population(np.zeros((offsets[-1], 1)), labels, offsets, 2)
    releases = [
        LabelExchangeMechanism(RandomizedResponse(alpha), theta, engine)
        .run(users, NetworkConfig(start_window_s=0.5), Streams(3, 1))
        .release
        for engine in ("events", "vectorised")
    ]
    assert releases[0].user.tobytes() == releases[1].user.tobytes()
    assert releases[0].payload.tobytes() == releases[1].payload.tobytes()
    assert np.all(np.diff(releases[0].user) > 0)


def test_k_ary_flips_follow_their_law():
    """False alarm 1e-9; the control moves 2% of one class to its neighbour."""
    labels = np.full(200_000, 3, np.uint8)
    noisy = RandomizedResponse(0.3, 5).randomize(labels, Streams(1, 0).generator("flip"))
    expected = np.array([0.075, 0.075, 0.075, 0.7, 0.075]) * labels.size
    counts = np.bincount(noisy, minlength=5)

    def test(counts):
        return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), 4))

    assert test(counts) > FALSE_ALARM
    moved = int(0.02 * counts[3])
    assert test(counts + np.array([0, 0, moved, -moved, 0])) < FALSE_ALARM


SPARSE = GeometricOverlay(mean_degree=1.5)
MORE = [(RegularOverlay(degree=3), 5), (ScaleFreeOverlay(), 1), (SPARSE, 1), (SPARSE, 2), (ScaleFreeOverlay(), 2)]


@pytest.mark.parametrize(
    ("overlay", "length"),
    [
        (RegularOverlay(degree=3), 1),
        (SPARSE, 5),
        *(pytest.param(*o, marks=pytest.mark.slow) for o in MORE),
    ],
)
def test_engines_release_the_same_bytes_on_overlays(overlay, length):
    """Users without a neighbour are among them: they get nothing, and walk nowhere."""
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(2, 400, 400))])
    labels = np.random.default_rng(1).integers(0, 2, offsets[-1]).astype(np.uint8)
    users = Population(np.zeros((offsets[-1], 1)), labels, offsets, 2)
    network = NetworkConfig(overlay=overlay, peers=RandomWalk(length=length), start_window_s=0.5)
    releases = [
        LabelExchangeMechanism(RandomizedResponse(0.1), 0.7, engine).run(users, network, Streams(3, 1)).release
        for engine in ("events", "vectorised")
    ]
    assert offsets[-1] > BLOCK  # more than one shard
    assert releases[0].user.tobytes() == releases[1].user.tobytes()
    assert releases[0].payload.tobytes() == releases[1].payload.tobytes()
