"""The text below a field of a configuration class, which becomes the field's description in the JSON Schema."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise


def descriptions(model: type) -> dict[str, str]:
    """The text below each annotated name in the body of a class, or of the class that it inherits the name from.

    Sources are read here and not when classes are made, since few commands need the texts.
    """
    found: dict[str, str | None] = {}
    for cls in reversed(model.__mro__):
        found |= _in_body(cls)
    return {name: text for name, text in found.items() if text}


@cache
def _in_body(cls: type) -> dict[str, str | None]:
    """Annotated names of a class body, with their texts; nothing where there is no source."""
    try:
        source = inspect.getsource(sys.modules[cls.__module__])
    except (KeyError, OSError, TypeError):
        return {}
    return _in_source(source).get(cls.__qualname__, {})


@cache
def _in_source(source: str) -> dict[str, dict[str, str | None]]:
    """The same for each class of a module's source, by qualified name; of two with one name, the first."""
    found: dict[str, dict[str, str | None]] = {}
    for name, node in _classes(ast.parse(source), ""):
        found.setdefault(name, dict(_annotated(node)))
    return found


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes below a node, with their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.stmt):
            yield from _classes(child, prefix)


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, str | None]]:
    """Annotated names of one class body, each with the text below it."""
    for one, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            said = text.value if isinstance(text, ast.Constant) else None
            yield one.target.id, inspect.cleandoc(said) if isinstance(said, str) else None
