"""Streams are independent and reproducible; bits have exactly the probability asked for."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from p2p_sim.population.shards import shards
from p2p_sim.protocol.draws import all_choices, choices
from p2p_sim.streams import BLOCK, Streams, bernoulli


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
def test_peers_are_in_the_own_cluster_and_blocks_change_nothing(sizes):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for shard in shards(offsets):
        whole = all_choices(shard, Streams(2, 0), 0.4)
        cluster = np.repeat(np.arange(len(shard.offsets) - 1), np.diff(shard.offsets))
        assert np.array_equal(cluster[whole.peer], cluster)
        parts = list(choices(shard, Streams(2, 0), 0.4))
        assert np.array_equal(np.concatenate([p.peer for p in parts]), whole.peer)
        assert [p.start for p in parts] == list(range(0, shard.size, BLOCK))
