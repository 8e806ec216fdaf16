"""Figures of one replicate's network: message times, users' loads and ε, and the overlay (who may ask whom)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2p_sim.base import directory_made, in_place_of, writing
from p2p_sim.exchange import KIND_NAMES, REPLY
from p2p_sim.network import Overlay
from p2p_sim.replicate.observed_network import Counts, ObservedNetwork

MOST_DRAWN = 400
"""Largest number of users that are drawn. In a larger cluster, these are nearest to the user with the largest ε."""


@dataclass(frozen=True, eq=False)
class OverlayPart:
    """A part of an overlay (the graph of who may ask whom) for a figure.

    cluster: the cluster of all p users. users: (p,) the users' numbers. edges: (e, 2) for each of e edges, the
    positions of both ends in `users`.
    """

    cluster: int
    users: Counts
    edges: Counts


def worst_part(network: ObservedNetwork, overlay: Overlay, most: int = MOST_DRAWN) -> OverlayPart:
    """The overlay within the cluster of the user who has the largest certified ε.

    A cluster with more than `most` users is reduced to the `most` users nearest to this user. The part has fewer users
    if no more can be reached from her.

    Args:
        network: the observed network. overlay: who may ask whom. most: largest number of users of the part.
    """
    worst = int(np.argmax(network.epsilon))
    cluster = network.cluster(worst)
    first, last = network.cluster_offsets[cluster : cluster + 2].tolist()
    whole = overlay.shard(first, last)
    users = _nearest(whole, worst - first, most) if last - first > most else np.arange(last - first)
    position_of = np.full(last - first, -1)
    position_of[users] = np.arange(users.size)
    ends = np.stack([np.repeat(np.arange(whole.num_users), whole.degrees), whole.indices], axis=1)
    ends = position_of[ends]
    return OverlayPart(cluster, users + first, ends[(ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1])])


def _nearest(overlay: Overlay, start: int, most: int) -> Counts:
    """The numbers of the `most` users who are the fewest edges away from one user, herself included, in ascending
    order. There are fewer if no more users can be reached from her.

    Args:
        overlay: edges between users who may ask each other. start: number of the user. most: how many users at most.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    shape = (overlay.num_users, overlay.num_users)
    graph = csr_array((np.ones(len(overlay.indices), dtype=np.int8), overlay.indices, overlay.indptr), shape=shape)
    order = breadth_first_order(graph, start, directed=False, return_predecessors=False)
    return np.sort(order[:most]).astype(np.int64)


def draw(network: ObservedNetwork, directory: Path) -> list[Path]:
    """Draw the figures into a directory, and return their files. Files of the same names are replaced.

    The files are timeline.png, coverage.png, load.png and epsilon.png. A run with a sampling rate also gets
    sampling.png. A run with an overlay also gets overlay.png. Each figure is written whole or not at all.
    """
    from p2p_sim.figures import message_times as figures
    from p2p_sim.figures import plot_epsilon, plot_overlay

    m, caption = network.messages, f"{network.name}, replicate {network.replicate}"
    times = {name: m.time_s[m.kind == kind] for kind, name in KIND_NAMES.items()}
    arrivals = (network.answered_s, network.submitted_s, network.cluster_offsets)
    statement = f"learner who sees the set of submissions, δ = {network.delta:g}"
    if network.statement.conditional_on:
        statement += "; conditional on the realised network"
    # each figure by the name of its file; a figure is left out if the run has no numbers for it
    drawings: dict[str, Callable[[Path], None]] = {
        "timeline": lambda path: figures.plot_timeline(times, m.time_s[m.late], network.deadline_s, path, caption),
        "coverage": lambda path: figures.plot_coverage(
            *arrivals, network.sampling_rate, deadline_s=network.deadline_s, path=path, note=caption
        ),
        "load": lambda path: figures.plot_load(network.handled, network.answers, path, caption),
    }
    if (rate := network.sampling_rate) is not None:
        drawings["sampling"] = lambda path: figures.plot_sampling(
            network.cluster_sizes, network.submissions, rate, path, caption
        )
    drawings["epsilon"] = lambda path: plot_epsilon(
        network.epsilon, network.epsilon_local, network.own, network.cluster_offsets,
        path=path, statement=statement, note=caption,
    )  # fmt: skip
    if (overlay := network.overlay) is not None:
        part, position = worst_part(network, overlay), overlay.position
        who, size = part.users, int(network.cluster_sizes[part.cluster])
        share_text = (
            f"all {size:,} users" if size == who.size else f"{who.size:,} of its {size:,} users, nearest to the worst"
        )
        # edges along which a reply came in time; a pair (i, j), i < j, of n users has the number i n + j
        replies = m.select((m.kind == REPLY) & ~m.late)
        number = (network.num_users, 1)
        ends = np.sort(np.stack([replies.sender, replies.receiver], axis=1).astype(np.int64), axis=1) @ number
        travelled = np.isin(np.sort(who[part.edges], axis=1) @ number, ends)
        drawings["overlay"] = lambda path: plot_overlay(
            part.edges, travelled=travelled,
            degrees=overlay.degrees[who],
            epsilon=network.epsilon[who], epsilon_local=network.epsilon_local, member=network.member[who],
            own=network.own[who], position=None if position is None else position[who], path=path, statement=statement,
            note=f"{caption}; cluster {part.cluster}, where the worst placed user is: {share_text}",
        )  # fmt: skip
    paths = {directory / f"{name}.png": plot for name, plot in drawings.items()}
    with writing(directory), directory_made(directory):
        for path, plot in paths.items():
            with in_place_of(path) as partial:
                plot(partial)
    return list(paths)
