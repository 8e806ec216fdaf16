"""What `p2p-sim audit` shows."""

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.privacy.local import local_epsilon
from p2p_sim.audit import Audit
from p2p_sim.printing.values import finite


def audit_record(audit: Audit) -> dict[str, Any]:
    """The audit as one flat record."""
    r = audit.result
    return {
        "name": audit.scenario,
        "observer": r.observer,
        "members": audit.members,
        "cluster_size": audit.cluster_size,
        "flip_prob": audit.flip_prob,
        "sampling_rate": audit.sampling_rate,
        "ones": r.ones,
        "trials": r.trials,
        "error": r.error,
        "basis": r.basis,
        "delta": r.delta,
        "epsilon_lower": r.epsilon_exact.lower,
        "epsilon_upper": r.epsilon_exact.upper,
        "epsilon_lower_confidence": r.epsilon_lower_confidence,
        "epsilon_expected": r.expected_epsilon,
        "epsilon_local": local_epsilon(audit.flip_prob),
        "epsilon_paper_lemma9": audit.lemma9,
        "test_epsilon": r.epsilon,
        "delta_lower": r.delta_exact.lower,
        "delta_upper": r.delta_exact.upper,
        "delta_lower_confidence": r.delta_lower_confidence,
        "delta_expected": r.expected,
        "delta_detectable": r.detectable,
        "passed": r.passed,
    }


def print_audit_json(audit: Audit) -> None:
    """One JSON object."""
    print(json.dumps(finite(audit_record(audit)), allow_nan=False))


def print_audit(audit: Audit) -> None:
    """A table: attack, exact value and the paper's bound side by side."""
    r, paper = audit.result, _paper(audit)
    who = r.observer if not audit.members else f"{r.observer} of {audit.members} with the learner"
    table = Table(title=f"{audit.scenario}: audit, {who}", title_justify="left", show_header=False)
    for text, value in (
        ("cluster", f"{audit.cluster_size} users, α = {audit.flip_prob:.4g}, θ = {audit.sampling_rate:g}"),
        ("data set attacked", f"{r.ones} ones among the others: the worst at ε = {r.epsilon:.4g}"),
        ("trials", f"{r.trials:,d} in each of two worlds; error {r.error:g} a test"),
        (f"δ at ε = {r.epsilon:.4g}", ""),
        ("  the attack proves at least", f"{r.delta_lower_confidence:.4g}"),
        ("  exact upper bound", f"{r.delta_exact.upper:.4g}  ({r.basis})"),
        (
            "  power: proves, if all is right",
            f"about {r.expected:.4g}; fails for a true δ from about {r.detectable:.4g}",
        ),
        (f"ε at δ = {r.delta:g}", ""),
        ("  the attack proves at least", f"{r.epsilon_lower_confidence:.4g}"),
        ("  exact upper bound", f"{r.epsilon_exact.upper:.4g}"),
        ("  power: proves, if all is right", f"about {r.expected_epsilon:.4g}"),
        ("  the paper's Lemma 9", paper),
    ):
        table.add_row(text, value)
    Console(soft_wrap=True).print(table)
    if r.passed:
        print("passed: the attack stays within the exact bound")


def _paper(audit: Audit) -> str:
    """The paper's bound, and whether the exact value refutes it."""
    if audit.lemma9 is None:
        return "not applicable"
    refuted = audit.lemma9 < max(audit.result.epsilon_exact.lower, audit.result.epsilon_lower_confidence)
    return f"{audit.lemma9:.4g}" + ("  (refuted: below what is possible)" if refuted else "")


def failure(audit: Audit) -> str:
    """Why an audit failed, in one line."""
    r = audit.result
    if r.delta_lower_confidence > r.delta_exact.upper:
        found = f"δ >= {r.delta_lower_confidence:.4g} at ε = {r.epsilon:.4g}, above the exact {r.delta_exact.upper:.4g}"
    else:
        found = f"ε >= {r.epsilon_lower_confidence:.4g} at δ = {r.delta:g}, above the exact {r.epsilon_exact.upper:.4g}"
    return f"audit failed: the {r.observer}'s attack proves {found} (error {r.error:g})"
