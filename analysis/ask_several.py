"""Exchanges in which users ask several peers: the learner's ε, and how often the majority label is missed.

Run the study as `python -m analysis.ask_several`; it takes some CPU minutes. docs/better-exchange.md shows the figure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.study import Frame, command, with_ends
from p2p_sim.figures import Curve, Panel, plot_panels
from p2p_sim.measures import mean_interval
from p2p_sim.privacy import Floats, MajorityExchange, ShuffledResponse, local_epsilon
from p2p_sim.privacy.exchange import MajorityCluster, MajorityKernel, Shares, SmoothKernel, missed, noisy_ones

DELTA, SHARE = 1e-5, 0.6
"""The δ of every ε (randomised response: δ = 0), and the share of a cluster's users who hold the majority label."""
EXCHANGE, THREE, FIVE, MIXED = "label exchange (ask 1)", "ask 3", "ask 5", "half ask 1, half ask 5"
SHUFFLER, RESPONSE, ARCSINE = "trusted shuffler", "randomised response", "g(p) = sin²(πp/2)"
PEERS: dict[str, Mapping[int, float]] = {
    EXCHANGE: {1: 1.0}, THREE: {3: 1.0}, FIVE: {5: 1.0}, MIXED: {1: 0.5, 5: 0.5},
}  # fmt: skip
"""For each exchange protocol: the numbers of peers that users may ask, with their probabilities."""
SETTINGS = ((50, 0.1), (200, 0.05), (200, 0.1), (200, 0.2))
"""Pairs of cluster size and flip probability. The table has a row for each pair and each key of `PEERS`."""
SIZE, FLIPS = 200, tuple(np.geomspace(0.03, 0.42, 14).round(4).tolist())
"""The cluster size and the flip probabilities of the figure."""
SMALLEST = 1e-6
"""The figure shows only larger probabilities of missing the majority."""


@dataclass(frozen=True)
class ArcsineKernel(SmoothKernel):
    """The kernel g(p) = sin²(πp/2). A kernel is the probability of submitting a one if a share p of the noisy labels
    are ones.

    The ratio g'/√(g(1-g)) is π at all p. Its square is the Fisher information about p in a submission. So every share
    of ones costs users the same privacy. No fixed number of peers gives this g. Users who ask a random odd number of
    peers come near this g.
    """

    requests = 10**6  # a submission depends on all labels: bounds for few requests must not apply
    error = 2.0**-50  # relative error of sin² and cos², a few units in the last place

    def shares(self, noisy: Floats, sources: int) -> Shares:
        angle = 0.5 * math.pi * noisy / sources
        return Shares(np.sin(angle) ** 2, np.cos(angle) ** 2)

    def slope(self, p: float) -> float:
        """The derivative g'(p) at a share p of ones. Only searches use it; no certified value depends on it."""
        return 0.5 * math.pi * math.sin(math.pi * p)


def missed_by_all(size: int, flip_prob: float) -> float:
    """Probability that the majority of all noisy labels of a cluster differs from the majority of the true labels.

    60% of the users hold the same true label. A tie counts as half a miss. size: number of users in the cluster.
    flip_prob: probability that a label is flipped.
    """
    counts = np.arange(size + 1)
    return float(noisy_ones(size, flip_prob, SHARE) @ ((counts < size / 2) + 0.5 * (counts == size / 2)))


def figures(task: tuple[str, int, float]) -> dict[str, Any]:
    """A row of the study's table for a protocol. The row has both ends of the interval that holds the learner's ε at δ
    = `DELTA` (randomised response: δ = 0). Its entry `error` is the probability of missing the majority. A miss means
    that most submissions (or released labels) are not the label of the 60% majority. A tie counts as half a miss.

    Args:
        task: the protocol's name, the cluster size, and the flip probability α. The name is a key of `PEERS`, or
        one of `SHUFFLER`, `RESPONSE` and `ARCSINE` (the ideal kernel).
    """
    way, size, flip_prob = task
    if way == RESPONSE:
        upper = lower = local_epsilon(flip_prob)
        error = missed_by_all(size, flip_prob)
    elif way == SHUFFLER:
        bound = ShuffledResponse(size, flip_prob).epsilon(DELTA)
        lower, upper, error = bound.epsilon_lower, bound.epsilon_upper, missed_by_all(size, flip_prob)
    elif way == ARCSINE:
        kernel = ArcsineKernel()
        bracket = MajorityCluster(size, flip_prob, size, 1.0, kernel=kernel, requests=kernel.requests).epsilon(DELTA)
        lower, upper, error = bracket.lower, bracket.upper, missed(size, flip_prob, kernel, 1.0, SHARE)
    else:
        bound = MajorityExchange(size, flip_prob, 1.0, PEERS[way]).epsilon(DELTA)
        lower, upper = bound.epsilon_lower, bound.epsilon_upper
        error = missed(size, flip_prob, MajorityKernel(tuple(sorted(PEERS[way].items()))), 1.0, SHARE)
    requests = sum(k * weight for k, weight in PEERS[way].items()) if way in PEERS else None
    return {
        "way": way, "cluster_size": size, "flip_prob": flip_prob, "epsilon_local": local_epsilon(flip_prob),
        "epsilon_lower": lower, "epsilon_upper": upper, "error": error, "requests": requests,
    }  # fmt: skip


def gains(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The accuracy gained by asking several peers instead of one: a row for each flip probability and each number of
    peers above one. A row has ε and the mean accuracy with one peer. It also has ε and the mean gain with several
    peers, and the gain's 95% interval.

    Args:
        rows: results of the sweep, a row for each flip probability, number of peers and replicate. The columns are
        mechanism.flip_prob, mechanism.peers, replicate, accuracy and epsilon_upper. Gains are taken within replicates.
    """
    lines = []
    for flip_prob, part in rows.groupby("mechanism.flip_prob"):
        accuracy = part.pivot_table(index="replicate", columns="mechanism.peers", values="accuracy")
        epsilon = part.groupby("mechanism.peers")["epsilon_upper"].max()
        for peers in accuracy.columns[1:]:
            lines.append({
                "flip_prob": flip_prob, "peers": peers, "epsilon_one": epsilon[1], "epsilon_several": epsilon[peers],
                "accuracy_one": accuracy[1].mean(), **with_ends("gain", mean_interval(accuracy[peers] - accuracy[1])),
                "replicates": len(accuracy),
            })  # fmt: skip
    return lines


def main(frame: Frame) -> list[Path]:
    """Computes ε and the probability of missing the majority for each protocol. Also runs a sweep on the digits data.

    Writes a figure and three tables, and returns their files.
    """
    ways = (*PEERS, SHUFFLER, RESPONSE, ARCSINE)
    flips = FLIPS[::5] if frame.small else FLIPS
    drawn = frame.each(figures, [(way, SIZE, flip_prob) for way in ways for flip_prob in flips])
    # a panel for each kind of ε, a curve for each protocol; only errors above 1e-6 are drawn
    axes = (
        ("epsilon_upper", f"ε at the learner, δ = {DELTA:g}", ways),
        ("epsilon_local", "ε₀ at peers and eavesdroppers", tuple(PEERS)),
    )
    panels = []
    for column, label, compared in axes:
        lines = []
        for way in compared:
            points = [(line[column], line["error"]) for line in drawn if line["way"] == way]
            x, y = zip(*sorted(point for point in points if point[1] > SMALLEST), strict=True)
            lines.append(Curve(way, x, y, dashed=way in (SHUFFLER, RESPONSE, ARCSINE), marked=way != ARCSINE))
        panels.append(Panel(label, "probability that the majority is missed", lines))
    note = (
        f"{SIZE} users in a cluster, {SHARE:.0%} with the same label; all submit (θ = 1). Computed, without sampling."
    )
    _, rows = frame.swept("ask-several.toml", ("replicates=2",))
    return [
        frame.figure(plot_panels, panels, "ask-several.png", note),
        frame.table("table.csv", frame.each(figures, [(way, *setting) for way in PEERS for setting in SETTINGS])),
        frame.table("curves.csv", drawn),
        frame.table("digits.csv", gains(rows)),
    ]


if __name__ == "__main__":
    command("ask-several", main)
