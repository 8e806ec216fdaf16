"""Errors of one clear line, suggestions for wrong names, and checks of arguments. This module loads fast."""

import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

LONGEST_LINE, LONGEST_QUOTE = 500, 100
"""Largest number of characters of a message that stays whole, and of a value that a message quotes."""


def needs(packages: str, extra: str) -> str:
    """The end of a message that says which packages are missing and which extra of p2p-sim installs these.

    >>> needs("Optuna", "tune")
    "needs Optuna: pip install -e '.[tune]' in the project's directory"
    """
    return f"needs {packages}: pip install -e '.[{extra}]' in the project's directory"


class InputError(Exception):
    """A mistake in the input: one clear line that names the key or file, the value and what is allowed.

    The message may quote any input. Line breaks and unprintable characters are escaped, and a long message loses its
    middle.

    Args:
        message: the line. With several mistakes, it has the first mistake and the number of further mistakes.
        mistakes: all mistakes, a line each; if absent, `message` is the only mistake.
    """

    def __init__(self, message: str, mistakes: Sequence[str] = ()) -> None:
        super().__init__(_one_line(message))
        self.mistakes = tuple(map(_one_line, mistakes or [message]))

    def within(self, where: object) -> "InputError":
        """An error with the same mistakes, in which each line begins with the file or place `where`."""
        return InputError(f"{where}: {self}", [f"{where}: {mistake}" for mistake in self.mistakes])


def _one_line(message: str) -> str:
    """The message with unprintable characters escaped. A message of more than 500 characters loses its middle."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"


class RunFailed(Exception):  # noqa: N818
    """The error of a run that cannot go on although its input is right, in one clear line. Finished rows are kept."""


def shortened(text: str) -> str:
    """A text as a message quotes it. A text of more than 100 characters is cut to 100, and ends in "..."."""
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."


def nearest(name: str, choices: Iterable[str]) -> str:
    """The end of a message that suggests the choice nearest to a wrong name: "; did you mean ...?", or nothing.

    Whole names are compared first. If no choice is near, the last parts of dotted names are compared.

    >>> nearest("los", ["seed", "network.loss"]), nearest("x", ["seed"])
    ('; did you mean network.loss?', '')
    """
    import difflib

    choices = list(choices)
    ends = {choice.rsplit(".", 1)[-1]: choice for choice in reversed(choices)}
    close = difflib.get_close_matches(name, choices, 1, 0.5) or [
        ends[end] for end in difflib.get_close_matches(name.rsplit(".", 1)[-1], ends, 1, 0.5)
    ]
    return f"; did you mean {close[0]}?" if close else ""


def is_a(value: object) -> str:
    """The part of a message that states a wrong value and its type, such as "= 0.1 (float)". The value is
    stated for None, truth values, texts, numbers of the types int and float, lists, tuples and dictionaries. For
    other objects, only the type is stated, such as "is a Graph".
    """
    kind = type(value).__name__
    plain = isinstance(value, str | int | float | list | tuple | dict | None)
    return f"= {shortened(repr(value))} ({kind})" if plain else f"is a {kind}"


def path_of(name: str, value: object) -> Path:
    """The path that an argument gives as a text or as a path.

    Args:
        name: the argument's name, for messages. value: its value.

    Raises:
        InputError: the value is neither a text nor a path.
    """
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name} {is_a(value)}: must be a path")
    return Path(value)


def optional_path(name: str, value: object) -> Path | None:
    """The path that an argument gives as a text or as a path; None if the argument is None.

    Args:
        name: the argument's name, for messages. value: its value.

    Raises:
        InputError: the value is something else.
    """
    return None if value is None else path_of(name, value)


def count_of(name: str, value: Any, least: int) -> int:
    """A whole number that an argument gives in a type of Python or NumPy. The number must be at least `least`.

    Args:
        name: the argument's name, for messages. value: its value. least: the smallest number allowed.

    Raises:
        InputError: the value is something else, such as 3.0 or True.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise InputError(f"{name} {is_a(value)}: must be a whole number, at least {least}")
    return number


def axes_of_matplotlib(name: str, value: Any) -> Any:
    """The Matplotlib axes that an argument gives, checked; None if the argument is None.

    Args:
        name: the argument's name, for messages. value: its value.

    Raises:
        InputError: the value is something else.
    """
    from matplotlib.axes import Axes

    if value is not None and not isinstance(value, Axes):
        raise InputError(f"{name} {is_a(value)}: must be matplotlib axes, such as plt.subplots()[1]")
    return value
