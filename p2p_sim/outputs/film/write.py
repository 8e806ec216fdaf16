"""The file of a film: checked before anything runs, written whole or not at all."""

import os
from pathlib import Path

from p2p_sim.base.errors import InputError
from p2p_sim.base.files import write_whole, writing
from p2p_sim.outputs.film.page import film_html
from p2p_sim.outputs.network_record import ObservedNetwork


def check_film(path: Path) -> None:
    """Refuse a file that could not be written.

    Raises:
        InputError: it has a wrong ending, is a directory, or its directory is not there or takes no files.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--film {path}: must end in .html or .htm")
    if path.is_dir():
        raise InputError(f"--film {path}: is a directory")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"--film {path}: cannot be written; its directory must be there")


def write_film(run: ObservedNetwork, path: Path) -> None:
    """Write the film of a run as one page, over an earlier one."""
    with writing(path):
        write_whole(path, film_html(run).encode())
