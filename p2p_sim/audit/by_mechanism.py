"""How an audit attacks mechanisms without an exchange of labels, by their kind: each at the scenario's own size."""

from collections.abc import Callable

from p2p_sim.audit.bag_counts_attack import audit_aggregates
from p2p_sim.audit.cells_attack import audit_cells
from p2p_sim.audit.local_attack import audit_local
from p2p_sim.audit.model_attack import ModelAudit, audit_model
from p2p_sim.audit.one_run import OneRunAudit
from p2p_sim.audit.organisations_attack import audit_organisations
from p2p_sim.audit.pooled_attack import audit_pooled
from p2p_sim.audit.votes_attack import audit_votes
from p2p_sim.base.errors import InputError
from p2p_sim.replicate.replicate import Replicate

ATTACKED: dict[str, Callable[[Replicate, int], OneRunAudit | ModelAudit]] = {
    "randomized_response": audit_local,
    "vector_approximation": audit_local,
    "alibi": audit_local,
    "rr_with_prior": audit_local,
    "rr_on_bins": audit_local,
    "unbiased_values": audit_local,
    "dp_sgd": audit_model,
    "label_dp_pro": audit_model,
    "pate": audit_votes,
    "noisy_aggregates": audit_aggregates,
    "noise_shares": audit_aggregates,
    "shuffled_response": audit_pooled,
    "cluster_rr": audit_pooled,
    "private_histogram": audit_cells,
    "private_density": audit_cells,
    "private_stacking": audit_organisations,
    "hypothesis_transfer": audit_organisations,
}
"""The audit of each kind."""


def audit_at_own_size(case: Replicate, trials: int) -> OneRunAudit | ModelAudit:
    """Attack what the mechanism of a scenario releases about its own users.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.

    Raises:
        InputError: no attack on the mechanism is known.
    """
    kind = case.scenario.mechanism.kind
    if kind not in ATTACKED:
        known = ", ".join(map(repr, ATTACKED))
        raise InputError(f"mechanism.kind = {kind!r}: an audit attacks {known} or 'label_exchange'")
    return ATTACKED[kind](case, trials)
