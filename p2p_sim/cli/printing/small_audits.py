"""What `p2p-sim audit` shows."""

from dataclasses import asdict
from typing import Any

from p2p_sim.audit.curator_attack import CuratorAudit
from p2p_sim.audit.faulty_network_attack import RealisedAudit
from p2p_sim.audit.model_attack import ModelAudit
from p2p_sim.audit.one_run import OneRunAudit
from p2p_sim.audit.small_exchange_attack import Audit
from p2p_sim.base.notebook_view import count
from p2p_sim.cli.printing.numbers import at_least, at_most, print_conditions, print_object, print_table, say
from p2p_sim.cli.printing.one_run_audits import (
    excess,
    learned_lines,
    model_failure,
    model_record,
    one_run_failure,
    one_run_record,
    print_model,
    print_one_run,
)
from p2p_sim.privacy.bound import REALISED, PrivacyBound
from p2p_sim.privacy.conditions import INDEPENDENT_FETCHES, REALISED_CONDITIONS
from p2p_sim.privacy.randomized_response import local_epsilon
from p2p_sim.privacy.rivals.centralised import CURATOR_CONDITIONS, PURE
from p2p_sim.privacy.statement_record import whole

AnyAudit = Audit | RealisedAudit | CuratorAudit | OneRunAudit | ModelAudit
SmallAudit = Audit | RealisedAudit | CuratorAudit
REALISED_BASIS = "mean over the realised networks"
SIZE_ASKED, SIZE_SMALLEST, SIZE_POWERFUL = "", " (smallest cluster of the first replicate)", " (most power)"
"""Why the cluster that is attacked has its size."""
NOT_TOGETHER = ("leaks in who submits together", "not looked for here")


def audit_record(audit: AnyAudit) -> dict[str, Any]:
    """The audit as one flat record."""
    if isinstance(audit, OneRunAudit):
        return one_run_record(audit)
    if isinstance(audit, ModelAudit):
        return model_record(audit)
    if isinstance(audit, RealisedAudit):
        found = asdict(audit) | {"passed": audit.passed, **_said(audit)}
        return {"name": found.pop("scenario"), "test_epsilon": found.pop("epsilon"), **found}
    if isinstance(audit, CuratorAudit):
        found = asdict(audit) | {"passed": audit.passed, "paper_refuted": audit.paper_refuted}
        named = {
            "name": found.pop("scenario"),
            **_said(audit),
            "delta": 0.0,
            "epsilon_lower": found.pop("epsilon_attained"),
            "epsilon_upper": found.pop("epsilon_true"),
            "epsilon_expected": found.pop("expected"),
        }
        return named | found
    r = audit.result
    return {
        "name": audit.scenario,
        **_said(audit),
        "members": audit.members,
        "cluster_size": audit.cluster_size,
        "flip_prob": audit.flip_prob,
        "sampling_rate": audit.sampling_rate,
        "ones": r.ones,
        "trials": r.trials,
        "error": r.error,
        "delta": r.delta,
        "epsilon_lower": r.epsilon_exact.lower,
        "epsilon_upper": r.epsilon_exact.upper,
        "epsilon_lower_confidence": r.epsilon_lower_confidence,
        "epsilon_expected": r.expected_epsilon,
        "epsilon_local": local_epsilon(audit.flip_prob),
        "epsilon_paper_lemma9": audit.lemma9.epsilon,
        "test_epsilon": r.epsilon,
        "delta_lower": r.delta_exact.lower,
        "delta_upper": r.delta_exact.upper,
        "delta_lower_confidence": r.delta_lower_confidence,
        "delta_expected": r.expected,
        "delta_detectable": r.detectable,
        "learned": None if audit.learned is None else one_run_record(audit.learned),
        "passed": audit.passed,
    }


def _bound(audit: SmallAudit) -> PrivacyBound:
    """The bound that the attack is held against, as a statement."""
    if isinstance(audit, RealisedAudit):
        conditions = (*REALISED_CONDITIONS, INDEPENDENT_FETCHES)
        figures = 0.0, audit.epsilon, audit.delta_certified
        return PrivacyBound(*figures, "learner", "label", REALISED_BASIS, conditions, REALISED)
    if isinstance(audit, CuratorAudit):
        figures = audit.epsilon_attained, audit.epsilon_true, 0.0
        return PrivacyBound(*figures, "learner", "label", PURE, CURATOR_CONDITIONS)
    exact, r = audit.result.epsilon_exact, audit.result
    return PrivacyBound(exact.lower, exact.upper, r.delta, r.observer, "label", r.basis, audit.conditions)


def _said(audit: SmallAudit) -> dict[str, Any]:
    """What is said of the bound besides its numbers."""
    numbers = ("epsilon_lower", "epsilon_upper", "delta")
    return {key: value for key, value in whole(_bound(audit)).items() if key not in numbers}


def print_audit(audit: AnyAudit, as_json: bool, asked: bool = True) -> None:
    """A table: attack, exact or certified value and the paper's bound side by side; then the bound's conditions.

    Args:
        audit: what was found. as_json: print one object instead.
        asked: whether the size of a small cluster was asked for; else the audit chose it.
    """
    if isinstance(audit, OneRunAudit):
        return print_one_run(audit, as_json)
    if isinstance(audit, ModelAudit):
        return print_model(audit, as_json)
    if as_json:
        return print_object(audit_record(audit))
    if isinstance(audit, RealisedAudit):
        _print_realised(audit, SIZE_ASKED if asked else SIZE_SMALLEST)
    elif isinstance(audit, CuratorAudit):
        _print_curator(audit, SIZE_ASKED if asked else SIZE_POWERFUL)
    else:
        _print_exchange(audit, SIZE_ASKED if asked else SIZE_SMALLEST)
    print_conditions(_bound(audit))


def _print_exchange(audit: Audit, why: str) -> None:
    r, detectable = audit.result, f"about {audit.result.detectable:.4g}"
    who = r.observer if not audit.members else f"{r.observer} of {audit.members} with the learner"
    lines = [
        ("cluster", f"{audit.cluster_size} users{why}, α = {audit.flip_prob:.4g}, θ = {audit.sampling_rate:g}"),
        ("data set attacked", f"{r.ones} ones among the others: the worst at ε = {r.epsilon:.4g}"),
        ("trials", f"{r.trials:,d} in each of two worlds, half as many in a pilot; error {r.error:g} a test"),
        (f"δ at ε = {r.epsilon:.4g}", ""),
        ("  the attack proves at least", f"{at_least(r.delta_lower_confidence)}"),
        ("  exact upper bound", f"{at_most(r.delta_exact.upper)}  ({r.delta_exact.worded(r.basis)})"),
        ("  power: proves, if all is right", f"about {r.expected:.4g}; fails if its event reaches {detectable}"),
        (f"ε at δ = {r.delta:g}", ""),
        ("  the attack proves at least", f"{at_least(r.epsilon_lower_confidence)}"),
        ("  exact upper bound", f"{at_most(r.epsilon_exact.upper)}"),
        ("  power: proves, if all is right", f"about {r.expected_epsilon:.4g}"),
        ("  the paper's Lemma 9", _paper(audit)),
        *(learned_lines(audit.learned) if audit.learned is not None else [NOT_TOGETHER]),
    ]
    print_table(f"{audit.scenario}: audit, {who}", lines)
    if audit.passed:
        say("passed: the attack stays within the exact bound")


def _print_realised(audit: RealisedAudit, why: str) -> None:
    lines = [
        ("cluster", f"{audit.cluster_size} users{why}, α = {audit.flip_prob:.4g}, θ = {audit.sampling_rate:g}"),
        ("data set attacked", f"{audit.ones} ones among the others: the worst without faults"),
        ("trials", f"{audit.trials:,d} in each of two worlds; error {audit.error:g}"),
        (f"δ at ε = {audit.epsilon:.4g}", ""),
        ("  the attack proves at least", f"{at_least(audit.delta_lower_confidence)}"),
        ("  certified", f"{at_most(audit.delta_certified)}  ({REALISED_BASIS}; {audit.delta_mean:.4g} in the trials)"),
        ("  noise alone", at_most(audit.delta_local)),
        NOT_TOGETHER,
    ]
    print_table(f"{audit.scenario}: audit, learner, realised networks", lines)
    if audit.passed:
        say("passed: the attack stays within the certified bound")


def _print_curator(audit: CuratorAudit, why: str) -> None:
    paper = f"{audit.epsilon_paper:.4g}" + ("  (refuted: below what is proved)" if audit.paper_refuted else "")
    lines = [
        ("cluster", f"{audit.cluster_size} users{why}, {audit.num_classes} classes"),
        ("mechanism", f"λ = {audit.resampling_prob:.4g}, σ = {audit.noise_scale:.4g}, τ = {audit.threshold:.4g}"),
        ("trials", f"{audit.trials:,d} in each of two worlds; error {audit.error:g}"),
        ("event seen", f"{count(audit.hits, 'time')} in one world, {audit.misses:,d} in the other"),
        ("pure ε", ""),
        ("  the attack proves at least", f"{at_least(audit.epsilon_lower_confidence)}"),
        ("  upper bound", f"{at_most(audit.epsilon_true)}  ({PURE})"),
        ("  power: proves, if all is right", f"about {audit.expected:.4g}"),
        ("  the paper's Theorem 1", paper),
    ]
    print_table(f"{audit.scenario}: audit, learner, curator", lines)
    if audit.passed:
        say("passed: the attack stays within the upper bound")


def _paper(audit: Audit) -> str:
    """The paper's bound, and whether the exact value refutes it."""
    possible = max(audit.result.epsilon_exact.lower, audit.result.epsilon_lower_confidence)
    refuted = audit.lemma9.epsilon is not None and audit.lemma9.epsilon < possible
    return str(audit.lemma9) + ("  (refuted: below what is possible)" if refuted else "")


def failure(audit: AnyAudit) -> str:
    """Why an audit failed, in one line."""
    if isinstance(audit, OneRunAudit):
        return one_run_failure(audit)
    if isinstance(audit, ModelAudit):
        return model_failure(audit)
    if isinstance(audit, RealisedAudit):
        return (
            f"audit failed: the learner's attack proves δ >= {at_least(audit.delta_lower_confidence)} at ε = "
            f"{audit.epsilon:.4g}, above the certified {at_most(audit.delta_certified)} (error {audit.error:g})"
        )
    if isinstance(audit, CuratorAudit):
        return (
            f"audit failed: the learner's attack proves ε >= {at_least(audit.epsilon_lower_confidence)}, above the "
            f"upper bound {at_most(audit.epsilon_true)} (error {audit.error:g})"
        )
    found = [] if audit.result.passed else [_proved(audit)]
    if audit.learned is not None and not audit.learned.passed:
        found.append("what is learnt from all submissions and their times " + excess(audit.learned))
    return "audit failed: " + "; and ".join(found)


def _proved(audit: Audit) -> str:
    """That the attack proves more than the bound allows."""
    r = audit.result
    if r.delta_lower_confidence > r.delta_exact.upper:
        proved, most, where = r.delta_lower_confidence, r.delta_exact.upper, f"ε = {r.epsilon:.4g}"
    else:
        proved, most, where = r.epsilon_lower_confidence, r.epsilon_exact.upper, f"δ = {r.delta:g}"
    found = f"{'δ' if where[0] == 'ε' else 'ε'} >= {at_least(proved)} at {where}, above the exact {at_most(most)}"
    return f"the {r.observer}'s attack proves {found} (error {r.error:g}), more than the bound allows"
