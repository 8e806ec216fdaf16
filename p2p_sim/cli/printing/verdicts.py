"""What `check-bounds` shows: a table of verdicts, or JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from p2p_sim.base.notebook_view import count
from p2p_sim.cli.printing.numbers import print_object, say, show
from p2p_sim.privacy.claims import Verdict


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
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


def print_verdicts_json(verdicts: Iterable[Verdict]) -> None:
    """One JSON object, {"claims": [...]}."""
    print_object({"claims": [asdict(verdict) for verdict in verdicts]})
