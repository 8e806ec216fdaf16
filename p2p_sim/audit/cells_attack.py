"""An audit of the noisy votes or counts that a scenario's own mechanism releases for cells of feature space.

This is an audit in one run: in each release the attacker guesses about many users, the targets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from p2p_sim.audit.cell_targets import CellCurator, CellTargets, CellVoteTargets, CountTargets, TargetCurve
from p2p_sim.audit.one_run import Account, Claim, Floats, OneRunAudit, claim_of, perform_audit
from p2p_sim.mechanisms import PrivateDensityConfig, PrivateHistogramConfig
from p2p_sim.replicate import Replicate


def audit_cells(case: Replicate, trials: int, mechanism: CellCurator | None = None) -> OneRunAudit:
    """Attacks a scenario's curator, who computes a result from the rows in cells of feature space. The result is noisy
    votes, noisy counts, or the choice of a classifier. From this result the curator makes a classification rule or a
    density.

    Args:
        case: the scenario; the attack uses only the numbers of rows and features. trials: the least number of targets.
        mechanism: the mechanism that is attacked; None: the one whose privacy the scenario claims.

    Raises:
        InputError: the mechanism counts nothing in cells.
    """
    claim: Claim[CellCurator] = claim_of(case, "counts nothing in cells", PrivateHistogramConfig, PrivateDensityConfig)
    claimed, people = claim
    dimensions, attacked = people.features.shape[1], mechanism or claimed
    targets: CellTargets = CountTargets(claimed, attacked, dimensions)
    if isinstance(claimed, PrivateHistogramConfig) and claimed.rule in ("pcl", "pcl2"):
        targets = CellVoteTargets(claimed, attacked, dimensions, people.num_users)
    account = CellLaw(claimed, people.cluster_sizes[:1], targets.curves)
    return perform_audit(case.scenario, targets, account, trials=trials)


@dataclass(frozen=True)
class CellLaw(Account):
    """The certified privacy of targets in cells. laws: pairs (number of targets, their privacy curve)."""

    mechanism: CellCurator
    laws: tuple[TargetCurve, ...]

    shares = (0.0, 0.25, 0.5, 0.75, 0.95)
    most = math.inf
    pure = "ε of the cells"
    clusters = None

    @property
    def largest(self) -> float:
        """The ε that the configuration states for the noise."""
        return self.mechanism.target_epsilon

    @property
    def parameters(self) -> dict[str, float]:
        return {"target_epsilon": self.mechanism.target_epsilon, **self.mechanism.parameters}

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """The mean δ of the targets at each of J values of ε, (J,), if the noise is divided by `rise`. `rise` = 1 gives
        the certified δ. A larger `rise` describes a leak by too little noise. From this δ the audit computes how likely
        it would detect the leak.

        If counts are attacked, the δ of a target alone in a cell does not depend on `rise`. This δ bounds the
        probability that the cell's noisy count reaches the threshold and is released.
        """
        number = sum(count for count, _ in self.laws)
        return np.array([min(1.0, sum(n * curve(at, rise) for n, curve in self.laws) / number) for at in epsilons])
