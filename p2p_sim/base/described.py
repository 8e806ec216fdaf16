"""The text below a field of a configuration class, which becomes the field's description in the JSON Schema."""

import ast
import inspect
from itertools import pairwise


def descriptions(model: type) -> dict[str, str]:
    """The text below each annotated name in the body of a class, or of the class that it inherits the name from.

    Sources are read here and not when classes are made, since few commands need the texts.
    """
    found: dict[str, str | None] = {}
    for cls in reversed(model.__mro__):
        found |= _in_body(cls)
    return {name: text for name, text in found.items() if text}


def _in_body(cls: type) -> dict[str, str | None]:
    """Annotated names of a class body, with their texts; nothing where there is no source."""
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return {}
    node: ast.AST = ast.parse(source if source[:1].strip() else f"if True:\n{source}")
    while not isinstance(node, ast.ClassDef):
        node = node.body[0]  # type: ignore[attr-defined]  # a module or the `if` around an indented class
    found: dict[str, str | None] = {}
    for one, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            said = text.value if isinstance(text, ast.Constant) else None
            found[one.target.id] = inspect.cleandoc(said) if isinstance(said, str) else None
    return found
