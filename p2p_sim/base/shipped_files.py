"""Scenarios, sweeps and the example of a plug-in that come with p2p-sim: found by name, beside the user's own files."""

import importlib.metadata
import tomllib
import warnings
from functools import cache
from pathlib import Path

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.base.whole_files import no_file

PACKAGE = Path(__file__).parent.parent


def _is_checkout(folder: Path) -> bool:
    """Whether a folder is a checkout of this project, by its pyproject.toml."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, ValueError):
        return False
    return bool(project["name"] == "p2p-sim")


_AROUND = PACKAGE.parent if not (PACKAGE / "scenarios").is_dir() and _is_checkout(PACKAGE.parent) else PACKAGE
SCENARIOS, EXAMPLES = _AROUND / "scenarios", _AROUND / "examples"
"""In the package where a wheel is installed, beside it in a checkout."""
SWEEPS = "sweeps/"
"""What the full name of a shipped sweep begins with; `p2p-sim sweep` takes the rest alone."""


@cache
def shipped() -> dict[str, Path]:
    """Files that come with p2p-sim, by full name: quickstart, network/loss, sweeps/users, own_mechanism/own."""
    files = {}
    for folder in (SCENARIOS, EXAMPLES):
        for path in sorted(folder.rglob("*.toml")):
            if path.name != "pyproject.toml":
                files[path.relative_to(folder).with_suffix("").as_posix()] = path
    return files


def named(name: str, sweep: bool) -> Path | None:
    """The shipped file of a name.

    Args:
        name: full, or of a sweep without `sweeps/`. sweep: look among the sweeps first.
    """
    files, short = shipped(), SWEEPS + name
    return files.get(short) if sweep and short in files else files.get(name, files.get(short))


def find_scenario(name: str | Path, sweep: bool = False, folder: Path = Path()) -> Path:
    """The file that is meant: a path as it is, else the user's own file <name>.toml, else the shipped one of the name.

    Args:
        name: a path, such as mine.toml, or a name, such as quickstart or network/loss.
        sweep: look among the shipped sweeps first.
        folder: where the user's own files are; default: the current directory.

    Raises:
        InputError: it is no path, and nothing has this name.
    """
    # a path is taken as it is
    path = folder / name
    if path.suffix == ".toml" or _is_there(path):
        return path
    text, own = Path(name).as_posix(), path.with_name(f"{path.name}.toml") if path.name else path
    shipped_path = named(text, sweep)
    # the user's own file of a name comes before the shipped one
    if _is_there(own):
        if shipped_path is not None and not own.samefile(shipped_path):
            warnings.warn(f"{text}: your own file {own} is taken, not the one of this name of p2p-sim", stacklevel=2)
        return own
    if shipped_path is None:
        from p2p_sim.base.errors import nearest

        if (reason := no_file(path)) != "no such file":
            raise InputError(f"{shortened(text)}: {reason}; name a file in it")
        hint = nearest(text, [*shipped(), *(full.removeprefix(SWEEPS) for full in shipped())])
        raise InputError(
            f"{shortened(text)}: there is no such file, and nothing of p2p-sim has this name{hint or ''} "
            "(`p2p-sim scenarios` lists what has)"
        )
    return shipped_path


def is_shipped(path: Path) -> bool:
    """Whether a file is one of those that come with p2p-sim."""
    return path in shipped().values()


def lacking(path: Path) -> str:
    """What must be installed before a shipped file can run: the package of its example; empty if nothing is missing."""
    if not (is_shipped(path) and path.is_relative_to(EXAMPLES)):
        return ""
    missing = sorted(name for name in {*plug_in_of(path.parent).values()} if not installed(name))
    if not missing:
        return ""
    return (
        f"needs the plug-in {', '.join(missing)}: `p2p-sim scenarios --copy-example DIR` copies it, "
        "`pip install --editable DIR` installs it"
    )


def installed(package: str) -> bool:
    """Whether a package is installed."""
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@cache
def plug_in_of(example: Path) -> dict[str, str]:
    """The kinds that an example's package offers: kind -> name of the package, read from its pyproject.toml."""
    project = tomllib.loads((example / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {kind: project["name"] for kinds in project.get("entry-points", {}).values() for kind in kinds}


def _is_there(path: Path) -> bool:
    """Whether a path names a file or a pipe; no error if no file can have such a name."""
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False
