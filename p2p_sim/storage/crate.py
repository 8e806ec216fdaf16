"""The manifest of a results directory as RO-Crate metadata, for archives and for programs that read such metadata.

The file follows RO-Crate 1.1 and the profile Process Run Crate 0.5. It describes a finished run: the scenario key by
key, the software and its libraries, the files that were read and written with their SHA-256, and what the run took. It
is written last. A directory whose run has not ended has none, so that its checksums never describe older files.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from p2p_sim.base.errors import InputError
from p2p_sim.base.files import write_whole, writing
from p2p_sim.base.usage import Usage
from p2p_sim.base.version import PACKAGE
from p2p_sim.storage.statements import STATEMENTS, read_lines

CRATE = "ro-crate-metadata.json"
ROOT, RUN, LICENCE = "./", "#run", "#licence"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
VERSION = "https://w3id.org/ro/crate/1.1"
TERMS = {name: f"https://w3id.org/ro/terms/workflow-run#{name}" for name in ("resourceUsage", "sha256")}
"""Terms that RO-Crate 1.1 lacks."""
FILES = {
    "manifest.json": ("application/json", "What was run: the scenario in full, axes, seed, versions"),
    "rows.jsonl": ("application/jsonl", "One line a replicate"),
    "rows.parquet": ("application/vnd.apache.parquet", "The same rows as a table"),
    STATEMENTS: ("application/jsonl", "Under which conditions the figures of privacy in the rows hold"),
    "timings.jsonl": ("application/jsonl", "Seconds that each replicate took"),
    "failures.jsonl": ("application/jsonl", "Replicates that could not be run, and why"),
    "privacy-utility.png": ("image/png", "Accuracy against ε"),
    "trials.csv": ("text/csv", "One line for each setting that a search tried"),
    "trials.parquet": ("application/vnd.apache.parquet", "The same settings as a table"),
    "trials.journal": ("application/jsonl", "The settings as a stopped search goes on from them"),
    "tune.png": ("image/png", "What each setting of a search is worth, and its ε"),
    "found.toml": ("application/toml", "The scenario with the setting that a search found"),
}
"""Files of a results directory that are described: media type, and what they are."""
SEARCH = ("goal", "look", "batch", "mean_runs", "runs")
"""Keys of the manifest of a search that say what it was for, what its choice looked at and how it went."""
Entity = dict[str, Any]


def write_crate(directory: Path, manifest: Mapping[str, Any], usage: Usage, inputs: Iterable[tuple[str, str]]) -> None:
    """Describe a finished run in its results directory.

    Args:
        manifest: content of its manifest. usage: what the run took.
        inputs: name and SHA-256 of each data file that was read.
    """
    with writing(directory):
        content = {"@context": [f"{VERSION}/context", TERMS], "@graph": graph(directory, manifest, usage, inputs)}
        write_whole(directory / CRATE, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def graph(
    directory: Path, manifest: Mapping[str, Any], usage: Usage, inputs: Iterable[tuple[str, str]]
) -> list[Entity]:
    """The entities of the metadata; arguments as of `write_crate`."""
    name, kind = manifest["name"], manifest["kind"]
    files, keys, data = list(_files(directory)), list(_keys(manifest)), list(_inputs(inputs))
    software, used = _software(manifest["versions"]), list(_usage(directory, usage))
    read, written = files[:1], files[1:]
    root = {
        "@id": ROOT,
        "@type": "Dataset",
        "name": f"p2p-sim {kind} of {name}",
        "description": f"Results of a simulation of label exchange: {kind} of the scenario {name}, seed "
        f"{manifest['seed']}, {manifest['replicates']} replicates. The manifest has the whole scenario.",
        "identifier": manifest["identity"],
        "datePublished": usage.ended.isoformat(timespec="seconds"),
        "license": {"@id": LICENCE},
        "conformsTo": {"@id": PROFILE},
        "hasPart": _references(files),
        "mentions": {"@id": RUN},
    }
    run = {
        "@id": RUN,
        "@type": "CreateAction",
        "name": f"p2p-sim {kind} of {name}",
        "description": "Replicates that were finished earlier are kept, and not run again.",
        "instrument": {"@id": f"#software/{PACKAGE}"},
        "object": _references([*read, *data, *keys]),
        "result": _references(written),
        "startTime": usage.began.isoformat(timespec="seconds"),
        "endTime": usage.ended.isoformat(timespec="seconds"),
        "actionStatus": "http://schema.org/CompletedActionStatus",
        "resourceUsage": _references(used),
    }
    return [*_frame(), root, run, *software, *files, *data, *keys, *used]


def _frame() -> Iterator[Entity]:
    """What every crate says of itself."""
    yield {"@id": CRATE, "@type": "CreativeWork", "about": {"@id": ROOT}, "conformsTo": {"@id": VERSION}}
    yield {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    yield {
        "@id": LICENCE,
        "@type": "CreativeWork",
        "name": "No licence is stated",
        "description": "Whoever publishes these results names their licence here.",
    }


def _references(entities: list[Entity]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]


def _files(directory: Path) -> Iterator[Entity]:
    """The files of the directory, the manifest first."""
    for name, (media, text) in FILES.items():
        path = directory / name
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = str(path.stat().st_size)
            known = {"name": name, "description": text, "encodingFormat": media, "contentSize": size, "sha256": digest}
            yield {"@id": name, "@type": "File", **known}


def _inputs(inputs: Iterable[tuple[str, str]]) -> Iterator[Entity]:
    for digest, name in {digest: name for name, digest in inputs}.items():
        text = "A data file that was read; it is not part of this crate"
        known = {"name": name, "description": text, "sha256": digest}
        yield {"@id": f"#data/{digest[:16]}", "@type": "CreativeWork", **known}


def _software(versions: Mapping[str, str]) -> Iterator[Entity]:
    """The simulator, then Python, the libraries and plug-ins it ran with."""
    needed = [{"@id": f"#software/{quote(name)}"} for name in versions if name != PACKAGE]
    for name, version in versions.items():
        known = {"name": name, "softwareVersion": version}
        more = {"softwareRequirements": needed} if name == PACKAGE else {}
        yield {"@id": f"#software/{quote(name)}", "@type": "SoftwareApplication", **known, **more}


def _keys(manifest: Mapping[str, Any]) -> Iterator[Entity]:
    """The keys of the scenario with their values, the axes of a sweep, and what a search is."""
    for key, value in _flat(manifest["scenario"]):
        yield _property(f"#scenario/{quote(key)}", key, value)
    for axis in manifest["axes"]:
        for place, key in enumerate(axis["keys"]):
            text = "Values along an axis"
            yield _property(f"#axis/{quote(key)}", key, [step[place] for step in axis["values"]], description=text)
    for key, value in _flat({name: manifest[name] for name in SEARCH if name in manifest}):
        yield _property(f"#search/{quote(key)}", key, value, description="Of the search for settings")
    for one in manifest.get("space", ()):
        text = json.dumps({name: value for name, value in one.items() if name != "key"}, ensure_ascii=False)
        yield _property(f"#space/{quote(one['key'])}", one["key"], text, description="What the search chose from")


def _flat(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values; a key without a value is left out."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        elif value is not None:
            yield f"{path}{name}", value


def _property(place: str, name: str, value: Any, **more: str) -> Entity:
    """A value under a name; lists are JSON text."""
    plain = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return {"@id": place, "@type": "PropertyValue", "name": name, "value": plain, **more}


def _usage(directory: Path, usage: Usage) -> Iterator[Entity]:
    """What the run took, as far as it is known."""
    told = (
        ("replicate_s", _replicate_s(directory), "s", "Seconds of all replicates on disk, one after another"),
        ("wall_s", usage.wall_s, "s", "Seconds of the last call, which runs only what was missing"),
        ("cpu_s", usage.cpu_s, "s", "Processor seconds of the last call, with its workers on this machine"),
        ("peak_bytes", usage.peak_bytes, "B", "Most memory of the process of the last call, without its workers"),
    )
    for name, value, unit, text in told:
        if value is not None:
            yield _property(f"#usage/{name}", name, round(value, 3), unitText=unit, description=text)


def _replicate_s(directory: Path) -> float | None:
    """Seconds of all replicates on disk; None where the file of times is damaged."""
    try:
        return float(sum(line["wall_s"] for line in read_lines(directory / "timings.jsonl")))
    except (InputError, KeyError, TypeError, ValueError):
        return None
