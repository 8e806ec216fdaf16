"""Markdown tables."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown."""
    lines = (f"| {' | '.join(row)} |\n" for row in rows)
    return f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n{''.join(lines)}"


def cell(text: str) -> str:
    """A cell of plain text with code between backticks; bars and line ends are made harmless."""
    return plain(" ".join(text.split())).replace("|", "\\|")


def plain(text: str) -> str:
    """Text in which stars and angle brackets mean themselves; what is between backticks stays."""
    pieces = text.split("`")
    pieces[::2] = [piece.replace("*", "\\*").replace("<", "&lt;") for piece in pieces[::2]]
    return "`".join(pieces)
