"""Texts of pages that the code writes: the command line, the gallery, the keys of a scenario, columns of a row.

Each function returns Markdown. `python -m docs.values` puts it into the page of that name.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from docs.markdown import cell, plain, table

DOCS = Path(__file__).parent
Node = Mapping[str, Any]


def gallery() -> str:
    """Every figure of README and docs, in the order of the registry, with the command that makes it."""
    parts = []
    for figure in figures():
        path = Path(figure["path"])
        source = path.relative_to("docs") if path.is_relative_to("docs") else Path("..") / path
        page, shown = DOCS.parent / figure["page"], "In the README"
        if page.parent == DOCS:
            title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            shown = f"On the page [{title}]({page.name})"
        parts.append(
            f"## {figure['shows']}\n\n![{figure['shows']}]({source})\n\n{shown}. This command draws it:\n\n"
            f"```console\n$ {figure['command']}\n```\n"
        )
    return "\n".join(parts)


def figures() -> list[dict[str, str]]:
    """The registry of figures, docs/gallery.toml: path, shows, command, page and test of each."""
    found: list[dict[str, str]] = tomllib.loads((DOCS / "gallery.toml").read_text(encoding="utf-8"))["figure"]
    return found


def command_line() -> str:
    """Every command's help: usage, arguments, options with their defaults."""
    from typer.main import get_command

    from p2p_sim.cli.main import app

    group: Any = get_command(app)
    return "\n".join(_command(name, command) for name, command in group.commands.items())


def _command(name: str, command: Any) -> str:
    context = command.make_context(f"p2p-sim {name}", [], resilient_parsing=True)
    text, _, example = command.help.partition("Example: ")
    rows = []
    for parameter in command.params:
        named = parameter.param_type_name == "option"
        names = " or ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts]) if named else ""
        value = f"`{parameter.metavar}`" if parameter.metavar else ""
        default, usual = parameter.default, "required" if parameter.required else ""
        if default is not None and default is not False and not callable(default):
            usual = f"`{default}`"
        rows.append([cell(text) for text in (names, value, parameter.help, usual)])
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    options = table(("option", "value", "meaning", "default"), rows) if rows else ""
    return f"## {name}\n\n{plain(text.strip())}\n\n```\n{usage}\n```\n\nExample: `{example.strip()}`\n\n{options}"


def scenario_keys() -> str:
    """Every key of a scenario file, by table and kind, from the JSON Schema that `p2p-sim schema` prints.

    The keys of installed plug-ins are left out: the page is the same on every machine.
    """
    from p2p_sim.base import plugins
    from p2p_sim.scenario import Scenario

    with patch.object(plugins, "offers", return_value={}):
        schema = Scenario.model_json_schema()
    return "\n".join(_tables(schema, schema, ""))


def parameter_columns() -> str:
    """Every column of a row that holds a parameter of p2p-sim's own mechanisms, and which of them have it."""
    from p2p_sim.scenario import OWN_COLUMNS, OWN_MECHANISMS

    rows = []
    for name, column in OWN_COLUMNS.items():
        kinds = (kind for kind, own in OWN_MECHANISMS.items() if name in [has.name for has in own.columns])
        rows.append([f"`{name}`", cell(str(column)), ", ".join(kinds)])
    return table(("column", "meaning", "mechanisms"), rows)


def _tables(node: Node, schema: Node, path: str) -> Iterator[str]:
    """The tables at a path and below: one a kind, where there are several."""
    kinds = [branch for branch in _branches(node, schema) if "properties" in branch]
    for branch in kinds:
        keys: Node = branch["properties"]
        tagged = keys["kind"]["const"] if path and "const" in keys.get("kind", ()) else None
        if path:
            heading = f"`[{path}]`" + (f' kind = "{tagged}"' if tagged else "")
            yield f"{'##' if '.' not in path else '###'} {heading}\n\n{plain(branch.get('description', ''))}\n"
        required = branch.get("required", ())
        rows = [
            _row(name, key, schema, name in required) for name, key in keys.items() if not (name == "kind" and tagged)
        ]
        if rows:
            yield table(("key", "value", "default", "meaning"), rows)
        for name, key in keys.items():
            if any("properties" in below for below in _branches(key, schema)):
                yield from _tables(key, schema, f"{path}.{name}" if path else name)


def _branches(node: Node, schema: Node) -> list[Node]:
    """A node, followed to what it refers to or chooses from."""
    if "$ref" in node:
        return _branches(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]], schema)
    chosen = [*node.get("oneOf", ()), *node.get("anyOf", ()), *node.get("allOf", ())]
    return [found for other in chosen for found in _branches(other, schema)] if chosen else [node]


def _row(name: str, key: Node, schema: Node, required: bool) -> list[str]:
    branches, usual = _branches(key, schema), key.get("default")
    if any("properties" in branch for branch in branches):
        allowed, given = "table", isinstance(usual, dict) and "kind" in usual
        shown = f'`kind = "{usual["kind"]}"`' if given else ""
    else:
        allowed = " or ".join(dict.fromkeys(_allowed(branch) for branch in branches if branch.get("type") != "null"))
        shown = "" if usual is None else f"`{json.dumps(usual, ensure_ascii=False)}`"
    told = (f"`{name}`", allowed, "required" if required else shown, key.get("description", ""))
    return [cell(text) for text in told]


def _allowed(branch: Node) -> str:
    """Type and range of a value."""
    values = [branch["const"]] if "const" in branch else branch.get("enum")
    if values is not None:
        return ", ".join(f"`{json.dumps(value)}`" for value in values)
    words = {"array": "list", "boolean": "true or false", "object": "table", "string": "text"}
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    range_ = [f"{sign} {branch[key]}" for key, sign in signs.items() if key in branch]
    kind = branch.get("type", "value")
    return ", ".join([words.get(kind, kind), *range_])
