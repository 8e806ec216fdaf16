"""What can go wrong; loads nothing, so that the command line starts quickly."""

from collections.abc import Sequence

LONGEST_LINE, LONGEST_QUOTE = 500, 100
"""Characters of a message, and of a value in it, which may be as long as a file."""


def needs(packages: str, extra: str) -> str:
    """That packages are missing which an extra brings, as the end of a message.

    >>> needs("Optuna", "tune")
    "needs Optuna: pip install -e '.[tune]' in the project's directory"
    """
    return f"needs {packages}: pip install -e '.[{extra}]' in the project's directory"


class InputError(Exception):
    """A mistake in the input: one clear line that names the key or file, the value and what is allowed.

    The message may quote any input: line breaks and other characters that cannot be printed are escaped, and the middle
    of a long message is left out.

    Args:
        message: the line; of several mistakes, the first and how many more there are.
        mistakes: all of them, a line each, where there are several.
    """

    def __init__(self, message: str, mistakes: Sequence[str] = ()) -> None:
        super().__init__(_one_line(message))
        self.mistakes = tuple(map(_one_line, mistakes or [message]))

    def within(self, where: object) -> "InputError":
        """The same mistakes in a file, which each line then names."""
        return InputError(f"{where}: {self}", [f"{where}: {mistake}" for mistake in self.mistakes])


def _one_line(message: str) -> str:
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"


class RunFailed(Exception):  # noqa: N818
    """A run cannot go on, through no fault of its input: one clear line; what is finished is on disk."""


def shortened(text: str) -> str:
    """A text as a message quotes it: the beginning of a long one."""
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."
