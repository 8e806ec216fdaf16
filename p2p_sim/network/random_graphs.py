"""Random graphs among the users of a cluster, drawn with arrays: regular graphs and small worlds of any size."""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.network.overlay_graph import Pairs

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
_ROUNDS = 1000
"""Largest number of draws for the new end of a moved edge; at least about half of the draws succeed."""


def regular_edges(size: int, degree: int, rng: np.random.Generator) -> Pairs:
    """The edges of a random graph in which every node has `degree` neighbours.

    The method is due to Steger and Wormald (1999); `networkx.random_regular_graph` uses the same method. Each node has
    `degree` free ends. All free ends are paired at random. A pair becomes an edge unless it joins a node to itself or
    repeats an edge. The ends of refused pairs stay free for the next round. If no two nodes with free ends may be
    joined, the graph is drawn anew.

    The law is not exactly uniform over all regular graphs. For a degree of at most n^(1/3 - c), c > 0, the law is
    asymptotically uniform as the number n of nodes grows (Kim and Vu, 2003). The law does not change if nodes are
    renumbered. Privacy bounds are computed for the graph that was drawn, so they do not depend on this law.

    If the degree is at least half of the number of nodes, pairing would rarely end. The graph is then drawn as the
    complement of a regular graph.

    Args:
        size: number of nodes, which are numbered from 0. degree: 0 to size - 1; size times degree must be even. rng:
        source of randomness.

    Returns:
        Edges (size * degree / 2, 2) in ascending order, the smaller node first.

    Raises:
        ValueError: there is no such graph.
    """
    if not 0 <= degree < max(size, 1) or size * degree % 2:
        raise ValueError(f"size = {size}, degree = {degree}: no graph; degree must be below size, and one must be even")
    if 2 * degree >= size:
        absent = regular_edges(size, size - 1 - degree, rng)
        present = np.triu(np.ones((size, size), dtype=np.bool_), k=1)
        present[absent[:, 0], absent[:, 1]] = False
        return np.argwhere(present)
    while True:
        keys = _paired(size, degree, rng)
        if keys is not None:
            return _split(keys, size)


def _paired(size: int, degree: int, rng: np.random.Generator) -> Integers | None:
    """One attempt to draw a random graph in which every node has `degree` neighbours; None: the attempt failed.

    Free ends of nodes are paired in rounds, until none is left. The attempt fails if no two nodes with free ends may be
    joined. The result is a number for each edge, ascending: the smaller node times `size`, plus the larger node.
    """
    free = np.tile(np.arange(size, dtype=np.int32), degree)
    first, later = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)  # edges of the first and of later rounds
    while free.size:
        rng.shuffle(free)
        pairs = _keys(free[0::2], free[1::2], size)
        pairs.sort()
        refused = pairs % (size + 1) == 0  # pairs with a = b, since a number is a * size + b with a <= b < size
        refused[1:] |= pairs[1:] == pairs[:-1]
        refused |= _within(pairs, first) | _within(pairs, later)
        free = _split(pairs[refused], size).astype(np.int32).ravel()
        if first.size:
            later = _merged(later, pairs[~refused])
        else:
            first = pairs[~refused]
        # the attempt has failed if no two nodes with free ends may be joined; more than `degree` nodes always have
        # such a pair
        nodes = np.unique(free)
        if 0 < nodes.size <= degree:
            smaller, larger = np.triu_indices(nodes.size, k=1)
            pairs = _keys(nodes[smaller], nodes[larger], size)
            if (_within(pairs, first) | _within(pairs, later)).all():
                return None
    return _merged(first, later)


def small_world_edges(size: int, degree: int, rewire_prob: float, rng: np.random.Generator) -> Pairs:
    """The edges of a random small world (Watts and Strogatz, 1998).

    Nodes stand on a ring, each joined to the `degree` nearest nodes. Each edge is moved with probability `rewire_prob`,
    independently. A moved edge keeps one end. In each round, every edge that is still to be moved draws a uniformly
    random node as the other end. The edge is moved there unless an edge of the ring, or an edge moved earlier, joins
    the two nodes already. If several edges of a round draw the same pair, the edge that is shortest on the ring takes
    the pair.

    Watts and Strogatz move edges one after another, so an edge may take a place that an earlier move left free. The
    difference between the two laws is of the order of degree/size. Rings of at most 4 * degree nodes are rewired as
    Watts and Strogatz do. There, the other end of a moved edge becomes a random node to which the kept end is not
    joined at that time. An edge stays in place if no other place is found.

    Args:
        size: number of nodes, more than degree. degree: number of neighbours on the ring, even. rewire_prob: 0 to 1.
        rng: source of randomness.

    Returns:
        Edges (size * degree / 2, 2), in ascending order, the smaller node first.
    """
    start = np.tile(np.arange(size), degree // 2)
    end = (start + np.repeat(np.arange(1, degree // 2 + 1), size)) % size
    moved = np.flatnonzero(rng.random(start.size) < rewire_prob)
    if size <= 4 * degree:
        return _rewired_in_turn(start, end, moved, size, rng)
    at_first = _keys(start, end, size)
    ring, unmoved, rewired = np.sort(at_first), np.sort(np.delete(at_first, moved)), np.zeros(0, dtype=np.int64)
    # each round draws a new end for every edge still to be moved, and moves an edge if the new pair is free
    for _ in range(_ROUNDS):
        drawn = rng.integers(size, size=moved.size)
        pairs = _keys(start[moved], drawn, size)
        fresh = np.zeros(pairs.size, dtype=np.bool_)
        fresh[np.unique(pairs, return_index=True)[1]] = True  # only the first of several equal pairs
        fresh &= (start[moved] != drawn) & ~_within(pairs, ring) & ~_within(pairs, rewired)
        rewired = _merged(rewired, pairs[fresh])
        moved = moved[~fresh]
        if not moved.size:
            break
    return _split(_merged(unmoved, np.concatenate([rewired, at_first[moved]])), size)


def _rewired_in_turn(start: Integers, end: Integers, moved: Integers, size: int, rng: np.random.Generator) -> Pairs:
    """The edges (m, 2) of a small ring of `size` nodes after some edges were moved one after another.

    A moved edge keeps its first node. The other end becomes a random node to which the first node is not joined at that
    time. If there is no such node, the edge stays.

    Args:
        start, end: (m,) each, the two nodes of every edge of the ring. moved: indices of the edges that are moved.
        size: number of nodes. rng: draws the new nodes.
    """
    joined = np.eye(size, dtype=np.bool_)
    joined[start, end] = joined[end, start] = True
    for node, old in zip(start[moved].tolist(), end[moved].tolist(), strict=True):
        possible = np.flatnonzero(~joined[node])
        if possible.size:
            new = possible[rng.integers(possible.size)]
            joined[node, old] = joined[old, node] = False
            joined[node, new] = joined[new, node] = True
    return np.argwhere(np.triu(joined, k=1))


def _keys(first: NDArray[np.integer], second: NDArray[np.integer], size: int) -> Integers:
    """A number for each pair of nodes (m,): the smaller node times `size`, plus the larger node."""
    keys = np.minimum(first, second).astype(np.int64)
    keys *= size
    keys += np.maximum(first, second)
    return np.asarray(keys)


def _split(keys: Integers, size: int) -> Pairs:
    """The pairs of nodes (m, 2) behind m numbers of `_keys`, the smaller node first."""
    pairs = np.empty((keys.size, 2), dtype=np.int64)
    np.divmod(keys, max(size, 1), out=(pairs[:, 0], pairs[:, 1]))
    return pairs


def _within(keys: Integers, ascending: Integers) -> Bools:
    """Whether each key (m,) is in an ascending array; `np.isin` would sort the array anew in every round."""
    if not ascending.size:
        return np.zeros(keys.size, dtype=np.bool_)
    position = np.minimum(np.searchsorted(ascending, keys), ascending.size - 1)
    return np.asarray(ascending[position] == keys)


def _merged(ascending: Integers, more: Integers) -> Integers:
    """An ascending array and more keys, in ascending order."""
    if not more.size:
        return ascending
    merged = np.concatenate([ascending, more])
    merged.sort()
    return merged
