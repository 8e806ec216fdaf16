"""Figures of one replicate's network: what travelled when, who was served, and the overlay around the worst placed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2p_sim.base.whole_files import directory_made, in_place_of, writing
from p2p_sim.exchange.transcript import KIND_NAMES, REPLY
from p2p_sim.network.overlay import Overlay
from p2p_sim.replicate.observed_network import Bools, Counts, ObservedNetwork

MOST_DRAWN = 400
"""Users of a cluster whose overlay is drawn whole; of a larger one, as many of those nearest to the worst placed."""


@dataclass(frozen=True, eq=False)
class OverlayPart:
    """A part of an overlay to look at: `users` (p,) of one cluster, edges (e, 2) as positions among them."""

    cluster: int
    users: Counts
    edges: Counts


def worst_part(found: ObservedNetwork, most: int = MOST_DRAWN) -> OverlayPart:
    """The cluster with the largest certified ε; of more than `most` users, those nearest to the worst placed."""
    assert found.overlay is not None
    worst = int(np.argmax(found.epsilon))
    cluster = found.cluster(worst)
    first, last = found.cluster_offsets[cluster : cluster + 2].tolist()
    whole = found.overlay.shard(first, last)
    users = _nearest(whole, worst - first, most) if last - first > most else np.arange(last - first)
    place = np.full(last - first, -1)
    place[users] = np.arange(users.size)
    ends = np.stack([np.repeat(np.arange(whole.num_users), whole.degrees), whole.indices], axis=1)
    ends = place[ends]
    return OverlayPart(cluster, users + first, ends[(ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1])])


def _travelled(found: ObservedNetwork, edges: Counts) -> Bools:
    """Along which edges (e, 2), pairs of users, a reply came in time (e,)."""
    replies = found.messages.select((found.messages.kind == REPLY) & ~found.messages.late)
    ends = np.sort(np.stack([replies.sender, replies.receiver], axis=1).astype(np.int64), axis=1)
    return np.isin(np.sort(edges, axis=1) @ (found.num_users, 1), ends @ (found.num_users, 1))


def _nearest(overlay: Overlay, start: int, most: int) -> Counts:
    """The `most` users who are the fewest steps away from a user, ascending; fewer if no more can be reached."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    shape = (overlay.num_users, overlay.num_users)
    graph = csr_array((np.ones(len(overlay.indices), dtype=np.int8), overlay.indices, overlay.indptr), shape=shape)
    order = breadth_first_order(graph, start, directed=False, return_predecessors=False)
    return np.sort(order[:most]).astype(np.int64)


def draw(found: ObservedNetwork, directory: Path) -> list[Path]:
    """Draw the figures into a directory, each whole or not at all, over those of an earlier run; returns the files."""
    from p2p_sim.figures import message_times as figures
    from p2p_sim.figures.epsilons import plot_epsilon, plot_overlay

    m, caption = found.messages, f"{found.name}, replicate {found.replicate}"
    times = {name: m.time_s[m.kind == kind] for kind, name in KIND_NAMES.items()}
    arrivals = (found.answered_s, found.submitted_s, found.cluster_offsets)
    statement = f"learner who sees the set of submissions, δ = {found.delta:g}; conditional on the realised network"
    drawings: dict[str, Callable[[Path], None]] = {
        "timeline": lambda path: figures.plot_timeline(times, m.time_s[m.late], found.deadline_s, path, caption),
        "coverage": lambda path: figures.plot_coverage(
            *arrivals, found.sampling_rate, deadline_s=found.deadline_s, path=path, note=caption
        ),
        "load": lambda path: figures.plot_load(found.handled, found.answers, path, caption),
    }
    if (rate := found.sampling_rate) is not None:
        drawings["sampling"] = lambda path: figures.plot_sampling(
            found.cluster_sizes, found.submissions, rate, path, caption
        )
    drawings["epsilon"] = lambda path: plot_epsilon(
        found.epsilon, found.epsilon_local, found.own, found.cluster_offsets,
        path=path, statement=statement, note=caption,
    )  # fmt: skip
    if found.overlay is not None:
        part, position = worst_part(found), found.overlay.position
        who, size = part.users, int(found.cluster_sizes[part.cluster])
        shown = (
            f"all {size:,} users" if size == who.size else f"{who.size:,} of its {size:,} users, nearest to the worst"
        )
        drawings["overlay"] = lambda path: plot_overlay(
            part.edges, travelled=_travelled(found, who[part.edges]),
            degrees=found.overlay.degrees[who],  # type: ignore[union-attr]
            epsilon=found.epsilon[who], epsilon_local=found.epsilon_local, member=found.member[who],
            own=found.own[who], position=None if position is None else position[who], path=path, statement=statement,
            note=f"{caption}; cluster {part.cluster}, where the worst placed user is: {shown}",
        )  # fmt: skip
    paths = {directory / f"{name}.png": plot for name, plot in drawings.items()}
    with writing(directory), directory_made(directory):
        for path, plot in paths.items():
            with in_place_of(path) as partial:
                plot(partial)
    return list(paths)
