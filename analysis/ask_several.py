"""What asking several peers is worth: how often the cluster's majority is missed, against ε at the learner.

Run as `python -m analysis.ask_several`; some CPU minutes. docs/better-exchange.md shows the figure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.study import Frame, command
from p2p_sim.figures import Curve, Panel, plot_panels
from p2p_sim.measures import mean_interval
from p2p_sim.privacy import MajorityExchange, ShuffledResponse, local_epsilon
from p2p_sim.privacy.exchange import Kernel, MajorityCluster, MajorityKernel, Shares, missed, noisy_ones

Floats = NDArray[np.float64]
NAME = "ask-several"
DELTA, SHARE = 1e-5, 0.6
"""δ of all figures; share of a cluster's users who hold the majority's label."""
EXCHANGE, THREE, FIVE, MIXED = "label exchange (ask 1)", "ask 3", "ask 5", "half ask 1, half ask 5"
SHUFFLER, RESPONSE, ARCSINE = "trusted shuffler", "randomised response", "g(p) = sin²(πp/2)"
PEERS: dict[str, Mapping[int, float]] = {
    EXCHANGE: {1: 1.0}, THREE: {3: 1.0}, FIVE: {5: 1.0}, MIXED: {1: 0.5, 5: 0.5},
}  # fmt: skip
SETTINGS = ((50, 0.1), (200, 0.05), (200, 0.1), (200, 0.2))
"""Cluster sizes and flip probabilities of the table."""
SIZE, FLIPS = 200, tuple(np.geomspace(0.03, 0.42, 14).round(4).tolist())
"""Cluster size and flip probabilities of the figure."""
SMALLEST = 1e-6
"""Errors below this are not drawn."""


@dataclass(frozen=True)
class ArcsineKernel(Kernel):
    """g(p) = sin²(πp/2), for which g'/√(g(1-g)) = π everywhere: no share of ones costs a user more than another.

    No number of peers has this g; mixtures of asking 1, 3, 5, … come near. For clusters of whom every data set is
    evaluated.
    """

    requests = 10**6  # a sum over some X only, or a cap by who is asked, must not be taken from this
    error = 2.0**-50  # of sin² and cos², some units in the last place

    def shares(self, noisy: Floats, sources: int) -> Shares:
        angle = 0.5 * math.pi * noisy / sources
        return Shares(np.sin(angle) ** 2, np.cos(angle) ** 2)

    def slope(self, p: float) -> float:
        """The derivative g'(p)."""
        return 0.5 * math.pi * math.sin(math.pi * p)


def missed_by_all(size: int, flip_prob: float) -> float:
    """Probability that the majority of all noisy labels, as from a shuffler, is not the cluster's; ties by a coin."""
    counts = np.arange(size + 1)
    return float(noisy_ones(size, flip_prob, SHARE) @ ((counts < size / 2) + 0.5 * (counts == size / 2)))


def figures(task: tuple[str, int, float]) -> dict[str, Any]:
    """A row of the study's table: ε at the learner, and how often the majority is missed, of one way to pass
    labels on.
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
        cluster = MajorityCluster(size, flip_prob, size, 1.0, kernel, kernel.requests)  # type: ignore[arg-type]
        bracket = cluster.epsilon(DELTA)
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
    """How much accuracy asking k peers gains over asking one, on the same splits and clusters, at each α."""
    lines = []
    for flip_prob, part in rows.groupby("mechanism.flip_prob"):
        accuracy = part.pivot_table(index="replicate", columns="mechanism.peers", values="accuracy")
        epsilon = part.groupby("mechanism.peers")["epsilon_upper"].max()
        for peers in accuracy.columns[1:]:
            gain = mean_interval((accuracy[peers] - accuracy[1]).tolist())
            lines.append({
                "flip_prob": flip_prob, "peers": peers, "epsilon_one": epsilon[1], "epsilon_several": epsilon[peers],
                "accuracy_one": accuracy[1].mean(), "gain": gain.value, "gain_low": gain.low, "gain_high": gain.high,
                "replicates": len(accuracy),
            })  # fmt: skip
    return lines


def main(frame: Frame) -> list[Path]:
    """Runs the study of users who ask several peers: a table of ε and error, a figure of two panels, a sweep on digits.

    Returns the files written.
    """
    ways = (*PEERS, SHUFFLER, RESPONSE, ARCSINE)
    flips = FLIPS[::5] if frame.small else FLIPS
    table = frame.each(figures, [(way, *setting) for way in PEERS for setting in SETTINGS])
    drawn = frame.each(figures, [(way, SIZE, flip_prob) for way in ways for flip_prob in flips])
    panels = []
    # the error against ε at the learner, and against ε₀
    for column, label, compared in (
        ("epsilon_upper", f"ε at the learner, δ = {DELTA:g}", ways),
        ("epsilon_local", "ε₀ at peers and eavesdroppers", tuple(PEERS)),
    ):
        curves = []
        for way in compared:
            lines = [line for line in drawn if line["way"] == way and line["error"] > SMALLEST]
            points = sorted((line[column], line["error"]) for line in lines)
            x, y = zip(*points, strict=True)
            curves.append(Curve(way, x, y, dashed=way in (SHUFFLER, RESPONSE, ARCSINE), marked=way != ARCSINE))
        panels.append(Panel(label, "probability that the majority is missed", curves))
    figure = frame.out / "ask-several.png"
    note = (
        f"{SIZE} users in a cluster, {SHARE:.0%} of them of one label, each submits (θ = 1). No sampling error: sums."
    )
    plot_panels(panels, figure, note)
    _, rows = frame.swept("ask-several.toml", ("replicates=2",))
    tables = {"table.csv": table, "curves.csv": drawn, "digits.csv": gains(rows)}
    return [figure, *(frame.table(name, lines) for name, lines in tables.items())]


if __name__ == "__main__":
    command(NAME, main)
