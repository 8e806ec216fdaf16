"""Where texts and bars go: consoles that follow NO_COLOR and take no text for markup."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(stderr: bool = False) -> "Console":
    """A console of standard output, or of standard error; without colours and styles where NO_COLOR is set."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(stderr=stderr, color_system=None if plain else "auto", markup=False, highlight=False)
