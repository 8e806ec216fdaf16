"""An audit in one run of noisy votes and counts in cells: what the scenario's own mechanism releases is attacked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.cell_targets import CellCurator, CellTargets, CellVoteTargets, CountTargets, Curve
from p2p_sim.audit.one_run import Account, Asked, OneRunAudit, Scope, audited, pure_errors
from p2p_sim.base.errors import InputError
from p2p_sim.base.threads import one_thread
from p2p_sim.mechanisms.private_histogram import PrivateHistogramConfig
from p2p_sim.privacy.audit_statistics.power import ERROR
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

Floats = NDArray[np.float64]
SHARES = (0.0, 0.25, 0.5, 0.75, 0.95)
"""Parts of ε at which δ is tested."""
SCOPE = Scope(
    ("the likelihood ratio of what was released",),
    looks_for="a count that shows a lone row, a vote that shows an empty cell",
    overlooks="rows that are neither alone in a cell nor in a full one; several cells' noise together",
    target="row",
)


def audit_cells(
    case: Replicate,
    trials: int,
    error: float = ERROR,
    mechanism: CellCurator | None = None,
) -> OneRunAudit:
    """Attack the votes, counts or choice from which the curator of a scenario makes a rule or a density.

    Args:
        case: the scenario; of its rows only the number and the number of features matter. trials: targets, at least.
        error: probability that a sound release fails. mechanism: what is attacked, if it is not what is claimed.

    Raises:
        InputError: the mechanism counts nothing in cells.
    """
    ready = prepare(case)
    claimed, people = ready.mechanism, ready.population
    if not isinstance(claimed, CellCurator):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: counts nothing in cells")
    epsilon, dimensions = claimed.target_epsilon, people.features.shape[1]
    attacked = mechanism or claimed
    targets: CellTargets
    if isinstance(claimed, PrivateHistogramConfig) and claimed.rule in ("pcl", "pcl2"):
        targets = CellVoteTargets(claimed, attacked, dimensions, people.num_users)
    else:
        targets = CountTargets(claimed, attacked, dimensions)
    [stated, *_] = claimed.privacy(people.cluster_sizes[:1], case.scenario.privacy.delta)
    with one_thread():
        parameters = {"target_epsilon": epsilon, **claimed.parameters}
        law = CellLaw(stated, epsilon, targets.curves)
        return audited(Asked.of(case.scenario), targets, law, trials, error, parameters, scope=SCOPE)


@dataclass(frozen=True)
class CellLaw(Account):
    """What is certified. stated: the scenario's statement. epsilon: ε of the noise. curves: as of `CellTargets`."""

    stated: PrivacyBound
    epsilon: float
    curves_of_targets: tuple[tuple[int, Curve], ...]

    def tested(self) -> list[float]:
        """Parts of ε."""
        return [share * self.epsilon for share in SHARES]

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """Mean δ of the targets at each ε."""
        return np.minimum(1.0, self._mean(epsilons, 1.0))

    def bound(self, delta: float) -> PrivacyBound:
        """The statement."""
        return self.stated

    def grown(self, epsilons: Sequence[float], rise: float, delta: float) -> Floats:
        """By as much less noise."""
        more, less = self._mean(epsilons, rise), self._mean(epsilons, 1.0)
        return np.asarray(np.divide(more, less, out=np.ones_like(more), where=less > 0.0))

    def curves(self) -> dict[str, Floats]:
        """The pure ε alone."""
        return {"ε of the cells": pure_errors(self.epsilon)}

    def _mean(self, epsilons: Sequence[float], rise: float) -> Floats:
        number = sum(count for count, _ in self.curves_of_targets)
        return np.array([sum(n * curve(at, rise) for n, curve in self.curves_of_targets) / number for at in epsilons])
