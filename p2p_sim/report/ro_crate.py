"""The description of a results directory as RO-Crate 1.1 metadata, for archives and other programs."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from p2p_sim.base import write_whole, writing
from p2p_sim.base.packages import PACKAGE
from p2p_sim.results import MANIFEST, described, read_manifest
from p2p_sim.sweeps import PROJECT, references

CRATE = "ro-crate-metadata.json"
VERSION = "https://w3id.org/ro/crate/1.1"
NO_LICENCE = "No licence is stated: whoever publishes these results names it here"
MEDIA = {
    ".csv": "text/csv", ".html": "text/html", ".journal": "application/jsonl", ".json": "application/json",
    ".jsonl": "application/jsonl", ".parquet": "application/vnd.apache.parquet", ".pdf": "application/pdf",
    ".png": "image/png", ".svg": "image/svg+xml", ".toml": "application/toml",
}  # fmt: skip
"""Media types by the ends of file names."""


def write_crate(directory: Path) -> Path:
    """Describe a run, a sweep or a search, and the files in its directory. Return the path of the description.

    The description is ro-crate-metadata.json. Its format is RO-Crate, a standard for describing research data.

    Raises:
        InputError: the directory has no manifest. RunFailed: the directory cannot be written to.
    """
    manifest = read_manifest(directory)
    name = f"p2p-sim {manifest.get('kind', 'run')} of {described(directory, manifest)['name']}"
    files, project = _files(directory), references()[PROJECT].fields
    authors, licence = project["author"][0].strip("{}"), project["license"]
    version = str((manifest.get("versions") or {}).get(PACKAGE, "unknown"))
    # the data set, its parts, the run that made the parts, and the software with licence and authors
    parts = [{"@id": file["@id"]} for file in files]
    root = {
        "name": name,
        "description": f"Results of a simulation with the seed {manifest['seed']}; {MANIFEST} has the whole scenario",
        "identifier": str(manifest.get("identity", "unknown")),
        "datePublished": datetime.now(UTC).date().isoformat(),
        "license": {"@id": "#licence"},
        "hasPart": parts,
        "mentions": {"@id": "#run"},
    }
    graph = [
        _entity(CRATE, "CreativeWork", about={"@id": "./"}, conformsTo={"@id": VERSION}),
        _entity("./", "Dataset", **root),
        _entity("#licence", "CreativeWork", name="Licence of the results", description=NO_LICENCE),
        _entity("#run", "CreateAction", name=name, instrument={"@id": "#software"}, result=parts),
        _entity(
            "#software",
            "SoftwareApplication",
            name=PACKAGE,
            softwareVersion=version,
            license={"@id": "#software-licence"},
            author={"@id": "#authors"},
        ),
        _entity("#software-licence", "CreativeWork", name=licence, description="Licence of the software"),
        _entity("#authors", "Organization", name=authors),
        *files,
    ]
    text = json.dumps({"@context": f"{VERSION}/context", "@graph": graph}, indent=2)
    with writing(directory):
        write_whole(directory / CRATE, f"{text}\n".encode())
    return directory / CRATE


def _entity(id_: str, kind: str, **values: Any) -> dict[str, Any]:
    """An entity of JSON-LD: an identifier, a type, and other properties as `values`."""
    return {"@id": id_, "@type": kind, **values}


def _files(directory: Path) -> list[dict[str, Any]]:
    """An entity for each file of a directory, except hidden files (with a dot first) and the description itself."""
    files = []
    for path in sorted(directory.glob("[!.]*")):
        if path.is_file() and path.name != CRATE:
            media = {"encodingFormat": MEDIA[path.suffix]} if path.suffix in MEDIA else {}
            size = str(path.stat().st_size)
            files.append(_entity(quote(os.fsencode(path.name)), "File", name=path.name, contentSize=size, **media))
    return files
