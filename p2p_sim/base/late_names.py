"""The names that a package offers, as its file `__init__.pyi` lists them; each is imported when it is first used."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def late(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package assigns in its `__init__.py` to `__getattr__`, `__dir__` (PEP 562) and `__all__`, so that each of
    its names is imported only when it is first used. The three values are a function that imports and returns the
    object of a name, a function that lists all names, and the list of all names. The names are those that the package's
    `__init__.pyi` imports from its own modules.

    This function uses no other library, so that computing privacy bounds needs only NumPy and SciPy.

    Args:
        package: the package's full name. file: the package's `__file__`.
    """
    contents = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body
    lines = [line for line in contents if isinstance(line, ast.ImportFrom)]
    homes = {alias.name: f"{package}.{line.module}" for line in lines for alias in line.names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find, lambda: sorted(homes), sorted(homes)
