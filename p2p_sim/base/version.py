"""The version: written in pyproject.toml alone, and read from what is installed."""

import importlib.metadata
import platform

PACKAGE = "p2p-sim"


def version() -> str:
    """The version of p2p-sim."""
    return importlib.metadata.version(PACKAGE)


def url() -> str | None:
    """The project's address on the web: the first that its package names; None while it names none."""
    named = importlib.metadata.metadata(PACKAGE).get_all("Project-URL") or ()
    return next((line.rpartition(", ")[2] for line in named), None)


def versions() -> dict[str, str]:
    """What results depend on most: the versions of p2p-sim, Python and NumPy; nothing is imported."""
    return {PACKAGE: version(), "Python": platform.python_version(), "NumPy": importlib.metadata.version("numpy")}
