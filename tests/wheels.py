"""Building the project into a wheel, from a copy of what it is built from, so that the checkout stays clean."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

SOURCES = (
    "p2p_sim", "analysis", "scenarios", "examples", "release", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE",
)  # fmt: skip
BACKEND = """
import sys
sys.path.insert(0, "release")
import reproducible
print(getattr(reproducible, sys.argv[1])(sys.argv[2]))
"""


def copied(folder: Path) -> Path:
    """The files that a wheel is made of, with the links between them, as they are in the checkout."""
    folder.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=skipped)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def built(source: Path, hook: str, out: Path) -> Path:
    """A wheel ("build_wheel") or a source distribution ("build_sdist") of a folder, by the build backend itself."""
    setuptools = pytest.importorskip("setuptools", "77.0.3")  # knows SPDX licences
    assert setuptools is not None
    out.mkdir(exist_ok=True)
    call = [sys.executable, "-c", BACKEND, hook, str(out)]
    done = subprocess.run(call, cwd=source, capture_output=True, text=True, check=True)
    return out / done.stdout.splitlines()[-1]


def unpacked(archive: Path, folder: Path) -> Path:
    """The content of a wheel, or the one folder of a source distribution."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
        return folder
    with tarfile.open(archive) as files:
        if hasattr(tarfile, "data_filter"):  # absent from the first versions of Python 3.11
            files.extraction_filter = tarfile.data_filter
        files.extractall(folder)
    [top] = folder.iterdir()
    return top


def names(wheel: Path) -> dict[str, int]:
    """Files of a wheel and their checksums, but for the list of its files."""
    with zipfile.ZipFile(wheel) as files:
        return {entry.filename: entry.CRC for entry in files.infolist() if not entry.filename.endswith("/RECORD")}
