"""The output of `p2p-sim audit`."""

from dataclasses import asdict
from typing import Any

from p2p_sim.audit import Audit, CuratorAudit, ModelAudit, OneRunAudit, RealisedAudit
from p2p_sim.base import count
from p2p_sim.cli.printing.numbers import Line, at_least, at_most
from p2p_sim.cli.printing.one_run_audits import (
    AuditOutput,
    excess,
    learned_lines,
    model_output,
    one_run_output,
    one_run_record,
    reported,
)
from p2p_sim.privacy import INDEPENDENT_FETCHES, REALISED, REALISED_CONDITIONS, PrivacyBound, local_epsilon, whole
from p2p_sim.privacy.rivals import CURATOR_CONDITIONS, PURE

AnyAudit = Audit | RealisedAudit | CuratorAudit | OneRunAudit | ModelAudit
REALISED_BASIS = "mean over the realised networks"
"""A realised network is the network as it turned out in one run."""
SIZE_ASKED, SIZE_SMALLEST, SIZE_POWERFUL = "", " (smallest cluster of the first replicate)", " (most power)"
"""The reason for the size of the attacked cluster, printed after the size; empty: the caller chose the size."""
NOT_TOGETHER = ("leaks through the set of users who submit", "not looked for here")


def audit_output(audit: AnyAudit, size_requested: bool = True) -> AuditOutput:
    """The output of an audit of any kind: a table, the conditions of the bound, a record for JSON, and a line for
    failure. The table shows what the attack proves, next to the computed ε and δ. If the mechanism's paper states an ε,
    the table shows this ε too.

    Args:
        audit: the results. size_requested: whether the caller chose the size of the attacked cluster. If not, the table
        says why the audit chose this size. This matters only for attacks on copies of one cluster.
    """
    match audit:
        case OneRunAudit():
            return one_run_output(audit)
        case ModelAudit():
            return model_output(audit)
        case RealisedAudit():
            return _realised(audit, SIZE_ASKED if size_requested else SIZE_SMALLEST)
        case CuratorAudit():
            return _curator(audit, SIZE_ASKED if size_requested else SIZE_POWERFUL)
        case Audit():
            return _exchange(audit, SIZE_ASKED if size_requested else SIZE_SMALLEST)


def _statement_record(bound: PrivacyBound) -> dict[str, Any]:
    """The fields of a privacy bound for JSON, without ε and δ. The record of an audit has an ε and a δ of its own."""
    return {k: v for k, v in whole(bound).items() if k not in ("epsilon_lower", "epsilon_upper", "delta")}


def _exchange(audit: Audit, why: str) -> AuditOutput:
    """The output of an audit that simulated the exchange in many copies of one small cluster.

    Args:
        audit: the results. why: the reason for the size of the attacked cluster; may be empty.
    """
    exact, r = audit.result.epsilon_exact, audit.result
    bound = PrivacyBound(
        exact.lower, exact.upper, r.delta, r.observer, adjacency="label", basis=r.basis, conditions=audit.conditions
    )
    who = r.observer if not audit.members else f"{r.observer} of {audit.members} with the learner"
    proved = [] if r.passed else [_proved(audit)]
    if audit.learned is not None and not audit.learned.passed:
        proved.append("what is learnt from all submissions and their times " + excess(audit.learned))
    return reported(
        f"{audit.scenario}: audit, {who}", _exchange_record(audit, bound), _exchange_lines(audit, why), bound,
        limit="the exact bound", excess="; and ".join(proved),
    )  # fmt: skip


def _exchange_record(audit: Audit, bound: PrivacyBound) -> dict[str, Any]:
    """The results of an audit of an exchange in small clusters, as a record for JSON. The entry "learned" has the
    results of a second attack, by a classifier. None: there was no second attack.

    Args:
        audit: the results. bound: the exact ε at δ. The record takes the observer and the conditions from this bound.
    """
    # one test is of ε at the stated δ, the other of δ at test_epsilon; *_expected: what a test proves if all is right
    r = audit.result
    return {
        "name": audit.scenario,
        **_statement_record(bound),
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


def _exchange_lines(audit: Audit, why: str) -> list[Line]:
    r, detectable = audit.result, f"a δ of about {audit.result.detectable:.4g}"
    # a larger ε refutes the bound of Lemma 9: an ε that the attack proves, or a lower bound of the exact ε
    possible = max(r.epsilon_exact.lower, r.epsilon_lower_confidence)
    refuted = audit.lemma9.epsilon is not None and audit.lemma9.epsilon < possible
    paper = str(audit.lemma9) + "  (refuted: a larger ε is attained or proved)" * refuted
    return [
        ("cluster", f"{audit.cluster_size} users{why}, α = {audit.flip_prob:.4g}, θ = {audit.sampling_rate:g}"),
        ("data set attacked", f"{r.ones} of the other users have label 1; the worst data set at ε = {r.epsilon:.4g}"),
        ("trials", f"{r.trials:,d} in each of two worlds, after a pilot of half the size; error {r.error:g} per test"),
        (f"δ at ε = {r.epsilon:.4g}", ""),
        ("  the attack proves at least", f"{at_least(r.delta_lower_confidence)}"),
        ("  exact upper bound", f"{at_most(r.delta_exact.upper)}  ({r.delta_exact.worded(r.basis)})"),
        (
            "  power: proves, if all is right",
            f"about {r.expected:.4g}; the audit fails if the attack attains {detectable}",
        ),
        (f"ε at δ = {r.delta:g}", ""),
        ("  the attack proves at least", f"{at_least(r.epsilon_lower_confidence)}"),
        ("  exact upper bound", f"{at_most(r.epsilon_exact.upper)}"),
        ("  power: proves, if all is right", f"about {r.expected_epsilon:.4g}"),
        ("  the paper's Lemma 9", paper),
        *(learned_lines(audit.learned) if audit.learned is not None else [NOT_TOGETHER]),
    ]


def _realised(audit: RealisedAudit, why: str) -> AuditOutput:
    bound = PrivacyBound(
        0.0, audit.epsilon, audit.delta_certified, "learner", adjacency="label", basis=REALISED_BASIS,
        conditions=(*REALISED_CONDITIONS, INDEPENDENT_FETCHES), conditional_on=REALISED,
    )  # fmt: skip
    # the field `epsilon` becomes test_epsilon: the audit tests only δ, at this ε
    fields = asdict(audit) | {"passed": audit.passed, **_statement_record(bound)}
    record = {"name": fields.pop("scenario"), "test_epsilon": fields.pop("epsilon"), **fields}
    lines = [
        ("cluster", f"{audit.cluster_size} users{why}, α = {audit.flip_prob:.4g}, θ = {audit.sampling_rate:g}"),
        ("data set attacked", f"{audit.ones} of the other users have label 1; without faults, no data set is worse"),
        ("trials", f"{audit.trials:,d} in each of two worlds; error {audit.error:g}"),
        (f"δ at ε = {audit.epsilon:.4g}", ""),
        ("  the attack proves at least", f"{at_least(audit.delta_lower_confidence)}"),
        ("  certified", f"{at_most(audit.delta_certified)}  ({REALISED_BASIS}; {audit.delta_mean:.4g} in the trials)"),
        ("  noise alone", at_most(audit.delta_local)),
        NOT_TOGETHER,
    ]
    proved = (
        f"the learner's attack proves δ >= {at_least(audit.delta_lower_confidence)} at ε = {audit.epsilon:.4g}, above "
        f"the certified {at_most(audit.delta_certified)} (error {audit.error:g})"
    )
    return reported(
        f"{audit.scenario}: audit, learner, realised networks", record, lines, bound,
        limit="the certified bound", excess=proved,
    )  # fmt: skip


def _curator(audit: CuratorAudit, why: str) -> AuditOutput:
    bound = PrivacyBound(
        audit.epsilon_attained, audit.epsilon_true, 0.0, "learner",
        adjacency="label", basis=PURE, conditions=CURATOR_CONDITIONS,
    )  # fmt: skip
    fields = asdict(audit) | {"passed": audit.passed, "paper_refuted": audit.paper_refuted}
    record = {
        "name": fields.pop("scenario"),
        **_statement_record(bound),
        "delta": 0.0,
        "epsilon_lower": fields.pop("epsilon_attained"),
        "epsilon_upper": fields.pop("epsilon_true"),
        "epsilon_expected": fields.pop("expected"),
    }
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
    proved = (
        f"the learner's attack proves ε >= {at_least(audit.epsilon_lower_confidence)}, above the upper bound "
        f"{at_most(audit.epsilon_true)} (error {audit.error:g})"
    )
    return reported(
        f"{audit.scenario}: audit, learner, curator", record | fields, lines, bound,
        limit="the upper bound", excess=proved,
    )  # fmt: skip


def _proved(audit: Audit) -> str:
    """A sentence on a failed audit: the attack proves more than the exact bound allows. The sentence is about δ if the
    attack proves a δ above the exact δ at the tested ε. Otherwise the sentence is about ε at the stated δ.
    """
    r = audit.result
    if r.delta_lower_confidence > r.delta_exact.upper:
        claim, exact = f"δ >= {at_least(r.delta_lower_confidence)} at ε = {r.epsilon:.4g}", r.delta_exact.upper
    else:
        claim, exact = f"ε >= {at_least(r.epsilon_lower_confidence)} at δ = {r.delta:g}", r.epsilon_exact.upper
    return (
        f"the {r.observer}'s attack proves {claim}, above the exact {at_most(exact)} (error {r.error:g}), more than "
        "the bound allows"
    )
