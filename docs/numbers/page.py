"""A page held against its sources: passages that are not there, and numbers that come from nowhere."""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parent.parent.parent
PUBLISHED = ROOT / "results" / "published"

CODE = re.compile(r"^([`~]{3,}).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
UNREAD = re.compile(r"`[^`]*`|(?<=\])\([^)]*\)|<!--.*?-->")
"""Inline code, targets of links, comments: what the reader does not take for a result."""
NUMBER = re.compile(r"(?<![\w.^⁻-])(?:\d{1,3}(?:,\d{3})+|\d*\.\d+|\d{3,}|\d+(?=\s?%))(?![\w])")
"""What looks measured: decimals, percentages, three digits or more."""
SETTING = r"(?:[\d.,]+\d|\d+)(?:e-?\d+)?%?"
GIVEN = (
    r"(?:Theorems?|Lemmas?|Coroll\w+|Algorithms?|Figures?|Tables?|Sections?|Remarks?|Python) [\d.]*\d",
    rf"\w['₀-₉]?(?:\([^)]*\))? ?(?:=|<=|>=|<|>|≤|≥) ?[-±]?{SETTING}(?:(?:, | and | or | to | or | in )[-±]?{SETTING})*",
    r"95%",
)
"""What is no result on any page: numbers of theorems, values given to a symbol (also several), the intervals' level."""

WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
"""Small numbers as the pages spell them."""


@dataclass(frozen=True)
class Source:
    """Where passages of a page come from.

    Attributes:
        command: makes the numbers. test: runs it at reduced size, "file.py::name" in tests/. passages: writes them.
    """

    command: str
    test: str
    passages: Callable[[], Iterable[str]]


@dataclass(frozen=True)
class Page:
    """A page of the documentation.

    Attributes:
        path: from the project's root. sources: of its numbers.
        given: patterns of settings and definitions on this page, which no command makes.
    """

    path: str
    sources: Sequence[Source]
    given: Sequence[str] = ()

    def read(self) -> str:
        """Its text without blocks of code, in one line."""
        return one_line(CODE.sub(" ", (ROOT / self.path).read_text(encoding="utf-8")))


def one_line(text: str) -> str:
    """Text with every run of white space as one blank."""
    return " ".join(text.split())


def faults(page: Page, text: str | None = None) -> list[str]:
    """What is amiss on a page, a line each: passages that it lacks, numbers that no passage has.

    Args:
        page: with its sources. text: of the page, in one line; read from disk if absent.
    """
    text = page.read() if text is None else text
    covered = bytearray(len(text))
    found = []
    for source in page.sources:
        for passage in map(one_line, source.passages()):
            places = [match.span() for match in re.finditer(rf"(?<![\d.]){re.escape(passage)}(?!\d)", text)]
            if not places:
                found.append(f"{page.path}: lacks {passage!r} ({source.command}); has {_nearest(passage, text)!r}")
            for start, end in places:
                covered[start:end] = b"x" * (end - start)
    return found + [
        f"{page.path}: {number} comes from nowhere: ...{near}..." for number, near in _loose(page, text, covered)
    ]


def _loose(page: Page, text: str, covered: bytearray) -> list[tuple[str, str]]:
    """Numbers outside of what is covered, given or code, each with what stands around it."""
    for pattern in (UNREAD, *map(re.compile, (*GIVEN, *page.given))):
        for match in pattern.finditer(text):
            covered[match.start() : match.end()] = b"x" * (match.end() - match.start())
    return [
        (match.group(), text[max(0, match.start() - 50) : match.end() + 30])
        for match in NUMBER.finditer(text)
        if not any(covered[match.start() : match.end()])
    ]


def _nearest(passage: str, text: str) -> str:
    """The stretch of a text that is most like a passage."""
    match = difflib.SequenceMatcher(None, text, passage, autojunk=False).find_longest_match()
    start = max(0, match.a - match.b)
    return text[start : start + len(passage)]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, as it must stand in the page."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" if line is not lines[1] else f"|{'|'.join(line)}|" for line in lines)


def short(value: float, digits: int = 3) -> str:
    """A number below one as the pages print it: .023."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1.0 else f"{value:.{digits}f}"


def interval(mean: float, low: float, high: float, digits: int = 3) -> str:
    """A mean with its 95% interval: .075 [.064, .086]."""
    return f"{short(mean, digits)} [{short(low, digits)}, {short(high, digits)}]"


def published(study: str, file: str = "table.csv") -> pd.DataFrame:
    """A table or the rows of a published study."""
    path = PUBLISHED / study / file
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
