"""The figure of several releases together: what a test can tell, and δ against ε."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from p2p_sim.analysis.figures.curves import Curve, Panel, plot_panels
from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.composition import Composition

SHOWN = 4
"""Releases with a line of their own, those that cost most."""


def plot_composition(total: Composition, parts: Sequence[tuple[str, Accountant]], delta: float, path: Path) -> None:
    """Draw trade-off curves and δ(ε) of all releases together and of those that cost most alone, each made once.

    Args:
        total: all of them. parts: label and accountant of each. delta: δ down to which δ(ε) is drawn.
    """
    distinct = {model: label for label, model in reversed(parts)}
    costly = sorted(distinct, key=lambda model: -_reach(model, delta))[:SHOWN]
    drawn: list[tuple[str, Accountant]] = [("all together", total)]
    names = set[str]()
    for model in costly if len(parts) > 1 or total.count > 1 else ():
        name = distinct[model] if distinct[model] not in names else f"{distinct[model]} ({len(names) + 1})"
        names.add(name)
        drawn.append((f"{name}, once", model))
    errors = np.unique(np.concatenate([np.geomspace(1e-4, 1.0, 80), np.linspace(0.0, 1.0, 60)]))
    nothing = Curve("nothing learned", errors.tolist(), (1.0 - errors).tolist(), dashed=True, marked=False)
    traded = [Curve(name, errors.tolist(), model.tradeoff(errors).tolist(), marked=False) for name, model in drawn]
    reach = max(_reach(model, delta) for _, model in drawn)
    at = np.linspace(0.0, reach, 120)
    fallen = []
    for name, model in drawn:
        law = model.loss_law()
        values = np.array([law.delta(epsilon) for epsilon in at])
        seen = values >= 0.3 * delta
        fallen.append(Curve(name, at[seen].tolist(), values[seen].tolist(), marked=False))
    left = Panel("type I error", "type II error, at least", [nothing, *traded], log_x=False, log_y=False)
    right = Panel("ε", "δ, at most", fallen, log_x=False)
    note = "One user's label changed. Each line is certified: the exact curve is above on the left, below on the right."
    plot_panels([left, right], path, note)


def _reach(model: Accountant, delta: float) -> float:
    """ε at which δ has fallen to the one that is asked about."""
    return model.epsilon(max(delta, model.least_delta)).epsilon_upper
