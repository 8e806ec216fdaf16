"""Packages with plug-ins, installed without any installer: a folder with modules and their metadata."""

import shutil
import tomllib
from pathlib import Path

from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "own_mechanism"


def install(
    folder: Path, name: str, version: str, entries: dict[str, dict[str, str]], module: str | None = None
) -> None:
    """Write a package's metadata, as an installer would, and its module of the same name, if it has one.

    Args:
        folder: on the import path. entries: by group, kind and where its class is.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{kind} = {where}\n" for kind, where in kinds.items())
        for group, kinds in entries.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    if module is not None:
        (folder / f"{name}.py").write_text(module)


def install_example(folder: Path, version: str | None = None) -> None:
    """The example package, as its pyproject.toml says it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    install(folder, project["name"], version or project["version"], project["entry-points"])
    for module in EXAMPLE.glob("*.py"):
        shutil.copy(module, folder)
