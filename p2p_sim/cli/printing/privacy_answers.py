"""The output of `privacy`, `calibrate`, `certify` and `check-bounds`."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from p2p_sim.base import count
from p2p_sim.cli.printing.numbers import Output, say, two_columns
from p2p_sim.privacy import (
    ADDS_NOTHING,
    Answer,
    Calibration,
    EnoughNeighbours,
    PeersComparison,
    Question,
    answer_lines,
    calibration_lines,
    gain,
    neighbour_lines,
    peers_lines,
    whole,
)

if TYPE_CHECKING:
    from p2p_sim.privacy.claims import Verdict


def privacy_output(question: Question, answer: Answer) -> Output:
    """The output of `p2p-sim privacy`: ε at δ, or δ at ε, with the conditions. ε₀ follows, the ε of one noisy label
    alone. The output also has the ε of Lemma 9 of the clustering paper (Esfandiari et al.), or says why the lemma does
    not apply. A sentence says how much more often the observer can guess a label right.

    Args:
        question: the exchange's parameters, and who observes. answer: the values that were computed for the question.
    """
    ends = {"delta_lower": answer.delta_lower, "delta_upper": answer.delta_upper}
    record = {
        **whole(answer.bound),
        **({} if answer.delta_upper is None else ends),
        "epsilon_local": answer.local,
        "epsilon_paper_lemma9": answer.lemma9.epsilon,
        "advantage_uniform": answer.advantage,
    }
    return Output(
        record, [two_columns(None, answer_lines(question, answer)), gain(question, answer.advantage), answer.bound]
    )


def calibration_output(calibration: Calibration) -> Output:
    """The output of `p2p-sim calibrate`: the flip probability that keeps ε within a target in clusters of all given
    sizes. The certified ε at this flip probability follows, with the conditions. The output also has the flip
    probability that each cluster size alone would need. calibration: has all these values.
    """
    record = {
        "flip_prob": calibration.flip_prob,
        "sampling_rate": calibration.sampling_rate,
        "members": calibration.members,
        "flip_prob_by_size": {str(size): alpha for size, alpha in calibration.each.items()},
        **whole(calibration.bound),
        "epsilon_local": calibration.local,
    }
    remarks = [ADDS_NOTHING] if calibration.noise_alone else []
    return Output(record, [two_columns(None, calibration_lines(calibration)), *remarks, calibration.bound])


def peers_output(comparison: PeersComparison) -> Output:
    """The output of `p2p-sim calibrate` with several --peers. Each user asks k random peers of her cluster and submits
    the majority of their labels. For each k, the output has the flip probability that meets the target (ε, δ), and the
    probability of error. An error means that the majority of submissions is not a cluster's commoner label. For the k
    with the smallest error, the output has the whole calibration.
    """
    best = calibration_output(comparison.calibrations[comparison.best])
    record = {
        **best.record,
        "peers": comparison.best,
        "majority": comparison.majority,
        "by_peers": {
            str(k): {"flip_prob": calibration.flip_prob, "error": comparison.errors[k]}
            for k, calibration in comparison.calibrations.items()
        },
    }
    return Output(record, [two_columns(None, peers_lines(comparison)), *best.parts])


def neighbours_output(neighbours: EnoughNeighbours) -> Output:
    """The output of `p2p-sim calibrate` with --flip-prob. Users ask only neighbours, and all users have equally many.
    The output has the smallest tried number of neighbours at which the learner's ε stays within the target. If no
    number is enough, the output says so.
    """
    record = {
        "degree": neighbours.degree,
        "largest_degree": neighbours.most,
        "target_epsilon": neighbours.target,
        **whole(neighbours.bound),
        "epsilon_everybody": neighbours.everybody.epsilon_upper,
        "epsilon_local": neighbours.local,
    }
    return Output(record, [two_columns(None, neighbour_lines(neighbours)), neighbours.bound])


def print_certified(path: Path, verifier: Path, quiet: bool) -> None:
    """Print the path of a certificate, a file from which the (ε, δ) of an exchange can be proved. Unless `quiet`, also
    print the command that repeats this proof without p2p-sim.

    path: the certificate. verifier: the file of the program that checks it.
    """
    print(path)
    if not quiet:
        say(f"The certificate is proved. To prove it again without p2p-sim: python {verifier} {path}")


def verdicts_output(verdicts: "Sequence[Verdict]") -> Output:
    """The output of `p2p-sim check-bounds`: a table with a line for each claim, and how many claims hold. A claim is a
    bound or a belief about privacy or utility, checked on many cases. If a claim fails, the output also says what holds
    instead. verdicts: the result for each claim.
    """
    table = Table(title="The papers' claims, checked numerically", title_justify="left")
    table.add_column("claim")
    table.add_column("verdict")
    table.add_column("claimed divided by true value: tightest to loosest; or a counter-example", overflow="fold")
    corrections = []
    for verdict in verdicts:
        holds = "holds" if verdict.holds else Text("fails", style="bold red")
        evidence = f"{verdict.tightest:.4g} to {verdict.loosest:.4g} in {verdict.cases} cases"
        if verdict.counterexample is not None:
            evidence = ", ".join(f"{name} {value:.4g}" for name, value in verdict.counterexample.items())
        table.add_row(verdict.name, holds, evidence)
        if not verdict.holds:
            corrections += [f"{verdict.name}: {verdict.statement}", f"  instead: {verdict.corrected}"]
    # claims of papers and common beliefs are counted apart, because no paper states the beliefs
    claims, beliefs = ([verdict.holds for verdict in verdicts if verdict.belief == belief] for belief in (False, True))
    wrong = beliefs.count(False)
    more = f" Of {count(len(beliefs), 'common belief')}, {wrong} fail{'s' * (wrong == 1)}." if beliefs else ""
    counts = f"{claims.count(True)} hold on every case evaluated, {claims.count(False)} fail"
    totals = f"{count(len(claims), 'claim')} of papers: {counts}.{more}"
    return Output({"claims": [asdict(verdict) for verdict in verdicts]}, [table, *corrections, totals])
