"""The base of all configuration classes: strict types, no change, no unknown key, a description below each key."""

import ast
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from types import ModuleType
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
"""Names of attributes that every Pydantic model has. `dir` of a configuration leaves these out."""


class Config(BaseModel):
    """A frozen part of a scenario.

    Types are strict (no string becomes a number), unknown keys are errors, and infinities and NaN are refused. The text
    below each field states its meaning, unit, range and, where there is one, the paper's symbol.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    def __setattr__(self, name: str, value: Any) -> None:
        """Raise InputError for a public name, because a configuration is frozen."""
        if not name.startswith("_"):
            change = f"{name}=..." if hasattr(self, "replace") else f'**{{"PART.{name}": ...}}'
            raise InputError(f"{name}: a scenario is frozen; scenario.replace({change}) makes another")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """Names of the keys and of this project's methods, without Pydantic's names."""
        return [name for name in super().__dir__() if name not in _OF_PYDANTIC]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema of the class, in which the text below each field is the field's description."""
        json_schema = handler(schema)
        fields = handler.resolve_ref_schema(json_schema).get("properties", {})
        for name, text in descriptions(cls).items():
            if name in fields:
                fields[name].setdefault("description", text)
        return json_schema


class Extended(Config):
    """A part of a scenario to which keys were added later. They must not change the identities of older scenarios.

    A scenario's identity is a hash of its keys and values.
    """

    later: ClassVar[tuple[str, ...]] = ()
    """Keys that a scenario's identity omits if the keys have their defaults."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        usual = type(self).model_fields
        return {key: v for key, v in tree.items() if key not in self.later or getattr(self, key) != usual[key].default}


class OneLine(type(BaseModel)):  # type: ignore[misc]
    """The metaclass of a class that describes a whole file. A call of the class takes the file's keys, and reports all
    mistakes in one InputError.
    """

    def __call__(cls, *positional: Any, **tree: Any) -> Any:
        """Make a configuration of the class from its file's keys as keyword arguments.

        Raises:
            InputError: an argument is given by position, or keys or values are wrong.
        """
        if positional:
            raise InputError(f"{cls.__name__}: takes its keys by name, such as {next(iter(cls.model_fields))}=...")
        return cls.from_tree(tree)


MOST_NAMED, MOST_FAULTS = 12, 100
"""Largest number of a table's keys that a message lists, and largest number of mistakes that are listed for a file."""


def refusal(error: ValidationError, model: type[Config]) -> InputError:
    """The InputError to raise for a validation error of Pydantic.

    The message states the first fault and the number of further faults. The attribute `mistakes` has all faults, one
    line each.
    """
    # if a default depends on a faulty key, only the key is a fault
    faults = [fault for fault in error.errors(include_url=False) if fault["type"] != "default_factory_not_called"]
    lines = [_fault(fault, model) for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        lines.append(f"and {len(faults) - MOST_FAULTS:,} mistakes more")
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return InputError(f"{lines[0]}{more}", lines)


def _fault(fault: ErrorDetails, model: type[Config]) -> str:
    """The one-line message about one fault that Pydantic found: the key, its value, and what is allowed."""
    # in a tagged union, the tag follows the field's name, as in population.digits.task; messages leave the tag out
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
        keys = sorted(_keys(model))
        fields = sorted({name for node in _tables(model, fault["loc"][:-1]) for name in node.get("properties", ())})
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
        allowed = context.get("expected_tags") or ", ".join(
            f"'{kind}'" for node in _tables(model, parts) for kind in node.get("discriminator", {}).get("mapping", ())
        )
        hint = nearest(context.get("tag", ""), allowed.replace("'", "").split(", "))
        note = context.get("note", "")
        if note:
            note = f" {note[0].upper()}{note[1:]}" if hint else f"; {note}"
        return f"{key}.kind{stated}: must be one of {allowed}{hint}{note}"
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message[0].lower() + message[1:]
    quoted = "" if isinstance(value, dict) else f" = {shortened(json.dumps(value, default=str))}"
    return f"{key}{quoted}: {message}" if key else message


def _tables(model: type[Config], location: Sequence[int | str]) -> list[dict[str, Any]]:
    """The nodes of the JSON Schema of `model` that describe one table of a file. Messages use these nodes to list the
    table's keys. There are none if a plug-in defines the table.

    location: the keys and list indices that lead from the file to the table, such as ("population", "digits"). Here
    "digits" is the table's kind, which may follow the table's key.
    """
    schema = _schema(model)
    branches = list(_branches(schema, schema))
    for part in location:
        kinds = [branch.get("discriminator", {}).get("mapping", {}).get(part) for branch in branches]
        below = [branch.get("properties", {}).get(part, branch.get("items", {})) for branch in branches]
        nodes = [{"$ref": kind} for kind in kinds if kind] or [node for node in below if node]
        branches = [branch for node in nodes for branch in _branches(node, schema)]
    return branches


@cache
def _schema(model: type[Config]) -> dict[str, Any]:
    """The JSON Schema of a configuration class, cached because making a schema takes longer than checking a file."""
    return model.model_json_schema()


def _branches(node: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a node of the JSON Schema `schema`, and all nodes to which this node refers or which it combines."""
    yield node
    chosen = [*node.get("oneOf", ()), *node.get("anyOf", ()), *node.get("allOf", ())]
    if "$ref" in node:
        chosen.append(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]])
    for branch in chosen:
        yield from _branches(branch, schema)


@cache
def _keys(model: type[Config]) -> frozenset[str]:
    """All dotted keys, such as "network.loss", that files of the class `model` may have, for all kinds of tables.
    Messages suggest the right key from this list.
    """
    schema = _schema(model)
    keys, tables = set[str](), [("", schema)]
    for prefix, table in tables:  # the loop adds tables to the list
        for node in _branches(table, schema):
            for name, child in node.get("properties", {}).items():
                keys.add(prefix + name)
                tables.append((f"{prefix}{name}.", child))
    return frozenset(keys)


def differing(name: str, tree: Any, default: Any) -> Iterator[str]:
    """Yields the dotted keys at which a tree of tables differs from a default, at any depth.

    A key that only the default has is left out. Such a key belongs to another kind of table, and the key `kind` then
    differs.

    Args:
        name: the key of the tree, with which every dotted key begins. tree, default: two values, often tables.
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


@cache
def defaults(config: type[Config]) -> dict[str, Any]:
    """The keys and values of a configuration of the class `config` with only defaults. Every key needs a default."""
    return config().model_dump()


def descriptions(model: type) -> dict[str, str]:
    """The text below each annotated name in the body of a class. For an inherited name, this is the text in the base
    class.

    Sources are read only when this function is called, because few commands need the texts.
    """
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        texts |= _texts(sys.modules.get(cls.__module__)).get(cls.__qualname__, {})
    return {name: text for name, text in texts.items() if text}


@cache
def _texts(module: ModuleType | None) -> dict[str, dict[str, str]]:
    """The text below each annotated name in the body of each class of a module. The keys are the qualified names of the
    classes.

    A text is empty if there is none. A module without source has no classes here.
    """
    try:
        tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return {}
    texts: dict[str, dict[str, str]] = {}
    for qualified, cls in _classes(tree, ""):
        own = texts.setdefault(qualified, {})
        for statement, after in pairwise([*cls.body, ast.Pass()]):
            match statement, after:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    own[name] = inspect.cleandoc(text)
                case ast.AnnAssign(ast.Name(name)), _:
                    own[name] = ""
    return texts


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yields the classes below a node of a syntax tree, each with a qualified name that begins with `prefix`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.stmt):
            yield from _classes(child, prefix)
