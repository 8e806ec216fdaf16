"""Printing of numbers, tables and sentences by the commands."""

import json
import math
import sys
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.measure import Measurement
from rich.table import Table

from p2p_sim.base import console, four_digits
from p2p_sim.base import finite as finite
from p2p_sim.privacy import EACH_NETWORK, PrivacyBound, promises, protects

if TYPE_CHECKING:
    import pandas as pd

Line = tuple[str, str]
PROSE, PIPED, UNLIMITED = 80, 100, 100_000
"""Widths in columns: of sentences on a terminal, of lines in a file or a pipe, and of a table while it is measured."""

ODDITIES = {
    "isolated_users": "users have no neighbour: such a user fetches nothing, and nobody fetches her label",
    "disconnected_clusters": "clusters consist of several parts that are not connected",
    "dropped_edges": "edges of the file join two clusters or touch no users of this replicate, and were left out",
}
"""For each column that counts something unusual about an overlay (the graph of who may ask whom), words for this."""


def worst_row(rows: "pd.DataFrame") -> dict[str, Any]:
    """The row of the results with the largest certified ε against the learner (column "epsilon_upper"), as a dictionary
    from column to value. A row belongs to one point (combination of swept values) and one random repetition.
    If several rows have the largest ε, the first of these is taken.
    """
    position = int(rows["epsilon_upper"].astype(float).argmax())
    return {str(column): rows[column].iloc[position] for column in rows}


class Verbatim(str):
    """Text that is printed with its own line breaks."""


@dataclass(frozen=True)
class Output:
    """The results of a command: a record for JSON, and tables and sentences for people.

    record: all results, for one JSON object. parts: what people read, in order. A part is a table, a sentence, the path
    of a file, or a privacy bound; the conditions of a bound are printed.
    """

    record: Mapping[str, Any]
    parts: Sequence[Table | str | PrivacyBound | Path]


def print_output(output: Output, as_json: bool) -> None:
    """Print an output: if `as_json`, the record as one JSON object; otherwise the parts for people."""
    if as_json:
        print_object(output.record)
        return
    for part in output.parts:
        match part:
            case Table():
                show(part)
            case PrivacyBound():
                print_conditions(part)
            case Path() | Verbatim():
                print(part)
            case str():
                say(part)


def two_columns(title: str | None, *parts: Iterable[Line], label_width: int = 0) -> Table:
    """A table of two columns with a line between its parts. The first column is at least `label_width` wide."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(min_width=label_width)
    table.add_column()
    for part in parts:
        for line in part:
            table.add_row(*line)
        table.add_section()
    return table


def show(table: Table, stderr: bool = False) -> None:
    """Print a table. On a terminal, the table has boxes and is no wider than the terminal. Elsewhere, it has plain
    columns in lines of at most 100 characters.

    In plain columns no word is broken. If the words need more than 100 characters, lines are longer.
    """
    out = console(stderr)
    if out.is_terminal:
        out.print(table)
        return
    table.box, table.pad_edge, table.padding, table.collapse_padding = None, False, (0, 2, 0, 0), False
    # measure the width that the longest words need
    out.width = UNLIMITED
    out.width = max(PIPED, Measurement.get(out, out.options, table).minimum)
    with out.capture() as captured:
        out.print(table)
    text = "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    print(text, end="", file=sys.stderr if stderr else sys.stdout)


def say(*sentences: str) -> None:
    """Print sentences in lines of at most 80 columns on a terminal, and of at most 100 elsewhere. Longer words stay
    whole.
    """
    out = console()
    width = min(out.width, PROSE) if out.is_terminal else PIPED
    for sentence in sentences:
        indent = " " * (len(sentence) - len(sentence.lstrip()) + 2 * sentence.lstrip().startswith("- "))
        lines = textwrap.wrap(sentence, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
        print(*lines, sep="\n")


def print_object(record: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(finite(record), allow_nan=False))


def warn_of_oddities(counts: Mapping[str, str]) -> None:
    """Give a Python warning for each unusual thing about an overlay, the graph of who may ask whom. counts: for each
    name of such a thing, a text that says how often the thing occurs. The names are "isolated_users",
    "disconnected_clusters" and "dropped_edges" (edges of the overlay's file that were left out).
    """
    for column, text in counts.items():
        warnings.warn(f"network.overlay: {text} {ODDITIES[column]}", stacklevel=2)


def more_on_disk(replicates: int) -> str:
    """A remark such as " (3 more on disk)" if `replicates` is 3; empty for 0. An earlier run left these further
    replicates in the directory.
    """
    return f" ({replicates:,} more on disk)" if replicates else ""


def print_conditions(bound: PrivacyBound) -> None:
    """Print whose data a privacy bound (ε at δ) protects, and from which observer. Then print the bound's conditions,
    one on each line. If ε is infinite or δ is at least 1/2, nothing is promised, and the conditions are left out.
    """
    say(protects(bound))
    if promises(bound):
        say(*(f"- {condition}" for condition in bound.conditions), *([EACH_NETWORK] if bound.conditional_on else ()))


def number(value: float | None) -> str:
    """A number as text, rounded to four significant digits; None is "not applicable", and an infinite number "∞"."""
    return "not applicable" if value is None else "∞" if math.isinf(value) else f"{value:.4g}"


def at_most(value: float | None) -> str:
    """An upper bound as text, rounded up to four significant digits; None is "not applicable".

    >>> at_most(0.74211), at_most(0.5), at_most(None)
    ('0.7422', '0.5', 'not applicable')
    """
    return number(None if value is None else four_digits(value, up=True))


def at_least(value: float | None) -> str:
    """A lower bound as text, rounded down to four significant digits; None is "not applicable".

    >>> at_least(0.74219), at_least(0.0)
    ('0.7421', '0')
    """
    return number(None if value is None else four_digits(value, up=False))


def span(values: "pd.Series[Any]") -> str:
    """The smallest and the largest of some numbers as a text such as "2 to 5", or one number if they are equal."""
    low, high = values.min(), values.max()
    form = ",d" if values.dtype.kind == "i" else ".4g"
    return f"{low:{form}}" if low == high else f"{low:{form}} to {high:{form}}"
