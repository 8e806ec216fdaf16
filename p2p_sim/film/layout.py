"""The places of users and clusters in a film: clusters are discs around the learner."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.network import Overlay
from p2p_sim.replicate import ObservedNetwork

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
WIDTH, HEIGHT = 1000.0, 640.0
"""Width and height of the picture, in the picture's own unit."""
LEARNER_RADIUS, MARGIN, BETWEEN = 58.0, 14.0, 12.0
MOST_EDGES = 6_000
"""The largest number of edges that are drawn. If more edges join users in the picture, no edge is drawn."""
GOLDEN = math.pi * (3.0 - math.sqrt(5.0))


@dataclass(frozen=True, eq=False)
class FilmLayout:
    """Points in the picture. The picture reaches from (0, 0) at the top left to (1000, 640).

    user: (u, 2) the points of u users. radius: radius of a user's marker. cluster: (c,) numbers of the clusters shown.
    disc: (c, 3) centres and radii of the clusters' discs. learner: the learner's centre. edges: (e, 2) pairs of users
    who may ask each other, as indices into `user`.
    """

    user: Floats
    radius: float
    cluster: Integers
    disc: Floats
    learner: tuple[float, float]
    edges: Integers


def places_of(network: ObservedNetwork, users: Integers) -> FilmLayout:
    """The places of users, clusters and the learner in the picture.

    Args:
        network: what happened in the run. users: (u,) numbers of the users in the picture, ascending.
    """
    of = np.searchsorted(network.cluster_offsets, users, side="right") - 1  # each user's cluster
    cluster, sizes = np.unique(of, return_counts=True)
    disc = _discs(sizes)
    # the learner is beside a single disc, or in the middle of several discs
    learner = (0.84 * WIDTH if sizes.size == 1 else WIDTH / 2, HEIGHT / 2)
    where, edges = np.empty((users.size, 2)), list[Integers]()
    closest = math.inf  # approximately the smallest distance between neighbouring users
    for number, (x, y, radius) in zip(cluster.tolist(), disc.tolist(), strict=True):
        members = np.flatnonzero(of == number)
        inner = _edges(network.overlay, users[members])
        edges.append(members[inner])
        where[members] = (x, y) + _inside(network.overlay, users[members], inner) * (radius - MARGIN)
        # if m users are spread evenly over a disc of radius r, neighbours are approximately r/√m apart
        closest = min(closest, (radius - MARGIN) / math.sqrt(members.size))
    drawn = np.concatenate(edges)
    return FilmLayout(
        where, min(max(0.5 * closest, 3.2), 10.0), cluster=cluster, disc=disc, learner=learner,
        edges=drawn if len(drawn) <= MOST_EDGES else drawn[:0],
    )  # fmt: skip


def _discs(sizes: Integers) -> Floats:
    """The centre (x, y) and radius of the disc of each of c clusters, (c, 3), in the picture's units (1000 by 640). A
    single disc is left of the middle. Two discs are side by side. More discs stand around the learner in the middle.
    The area of a disc is proportional to the cluster's size in `sizes` (c,).
    """
    if sizes.size == 1:
        return np.array([[0.4 * WIDTH, HEIGHT / 2, HEIGHT / 2 - 8.0]])
    share = np.sqrt(sizes / sizes.max())
    if sizes.size == 2:
        return np.column_stack([[215.0, WIDTH - 215.0], [HEIGHT / 2] * 2, 205.0 * share])
    # angles of the discs around the middle; a larger disc gets more room, and the first disc is at the left
    room = share + 0.15
    turn = (np.cumsum(room) - 0.5 * room) / room.sum()
    angles = np.asarray(math.pi + 2.0 * math.pi * (turn - turn[0]))
    low, high = 4.0, 0.5 * HEIGHT - LEARNER_RADIUS - 2 * BETWEEN
    for _ in range(40):  # bisection for the largest radius that keeps all discs apart from each other and the learner
        radius = 0.5 * (low + high)
        if _clear(_ellipse(angles, share * radius)):
            low = radius
        else:
            high = radius
    return _ellipse(angles, share * low)


def _ellipse(angles: Floats, radii: Floats) -> Floats:
    """Discs near the border of the picture (1000 by 640), as centres (x, y) and radii, (c, 3). Disc i is to the
    right of the middle in proportion to cos(angles[i]), and below the middle in proportion to sin(angles[i]).

    Args:
        angles: (c,) in radians. radii: (c,) radii of the discs, in the picture's units.
    """
    across, down = WIDTH / 2 - radii - 4.0, HEIGHT / 2 - radii - 4.0
    return np.column_stack([WIDTH / 2 + across * np.cos(angles), HEIGHT / 2 + down * np.sin(angles), radii])


def _clear(disc: Floats) -> bool:
    """Whether all discs (c, 3), as centres and radii, are far enough apart: at least 12 units from each other, and 24
    units from the learner's disc in the middle.
    """
    discs = np.vstack([disc, (WIDTH / 2, HEIGHT / 2, LEARNER_RADIUS + BETWEEN)])
    gap = np.hypot(*(discs[:, None, :2] - discs[None, :, :2]).transpose(2, 0, 1)) - discs[:, 2] - discs[:, None, 2]
    np.fill_diagonal(gap, np.inf)
    return bool(gap.min() >= BETWEEN)


def _edges(overlay: Overlay | None, users: Integers) -> Integers:
    """The pairs of users who may ask each other, (e, 2), as indices into `users`. Each pair occurs once. There are no
    pairs if the network has no graph.

    Args:
        overlay: the graph of who may ask whom; None: everybody may ask everybody in her cluster. users: (u,) numbers of
        users.
    """
    if overlay is None:
        return np.empty((0, 2), dtype=np.int64)
    position_of = {user: position for position, user in enumerate(users.tolist())}
    pairs = [
        (position, position_of[neighbour])
        for user, position in position_of.items()
        for neighbour in overlay.indices[overlay.indptr[user] : overlay.indptr[user + 1]].tolist()
        if position_of.get(neighbour, -1) > position
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _inside(overlay: Overlay | None, users: Integers, edges: Integers) -> Floats:
    """Points (u, 2) in the unit disc for the users of one cluster.

    If the graph gives each user a position in the unit square, the points follow from these positions. Otherwise the
    points come from a drawing of the graph. Without edges, or for fewer than three users, the points lie like a
    sunflower's seeds.

    Args:
        overlay: the graph of who may ask whom, or None. users: (u,) numbers of the cluster's users. edges: (e, 2) pairs
        of users who may ask each other, as indices into `users`.
    """
    if overlay is not None and overlay.position is not None:
        return _apart((overlay.position[users] - 0.5) * math.sqrt(2.0))
    steps = np.arange(users.size)
    spread = np.sqrt((steps + 0.5) / users.size)
    flower = spread[:, None] * np.column_stack([np.cos(steps * GOLDEN), np.sin(steps * GOLDEN)])
    if not len(edges) or users.size < 3:
        return np.asarray(flower)
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(users.size))
    graph.add_edges_from(edges.tolist())
    drawn = nx.spring_layout(graph, pos=dict(enumerate(flower)), iterations=60, seed=1)
    # spread the users evenly over the unit disc; each user keeps her direction and her rank by distance from the middle
    points = np.array([drawn[position] for position in range(users.size)])
    points -= points.mean(axis=0)
    rank = np.argsort(np.argsort(np.hypot(*points.T), kind="stable"))
    angle, radius = np.arctan2(points[:, 1], points[:, 0]), np.sqrt((rank + 0.5) / len(points))
    return _apart(radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]))


def _apart(points: Floats, rounds: int = 60) -> Floats:
    """The points (u, 2) of users in the unit disc, moved so that users hide each other less. In each of `rounds`
    rounds, two points closer than 1.25/√u push each other apart a little. No point leaves the disc.
    """
    least, points = 1.25 / math.sqrt(len(points)), np.array(points, dtype=np.float64)
    for _ in range(rounds):
        gap = points[:, None] - points[None]
        distance = np.hypot(gap[..., 0], gap[..., 1])
        np.fill_diagonal(distance, np.inf)
        push = np.maximum(least - distance, 0.0) / np.maximum(distance, 1e-9)
        points += 0.3 * (push[..., None] * gap).sum(axis=1)
        points /= np.maximum(np.hypot(*points.T), 1.0)[:, None]
    return np.asarray(points)
