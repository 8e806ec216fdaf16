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
    """The output of `p2p-sim privacy`: ε at δ, or δ at ε, with its conditions, the ε₀ of one noisy label alone, the ε
    of the clustering paper's Lemma 9 where it applies, and how much better a label can be guessed.

    Args:
        question: the exchange's parameters, and who observes. answer: the computed figures.
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
    """The output of `p2p-sim calibrate`: the flip probability with which ε stays within a target in clusters of all the
    given sizes, the one for each cluster size alone, and the stated ε at the former, with its conditions. calibration:
    these figures.
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
    """The output of `p2p-sim calibrate --peers`: each number of peers, and the flip probability of the best number."""
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
    """The output of `p2p-sim calibrate --flip-prob`: the smallest number of neighbours, or that none is enough."""
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
    """Print where a certificate is and, unless `quiet`, the command that proves it again.

    path: of the certificate. verifier: the file of the program that proves it.
    """
    print(path)
    if not quiet:
        say(f"It is proved. To prove it again without p2p-sim: python {verifier} {path}")


def verdicts_output(verdicts: "Sequence[Verdict]") -> Output:
    """The output of `p2p-sim check-bounds`: a line for each claim, corrections of failed claims, and totals."""
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
    # claims of papers are counted apart from common beliefs, which no paper states
    claims, beliefs = ([verdict.holds for verdict in verdicts if verdict.belief == belief] for belief in (False, True))
    wrong = beliefs.count(False)
    more = f" Of {count(len(beliefs), 'common belief')}, {wrong} fail{'s' * (wrong == 1)}." if beliefs else ""
    counts = f"{claims.count(True)} hold on every case evaluated, {claims.count(False)} fail"
    totals = f"{count(len(claims), 'claim')} of papers: {counts}.{more}"
    return Output({"claims": [asdict(verdict) for verdict in verdicts]}, [table, *corrections, totals])
