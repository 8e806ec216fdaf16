"""Compiled code draws the numbers of NumPy's generator, and the release of the vectorised engine, to the last bit."""

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import BLOCK, Streams
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.config import NetworkConfig
from p2p_sim.network.network import Network
from p2p_sim.network.overlay import RegularOverlay
from p2p_sim.population.population import Population
from p2p_sim.protocol import vectorised


def people(sizes: list[int]) -> Population:
    offsets = np.cumsum([0, *sizes])
    labels = np.random.default_rng(3).integers(0, 2, offsets[-1]).astype(np.uint8)
    return Population(np.zeros((len(labels), 0)), labels, offsets, 2)


def release(monkeypatch, users: Population, value: str, alpha=0.2, theta=0.6, seed=5, **network):
    monkeypatch.setenv(vectorised.COMPILED, value)
    mechanism = LabelExchangeMechanism(RandomizedResponse(alpha), theta, "vectorised")
    return mechanism.release(users, NetworkConfig(**network), Streams(seed, 2)).labels


def same(one: LabelRelease, other: LabelRelease) -> bool:
    return np.array_equal(one.user, other.user) and np.array_equal(one.payload, other.payload)


@pytest.mark.parametrize("seed", [0, 1, 2**40, 2**130])
@pytest.mark.parametrize(("replicate", "shard"), [(0, 0), (3, 1_000_000), (2**33, 7)])
def test_streams_are_numpys(seed, replicate, shard):
    pcg64 = pytest.importorskip("p2p_sim.protocol.pcg64", exc_type=ImportError)
    streams = Streams(seed, replicate)
    state = pcg64.seeded(pcg64.entropy(streams, "flip"), shard, np.empty(4, np.uint64))
    theirs = streams.generator("flip", shard)
    for words in (0, 1, pcg64.LANES - 1, pcg64.LANES, pcg64.LANES + 1, 10 * pcg64.LANES, 12_345):
        ours = np.empty(words, np.uint64)
        pcg64.fill(state, ours)
        assert np.array_equal(ours, theirs.bit_generator.random_raw(words))
        assert pcg64.uniform(state) == theirs.random()


@pytest.mark.parametrize(
    "sizes",
    [[1] * 50, [3] * 40_000, [2, 5000, 1, 700, 40_000, 60_000], [2 * BLOCK + 77, 10], [BLOCK, BLOCK], [4096] * 20, []],
)
@pytest.mark.parametrize(("alpha", "theta"), [(0.0, 1.0), (0.2, 0.6), (0.5, 1e-9), (1e-6, 1 - 1e-6)])
def test_releases_are_the_same(monkeypatch, sizes, alpha, theta):
    """Of all streams, some in which 16-bit words equal the threshold; the control has another seed."""
    pytest.importorskip("numba")
    users = people(sizes)
    plain, compiled = (release(monkeypatch, users, value, alpha, theta) for value in ("0", "1"))
    assert same(plain, compiled)
    assert compiled.user.dtype == plain.user.dtype
    if users.num_users > 1000 and theta > 0.1:
        assert not same(plain, release(monkeypatch, users, "1", alpha, theta, seed=6))


def test_a_part_of_the_shards_is_the_same(monkeypatch):
    pytest.importorskip("numba")
    users, mechanism = people([40_000] * 5), LabelExchangeMechanism(RandomizedResponse(0.1), 0.5, "vectorised")
    parts = []
    for value in ("0", "1"):
        monkeypatch.setenv(vectorised.COMPILED, value)
        opened = Network.open(NetworkConfig(), users, Streams(1, 0))
        parts.append(mechanism.release_on(opened, users, part=(1, 3)).labels)
    assert same(*parts)
    assert 30_000 < len(parts[0]) < 50_000


def test_labels_out_of_range_are_refused_either_way(monkeypatch):
    users = people([100])
    users.labels[5] = 2
    for value in ("0", "1"):
        with pytest.raises(InputError, match=r"labels: must lie in 0\.\.1"):
            release(monkeypatch, users, value)


def test_overlays_are_left_to_numpy(monkeypatch):
    users, overlay = people([200] * 5), RegularOverlay(degree=4)
    assert same(*(release(monkeypatch, users, value, overlay=overlay) for value in ("0", "1")))


def test_the_setting_is_one_clear_line(monkeypatch):
    with pytest.raises(InputError, match=r"^P2P_SIM_COMPILED = 'yes': should be 1 \(compiled\) or 0 \(NumPy\)$"):
        release(monkeypatch, people([5]), "yes")
    monkeypatch.setattr(vectorised, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^P2P_SIM_COMPILED = 1: needs numba: pip install -e '\.\[fast\]'"):
        release(monkeypatch, people([5]), "1")
