"""Values put into pages by cog, and numbers of a page that come from nowhere.

A block of a page between `<!-- [[[cog fill("module", "of {name:.2f} users") ]]] -->` and `<!-- [[[end]]] -->` keeps its
words. Each template is looked for in it, from where the last one ended; where a name stands in the template the block
gets its value. Templates need no more words than it takes to find their places.
"""

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cogapp import Cog
from cogapp.cogapp import CogError

from docs.values import forms
from docs.values.forms import ROOT

PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
FIGURE = r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:e-?\d+)?"
"""A number as a page may have it."""
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
BEGIN, END = "\x02", "\x03"
"""Around what comes from a source, while numbers from nowhere are looked for."""


class PageError(ValueError):
    """A page whose blocks and templates do not fit."""


@dataclass
class Page:
    """A page of the documentation, from the root of the checkout; its text may be another one, for a test."""

    path: str
    text: str = ""
    used: dict[tuple[str, str], None] = field(default_factory=dict)
    """Command and test of each value that was put into it."""

    def __post_init__(self) -> None:
        self.text = self.text or (ROOT / self.path).read_text(encoding="utf-8")

    def filled(self, begin: str = "", end: str = "") -> str:
        """The text with every value anew, between two signs.

        Raises:
            PageError: a template has no place, or a block no end.
        """
        cog = Cog()

        def fill(module: str, *templates: str, cells: str = "") -> None:
            names = _Names(module, self.used)
            block = _texts(cog.cogmodule.previous, templates, names, begin, end)
            cog.cogmodule.out(_cells(block, names.value(cells), begin, end) if cells else block)

        def write(module: str, name: str) -> None:
            cog.cogmodule.out(f"{begin}{_Names(module, self.used).value(name).rstrip()}{end}\n")

        cog.options.defines = {"fill": fill, "write": write}
        try:
            return str(cog.process_string(self.text, self.path))
        except CogError as error:
            raise PageError(f"{self.path}: {error}") from None

    def write(self) -> bool:
        """Put every value into the file; whether that changed it."""
        text = self.filled()
        if text != self.text:
            (ROOT / self.path).write_text(text, encoding="utf-8")
        return text != self.text

    def faults(self) -> list[str]:
        """What is amiss, a line each: values that are not those of their source, numbers that no source has."""
        try:
            filled, marked = self.filled(), self.filled(BEGIN, END)
        except PageError as error:
            return [str(error)]
        lines = zip(self.text.splitlines(), filled.splitlines(), strict=False)
        found = [f"{self.path}: has {is_!r}, its source {should!r}" for is_, should in lines if is_ != should]
        if not found and self.text != filled:
            found = [f"{self.path}: has lines that its source has not, or lacks some"]
        return found + [f"{self.path}: {number} comes from nowhere: ...{near}..." for number, near in _loose(marked)]


class _Names:
    """What templates may name: the values of a module and the functions of `docs.values.forms`."""

    def __init__(self, module: str, used: dict[tuple[str, str], None]) -> None:
        self.values = vars(forms) | vars(importlib.import_module(f"docs.values.{module}"))
        self.used = used

    def value(self, expression: str) -> Any:
        """Of an expression of names; its source is noted."""
        sources = self.values.get("SOURCES", {})
        named = [sources[name] for name in re.findall(r"[a-z_]\w*", expression) if name in sources]
        self.used |= dict.fromkeys(named or [self.values["SOURCE"]])
        return eval(expression, dict(self.values))

    def text(self, named: str) -> str:
        """The value of `expression` or `expression:format`, written."""
        expression, colon, form = named.rpartition(":")
        if not colon or not re.fullmatch(r"#?,?[.\d]*[a-z%]?", form):
            expression, form = named, ""
        return format(self.value(expression), form)


def _texts(block: str, templates: Sequence[str], names: _Names, begin: str, end: str) -> str:
    """The block with the values of the templates."""
    done = ""
    for template in templates:
        words = re.split(r"\{([^{}]+)\}", template)
        values = [names.text(named) for named in words[1::2]]
        pattern = "".join(
            part for word, value in zip(words[::2], [*values, None], strict=True) for part in _parts(word, value)
        )
        match = re.search(rf"(?<![\d.]){pattern}(?![\d]|[.,]\d)", block)
        if match is None:
            raise CogError(f"no place for {template!r} ({', '.join(values)}) in {' '.join(block.split())[:200]!r}")
        last = 0
        for number, value in enumerate(values, 1):
            stands = re.split(r"(\s+)", match[number])
            stands[::2] = value.split()  # lines stay broken where they are
            done += f"{block[last : match.start(number)]}{begin}{''.join(stands)}{end}"
            last = match.end(number)
        block = block[last:]
    return done + block


def _parts(word: str, value: str | None) -> Iterator[str]:
    """Patterns of the words before a value, and of whatever number, interval or word stands in the value's place."""
    yield r"\s+".join(re.escape(piece) for piece in re.split(r"\s+", word))
    if value is not None:
        pieces = re.split(rf"({FIGURE})", value)
        pieces[::2] = [r"\s+".join(map(re.escape, re.split(r"\s+", piece))) for piece in pieces[::2]]
        pieces[1::2] = [FIGURE] * len(pieces[1::2])
        yield "(" + ("".join(pieces) if len(pieces) > 1 else r"[\w*]+") + ")"


def _cells(block: str, rows: Sequence[Sequence[str]], begin: str, end: str) -> str:
    """The block with the last cells of the last rows of its table, as many as there are."""
    lines = block.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith("| ")]
    if len(rows) > len(places):
        raise CogError(f"a table of {len(places)} lines has no place for {len(rows)} rows")
    for place, row in zip(places[len(places) - len(rows) :], rows, strict=True):
        kept = re.split(r"(?<!\\)\|", lines[place])[1:-1]
        kept[len(kept) - len(row) :] = [f" {begin}{cell}{end} " if cell else "  " for cell in row]
        lines[place] = f"|{'|'.join(kept)}|"
    return "\n".join(lines) + "\n"


def _loose(marked: str) -> list[tuple[str, str]]:
    """Numbers outside of what is marked, given, code or no text, each with what stands around it."""
    given = [re.escape(one.strip()) for line in re.findall(r"<!-- given: (.*?) -->", marked) for one in line.split("|")]
    text = " ".join(CODE.sub(" ", marked).split())
    covered = bytearray(len(text))
    for pattern in (UNREAD, *map(re.compile, (rf"{BEGIN}[^{END}]*{END}", *GIVEN, *given))):
        for match in pattern.finditer(text):
            covered[match.start() : match.end()] = b"x" * (match.end() - match.start())
    return [
        (match.group(), re.sub(f"[{BEGIN}{END}]", "", text[max(0, match.start() - 50) : match.end() + 30]))
        for match in NUMBER.finditer(text)
        if not any(covered[match.start() : match.end()])
    ]
