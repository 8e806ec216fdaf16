"""Finds scenario and sweep files by name: files that come with p2p-sim, and own files of the person who runs it."""

import contextlib
import importlib.metadata
import tomllib
import warnings
from functools import cache
from pathlib import Path

from p2p_sim.base.errors import InputError, nearest, shortened
from p2p_sim.base.whole_files import no_file

PACKAGE = Path(__file__).parent.parent


_AROUND = PACKAGE
if not (PACKAGE / "scenarios").is_dir():
    # A checkout has the files beside the package. There the file pyproject.toml must name this project.
    with contextlib.suppress(OSError, KeyError, ValueError):
        if (
            tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
            == "p2p-sim"
        ):
            _AROUND = PACKAGE.parent
SCENARIOS, EXAMPLES = _AROUND / "scenarios", _AROUND / "examples"
"""Folders of the shipped files: inside an installed package, but beside the package in a checkout."""
SWEEPS = "sweeps/"
"""The beginning of a shipped sweep's full name. The command `p2p-sim sweep` takes names without this beginning."""


@cache
def shipped() -> dict[str, Path]:
    """The files that come with p2p-sim, by full name. Examples of names are quickstart, network/loss, sweeps/users and
    own_mechanism/own.
    """
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for folder in (SCENARIOS, EXAMPLES)
        for path in sorted(folder.rglob("*.toml"))
        if path.name != "pyproject.toml"
    }


def named(name: str, sweep: bool) -> Path | None:
    """The path of the shipped file that has a name; None if there is none.

    Args:
        name: the full name, or a sweep's name without `sweeps/`. sweep: look among the sweeps first.
    """
    files, short = shipped(), SWEEPS + name
    return files.get(short) if sweep and short in files else files.get(name, files.get(short))


def find_scenario(name: str | Path, sweep: bool = False, folder: Path = Path()) -> Path:
    """The path of the scenario or sweep file that has a given name or path.

    A path is taken relative to `folder`. For a name, the file <name>.toml in `folder` is preferred to the shipped file
    of this name.

    Args:
        name: a path, such as mine.toml, or a name, such as quickstart or network/loss.
        sweep: look among the shipped sweeps first.
        folder: where own files are; default: the current directory.

    Raises:
        InputError: `name` is no path, and no file has this name.
    """
    path = folder / name
    if path.suffix == ".toml" or _is_there(path):
        return path
    text, own = Path(name).as_posix(), path.with_name(f"{path.name}.toml") if path.name else path
    shipped_path = named(text, sweep)
    if _is_there(own):
        if shipped_path is not None and not own.samefile(shipped_path):
            warnings.warn(f"{text}: your own file {own} is taken, not the one of this name of p2p-sim", stacklevel=2)
        return own
    if shipped_path is None:
        if (reason := no_file(path)) != "no such file":
            raise InputError(f"{shortened(text)}: {reason}; name a file in it")
        hint = nearest(text, [*shipped(), *(full.removeprefix(SWEEPS) for full in shipped())])
        raise InputError(
            f"{shortened(text)}: there is no such file, and nothing of p2p-sim has this name{hint} "
            "(`p2p-sim scenarios` lists what has)"
        )
    return shipped_path


def is_shipped(path: Path) -> bool:
    """Whether a file comes with p2p-sim."""
    return path in shipped().values()


def lacking(path: Path) -> str:
    """A message that names the missing plug-in of a shipped file. Empty if none is missing, or for another file."""
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
    """Whether a package is installed. `package` is the name for pip, which may differ from the module's name."""
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@cache
def plug_in_of(example: Path) -> dict[str, str]:
    """The kinds that an example of a plug-in adds, each with the name of the example's package. Scenarios choose
    mechanisms or learners by such kinds. The kinds stand in the file pyproject.toml in `example`, the folder of the
    package.
    """
    project = tomllib.loads((example / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {kind: project["name"] for kinds in project.get("entry-points", {}).values() for kind in kinds}


def _is_there(path: Path) -> bool:
    """Whether a path names a file or a pipe. False if no file can have this name."""
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False
