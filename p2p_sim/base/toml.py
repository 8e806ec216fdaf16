"""Nested tables of TOML: reading from files and texts, and setting of dotted keys for `--set` and for sweeps."""

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import InputError, shortened

LARGEST_FILE, DEEPEST = 10_000_000, 40
"""Largest number of bytes of a scenario or sweep file, and largest number of levels of nested tables and lists."""


def read_toml(path: Path) -> dict[str, Any]:
    """The nested tables of a TOML file; an InputError says why the file cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)  # a device file may have no end
        text = content.decode()
    except (OSError, ValueError) as error:  # ValueError: a null character in the name, or no UTF-8
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path}: is larger than {LARGEST_FILE:,} bytes")
    try:
        return parsed(text)
    except ValueError as error:
        raise InputError(f"{path}: not valid TOML ({error})") from None


def parsed(text: str) -> dict[str, Any]:
    """The nested tables of a TOML text, as dictionaries and lists.

    Raises:
        ValueError: the text is not valid TOML, has a whole number beyond 64 bits, or has more than 40 levels
        (`DEEPEST`). The outermost table and the innermost value are levels too.
    """
    deep = f"nested more than {DEEPEST} levels"
    try:
        tree = tomllib.loads(text)
    except RecursionError:
        raise ValueError(deep) from None
    level: list[Any] = [tree]
    for _ in range(DEEPEST):
        level = [c for n in level for c in (n.values() if isinstance(n, dict) else n if isinstance(n, list) else ())]
        beyond = [number for number in level if isinstance(number, int) and not -(2**63) <= number < 2**63]
        if beyond:
            raise ValueError(f"{hex(beyond[0])[:20]}... is a whole number beyond 64 bits")
    if level:
        raise ValueError(deep)
    return tree


EITHER = (
    "mechanism.target_epsilon",
    "mechanism.flip_prob",
    "mechanism.noise_multiplier",
    "mechanism.randomizer.epsilon",
)
"""Keys that exclude each other: a scenario has at most one of these."""
WORD = re.compile(r"[^\W\d][\w./-]{0,250}")
"""Pattern of a text that needs no quotes, such as a name or a path. The first character is a letter or "_". Later
characters may also be digits, ".", "/" and "-".
"""


def parse_overrides(overrides: Iterable[str]) -> list[tuple[str, Any]]:
    """The keys and values of several texts "dotted.key=value".

    Raises:
        InputError: a text has no key or no usable value, or two texts set keys that exclude each other. Each of these
        keys fixes the amount of noise.
    """
    changes = [parse_override(override) for override in overrides]
    check_either(changes)
    return changes


def check_either(changes: Iterable[tuple[str, Any]], option: str = "--set ") -> None:
    """Raise InputError if changes of a scenario set two keys of which a scenario may have only one. Without this check,
    the later change would win silently. Four keys exclude each other, because each fixes the amount of noise:
    mechanism.target_epsilon, mechanism.flip_prob, mechanism.noise_multiplier and mechanism.randomizer.epsilon.

    Args:
        changes: dotted keys and their values; a value may be a table with such keys. option: the text before each key
        in the message.
    """
    changes = list(changes)
    present = [name for name in EITHER if any(_sets(name, key, value) for key, value in changes)]
    if len(present) > 1:
        raise InputError(
            f"{option}{present[0]}: does not go with {option}{present[1]}; a scenario has one of the two: give one"
        )


def _sets(wanted: str, key: str, value: Any) -> bool:
    """Whether setting the dotted key `key` to `value` also sets the dotted key `wanted`. Either both keys are equal, or
    `value` is a table that contains the rest of `wanted`. For example, setting mechanism to {flip_prob = 0.1} sets
    mechanism.flip_prob.
    """
    if not f"{wanted}.".startswith(f"{key}."):
        return False
    for part in filter(None, wanted.removeprefix(key).split(".")):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def parse_override(override: str) -> tuple[str, Any]:
    """The key and value of a text "dotted.key=value", such as engine=vectorised. The value is a TOML value or a bare
    word.

    Raises:
        InputError: the text has no key or no "=", or the value is neither a TOML value nor a bare word. The message
        says to put text in quotes.
    """
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InputError(f"--set {override}: must read key=value, such as mechanism.flip_prob=0.2")
    # The text is read as a document with one key. A line break would add a second key, which is refused below.
    try:
        value = parsed(f"value = {text.strip()}")
    except ValueError:
        if WORD.fullmatch(text.strip()):
            return key, text.strip()
        text = shortened(text)
        raise InputError(
            f"--set {shortened(override)}: {text!r} is not a TOML value; put text in quotes: '{key}=\"{text}\"'"
        ) from None
    if list(value) != ["value"]:
        raise InputError(f"--set {shortened(override)}: one value is allowed")
    return key, value["value"]


def set_key(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key, such as "mechanism.flip_prob", in nested tables, in place. Missing tables are made.

    The key `kind` chooses what a table describes. Setting `kind` to a new value removes the table's other keys. Four
    keys each fix the amount of noise: mechanism.target_epsilon, mechanism.flip_prob, mechanism.noise_multiplier and
    mechanism.randomizer.epsilon. Setting one of the four removes the other three.

    Raises:
        InputError: a part of the key before the last part names no table.
    """
    for alternative in EITHER if key in EITHER else ():
        drop_key(tree, alternative)
    *parents, last = key.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise InputError(f"{key}: {parent} is not a table")
    if last == "kind" and tree.get("kind") != value:
        tree.clear()
    tree[last] = copy.deepcopy(value)  # a copy, because a later key may change the value


def value_at(tree: Any, key: str) -> Any:
    """The value at a dotted key of nested tables; None if there is no such key."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree


def drop_key(tree: dict[str, Any], key: str) -> None:
    """Remove a dotted key from nested tables, if it is there."""
    parent, _, last = key.rpartition(".")
    node = value_at(tree, parent) if parent else tree
    if isinstance(node, dict):
        node.pop(last, None)
