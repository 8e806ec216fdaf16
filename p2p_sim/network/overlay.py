"""Overlays: graphs that define who may ask whom within a cluster of users."""

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from p2p_sim.base import (
    OVERLAYS,
    Config,
    InputError,
    PlugIns,
    described,
    is_array,
    is_number,
    method_of,
    offer_of,
    require,
)
from p2p_sim.network.overlay_graph import (
    FileOverlay,
    Overlay,
    OverlayInput,
    Pairs,
    Points,
    cluster_of,
    from_pairs,
    side_by_side,
)
from p2p_sim.network.random_graphs import regular_edges, small_world_edges
from p2p_sim.population import Shard, shards

__all__ = [
    "CompleteOverlay",
    "FileOverlay",
    "GeometricOverlay",
    "GraphOverlay",
    "Overlay",
    "OverlayConfig",
    "OverlayInput",
    "RegularOverlay",
    "ScaleFreeOverlay",
    "SmallWorldOverlay",
    "edges_of",
]

MOST_NEIGHBOURS = 10**8
"""Largest expected sum of all users' numbers of neighbours in a generated overlay; 10^8 neighbours take 400 MB."""


class DrawnGraph(NamedTuple):
    """The graph among the users of a shard (a group of whole clusters), numbered from 0.

    edges: (m, 2), each edge once. position: (n, 2), the users' points in the unit square; None: users have no
    positions.
    """

    edges: Pairs
    position: Points | None


class CompleteOverlay(Config):
    """Every user may ask every user of her cluster, even herself, as in the papers; no graph is stored."""

    kind: Literal["complete"] = "complete"


class _Generated(Config, ABC):
    """A random overlay. Each shard (a group of whole clusters) has a random stream of its own."""

    kind: str

    def build(self, source: OverlayInput) -> Overlay:
        """Draws the graph of who may ask whom for all users of one replicate, cluster by cluster.

        Args:
            source: the users' clusters and the replicate's random streams; other fields are not used here.

        Raises:
            InputError: more than 10^8 neighbours are expected in the graph, or a plug-in gives a wrong graph.
        """
        offsets, streams = source.cluster_offsets, source.streams
        sizes = np.diff(offsets)
        degrees = [self.expected_degree(int(n)) for n in sizes]
        right = all(is_number(degree) and degree >= 0 for degree in degrees)
        require(self._at_fault("expected_degree"), right, "expected_degree must be finite and at least 0")
        expected = sum(int(n) * min(degree, int(n) - 1.0) for n, degree in zip(sizes, degrees, strict=True))
        if expected > MOST_NEIGHBOURS:
            settings = ", ".join(f"{key} = {value!r}" for key, value in self.model_dump(exclude_none=True).items())
            raise InputError(
                f"network.overlay: {settings} gives {int(sizes.sum())} users about {expected:.1g} neighbours together; "
                f"at most {MOST_NEIGHBOURS:.0g} are allowed"
            )
        drawn = ((s.size, self._draw(s, streams.generator("overlay", s.index))) for s in shards(offsets))
        return side_by_side([from_pairs(size, graph.edges, graph.position) for size, graph in drawn])

    def _at_fault(self, method: str) -> str:
        """The beginning of an error message: the plug-in and its method, if any, then the overlay's key and kind."""
        return f"{method_of(offer_of(OVERLAYS, self.kind), self, method)}network.overlay.kind = {self.kind!r}: "

    @abstractmethod
    def expected_degree(self, size: int) -> float:
        """Expected number of a user's neighbours in a cluster of `size` users; above size - 1 counts as size - 1."""

    @abstractmethod
    def _draw(self, shard: Shard, rng: np.random.Generator) -> DrawnGraph:
        """Draws the edges, and positions if any, of a shard's users (numbered from 0); `rng` gives random numbers."""


class GraphOverlay(_Generated):
    """A graph for every cluster, for example from NetworkX. The nodes are assigned to the cluster's users at random.

    Without this assignment, hubs and neighbours on a ring would depend on the order in which users are stored, and thus
    on features. A derived class gives the expected number of neighbours and the edges.

    exchangeable: whether the graph's law stays the same if nodes are renumbered; then no assignment is needed.
    """

    kind: str
    exchangeable: ClassVar[bool] = False

    def _draw(self, shard: Shard, rng: np.random.Generator) -> DrawnGraph:
        seeds = rng.integers(2**63, size=len(shard.offsets) - 1)
        spans = zip(shard.offsets[:-1].tolist(), shard.offsets[1:].tolist(), seeds.tolist(), strict=True)
        parts = [begin + self._checked(self.graph(end - begin, seed), end - begin) for begin, end, seed in spans]
        edges = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if self.exchangeable:
            return DrawnGraph(edges, None)
        user = np.lexsort((rng.random(shard.size), cluster_of(shard.offsets)))  # a random user for each node
        return DrawnGraph(user[edges], None)

    def _checked(self, edges: Pairs, size: int) -> Pairs:
        """The edges as int64. Raises InputError unless all edges differ, and join different nodes below `size`."""
        wanted = f"edges must be an array of integers (m, 2), not {described(edges)}"
        require(self._at_fault("graph"), is_array(edges, "iu", (None, 2)), wanted)
        edges = edges.astype(np.int64, copy=False)  # small integers would overflow below
        low, high = edges.min(axis=1), edges.max(axis=1)
        if edges.size and (low.min() < 0 or high.max() >= size or np.any(low == high)):
            raise InputError(f"{self._at_fault('graph')}edges must join two different nodes of 0..{size - 1}")
        keys = low * size
        keys += high
        if np.any(keys[1:] <= keys[:-1]):
            keys.sort()
        if np.any(keys[1:] == keys[:-1]):
            raise InputError(f"{self._at_fault('graph')}an edge occurs twice in a cluster of {size} users")
        return edges

    @abstractmethod
    def graph(self, size: int, seed: int) -> Pairs:
        """Edges (m, 2), int64, of one cluster.

        Args:
            size: number of users of the cluster; nodes are numbered from 0 to size - 1. seed: seed of the graph, below
            2**63.

        Returns:
            Each edge once, in either direction; no edge from a node to itself.
        """


class RegularOverlay(GraphOverlay):
    """Every user has the same number of neighbours, chosen at random (`random_graphs.regular_edges`).

    A cluster of at most degree + 1 users is complete. If both the degree and the cluster's size are odd, no such graph
    exists. The users of such a cluster have degree + 1 neighbours.
    """

    kind: Literal["regular"] = "regular"
    exchangeable: ClassVar[bool] = True
    degree: int = Field(default=10, ge=1, le=500)
    """Neighbours of each user, 1 to 500."""

    def expected_degree(self, size: int) -> float:
        return self.degree

    def graph(self, size: int, seed: int) -> Pairs:
        degree = min(self.degree + self.degree * size % 2, size - 1)
        return regular_edges(size, degree, np.random.default_rng(seed))


class SmallWorldOverlay(GraphOverlay):
    """Users on a ring, each joined to the nearest users; some edges are moved (`random_graphs.small_world_edges`).

    A cluster of at most degree + 1 users is complete. Users stand on the ring in random order.
    """

    kind: Literal["small_world"] = "small_world"
    degree: int = Field(default=10, ge=2, le=1000, multiple_of=2)
    """Neighbours of each user on the ring, half on each side; an even number from 2 to 1000."""
    rewire_prob: float = Field(default=0.1, ge=0, le=1)
    """Probability that an edge of the ring has one end moved to a random user, 0 to 1; 0: the ring lattice."""

    def expected_degree(self, size: int) -> float:
        return self.degree

    def graph(self, size: int, seed: int) -> Pairs:
        if self.degree >= size - 1:
            return _everybody(size)
        return small_world_edges(size, self.degree, self.rewire_prob, np.random.default_rng(seed))


class ScaleFreeOverlay(GraphOverlay):
    """A few hubs and many users with few neighbours: preferential attachment (`networkx.barabasi_albert_graph`).

    A cluster of at most `attachments` users is complete; a cluster with one user more is a star. Hubs are random users.
    """

    kind: Literal["scale_free"] = "scale_free"
    attachments: int = Field(default=5, ge=1, le=500)
    """m: edges that each arriving user brings, 1 to 500; the mean number of neighbours is a little below 2m."""

    def expected_degree(self, size: int) -> float:
        return 2.0 * self.attachments

    def graph(self, size: int, seed: int) -> Pairs:
        import networkx as nx

        if self.attachments >= size:
            return _everybody(size)
        return edges_of(nx.barabasi_albert_graph(size, self.attachments, seed=seed))


class GeometricOverlay(_Generated):
    """The users of each cluster are random points in a unit square. Users within a radius are neighbours."""

    kind: Literal["geometric"] = "geometric"
    mean_degree: float | None = Field(default=None, gt=0, le=1000)
    """Expected number of neighbours, above 0 and at most 1000; the radius follows from this number and the cluster's
    size. A cluster of at most mean_degree + 1 users is complete. Give this or `radius`."""
    radius: float | None = Field(default=None, gt=0, le=1.5)
    """Largest distance between neighbours, above 0 and at most 1.5, in units of the square's side; 1.5 joins all
    users."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "GeometricOverlay":
        if (self.mean_degree is None) == (self.radius is None):
            raise ValueError("give either mean_degree or radius, and not both")
        return self

    def expected_degree(self, size: int) -> float:
        return (size - 1) * share_within(self._reach(size))

    def _reach(self, size: int) -> float:
        """The largest distance between neighbours in a cluster of `size` users, in units of the square's side.

        This is the key `radius`, or the radius with which a user has `mean_degree` neighbours on average.
        """
        if self.radius is not None:
            return self.radius
        return radius_of(min((self.mean_degree or 0.0) / max(size - 1, 1), 1.0))

    def _draw(self, shard: Shard, rng: np.random.Generator) -> DrawnGraph:
        from scipy.spatial import cKDTree

        points = rng.random((shard.size, 2))
        parts = []
        for begin, end in zip(shard.offsets[:-1].tolist(), shard.offsets[1:].tolist(), strict=True):
            near = cKDTree(points[begin:end]).query_pairs(self._reach(end - begin), output_type="ndarray")
            parts.append(begin + near.astype(np.int64))
        return DrawnGraph(np.concatenate(parts), points)


OverlayConfig = Annotated[
    CompleteOverlay | RegularOverlay | SmallWorldOverlay | ScaleFreeOverlay | GeometricOverlay | FileOverlay,
    PlugIns(OVERLAYS, GraphOverlay),
]


def share_within(radius: float) -> float:
    """Probability that two random points of the unit square lie within `radius` >= 0 of each other (exact)."""
    r = min(radius, math.sqrt(2.0))
    if r <= 1.0:
        return r * r * (math.pi - r * (8.0 / 3.0 - r / 2.0))
    s = math.sqrt(r * r - 1.0)
    return 1 / 3 + 8 / 3 * s**3 - r**4 / 2 - (2 - math.pi) * r * r - 4 * r * r * math.atan(s) + 4 * s


@lru_cache(maxsize=4096)
def radius_of(share: float) -> float:
    """The distance that two random points of the unit square do not exceed with probability `share`."""
    from scipy.optimize import brentq

    return 1.5 if share >= 1.0 else float(brentq(lambda r: share_within(r) - share, 0.0, math.sqrt(2.0)))


def _everybody(size: int) -> Pairs:
    """All pairs (m, 2) of different nodes: the edges of the complete graph of `size` nodes."""
    return np.stack(np.triu_indices(size, k=1), axis=1)


def edges_of(graph: Any) -> Pairs:
    """Edges (m, 2), int64, of a graph of NetworkX with numbers as nodes; the graph is emptied."""
    edges = np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
    vars(graph).clear()  # graph and views refer to each other, so 1 kB a user would stay in memory for longer
    return edges
