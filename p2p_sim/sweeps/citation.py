"""What to cite: the project, and the papers behind what a scenario uses, as BibTeX."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p2p_sim.base.errors import InputError
from p2p_sim.base.packages import url, version

if TYPE_CHECKING:
    from p2p_sim.scenario import Scenario

TABLE = Path(__file__).with_name("papers.toml")
PROJECT = "p2p_sim"


@dataclass(frozen=True)
class Reference:
    """One entry of a bibliography.

    key, type: of BibTeX. fields: names and values, the authors in a list. used: keys and values, as "key = value", of
    scenarios that rest on it.
    """

    key: str
    type: str
    fields: Mapping[str, Any]
    used: tuple[str, ...]

    def bibtex(self) -> str:
        """The entry as BibTeX, in UTF-8; the title keeps its capital letters."""
        shown = []
        for name, value in self.fields.items():
            text = " and ".join(value) if isinstance(value, list) else str(value)
            shown.append(f"  {name} = {{{{{text}}}}}," if name == "title" else f"  {name} = {{{text}}},")
        return "\n".join((f"@{self.type}{{{self.key},", *shown, "}"))


@cache
def references() -> dict[str, Reference]:
    """All references by their key: the project first, then papers."""
    found = {}
    for key, entry in _table().items():
        if isinstance(entry, dict):
            fields = {name: value for name, value in entry.items() if name not in ("type", "used", "eprint")}
            if key == PROJECT:
                fields |= {"version": version()} | ({"url": address} if (address := url()) else {})
            if "eprint" in entry:
                fields |= {"eprint": entry["eprint"], "archiveprefix": "arXiv"}
            found[key] = Reference(key, entry["type"], fields, tuple(entry["used"]))
    return found


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def cited(scenarios: "Iterable[Scenario]") -> dict[str, list[str]]:
    """What stands behind some scenarios, by the reference's key: the keys and values that rest on it.

    The project comes first. A plug-in's kinds have no reference.
    """
    return {PROJECT: [], **behind(scenario.model_dump(mode="json") for scenario in scenarios)}


def behind(trees: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The papers behind some scenarios, given as trees of keys and values: by key what rests on each."""
    settings = {line for tree in trees for line in _settings(tree)}
    shared = {key: [line for line in reference.used if line in settings] for key, reference in references().items()}
    return {key: lines for key, lines in shared.items() if lines}


def check_paper(key: str) -> str:
    """The key, if a paper has it; else InputError."""
    papers = [known for known in references() if known != PROJECT]
    if key not in papers:
        raise InputError(f"--paper {key}: must be one of {', '.join(papers)}")
    return key


def _settings(tree: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every key with a text as its value, as "key = value"."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{path}{name}.")
        elif isinstance(value, str):
            yield f"{path}{name} = {value}"
