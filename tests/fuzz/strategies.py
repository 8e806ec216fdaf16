"""How input is spoilt: trees of keys and values by their structure, files by their bytes; all from a seeded source."""

import copy
import datetime
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NOTHING = object()


@dataclass(frozen=True)
class Raw:
    """A value written into TOML as it is."""

    text: str


ODD: tuple[Any, ...] = (
    0, -1, 1, 2, 3, 255, 257, 10**6, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400,
    0.0, -0.0, 0.5, 1.0, 1.5, 1e-320, 1e-9, 1e9, 1e18, 1.7e308, -0.25, float("nan"), float("inf"), float("-inf"),
    True, False, "", "a", " ", "\x00", "a\nb", "é\u202e\U0001f980", "x" * 300, "x" * 20_000, "..", ".", "/",
    "/dev/zero", "kind", "0.5", "nan", "0000", "uniform", "given", "events", "latency.csv", "friends.edges",
    [], [[]], [0], [1, 2], [0.1, "a"], [[1], [2]], [0.05, 0.45, 3], [0.1, 0.2, 10**12], {}, {"kind": "no"}, {"kind": 1},
    {"kind": []}, {"": {}}, {"a": {"b": {"c": {}}}}, datetime.date(1, 1, 1), datetime.time(23, 59, 59, 999_999),
    datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC), datetime.datetime(2000, 2, 29),
    Raw("[" * 3000 + "]" * 3000), Raw("0x" + "f" * 5000), Raw("9" * 5000), Raw("1e400"), Raw("{a.b.c.d = 1}"),
    Raw("'''\n'''"), Raw('"\\ud800"'), Raw("07:32:00.123456789"), Raw("1_000"), Raw("{"), Raw("1 = 2"),
)  # fmt: skip
ODD_KEYS = (
    "",
    "kind",
    "path",
    "name",
    "seed",
    "a b",
    "é",
    "a\nb",
    "x" * 2000,
    "mechanism",
    "__class__",
    "0",
    "a.b",
    "\x7f",
)


def toml(value: Any) -> str:
    """A value in TOML syntax; tables in one line."""
    match value:
        case Raw():
            return value.text
        case bool():
            return str(value).lower()
        case int():
            return hex(value) if abs(value) >= 2**63 and value > 0 else str(value)
        case float():
            return repr(value)
        case str():
            return json.dumps(value)
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {toml(entry)}" for key, entry in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case None:
            return "none"
        case _:
            return str(value.isoformat())


def document(tree: dict[str, Any]) -> str:
    """A whole TOML file."""
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in tree.items())


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) of a tree."""
    entries: Any = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, child in list(entries) for place in ((node, key), *places(child))]


def spoilt_tree(rng: random.Random, tree: Any, pool: Sequence[tuple[str, Any]], most: int = 2) -> Any:
    """A tree with one to `most` changes; `pool`: keys and values of other trees, to put in."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.randint(1, most)):
        found = places(tree)
        if not found:
            return tree
        node, key = rng.choice(found)
        _change(rng, node, key, pool)
    return tree


def _change(rng: random.Random, node: Any, key: Any, pool: Sequence[tuple[str, Any]]) -> None:
    other, borrowed = rng.choice(pool)
    choice = rng.random()
    if choice < 0.3:
        node[key] = odd(rng)
    elif choice < 0.5:
        node[key] = tweaked(rng, node[key])
    elif choice < 0.6:
        node[key] = copy.deepcopy(borrowed)
    elif choice < 0.7:
        del node[key]
    elif choice < 0.75:
        node[key] = [node[key]] if rng.random() < 0.5 else {other: node[key]}
    elif isinstance(node, dict):
        if choice < 0.9:
            node[other] = copy.deepcopy(borrowed)
        else:
            node[near(rng, str(key))] = node.pop(key)
    else:
        node.insert(rng.randint(0, len(node)), odd(rng))


def odd(rng: random.Random) -> Any:
    """A value that does not belong there."""
    return copy.deepcopy(rng.choice(ODD))


def near(rng: random.Random, key: str) -> str:
    """Another key, or the same with a slip of the pen."""
    if rng.random() < 0.5 or not key:
        return rng.choice(ODD_KEYS)
    place = rng.randrange(len(key))
    return key[:place] + rng.choice(["", key[place] * 2, "_", ".", "\u0435"]) + key[place + 1 :]


def tweaked(rng: random.Random, value: Any) -> Any:
    """A number a little or very much off; text with a slip; anything else odd."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float) and abs(value) < 1e300:
        return rng.choice([-value, 0, value + 1, value - 1, value * 2, value / 2, value * 1e9, value * 10**25,
                           float(value), str(value), [value], 1 - value])  # fmt: skip
    return near(rng, value) if isinstance(value, str) else odd(rng)


def spoilt_bytes(rng: random.Random, content: bytes, tokens: Sequence[bytes], most: int = 2) -> bytes:
    """A file with one to `most` changes to its bytes; `tokens`: what may be put in."""
    for _ in range(rng.randint(1, most)):
        at = rng.randint(0, len(content))
        to = min(len(content), at + int(rng.expovariate(0.1)))
        choice = rng.randrange(8)
        if choice == 0:
            content = content[:at]
        elif choice == 1:
            content = content[:at] + content[to:]
        elif choice == 2:
            content = content[:to] + content[at:]
        elif choice == 3:
            content = content[:at] + rng.randbytes(to - at) + content[to:]
        elif choice == 4 and content:
            at = min(at, len(content) - 1)
            content = content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
        elif choice == 5:
            content = content[:at] + rng.choice([b"\0", b"\xff"]) * rng.choice([1, 4, 8]) + content[to:]
        else:
            content = content[:at] + rng.choice(tokens) + content[at if choice == 6 else to :]
    return content
