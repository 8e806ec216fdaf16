"""A reader of RO-Crate metadata of its own: what makes a crate wrong whatever its content is."""

import hashlib
import json
from pathlib import Path
from typing import Any

CRATE = "ro-crate-metadata.json"


def read(directory: Path) -> dict[str, dict[str, Any]]:
    """Entities of a crate by their identifier; nothing is wrong with it, and no file is left out."""
    content = json.loads((directory / CRATE).read_text(encoding="utf-8"))
    assert faults(directory, content) == []
    found = {entity["@id"]: entity for entity in content["@graph"]}
    files = {path.name for path in directory.iterdir()} - {CRATE, ".lock"}
    assert {part["@id"] for part in found["./"]["hasPart"]} == files
    return found


def faults(directory: Path, content: dict[str, Any]) -> list[str]:
    """What is wrong: entities without identifier or type, references to nothing, files that differ or are missing."""
    graph = content["@graph"]
    known = {entity["@id"] for entity in graph if entity.get("@type")}
    wrong = [] if len(known) == len(graph) else ["an identifier occurs twice, or an entity has no type"]
    for entity in graph:
        for name, value in entity.items():
            each = value if isinstance(value, list) else [value]
            wrong += [
                f"{one['@id']}: is no entity"
                for one in each
                if isinstance(one, dict) and one["@id"] not in known and not one["@id"].startswith("http")
            ]
            if name in ("value", "name") and isinstance(value, list | dict):
                wrong.append(f"{entity['@id']}: {name} is no plain value")
        if entity.get("@type") == "File":
            path = directory / entity["@id"]
            if not path.is_file():
                wrong.append(f"{entity['@id']}: is not there")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != entity["sha256"]:
                wrong.append(f"{entity['@id']}: another SHA-256")
    descriptor = [entity for entity in graph if entity["@id"] == CRATE]
    if not descriptor or descriptor[0]["about"] != {"@id": "./"}:
        wrong.append("the metadata do not say what they are about")
    return wrong
