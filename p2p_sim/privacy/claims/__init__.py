"""Numbered claims of several papers. A claim holds on a grid of parameters, or has a counter-example there."""

from p2p_sim.privacy.claims import (
    bag_counts,
    centralised_privacy,
    centralised_utility,
    clustering_matrices,
    exchange_theorems,
    other_papers,
)
from p2p_sim.privacy.claims.claim import Claim, ClaimCase, Verdict

__all__ = ["Claim", "ClaimCase", "Verdict", "all_claims"]


def all_claims() -> tuple[Claim, ...]:
    """All claims that can be checked. The method `Claim.check` checks one claim."""
    return (
        *clustering_matrices.CLAIMS,
        *centralised_utility.CLAIMS[:2],
        *exchange_theorems.CLAIMS,
        *centralised_privacy.CLAIMS,
        *centralised_utility.CLAIMS[2:],
        *other_papers.CLAIMS,
        *bag_counts.CLAIMS,
    )
