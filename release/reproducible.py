"""The build backend: setuptools, with archives whose bytes depend on the names and contents of the files alone.

Moments, owners, access rights and the order of entries are the same for everybody. The moment is SOURCE_DATE_EPOCH
where that is set, else the first one that a wheel can name. The compression is the only part that another version of
zlib may change.
"""

import gzip
import io
import os
import shutil
import stat
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # the hooks that need no change
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.build_py import build_py

__all__ = [
    "BuildPy",
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
FIRST = 315_532_800
"""1 January 1980 in seconds since 1970."""

BESIDE = ("examples", "scenarios")
"""Folders beside the package in a checkout that are in it once installed."""


class BuildPy(build_py):
    """The package's files; in a wheel, with the folders that stand beside the package in a checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in BESIDE:
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(name, Path(self.build_lib) / "p2p_sim" / name, dirs_exist_ok=True, ignore=ignored)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """The source distribution; returns its file name."""
    name: str = build_meta.build_sdist(sdist_directory, config_settings)
    same_tar(Path(sdist_directory) / name, moment())
    return name


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """The wheel; returns its file name."""
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    same_zip(Path(wheel_directory) / name, moment())
    return name


def moment() -> int:
    """When everything is said to have been made, in seconds since 1970."""
    return max(FIRST, int(os.environ.get("SOURCE_DATE_EPOCH") or FIRST))


def same_tar(path: Path, when: int) -> None:
    """Write a compressed tar archive again, in order, without owners and with one moment."""
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.linkname, entry.size = member.type, member.linkname, member.size
            entry.mtime, entry.mode = when, 0o755 if member.isdir() else 0o644
            new.addfile(entry, old.extractfile(member) if member.isreg() else None)
    with path.open("wb") as file, gzip.GzipFile("", "wb", mtime=when, fileobj=file) as out:
        out.write(packed.getvalue())


def same_zip(path: Path, when: int) -> None:
    """Write a wheel again, its own records last, with one moment."""
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist() if not name.endswith("/")}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(content, key=lambda name: (".dist-info/" in name, name)):
            entry = zipfile.ZipInfo(name, time.gmtime(when)[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (stat.S_IFREG | 0o644) << 16
            entry.create_system = 3  # Unix, whose access rights these are
            new.writestr(entry, content[name])
