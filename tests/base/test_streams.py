"""Streams are independent and reproducible; bits have exactly the probability asked for."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from p2p_sim.base.streams import BLOCK, CACHED, GOLDEN, OF_THE_USERS, Streams, Uniforms, bernoulli, splitmix64
from p2p_sim.exchange.peers import Peers
from p2p_sim.population.population import shards

KNOWN = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
"""The first outputs of the authors' SplitMix64 from state 1234567."""


def test_every_part_of_the_address_gives_another_stream():
    addresses = [
        (1, 0, "flip", 0, 0),
        (2, 0, "flip", 0, 0),
        (1, 1, "flip", 0, 0),
        (1, 0, "keep", 0, 0),
        (1, 0, "flip", 1, 0),
        (1, 0, "flip", 0, 1),
    ]
    first = [Streams(s, r).generator(p, shard, attempt).integers(2**63) for s, r, p, shard, attempt in addresses]
    assert len(set(first)) == len(addresses)
    again = [Streams(s, r).generator(p, shard, attempt).integers(2**63) for s, r, p, shard, attempt in addresses]
    assert first == again


@pytest.mark.parametrize("probability", [1e-6, 1.5 / 65_536, 0.1, 0.5, 1 - 1e-5])
def test_bernoulli_has_its_probability(probability):
    """False alarm 1e-9 a case with 2e7 bits; the rounding of a 16-bit threshold alone is the control."""
    size = 20_000_000
    ones = int(np.count_nonzero(bernoulli(Streams(9, 0).generator("flip"), probability, size)))
    assert binomtest(ones, size, probability).pvalue > 1e-9
    rounded = np.floor(probability * 65_536) / 65_536
    if size * (probability - rounded) ** 2 > 50 * max(probability * (1 - probability), 1e-9):
        assert binomtest(round(size * rounded), size, probability).pvalue < 1e-9


def test_bernoulli_at_the_ends():
    rng = Streams(1, 0).generator("flip")
    assert not bernoulli(rng, 0.0, 100_000).any()
    assert bernoulli(rng, 1.0, 100_000).all()
    with pytest.raises(ValueError, match="probability"):
        bernoulli(rng, 1.1, 10)


@given(st.lists(st.one_of(st.integers(2, 300), st.integers(30_000, 150_000)), min_size=1, max_size=30))
def test_shards_are_whole_clusters_that_cover_everyone(sizes):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    found = list(shards(offsets))
    assert [s.index for s in found] == list(range(len(found)))
    assert found[0].start == 0
    assert found[-1].stop == offsets[-1]
    assert all(a.stop == b.start for a, b in pairwise(found))
    for shard in found:
        assert set(shard.offsets + shard.start) <= set(offsets.tolist())
        assert shard.size <= BLOCK or len(shard.offsets) == 2
    together = [a.size + int(b.offsets[1]) for a, b in pairwise(found)]
    assert all(size > BLOCK for size in together)  # no shard could have taken the next one's first cluster


@pytest.mark.parametrize("sizes", [[3, 5, 2], [70_000, 10], [200_000], [7] * 20_000])
def test_peers_are_in_the_own_cluster_and_come_in_blocks(sizes):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for shard in shards(offsets):
        parts = list(Peers(shard, Streams(2, 0), None).choices(0.4))
        cluster = np.repeat(np.arange(len(shard.offsets) - 1), np.diff(shard.offsets))
        assert np.array_equal(cluster[np.concatenate([p.peer for p in parts])], cluster)
        assert [p.start for p in parts] == list(range(0, shard.size, BLOCK))


def test_splitmix64_gives_the_published_numbers_in_any_order():
    assert splitmix64(1234567, np.arange(5)).tolist() == KNOWN
    assert splitmix64(1234567, np.array([4, 0, 4])).tolist() == [KNOWN[4], KNOWN[0], KNOWN[4]]
    assert Uniforms(1234567).at(np.arange(5)).tolist() == [(word >> 11) / 2**53 for word in KNOWN]


@given(
    state=st.integers(0, 2**64 - 1),
    index=st.lists(st.integers(0, 2**62), max_size=20),
    kind=st.sampled_from([np.int64, np.uint64]),
)
def test_a_uniform_is_what_plain_integers_say(state, index, kind):
    def plain(i: int) -> float:
        z = (state + (i + 1) * GOLDEN) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return ((z ^ (z >> 31)) >> 11) / 2**53

    assert Uniforms(state).at(np.array(index, dtype=kind)).tolist() == [plain(i) for i in index]


def test_a_uniform_depends_on_its_index_alone():
    numbers, size = Streams(4, 1).uniforms("retry", 3, 1), 3 * CACHED + 17
    whole = numbers.at(np.arange(size, dtype=np.int32))
    some = np.random.default_rng(1).permutation(size)[:10_000]
    assert np.array_equal(numbers.at(some), whole[some])
    assert np.array_equal(numbers.at(some.reshape(100, 100)), whole[some].reshape(100, 100))
    assert numbers.at(np.array([], dtype=np.int64)).shape == (0,)
    assert len(np.unique(whole)) == size


def test_uniforms_have_the_address_of_their_stream():
    addresses = [(1, 0, "a", 0, 0), (2, 0, "a", 0, 0), (1, 1, "a", 0, 0), (1, 0, "b", 0, 0), (1, 0, "a", 1, 0),
                 (1, 0, "a", 0, 1)]  # fmt: skip
    states = [Streams(seed, replicate).uniforms(*rest).state for seed, replicate, *rest in addresses]
    assert len(set(states)) == len(addresses)
    assert states == [Streams(seed, replicate).uniforms(*rest).state for seed, replicate, *rest in addresses]


def fits(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether pairs fill a 64 x 64 grid evenly (chi-squared); false alarm 1e-9, two-sided."""
    cells = np.bincount((x * 64).astype(np.int64) * 64 + (y * 64).astype(np.int64), minlength=4096)
    expected = len(x) / 4096
    statistic = float(np.sum((cells - expected) ** 2) / expected)
    return bool(chi2.ppf(5e-10, 4095) < statistic < chi2.isf(5e-10, 4095))


@pytest.mark.parametrize("stride", [1, 2, 3, 8, 64, 65_536])
def test_uniforms_are_uniform_and_neighbours_and_streams_independent(stride):
    """False alarm 3e-9 a case of 2e6 pairs; unscrambled states, the golden-ratio lattice, are the control."""
    index = np.arange(2_000_000) * stride
    one, other = Streams(5, 0).uniforms("a"), Streams(5, 0).uniforms("b")
    x = one.at(index)
    assert fits(x, one.at(index + stride))
    assert fits(x, other.at(index))
    assert fits(x * 65_536 % 1.0, one.at(index + 1))
    lattice = index.astype(np.uint64) * np.uint64(GOLDEN) / 2**64
    assert not fits(lattice, np.roll(lattice, -1))


def test_a_noise_salt_changes_all_streams_but_those_of_the_users():
    """Closed by default: a purpose that is on no list is salted."""
    plain, salted, other = (Streams(5, 1, salt) for salt in (0, 1, 2))
    for purpose in ("flip", "peer", "keep", "dp-sgd", "walk-1", "availability", "a purpose of tomorrow"):
        drawn = {streams.generator(purpose).integers(2**63) for streams in (plain, salted, other)}
        assert len(drawn) == 3, purpose
    for purpose in (*OF_THE_USERS, "role-coalition"):
        assert plain.uniforms(purpose) == salted.uniforms(purpose)
    assert plain == Streams(5, 1)
