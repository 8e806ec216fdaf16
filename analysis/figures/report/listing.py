"""A scenario's tree as TOML, to be read and to be run again."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

FIRST = (
    *("name", "seed", "replicates", "engine", "groups", "population", "clusters", "mechanism", "network"),
    *("adversaries", "learner", "privacy"),
)
"""Keys of a scenario, in the order of the documentation."""


def toml(tree: Mapping[str, Any]) -> str:
    """A nested mapping of JSON values as TOML text; keys that are None are left out, TOML has no word for them.

    >>> print(toml({"name": "a", "network": {"loss": 0.1, "latency": {"kind": "constant"}}}))
    name = "a"
    <BLANKLINE>
    [network]
    loss = 0.1
    <BLANKLINE>
    [network.latency]
    kind = "constant"
    """
    return "\n\n".join(blocks(tree))


def blocks(tree: Mapping[str, Any]) -> list[str]:
    """The same, table by table."""
    return _tables(tree, ())


def scenario_in_order(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario's tree in the order in which one is written: what it is, who, how, and of each part its kind first."""
    first = [key for key in (*FIRST, "kind") if key in tree]
    order = [*first, *(key for key in tree if key not in first)]
    return {key: scenario_in_order(tree[key]) if isinstance(tree[key], Mapping) else tree[key] for key in order}


def sweep_file(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A sweep as its file would say it, beside the base scenario saved under the name of `base_file`."""
    axes = []
    for axis in manifest["axes"]:
        keys, values = axis["keys"], axis["values"]
        told = {"key": keys[0], "values": [value[0] for value in values]} if len(keys) == 1 else {**axis}
        axes.append({**told, "labels": axis.get("labels")})
    head = {"name": manifest["name"], "base": base_file(manifest), "replicates": manifest.get("replicates")}
    return {**head, "axes": axes, "plots": list(manifest.get("plots") or [])}


def base_file(manifest: Mapping[str, Any]) -> str:
    """The file of a sweep's base scenario: called like the scenario, unless the sweep itself is called so.

    >>> base_file({"name": "noise", "scenario": {"name": "tumours"}})
    'tumours.toml'
    >>> base_file({"name": "tumours", "scenario": {"name": "tumours"}})
    'tumours-base.toml'
    """
    name = str(manifest["scenario"].get("name", "base"))
    return f"{name}-base.toml" if name == manifest["name"] else f"{name}.toml"


def _tables(tree: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """This table's text, then those of the tables in it."""
    plain = {key: value for key, value in tree.items() if value is not None and not _nested(value)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    if path and (lines or not any(isinstance(value, Mapping) for value in tree.values())):
        lines.insert(0, f"[{'.'.join(map(_key, path))}]")
    found = ["\n".join(lines)] if lines else []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found += _tables(value, (*path, key))
        elif _nested(value):
            for entry in value:
                inner = [f"{_key(k)} = {_value(v)}" for k, v in entry.items() if v is not None]
                found.append("\n".join([f"[[{'.'.join(map(_key, (*path, key)))}]]", *inner]))
    return found


def _nested(value: Any) -> bool:
    """Whether a value gets headings of its own: a table, or a list of tables."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(entry) for entry in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, int | float):
        return repr(value)
    return _text(str(value))


def _text(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, but for the delete character and halves of pairs."""
    whole = text.encode("utf-8", "replace").decode()
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
