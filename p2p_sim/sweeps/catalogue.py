"""What comes with p2p-sim: every shipped scenario and sweep, what it shows, and what it needs."""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from p2p_sim.base.shipped_files import EXAMPLES, SWEEPS, find_scenario, installed, plug_in_of, shipped
from p2p_sim.base.toml import read_toml, set_key
from p2p_sim.population.data_sets import check, data_set, data_sets
from p2p_sim.replicate.replicate import data_directory
from p2p_sim.sweeps.citation import behind

Tree = dict[str, Any]
DATA_SET, PLUG_IN, DEEP = "data set ", "plug-in ", "extra [deep]"
"""How needs are written: the first two before a name."""


@dataclass(frozen=True)
class Entry:
    """A shipped file.

    name: that `p2p-sim run`, or `p2p-sim sweep` of a sweep, takes. shows: from the file's leading comment.
    needs: data sets, extras and plug-ins; empty where it runs as it is. papers: behind it, by their BibTeX keys.
    """

    name: str
    path: Path
    sweep: bool
    shows: str
    needs: tuple[str, ...]
    papers: tuple[str, ...]


def catalogue(paper: str | None = None) -> list[Entry]:
    """All shipped files, scenarios first, each part in the order of the names; or those that rest on one paper."""
    chosen = (entry for entry in _entries() if paper is None or paper in entry.papers)
    return sorted(chosen, key=lambda entry: (entry.sweep, entry.name))


def is_here(need: str) -> bool | None:
    """Whether something of `Entry.needs` is here; None where that is not known before a run."""
    if need.startswith(DATA_SET):
        directory = data_directory()
        places = () if directory is None else (directory,)
        return not any(held.fault for held in check(data_set(need.removeprefix(DATA_SET)), places, read=False))
    if need.startswith(PLUG_IN):
        return installed(need.removeprefix(PLUG_IN))
    return find_spec("torch") is not None if need == DEEP else None


def _entries() -> Iterator[Entry]:
    for name, path in shipped().items():
        tree = read_toml(path)
        variants = list(_variants(path, tree))
        needs = dict.fromkeys(need for variant in variants for need in _needs(path, variant))
        told = shows(path.read_text(encoding="utf-8"))
        yield Entry(name.removeprefix(SWEEPS), path, "axes" in tree, told, (*needs,), (*behind(variants),))


def shows(text: str) -> str:
    """The comment with which a file begins, in one line, up to what the file needs.

    >>> shows("# A table.\\n# Two lines. Needs a file.\\nname = 1\\n# Not this.")
    'A table. Two lines.'
    """
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    return re.split(r"\s*\bNeeds\b", " ".join(lines))[0]


def _variants(path: Path, tree: Tree) -> Iterator[Tree]:
    """The scenarios of a file: itself, or of a sweep the base with each value of each axis."""
    base = tree if "axes" not in tree else read_toml(find_scenario(tree["base"], folder=path.parent))
    base.setdefault("mechanism", {}).setdefault("kind", "label_exchange")
    if "axes" not in tree:
        yield base
        return
    for key, value in tree.get("set", {}).items():
        set_key(base, key, value)
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
    """What one scenario needs."""
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
        yield from (f"{PLUG_IN}{offered[kind]}" for kind in _kinds(tree) if kind in offered)


def _kinds(node: object) -> Iterator[str]:
    """Every `kind` in a tree."""
    if isinstance(node, Mapping):
        if isinstance(node.get("kind"), str):
            yield node["kind"]
        node = list(node.values())
    for part in node if isinstance(node, list) else ():
        yield from _kinds(part)
