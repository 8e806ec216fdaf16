"""What `privacy`, `calibrate`, `certify` and `check-bounds` show."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from p2p_sim.base.notebook_view import count
from p2p_sim.cli.printing.numbers import Output, say, two_columns
from p2p_sim.privacy.questions import Answer, Question
from p2p_sim.privacy.statement_record import whole
from p2p_sim.privacy.target_questions import Calibration, EnoughNeighbours
from p2p_sim.privacy.wording import ADDS_NOTHING, answer_lines, calibration_lines, gain, neighbour_lines

if TYPE_CHECKING:
    from p2p_sim.privacy.claims import Verdict


def privacy_output(question: Question, found: Answer) -> Output:
    """One statement, with its conditions, beside the local figure and the paper's."""
    ends = {"delta_lower": found.delta_lower, "delta_upper": found.delta_upper}
    record = {
        **whole(found.bound),
        **({} if found.delta_upper is None else ends),
        "epsilon_local": found.local,
        "epsilon_paper_lemma9": found.lemma9.epsilon,
        "advantage_uniform": found.advantage,
    }
    table = two_columns(None, answer_lines(question, found))
    return Output(record, [table, gain(question, found.advantage), found.bound])


def calibration_output(found: Calibration) -> Output:
    """The flip probability for all clusters, and for each size on its own."""
    record = {
        "flip_prob": found.flip_prob,
        "sampling_rate": found.sampling_rate,
        "members": found.members,
        "flip_prob_by_size": {str(size): alpha for size, alpha in found.each.items()},
        **whole(found.bound),
        "epsilon_local": found.local,
    }
    remarks = [ADDS_NOTHING] if found.noise_alone else []
    return Output(record, [two_columns(None, calibration_lines(found)), *remarks, found.bound])


def neighbours_output(found: EnoughNeighbours) -> Output:
    """The smallest number of neighbours for a target, or that none is enough."""
    record = {
        "degree": found.degree,
        "largest_degree": found.most,
        "target_epsilon": found.target,
        **whole(found.bound),
        "epsilon_everybody": found.everybody.epsilon_upper,
        "epsilon_local": found.local,
    }
    return Output(record, [two_columns(None, neighbour_lines(found)), found.bound])


def print_certified(path: Path, verifier: Path, quiet: bool) -> None:
    """Where a certificate is, and how to prove it again."""
    print(path)
    if not quiet:
        say(f"It is proved. Without p2p-sim: python {verifier} {path}")


def verdicts_output(verdicts: "Sequence[Verdict]") -> Output:
    """One line a claim, the corrections of those that fail, and totals; {"claims": [...]}."""
    table = Table(title="The papers' claims, checked numerically", title_justify="left")
    table.add_column("claim")
    table.add_column("verdict")
    table.add_column("claimed over true: tightest to loosest; or a counter-example", overflow="fold")
    for verdict in verdicts:
        text = f"{verdict.tightest:.4g} to {verdict.loosest:.4g} in {verdict.cases} cases"
        if verdict.counterexample is not None:
            text = ", ".join(f"{name} {value:.4g}" for name, value in verdict.counterexample.items())
        table.add_row(verdict.name, "holds" if verdict.holds else Text("fails", style="bold red"), text)
    failed = [verdict for verdict in verdicts if not verdict.holds]
    corrected = [text for one in failed for text in (f"{one.name}: {one.statement}", f"  instead: {one.corrected}")]
    claims, beliefs = ([one.holds for one in verdicts if one.belief == belief] for belief in (False, True))
    wrong = beliefs.count(False)
    more = f" Of {count(len(beliefs), 'common belief')}, {wrong} fail{'s' * (wrong == 1)}." if beliefs else ""
    told = f"{claims.count(True)} hold on every case evaluated, {claims.count(False)} fail"
    totals = f"{count(len(claims), 'claim')} of papers: {told}.{more}"
    return Output({"claims": [asdict(verdict) for verdict in verdicts]}, [table, *corrected, totals])
