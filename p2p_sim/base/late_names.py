"""The public names of a package, listed in the file `__init__.pyi`. Each name is imported when it is first used."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def late(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """A function that imports and returns the object of a name, a function that lists all names, and the list of all
    names. A package assigns the three to `__getattr__`, `__dir__` (PEP 562) and `__all__` in its `__init__.py`. Then
    each name is imported only when it is first used. The names are all names that the package's `__init__.pyi` imports
    from its own modules.

    This function uses only the standard library, so computing privacy bounds needs no more than NumPy and SciPy.

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
