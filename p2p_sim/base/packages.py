"""The version of p2p-sim, and a digest of an installed package's code."""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution
from pathlib import Path, PurePosixPath


def code_digest(distribution: Distribution | None, modules: Iterable[str]) -> str:
    """SHA-256, as hexadecimal digits, of the names and contents of all `.py` files of an installed package.

    The files are the given modules, all modules and packages that the metadata name, and everything below these. Data
    files, compiled modules and dependencies are left out.

    Args:
        distribution: the package's metadata; None: unknown. modules: dotted names of its modules.
    """
    homes: dict[str, Path] = {}
    for name in sorted({*modules, *_named(distribution)}):
        if (home := _place_of(name)) is not None:
            homes.update([home])
    homes.update(_beside_a_path_file(distribution))
    digest = hashlib.sha256()
    for name, path in sorted(homes.items()):
        for file in _python_files(path):
            inner = "" if file == path else file.relative_to(path).as_posix()
            code = file.read_bytes()
            digest.update(f"{name}/{inner} {len(code)}\n".encode() + code)
    return digest.hexdigest()


def _named(distribution: Distribution | None) -> Iterator[str]:
    """Yields the dotted names of an installed package's modules, from the metadata. First come the names in
    `top_level.txt`. Then comes a name for each `.py` file in `RECORD`, such as "a.b" for a/b.py and "a" for
    a/__init__.py. Names may occur twice. distribution: the metadata; None: nothing is yielded.
    """
    if distribution is None:
        return
    yield from (distribution.read_text("top_level.txt") or "").split()
    for file in (distribution.files or ()) if distribution.read_text("RECORD") else ():
        parts = PurePosixPath(file).with_suffix("").parts
        if PurePosixPath(file).suffix != ".py" or not all(part.isidentifier() for part in parts):
            continue
        if not parts[0].startswith("__editable__"):  # files of editable installs, without code
            yield ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _place_of(name: str) -> tuple[str, Path] | None:
    """The shortest beginning of a dotted name that is a module or package with code, and the module's file or package's
    folder. None if there is no such beginning.

    Packages without code are skipped: several installed packages may share such a namespace. The named module is not
    imported.
    """
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        dotted = ".".join(parts[:count])
        try:
            spec = importlib.util.find_spec(dotted)
        except (ImportError, ValueError, AttributeError):
            return None
        if spec is None:
            return None
        if spec.origin is not None and spec.has_location:
            path = Path(spec.origin)
            return dotted, path if spec.submodule_search_locations is None else path.parent
    return None


def _beside_a_path_file(distribution: Distribution | None) -> Iterator[tuple[str, Path]]:
    """Yields the modules and packages directly inside the folders that an editable install adds to the import path.
    Each has its name and path. The folders are the lines of the install's `.pth` files. Nothing is yielded if the
    metadata are None, or have a file `top_level.txt`.
    """
    if distribution is None or distribution.read_text("top_level.txt") is not None:
        return
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        if path.suffix != ".pth" or not path.is_file():
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            folder = path.parent / line.strip()
            if not line.strip() or line.startswith(("#", "import ", "import\t")) or not folder.is_dir():
                continue
            for entry in folder.iterdir():
                if entry.suffix == ".py" or (entry / "__init__.py").is_file():
                    yield entry.stem, entry


def _python_files(path: Path) -> Iterator[Path]:
    """Yields a Python file itself, or all Python files below a folder in a fixed order.

    Links are followed, but each folder is entered only once.
    """
    if path.is_file():
        if path.suffix == ".py":
            yield path
        return
    entered = set()
    for here, folders, names in os.walk(path, followlinks=True):
        real = os.path.realpath(here)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(here, name) for name in sorted(names) if name.endswith(".py"))


PACKAGE = "p2p-sim"


def version() -> str:
    """The version of p2p-sim."""
    return importlib.metadata.version(PACKAGE)


def url() -> str | None:
    """The project's address on the web: the first address in the package's metadata; None if there is none."""
    named = importlib.metadata.metadata(PACKAGE).get_all("Project-URL") or ()
    return next((line.rpartition(", ")[2] for line in named), None)


def versions() -> dict[str, str]:
    """The versions of p2p-sim, Python and NumPy, by name. Results depend most on these. Nothing is imported."""
    return {PACKAGE: version(), "Python": platform.python_version(), "NumPy": importlib.metadata.version("numpy")}
