"""What `privacy`, `calibrate`, `certify` and `check-bounds` show."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from p2p_sim.base.notebook_view import count
from p2p_sim.cli.printing.numbers import print_conditions, print_object, print_table, say, show
from p2p_sim.privacy.questions import Answer, Calibration, EnoughNeighbours, Question
from p2p_sim.privacy.statement_record import whole
from p2p_sim.privacy.wording import ADDS_NOTHING, answer_lines, calibration_lines, gain, neighbour_lines

if TYPE_CHECKING:
    from p2p_sim.privacy.claims import Verdict


def print_privacy(question: Question, found: Answer, as_json: bool) -> None:
    """One statement, with its conditions, beside the local figure and the paper's."""
    bound = found.bound
    if as_json:
        ends = {"delta_lower": found.delta_lower, "delta_upper": found.delta_upper}
        figures = whole(bound) | ({} if found.delta_upper is None else ends)
        print_object({**figures, "epsilon_local": found.local, "epsilon_paper_lemma9": found.lemma9.epsilon,
                      "advantage_uniform": found.advantage})  # fmt: skip
        return
    print_table(None, answer_lines(question, found))
    say(gain(question, found.advantage))
    print_conditions(bound)


def print_calibration(found: Calibration, as_json: bool) -> None:
    """The flip probability for all clusters, and for each size on its own."""
    if as_json:
        figures = {"flip_prob": found.flip_prob, "sampling_rate": found.sampling_rate, "members": found.members}
        each = {str(size): alpha for size, alpha in found.each.items()}
        print_object({**figures, "flip_prob_by_size": each, **whole(found.bound), "epsilon_local": found.local})
        return
    print_table(None, calibration_lines(found))
    if found.noise_alone:
        say(ADDS_NOTHING)
    print_conditions(found.bound)


def print_neighbours(found: EnoughNeighbours, as_json: bool) -> None:
    """The smallest number of neighbours for a target, or that none is enough."""
    if as_json:
        figures = {"degree": found.degree, "largest_degree": found.most, "target_epsilon": found.target}
        ends = {"epsilon_everybody": found.everybody.epsilon_upper, "epsilon_local": found.local}
        print_object({**figures, **whole(found.bound), **ends})
        return
    print_table(None, neighbour_lines(found))
    print_conditions(found.bound)


def print_certified(path: Path, verifier: Path, quiet: bool) -> None:
    """Where a certificate is, and how to prove it again."""
    print(path)
    if not quiet:
        say(f"It is proved. Without p2p-sim: python {verifier} {path}")


def print_verdicts(verdicts: "Sequence[Verdict]") -> None:
    """One line a claim, the corrections of those that fail, and totals."""
    table = Table(title="The papers' claims, checked numerically", title_justify="left")
    table.add_column("claim")
    table.add_column("verdict")
    table.add_column("claimed over true: tightest to loosest; or a counter-example", overflow="fold")
    for verdict in verdicts:
        text = f"{verdict.tightest:.4g} to {verdict.loosest:.4g} in {verdict.cases} cases"
        if verdict.counterexample is not None:
            text = ", ".join(f"{name} {value:.4g}" for name, value in verdict.counterexample.items())
        table.add_row(verdict.name, "holds" if verdict.holds else Text("fails", style="bold red"), text)
    show(table)
    for verdict in verdicts:
        if not verdict.holds:
            say(f"{verdict.name}: {verdict.statement}", f"  instead: {verdict.corrected}")
    claims, beliefs = ([one.holds for one in verdicts if one.belief == belief] for belief in (False, True))
    wrong = beliefs.count(False)
    more = f" Of {count(len(beliefs), 'common belief')}, {wrong} fail{'s' * (wrong == 1)}." if beliefs else ""
    told = f"{claims.count(True)} hold on every case evaluated, {claims.count(False)} fail"
    say(f"{count(len(claims), 'claim')} of papers: {told}.{more}")


def print_verdicts_json(verdicts: "Iterable[Verdict]") -> None:
    """One JSON object, {"claims": [...]}."""
    print_object({"claims": [asdict(verdict) for verdict in verdicts]})
