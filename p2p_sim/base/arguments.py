"""Arguments of the public functions: a wrong type is one line with the argument, what came and what is allowed."""

import operator
import os
from pathlib import Path
from typing import Any

from p2p_sim.base.errors import InputError, shortened


def is_a(value: object) -> str:
    """What came, in a few words: "= 0.1 (float)"."""
    kind = type(value).__name__
    plain = isinstance(value, str | int | float | list | tuple | dict | None)
    return f"= {shortened(repr(value))} ({kind})" if plain else f"is a {kind}"


def path_of(name: str, value: object) -> Path:
    """A path, from text or a path."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name} {is_a(value)}: must be a path")
    return Path(value)


def optional_path(name: str, value: object) -> Path | None:
    """A path, or None."""
    return None if value is None else path_of(name, value)


def count_of(name: str, value: Any, least: int) -> int:
    """A whole number, of Python or NumPy, that is not too small."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise InputError(f"{name} {is_a(value)}: must be a whole number, at least {least}")
    return number


def axes_of_matplotlib(name: str, value: Any) -> Any:
    """Matplotlib axes, or None."""
    from matplotlib.axes import Axes

    if value is not None and not isinstance(value, Axes):
        raise InputError(f"{name} {is_a(value)}: must be matplotlib axes, such as plt.subplots()[1]")
    return value
