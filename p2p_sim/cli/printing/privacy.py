"""What `privacy` and `calibrate` show."""

import json

from rich.console import Console
from rich.table import Table

from analysis.privacy.statement.record import whole
from p2p_sim.cli.printing.values import at_least, at_most, finite, number, print_conditions
from p2p_sim.cli.questions import Answer, Calibration, Question


def print_privacy(question: Question, found: Answer, as_json: bool) -> None:
    """One statement, with its conditions, beside the local figure and the paper's."""
    bound = found.bound
    if as_json:
        extra = (
            {"delta_lower": found.delta_lower, "delta_upper": found.delta_upper}
            if found.delta_upper is not None
            else {}
        )
        figures = {**whole(bound), **extra, "epsilon_local": found.local, "epsilon_paper_lemma9": found.lemma9.epsilon}
        print(json.dumps(finite(figures), allow_nan=False))
        return
    table = Table(show_header=False)
    table.add_row(
        "observer", bound.observer + (f" of {question.members or 1}" if bound.observer == "coalition" else "")
    )
    if found.delta_upper is not None:
        table.add_row(f"δ at ε = {bound.epsilon_upper:g}, at most", at_most(found.delta_upper))
        table.add_row("  no smaller δ holds than", at_least(found.delta_lower))
    else:
        table.add_row(f"ε at δ = {bound.delta:g}, at most", at_most(bound.epsilon_upper))
        table.add_row("  no smaller ε holds than", at_least(bound.epsilon_lower))
        if bound.observer == "learner":
            table.add_row("  the paper's Lemma 9", str(found.lemma9))
    table.add_row("noisy label alone, ε₀", at_most(found.local))
    table.add_row("basis", bound.basis)
    Console(soft_wrap=True).print(table)
    print_conditions(bound)


def print_calibration(found: Calibration, as_json: bool) -> None:
    """The flip probability for all clusters, and for each size on its own."""
    if as_json:
        figures = {"flip_prob": found.flip_prob, "sampling_rate": found.sampling_rate}
        each = {str(size): alpha for size, alpha in found.each.items()}
        print(json.dumps(finite({**figures, "flip_prob_by_size": each, **whole(found.bound)}), allow_nan=False))
        return
    table = Table(show_header=False)
    table.add_row("flip probability α, all clusters", number(found.flip_prob))
    for size, alpha in found.each.items() if len(found.each) > 1 else ():
        table.add_row(f"  clusters of {size:,} alone", number(alpha))
    table.add_row(
        f"certified ε at δ = {found.bound.delta:g}", f"{at_most(found.bound.epsilon_upper)} (target {found.epsilon:g})"
    )
    table.add_row("observer", found.bound.observer)
    table.add_row("basis", found.bound.basis)
    Console(soft_wrap=True).print(table)
    print_conditions(found.bound)
