"""The output of `p2p-sim audit` for an audit in one run, and for an audit of a model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p2p_sim.audit import PRINTED_RISE, RISES, TYPE_ONE, ModelAudit, OneRunAudit
from p2p_sim.base import InputError, count
from p2p_sim.cli.printing.numbers import Line, Output, at_least, at_most, two_columns
from p2p_sim.privacy import PrivacyBound, whole

REALISED_MEAN = "mean over the targets, in the realised networks"
COINS = {"label": "each label a fair coin", "row": "each whole row one of two by a fair coin"}


@dataclass(frozen=True)
class AuditOutput(Output):
    """The output of an audit. failure: the line that is printed if the audit failed."""

    failure: str


def reported(
    title: str, record: dict[str, Any], lines: Sequence[Line], bound: PrivacyBound, *, limit: str, excess: str
) -> AuditOutput:
    """The output of an audit: a table, a sentence if the audit passed, and the conditions of the bound that was
    attacked. The output also has the line for a failed audit.

    Args:
        title: heading of the table. record: all results for JSON, with the entry "passed". lines: the table's lines,
        each a pair of a heading and a text. bound: the stated ε at δ that the audit tested. limit: words for what a
        passing attack stays within. excess: for a failed audit, a sentence on what the attack proves beyond the bound.
    """
    passed = [f"passed: the attack stays within {limit}"] if record["passed"] else []
    return AuditOutput(record, [two_columns(title, lines), *passed, bound], f"audit failed: {excess}")


def one_run_record(audit: OneRunAudit) -> dict[str, Any]:
    """The results of an audit in one run as one flat record for JSON. In such an audit, many users' labels are fair
    coins in a single run, and an attack guesses the coins. The record has the certified ε at δ with the conditions,
    what the attack proves about ε and δ, and what was expected. δ is tested at several values of ε, so the entries of
    these tests are lists. The power is the probability that the audit detects too little noise.
    """
    return {
        "name": audit.scenario,
        **whole(audit.bound),
        "mechanism": audit.mechanism,
        "engine": audit.engine or None,
        **audit.parameters,
        "cluster_size_smallest": audit.clusters[0] if audit.clusters else None,
        "cluster_size_largest": audit.clusters[1] if audit.clusters else None,
        "realised": audit.realised,
        "users": audit.users,
        "targets": audit.targets,
        "error": audit.error,
        # one entry for each tested ε; right and wrong count the attack's guesses in this test
        "test_epsilon": audit.epsilons,
        "delta_certified": audit.certified.tolist(),
        "delta_lower_confidence": audit.attacked.tolist(),
        "delta_expected": audit.expected.tolist(),
        "right": [guesses.right for guesses in audit.guesses],
        "wrong": [guesses.wrong for guesses in audit.guesses],
        "epsilon_lower_confidence": audit.epsilon_attacked,
        "epsilon_expected": audit.epsilon_expected,
        "epsilon_paper_lemma9": None if audit.paper is None else audit.paper.epsilon,
        "power_at_a_tenth_more": audit.power,
        "smallest_rise": audit.smallest_rise,
        "power_against": "too little noise",
        "looks_for": audit.scope.looks_for,
        "does_not_look_for": audit.scope.overlooks,
        "flip_prob_refused": audit.flip_prob_refused,
        **({"declared": {check.name: check.probability for check in audit.declared}} if audit.declared else {}),
        "passed": audit.passed,
    }


def one_run_output(audit: OneRunAudit) -> AuditOutput:
    """The output of an audit in one run, in which many users' labels are fair coins that an attack guesses. The output
    has the proved and the certified values of ε and δ, and the probability of detecting too little noise.
    """
    return reported(
        f"{audit.scenario}: audit in one run, {audit.bound.observer}", one_run_record(audit), _one_run_lines(audit),
        audit.bound, limit="what is certified", excess=f"the {audit.bound.observer}'s attack {excess(audit)}",
    )  # fmt: skip


def _one_run_lines(audit: OneRunAudit) -> list[Line]:
    parameters = ", ".join(f"{name} {value:.4g}" for name, value in audit.parameters.items())
    where = f", {audit.engine} engine" if audit.engine else ""
    smallest, clusters = "", []
    if audit.clusters:
        least, most = audit.clusters
        # if users ask several peers, the smallest cluster need not have the largest bound
        smallest = ", worst cluster" if "peers" in audit.parameters else f", smallest cluster ({least} users)"
        sizes = f"of {count(least, 'user')}" if least == most else f"of {least:,d} to {most:,d} users"
        clusters = [("clusters", sizes)]
    lines: list[Line] = [
        ("mechanism", f"{audit.mechanism}{where}" + (f"; {parameters}" if parameters else "")),
        (
            "targets",
            f"{audit.targets:,d} of {audit.users:,d} users, {COINS[audit.scope.target]}; error {audit.error:g}",
        ),
        *clusters,
        ("right guesses if all are guessed", f"{audit.guesses[0].right / audit.targets:.2%}"),
        *_delta_lines(audit),
        (f"ε at δ = {audit.plan.delta:g}", ""),
        ("  the attack proves at least", at_least(audit.epsilon_attacked)),
        (f"  certified{' without faults' * audit.realised}{smallest}", at_most(audit.bound.epsilon_upper)),
        *([("  the paper's Lemma 9", str(audit.paper))] if audit.paper is not None else []),
        *_power_lines(audit),
    ]
    if audit.declared:
        # for each statistic, an upper bound of the probability of a value at least as far from 0 under the declared law
        limit = f"refused below {audit.error / len(audit.declared):.2g}"
        lines.append(("declared law of submissions: probability at most", limit))
        lines += [(f"  {check.name}", f"{check.probability:.2g}") for check in audit.declared]
    if audit.flip_prob_refused is not None:
        lines.append(
            ("the attack refuses every α of at least", f"{math.ceil(audit.flip_prob_refused * 1e4) / 1e4:.4f}")
        )
    return lines


def _delta_lines(audit: OneRunAudit) -> list[Line]:
    """A heading, and a line for each tested ε: the δ that the attack proves, the δ that a pilot run predicts, and the
    certified δ. The audit fails if more is proved than is certified.
    """
    return [
        ("δ that the attack proves, and certified δ", REALISED_MEAN if audit.realised else ""),
        *(
            (
                f"  at ε = {epsilon:.4g}",
                f"{at_least(proved)} proved (expected {expected:.3g}), {at_most(claim)} certified",
            )
            for epsilon, proved, claim, expected in zip(
                audit.epsilons, audit.attacked, audit.certified, audit.expected, strict=True
            )
        ),
    ]


def draw_one_run(audit: object, path: Path) -> None:
    """Draw the attack's type II errors against its type I errors, with the certified trade-off curve, to the file
    `path`.

    Raises:
        InputError: the audit was not an audit in one run.
    """
    from p2p_sim.figures import plot_attacked

    if not isinstance(audit, OneRunAudit):
        raise InputError("--figure: drawn only for an audit in one run, of clusters above 30 users")
    plot_attacked(
        {"certified, by δ at the tested ε": audit.law.tradeoff(TYPE_ONE)} | audit.curves, TYPE_ONE, audit.drawn,
        f"{audit.scenario}: tests of one user's {audit.scope.target}", path,
    )  # fmt: skip


def learned_lines(audit: OneRunAudit) -> list[Line]:
    """Lines about the second attack on an exchange in small clusters. In this attack, a classifier guesses the targets'
    labels from all submissions and their times. For each tested ε, a line has the δ that this attack proves and the
    certified δ. Further lines say which leaks the attack would detect. A leak makes the exchange less private than
    stated. audit: this attack's results.
    """
    rows = zip(audit.epsilons, audit.attacked, audit.certified, strict=True)
    return [
        (
            "learnt from all submissions and times",
            f"{audit.targets:,d} targets in one run; error {audit.error:g}",
        ),
        *(
            (f"  δ at ε = {epsilon:.4g}", f"{at_least(proved)} proved, {at_most(claim)} certified")
            for epsilon, proved, claim in rows
        ),
        *((f"  {label}", text) for label, text in _power_lines(audit)),
    ]


def _power_lines(audit: OneRunAudit) -> list[Line]:
    """Lines on the leaks that the audit would detect. A leak makes the mechanism less private than stated. The first
    line has the probability of detecting too little noise that raises ε by 10%. The second line has the smallest rise
    that half of the audits detect. The last two lines name other kinds of leaks: first the kinds looked for without a
    stated probability, then the kinds not looked for.
    """
    power = (
        f"noise so small that ε rises by {PRINTED_RISE - 1:.0%} would be seen with probability {_share(audit.power)}"
    )
    rise = audit.smallest_rise
    smallest = f"raises ε by {rise - 1:.0%}" if rise else f"none up to {RISES[-1]:g} times ε; take more --trials"
    return [
        ("power against too little noise only", power),
        ("  smallest such leak seen in half of the audits", smallest),
        ("  also looked for, without a stated power", audit.scope.looks_for),
        ("  not looked for", audit.scope.overlooks),
    ]


def excess(audit: OneRunAudit) -> str:
    """Words on why an audit failed. If a test refuses what the protocol declares about submissions (a law or a symmetry
    among users), the words name this test. Otherwise the words give the first tested ε at which the attack proves more
    δ than certified. If there is none, the words give the ε that the attack proves above the certified ε.
    """
    if audit.refuted is not None:
        probability = audit.refuted.probability
        return f"refuses the declared law by {audit.refuted.name} (probability {probability:.2g} if it were true)"
    # compare δ at the tested values of ε first; if no certified δ is exceeded, compare ε at the stated δ
    violations = [
        f"δ >= {at_least(proved)} at ε = {event.epsilon:.4g}, above the certified {at_most(claim)}, by "
        f"{audit.scope.scores[event.attack]}"
        for event, proved, claim in zip(audit.plan.deltas, audit.attacked, audit.certified, strict=True)
        if proved > claim
    ]
    if not violations:
        by = audit.scope.scores[audit.plan.ratio.attack]
        most = f"above the certified {at_most(audit.bound.epsilon_upper)}, by {by}"
        violations.append(f"ε >= {at_least(audit.epsilon_attacked)} at δ = {audit.plan.delta:g}, {most}")
    return f"proves {violations[0]} (error {audit.error:g})"


def model_output(audit: ModelAudit) -> AuditOutput:
    """The output of an audit of a released model. Labels are drawn as fair coins, and the attack guesses the coins from
    the models of several training runs. The output has the ε that the attack proves at the stated δ, and the ε
    certified by the mechanism's accountant. The last lines say whether the attack refuses the whole certified trade-off
    curve.
    """
    guesses, guessed = audit.guesses, audit.guesses.right + audit.guesses.wrong
    if audit.curve_refused:
        proved = (
            f"is right about {guesses.right:,d} of {guessed:,d} guesses, which refuses the certified trade-off curve "
            f"(error {audit.error:g})"
        )
    else:
        proved = (
            f"proves ε >= {at_least(audit.epsilon_attacked)} at δ = {audit.bound.delta:g}, above the certified "
            f"{at_most(audit.bound.epsilon_upper)} (error {audit.error:g})"
        )
    return reported(
        f"{audit.scenario}: audit of the model, {audit.bound.observer}", _model_record(audit), _model_lines(audit),
        audit.bound, limit="what is certified", excess=f"the {audit.bound.observer}'s attack {proved}",
    )  # fmt: skip


def _model_record(audit: ModelAudit) -> dict[str, Any]:
    """The results of an audit of a model as one flat record for JSON."""
    # mu_lower_confidence: the attack refuses μ-GDP (Gaussian noise) for every μ up to this value
    return {
        "name": audit.scenario,
        **whole(audit.bound),
        "mechanism": audit.mechanism,
        **audit.parameters,
        "runs": audit.runs,
        "targets": audit.targets,
        "right": audit.guesses.right,
        "wrong": audit.guesses.wrong,
        "error": audit.error,
        "epsilon_lower_confidence": audit.epsilon_attacked,
        "epsilon_expected": audit.epsilon_expected,
        "mu_lower_confidence": audit.mu_attacked,
        "mu_expected": audit.mu_expected,
        "curve_refused": audit.curve_refused,
        "passed": audit.passed,
    }


def _model_lines(audit: ModelAudit) -> list[Line]:
    guesses, guessed = audit.guesses, audit.guesses.right + audit.guesses.wrong
    parameters = ", ".join(f"{name} {value:.4g}" for name, value in audit.parameters.items())
    return [
        ("mechanism", audit.mechanism + (f"; {parameters}" if parameters else "")),
        ("targets", f"{audit.targets:,d} in {audit.runs:,d} training runs, each label a fair coin"),
        ("guessed", f"{guessed:,d}, of which {guesses.right:,d} right ({guesses.right / guessed:.2%})"),
        (f"ε at δ = {audit.bound.delta:g}", f"error {audit.error:g}"),
        ("  the attack proves at least", at_least(audit.epsilon_attacked)),
        ("  certified", at_most(audit.bound.epsilon_upper)),
        (
            "  a pilot run predicts",
            f"about {audit.epsilon_expected:.4g}; the audit fails if the proved ε exceeds the certified ε",
        ),
        ("whole trade-off curve", "refused" if audit.curve_refused else "the certified one is not refused"),
        ("  the attack refuses μ-GDP up to", f"μ = {at_least(audit.mu_attacked)}"),
        ("  a pilot run predicts", f"up to about μ = {audit.mu_expected:.4g}"),
    ]


def _share(power: float) -> str:
    """A probability as text with two decimals, rounded down and at most 0.99. From 0.9999 on, it is "above 0.99"."""
    return f"{min(math.floor(100.0 * power) / 100.0, 0.99):.2f}" if power < 0.9999 else "above 0.99"
