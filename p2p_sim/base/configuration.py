"""The base of every configuration class: strict, frozen, closed to unknown keys; the text below a key describes it."""

import ast
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails

from p2p_sim.base.errors import InputError, nearest, shortened

_OF_PYDANTIC = {name for name in dir(BaseModel) if not name.startswith("__")} - {"model_dump"}
"""Names that every model has."""


class Config(BaseModel):
    """A frozen part of a scenario.

    Types are strict (no string becomes a number), unknown keys are errors, and infinities and NaN are refused.
    Each field states its meaning, unit, range and, where there is one, the paper's symbol in the text below it.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to change a key."""
        if not name.startswith("_"):
            change = f"{name}=..." if hasattr(self, "replace") else f'**{{"PART.{name}": ...}}'
            raise InputError(f"{name}: a scenario is frozen; scenario.replace({change}) makes another")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """Keys and what can be done with them, without what comes from Pydantic."""
        return [name for name in super().__dir__() if name not in _OF_PYDANTIC]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema, in which each field has the text below it as its description."""
        json_schema = handler(schema)
        fields = handler.resolve_ref_schema(json_schema).get("properties", {})
        for name, text in descriptions(cls).items():
            if name in fields:
                fields[name].setdefault("description", text)
        return json_schema


class Extended(Config):
    """A part of a scenario with keys that are younger than the identities of scenarios."""

    later: ClassVar[tuple[str, ...]] = ()
    """Keys that a scenario's identity leaves out where they have their default."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        usual = type(self).model_fields
        return {key: v for key, v in tree.items() if key not in self.later or getattr(self, key) != usual[key].default}


class OneLine(type(BaseModel)):  # type: ignore[misc]
    """The metaclass of configuration classes: a class called with the keys of a tree reports all mistakes in one
    `InputError`.
    """

    def __call__(cls, *positional: Any, **tree: Any) -> Any:
        """Make a configuration from its keys, given as keywords."""
        if positional:
            raise InputError(f"{cls.__name__}: takes its keys by name, such as {next(iter(cls.model_fields))}=...")
        return cls.from_tree(tree)


MOST_NAMED, MOST_FAULTS = 12, 100
"""Keys of a table that a message lists, and mistakes of a file that are listed."""


def refusal(error: ValidationError, model: type[Config]) -> InputError:
    """The error to raise for a validation error of Pydantic: its line is the first fault with the number of the others,
    its list all faults.
    """
    # a default that depends on a faulty key is no fault of its own
    faults = [fault for fault in error.errors(include_url=False) if fault["type"] != "default_factory_not_called"]
    lines = [_fault(fault, model) for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        lines.append(f"and {len(faults) - MOST_FAULTS:,} mistakes more")
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return InputError(f"{lines[0]}{more}", lines)


def _fault(fault: ErrorDetails, model: type[Config]) -> str:
    """One fault in one line: key, value and what is allowed."""
    # locations in tagged unions hold the tag after the field's name: population.digits.task
    parts = [str(part) for part in fault["loc"]]
    if len(parts) > 1 and parts[0] in ("population", "clusters", "mechanism", "learner"):
        parts = [parts[0], *parts[2:]]
    if len(parts) > 2 and parts[0] == "network" and parts[1] in ("latency", "overlay", "peers", "availability"):
        parts = [*parts[:2], *parts[3:]]
    if len(parts) > 3 and parts[:2] == ["network", "in_transit"]:
        parts = [*parts[:3], *parts[4:]]
    if len(parts) > 2 and parts[:2] == ["mechanism", "randomizer"]:
        parts = [*parts[:2], *parts[3:]]
    key, value = shortened(".".join(parts)), fault.get("input")
    if fault["type"] == "extra_forbidden":
        keys, fields = sorted(_keys(model)), _fields(model, fault["loc"][:-1])
        hint = nearest(parts[-1], fields) if fields else "" if key in keys else nearest(key, keys)
        hint = hint.replace("did you mean ", f"did you mean {'.'.join([*parts[:-1], ''])}") if fields else hint
        if fields and not hint:
            rest = f" and {len(fields) - MOST_NAMED} more" if len(fields) > MOST_NAMED else ""
            hint = f"; it takes {', '.join(fields[:MOST_NAMED])}{rest}"
        return f"{key}: unknown key{' for this kind' if key in keys else ''}{hint}"
    if fault["type"] == "missing":
        return f"{key}: is missing"
    if fault["type"].startswith("union_tag"):
        context = fault["ctx"]
        stated = f' = "{shortened(context["tag"])}"' if "tag" in context else " is missing"
        if "fault" in context:
            return f"{key}.kind{stated}: {context['fault']}"
        allowed = context.get("expected_tags") or ", ".join(f"'{kind}'" for kind in _kinds(model, parts))
        hint = nearest(context.get("tag", ""), allowed.replace("'", "").split(", "))
        note = context.get("note", "")
        if note:
            note = f" {note[0].upper()}{note[1:]}" if hint else f"; {note}"
        return f"{key}.kind{stated}: must be one of {allowed}{hint}{note}"
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message[0].lower() + message[1:]
    quoted = "" if isinstance(value, dict) else f" = {shortened(json.dumps(value, default=str))}"
    return f"{key}{quoted}: {message}" if key else message


def _fields(model: type[Config], location: Sequence[int | str]) -> list[str]:
    """The keys of the table at a place of a configuration, for hints; none if a plug-in defines them.

    location: keys and indices that lead to the table; the name of something with kinds is followed by its kind.
    """
    schema = _schema(model)
    nodes = [schema]
    for part in location:
        branches = [branch for node in nodes for branch in _branches(node, schema)]
        kinds = [branch.get("discriminator", {}).get("mapping", {}).get(part) for branch in branches]
        below = [branch.get("properties", {}).get(part, branch.get("items", {})) for branch in branches]
        nodes = [{"$ref": kind} for kind in kinds if kind] or [node for node in below if node]
    return sorted(
        {name for node in nodes for branch in _branches(node, schema) for name in branch.get("properties", ())}
    )


def _kinds(model: type[Config], path: list[str]) -> list[str]:
    """The kinds that the table at a path of a configuration may have."""
    schema = _schema(model)
    nodes = [schema]
    for part in path:
        nodes = [
            n["properties"][part] for node in nodes for n in _branches(node, schema) if part in n.get("properties", ())
        ]
    return [
        kind
        for node in nodes
        for n in _branches(node, schema)
        for kind in n.get("discriminator", {}).get("mapping", ())
    ]


@cache
def _schema(model: type[Config]) -> dict[str, Any]:
    """The JSON Schema of a configuration class, kept since making it takes longer than checking a file."""
    return model.model_json_schema()


def _branches(node: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node of a JSON Schema and those it refers to or chooses from."""
    yield node
    chosen = [*node.get("oneOf", ()), *node.get("anyOf", ())]
    if "$ref" in node:
        chosen.append(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]])
    for branch in chosen:
        yield from _branches(branch, schema)


@cache
def _keys(model: type[Config]) -> frozenset[str]:
    """The dotted keys that scenarios may have, of every kind, such as `network.loss`; read from the JSON Schema."""
    schema = _schema(model)
    keys: set[str] = set()

    def walk(node: Mapping[str, Any], prefix: str) -> None:
        if "$ref" in node:
            walk(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]], prefix)
        for branch in (*node.get("oneOf", ()), *node.get("anyOf", ()), *node.get("allOf", ())):
            walk(branch, prefix)
        for name, child in node.get("properties", {}).items():
            keys.add(prefix + name)
            walk(child, f"{prefix}{name}.")

    walk(schema, "")
    return frozenset(keys)


def differing(name: str, tree: Any, default: Any) -> Iterator[str]:
    """The dotted keys of a tree, below `name`, at which it differs from a default, at any depth.

    A key that only the default has belongs to another kind, which differs in keys of its own.
    """
    if tree == default:
        return
    if not isinstance(tree, dict) or not (tree or isinstance(default, dict)):
        yield name
        return
    below = default if isinstance(default, dict) else {}
    for key, value in tree.items():
        yield from differing(f"{name}.{key}", value, below.get(key, _ABSENT))


_ABSENT = object()


def descriptions(model: type) -> dict[str, str]:
    """The text below each annotated name in the body of a class, or of the class that it inherits the name from.

    Sources are read here and not when classes are made, since few commands need the texts.
    """
    texts: dict[str, str | None] = {}
    for cls in reversed(model.__mro__):
        texts |= _in_body(cls)
    return {name: text for name, text in texts.items() if text}


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
    """Annotated names of each class of a source, with their texts; of two classes with one name, the first counts."""
    texts: dict[str, dict[str, str | None]] = {}
    for name, node in _classes(ast.parse(source), ""):
        texts.setdefault(name, dict(_annotated(node)))
    return texts


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
    for statement, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            content = text.value if isinstance(text, ast.Constant) else None
            yield statement.target.id, inspect.cleandoc(content) if isinstance(content, str) else None
