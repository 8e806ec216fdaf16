"""The names that a package offers, from its table of contents `__init__.pyi`, each imported when it is first used."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def late(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__` and `__dir__` (PEP 562) and the `__all__` of a package, by the imports in its `__init__.pyi`.

    Using one name loads only what that name needs. This function uses no library, as the accountants need only NumPy
    and SciPy.

    Args:
        package: its full name. file: its `__file__`.
    """
    contents = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body
    lines = [line for line in contents if isinstance(line, ast.ImportFrom)]
    homes = {alias.name: f"{package}.{line.module}" for line in lines for alias in line.names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find, lambda: sorted(homes), sorted(homes)
