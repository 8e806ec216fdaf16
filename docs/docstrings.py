"""Docstrings, which are plain text, made ready for the reference, as a Sphinx extension."""

import re
from collections.abc import Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def as_restructured(lines: list[str]) -> list[str]:
    """A docstring, which is plain text, with the signs escaped that reStructuredText would read as its own."""
    found, example = [], False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        pieces = line.split("`")
        if not example:
            pieces[::2] = [re.sub(r"([|*]|_(?!\w))", r"\\\1", piece) for piece in pieces[::2]]
        found.append("`".join(pieces))
    return found


def with_fields_listed(lines: list[str], fields: Container[str]) -> list[str]:
    """A docstring whose lines "field: meaning" have become a list."""
    found, within = [], False
    for line in lines:
        named = re.match(r"(\w+(?:, \w+)*): ", line)
        begins = named is not None and all(name in fields for name in named[1].split(", "))
        if begins and not within:
            found.append("")
        within = begins or (within and bool(line.strip()))
        found.append(f"* {line}" if begins else f"  {line}" if within else line)
    return found


def _docstring(app: "Sphinx", what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = with_fields_listed(as_restructured(lines), getattr(obj, "__dataclass_fields__", ()))


def setup(app: "Sphinx") -> dict[str, bool]:
    """Called by Sphinx: let the docstrings pass through the functions above."""
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before the sections are read
    return {"parallel_read_safe": True, "parallel_write_safe": True}
