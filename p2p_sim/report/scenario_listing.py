"""A scenario's nested mapping as TOML text, for reading and for running the scenario again."""

import re
from collections.abc import Mapping
from typing import Any

import tomli_w

FIRST = (
    *("name", "seed", "replicates", "engine", "groups", "population", "clusters", "mechanism", "network"),
    *("adversaries", "learner", "privacy"),
)
"""Keys of a scenario, in the order of the documentation."""


def toml(tree: Mapping[str, Any]) -> str:
    """A nested mapping of JSON values as TOML text. Keys with the value None are left out: TOML has no null.

    >>> print(toml({"name": "a", "network": {"loss": 0.1, "latency": {"kind": "constant"}}}))
    name = "a"
    <BLANKLINE>
    [network]
    loss = 0.1
    <BLANKLINE>
    [network.latency]
    kind = "constant"
    """
    text = tomli_w.dumps(_writable(tree)).rstrip("\n")
    # a list of plain values is joined into one line; line breaks inside texts are escaped, and stay as they are
    return re.sub(r"\[\n *([^][{}]*),\n *]", lambda match: "[" + re.sub(r"\n *", " ", match[1]) + "]", text)


def blocks(tree: Mapping[str, Any]) -> list[str]:
    """A nested mapping of JSON values as TOML text: a list with one text for each table."""
    return toml(tree).split("\n\n")


def scenario_in_order(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario's nested mapping with its keys in the order of the documentation, from name and seed to privacy. The
    key `kind` and all other keys follow. Nested mappings are ordered in the same way.
    """
    first = [key for key in (*FIRST, "kind") if key in tree]
    order = [*first, *(key for key in tree if key not in first)]
    return {key: scenario_in_order(tree[key]) if isinstance(tree[key], Mapping) else tree[key] for key in order}


def sweep_file(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a sweep file that repeats the sweep of a manifest, as a nested mapping.

    manifest: what was run, with "name", "scenario", "axes" and perhaps "replicates" and "plots". An axis has "keys",
    "values" (each a list with a value for each key) and perhaps "labels". In the sweep file, an axis with one key has
    "key" and plain values instead.
    """
    axes = []
    for axis in manifest["axes"]:
        keys, values = axis["keys"], axis["values"]
        entry = {"key": keys[0], "values": [value[0] for value in values]} if len(keys) == 1 else {**axis}
        axes.append({**entry, "labels": axis.get("labels")})
    return {
        "name": manifest["name"],
        "base": base_file(manifest),
        "replicates": manifest.get("replicates"),
        "axes": axes,
        "plots": list(manifest.get("plots") or []),
    }


def base_file(manifest: Mapping[str, Any]) -> str:
    """The file name for a sweep's base scenario: the scenario's name, plus "-base" if the sweep has the same name.

    >>> base_file({"name": "noise", "scenario": {"name": "tumours"}})
    'tumours.toml'
    >>> base_file({"name": "tumours", "scenario": {"name": "tumours"}})
    'tumours-base.toml'
    """
    name = str(manifest["scenario"].get("name", "base"))
    return f"{name}-base.toml" if name == manifest["name"] else f"{name}.toml"


def _writable(node: Any) -> Any:
    """A JSON value that TOML can hold: keys with the value None are left out, and "?" replaces lone surrogates."""
    if isinstance(node, Mapping):
        return {_writable(str(key)): _writable(value) for key, value in node.items() if value is not None}
    if isinstance(node, list | tuple):
        return [_writable(entry) for entry in node]
    return node if isinstance(node, int | float) else str(node).encode("utf-8", "replace").decode()
