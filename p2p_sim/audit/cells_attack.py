"""An audit in one run of noisy votes and counts in cells: what the scenario's own mechanism releases is attacked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.cell_targets import CellCurator, CellTargets, CellVoteTargets, CountTargets, TargetCurve
from p2p_sim.audit.one_run import Account, OneRunAudit, audited
from p2p_sim.base import InputError
from p2p_sim.mechanisms import PrivateHistogramConfig
from p2p_sim.replicate import Replicate, prepare

Floats = NDArray[np.float64]


def audit_cells(
    case: Replicate,
    trials: int,
    mechanism: CellCurator | None = None,
) -> OneRunAudit:
    """Attack the votes, counts or choice from which the curator of a scenario makes a rule or a density.

    Args:
        case: the scenario; of its rows only the number and the number of features matter. trials: targets, at least.
        mechanism: what is attacked, if it is not what is claimed.

    Raises:
        InputError: the mechanism counts nothing in cells.
    """
    ready = prepare(case)
    claimed, people = ready.mechanism, ready.population
    if not isinstance(claimed, CellCurator):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: counts nothing in cells")
    dimensions, attacked = people.features.shape[1], mechanism or claimed
    targets: CellTargets
    if isinstance(claimed, PrivateHistogramConfig) and claimed.rule in ("pcl", "pcl2"):
        targets = CellVoteTargets(claimed, attacked, dimensions, people.num_users)
    else:
        targets = CountTargets(claimed, attacked, dimensions)
    account = CellLaw(claimed, people.cluster_sizes[:1], targets.curves)
    return audited(case.scenario, targets, account, trials=trials)


@dataclass(frozen=True)
class CellLaw(Account):
    """What is certified of targets in cells. laws: their privacy curves, and how many targets have each."""

    mechanism: CellCurator
    laws: tuple[TargetCurve, ...]

    shares = (0.0, 0.25, 0.5, 0.75, 0.95)
    most = math.inf
    pure = "ε of the cells"
    clusters = None

    @property
    def largest(self) -> float:
        """ε of the noise."""
        return self.mechanism.target_epsilon

    @property
    def parameters(self) -> dict[str, float]:
        return {"target_epsilon": self.mechanism.target_epsilon, **self.mechanism.parameters}

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """The mean over the targets of the certified δ at each ε, with noise that makes ε `rise` times as large."""
        number = sum(count for count, _ in self.laws)
        return np.array([sum(n * curve(at, rise) for n, curve in self.laws) / number for at in epsilons])

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        return np.minimum(1.0, self.reached(epsilons, 1.0))
