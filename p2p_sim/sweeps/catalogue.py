"""The catalogue of shipped scenarios and sweeps: the purpose, the needs and the papers of each file."""

import copy
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

from p2p_sim.base import (
    EXAMPLES,
    SWEEPS,
    InputError,
    find_scenario,
    installed,
    plug_in_of,
    read_toml,
    set_key,
    shipped,
    url,
    version,
)
from p2p_sim.population import check, data_set
from p2p_sim.population.data_sets import data_sets
from p2p_sim.replicate import data_directory
from p2p_sim.scenario import Scenario

TABLE = Path(__file__).with_name("papers.toml")
PROJECT = "p2p_sim"


@dataclass(frozen=True)
class Reference:
    """One entry of a bibliography.

    key, type: as in BibTeX. fields: the values by name; authors are a list. used: the settings, as "key = value", that
    the reference describes.
    """

    key: str
    type: str
    fields: Mapping[str, Any]
    used: tuple[str, ...]

    def bibtex(self) -> str:
        """The entry as BibTeX. Double braces keep the title's capital letters."""
        lines = []
        for name, value in self.fields.items():
            text = " and ".join(value) if isinstance(value, list) else str(value)
            lines.append(f"  {name} = {{{{{text}}}}}," if name == "title" else f"  {name} = {{{text}}},")
        return "\n".join((f"@{self.type}{{{self.key},", *lines, "}"))


@cache
def references() -> dict[str, Reference]:
    """All references in `papers.toml` by BibTeX key: first the project, then papers."""
    entries = {}
    for key, entry in tomllib.loads(TABLE.read_text(encoding="utf-8")).items():
        if isinstance(entry, dict):
            fields = {name: value for name, value in entry.items() if name not in ("type", "used", "eprint")}
            if key == PROJECT:
                fields |= {"version": version()} | ({"url": address} if (address := url()) else {})
            if "eprint" in entry:
                fields |= {"eprint": entry["eprint"], "archiveprefix": "arXiv"}
            entries[key] = Reference(key, entry["type"], fields, tuple(entry["used"]))
    return entries


def cited(scenarios: Iterable[Scenario]) -> dict[str, list[str]]:
    """BibTeX keys of the papers behind scenarios, each with the settings that the paper describes. A setting is a text
    such as "mechanism.kind = label_exchange". The first key is the simulator's own key, without settings.
    """
    return {PROJECT: [], **behind(scenario.model_dump(mode="json") for scenario in scenarios)}


def behind(trees: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """BibTeX keys of the papers behind scenarios, each with the settings that the paper describes. A setting is a text
    such as "mechanism.kind = label_exchange". `trees` are the scenarios as nested mappings.
    """
    settings = {line for tree in trees for line in _settings(tree)}
    shared = {key: [line for line in reference.used if line in settings] for key, reference in references().items()}
    return {key: lines for key, lines in shared.items() if lines}


def check_paper(key: str) -> str:
    """Return `key`, the BibTeX key of a paper. An unknown key raises an InputError that lists the known keys."""
    papers = [reference for reference in references() if reference != PROJECT]
    if key not in papers:
        raise InputError(f"--paper {key}: must be one of {', '.join(papers)}")
    return key


def _settings(tree: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields "key = value" for each text in a nested mapping. Keys are dotted.

    Args:
        tree: the mapping. path: the beginning of the dotted keys, such as "mechanism."; empty at the top.
    """
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{path}{name}.")
        elif isinstance(value, str):
            yield f"{path}{name} = {value}"


Tree = dict[str, Any]
DATA_SET, PLUG_IN, DEEP = "data set ", "plug-in ", "extra [deep]"
"""Texts in `Entry.needs`: a name follows the first two texts, but not the third."""


@dataclass(frozen=True)
class Entry:
    """A shipped file.

    name: the name for `p2p-sim run` or, for a sweep, `p2p-sim sweep`. shows: the purpose, from the leading comment.
    needs: data sets, extras, plug-ins or a GPU; empty if nothing is needed. papers: BibTeX keys.
    """

    name: str
    path: Path
    sweep: bool
    shows: str
    needs: tuple[str, ...]
    papers: tuple[str, ...]


def catalogue(paper: str | None = None) -> list[Entry]:
    """All shipped files, or only the files that use one paper. Scenarios come before sweeps, both sorted by name.

    paper: a BibTeX key; an unknown key gives an empty list.
    """
    chosen = (entry for entry in _entries() if paper is None or paper in entry.papers)
    return sorted(chosen, key=lambda entry: (entry.sweep, entry.name))


def is_here(need: str) -> bool | None:
    """Whether this machine has what a shipped file needs. None if only a run can tell.

    need: "data set NAME", "plug-in NAME" or "extra [deep]" (PyTorch). Any other text, such as "a GPU", gives None.
    """
    if need.startswith(DATA_SET):
        directories = tuple(filter(None, [data_directory()]))
        return not any(file.fault for file in check(data_set(need.removeprefix(DATA_SET)), directories, read=False))
    if need.startswith(PLUG_IN):
        return installed(need.removeprefix(PLUG_IN))
    return find_spec("torch") is not None if need == DEEP else None


def _entries() -> Iterator[Entry]:
    """Yields an entry for every shipped scenario and sweep."""
    for name, path in shipped().items():
        tree = read_toml(path)
        variants = list(_variants(path, tree))
        needs = dict.fromkeys(need for variant in variants for need in _needs(path, variant))
        yield Entry(
            name=name.removeprefix(SWEEPS),
            path=path,
            sweep="axes" in tree,
            shows=shows(path.read_text(encoding="utf-8")),
            needs=(*needs,),
            papers=(*behind(variants),),
        )


def shows(text: str) -> str:
    """The comment at the beginning of a file, in one line, up to the word "Needs".

    >>> shows("# A table.\\n# Two lines. Needs a file.\\nname = 1\\n# Not this.")
    'A table. Two lines.'
    """
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return re.split(r"\s*\bNeeds\b", " ".join(line.lstrip("# ").rstrip() for line in comment))[0]


def _variants(path: Path, tree: Tree) -> Iterator[Tree]:
    """Yields scenarios, as nested mappings, that together have every setting of a shipped file. A scenario's file gives
    only its own scenario. A sweep gives the base scenario with one value of one axis at a time. Combinations are left
    out.

    Args:
        path: the file's path. tree: its content.
    """
    base = tree if "axes" not in tree else read_toml(find_scenario(tree["base"], folder=path.parent))
    base.setdefault("mechanism", {}).setdefault("kind", "label_exchange")
    if "axes" not in tree:
        yield base
        return
    for key, value in tree.get("set", {}).items():
        set_key(base, key, value)
    # one axis varies at a time, because a combination of values needs nothing more than its single values
    for axis in tree["axes"]:
        keys = axis.get("keys") or [axis["key"]]
        for value in axis.get("values", ()):
            variant = copy.deepcopy(base)
            for key, part in zip(keys, value if "keys" in axis else [value], strict=True):
                set_key(variant, key, part)
            yield variant
        if "values" not in axis:
            yield base


def _needs(path: Path, tree: Tree) -> Iterator[str]:
    """Yields what a scenario needs besides p2p-sim: "data set NAME", "extra [deep]", "a GPU" or "plug-in NAME".

    Args:
        path: the shipped file's path. tree: the scenario as a nested mapping.
    """
    kind = tree.get("population", {}).get("kind")
    if kind in data_sets():
        yield f"{DATA_SET}{kind}"
    learner = tree.get("learner", {})
    if learner.get("kind") == "convolutional":
        yield DEEP
    if learner.get("device") == "cuda":
        yield "a GPU"
    if path.is_relative_to(EXAMPLES):
        offered = plug_in_of(path.parent)
        kinds = (value for key, value in keys_within(tree) if key == "kind" and isinstance(value, str))
        yield from (f"{PLUG_IN}{offered[kind]}" for kind in kinds if kind in offered)


def keys_within(node: object) -> Iterator[tuple[str, Any]]:
    """Yields every key and value of a tree of mappings and lists, at any depth."""
    if isinstance(node, Mapping):
        yield from node.items()
        node = list(node.values())
    for part in node if isinstance(node, list) else ():
        yield from keys_within(part)
