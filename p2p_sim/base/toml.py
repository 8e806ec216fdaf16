"""TOML files and texts, refused in one line where they are too large, too deep or no TOML."""

import tomllib
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import InputError

LARGEST_FILE, DEEPEST = 10_000_000, 40
"""Bytes of a scenario or sweep file, and levels of its tables and lists."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; one InputError says why it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)  # a device may have no end
        text = content.decode()
    except (OSError, ValueError) as error:  # a name may hold a null character
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path}: is larger than {LARGEST_FILE:,} bytes")
    try:
        return parsed(text)
    except ValueError as error:
        raise InputError(f"{path}: not valid TOML ({error})") from None


def parsed(text: str) -> dict[str, Any]:
    """TOML as nested tables; a ValueError for whole numbers beyond 64 bits and for what is nested too deeply."""
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
