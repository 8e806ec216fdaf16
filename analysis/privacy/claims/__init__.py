"""The papers' numbered claims, each evaluated over a grid and judged: it holds, or here is a counter-example."""

from p2p_sim.analysis.privacy.claims import (
    aggregates,
    centralised_privacy,
    centralised_utility,
    clustering_matrices,
    exchange,
    others,
)
from p2p_sim.analysis.privacy.claims.claim import Case, Claim, Verdict

__all__ = ["Case", "Claim", "Verdict", "all_claims"]


def all_claims() -> tuple[Claim, ...]:
    """Every claim that is checked, paper by paper; `check()` evaluates one."""
    return (
        *clustering_matrices.CLAIMS,
        *centralised_utility.CLAIMS[:2],
        *exchange.CLAIMS,
        *centralised_privacy.CLAIMS,
        *centralised_utility.CLAIMS[2:],
        *others.CLAIMS,
        *aggregates.CLAIMS,
    )
